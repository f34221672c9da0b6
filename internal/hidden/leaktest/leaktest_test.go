package leaktest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const value = `pl4nted/"va<l>u&e" +ü?`

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestScanFindsWhatIsPlanted plants a value in each form among other bytes: every one is found, and nothing where there is
// nothing. The tests that prove that no secret leaks rest on this.
//
// Covers: issue4 secret leaks
func TestScanFindsWhatIsPlanted(t *testing.T) {
	asJSON, err := json.Marshal(map[string]string{"a": "before " + value + " after"})
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string][]byte{
		"plain": []byte("x" + value + "y"), "JSON": asJSON, "hex": []byte(hex.EncodeToString([]byte("x" + value + "y"))),
		"HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(value)))), "query": []byte("a=" + url.QueryEscape(value) + "&b=1"),
		"path": []byte("/x/" + url.PathEscape(value) + "/y"), "HTML": []byte("<b>" + html.EscapeString(value) + "</b>"),
		"gzip": append([]byte("noise \x1f\x8b\x08 noise"), zipped(t, []byte("x"+value))...), "gzip in gzip": zipped(t, zipped(t, []byte(value))),
		"a gzip cut off": zipped(t, append([]byte(value), bytes.Repeat([]byte("0123456789"), 10)...))[:60],
		"JSON in gzip":   zipped(t, asJSON),
	}
	for shift := range 5 {
		inside := []byte(strings.Repeat("z", shift) + value + "tail")
		planted["base64 "+strings.Repeat("+", shift)] = []byte("x" + base64.StdEncoding.EncodeToString(inside))
		planted["base64url "+strings.Repeat("+", shift)] = []byte(base64.URLEncoding.EncodeToString(inside))
	}
	for name, data := range planted {
		if len(Scan(data, value)) == 0 {
			t.Errorf("%s: not found in %q", name, data)
		}
		if got := Scan(data, "an0ther value"); len(got) > 0 {
			t.Errorf("%s: another value is found in it: %v", name, got)
		}
	}
	if got := Scan([]byte("nothing here \x1f\x8b\x08 and no stream"), value); len(got) > 0 {
		t.Error(got)
	}
}

// TestFolderNamesTheFile looks through a folder and names the file that holds one of the values.
//
// Covers: issue4 secret leaks
func TestFolderNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a": "nothing", "sub/b": "x" + value} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, files, err := Folder(dir, "an0ther value", value)
	if err != nil || files != 2 || len(found) == 0 || !strings.Contains(found[0], "sub/b holds value 2") {
		t.Errorf("%v in %d files, %v", found, files, err)
	}
	if _, _, err := Folder(filepath.Join(dir, "nowhere"), value); err == nil {
		t.Error("a folder that is not there holds nothing, and nobody says that it is not there")
	}
}

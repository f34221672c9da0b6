// Package leaktest looks for values that must not be anywhere, in whatever form a program may have written them. It is for
// tests.
package leaktest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	maxUnpacked = 64 << 20 // bytes of one gzip stream
	maxNested   = 3        // gzip streams inside each other
)

// Forms gives a value in every form that is looked for, by name of the form. The value must have at least 8 bytes: shorter
// ones are found by chance.
func Forms(value string) map[string][]byte {
	forms := map[string][]byte{
		"plain": []byte(value), "Go-quoted": unquote(strconv.Quote(value)), "ASCII-quoted": unquote(strconv.QuoteToASCII(value)),
		"query-escaped": []byte(url.QueryEscape(value)), "path-escaped": []byte(url.PathEscape(value)), "HTML-escaped": []byte(html.EscapeString(value)),
		"hex": []byte(hex.EncodeToString([]byte(value))), "HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(value)))),
	}
	if b, err := json.Marshal(value); err == nil {
		forms["JSON-escaped"] = b[1 : len(b)-1]
	}
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) == nil {
		forms["JSON"] = bytes.Trim(bytes.TrimSpace(plain.Bytes()), `"`)
	}
	for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		for shift := range 3 { // bytes before it in the same group of three
			text := enc.EncodeToString(append(make([]byte, shift), value...))
			// The characters at the ends hold bits of the neighbours too.
			begin, end := (shift*8+5)/6, (shift+len(value))*8/6
			forms[fmt.Sprintf("%s shifted by %d", name, shift)] = []byte(text[begin:end])
		}
	}
	return forms
}

func unquote(s string) []byte { return []byte(s[1 : len(s)-1]) }

// Scan names the forms in which data holds a value, gzip streams in it unpacked.
func Scan(data []byte, value string) []string { return scan(data, Forms(value), "", 0) }

func scan(data []byte, forms map[string][]byte, where string, depth int) (found []string) {
	for name, form := range forms {
		if bytes.Contains(data, form) {
			found = append(found, where+name)
		}
	}
	if depth == maxNested {
		return found
	}
	for at := 0; ; at++ {
		i := bytes.Index(data[at:], []byte{0x1f, 0x8b, 8})
		if i < 0 {
			return found
		}
		at += i
		z, err := gzip.NewReader(bytes.NewReader(data[at:]))
		if err != nil {
			continue
		}
		z.Multistream(false)
		// A stream that is cut off or damaged has still said what it holds up to there.
		inside, _ := io.ReadAll(io.LimitReader(z, maxUnpacked))
		found = append(found, scan(inside, forms, where+"gzip: ", depth+1)...)
	}
}

// Folder looks through every file below a folder. Each finding names file, value by its number, and form.
func Folder(dir string, values ...string) (found []string, files int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for n, v := range values {
			for _, form := range Scan(data, v) {
				found = append(found, fmt.Sprintf("%s holds value %d: %s", path, n+1, form))
			}
		}
		return nil
	})
	return found, files, err
}

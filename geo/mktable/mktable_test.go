package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"steerpoint/geo/internal/countryfile"
	"steerpoint/geo/internal/ranges"
)

// archive makes an npm archive of files.
func archive(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.tgz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func countries(t *testing.T, networks map[string]string) []byte {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "country", IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for prefix, code := range networks {
		_, network, err := net.ParseCIDR(prefix)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Insert(network, mmdbtype.Map{"country_code": mmdbtype.String(code)}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTableFromArchive proves the way from an archive to the file and its README: origin kept, special blocks and
// codes that are no countries left out, equal bytes each time.
func TestTableFromArchive(t *testing.T) {
	path := archive(t, map[string][]byte{
		"package/package.json":  []byte(`{"name": "@x/country", "version": "2.3.2026061719", "license": "CC0-1.0"}`),
		"package/small.mmdb":    []byte("too small to be the one"),
		"package/combined.mmdb": countries(t, map[string]string{"1.0.0.0/24": "AU", "192.168.0.0/16": "AU", "2.0.0.0/16": "FR", "5.0.0.0/16": "EU", "2400::/12": "CN"}),
	})
	out := t.TempDir()
	if err := run(path, out); err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(filepath.Join(out, "country.bin.gz"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := countryfile.Decode(packed)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(table.Countries, " "); got != "AU CN FR" {
		t.Errorf("countries %q, want AU CN FR", got)
	}
	if got := table.Date.Format("2006-01-02"); got != "2026-06-17" || table.Licence != "CC0-1.0" || table.Source != "@x/country 2.3.2026061719" {
		t.Errorf("origin %s, %s, %s", got, table.Licence, table.Source)
	}
	for addr, want := range map[ranges.V4]uint16{0x01000001: 1, 0x02000001: 3, 0x05000001: 0, 0xc0a80001: 0} {
		if got := table.V4.Values[table.V4.Find(addr)]; got != want {
			t.Errorf("%s has value %d, want %d", addr.Addr(), got, want)
		}
	}
	readme, err := os.ReadFile(filepath.Join(out, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"@x/country, version 2.3.2026061719", "2026-06-17", "CC0-1.0", "nro.net", "3 countries", "| 1 networks"} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README does not say %q:\n%s", want, readme)
		}
	}
	if err := run(path, out); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(out, "country.bin.gz")); err != nil || !bytes.Equal(again, packed) {
		t.Errorf("made again it differs: %v", err)
	}
}

// TestArchiveRefused proves that a wrong archive leaves the old table alone.
func TestArchiveRefused(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"no mmdb":    {"package/package.json": []byte(`{"name": "x", "version": "1", "license": "y"}`)},
		"no licence": {"package/package.json": []byte(`{"name": "x", "version": "1"}`), "a.mmdb": countries(t, map[string]string{"1.0.0.0/24": "AU"})},
		"bad mmdb":   {"package/package.json": []byte(`{"name": "x", "version": "1", "license": "y"}`), "a.mmdb": []byte("x")},
		"bad json":   {"package/package.json": []byte(`{`)},
	} {
		out := t.TempDir()
		if err := run(archive(t, files), out); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
			t.Errorf("%s: wrote %v, %v", name, left, err)
		}
	}
	if err := run(filepath.Join(t.TempDir(), "absent.tgz"), t.TempDir()); err == nil {
		t.Error("an absent archive is accepted")
	}
}

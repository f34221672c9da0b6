package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/cmd/steer/internal/fault"
)

// Options beat the file, the file beats the defaults; without either everything is on loopback.
// Covers: issue2 ports
func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		listen     []string
		want       map[string]string
	}{
		{"defaults", "", nil, map[string]string{"dns": "127.0.0.1:5300", "api": "127.0.0.1:7070", "health": "127.0.0.1:7079", "nodes": "", "nearest": "", "demo": "", "dot": "", "doh": "", "http": "", "https": ""}},
		{"empty file", "# nothing\n", nil, map[string]string{"dns": "127.0.0.1:5300", "api": "127.0.0.1:7070", "health": "127.0.0.1:7079", "nodes": "", "nearest": "", "demo": "", "dot": "", "doh": "", "http": "", "https": ""}},
		{"file", "listen: {dns: ':53'}\n", nil, map[string]string{"dns": ":53", "api": "127.0.0.1:7070", "health": "127.0.0.1:7079", "nodes": "", "nearest": "", "demo": "", "dot": "", "doh": "", "http": "", "https": ""}},
		{"options", "listen: {dns: ':53', api: '[::1]:80'}\n", []string{"dns=0.0.0.0:5353", "demo=9000"}, map[string]string{"dns": "0.0.0.0:5353", "api": "[::1]:80", "health": "127.0.0.1:7079", "nodes": "", "nearest": "", "demo": "127.0.0.1:9000", "dot": "", "doh": "", "http": "", "https": ""}},
		{"several", "listen: {dns: [':53', '[::1]:5353'], dot: '1.2.3.4:853, 853'}\n", []string{"doh=1.2.3.4:443", "doh=[::1]:443"}, map[string]string{"dns": ":53,[::1]:5353", "api": "127.0.0.1:7070", "health": "127.0.0.1:7079", "nodes": "", "nearest": "", "demo": "", "dot": "1.2.3.4:853,127.0.0.1:853", "doh": "1.2.3.4:443,[::1]:443", "http": "", "https": ""}},
		{"options over several", "listen: {dns: [':53', '[::1]:5353']}\n", []string{"dns=1.2.3.4:53", "dns=[::2]:53", "api=1", "api=2"}, map[string]string{"dns": "1.2.3.4:53,[::2]:53", "api": "127.0.0.1:2", "health": "127.0.0.1:7079", "nodes": "", "nearest": "", "demo": "", "dot": "", "doh": "", "http": "", "https": ""}},
		{"nodes", "listen: {nodes: ':7072'}\n", []string{"nodes=10.0.0.1:7073"}, map[string]string{"dns": "127.0.0.1:5300", "api": "127.0.0.1:7070", "health": "127.0.0.1:7079", "nodes": "10.0.0.1:7073", "nearest": "", "demo": "", "dot": "", "doh": "", "http": "", "https": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.file != "" {
				if err := os.WriteFile(filepath.Join(dir, File), []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Load(dir, tt.listen)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(Listen(tt.want), s.Listen); d != "" {
				t.Error(d)
			}
		})
	}
}

// Every mistake in file or options is bad input and is named.
func TestLoadErrors(t *testing.T) {
	for _, tt := range []struct {
		file, option, want string
	}{
		{"listne: {}\n", "", "line 1: field listne not found"},
		{"listen: {dns: localhost}\n", "", `"localhost" is not ADDR:PORT`},
		{"listen: {gateway: ':80'}\n", "", `no role "gateway"`},
		{"listen: [\n", "", "yaml: line "},
		{"listen: {dns: [{a: b}]}\n", "", "cannot unmarshal"},
		{"listen: {dns: []}\n", "", "is not ADDR:PORT"},
		{"listen: {dns: [':53', nowhere]}\n", "", `"nowhere" is not ADDR:PORT`},
		{"listen: {api: [':53', ':54']}\n", "", "is not ADDR:PORT"},
		{"", "dns", "--listen dns is not ROLE=ADDR:PORT"},
		{"", "dns=:70000", "no port from 0 to 65535"},
		{"", "smtp=:25", `no role "smtp"`},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		var options []string
		if tt.option != "" {
			options = []string{tt.option}
		}
		_, err := Load(dir, options)
		if fault.Exit(err) != fault.ExitBadInput || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("file %q option %q: %v, want %q", tt.file, tt.option, err, tt.want)
		}
	}
}

// The name server takes addresses: an empty host is both families, a name is refused.
func TestBind(t *testing.T) {
	for listen, want := range map[string]string{":53": "[0.0.0.0:53 [::]:53]", "1.2.3.4:53,[::1]:54": "[1.2.3.4:53 [::1]:54]", "[::1]:5300": "[[::1]:5300]", "localhost:53": "", "1.2.3.4": ""} {
		s := Settings{Listen: Listen{RoleDNS: listen}}
		got, err := s.Bind(RoleDNS)
		if want == "" {
			if fault.Exit(err) != fault.ExitBadInput {
				t.Errorf("Bind(%s): %v, want bad input", listen, err)
			}
			continue
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("Bind(%s) = %v, %v; want %s", listen, got, err, want)
		}
	}
}

// Geo data files with a relative path are in the data folder, wherever the process was started.
// Covers: issue4 geo settings
func TestGeoPaths(t *testing.T) {
	dir := t.TempDir()
	text := "geo: {databases: [geo/city.ipdb, /srv/asn.csv], lists: [own.list]}\n"
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Geo{Databases: []string{filepath.Join(dir, "geo", "city.ipdb"), "/srv/asn.csv"}, Lists: []string{filepath.Join(dir, "own.list")}}
	if d := cmp.Diff(want, s.Geo); d != "" {
		t.Error(d)
	}
}

// The file of the sealing key with a relative path is in the data folder; without one control knows where it is.
// Covers: issue4 seal key
func TestSealKeyPath(t *testing.T) {
	for text, want := range map[string]string{"": "", "seal: {keyFile: keys/seal.key}": "DIR/keys/seal.key", "seal: {keyFile: /run/seal.key}": "/run/seal.key"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want = strings.Replace(want, "DIR", dir, 1); s.Seal.KeyFile != want {
			t.Errorf("%q: %q, want %q", text, s.Seal.KeyFile, want)
		}
	}
}

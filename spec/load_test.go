package spec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A folder is read with all below it, in order; what cannot be read is an error among the others, and links that run in
// a circle are followed once.
//
// Covers: issue2 apply
func TestLoadFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("b.yaml", service(nil))
	write("sub/a.yml", testZone)
	write("sub/deep/c.JSON", `{"apiVersion":"steerpoint/v1","kind":"Override","name":"x","freeze":{"service":"shop"}}`)
	write("sub/bad.yaml", "kind: Servise\n")
	write("sub/dup.yaml", service(nil))
	write(".hidden.yaml", "not: read\n")
	write(".git/config.yaml", "not: read\n")
	write("README.md", "not read")
	for link, to := range map[string]string{
		"sub/circle": "..", "self": ".", "sub/again.yaml": "../b.yaml", "broken.yaml": "nowhere.yaml", "loop.yaml": "loop.yaml",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s, errs := LoadPath(dir)
	var keys []string
	for _, r := range s.Resources() {
		keys = append(keys, r.Key())
	}
	if diff := cmp.Diff([]string{"Service/shop", "Zone/main", "Override/x"}, keys); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, e := range errs {
		rel, err := filepath.Rel(dir, e.File)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rel+" "+e.Code)
	}
	want := []string{
		"broken.yaml " + CodeUnreadable, "loop.yaml " + CodeUnreadable,
		"sub/bad.yaml " + CodeUnknownKind, "sub/dup.yaml " + CodeDuplicateName,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r, _ := s.Get(KindService, "shop"); true {
		if file, line := r.File(); file != filepath.Join(dir, "b.yaml") || line != 1 {
			t.Errorf("shop comes from %s:%d", file, line)
		}
	}
}

// One file, standard input, and what does not exist.
func TestLoadOne(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.txt") // a file that is named is read whatever its name
	if err := os.WriteFile(file, []byte(service(nil)), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, stdin string
		want              []string
		resources         int
	}{
		{"a file", file, "", nil, 1},
		{"standard input", "-", testZone + "---\n" + service(nil), nil, 2},
		{"empty input", "-", "", []string{CodeUnreadable}, 0},
		{"endless input", "-", strings.Repeat("# more\n", 1<<20), []string{CodeTooLarge}, 0},
		{"nothing there", filepath.Join(dir, "none.yaml"), "", []string{CodeUnreadable}, 0},
		{"an empty folder", t.TempDir(), "", []string{CodeUnreadable}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, errs := loadPath(tt.path, strings.NewReader(tt.stdin))
			if !slices.Equal(codes(errs), tt.want) || s.Len() != tt.resources {
				t.Errorf("%d resources, errors %v", s.Len(), errs)
			}
		})
	}
}

// A file that may not be read is named.
func TestLoadUnreadable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "secret.yaml")
	if err := os.WriteFile(file, []byte(service(nil)), 0o000); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(file); err == nil {
		t.Skip("this user reads every file")
	}
	_, errs := LoadPath(dir)
	if !slices.Equal(codes(errs), []string{CodeUnreadable}) || errs[0].File != file {
		t.Error(errs)
	}
}

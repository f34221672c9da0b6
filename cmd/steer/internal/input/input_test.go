package input

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/control/api"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// A folder gives every resource file below it, in a fixed order; standard input and files keep the order given.
func TestRead(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", map[string]string{
		"d/b.yaml": "b", "d/a.yml": "a", "d/sub/c.json": "c", "d/notes.txt": "no", "d/.hidden.yaml": "no", "d/.git/x.yaml": "no",
		".one.yaml": "named by itself",
	})
	got, err := Read([]string{"-", "d", ".one.yaml"}, strings.NewReader("in"))
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Source{
		{File: "stdin", Content: "in"},
		{File: "d/a.yml", Content: "a"},
		{File: "d/b.yaml", Content: "b"},
		{File: "d/sub/c.json", Content: "c"},
		{File: ".one.yaml", Content: "named by itself"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// What cannot be read is bad input, and is named.
func TestReadErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", map[string]string{"empty/readme.txt": ""})
	for _, tt := range []struct {
		paths []string
		want  string
	}{
		{nil, "no resources were given"},
		{[]string{"absent.yaml"}, "cannot read absent.yaml"},
		{[]string{"empty"}, "the folder empty holds no resources"},
	} {
		_, err := Read(tt.paths, nil)
		if fault.Exit(err) != fault.ExitBadInput || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Read(%v): %v, exit %d; want %q, exit 2", tt.paths, err, fault.Exit(err), tt.want)
		}
	}
}

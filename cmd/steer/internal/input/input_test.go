package input

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	got, err := Read(t.Context(), []string{"-", "d", ".one.yaml"}, strings.NewReader("in"))
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
		_, err := Read(t.Context(), tt.paths, nil)
		if fault.Exit(err) != fault.ExitBadInput || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Read(%v): %v, exit %d; want %q, exit 2", tt.paths, err, fault.Exit(err), tt.want)
		}
	}
}

// A pipe that never ends does not outlive the command's context, and a folder's pipe is refused before it is opened.
// Covers: issue2 bad input
func TestPipes(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := Read(ctx, []string{"-"}, r); !errors.Is(err, context.Canceled) {
		t.Errorf("a silent pipe: %v, want the end of the context", err)
	}
	if err := errors.Join(os.Mkdir("d", 0o755), syscall.Mkfifo("d/x.yaml", 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(t.Context(), []string{"d"}, nil); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder with a pipe: %v", err)
	}
}

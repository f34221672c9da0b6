package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return "none"
	}
	return string(b)
}

func write(t *testing.T, f *File, s string) {
	t.Helper()
	if n, err := f.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("%d octets of %d, %v", n, len(s), err)
	}
}

// A file that would grow too large is renamed before that, the older ones with it, and the oldest goes.
//
// Covers: issue6 access log
func TestFileRotatesBySize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte("there\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, 12, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range []string{"one\n", "two\n", strings.Repeat("x", 20) + "\n", "three\n", "four\n"} {
		write(t, f, s)
	}
	for name, want := range map[string]string{"": "three\nfour\n", ".1": strings.Repeat("x", 20) + "\n", ".2": "two\n", ".3": "none"} {
		if got := content(t, path+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A file that another program has renamed is left when it is opened anew; where that fails it is written on.
//
// Covers: issue6 access log
func TestFileIsOpenedAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "access.log")
	if _, err := Open(path, 0, 0); err == nil {
		t.Fatal("a file in no folder was opened")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f, "one\n")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write(t, f, "two\n")
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	write(t, f, "three\n")
	if got := content(t, path+".old") + content(t, path); got != "one\ntwo\nthree\n" {
		t.Errorf("%q", got)
	}
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := f.Reopen(); err == nil {
		t.Error("a file in no folder was opened anew")
	}
	write(t, f, "four\n")
	if got := content(t, filepath.Join(moved, "access.log")); got != "three\nfour\n" {
		t.Errorf("%q", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

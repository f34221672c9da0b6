package folder

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSecondProcessIsRefused proves that a folder has one owner, that the error names it, and that it is free again
// after the owner is gone.
// Covers: issue2 two processes
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v; want one that names folder and process", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatalf("open after close: %v", err)
	}
	b.Close()
}

// TestFormats proves that a newer or damaged format file is refused and stays as it is.
// Covers: issue2 state files
func TestFormats(t *testing.T) {
	for name, content := range map[string]string{"newer": "steerpoint data-folder v2 0 sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n", "torn": "stee"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "format")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want an error that names %s", name, err, path)
		}
		if b, _ := os.ReadFile(path); string(b) != content {
			t.Errorf("%s: the file was changed to %q", name, b)
		}
	}
}

// TestToken proves that the token is made once, private, and that a loose or torn one is refused.
// Covers: issue2 tokens
func TestToken(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	one, err := d.Token()
	if err != nil || len(one) < 40 {
		t.Fatalf("token %q, %v", one, err)
	}
	if two, err := d.Token(); err != nil || two != one {
		t.Errorf("second read %q, %v", two, err)
	}
	path := filepath.Join(dir, "admin.token")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Token(); err == nil {
		t.Error("a token that others can read was taken")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Token(); err == nil {
		t.Error("an empty token was taken")
	}
}

// TestSuccessorOfAKilledProcess proves that a process that starts while the one before it is just ending gets the folder.
// Covers: issue2 two processes
func TestSuccessorOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	time.AfterFunc(2*retry, func() { closed <- a.Close() })
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-closed, b.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLockIsNoLink proves that a lock which leads to another file, as a user may lay it for root, is refused, and that the
// file is not touched.
// Covers: issue2 two processes
func TestLockIsNoLink(t *testing.T) {
	dir := t.TempDir()
	other, lock := filepath.Join(t.TempDir(), "other"), filepath.Join(dir, "lock")
	if err := os.WriteFile(other, []byte("of root"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, lay := range map[string]func() error{
		"a link":   func() error { return os.Symlink(other, lock) },
		"a folder": func() error { return os.Mkdir(lock, 0o700) },
		"a pipe":   func() error { return unix.Mkfifo(lock, 0o600) },
	} {
		if err := lay(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s, opened: %v", what, err)
		}
		if _, err := Claim(dir, nil); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s, claimed: %v", what, err)
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "of root" {
		t.Errorf("the other file holds %q now, %v", b, err)
	}
}

package folder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestClaim proves that a folder that is being filled cannot be opened, neither meanwhile nor after a crash; that it can be
// opened when it is finished, and is as it was when it is given up.
// Covers: issue4 backup, issue4 kill9
func TestClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	c, err := Claim(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("half")
	if err := c.lock.Close(); err != nil { // as the kernel does for a process that is killed
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrUnfinished) {
		t.Errorf("half filled: %v", err)
	}
	if c, err = Claim(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "half")); !os.IsNotExist(err) {
		t.Errorf("what was half done is still there: %v", err)
	}
	put("whole")
	if err := c.Finish(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Claim(path); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a folder in use: %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, "whole")); err != nil {
		t.Errorf("it was touched: %v", err)
	}
}

// TestAbandon proves that a folder that was there stays, empty, and one that was not is gone.
// Covers: issue4 backup
func TestAbandon(t *testing.T) {
	there, absent := t.TempDir(), filepath.Join(t.TempDir(), "a", "b")
	if err := os.Mkdir(filepath.Join(there, "lost+found"), 0o700); err != nil { // of a file system of its own
		t.Fatal(err)
	}
	for _, path := range []string{there, absent} {
		c, err := Claim(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "x", "y"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := c.Abandon(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, err := os.ReadDir(there); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(absent); !os.IsNotExist(err) {
		t.Errorf("it is there now: %v", err)
	}
}

package folder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClaim proves that a folder that is being filled cannot be opened, neither meanwhile nor after a crash; that after one
// it is filled anew, unless something that is not of the filling lies there; and that it can be opened when it is finished.
// Covers: issue4 backup, issue4 kill9
func TestClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	names := []string{"half", "whole"}
	c, err := Claim(path, names)
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
	put("seal.key") // of somebody who got ready for the start
	if _, err := Claim(path, names); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "seal.key") {
		t.Errorf("with a file that is not of the restore: %v", err)
	}
	for _, n := range []string{"half", "seal.key"} {
		if _, err := os.Stat(filepath.Join(path, n)); err != nil {
			t.Errorf("it was touched: %v", err)
		}
	}
	if err := os.Remove(filepath.Join(path, "seal.key")); err != nil {
		t.Fatal(err)
	}
	if c, err = Claim(path, names); err != nil {
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
	if _, err := Claim(path, names); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a folder in use: %v", err)
	}
	if _, err := os.Stat(filepath.Join(path, "whole")); err != nil {
		t.Errorf("it was touched: %v", err)
	}
}

// TestAbandon proves that a folder that was there stays, empty, and one that was not is gone, unless somebody put something
// into it meanwhile.
// Covers: issue4 backup
func TestAbandon(t *testing.T) {
	there, absent := t.TempDir(), filepath.Join(t.TempDir(), "a", "b")
	if err := os.Mkdir(filepath.Join(there, "lost+found"), 0o700); err != nil { // of a file system of its own
		t.Fatal(err)
	}
	for _, path := range []string{there, absent} {
		c, err := Claim(path, []string{"x"})
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
	c, err := Claim(absent, []string{"x"})
	for _, n := range []string{"x", "seal.key"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(absent, n), nil, 0o600)
		}
	}
	if err == nil {
		err = c.Abandon()
	}
	if left, readErr := os.ReadDir(absent); err != nil || len(left) != 1 || left[0].Name() != "seal.key" {
		t.Errorf("left: %v, %v, %v", left, err, readErr)
	}
}

// TestClaimBesideALink proves that a folder which holds nothing but a package's link to its settings is empty, and that the
// link stays, whatever comes of the claim.
// Covers: issue4 backup
func TestClaimBesideALink(t *testing.T) {
	path := t.TempDir()
	link := filepath.Join(path, "steer.yaml")
	if err := os.Symlink("/etc/steerpoint/control.yaml", link); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one is of a folder that a crash left
		c, err := Claim(path, []string{"steer.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Claim(path, []string{"steer.yaml"})
	if err == nil {
		err = c.Abandon()
	}
	if to, linkErr := os.Readlink(link); err != nil || to != "/etc/steerpoint/control.yaml" {
		t.Errorf("it leads to %q: %v, %v", to, err, linkErr)
	}
}

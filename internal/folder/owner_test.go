package folder

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOwner proves that who has a folder is told from who had it: by the lock, and not by what is in the file.
// Covers: issue2 two processes
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	if pid, ok, err := Owner(dir); ok || err != nil {
		t.Errorf("before the first: %d, %v, %v", pid, ok, err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid, ok, err := Owner(dir); pid != os.Getpid() || !ok || err != nil {
		t.Errorf("while it is open: %d, %v, %v", pid, ok, err)
	}
	if err := d.lock.Truncate(0); err != nil { // as on a full disk
		t.Fatal(err)
	}
	if pid, ok, err := Owner(dir); pid != 0 || !ok || err != nil {
		t.Errorf("without a number: %d, %v, %v", pid, ok, err)
	}
	writeOwner(d.lock)
	if err := d.Close(); err != nil { // as the kernel does for a process that is killed: the number stays
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, lockName)); err != nil || len(b) == 0 {
		t.Fatalf("the lock holds %q, %v", b, err)
	}
	if pid, ok, err := Owner(dir); ok || err != nil {
		t.Errorf("after it: %d, %v, %v", pid, ok, err)
	}
	if d, err = Open(dir); err != nil {
		t.Fatalf("asking keeps others out: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	link := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, lockName), filepath.Join(link, lockName)); err != nil {
		t.Fatal(err)
	}
	if pid, ok, err := Owner(link); ok || err == nil {
		t.Errorf("by a link: %d, %v, %v", pid, ok, err)
	}
}

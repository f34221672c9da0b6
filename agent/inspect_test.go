package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// An identity is read without a process: with its record, without it, and not when it is damaged.
// Covers: issue3 doctor
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	if _, err := Inspect(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	newFakeControl(t).enroll(t, dir, "n1", []string{"https://192.0.2.1:7072"}, RoleProbe)
	m, err := Inspect(dir)
	if err != nil || m.Name != "n1" || m.Cluster != "test" || !slices.Equal(m.Servers, []string{"https://192.0.2.1:7072"}) || m.Lifetime != life ||
		!slices.Equal(m.Roles, []string{RoleProbe}) || m.Certificate == nil || len(m.Authority) == 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := os.Remove(filepath.Join(dir, recordFile)); err != nil {
		t.Fatal(err)
	}
	if m, err := Inspect(dir); err != nil || m.Name != "n1" || len(m.Servers) != 0 {
		t.Errorf("without its record: %+v, %v", m, err)
	}
	if err := os.WriteFile(filepath.Join(dir, certFile), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := Inspect(dir); err == nil {
		t.Errorf("a damaged certificate: %+v", m)
	}
}

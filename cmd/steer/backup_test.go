package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/backup"
)

// smallBackup is a backup with nothing but a little state in it.
func smallBackup(t *testing.T, state string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := backup.NewWriter(&b, &backup.Manifest{Header: backup.Header{Program: "test", Created: time.Unix(1000, 0).UTC()}})
	if err == nil {
		err = errors.Join(w.Add(backup.CoreState, int64(len(state)), strings.NewReader(state)), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTwoBackupsToOnePath proves that a backup which ends while another to the same path is under way puts its own file
// there, whole, that the other one does so after it, and that nothing else is left.
// Covers: issue4 backup
func TestTwoBackupsToOnePath(t *testing.T) {
	files := [][]byte{smallBackup(t, "one"), smallBackup(t, "two")}
	// The first one has asked, the second one has asked, the first one has ended.
	asked, begun, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := calls.Add(1) - 1
		w.Header().Set("Content-Type", "application/gzip")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // a client that is gone fails the test by itself
		if n == 0 {
			close(asked)
			<-begun
		} else {
			close(begun) // its file was made before it asked
			<-ended
		}
		_, _ = w.Write(files[n])
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	take := func() chan error {
		done := make(chan error, 1)
		go func() {
			_, _, err := takeBackup(t.Context(), api.NewClient(s.URL, "t"), path, api.BackupParams{})
			done <- err
		}()
		return done
	}
	holds := func(want []byte) {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want) {
			t.Errorf("%d bytes that are not the backup, %v", len(b), err)
		}
	}
	first := take()
	<-asked
	second := take()
	if err := <-first; err != nil {
		t.Errorf("the first one: %v", err)
	}
	holds(files[0])
	close(ended)
	if err := <-second; err != nil {
		t.Errorf("the second one: %v", err)
	}
	holds(files[1])
	onlyFile(t, path)
}

func onlyFile(t *testing.T, path string) {
	t.Helper()
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("beside %s: %v, %v", path, list, err)
	}
}

// TestTwoExportsToOnePath proves the same of files that are written whole.
// Covers: issue4 tape
func TestTwoExportsToOnePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.timeline")
	err := writeWhole(path, func(outer io.Writer) error {
		if _, err := fmt.Fprintln(outer, "outer"); err != nil {
			return err
		}
		return writeWhole(path, func(w io.Writer) error { _, err := fmt.Fprintln(w, "inner"); return err })
	})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "outer\n" {
		t.Errorf("it holds %q, %v", b, err)
	}
	onlyFile(t, path)
}

package follow

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/snapshot"
)

// taker passes on the versions it is given, and refuses version 13.
type taker chan uint64

func (t taker) Swap(d *snapshot.DNS) error {
	if d.Version == 13 {
		return errors.New("MAP_INVALID: unlucky")
	}
	t <- d.Version
	return nil
}

func write(t *testing.T, path string, version uint64) {
	t.Helper()
	parts, err := (&snapshot.DNS{Version: version}).MarshalMap()
	if err == nil {
		err = atomicfile.WriteParts(path, fileKind, fileVersion, parts...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The map is taken at the start and after every change; what cannot be used, or goes away, changes nothing.
// Covers: A2, issue2 control killed
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := Path(dir)
	if path != filepath.Join(dir, FileName) || Path(path) != path {
		t.Fatalf("Path: %s", path)
	}
	got := make(taker, 1)
	f := &Follower{Path: path, Swap: got, Log: slog.New(slog.DiscardHandler), Poll: time.Millisecond}
	if _, err := f.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a file: %v", err)
	}
	write(t, path, 1)
	if d, err := f.Load(); err != nil || d.Version != 1 || <-got != 1 {
		t.Fatalf("Load: %+v, %v", d, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	// Versions of other lengths: on a quick disk a file can have time, size and number of one that was there before it.
	write(t, path, 22)
	if v := <-got; v != 22 {
		t.Errorf("after a change: version %d", v)
	}
	write(t, path, 13)
	if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, 333)
	if v := <-got; v != 333 {
		t.Errorf("after bad files: version %d", v)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// Bytes that are a whole file and no map are an error.
func TestNotAMap(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if err := atomicfile.Write(path, fileKind, fileVersion, []byte("{")); err != nil {
		t.Fatal(err)
	}
	f := &Follower{Path: path, Swap: make(taker, 1)}
	if _, err := f.Load(); err == nil {
		t.Error("no error")
	}
}

// A file that could not be read is read again without being written again, and that is told once.
// Covers: A2
func TestAFailedReadIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	got, tries := make(taker, 1), 0
	var told bytes.Buffer
	f := &Follower{Path: path, Swap: got, Log: slog.New(slog.NewTextHandler(&told, nil)), Poll: time.Millisecond}
	f.read = func(path, kind string, maxVersion int) (int, []byte, error) {
		if tries++; tries <= 3 {
			return 0, nil, syscall.EMFILE
		}
		return atomicfile.Read(path, kind, maxVersion)
	}
	write(t, path, 7)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	if v := <-got; v != 7 {
		t.Errorf("version %d", v)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if n := strings.Count(told.String(), "cannot be used"); n != 1 || tries != 4 {
		t.Errorf("told %d times in %d tries:\n%s", n, tries, told.String())
	}
}

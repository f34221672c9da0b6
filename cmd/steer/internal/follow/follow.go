// Package follow lets a name server of its own process answer by the map that another process keeps on disk: it
// reads the file, and reads it again when it changes.
package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/snapshot"
)

// Name of the map in a data folder, and the kind and version of the file, as the name server writes it.
const (
	FileName    = "dns.map"
	fileKind    = "dns-map"
	fileVersion = snapshot.MapVersion
)

// defaultEvery is how often the file is looked at: a stat costs a microsecond, and a switch should not wait for it.
const defaultEvery = 200 * time.Millisecond

// Follower hands the map of a file on, again after each change. Fields are set before Run.
type Follower struct {
	Path string        // of the file
	Swap Swapper       // takes each map
	Log  *slog.Logger  // told of each map, and of files that cannot be used
	Poll time.Duration // how often the file is looked at; 0: 200ms

	seen   os.FileInfo // of the file as last read
	failed string      // why the map could not be used, as last told; "": it could
	// read reads the file as atomicfile.Read does; nil: that. Tests put one that fails in its place.
	read func(path, kind string, maxVersion int) (int, []byte, error)
}

// Swapper takes a map; an error leaves the one before.
type Swapper interface {
	Swap(d *snapshot.DNS) error
}

// Path is the map file meant by from: the file itself, or that of a data folder.
func Path(from string) string {
	if st, err := os.Stat(from); err == nil && st.IsDir() {
		return filepath.Join(from, FileName)
	}
	return from
}

// Load hands the map on now.
func (f *Follower) Load() (*snapshot.DNS, error) {
	st, err := os.Stat(f.Path)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	read := f.read
	if read == nil {
		read = atomicfile.Read
	}
	version, payload, err := read(f.Path, fileKind, fileVersion)
	if err == nil || errors.Is(err, atomicfile.ErrDamaged) || errors.Is(err, atomicfile.ErrNewer) {
		f.seen = st // what was read stays what it is; a file that could not be read is tried again
	}
	if err != nil {
		return nil, err
	}
	d, err := snapshot.UnmarshalMap(version, payload)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Path, err)
	}
	if err := f.Swap.Swap(d); err != nil {
		return nil, err
	}
	return d, nil
}

// Run looks at the file until ctx ends. A file that goes away or cannot be used changes nothing: the last good map
// answers on. The file is replaced by rename, so each of its states is one file: what was seen is compared whole.
func (f *Follower) Run(ctx context.Context) error {
	every := f.Poll
	if every == 0 {
		every = defaultEvery
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		st, err := os.Stat(f.Path)
		if err != nil || f.seen != nil && os.SameFile(f.seen, st) && f.seen.ModTime().Equal(st.ModTime()) && f.seen.Size() == st.Size() {
			continue
		}
		d, err := f.Load()
		if err != nil {
			if f.failed != err.Error() { // once, not at every try
				f.Log.Error("the new map cannot be used; the one before answers on", "file", f.Path, "error", err)
			}
			f.failed = err.Error()
			continue
		}
		f.failed = ""
		f.Log.Info("answering by a new map", "version", d.Version, "created", d.Created)
	}
}

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/control/backup"
	"steerpoint/control/internal/store"
	"steerpoint/internal/folder"
)

const (
	// skipRevisions is how many revisions of the store are left out after a restore. Each write takes one, so that an ETag
	// from after the backup meets no other content under its number for as many writes.
	skipRevisions = 1_000_000
	// versionsASecond is how many maps are published in a second at most, by coalesce. A map version is the serial of zones,
	// and nodes go by it, so a restored control begins above every one that the lost control can have given.
	versionsASecond = int64(time.Second / coalesce)
	// maxSkipVersions bounds that: serials are compared in a circle of 2^32, where a step of half of it leads back.
	maxSkipVersions = 1 << 30
)

// Restoring says what is restored, and where to.
type Restoring struct {
	File string // a backup
	Data string // a folder that is absent or empty, or of a restore that was broken off
	Log  *slog.Logger

	write func(io.Writer) io.Writer // a test's, around what is written to files; nil: nothing is
	now   func() time.Time          // nil: the machine's
}

// Restored says what was restored.
type Restored struct {
	backup.Manifest
	MapVersion uint64 // from which on maps are published
}

// Restore fills a data folder from a backup, so that control can be started on it. The backup is verified as a whole
// before anything is written. Errors match backup.ErrDamaged, backup.ErrNewer, folder.ErrNotEmpty or folder.ErrLocked, and
// leave the folder as it was. A process that is killed leaves a folder that control refuses, and another Restore takes.
func Restore(ctx context.Context, r Restoring) (Restored, error) {
	if r.write == nil {
		r.write = func(w io.Writer) io.Writer { return w }
	}
	if r.now == nil {
		r.now = time.Now
	}
	f, err := os.Open(r.File)
	if err != nil {
		return Restored{}, fmt.Errorf("backup: %w", err)
	}
	defer f.Close()
	m, err := backup.Verify(f)
	if err != nil {
		return Restored{}, err
	}
	if m.Keys == 0 || m.Revision < 1 {
		return Restored{}, fmt.Errorf("%w: it has no store", backup.ErrDamaged)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Restored{}, fmt.Errorf("backup: %w", err)
	}
	to, err := folder.Claim(r.Data)
	if err != nil {
		return Restored{}, err
	}
	out, err := r.fill(ctx, f, &m)
	if err == nil {
		err = to.Finish(func() error { return giveToOwner(r.Data) })
	}
	if err != nil {
		return out, errors.Join(err, to.Abandon())
	}
	return out, nil
}

// fill writes everything. The backup is verified again on the way: it is another reading.
func (r *Restoring) fill(ctx context.Context, f io.Reader, m *backup.Manifest) (Restored, error) {
	s := store.Restoration{Revision: m.Revision, SkipRevisions: skipRevisions, SkipVersions: skipVersions(r.now().Sub(m.Created))}
	out := Restored{Manifest: *m, MapVersion: m.NextMapVersion + s.SkipVersions}
	pairs := make(chan store.Pair, 1000)
	read := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(pairs)
		_, err := backup.Read(f, func(member backup.Member, content io.Reader) error {
			if backup.InStore(member.Name) {
				return backup.Pairs(member, content, func(p backup.Pair, value []byte) error {
					select {
					case pairs <- store.Pair{Key: p.Key, Value: value, Created: p.Created, Written: p.Written, Version: p.Version}:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}
			return r.file(member.Name, content)
		})
		read <- err
	}()
	next := func() (store.Pair, error) {
		if p, ok := <-pairs; ok {
			return p, nil
		}
		err := <-read
		read <- err
		if err != nil {
			return store.Pair{}, err
		}
		return store.Pair{}, io.EOF
	}
	err := store.Restore(ctx, store.Config{Dir: filepath.Join(r.Data, "etcd"), Timeout: time.Minute}, s, next, r.Log)
	cancel()
	if readErr := <-read; err == nil || readErr != nil && !errors.Is(readErr, context.Canceled) {
		err = readErr
	}
	return out, err
}

// skipVersions is how many map versions a control can have given in a time. One that is negative, by a clock that is wrong,
// may have been any.
func skipVersions(age time.Duration) uint64 {
	seconds := int64(age/time.Second) + 1
	if age < 0 {
		seconds = maxSkipVersions
	}
	return versionBlock + uint64(min(seconds*versionsASecond, maxSkipVersions))
}

// file writes one member to its place, on the disk.
func (r *Restoring) file(name string, content io.Reader) error {
	path := filepath.Join(r.Data, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	_, err = io.Copy(r.write(f), content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	if !strings.Contains(name, "/") { // the folder itself is synced at the end
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", name, err)
	}
	return nil
}

// giveToOwner gives everything in a folder to the folder's owner: root restores for the user that runs control.
func giveToOwner(dir string) error {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return fmt.Errorf("restore: owner of %s: %w", dir, err)
	}
	if os.Geteuid() != 0 || s.Uid == 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, int(s.Uid), int(s.Gid))
		}
		if err != nil {
			return fmt.Errorf("restore: owner of %s: %w", path, err)
		}
		return nil
	})
}

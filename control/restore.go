package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/control/backup"
	"steerpoint/control/internal/store"
	"steerpoint/internal/folder"
)

const (
	// minSkipRevisions and revisionsASecond are how many revisions of the store are left out after a restore: so many at
	// least, and so many of each second since the backup, which is more than one store writes to a disk. Each write takes
	// one, so that an ETag from after the backup meets no other content under its number.
	minSkipRevisions = 1_000_000
	revisionsASecond = 1000
	// versionsASecond is how many maps are published in a second at most, by coalesce. A map version is the serial of zones,
	// and nodes go by it, so a restored control begins above every one that the lost control can have given.
	versionsASecond = int64(time.Second / coalesce)
	// maxSkipVersions bounds that: serials are compared in a circle of 2^32, where a step of half of it leads back.
	maxSkipVersions = 1 << 30
	// spread is the time in seconds whose share of both is left out by chance: two restores of one backup at one moment
	// differ, and the later one of two that are a minute apart is above the other, whose maps nodes may have.
	spread = 60
	// unknownAge is the seconds that count as passed when the clock is before the backup: a year.
	unknownAge = 365 * 24 * 3600

	// settingsBeside is where the settings of a backup go when the folder has a link in their place, as packages make it.
	settingsBeside = backup.Settings + ".restored"
)

// Restoring says what is restored, and where to.
type Restoring struct {
	File string // a backup
	Data string // a folder that is absent or empty, or of a restore that was broken off
	Log  *slog.Logger

	write func(io.Writer) io.Writer // a test's, around what is written to files; nil: nothing is
	now   func() time.Time          // nil: the machine's

	beside bool // the folder has settings of its own, by a link: those of the backup come beside them
}

// Restored says what was restored.
type Restored struct {
	backup.Manifest
	MapVersion uint64 // from which on maps are published
	// GoodAgain is what the backup lets in: also what was revoked, removed or used up since.
	GoodAgain GoodAgain
	// Settings is the file that the settings of the backup are in when the folder had a link in their place; else "".
	Settings string
}

// GoodAgain names who is let in by a restored control, besides those with its new admin token.
type GoodAgain struct {
	APITokens  []string `json:"apiTokens,omitempty"`
	JoinTokens []string `json:"joinTokens,omitempty"` // IDs
	Nodes      []string `json:"nodes,omitempty"`
}

// restoredNames are what a restore writes at the top of a folder: members of a backup, and the store.
func restoredNames() []string {
	return []string{"etcd", "ca", "tape", backup.History, backup.CoreState, backup.Map, backup.Settings, settingsBeside}
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
	// A link is followed once, here: what gives everything to its owner at the end follows none.
	if path, err := filepath.EvalSymlinks(r.Data); err == nil {
		r.Data = path
	}
	to, err := folder.Claim(r.Data, restoredNames())
	if err != nil {
		return Restored{}, err
	}
	// The folder was claimed, so the only settings that can be there are a link.
	_, err = os.Lstat(filepath.Join(r.Data, backup.Settings))
	r.beside = err == nil
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
	age := r.now().Sub(m.Created)
	s := store.Restoration{Revision: m.Revision, SkipRevisions: skipRevisions(age), SkipVersions: skipVersions(age)}
	out := Restored{Manifest: *m, MapVersion: m.NextMapVersion + s.SkipVersions}
	pairs := make(chan store.Pair, 1000)
	read := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(pairs)
		_, err := backup.Read(f, func(member backup.Member, content io.Reader) error {
			if backup.InStore(member.Name) {
				return backup.Pairs(member, content, func(b backup.Pair, value []byte) error {
					p := store.Pair{Key: b.Key, Value: value, Created: b.Created, Written: b.Written, Version: b.Version}
					out.GoodAgain.note(&p, m.AuthorityKey, r.now())
					select {
					case pairs <- p:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}
			if member.Name == backup.Settings && r.beside {
				out.Settings = filepath.Join(r.Data, settingsBeside)
				return r.file(settingsBeside, content)
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
	slices.Sort(out.GoodAgain.APITokens) // the store has them by their IDs
	return out, err
}

// note keeps whom a key lets in. Without its authority a cluster knows no node, and takes none by an old token.
func (g *GoodAgain) note(p *store.Pair, authority bool, now time.Time) {
	if t, ok := p.APIToken(); ok && (t.Expires.IsZero() || t.Expires.After(now)) {
		g.APITokens = append(g.APITokens, cmp.Or(t.Name, t.ID))
	}
	if t, ok := p.JoinToken(); ok && authority && t.Used.IsZero() && t.Expires.After(now) {
		g.JoinTokens = append(g.JoinTokens, t.ID)
	}
	if n, ok := p.Node(); ok && authority && n.Revoked.IsZero() {
		g.Nodes = append(g.Nodes, n.Name)
	}
}

// secondsOf counts a begun second as one. A time that is negative, by a clock that is wrong, may have been any.
func secondsOf(age time.Duration) int64 {
	if age < 0 {
		return unknownAge
	}
	return int64(age/time.Second) + 1
}

// skipRevisions is how many revisions of the store are left out, after a time in which as many may have been written.
func skipRevisions(age time.Duration) int64 {
	return minSkipRevisions + secondsOf(age)*revisionsASecond + chance(spread*revisionsASecond)
}

// skipVersions is how many map versions a control can have given in a time, and some more.
func skipVersions(age time.Duration) uint64 {
	return versionBlock + uint64(min(secondsOf(age)*versionsASecond, maxSkipVersions)+chance(spread*versionsASecond))
}

// chance is a number from 0 to n-1 that nobody has to guess: it only differs.
func chance(n int64) int64 {
	var random [8]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return int64(binary.LittleEndian.Uint64(random[:]) % uint64(n))
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

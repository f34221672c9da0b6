package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"steerpoint/internal/atomicfile"
)

// ErrNotEmpty is matched when a folder that is to be filled holds something.
var ErrNotEmpty = errors.New("folder is not empty")

// ErrUnfinished is matched when a folder was being filled and that did not end: what is in it is worth nothing.
var ErrUnfinished = errors.New("a restore into this folder was broken off")

const (
	// unfinished is the file that says so. It is the first one made and the last one removed.
	unfinished = "restore.unfinished"
	// settingsName may be a link that a package made, to settings under /etc. It belongs to the package: it is content of
	// an empty folder, and stays.
	settingsName = "steer.yaml"
)

// Claimed is a folder that is being filled. Until Finish nobody can open it, also after a crash.
type Claimed struct {
	Path  string
	lock  *os.File
	made  bool     // the folder was not there before
	names []string // all that is removed when it is not finished
}

// Claim takes a folder that is absent or empty, or one that was claimed and never finished. names are what the caller will
// write into it, at its top. What of that a claim before this one left is removed; anything else in it is somebody's, and the
// error matches ErrNotEmpty. The folder is locked as by Open.
func Claim(path string, names []string) (*Claimed, error) {
	_, err := os.Stat(path)
	c := &Claimed{Path: path, made: errors.Is(err, fs.ErrNotExist), names: append(slices.Clone(names), formatName, formatName+".tmp")}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w: choose a folder this user may write, with --data", err)
	}
	// Looked at before the lock too, so that a folder in use by another program gets no file of ours.
	if err := c.checkEmpty(); err != nil {
		return nil, err
	}
	if c.lock, err = openLock(path); err != nil {
		return nil, err
	}
	if err := (&Folder{Path: path, lock: c.lock}).take(); err != nil {
		return nil, errors.Join(err, c.lock.Close())
	}
	err = c.checkEmpty()
	if err == nil {
		err = c.begin()
	}
	if err != nil {
		return nil, errors.Join(err, c.lock.Close())
	}
	return c, nil
}

// begin removes what an unfinished restore left, and marks the folder.
func (c *Claimed) begin() error {
	if err := c.clear(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.Path, unfinished), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = syncFolder(c.Path)
	}
	if err != nil {
		return fmt.Errorf("data folder %s: %w", c.Path, err)
	}
	return nil
}

// checkEmpty takes a folder that was being filled as empty, as long as it holds nothing but what fills one.
func (c *Claimed) checkEmpty() error {
	names, err := c.entries()
	if err != nil {
		return err
	}
	if len(names) > 0 && !slices.Contains(names, unfinished) {
		return fmt.Errorf("%w: %s holds %s", ErrNotEmpty, c.Path, names[0])
	}
	for _, n := range names {
		if n != unfinished && !slices.Contains(c.names, n) {
			return fmt.Errorf("%w: a restore into %s was broken off, and %s in it is not of that restore", ErrNotEmpty, c.Path, n)
		}
	}
	return nil
}

// entries leaves out what may be in an empty folder: the lock, what every file system puts at its root, and a package's link.
func (c *Claimed) entries() ([]string, error) {
	list, err := os.ReadDir(c.Path)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	var names []string
	for _, e := range list {
		linked := e.Name() == settingsName && e.Type()&fs.ModeSymlink != 0
		if e.Name() != lockName && e.Name() != "lost+found" && !linked {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// clear removes what was written. What somebody put beside it meanwhile stays: a key, notes, the backup itself.
func (c *Claimed) clear() error {
	names, err := c.entries()
	if err != nil {
		return err
	}
	for _, n := range names {
		if !slices.Contains(c.names, n) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.Path, n)); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
	}
	return nil
}

// Finish makes the folder one that can be opened; last is done right before, with everything in place.
func (c *Claimed) Finish(last func() error) error {
	err := atomicfile.Write(filepath.Join(c.Path, formatName), formatKind, Format, nil)
	if err == nil {
		err = last()
	}
	if err == nil {
		err = syncFolder(c.Path)
	}
	if err == nil {
		err = os.Remove(filepath.Join(c.Path, unfinished))
	}
	if err == nil {
		err = syncFolder(c.Path)
	}
	if err != nil {
		return fmt.Errorf("data folder %s: %w", c.Path, err)
	}
	_ = c.lock.Close() // it was only held: nothing is lost with it
	return nil
}

// Abandon leaves the folder as it was found: empty, or absent; and with what somebody else put there meanwhile.
func (c *Claimed) Abandon() error {
	errs := []error{c.clear()}
	if errs[0] == nil { // the mark stays as long as something that was written does
		errs = append(errs, os.Remove(filepath.Join(c.Path, unfinished)), os.Remove(filepath.Join(c.Path, lockName)))
	}
	if c.made && errors.Join(errs...) == nil {
		if err := os.Remove(c.Path); !errors.Is(err, fs.ErrExist) { // that is "not empty": it holds what is not ours
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.lock.Close())...)
}

// checkFinished refuses a folder that is only half filled.
func (d *Folder) checkFinished() error {
	_, err := os.Stat(filepath.Join(d.Path, unfinished))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: %s is only half restored: run the restore again, it begins anew", ErrUnfinished, d.Path), err)
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

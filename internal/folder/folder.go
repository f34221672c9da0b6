// Package folder guards a data folder: one process at a time, a known format, and the admin token.
package folder

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/internal/atomicfile"
)

// Format is the version of the folder's layout. A folder of a newer one is refused.
const Format = 1

const (
	formatKind = "data-folder"
	formatName = "format"
	lockName   = "lock"
	tokenBytes = 32
)

// ErrLocked is matched when another process has the folder.
var ErrLocked = errors.New("data folder is in use")

// Folder is a locked data folder.
type Folder struct {
	Path string
	lock *os.File
}

// Open makes the folder if needed (mode 0700), locks it and checks its format. The lock ends with the process, however
// it ends.
func Open(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w: choose a folder this user may write, with --data", err)
	}
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	d := &Folder{Path: path, lock: f}
	if err := d.take(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	err = d.checkFinished()
	if err == nil {
		err = d.checkFormat()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openLock opens the lock file. It is written to, maybe by root in a folder of another user, so it may lead to no other file.
func openLock(path string) (*os.File, error) {
	name := filepath.Join(path, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Mode().IsRegular() {
			return f, nil
		}
		_ = f.Close() // nothing was written to it
	}
	if err == nil || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) {
		return nil, fmt.Errorf("lock of data folder: %s is a link, or no file, so nothing is written to it: remove it", name)
	}
	return nil, fmt.Errorf("lock of data folder: %w: choose a folder this user may write, with --data", err)
}

const (
	// patience is how long a lock is waited for: a process that was just killed gives it back when the kernel has
	// cleaned up after it, and its successor often starts at that moment.
	patience = 2 * time.Second
	retry    = 50 * time.Millisecond
)

// flock locks the file, and waits a little for who has it.
func flock(f *os.File) error {
	for end := time.Now().Add(patience); ; time.Sleep(retry) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}

// take locks the folder and writes who has it.
func (d *Folder) take() error {
	if err := flock(d.lock); err != nil {
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock of data folder %s: %w", d.Path, err)
		}
		owner := make([]byte, 32)
		n, _ := d.lock.ReadAt(owner, 0) // it may not have written its number yet: then it is left out
		who := "another process"
		if pid := strings.TrimSpace(string(owner[:n])); pid != "" {
			who = "the process " + pid
		}
		return fmt.Errorf("%w: %s runs on %s: stop it, or choose another folder with --data", ErrLocked, who, d.Path)
	}
	writeOwner(d.lock)
	return nil
}

// writeOwner writes who has the lock, for people. The lock holds without it, and a full disk must keep no name server
// from starting again.
func writeOwner(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

func (d *Folder) checkFormat() error {
	path := filepath.Join(d.Path, formatName)
	_, _, err := atomicfile.Read(path, formatKind, Format)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data folder %s: %w", d.Path, err)
	}
	if err := atomicfile.Write(path, formatKind, Format, nil); err != nil {
		return fmt.Errorf("data folder %s: %w", d.Path, err)
	}
	return nil
}

// Close gives the folder up.
func (d *Folder) Close() error { return d.lock.Close() }

// Token reads the admin token, or makes one on first start (file admin.token, mode 0600).
func (d *Folder) Token() (string, error) {
	path := filepath.Join(d.Path, "admin.token")
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeToken(path)
	case err != nil:
		return "", fmt.Errorf("admin token: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("admin token: %s can be read by others (mode %04o): chmod 600 it, or delete it to get a new one",
			path, info.Mode().Perm())
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 20 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("admin token: %s does not hold a token (20 printable characters at least): delete the file to get a new one", path)
	}
	return token, nil
}

// makeToken writes the new token beside its place first: a torn token file would lock everybody out.
func makeToken(path string) (string, error) {
	raw := make([]byte, tokenBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	token := base64.RawURLEncoding.EncodeToString(raw)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	return token, nil
}

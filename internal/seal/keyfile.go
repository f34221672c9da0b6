package seal

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"steerpoint/internal/atomicfile"
)

// The key file: a header with a checksum, and JSON. It is all that must be kept apart from a backup of the store.
const (
	fileKind   = "seal-key"
	fileFormat = 1
	maxKeys    = 1000 // in one file, some 120 KiB: a new key a week for 19 years
)

type file struct {
	Keys []entry `json:"keys"` // the newest first
}

// entry is one key as the file holds it.
type entry struct {
	Name string    `json:"name"` // made of the key, so that a wrong one is known as such
	Made time.Time `json:"made"`
	Key  []byte    `json:"key"`
}

// ErrReadable is matched by Read's error about a file that others can read.
var ErrReadable = errors.New("others can read it")

// Read reads a key file. A missing one matches fs.ErrNotExist, a damaged one atomicfile.ErrDamaged. No error holds any of it.
func Read(path string) (*Keys, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sealing key: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("sealing key: %s is no plain file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("sealing key: %w (%s has mode %04o): chmod 0600 it, and think of who may have read it", ErrReadable, path, info.Mode().Perm())
	}
	_, payload, err := atomicfile.Read(path, fileKind, fileFormat)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	var f file
	if json.Unmarshal(payload, &f) != nil || len(f.Keys) == 0 || len(f.Keys) > maxKeys {
		return nil, fmt.Errorf("sealing key: %w", &atomicfile.DamagedError{Path: path, Why: "it holds no list of keys"})
	}
	return newKeys(f.Keys)
}

func newKeys(entries []entry) (*Keys, error) {
	k := &Keys{}
	for _, e := range entries {
		m, err := newMaster(e)
		if err != nil {
			return nil, err
		}
		k.list = append(k.list, m)
	}
	return k, nil
}

// Create makes a key and writes it to a file, mode 0600, that must not exist.
func Create(path string, now time.Time) (*Keys, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("sealing key: %s: %w", path, errors.Join(fs.ErrExist, err))
	}
	return (&Keys{}).Renew(path, now)
}

// Renew writes the file anew with a fresh key before those it has: the fresh one seals from now on, the others open what
// they sealed. k stays as it is. The caller is the only one who writes the file.
func (k *Keys) Renew(path string, now time.Time) (*Keys, error) {
	fresh := entry{Made: now.UTC().Truncate(time.Second), Key: make([]byte, keyBytes)}
	_, _ = rand.Read(fresh.Key) // it never fails
	name, err := hkdf.Key(sha256.New, fresh.Key, nil, "steerpoint seal v1 name", 8)
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	fresh.Name = hex.EncodeToString(name)
	entries := []entry{fresh}
	for i := range k.list {
		entries = append(entries, k.list[i].entry)
	}
	if len(entries) > maxKeys {
		return nil, fmt.Errorf("sealing key: %s holds %d keys, which is as many as it takes", path, maxKeys)
	}
	next, err := newKeys(entries)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(file{entries}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	if err := atomicfile.Write(path, fileKind, fileFormat, append(b, '\n')); err != nil {
		return nil, fmt.Errorf("sealing key: %w", err)
	}
	return next, nil
}

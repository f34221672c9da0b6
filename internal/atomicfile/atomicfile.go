// Package atomicfile keeps one payload in one file so that a reader finds the old payload or the new one, whole,
// whatever happens to the process or the machine in between.
//
// A file is one header line of text and then the payload:
//
//	steerpoint <kind> v<version> <payload bytes> sha256:<64 hex digits>
//
// The header says what the file is (kind), in which format (version, grows by one with every incompatible change),
// how long the payload must be and what it must sum to. Reading checks all four, so a torn, truncated, swapped or
// edited file is told apart from a good one. The package never deletes or replaces a file it could not read: SetAside
// renames it, and the caller tells the operator.
//
// One path has one writer at a time: the temporary file beside it has a fixed name, so that a killed writer leaves at
// most one behind and the next write takes it over.
package atomicfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	magic = "steerpoint"
	// maxHeader bounds the search for the end of the header line in a file that is not ours.
	maxHeader = 256
	// tempSuffix is appended to the path while its new content is being written.
	tempSuffix = ".tmp"
)

var (
	// ErrDamaged is matched by the error of Read when the file is there but is not a whole file of the kind asked
	// for. The error's text begins with FILE_DAMAGED and says what is wrong.
	ErrDamaged = errors.New("damaged file")
	// ErrNewer is matched by the error of Read when the file is whole but its version is above maxVersion: a newer
	// program wrote it. Its text begins with FILE_VERSION_NEWER. Such a file is good; it should not be set aside.
	ErrNewer = errors.New("file of a newer version")
)

// DamagedError says which file is damaged and how. errors.Is(err, ErrDamaged) holds.
type DamagedError struct {
	Path string
	Why  string // one clause for people: "payload is 10 bytes, the header says 12"
}

func (e *DamagedError) Error() string {
	return "FILE_DAMAGED: " + e.Path + ": " + e.Why
}

// Is makes a DamagedError match ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// Write replaces the file at path with payload under a header of kind and version. When it returns nil, the new
// content is on the disk and survives a power cut; when it returns an error, the old content is untouched. The file
// has mode 0600. The folder must exist. kind is one word without spaces; version is at least 1.
func Write(path, kind string, version int, payload []byte) error {
	return WriteParts(path, kind, version, payload)
}

// WriteParts is Write for a payload in parts, which are written one after the other: a large one need not be copied
// together.
func WriteParts(path, kind string, version int, payload ...[]byte) error {
	if !validKind(kind) || version < 1 {
		return fmt.Errorf("write %s: kind %q version %d: want one word and a version of at least 1", path, kind, version)
	}
	temp := path + tempSuffix
	if err := writeSynced(temp, header(kind, version, payload), payload); err != nil {
		// The write error is what matters; a temporary file that stays behind is taken over by the next write.
		_ = os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// Read returns the version and payload of the file at path. A missing file matches fs.ErrNotExist; a file that is
// not whole, or of another kind, matches ErrDamaged; one above maxVersion matches ErrNewer.
func Read(path, kind string, maxVersion int) (version int, payload []byte, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, nil, fmt.Errorf("read %s file: %w", kind, err)
	}
	line, _, found := bytes.Cut(data[:min(len(data), maxHeader)], []byte{'\n'})
	if !found {
		return 0, nil, &DamagedError{path, "it has no header line"}
	}
	payload = data[len(line)+1:]
	version, why := check(string(line), kind, payload)
	if why != "" {
		return 0, nil, &DamagedError{path, why}
	}
	if version > maxVersion {
		return 0, nil, fmt.Errorf("FILE_VERSION_NEWER: %s: %s v%d, this program reads up to v%d: run the newer program, "+
			"or move the file away to start without it: %w", path, kind, version, maxVersion, ErrNewer)
	}
	return version, payload, nil
}

// SetAside renames the file at path to path.damaged-<UTC time>, adding a counter when that name is taken, and returns
// the new path.
func SetAside(path string) (newPath string, err error) {
	base := path + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	newPath = base
	for n := 2; ; n++ {
		// Rename replaces what it finds, and links are not known to every file system: so look first. One path has
		// one writer, hence nobody takes the name in between.
		if _, err := os.Lstat(newPath); err != nil {
			break
		}
		newPath = base + "-" + strconv.Itoa(n)
	}
	if err := os.Rename(path, newPath); err != nil {
		return "", fmt.Errorf("set aside %s: %w", path, err)
	}
	return newPath, syncDir(filepath.Dir(path))
}

func validKind(kind string) bool {
	return kind != "" && len(kind) <= 64 && !strings.ContainsFunc(kind, func(r rune) bool { return r <= ' ' || r > '~' })
}

func header(kind string, version int, payload [][]byte) []byte {
	sum, size := sha256.New(), 0
	for _, part := range payload {
		_, _ = sum.Write(part) // a hash takes everything
		size += len(part)
		runtime.Gosched() // a part may be large
	}
	return fmt.Appendf(nil, "%s %s v%d %d sha256:%x\n", magic, kind, version, size, sum.Sum(nil))
}

// check returns the version the header line states, or why the file is damaged.
func check(line, kind string, payload []byte) (version int, why string) {
	f := strings.Split(line, " ")
	if len(f) != 5 || f[0] != magic || !strings.HasPrefix(f[2], "v") || !strings.HasPrefix(f[4], "sha256:") {
		return 0, "its first line is not a header"
	}
	if f[1] != kind {
		return 0, fmt.Sprintf("it is a %q file, not a %q file", f[1], kind)
	}
	version, err := strconv.Atoi(f[2][1:])
	if err != nil || version < 1 {
		return 0, fmt.Sprintf("its header has the version %q", f[2])
	}
	if size, err := strconv.Atoi(f[3]); err != nil || size != len(payload) {
		return 0, fmt.Sprintf("its payload is %d bytes, the header says %s", len(payload), f[3])
	}
	sum := sha256.Sum256(payload)
	if hex.EncodeToString(sum[:]) != f[4][len("sha256:"):] {
		return 0, "its checksum differs from the header's"
	}
	return version, ""
}

func writeSynced(path string, head []byte, payload [][]byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for _, p := range append([][]byte{head}, payload...) {
		if _, err := f.Write(p); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// syncDir makes a rename in dir survive a power cut: fsync of a file does not cover its name.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync folder: %w", err), d.Close())
	}
	return d.Close()
}

// Package logfile is a file that lines are appended to, which can be opened anew when another program has renamed it, and
// can rename itself when it has grown.
package logfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
)

// defaultKeep is how many old files there are.
const defaultKeep = 5

// File is such a file. Its methods may be called by many goroutines.
type File struct {
	path string
	max  int64
	keep int

	mu   sync.Mutex
	f    *os.File
	size int64
}

// Open opens a file, or makes it. What is appended at once stays together. Where max is not 0, a file that would grow beyond so
// many octets is renamed to PATH.1 first, that one to PATH.2, and so on; keep is how many of those there are, 0: 5.
func Open(path string, maxSize int64, keep int) (*File, error) {
	if keep == 0 {
		keep = defaultKeep
	}
	l := &File{path: path, max: maxSize, keep: keep}
	f, size, err := l.open()
	if err != nil {
		return nil, err
	}
	l.f, l.size = f, size
	return l, nil
}

func (l *File) open() (*os.File, int64, error) {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, 0, fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open log: %w", err), f.Close())
	}
	return f, info.Size(), nil
}

// Write appends.
func (l *File) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 && l.size > 0 && l.size+int64(len(p)) > l.max {
		l.rotate()
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate renames the old files and begins a new one. What fails leaves the open file in use, which grows on: lines are worth
// more than its size.
func (l *File) rotate() {
	name := func(i int) string { return l.path + "." + strconv.Itoa(i) }
	for i := l.keep - 1; i > 0; i-- {
		_ = os.Rename(name(i), name(i+1)) // there may be none yet
	}
	if os.Rename(l.path, name(1)) != nil {
		return
	}
	_ = l.reopen() // it goes on in the renamed file, and here again at the next write
}

func (l *File) reopen() error {
	f, size, err := l.open()
	if err != nil {
		return err
	}
	old := l.f
	l.f, l.size = f, size
	if err := old.Close(); err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}

// Reopen opens the path anew: what was renamed is not written to any more. On an error the open file stays in use.
func (l *File) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reopen()
}

// Close closes the file.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}

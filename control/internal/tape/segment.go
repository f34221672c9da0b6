package tape

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	openSuffix   = ".tape"
	closedSuffix = ".tape.gz"
	wallLayout   = "20060102T150405.000Z"
)

// segment is one file of a tape.
type segment struct {
	path   string
	number uint64
	wall   time.Time // of its first record
	closed bool      // compressed
	size   int64
}

func segmentName(number uint64, wall time.Time) string {
	return fmt.Sprintf("%010d-%s", number, wall.UTC().Format(wallLayout))
}

// segments lists a folder, in the order they were written. A folder that is not there is an empty tape. Of a segment
// that is there twice, as after a crash between compression and removal, the compressed one counts: it was synced.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	byNumber := map[uint64]segment{}
	for _, e := range entries {
		s := segment{path: filepath.Join(dir, e.Name())}
		base, isClosed := strings.CutSuffix(e.Name(), closedSuffix)
		base, isOpen := strings.CutSuffix(base, openSuffix)
		number, wall, _ := strings.Cut(base, "-")
		if s.closed = isClosed; !isClosed && !isOpen {
			continue
		}
		if s.number, err = strconv.ParseUint(number, 10, 64); err != nil {
			continue
		}
		if s.wall, err = time.Parse(wallLayout, wall); err != nil {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // dropped, or compressed, right now
		}
		if err != nil {
			return nil, fmt.Errorf("tape: %w", err)
		}
		s.size = info.Size()
		if old, twice := byNumber[s.number]; !twice || !old.closed {
			byNumber[s.number] = s
		}
	}
	out := make([]segment, 0, len(byNumber))
	for _, s := range byNumber {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return out, nil
}

// open gives the frames of a segment. One that was compressed since it was listed is found under its new name.
func (s *segment) open() (io.ReadCloser, error) {
	path, closed := s.path, s.closed
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !closed {
		path, closed = strings.TrimSuffix(path, openSuffix)+closedSuffix, true
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	var r io.Reader = bufio.NewReaderSize(f, 64<<10)
	if closed {
		if r, err = gzip.NewReader(r); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("%w: %s: %w", errTorn, path, err)
		}
		r = bufio.NewReaderSize(r, 64<<10)
	}
	line := make([]byte, len(magic))
	if _, err := io.ReadFull(r, line); err != nil || string(line) != magic {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %s is no segment of a tape that this version reads", errTorn, path)
	}
	return struct {
		io.Reader
		io.Closer
	}{r, f}, nil
}

// read hands every whole record to f. torn says why the segment ends before its file does; it is nil at its end.
func (s *segment) read(f func(*Record) error) (torn, err error) {
	r, err := s.open()
	if errors.Is(err, errTorn) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var d decoder
	for {
		payload, err := readFrame(r)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
		var stopped error
		err = d.records(payload, func(r *Record) error {
			stopped = f(r)
			return stopped
		})
		switch {
		case stopped != nil:
			return nil, stopped
		case err != nil:
			return err, nil
		}
	}
}

// whole is how many bytes of an open segment are whole frames.
func (s *segment) whole() (int64, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return 0, fmt.Errorf("tape: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	line := make([]byte, len(magic))
	if _, err := io.ReadFull(r, line); err != nil || string(line) != magic {
		return 0, nil
	}
	n := int64(len(magic))
	for {
		payload, err := readFrame(r)
		if err != nil {
			return n, nil
		}
		n += frameHead + int64(len(payload))
	}
}

// compress closes a segment: its bytes up to size go to a compressed file, which is on the disk before the other one goes.
func (s *segment) compress(size int64) error {
	in, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("tape: %w", err)
	}
	defer in.Close()
	final := strings.TrimSuffix(s.path, openSuffix) + closedSuffix
	temp := final + ".tmp"
	out, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("tape: %w", err)
	}
	z, _ := gzip.NewWriterLevel(out, gzip.BestSpeed) // the level is one there is
	_, err = io.CopyN(z, in, size)
	err = errors.Join(err, z.Close(), out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(temp, final)
	}
	if err != nil {
		_ = os.Remove(temp) // what is left of it is taken over by the next try
		return fmt.Errorf("tape: close %s: %w", s.path, err)
	}
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("tape: %w", err)
	}
	return nil
}

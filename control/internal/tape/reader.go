package tape

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Reader reads a tape, also while it is written.
type Reader struct{ dir string }

// Open gives a reader of the tape in a folder; a folder that is not there is an empty tape.
func Open(dir string) *Reader { return &Reader{dir} }

// Oldest is the time the tape goes back to; ok is false while it is empty.
func (r *Reader) Oldest() (oldest time.Time, ok bool, err error) {
	list, err := segments(r.dir)
	if err != nil || len(list) == 0 {
		return time.Time{}, false, err
	}
	return list[0].wall, true, nil
}

// errEnough ends a reading early.
var errEnough = errors.New("enough")

// Range hands f the newest checkpoint that is not after from, and the records that follow it up to a time: by wall times, as
// the process that wrote them kept it. Where records are known to be missing, f gets a Gap. What begins before the tape is a
// BeforeError. An error of f ends the reading and is returned.
func (r *Reader) Range(from, to time.Time, f func(*Record) error) error {
	list, err := segments(r.dir)
	if err != nil {
		return err
	}
	first, skip, err := begin(list, from)
	if err != nil {
		return err
	}
	var last *Record
	for i, s := range list[first:] {
		if i > 0 && s.wall.After(to) && s.number == list[first+i-1].number+1 {
			break
		}
		if i > 0 && s.number != list[first+i-1].number+1 {
			if err := f(gapAfter(last)); err != nil {
				return err
			}
		}
		torn, err := s.each(func(rec *Record) error {
			if i == 0 && skip > 0 {
				skip--
				return nil
			}
			if rec.Wall.After(to) {
				return errEnough
			}
			last = rec
			return f(rec)
		})
		switch {
		case errors.Is(err, errEnough):
			return nil
		case errors.Is(err, os.ErrNotExist): // dropped while it was read
			torn = err
		case err != nil:
			return err
		}
		if torn != nil && last != nil && first+i < len(list)-1 {
			if err := f(gapAfter(last)); err != nil {
				return err
			}
		}
	}
	return nil
}

func gapAfter(last *Record) *Record {
	if last == nil {
		return &Record{Kind: Gap}
	}
	return &Record{Kind: Gap, Now: last.Now, Wall: last.Wall}
}

// each reads a segment and gives each record its wall time.
func (s *segment) each(f func(*Record) error) (torn, err error) {
	var anchor *Record
	return s.read(func(r *Record) error {
		if r.Kind == Checkpoint {
			anchor = r
		}
		if anchor == nil {
			return nil // a segment begins with a checkpoint; what came before it cannot be placed
		}
		r.Wall = anchor.Checkpoint.Wall.Add(r.Now - anchor.Now).UTC()
		return f(r)
	})
}

// begin finds the segment, and how many of its records to skip.
func begin(list []segment, from time.Time) (first, skip int, err error) {
	if len(list) == 0 {
		return 0, 0, &BeforeError{Asked: from}
	}
	for i := len(list) - 1; i >= 0; i-- {
		// Names have milliseconds.
		if list[i].wall.After(from) {
			continue
		}
		found, n := false, 0
		_, err := list[i].each(func(r *Record) error {
			if r.Wall.After(from) {
				return errEnough
			}
			if r.Kind == Checkpoint {
				found, skip = true, n
			}
			n++
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, os.ErrNotExist) {
			return 0, 0, fmt.Errorf("read %s: %w", list[i].path, err)
		}
		if found {
			return i, skip, nil
		}
	}
	return 0, 0, &BeforeError{Asked: from, Oldest: list[0].wall}
}

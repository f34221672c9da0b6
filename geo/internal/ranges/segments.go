package ranges

import (
	"errors"
	"fmt"
)

// Errors of Segments.Add, for errors.Is.
var (
	ErrBackwards = errors.New("ends before it starts")
	ErrOrder     = errors.New("starts before the one before it; ranges must be in order of address")
	ErrOverlap   = errors.New("overlaps the one before it")
)

// Segments builds runs from inclusive ranges in order of address that are apart; between them is the zero value. The
// zero Segments is empty.
type Segments[K Key[K], V comparable] struct {
	runs  Runs[K, V]
	first K // of the last range
	next  K // first address after the last range
	full  bool
}

// Add appends a range.
func (s *Segments[K, V]) Add(first, last K, v V) error {
	var ground V
	var zero K
	switch {
	case last.Less(first):
		return fmt.Errorf("%s to %s: %w", first.Addr(), last.Addr(), ErrBackwards)
	case first.Less(s.first):
		return fmt.Errorf("%s to %s: %w", first.Addr(), last.Addr(), ErrOrder)
	case s.full || first.Less(s.next):
		return fmt.Errorf("%s to %s: %w", first.Addr(), last.Addr(), ErrOverlap)
	}
	if s.next.Less(first) {
		s.runs.Append(s.next, ground)
	}
	s.runs.Append(first, v)
	s.first, s.next = first, last.Next()
	s.full = s.next == zero
	return nil
}

// Next returns the first address after the ranges, and false when the last range ends the family.
func (s *Segments[K, V]) Next() (K, bool) { return s.next, !s.full }

// Runs ends the building.
func (s *Segments[K, V]) Runs() Runs[K, V] {
	var ground V
	if !s.full {
		s.runs.Append(s.next, ground)
	}
	return s.runs
}

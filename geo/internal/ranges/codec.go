package ranges

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of the binary form, for errors.Is.
var (
	ErrShort  = errors.New("cut short")
	ErrStrict = errors.New("not in the one form written")
)

// The binary form of runs: the number of runs, then each run as its start and its value; numbers are unsigned varints.
// A start is written against the one before, the first against the zero key. IPv4: the difference. IPv6: one byte with
// the number of leading bytes shared (high half) and the number of bytes that follow less one (low half), then these
// bytes; the rest of the address is zero. The first start is always zero and is not written. Every function has exactly
// one form, and reading accepts no other.

// Append4 appends the binary form.
func Append4(dst []byte, r Runs[V4, uint16]) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.Len()))
	for i, start := range r.Starts {
		if i > 0 {
			dst = binary.AppendUvarint(dst, uint64(start-r.Starts[i-1]))
		}
		dst = binary.AppendUvarint(dst, uint64(r.Values[i]))
	}
	return dst
}

// Append6 appends the binary form.
func Append6(dst []byte, r Runs[V6, uint16]) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.Len()))
	for i, start := range r.Starts {
		if i > 0 {
			dst = appendKey6(dst, r.Starts[i-1], start)
		}
		dst = binary.AppendUvarint(dst, uint64(r.Values[i]))
	}
	return dst
}

// appendKey6 writes k against the smaller key before it.
func appendKey6(dst []byte, before, k V6) []byte {
	b := k.bytes()
	shared := before.Common(k) / 8
	end := len(b)
	for b[end-1] == 0 { // k is larger than another key, so some byte is not zero
		end--
	}
	// A byte that differs is not zero: it is larger than the one before it. So end > shared.
	dst = append(dst, byte(shared<<4|(end-shared-1)))
	return append(dst, b[shared:end]...)
}

// Read4 reads the binary form and returns what follows it.
func Read4(src []byte) (Runs[V4, uint16], []byte, error) {
	return read(src, 2, func(src []byte, before V4) (V4, []byte, error) {
		step, src, err := uvarint(src, uint64(^V4(0)-before))
		if err == nil && step == 0 {
			err = fmt.Errorf("%w: a repeated start", ErrStrict)
		}
		return before + V4(step), src, err
	})
}

// Read6 reads the binary form and returns what follows it.
func Read6(src []byte) (Runs[V6, uint16], []byte, error) {
	return read(src, 3, readKey6)
}

func readKey6(src []byte, before V6) (V6, []byte, error) {
	if len(src) == 0 {
		return V6{}, nil, ErrShort
	}
	shared, n := int(src[0]>>4), int(src[0]&0xf)+1
	src = src[1:]
	if shared+n > 16 {
		return V6{}, nil, fmt.Errorf("%w: a start longer than an address", ErrStrict)
	}
	if len(src) < n {
		return V6{}, nil, ErrShort
	}
	b := before.bytes()
	clear(b[shared:])
	copy(b[shared:], src[:n])
	k := V6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
	if !before.Less(k) || before.Common(k)/8 != shared || src[n-1] == 0 {
		return V6{}, nil, fmt.Errorf("%w: a start written in another way", ErrStrict)
	}
	return k, src[n:], nil
}

// read is the frame both families share. minRun is the least number of bytes a run after the first takes, so that a
// false count cannot make it allocate more than a few times the input.
func read[K Key[K]](src []byte, minRun int, key func(src []byte, before K) (K, []byte, error)) (Runs[K, uint16], []byte, error) {
	n, src, err := uvarint(src, uint64(len(src)/minRun)+1)
	if err != nil {
		return Runs[K, uint16]{}, nil, fmt.Errorf("number of runs: %w", err)
	}
	if n == 0 {
		return Runs[K, uint16]{}, nil, fmt.Errorf("%w: no runs", ErrStrict)
	}
	r := Runs[K, uint16]{Starts: make([]K, n), Values: make([]uint16, n)}
	for i := range r.Starts {
		if i > 0 {
			if r.Starts[i], src, err = key(src, r.Starts[i-1]); err != nil {
				return Runs[K, uint16]{}, nil, fmt.Errorf("start of run %d: %w", i, err)
			}
		}
		value, rest, err := uvarint(src, 0xFFFF)
		if err != nil {
			return Runs[K, uint16]{}, nil, fmt.Errorf("value of run %d: %w", i, err)
		}
		src = rest
		r.Values[i] = uint16(value)
		if i > 0 && r.Values[i] == r.Values[i-1] {
			return Runs[K, uint16]{}, nil, fmt.Errorf("%w: run %d repeats the value before", ErrStrict, i)
		}
	}
	return r, src, nil
}

// uvarint reads a number of at most limit in its shortest form.
func uvarint(src []byte, limit uint64) (uint64, []byte, error) {
	v, n := binary.Uvarint(src)
	switch {
	case n == 0:
		return 0, nil, ErrShort
	case n < 0 || v > limit:
		return 0, nil, fmt.Errorf("%w: a number too large", ErrStrict)
	case n > 1 && src[n-1] == 0:
		return 0, nil, fmt.Errorf("%w: a number with leading zeros", ErrStrict)
	}
	return v, src[n:], nil
}

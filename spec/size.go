package spec

import (
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes that is text in files and in JSON: "64KiB", "2GiB", "0B".
type Size int64

// units are those a size is written in, largest first.
const units = "GiB MiB KiB"

// String is the largest unit that makes a whole number of it.
func (s Size) String() string {
	n := int64(1) << 30
	for unit := range strings.SplitSeq(units, " ") {
		if s != 0 && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + unit
		}
		n >>= 10
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText writes String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a whole number with one of the units, or of bytes.
func (s *Size) UnmarshalText(text []byte) error {
	bad := &valueError{CodeBadValue, "is not a size", "a whole number of B, KiB, MiB or GiB, such as 64KiB", ""}
	digits := strings.TrimRight(string(text), "BGKMgikmb")
	unit := string(text)[len(digits):]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || digits[0] == '+' {
		return bad
	}
	shift := map[string]int{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30}
	by, ok := shift[unit]
	if !ok {
		if meant := strings.ToUpper(unit[:1]) + "iB"; len(unit) <= 2 && shift[meant] > 0 {
			bad.suggest = digits + meant
		}
		return bad
	}
	if n > math.MaxInt64>>by {
		return &valueError{CodeOutOfRange, "is out of range", "a size that 63 bits hold", ""}
	}
	*s = Size(n << by)
	return nil
}

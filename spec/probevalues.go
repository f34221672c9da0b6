package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"steerpoint/spec/internal/names"
)

// AllDown is what a rule answers when every edge is down.
type AllDown struct {
	Policy string // hold, all, first, empty or fallback
	// Target of fallback: an address in its text form, or a canonical name.
	Target string
}

// String writes it as it is written in files.
func (a AllDown) String() string {
	if a.Policy == "fallback" {
		return "fallback:" + a.Target
	}
	return a.Policy
}

// MarshalText writes String.
func (a AllDown) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads hold, all, first, empty or fallback:<name or address>.
func (a *AllDown) UnmarshalText(text []byte) error {
	const allowed = "hold, all, first, empty, or fallback:<name or address>"
	s := string(text)
	if slices.Contains([]string{"hold", "all", "first", "empty"}, s) {
		*a = AllDown{Policy: s}
		return nil
	}
	target, ok := strings.CutPrefix(s, "fallback:")
	if !ok {
		return &valueError{CodeBadValue, "is not one of the answers", allowed, names.Nearest(s, []string{"hold", "all", "first", "empty", "fallback:"})}
	}
	target = strings.TrimSpace(target)
	if _, err := netip.ParseAddr(strings.Trim(target, "[]")); err == nil {
		var addr Address
		if err := addr.UnmarshalText([]byte(strings.Trim(target, "[]"))); err != nil {
			return err
		}
		*a = AllDown{Policy: "fallback", Target: addr.String()}
		return nil
	}
	name, err := names.Host(target)
	if err != nil {
		return &valueError{CodeBadName, "has a fallback that " + err.Error(), allowed, ""}
	}
	*a = AllDown{Policy: "fallback", Target: name}
	return nil
}

// StatusRange is an inclusive range of HTTP status codes.
type StatusRange struct{ Min, Max int }

// StatusRanges are the accepted status codes; text such as "200-299,304".
type StatusRanges []StatusRange

// String writes them as in files.
func (s StatusRanges) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = strconv.Itoa(r.Min)
		if r.Max != r.Min {
			parts[i] += "-" + strconv.Itoa(r.Max)
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText writes String.
func (s StatusRanges) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads numbers and ranges from 100 to 599, separated by commas.
func (s *StatusRanges) UnmarshalText(text []byte) error {
	const allowed = "status codes from 100 to 599, such as 200-399 or 200,204,301"
	var out StatusRanges
	for part := range strings.SplitSeq(string(text), ",") {
		lo, hi, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			hi = lo
		}
		a, err1 := strconv.Atoi(lo)
		b, err2 := strconv.Atoi(hi)
		if err1 != nil || err2 != nil || a < 100 || b > 599 || len(lo) != 3 || len(hi) != 3 {
			return &valueError{CodeBadValue, "is not a list of status codes", allowed, statusMeant(part)}
		}
		if a > b {
			return &valueError{CodeBadValue, fmt.Sprintf("has the range %d-%d, which is empty", a, b), allowed, fmt.Sprintf("%d-%d", b, a)}
		}
		out = append(out, StatusRange{a, b})
	}
	*s = out
	return nil
}

// statusMeant knows the way others write classes: 2xx.
func statusMeant(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	if len(s) == 3 && s[1:] == "xx" && s[0] >= '1' && s[0] <= '5' {
		return s[:1] + "00-" + s[:1] + "99"
	}
	return ""
}

// Clock is a time of day: minutes since midnight, at most 24:00.
type Clock int

// String is HH:MM.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

// MarshalText writes String.
func (c Clock) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads HH:MM.
func (c *Clock) UnmarshalText(text []byte) error {
	bad := &valueError{CodeBadValue, "is not a time of day", "HH:MM from 00:00 to 24:00", ""}
	h, m, ok := strings.Cut(string(text), ":")
	if !ok || len(h) != 2 || len(m) != 2 || strings.Trim(h+m, "0123456789") != "" {
		if ok && len(h) == 1 && len(m) == 2 {
			bad.suggest = "0" + string(text)
		}
		return bad
	}
	hours, _ := strconv.Atoi(h)   // digits, checked above
	minutes, _ := strconv.Atoi(m) // digits, checked above
	if v := hours*60 + minutes; minutes < 60 && v <= 24*60 {
		*c = Clock(v)
		return nil
	}
	return bad
}

// Day is a day of the week.
type Day time.Weekday

const dayNames = "sunmontuewedthufrisat"

// MarshalText writes mon, tue and so on.
func (d Day) MarshalText() ([]byte, error) { return []byte(dayNames[3*d : 3*d+3]), nil }

// UnmarshalText reads mon, tue and so on.
func (d *Day) UnmarshalText(text []byte) error {
	i := strings.Index(dayNames, string(text))
	if len(text) != 3 || i < 0 || i%3 != 0 {
		e := &valueError{CodeBadValue, "is no day", "mon, tue, wed, thu, fri, sat, sun", ""}
		if t := strings.ToLower(string(text)); len(t) >= 3 && strings.Index(dayNames, t[:3])%3 == 0 {
			e.suggest = t[:3]
		}
		return e
	}
	*d = Day(i / 3)
	return nil
}

// List is a list that may be written as one value alone.
type List[T any] []T

func (List[T]) oneOrMany() {}

// Package names reads the domain names operators write, IDN included, and finds the word they may have meant. Names
// come out in one form: lower-case A-labels without a trailing dot.
package names

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// Limits of RFC 1035 section 2.3.4. A name of 253 characters fills 255 bytes on the wire.
const (
	maxName  = 253
	maxLabel = 63
)

// Errors of a name that callers tell apart.
var (
	ErrAddress = errors.New("is an IP address, not a name")
	ErrURL     = errors.New("is a URL, not a name")
)

// Host gives the canonical form of a host name: at least two labels of letters, digits, '-' and '_'.
func Host(s string) (string, error) {
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return "", ErrAddress
	}
	if strings.Contains(s, "://") {
		return "", ErrURL
	}
	if s == "" {
		return "", errors.New("is empty")
	}
	name, err := toASCII(strings.TrimSuffix(s, "."))
	if err != nil {
		return "", err
	}
	if err := check(name); err != nil {
		return "", err
	}
	return name, nil
}

// Domain is Host that also takes a wildcard as its first label.
func Domain(s string) (string, error) {
	rest, wild := strings.CutPrefix(s, "*.")
	name, err := Host(rest)
	if err != nil || !wild {
		return name, err
	}
	if len(name) > maxName-2 {
		return "", fmt.Errorf("is longer than %d characters", maxName)
	}
	return "*." + name, nil
}

// toASCII maps an internationalised name to A-labels (RFC 5891, mapped by UTS 46). ASCII names are only lowered:
// real ones break IDNA's rule on hyphens (r3---sn.example.com) and hold underscores.
func toASCII(s string) (string, error) {
	ascii := strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
	if ascii && !strings.Contains(strings.ToLower(s), "xn--") {
		return strings.ToLower(s), nil
	}
	p := idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.BidiRule(), idna.CheckHyphens(false))
	name, err := p.ToASCII(s)
	if err != nil {
		return "", errors.New("is not a valid internationalised name (IDNA)")
	}
	return strings.ToLower(name), nil
}

func check(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("is longer than %d characters", maxName)
	}
	labels := strings.Split(name, ".")
	if len(labels) < 2 {
		return errors.New("has only one label")
	}
	for _, l := range labels {
		if err := checkLabel(l); err != nil {
			return err
		}
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return errors.New("ends in a number, which no domain does")
	}
	return nil
}

func checkLabel(l string) error {
	switch {
	case l == "":
		return errors.New("has an empty label")
	case len(l) > maxLabel:
		return fmt.Errorf("has a label of more than %d characters", maxLabel)
	case l == "*":
		return errors.New("has a * that is not its first label")
	case l[0] == '-' || l[len(l)-1] == '-':
		return fmt.Errorf("has the label %q, which begins or ends with a hyphen", l)
	}
	for _, r := range l {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_') {
			return fmt.Errorf("holds %q", r)
		}
	}
	return nil
}

// Under reports whether a name is the zone or lies below it. Both are canonical; a wildcard counts as a name below
// its parent.
func Under(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone)
}

// Parents gives a name and the names above it, the closest first, down to the last label: a.b.c, b.c, c.
func Parents(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for more := true; more && yield(name); {
			_, name, more = strings.Cut(name, ".")
		}
	}
}

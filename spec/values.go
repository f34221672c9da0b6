package spec

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"steerpoint/spec/internal/names"
	"steerpoint/steering/scope"
)

// valueError is what is wrong with the text of one value.
type valueError struct {
	code    string
	problem string // after the value: "is not a duration"
	allowed string // what to write instead
	suggest string // the value that may be meant
}

func (e *valueError) Error() string {
	if e.allowed == "" {
		return e.problem
	}
	return e.problem + "; allowed: " + e.allowed
}

// Duration is a time.Duration that is text in files and in JSON: "30s", "1h30m".
type Duration time.Duration

// String is the shortest Go duration: 2m, not 2m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a Go duration. Negative ones are refused everywhere.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return &valueError{CodeBadValue, "is not a duration", "a Go duration such as 500ms, 30s, 2m or 24h", durationMeant(s)}
	case v < 0:
		return &valueError{CodeOutOfRange, "is negative", "a duration of 0s or more", ""}
	}
	*d = Duration(v)
	return nil
}

// durationMeant guesses at plain numbers (seconds), days and written-out units.
func durationMeant(s string) string {
	s = strings.ToLower(strings.ReplaceAll(s, " ", ""))
	digits := strings.TrimLeft(s, "0123456789")
	n, err := strconv.Atoi(s[:len(s)-len(digits)])
	if err != nil || n > 1e6 {
		return ""
	}
	switch digits {
	case "", "sec", "secs", "second", "seconds":
		return strconv.Itoa(n) + "s"
	case "min", "mins", "minute", "minutes":
		return strconv.Itoa(n) + "m"
	case "hr", "hour", "hours":
		return strconv.Itoa(n) + "h"
	case "d", "day", "days":
		return strconv.Itoa(24*n) + "h"
	case "w", "week", "weeks":
		return strconv.Itoa(7*24*n) + "h"
	}
	return ""
}

// HostName is a domain name in its one form: lower-case A-labels, no trailing dot, no wildcard.
type HostName string

// MarshalText writes the name.
func (h HostName) MarshalText() ([]byte, error) { return []byte(h), nil }

// UnmarshalText reads a name, IDN and a trailing dot allowed.
func (h *HostName) UnmarshalText(text []byte) error {
	name, err := names.Host(string(text))
	if err != nil {
		return nameError(string(text), err, "a name such as www.example.com", "; an address goes into addresses:")
	}
	*h = HostName(name)
	return nil
}

// Domain is a HostName that may be a wildcard: *.example.com.
type Domain string

// MarshalText writes the name.
func (d Domain) MarshalText() ([]byte, error) { return []byte(d), nil }

// UnmarshalText reads a name, IDN and a trailing dot allowed.
func (d *Domain) UnmarshalText(text []byte) error {
	name, err := names.Domain(string(text))
	if err != nil {
		return nameError(string(text), err, "a name such as www.example.com, or *.example.com", "")
	}
	*d = Domain(name)
	return nil
}

// Wildcard is true for *.example.com.
func (d Domain) Wildcard() bool { return strings.HasPrefix(string(d), "*.") }

func nameError(text string, err error, allowed, forAddress string) error {
	e := &valueError{code: CodeBadName, problem: err.Error(), allowed: allowed}
	switch {
	case errors.Is(err, names.ErrURL):
		if u, err := url.Parse(text); err == nil {
			e.suggest = u.Hostname()
		}
	case errors.Is(err, names.ErrAddress):
		e.code, e.allowed = CodeAddressAsName, allowed+forAddress
	}
	return e
}

// Address is an IP address of an edge or a name server: no zone, not unspecified, not multicast.
type Address struct{ netip.Addr }

// UnmarshalText reads an address.
func (a *Address) UnmarshalText(text []byte) error {
	const allowed = "an IPv4 or IPv6 address such as 192.0.2.1 or 2001:db8::1"
	v, err := netip.ParseAddr(string(text))
	switch {
	case err != nil:
		if _, err := names.Host(string(text)); err == nil {
			return &valueError{CodeBadAddress, "is a name, not an address", allowed + "; a name goes into target:", ""}
		}
		if ap, err := netip.ParseAddrPort(string(text)); err == nil {
			return &valueError{CodeBadAddress, "has a port", allowed + "; the port of probes comes from probe.url", ap.Addr().String()}
		}
		return &valueError{CodeBadAddress, "is not an address", allowed, ""}
	case v.Zone() != "":
		return &valueError{CodeBadAddress, "has a zone, which no visitor can use", allowed, v.WithZone("").String()}
	case v.Is4In6():
		return &valueError{CodeBadAddress, "is an IPv4 address in IPv6 form", allowed, v.Unmap().String()}
	case v.IsUnspecified():
		return &valueError{CodeBadAddress, "is the unspecified address", allowed, ""}
	case v.IsMulticast():
		return &valueError{CodeBadAddress, "is a multicast address", allowed, ""}
	case v == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return &valueError{CodeBadAddress, "is the broadcast address", allowed, ""}
	}
	a.Addr = v
	return nil
}

// Prefix is an address range. A single address is its longest prefix.
type Prefix struct{ netip.Prefix }

// UnmarshalText reads 192.0.2.0/24 or an address. Host bits must be zero: with them set, one of the two is a mistake.
func (p *Prefix) UnmarshalText(text []byte) error {
	const allowed = "an address range such as 192.0.2.0/24 or 2001:db8::/32"
	v, err := netip.ParsePrefix(string(text))
	if err != nil {
		a, err := netip.ParseAddr(string(text))
		if err != nil || a.Zone() != "" {
			return &valueError{CodeBadPrefix, "is not an address range", allowed, ""}
		}
		v = netip.PrefixFrom(a, a.BitLen())
	}
	if v.Addr().Is4In6() {
		return &valueError{CodeBadPrefix, "is an IPv4 range in IPv6 form", allowed, ""}
	}
	if v.Masked() != v {
		return &valueError{CodeBadPrefix, "has address bits beyond its length", allowed, v.Masked().String()}
	}
	if err := scope.Embedding(v); err != nil {
		return &valueError{CodeBadPrefix, "lies in a block whose addresses carry IPv4 addresses", "the IPv4 range", ""}
	}
	p.Prefix = v
	return nil
}

// HostPort is an address or a name with a port: 203.0.113.10:443, [2001:db8::1]:443, origin.example.com:443.
type HostPort string

// MarshalText writes it.
func (h HostPort) MarshalText() ([]byte, error) { return []byte(h), nil }

// UnmarshalText reads it; the name becomes canonical.
func (h *HostPort) UnmarshalText(text []byte) error {
	const allowed = "an address or a name, with a port: 203.0.113.10:443"
	host, port, err := net.SplitHostPort(string(text))
	if err != nil {
		return &valueError{CodeBadAddress, "has no port", allowed, ""}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '+' {
		return &valueError{CodeBadAddress, fmt.Sprintf("has the port %q", port), "a port from 1 to 65535", ""}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		var checked Address
		if err := checked.UnmarshalText([]byte(a.String())); err != nil {
			return err
		}
		*h = HostPort(net.JoinHostPort(a.String(), port))
		return nil
	}
	name, err := names.Host(host)
	if err != nil {
		return &valueError{CodeBadName, err.Error(), allowed, ""}
	}
	*h = HostPort(net.JoinHostPort(name, port))
	return nil
}

// Milli is a number in thousandths: 1.5 is 1500.
type Milli int64

// String writes it as short as it can be: 2, 1.5.
func (m Milli) String() string {
	s := fmt.Sprintf("%d.%03d", m/1000, m%1000)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalText writes String.
func (m Milli) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads a decimal number of at most three decimals.
func (m *Milli) UnmarshalText(text []byte) error {
	bad := &valueError{CodeBadValue, "is not a number of at most three decimals", "a number such as 2 or 1.5", ""}
	whole, frac, _ := strings.Cut(string(text), ".")
	if len(whole) == 0 || len(whole) > 6 || len(frac) > 3 || strings.Trim(whole+frac, "0123456789") != "" {
		return bad
	}
	n, err := strconv.ParseInt(whole+(frac + "000")[:3], 10, 64)
	if err != nil {
		return bad
	}
	*m = Milli(n)
	return nil
}

// ASN is the number of an autonomous system.
type ASN uint32

// MarshalText writes the number.
func (a ASN) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(a), 10), nil }

// UnmarshalText reads 4134 or AS4134.
func (a *ASN) UnmarshalText(text []byte) error {
	s := string(text)
	if len(s) > 2 && strings.EqualFold(s[:2], "AS") {
		s = s[2:]
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 || s[0] == '+' {
		return &valueError{CodeBadValue, "is not a number of an autonomous system", "a number from 1 to 4294967295, such as 4134 or AS4134", ""}
	}
	*a = ASN(n)
	return nil
}

// reserved is true for numbers that no network on the Internet has (RFC 5398, RFC 6996, RFC 7300, RFC 6793).
func (a ASN) reserved() bool {
	return a == 23456 || a >= 64496 && a <= 65551 || a >= 4200000000
}

// Country is an ISO 3166-1 alpha-2 code in upper case.
type Country string

// MarshalText writes the code.
func (c Country) MarshalText() ([]byte, error) { return []byte(c), nil }

// UnmarshalText reads a code in any case.
func (c *Country) UnmarshalText(text []byte) error {
	code := strings.ToUpper(strings.TrimSpace(string(text)))
	if scope.ContinentOf(code) == "" {
		e := &valueError{CodeUnknownPlace, "is no country", "a two-letter code of ISO 3166-1, such as CN, DE or US", ""}
		if _, meant, ok := strings.Cut(scopeError(scope.Scope{Country: []string{code}}), "did you mean "); ok {
			e.suggest = strings.TrimSuffix(meant, "?")
		}
		return e
	}
	*c = Country(code)
	return nil
}

func scopeError(s scope.Scope) string {
	if err := s.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

// Continent is a two-letter code: AF AN AS EU NA OC SA.
type Continent string

// MarshalText writes the code.
func (c Continent) MarshalText() ([]byte, error) { return []byte(c), nil }

// UnmarshalText reads a code in any case.
func (c *Continent) UnmarshalText(text []byte) error {
	code := strings.ToUpper(string(text))
	if scopeError(scope.Scope{Continent: []string{code}}) != "" {
		return &valueError{CodeUnknownPlace, "is no continent", "AF, AN, AS, EU, NA, OC, SA", ""}
	}
	*c = Continent(code)
	return nil
}

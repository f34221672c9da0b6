package scope

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The keys of the text form, in the order Canonical writes them.
const (
	keyCIDR      = "cidr"
	keyASN       = "asn"
	keyContinent = "continent"
	keyCountry   = "country"
	keyProvince  = "province"
	keyCity      = "city"
	keyISP       = "isp"
)

// Canonical returns the one text of a normalized scope: "*", or "key=value,value key=value" with keys in the order
// cidr, asn, continent, country, province, city, isp. Parse reads it back.
func (s Scope) Canonical() string {
	if s.Any {
		return "*"
	}
	var b strings.Builder
	part := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(key)
		b.WriteByte('=')
		b.WriteString(strings.Join(values, ","))
	}
	part(keyCIDR, texts(s.CIDR, netip.Prefix.String))
	part(keyASN, texts(s.ASN, func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }))
	part(keyContinent, s.Continent)
	part(keyCountry, s.Country)
	part(keyProvince, s.Province)
	part(keyCity, s.City)
	part(keyISP, s.ISP)
	return b.String()
}

// String is Canonical.
func (s Scope) String() string { return s.Canonical() }

func texts[T any](list []T, text func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = text(v)
	}
	return out
}

// Parse reads the text form, "*" or "country=CN isp=chinatelecom", lists separated by commas, and normalizes it. The
// error is Errors with everything that is wrong.
func Parse(text string) (Scope, error) {
	var s Scope
	var errs Errors
	if strings.TrimSpace(text) == "*" {
		return Scope{Any: true}, nil
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return Scope{}, Errors{{Code: CodeEmpty, Msg: `the scope is empty; write "*" for everyone, or for example country=CN`}}
	}
	seen := make([]string, 0, len(fields))
	for _, f := range fields {
		key, value, ok := strings.Cut(f, "=")
		key = strings.ToLower(key)
		switch {
		case !ok:
			errs = append(errs, &Error{Code: CodeSyntax, Value: f, Msg: `write key=value, for example country=CN, or "*" alone`})
			continue
		case slices.Contains(seen, key):
			errs = append(errs, &Error{Code: CodeSyntax, Field: key, Msg: "named twice; write one list, separated by commas"})
			continue
		}
		seen = append(seen, key)
		errs = append(errs, s.setText(key, strings.Split(value, ","))...)
	}
	if len(errs) > 0 {
		return Scope{}, errs
	}
	return s.Normalize()
}

// setText fills one list from text values.
func (s *Scope) setText(key string, values []string) Errors {
	switch key {
	case keyContinent:
		s.Continent = values
	case keyCountry:
		s.Country = values
	case keyProvince:
		s.Province = values
	case keyCity:
		s.City = values
	case keyISP:
		s.ISP = values
	case keyASN:
		return s.setASN(values)
	case keyCIDR:
		return s.setCIDR(values)
	default:
		return Errors{{Code: CodeSyntax, Field: key, Msg: "not a part of a scope; allowed are cidr, asn, continent, country, province, city, isp"}}
	}
	return nil
}

func (s *Scope) setASN(values []string) Errors {
	var errs Errors
	for _, v := range values {
		n, err := ParseASN(v)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.ASN = append(s.ASN, n)
	}
	return errs
}

func (s *Scope) setCIDR(values []string) Errors {
	var errs Errors
	for _, v := range values {
		p, err := ParseCIDR(v)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.CIDR = append(s.CIDR, p)
	}
	return errs
}

// ParseASN reads an autonomous system number, 1 to 4294967295, with or without the letters AS in front.
func ParseASN(text string) (uint32, *Error) {
	digits := strings.TrimSpace(text)
	if len(digits) > 2 && strings.EqualFold(digits[:2], "AS") {
		digits = digits[2:]
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 {
		return 0, &Error{Code: CodeASN, Field: keyASN, Value: text, Msg: "not an AS number; write 1 to 4294967295, for example 4134"}
	}
	return uint32(n), nil
}

// ParseCIDR reads a prefix. A single address is its full-length prefix.
func ParseCIDR(text string) (netip.Prefix, *Error) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, &Error{Code: CodeCIDR, Field: keyCIDR, Value: text, Msg: "not a prefix; write for example 192.0.2.0/24 or 2001:db8::/32"}
	}
	return p, nil
}

package scope

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The codes of an Error.
const (
	CodeEmpty       = "SCOPE_EMPTY"       // no field, or a list without values
	CodeSyntax      = "SCOPE_SYNTAX"      // the text form is not understood
	CodeCombination = "SCOPE_COMBINATION" // fields that are not together in the total order
	CodeContinent   = "SCOPE_CONTINENT"
	CodeCountry     = "SCOPE_COUNTRY"
	CodeProvince    = "SCOPE_PROVINCE"
	CodeCity        = "SCOPE_CITY"
	CodeISP         = "SCOPE_ISP"
	CodeASN         = "SCOPE_ASN"
	CodeCIDR        = "SCOPE_CIDR"
	CodeOverlap     = "SCOPE_OVERLAP"   // two scopes of a set claim one cell
	CodeCatchAll    = "SCOPE_CATCH_ALL" // a set without "*", or with it elsewhere than at its end
)

// Error is one thing wrong with a scope.
type Error struct {
	Code  string
	Field string // key of the list, such as country; "" for the whole
	Value string // what was written; "" when it is not one value
	Msg   string // what is allowed
}

// Error says field, value and what is allowed; the code is not in the text.
func (e *Error) Error() string {
	switch {
	case e.Field != "" && e.Value != "":
		return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Msg)
	case e.Field != "":
		return e.Field + ": " + e.Msg
	case e.Value != "":
		return fmt.Sprintf("%q: %s", e.Value, e.Msg)
	}
	return e.Msg
}

// Errors is everything wrong with a scope, in the order of the fields; never empty when used as an error.
type Errors []*Error

// Error joins the errors with "; ".
func (e Errors) Error() string {
	all := make([]string, len(e))
	for i, x := range e {
		all[i] = x.Error()
	}
	return strings.Join(all, "; ")
}

// Unwrap gives the single errors to errors.As and errors.Is.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, x := range e {
		all[i] = x
	}
	return all
}

// Validate says what is wrong with the scope, as Errors, or nil. A list that is there but has no values is an error:
// it would match nobody. Spelling that Normalize can mend is not an error.
func (s Scope) Validate() error {
	_, err := s.Normalize()
	return err
}

// Normalize returns the scope in canonical spelling: lists sorted, without repeats. The error is Errors. Prefixes with
// host bits are refused, not masked, since a typing error there moves other people's visitors.
func (s Scope) Normalize() (Scope, error) {
	var errs Errors
	if s.Any && s.shape() != hasAny {
		errs = append(errs, &Error{Code: CodeCombination, Msg: `"*" stands alone; leave the other fields out`})
		return Scope{}, errs
	}
	n := Scope{Any: s.Any}
	n.CIDR = each(s.CIDR, &errs, keyCIDR, checkCIDR, netip.Prefix.Compare)
	n.ASN = each(s.ASN, &errs, keyASN, checkASN, cmp.Compare)
	n.Continent = each(s.Continent, &errs, keyContinent, checkContinent, strings.Compare)
	n.Country = each(s.Country, &errs, keyCountry, checkCountry, strings.Compare)
	n.Province = each(s.Province, &errs, keyProvince, checkName(CodeProvince, keyProvince), strings.Compare)
	n.City = each(s.City, &errs, keyCity, checkName(CodeCity, keyCity), strings.Compare)
	n.ISP = each(s.ISP, &errs, keyISP, checkName(CodeISP, keyISP), strings.Compare)
	if len(errs) > 0 {
		return Scope{}, errs
	}
	if n.Level() == 0 {
		return Scope{}, Errors{n.combination()}
	}
	n.City = inCountries(n.Country, n.City, CanonicalCity)
	n.Province = inCountries(n.Country, n.Province, CanonicalProvince)
	if err := n.misplaced(); err != nil {
		return Scope{}, Errors{err}
	}
	return n, nil
}

// each checks and spells every value of a list, sorts it and drops repeats. A nil list is absent.
func each[T comparable](list []T, errs *Errors, key string, check func(T) (T, *Error), order func(a, b T) int) []T {
	if list == nil {
		return nil
	}
	if len(list) == 0 {
		*errs = append(*errs, &Error{Code: CodeEmpty, Field: key, Msg: "the list is empty and would match nobody; leave the field out or name a value"})
		return nil
	}
	out := make([]T, 0, len(list))
	for _, v := range list {
		spelt, err := check(v)
		if err != nil {
			*errs = append(*errs, err)
			continue
		}
		out = append(out, spelt)
	}
	slices.SortFunc(out, order)
	return slices.Compact(out)
}

// combination explains why the fields of s are not in the total order.
func (s Scope) combination() *Error {
	err := &Error{Code: CodeCombination}
	has := s.shape()
	switch {
	case has == 0:
		return &Error{Code: CodeEmpty, Msg: `the scope is empty; write "*" for everyone, or for example country: CN`}
	case has&hasCIDR != 0:
		err.Field, err.Msg = keyCIDR, "an address prefix needs no other field; leave the others out"
	case has&hasASN != 0:
		err.Field, err.Msg = keyASN, "an AS number cannot be combined with other fields; use isp for a network inside a country"
	case has&hasContinent != 0 && has&hasISP != 0:
		err.Field, err.Msg = keyContinent, "isp and continent are not combined; name the countries instead"
	case has&hasContinent != 0:
		err.Field, err.Msg = keyContinent, "a country already says its continent; leave continent out"
	case has&hasProvince != 0:
		err.Field, err.Msg = keyProvince, "a province needs its country too: codes such as GD are only unique inside one"
	default:
		err.Field, err.Msg = keyCity, "a city needs its country too: names repeat from country to country"
	}
	return err
}

func checkCIDR(p netip.Prefix) (netip.Prefix, *Error) {
	err := &Error{Code: CodeCIDR, Field: keyCIDR, Value: p.String()}
	switch {
	case !p.IsValid():
		err.Msg = "not a prefix; write for example 192.0.2.0/24 or 2001:db8::/32"
	case p.Addr().Is4In6() || p.Masked().Addr().Is4In6():
		err.Msg = "an IPv4-mapped prefix; write the IPv4 prefix"
		if p.Bits() >= 96 {
			err.Msg += " " + netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked().String()
		}
	case p != p.Masked():
		err.Msg = "has host bits set; write " + p.Masked().String()
	default:
		return p, Embedding(p)
	}
	return p, err
}

// Embedding refuses prefixes inside the IPv6 blocks that carry IPv4 addresses, 6to4 (RFC 3056) and the NAT64
// well-known prefix (RFC 6052): such addresses are looked up as the IPv4 address they carry, so an IPv6 entry would
// never be used. It returns nil for every other prefix.
func Embedding(p netip.Prefix) *Error {
	for _, b := range EmbeddingBlocks() {
		if p.Addr().Is6() && p.Bits() >= b.Bits() && b.Contains(p.Addr()) {
			return &Error{
				Code: CodeCIDR, Field: keyCIDR, Value: p.String(),
				Msg: fmt.Sprintf("addresses in %s carry an IPv4 address and are looked up as that; write the IPv4 prefix", b),
			}
		}
	}
	return nil
}

// EmbeddingBlocks are the IPv6 blocks whose addresses stand for the IPv4 address they carry, besides the IPv4-mapped
// ones: 6to4, with the address in bits 16 to 48, and NAT64, with it in the last 32 bits.
func EmbeddingBlocks() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x02}), 16),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b}), 96),
	}
}

func checkASN(n uint32) (uint32, *Error) {
	if n == 0 {
		return 0, &Error{Code: CodeASN, Field: keyASN, Value: "0", Msg: "not an AS number; write 1 to 4294967295, for example 4134"}
	}
	return n, nil
}

func checkContinent(v string) (string, *Error) {
	c := upper(v)
	if !isContinent(c) {
		return "", &Error{Code: CodeContinent, Field: keyContinent, Value: v, Msg: "not a continent; allowed are AF, AN, AS, EU, NA, OC, SA"}
	}
	return c, nil
}

func checkCountry(v string) (string, *Error) {
	c := upper(v)
	if ContinentOf(c) != "" {
		return c, nil
	}
	err := &Error{Code: CodeCountry, Field: keyCountry, Value: v, Msg: "not an ISO 3166-1 alpha-2 code, such as CN or US"}
	if near := countryHint(c); near != "" {
		err.Msg += "; did you mean " + near + "?"
	}
	return "", err
}

// checkName spells a province, city or ISP; nothing is left of a value that has no letter or digit.
func checkName(code, key string) func(string) (string, *Error) {
	spell := Fold
	switch key {
	case keyProvince:
		spell = func(v string) string { return CanonicalProvince("", v) }
	case keyISP:
		spell = CanonicalISP
	}
	return func(v string) (string, *Error) {
		if s := spell(v); s != "" {
			return s, nil
		}
		return "", &Error{Code: code, Field: key, Value: v, Msg: "has no letter or digit"}
	}
}

// inCountries spells names as each of the countries does.
func inCountries(countries, list []string, spell func(country, name string) string) []string {
	var out []string
	for _, name := range list {
		for _, c := range countries {
			out = append(out, spell(c, name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// misplaced refuses a province that is a country of its own here: no visitor's place would ever be in it.
func (s Scope) misplaced() *Error {
	for _, c := range s.Country {
		for _, p := range s.Province {
			if own := ownCountry(c, p); own != "" && len(s.Country) == 1 {
				return &Error{
					Code: CodeProvince, Field: keyProvince, Value: p,
					Msg: "visitors there have a country code of their own; write country: " + own + " without a province",
				}
			}
		}
	}
	return nil
}

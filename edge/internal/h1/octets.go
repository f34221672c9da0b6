package h1

import "encoding/binary"

// class says where an octet may stand.
type class uint8

const (
	tokenOctet  class = 1 << iota // RFC 9110 section 5.6.2
	targetOctet                   // in a request target: what RFC 3986 allows, and what browsers leave unescaped
	hostOctet                     // in a name or an IPv4 address
	addrOctet                     // in an IPv6 address
	hexOctet
)

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// octets is the class of every octet. # is in no target: a fragment is never sent, and programs that cut it off and those
// that do not see two paths. An octet above 126 is in none either, as in RFC 3986.
var octets = compileClasses(map[class]string{
	tokenOctet:  letters + digits + "!#$%&'*+-.^_`|~",
	targetOctet: letters + digits + "-._~:/?[]@!$&'()*+,;=%" + "\"<>\\^`{|}",
	hostOctet:   letters + digits + "-._",
	addrOctet:   "abcdefABCDEF" + digits + ":.",
	hexOctet:    "abcdefABCDEF" + digits,
})

func compileClasses(of map[class]string) (t [256]class) {
	for c, members := range of {
		for i := range len(members) {
			t[members[i]] |= c
		}
	}
	return t
}

// all reports whether b is not empty and of octets of one class alone.
func all(b []byte, c class) bool {
	for _, o := range b {
		if octets[o]&c == 0 {
			return false
		}
	}
	return len(b) > 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// clean reports whether b is free of control octets but HT (RFC 9110 section 5.5). Eight octets are looked at together:
// values are most of a head.
func clean(b []byte) bool {
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		below := (w - ones*0x20) &^ w & highs // exact as to whether there is any
		del := w ^ ones*0x7f
		del = (del - ones) &^ del & highs
		if below|del != 0 && !cleanSlowly(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return cleanSlowly(b)
}

func cleanSlowly(b []byte) bool {
	for _, o := range b {
		if o < ' ' && o != '\t' || o == 0x7f {
			return false
		}
	}
	return true
}

func lower(o byte) byte {
	if 'A' <= o && o <= 'Z' {
		return o | 0x20
	}
	return o
}

// same reports whether b is name without regard to case; name is lower-case.
func same(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i, o := range b {
		if lower(o) != name[i] {
			return false
		}
	}
	return true
}

// trim cuts spaces and tabs off both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// element cuts the first element off a comma list (RFC 9110 section 5.6.1). An empty one is for the caller to pass over.
func element(b []byte) (first, rest []byte) {
	for i, o := range b {
		if o == ',' {
			return trim(b[:i]), b[i+1:]
		}
	}
	return trim(b), nil
}

const maxDigits = 18 // what fits an int64 whatever the digits

// decimal reads a number of digits alone.
func decimal(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > maxDigits {
		return 0, false
	}
	n := int64(0)
	for _, o := range b {
		if o < '0' || o > '9' {
			return 0, false
		}
		n = n*10 + int64(o-'0')
	}
	return n, true
}

package cookie

import (
	"net/netip"
	"sync/atomic"
)

// State is what a cookie of a query is worth.
type State uint8

// The states. Whoever sent a valid cookie gets replies at the address it asks from: it got one there before.
const (
	Unknown State = iota // the client's half alone, or not ours, or too old
	Valid                // ours, and old enough for another
	Fresh                // ours, to be used on
)

// Set is the secrets of the name servers behind one name at one time.
type Set struct {
	// Sign makes cookies.
	Sign Secret
	// Accept are other secrets whose cookies are valid: those before Sign and after it, so that servers that have not
	// yet changed to the next one, or have already, take each other's cookies (RFC 9018 section 5).
	Accept []Secret
}

// Keys checks and makes cookies by a Set that can be changed while others use it. It must not be copied.
type Keys struct{ set atomic.Pointer[Set] }

// NewKeys makes Keys.
func NewKeys(set Set) *Keys {
	k := new(Keys)
	k.Use(set)
	return k
}

// Use changes to another set.
func (k *Keys) Use(set Set) { k.set.Store(&set) }

// Check says what the cookie of a query is worth: asked is the option's data as received, at least 8 octets; now is Unix
// time in seconds.
func (k *Keys) Check(asked []byte, client netip.Addr, now uint32) State {
	if len(asked) != Len {
		return Unknown
	}
	set := k.set.Load()
	if age, ok := set.Sign.check(asked, client, now); ok {
		if age < refreshAge {
			return Fresh
		}
		return Valid
	}
	for i := range set.Accept {
		// Valid, and not fresh: the client gets one by the secret that is in use.
		if _, ok := set.Accept[i].check(asked, client, now); ok {
			return Valid
		}
	}
	return Unknown
}

// Append appends the cookie to answer with: the client's own when it is fresh, another otherwise. state is what Check
// said of asked.
func (k *Keys) Append(dst, asked []byte, client netip.Addr, now uint32, state State) []byte {
	if state == Fresh {
		return append(dst, asked...)
	}
	return k.set.Load().Sign.make(dst, asked, client, now)
}

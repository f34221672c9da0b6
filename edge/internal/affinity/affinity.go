// Package affinity makes and reads the values of session cookies: which origin of which origin group a visitor stays with.
//
// A value names nothing that an outsider could use. It holds keyed hashes of group and origin, so that it can be neither
// guessed nor turned into an address to connect to; who changes it has no session. The package knows no socket and no
// clock, and keeps nothing of a request.
package affinity

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
)

// The names of the two cookies. They have one value; the second goes with requests from pages of other sites.
const (
	Name     = "ASLBSA"
	NameCORS = "ASLBSACORS"
)

const (
	// MaxEntries is how many groups one value holds: a visitor of more than so many groups of one domain loses the session
	// that was established first.
	MaxEntries = 8
	tagSize    = 8  // of the group: two groups of a domain are confused once in 2^64
	macSize    = 16 // of the origin: 128 bits cannot be guessed
	entrySize  = 1 + tagSize + macSize
)

// MaxValue is the length of the longest value in bytes.
const MaxValue = (MaxEntries*entrySize*8 + 5) / 6

// SecretSize is the least length of a key's secret in bytes.
const SecretSize = 32

// Key is one key of a cluster. ID tells values made with one from those made with another.
type Key struct {
	ID     byte
	Secret []byte
}

// ErrKeys says that there is no key, or one that is no key.
var ErrKeys = errors.New("keys of session cookies")

// Group is one origin group that keeps sessions, compiled: it has the hashes of each of its origins under each key.
type Group struct {
	keys []groupKey // the first makes new values
	// encoding is that of base64url without padding, which refuses bits that mean nothing: a value has one form.
	encoding *base64.Encoding
}

type groupKey struct {
	id   byte
	tag  [tagSize]byte
	macs [][macSize]byte // by origin
}

// NewGroup compiles a group. name is unique in the cluster, such as service/group; origins are names unique in the
// group. The first key makes new values; the others are accepted until nobody has a value made with them.
func NewGroup(keys []Key, name string, origins []string) (*Group, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: there is none", ErrKeys)
	}
	g := &Group{encoding: base64.RawURLEncoding.Strict()}
	seen := map[byte]bool{}
	for _, k := range keys {
		if seen[k.ID] || len(k.Secret) < SecretSize {
			return nil, fmt.Errorf("%w: key %d stands twice, or has less than %d bytes", ErrKeys, k.ID, SecretSize)
		}
		seen[k.ID] = true
		gk := groupKey{id: k.ID, macs: make([][macSize]byte, len(origins))}
		copy(gk.tag[:], mac(k, "group", name))
		for i, o := range origins {
			copy(gk.macs[i][:], mac(k, "origin", name, o))
		}
		g.keys = append(g.keys, gk)
	}
	return g, nil
}

// mac is a keyed hash of texts, each with its length before it, so that no two lists of texts look alike.
func mac(k Key, texts ...string) []byte {
	h := hmac.New(sha256.New, k.Secret)
	h.Write([]byte{k.ID})
	for _, t := range texts {
		n := len(t)
		h.Write([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		h.Write([]byte(t))
	}
	return h.Sum(nil)
}

// Finding is what a value says of one group.
type Finding uint8

// The findings.
const (
	None    Finding = iota // nothing: there is no session yet
	Found                  // an origin of the group
	Unknown                // an entry of the group that names no origin of it: the origin is gone, or somebody made it up
	Broken                 // it is no value at all
)

// Find says which origin of the group a value names. origin is 0 unless there is a finding Found. It takes as long for a
// forged entry as for a right one, and allocates nothing.
func (g *Group) Find(value []byte) (origin int, f Finding) {
	var buf [MaxEntries * entrySize]byte
	entries, ok := g.decode(&buf, value)
	if !ok {
		return 0, Broken
	}
	for ; len(entries) > 0; entries = entries[entrySize:] {
		if gk := g.owns(entries); gk != nil {
			return gk.origin(entries[1+tagSize : entrySize])
		}
	}
	return 0, None
}

// owns gives the key by which an entry is one of the group; nil: it is another's.
func (g *Group) owns(entry []byte) *groupKey {
	for i := range g.keys {
		gk := &g.keys[i]
		if gk.id == entry[0] && subtle.ConstantTimeCompare(gk.tag[:], entry[1:1+tagSize]) == 1 {
			return gk
		}
	}
	return nil
}

// origin looks at the hashes of all origins, whichever it is.
func (gk *groupKey) origin(mac []byte) (origin int, f Finding) {
	at, found := 0, 0
	for i := range gk.macs {
		same := subtle.ConstantTimeCompare(gk.macs[i][:], mac)
		at = subtle.ConstantTimeSelect(same, i, at)
		found |= same
	}
	if found == 0 {
		return 0, Unknown
	}
	return at, Found
}

// decode reads a value into buf.
func (g *Group) decode(buf *[MaxEntries * entrySize]byte, value []byte) (entries []byte, ok bool) {
	if len(value) > MaxValue {
		return nil, false
	}
	// Line ends, which the decoder would skip, make it another value.
	for _, c := range value {
		if c == '\r' || c == '\n' {
			return nil, false
		}
	}
	n, err := g.encoding.Decode(buf[:], value)
	if err != nil || n%entrySize != 0 {
		return nil, false
	}
	return buf[:n], true
}

// Append appends the value that says the session of the group is with an origin, and of other groups what the old value
// says. An old value that is broken counts as none. The newest entry stands first; of more than MaxEntries the last are
// left out.
func (g *Group) Append(dst, old []byte, origin int) []byte {
	var buf, out [MaxEntries * entrySize]byte
	entries, _ := g.decode(&buf, old)
	gk := &g.keys[0]
	out[0] = gk.id
	copy(out[1:], gk.tag[:])
	copy(out[1+tagSize:], gk.macs[origin][:])
	n := entrySize
	for ; len(entries) > 0 && n < len(out); entries = entries[entrySize:] {
		if g.owns(entries) == nil {
			n += copy(out[n:], entries[:entrySize])
		}
	}
	return g.encoding.AppendEncode(dst, out[:n])
}

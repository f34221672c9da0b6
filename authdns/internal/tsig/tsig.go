// Package tsig signs DNS messages by keys that two machines share, and verifies those that were signed (RFC 8945). It is
// values in, values out: the clock is the caller's, and so are the keys.
package tsig

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"hash"

	"steerpoint/authdns/internal/wire"
)

// Errors a TSIG record tells (RFC 8945 section 3). They are codes of the wire, not Go errors.
const (
	NoError  = 0
	BadSig   = 16
	BadKey   = 17
	BadTime  = 18
	BadTrunc = 22
)

// Fudge is how far the clocks of two ends may be apart, in seconds (RFC 8945 section 10).
const Fudge = 300

// ErrForm is the error of a message whose TSIG record cannot be read, stands twice, or is not the last record. It is
// answered with FORMERR.
var ErrForm = errors.New("the TSIG record is malformed or not the last one")

// Algorithm is a keyed hash. MD5 and SHA-1 are none: RFC 8945 section 6 keeps them for old peers only.
type Algorithm uint8

// The algorithms.
const (
	SHA256 Algorithm = iota + 1
	SHA384
	SHA512
)

// AlgorithmOf gives the algorithm of a name such as hmac-sha256; false: it is none of ours.
func AlgorithmOf(name string) (Algorithm, bool) {
	for a := SHA256; a <= SHA512; a++ {
		if name == a.String() {
			return a, true
		}
	}
	return 0, false
}

func (a Algorithm) String() string {
	return [...]string{"none", "hmac-sha256", "hmac-sha384", "hmac-sha512"}[a]
}

// wire is the algorithm's name as a domain name.
func (a Algorithm) wire() []byte {
	name := a.String()
	return append(append([]byte{byte(len(name))}, name...), 0)
}

func (a Algorithm) new() func() hash.Hash {
	return [...]func() hash.Hash{nil, sha256.New, sha512.New384, sha512.New}[a]
}

func (a Algorithm) size() int { return [...]int{0, sha256.Size, sha512.Size384, sha512.Size}[a] }

// Key is a key two ends share.
type Key struct {
	Name      []byte // wire form, lower case
	Algorithm Algorithm
	Secret    []byte
}

const (
	rrFixed  = 10 // type, class, TTL and length of a record
	classANY = 255
	timeLen  = 6
)

// Size is how many octets signing adds to a message, at most.
func (k *Key) Size() int {
	return len(k.Name) + rrFixed + len(k.Algorithm.wire()) + timeLen + 2 + 2 + k.Algorithm.size() + 2 + 2 + 2 + timeLen
}

// Record is the TSIG record of a message. Slices point into the message, but for names.
type Record struct {
	Key       []byte // name of the key: wire form, lower case
	Algorithm []byte // likewise
	Time      uint64 // seconds since 1970 by the sender's clock
	Fudge     uint16
	MAC       []byte
	ID        uint16 // of the message as it was signed
	Error     uint16
	Other     []byte

	at int // where the record begins
}

// Find reads the TSIG record of a message; nil: it has none. The error matches ErrForm.
func Find(msg []byte) (*Record, error) {
	if len(msg) < wire.HeaderLen {
		return nil, ErrForm
	}
	off, ok := wire.HeaderLen, true
	for range binary.BigEndian.Uint16(msg[4:]) {
		if off, ok = wire.SkipName(msg, off); !ok || off+4 > len(msg) {
			return nil, ErrForm
		}
		off += 4
	}
	records := 0
	for at := 6; at < wire.HeaderLen; at += 2 {
		records += int(binary.BigEndian.Uint16(msg[at:]))
	}
	for i := range records {
		start := off
		if off, ok = wire.SkipName(msg, off); !ok || off+rrFixed > len(msg) {
			return nil, ErrForm
		}
		rrType, data := binary.BigEndian.Uint16(msg[off:]), off+rrFixed
		next := data + int(binary.BigEndian.Uint16(msg[off+8:]))
		if next > len(msg) {
			return nil, ErrForm
		}
		if rrType == wire.TypeTSIG {
			if i != records-1 || next != len(msg) || binary.BigEndian.Uint16(msg[10:]) == 0 {
				return nil, ErrForm
			}
			return read(msg, start, off, data)
		}
		off = next
	}
	return nil, nil
}

// read takes the record apart: its name begins at start, its fixed fields at fixed, its data at data.
func read(msg []byte, start, fixed, data int) (*Record, error) {
	key, end := name(msg, start)
	if end != fixed || binary.BigEndian.Uint16(msg[fixed+2:]) != classANY || binary.BigEndian.Uint32(msg[fixed+4:]) != 0 {
		return nil, ErrForm
	}
	algorithm, off := name(msg, data)
	if algorithm == nil || off+timeLen+4 > len(msg) {
		return nil, ErrForm
	}
	r := &Record{Key: key, Algorithm: algorithm, Time: time48(msg[off:]), Fudge: binary.BigEndian.Uint16(msg[off+timeLen:]), at: start}
	off += timeLen + 2
	var ok bool
	if r.MAC, off, ok = counted(msg, off); !ok || off+4 > len(msg) {
		return nil, ErrForm
	}
	r.ID, r.Error = binary.BigEndian.Uint16(msg[off:]), binary.BigEndian.Uint16(msg[off+2:])
	if r.Other, off, ok = counted(msg, off+4); !ok || off != len(msg) {
		return nil, ErrForm
	}
	return r, nil
}

// name reads a name that is not compressed, in lower case, and says what comes behind it; nil: it is none.
func name(msg []byte, off int) ([]byte, int) {
	end, ok := wire.SkipName(msg, off)
	if !ok || end > len(msg) || msg[end-1] != 0 {
		return nil, 0
	}
	for at := off; at < end; at += 1 + int(msg[at]) {
		if msg[at] > 63 { // a pointer: nothing in a TSIG is compressed (RFC 8945 section 4.2)
			return nil, 0
		}
	}
	out := bytes.Clone(msg[off:end])
	for i, c := range out {
		out[i] = wire.Lower(c)
	}
	return out, end
}

func counted(msg []byte, off int) (data []byte, next int, ok bool) {
	if off+2 > len(msg) {
		return nil, 0, false
	}
	next = off + 2 + int(binary.BigEndian.Uint16(msg[off:]))
	if next > len(msg) {
		return nil, 0, false
	}
	return msg[off+2 : next], next, true
}

func time48(b []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(b))<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
}

func appendTime(dst []byte, t uint64) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(t>>32))
	return binary.BigEndian.AppendUint32(dst, uint32(t))
}

// Strip gives the message as it was before it was signed; msg is left alone.
func (r *Record) Strip(msg []byte) []byte {
	out := bytes.Clone(msg[:r.at])
	binary.BigEndian.PutUint16(out, r.ID)
	binary.BigEndian.PutUint16(out[10:], binary.BigEndian.Uint16(out[10:])-1)
	return out
}

// Uses reports whether the record names this key and its algorithm.
func (r *Record) Uses(k *Key) bool {
	return bytes.Equal(r.Key, k.Name) && bytes.Equal(r.Algorithm, k.Algorithm.wire())
}

// Verify checks a message of which r is the record: NoError, BadSig, BadTime or BadTrunc; the record must use the key.
// The error is ErrForm for a MAC of a length that nobody may send. request is the MAC of the request that the message
// answers; nil: it is itself a request. now is in seconds since 1970.
func (r *Record) Verify(msg []byte, k *Key, request []byte, now uint64) (code uint16, err error) {
	return r.verify(msg, k, request, now, false)
}

func (r *Record) verify(msg []byte, k *Key, prior []byte, now uint64, later bool) (uint16, error) {
	// RFC 8945 section 5.2.2.1: longer than the hash, or shorter than half of it or 10 octets, is malformed.
	if size := k.Algorithm.size(); len(r.MAC) > size || len(r.MAC) < max(10, size/2) {
		return NoError, ErrForm
	}
	sum := r.sum(r.Strip(msg), k, prior, later)
	switch {
	case !hmac.Equal(sum[:len(r.MAC)], r.MAC):
		return BadSig, nil
	case max(r.Time, now)-min(r.Time, now) > uint64(r.Fudge):
		return BadTime, nil
	case len(r.MAC) < len(sum):
		return BadTrunc, nil
	default:
		return NoError, nil
	}
}

// sum is the whole MAC of a message without its record. later: the message is not the first of a stream, so that of the
// record only the times are signed (RFC 8945 section 5.3.1).
func (r *Record) sum(msg []byte, k *Key, prior []byte, later bool) []byte {
	h := hmac.New(k.Algorithm.new(), k.Secret)
	var b []byte
	if prior != nil {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(prior))), prior...)
	}
	h.Write(b)
	h.Write(msg)
	b = b[:0]
	if !later {
		b = append(b, r.Key...)
		b = append(b, 0, classANY, 0, 0, 0, 0)
		b = append(b, r.Algorithm...)
	}
	b = binary.BigEndian.AppendUint16(appendTime(b, r.Time), r.Fudge)
	if !later {
		b = binary.BigEndian.AppendUint16(b, r.Error)
		b = binary.BigEndian.AppendUint16(b, uint16(len(r.Other)))
		b = append(b, r.Other...)
	}
	h.Write(b)
	return h.Sum(nil)
}

// appendTo adds the record to the message that begins at start of dst.
func (r *Record) appendTo(dst []byte, start int) []byte {
	dst = append(dst, r.Key...)
	dst = append(dst, 0, wire.TypeTSIG, 0, classANY, 0, 0, 0, 0, 0, 0)
	at := len(dst)
	dst = append(dst, r.Algorithm...)
	dst = binary.BigEndian.AppendUint16(appendTime(dst, r.Time), r.Fudge)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.MAC)))
	dst = append(dst, r.MAC...)
	dst = binary.BigEndian.AppendUint16(dst, r.ID)
	dst = binary.BigEndian.AppendUint16(dst, r.Error)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Other)))
	dst = append(dst, r.Other...)
	binary.BigEndian.PutUint16(dst[at-2:], uint16(len(dst)-at))
	binary.BigEndian.PutUint16(dst[start+10:], binary.BigEndian.Uint16(dst[start+10:])+1)
	return dst
}

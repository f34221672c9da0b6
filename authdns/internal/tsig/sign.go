package tsig

import (
	"encoding/binary"
)

// Signer signs the messages of one conversation: a request, or all messages of the reply to one.
type Signer struct {
	key   *Key
	prior []byte // MAC of the message before; nil: there is none
	later bool
}

// Request signs a request. Its MAC is what Verify and Stream want for the reply.
func Request(k *Key) *Signer { return &Signer{key: k} }

// Reply signs the messages of the reply to a request.
func Reply(k *Key, request *Record) *Signer {
	return &Signer{key: k, prior: append([]byte{}, request.MAC...)}
}

// MAC is that of the message signed last.
func (s *Signer) MAC() []byte { return s.prior }

// Size is how many octets Append adds, at most.
func (s *Signer) Size() int { return s.key.Size() }

// Append signs the message that begins at start of dst, as of now in seconds since 1970, and adds the record to it.
func (s *Signer) Append(dst []byte, start int, now uint64) []byte {
	return s.sign(dst, start, &Record{Time: now, Fudge: Fudge})
}

// AppendError is Append for a reply that tells the sender what is wrong with its signature: BadTime or BadTrunc, which
// are signed, since the key is the right one. With BadTime the time is the sender's and ours goes beside it (RFC 8945
// section 5.2.3).
func (s *Signer) AppendError(dst []byte, start int, code uint16, request *Record, now uint64) []byte {
	r := &Record{Time: now, Fudge: Fudge, Error: code}
	if code == BadTime {
		r.Time, r.Other = request.Time, appendTime(nil, now)
	}
	return s.sign(dst, start, r)
}

func (s *Signer) sign(dst []byte, start int, r *Record) []byte {
	r.Key, r.Algorithm = s.key.Name, s.key.Algorithm.wire()
	r.ID = binary.BigEndian.Uint16(dst[start:])
	r.MAC = r.sum(dst[start:], s.key, s.prior, s.later)
	s.prior, s.later = r.MAC, true
	return r.appendTo(dst, start)
}

// AppendUnsigned adds the record that refuses a request's key or signature, BadKey or BadSig: nothing is signed by a key
// that is not shared (RFC 8945 section 5.3.2).
func AppendUnsigned(dst []byte, start int, code uint16, request *Record) []byte {
	r := &Record{Key: request.Key, Algorithm: request.Algorithm, Time: request.Time, Fudge: Fudge, ID: request.ID, Error: code}
	return r.appendTo(dst, start)
}

// Stream verifies the messages of a reply of which every one is signed.
type Stream struct {
	key   *Key
	prior []byte
	later bool
}

// NewStream verifies the reply to a request with this MAC.
func NewStream(k *Key, request []byte) *Stream { return &Stream{key: k, prior: request} }

// Verify checks the next message; ok is false also when it is not signed, or by another key.
func (s *Stream) Verify(msg []byte, now uint64) (ok bool) {
	r, err := Find(msg)
	if err != nil || r == nil || !r.Uses(s.key) {
		return false
	}
	code, err := r.verify(msg, s.key, s.prior, now, s.later)
	s.prior, s.later = r.MAC, true
	return err == nil && code == NoError && r.Error == NoError
}

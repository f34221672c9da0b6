package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
)

// Sealed is ServerSecrets in an envelope (internal/envelope, use SecretsUse) for the name servers that there were when it was
// made. Everybody may read it: a snapshot holds no secret that can be read, wherever it is kept. It is never changed once
// made; a change is another one.
type Sealed struct {
	Envelope []byte `json:"envelope"`
}

// SecretsUse is what ServerSecrets are sealed for.
const SecretsUse = "server secrets"

// ServerSecrets are what name servers of a cluster share and nobody else may have. Its JSON holds all of it, and is for an
// envelope only.
type ServerSecrets struct {
	// Keys are the keys that messages about zones are signed by (RFC 8945), by zone and name.
	Keys []DNSKey `json:"keys,omitempty"`
	// Cookies are the secrets of DNS cookies; nil: each name server has its own.
	Cookies *CookieSecrets `json:"cookies,omitempty"`
}

// Equal reports whether two are the same.
func (s *ServerSecrets) Equal(o *ServerSecrets) bool {
	return slices.EqualFunc(s.Keys, o.Keys, DNSKey.Equal) && s.Cookies.Equal(o.Cookies)
}

// Empty reports whether there is nothing to share.
func (s *ServerSecrets) Empty() bool { return len(s.Keys) == 0 && s.Cookies == nil }

// Marshal gives the text for the envelope. The caller clears it.
func (s *ServerSecrets) Marshal() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil { // plain values: it does not happen
		return nil, fmt.Errorf("secrets of name servers cannot be encoded: %w", err)
	}
	return b, nil
}

// UnmarshalSecrets reads that text. The error holds nothing of it.
func UnmarshalSecrets(text []byte) (*ServerSecrets, error) {
	s := new(ServerSecrets)
	if json.Unmarshal(text, s) != nil {
		return nil, fmt.Errorf("the secrets of name servers are damaged, or of a newer version")
	}
	return s, nil
}

// Equal reports whether two are the same envelope.
func (s *Sealed) Equal(o *Sealed) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s == o || bytes.Equal(s.Envelope, o.Envelope)
}

// digest is the hash of an envelope in hex; empty for nil. It stands beside the digest of the snapshot, as that of Signing does.
func (s *Sealed) digest() string {
	if s == nil {
		return ""
	}
	return sum(sha256.Sum256(s.Envelope)).String()
}

// applySealed gives the Sealed of the result of a delta: the one it carries, or that of the base.
func (d *DNSDelta) applySealed(old *DNS) (*Sealed, bool) {
	if d.SealedDigest == "" {
		return nil, true // also of a control that seals nothing but zone keys
	}
	s := d.Sealed
	if s == nil && old != nil {
		s = old.Sealed
	}
	return s, s.digest() == d.SealedDigest
}

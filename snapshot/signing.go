package snapshot

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Signing is what name servers sign zones by. Everybody may read it: what is secret of it is sealed to the name servers.
// It is never changed once made; a change is another one.
type Signing struct {
	Zones []SignedZone `json:"zones"` // by name
	// Keys are the private keys as JSON of []PrivateKey, in an envelope (internal/envelope, use SigningUse) for the name
	// servers that there were when it was made.
	Keys []byte `json:"keys,omitempty"`

	once sync.Once
	hash string
}

// SigningUse is what Signing.Keys is sealed for.
const SigningUse = "zone keys"

// SignedZone is a zone that is signed, and its keys.
type SignedZone struct {
	Zone string `json:"zone"` // FQDN
	// Life is how long a signature is valid from its making on; a new one is made at half of it.
	Life time.Duration `json:"life"`
	// KeyTTL is the TTL of the DNSKEY, CDS, CDNSKEY and DS records.
	KeyTTL time.Duration `json:"keyTTL"`
	Keys   []ZoneKey     `json:"keys"`
	// Unsign: the zone leaves DNSSEC, and its CDS and CDNSKEY ask the parent to delete the DS (RFC 8078 section 4).
	Unsign bool `json:"unsign,omitempty"`
}

// ZoneKey is one published key, ECDSA P-256 (RFC 6605).
type ZoneKey struct {
	Tag    uint16 `json:"tag"`
	Flags  uint16 `json:"flags"`  // 257: key-signing; 256: zone-signing
	Public []byte `json:"public"` // x and y, 64 octets
	// Signs: signatures are made by it: a key-signing key's of the key sets, a zone-signing key's of all else.
	Signs bool `json:"signs,omitempty"`
	// DS: the DS of the parent should be of this key; CDS and CDNSKEY say so.
	DS bool `json:"ds,omitempty"`
}

// PrivateKey is the secret half of a ZoneKey.
type PrivateKey struct {
	Zone string `json:"zone"`
	Tag  uint16 `json:"tag"`
	Key  []byte `json:"key"` // the scalar, 32 octets
}

// Signs reports whether a zone is signed.
func (s *Signing) Signs(zone string) bool {
	return s != nil && slices.ContainsFunc(s.Zones, func(z SignedZone) bool { return z.Zone == zone })
}

// digest is the hash in hex of a Signing; empty for nil. It stands beside the digest of the snapshot, which name servers
// of the version before signing would compute otherwise.
func (s *Signing) digest() string {
	if s == nil {
		return ""
	}
	s.once.Do(func() {
		b, err := json.Marshal(s)
		if err != nil { // plain values: it does not happen
			panic(fmt.Sprintf("signing cannot be encoded: %v", err))
		}
		s.hash = sum(sha256.Sum256(b)).String()
	})
	return s.hash
}

// applySigning gives the Signing of the result of a delta: the one it carries, or that of the base.
func (d *DNSDelta) applySigning(old *DNS) (*Signing, bool) {
	if d.SigningDigest == "" {
		return nil, true // also of a control that knows no signing
	}
	s := d.Signing
	if s == nil && old != nil {
		s = old.Signing
	}
	return s, s.digest() == d.SigningDigest
}

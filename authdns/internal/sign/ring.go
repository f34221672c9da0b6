package sign

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
	"steerpoint/snapshot"
)

const (
	flagsKSK = 257
	// scalarLen is the length of a private key, and of each half of a public key and of a signature (RFC 6605).
	scalarLen = 32
	sigLen    = 2 * scalarLen
	// digestSHA256 is the digest type of DS records (RFC 4509).
	digestSHA256 = 2
	protocol     = 3 // of DNSKEY records; there is no other
)

// Ring is every signed zone with its keys. It does not change.
type Ring struct {
	zones map[string]*Zone // by name in wire form
}

// Zone is one signed zone.
type Zone struct {
	name  []byte // wire form, lower case
	text  string
	life  time.Duration
	zsk   []*key         // those that sign
	ksk   []*key         // likewise, the sets of keys
	tags  map[uint16]int // keys that are published, by tag
	keys  KeySet
	cds   KeySet
	cdns  KeySet
	ds    KeySet
	ready bool
}

// key is a published key; private nil: it is not at hand.
type key struct {
	snapshot.ZoneKey
	private *ecdsa.PrivateKey
}

// KeySet is a record set that follows from the keys of a zone. Count 0: there is none.
type KeySet struct {
	Type  uint16
	TTL   uint32
	Count uint16
	Wire  []byte   // as that of Set
	TTLAt []uint16 // offsets of the TTLs in Wire
}

// NewRing makes a ring. What private does not hold is taken from old, which may be nil, so that a zone is signed on when its
// keys cannot be opened any more. The error names zones that cannot be signed; the ring is to be used all the same.
func NewRing(s *snapshot.Signing, private []snapshot.PrivateKey, old *Ring) (*Ring, error) {
	r := &Ring{zones: map[string]*Zone{}}
	if s == nil {
		return r, nil
	}
	given := map[string][]byte{}
	for i := range private {
		given[secretName(private[i].Zone, private[i].Tag)] = private[i].Key
	}
	var errs []error
	for i := range s.Zones {
		z, err := newZone(&s.Zones[i], given, old)
		if err != nil {
			errs = append(errs, err)
		}
		if z != nil {
			r.zones[string(z.name)] = z
		}
	}
	return r, errors.Join(errs...)
}

func secretName(zone string, tag uint16) string { return fmt.Sprintf("%s %d", zone, tag) }

// Zone is the signed zone of a name in wire form and lower case; nil: that zone is not signed.
func (r *Ring) Zone(name []byte) *Zone {
	if r == nil {
		return nil
	}
	return r.zones[string(name)]
}

// Len is the number of signed zones.
func (r *Ring) Len() int {
	if r == nil {
		return 0
	}
	return len(r.zones)
}

func newZone(s *snapshot.SignedZone, given map[string][]byte, old *Ring) (*Zone, error) {
	buf := make([]byte, 256)
	n, err := dns.PackDomainName(s.Zone, buf, 0, nil, false)
	if err != nil {
		return nil, fmt.Errorf("signed zone %q has no domain name", s.Zone)
	}
	z := &Zone{name: lower(buf[:n]), text: s.Zone, life: s.Life, tags: map[uint16]int{}}
	if s.Life < minLife || s.KeyTTL < 0 || s.KeyTTL > maxTTL {
		return z, fmt.Errorf("signed zone %s: signatures that live %s and keys with TTL %s make no sense: it is not signed", s.Zone, s.Life, s.KeyTTL)
	}
	before := old.Zone(z.name)
	for i := range s.Keys {
		k := &key{ZoneKey: s.Keys[i]}
		k.private, err = privateKey(k.Public, given[secretName(s.Zone, k.Tag)])
		if err != nil {
			return z, fmt.Errorf("signed zone %s: key %d: %w", s.Zone, k.Tag, err)
		}
		if k.private == nil {
			k.private = before.private(k)
		}
		z.tags[k.Tag]++
		if !k.Signs || k.private == nil {
			continue
		}
		if k.Flags == flagsKSK {
			z.ksk = append(z.ksk, k)
		} else {
			z.zsk = append(z.zsk, k)
		}
	}
	z.ready = len(z.zsk) > 0 && len(z.ksk) > 0
	z.makeSets(s)
	if !z.ready {
		return z, fmt.Errorf("signed zone %s: the keys to sign it with are not at hand", s.Zone)
	}
	return z, nil
}

const (
	minLife = time.Minute
	maxTTL  = (1<<31 - 1) * time.Second
)

func lower(b []byte) []byte {
	for i, c := range b {
		b[i] = wire.Lower(c)
	}
	return b
}

// privateKey makes a key of its scalar and sees that it is the one of public. nil without a scalar.
func privateKey(public, scalar []byte) (*ecdsa.PrivateKey, error) {
	if len(public) != sigLen {
		return nil, errors.New("its public half is not one of ECDSA P-256")
	}
	if scalar == nil {
		return nil, nil
	}
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
	if err != nil {
		return nil, errors.New("its private half is not one of ECDSA P-256")
	}
	if point, err := k.PublicKey.Bytes(); err != nil || string(point[1:]) != string(public) {
		return nil, errors.New("its halves do not belong together")
	}
	return k, nil
}

// private is the private half that a zone of before has of a key; nil: it has none.
func (z *Zone) private(k *key) *ecdsa.PrivateKey {
	if z == nil {
		return nil
	}
	for _, have := range append(z.zsk[:len(z.zsk):len(z.zsk)], z.ksk...) {
		if have.Tag == k.Tag && string(have.Public) == string(k.Public) {
			return have.private
		}
	}
	return nil
}

// Ready reports whether the zone can be signed. One that cannot be must not be answered to who wants signatures.
func (z *Zone) Ready() bool { return z.ready }

// Keys gives the set of a type at the apex that follows from the keys; nil: there is none.
func (z *Zone) Keys(rrType uint16) *KeySet {
	var s *KeySet
	switch rrType {
	case dns.TypeDNSKEY:
		s = &z.keys
	case dns.TypeCDS:
		s = &z.cds
	case dns.TypeCDNSKEY:
		s = &z.cdns
	default:
		return nil
	}
	if s.Count == 0 {
		return nil
	}
	return s
}

// DS gives the set that belongs into the zone above, if that is ours too; nil: there is none.
func (z *Zone) DS() *KeySet {
	if z.ds.Count == 0 {
		return nil
	}
	return &z.ds
}

// makeSets makes the sets that follow from the keys.
func (z *Zone) makeSets(s *snapshot.SignedZone) {
	ttl := uint32(s.KeyTTL / time.Second)
	z.keys, z.cds = KeySet{Type: dns.TypeDNSKEY, TTL: ttl}, KeySet{Type: dns.TypeCDS, TTL: ttl}
	z.cdns, z.ds = KeySet{Type: dns.TypeCDNSKEY, TTL: ttl}, KeySet{Type: dns.TypeDS, TTL: ttl}
	for i := range s.Keys {
		k := &s.Keys[i]
		data := keyData(k)
		z.keys.add(data)
		if k.DS {
			ds := dsData(z.name, k)
			z.ds.add(ds)
			if !s.Unsign {
				z.cds.add(ds)
				z.cdns.add(data)
			}
		}
	}
	if s.Unsign { // RFC 8078 section 4
		z.cds.add([]byte{0, 0, 0, 0, 0})
		z.cdns.add([]byte{0, 0, protocol, 0, 0})
	}
}

func (s *KeySet) add(data []byte) {
	s.Wire = binary.BigEndian.AppendUint16(s.Wire, questionPointer)
	s.Wire = binary.BigEndian.AppendUint16(s.Wire, s.Type)
	s.Wire = binary.BigEndian.AppendUint16(s.Wire, wire.ClassIN)
	s.TTLAt = append(s.TTLAt, uint16(len(s.Wire)))
	s.Wire = append(s.Wire, 0, 0, 0, 0)
	s.Wire = binary.BigEndian.AppendUint16(s.Wire, uint16(len(data)))
	s.Wire = append(s.Wire, data...)
	s.Count++
}

// keyData is the RDATA of a DNSKEY.
func keyData(k *snapshot.ZoneKey) []byte {
	out := binary.BigEndian.AppendUint16(nil, k.Flags)
	return append(append(out, protocol, dns.ECDSAP256SHA256), k.Public...)
}

// dsData is the RDATA of a DS with SHA-256 (RFC 4509).
func dsData(zone []byte, k *snapshot.ZoneKey) []byte {
	sum := sha256.Sum256(append(append([]byte{}, zone...), keyData(k)...))
	out := binary.BigEndian.AppendUint16(nil, k.Tag)
	return append(append(out, dns.ECDSAP256SHA256, digestSHA256), sum[:]...)
}

// signers are the keys that sign a type.
func (z *Zone) signers(rrType uint16) []*key {
	switch rrType {
	case dns.TypeDNSKEY, dns.TypeCDS, dns.TypeCDNSKEY: // RFC 7344 section 4.1: by a key that the DS is of
		return z.ksk
	default:
		return z.zsk
	}
}

// signature makes r and s, each in 32 octets (RFC 6605 section 4).
func signature(k *ecdsa.PrivateKey, digest []byte) ([]byte, error) {
	r, s, err := ecdsa.Sign(rand.Reader, k, digest)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	out := make([]byte, sigLen)
	r.FillBytes(out[:scalarLen])
	s.FillBytes(out[scalarLen:])
	return out, nil
}

package zonekeys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

const (
	protocol     = 3
	algorithm    = 13 // ECDSAP256SHA256, RFC 6605
	digestSHA256 = 2  // RFC 4509
	digestSHA384 = 4  // RFC 6605
	publicLen    = 64
)

// Generate makes a key whose tag is none of those taken, and its secret: the scalar, 32 octets.
func Generate(ksk bool, now time.Time, taken func(tag uint16) bool) (Key, []byte, error) {
	for {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return Key{}, nil, fmt.Errorf("make a zone key: %w", err)
		}
		point, err := private.PublicKey.Bytes()
		if err != nil || len(point) != 1+publicLen {
			return Key{}, nil, fmt.Errorf("make a zone key: its point has %d octets: %w", len(point), err)
		}
		secret, err := private.Bytes()
		if err != nil {
			return Key{}, nil, fmt.Errorf("make a zone key: %w", err)
		}
		k := Key{KSK: ksk, Public: point[1:], Made: now.UTC().Truncate(time.Second)}
		k.Tag = tagOf(k.data())
		// Two keys of one tag would be mistaken for each other by people, and cost validators a try (RFC 4034 appendix B).
		if !taken(k.Tag) {
			return k, secret, nil
		}
	}
}

// data is the RDATA of the DNSKEY.
func (k *Key) data() []byte {
	out := binary.BigEndian.AppendUint16(nil, k.Flags())
	return append(append(out, protocol, algorithm), k.Public...)
}

// tagOf is the key tag of a DNSKEY (RFC 4034 appendix B).
func tagOf(data []byte) uint16 {
	var sum uint32
	for i, b := range data {
		if i%2 == 0 {
			sum += uint32(b) << 8
		} else {
			sum += uint32(b)
		}
	}
	return uint16(sum + sum>>16)
}

// DS is the RDATA of the DS of a key in presentation form, with SHA-256. zone is a FQDN in lower case.
func (k *Key) DS(zone string) string {
	sum := sha256.Sum256(append(wireName(zone), k.data()...))
	return fmt.Sprintf("%d %d %d %X", k.Tag, algorithm, digestSHA256, sum)
}

// DSForms are the DS that a parent may make of a key, that of DS first. One with SHA-1 alone is no good to validators any more
// (RFC 9905), so it is none of them.
func (k *Key) DSForms(zone string) []string {
	sum := sha512.Sum384(append(wireName(zone), k.data()...))
	return []string{k.DS(zone), fmt.Sprintf("%d %d %d %X", k.Tag, algorithm, digestSHA384, sum)}
}

// wireName is a host name in wire form.
func wireName(fqdn string) []byte {
	var out []byte
	for _, label := range strings.Split(strings.TrimSuffix(fqdn, "."), ".") {
		if label != "" {
			out = append(append(out, byte(len(label))), label...)
		}
	}
	return append(out, 0)
}

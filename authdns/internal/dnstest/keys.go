package dnstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/snapshot"
)

// Key makes a key of a zone, its secret, and the record that is published. A key-signing key (flags 257) has a DS.
func Key(t testing.TB, zone string, flags uint16) (snapshot.ZoneKey, snapshot.PrivateKey, *dns.DNSKEY) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := k.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := k.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	z := snapshot.ZoneKey{Flags: flags, Public: point[1:], Signs: true, DS: flags == 257}
	rr := DNSKEY(zone, z)
	z.Tag = rr.KeyTag()
	return z, snapshot.PrivateKey{Zone: zone, Tag: z.Tag, Key: secret}, rr
}

// DNSKEY is the record of a key.
func DNSKEY(zone string, k snapshot.ZoneKey) *dns.DNSKEY {
	return &dns.DNSKEY{
		Hdr: dns.RR_Header{Name: zone, Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600}, Flags: k.Flags, Protocol: 3,
		Algorithm: dns.ECDSAP256SHA256, PublicKey: base64.StdEncoding.EncodeToString(k.Public),
	}
}

package sign

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/wire"
	"steerpoint/snapshot"
)

const zoneName = "example.net."

// makeKey makes a key of a zone and its secret.
func makeKey(t testing.TB, zone string, flags uint16, signs, ds bool) (snapshot.ZoneKey, snapshot.PrivateKey) {
	t.Helper()
	z, secret, _ := dnstest.Key(t, zone, flags)
	z.Signs, z.DS = signs, ds
	return z, secret
}

// signing is a zone with one key of each kind.
func signing(t testing.TB, life time.Duration) (*snapshot.Signing, []snapshot.PrivateKey) {
	t.Helper()
	ksk, kskSecret := makeKey(t, zoneName, 257, true, true)
	zsk, zskSecret := makeKey(t, zoneName, 256, true, false)
	return &snapshot.Signing{Zones: []snapshot.SignedZone{{Zone: zoneName, Life: life, KeyTTL: time.Hour, Keys: []snapshot.ZoneKey{ksk, zsk}}}},
		[]snapshot.PrivateKey{kskSecret, zskSecret}
}

func ring(t testing.TB, s *snapshot.Signing, secrets []snapshot.PrivateKey, old *Ring) *Ring {
	t.Helper()
	r, err := NewRing(s, secrets, old)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func packed(t testing.TB, name string) []byte {
	t.Helper()
	buf := make([]byte, 256)
	n, err := dns.PackDomainName(name, buf, 0, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return lower(buf[:n])
}

// setOf makes a set of records in presentation form, their owner left out.
func setOf(t testing.TB, owner string, ttl uint32, records ...string) (Set, []dns.RR) {
	t.Helper()
	s := Set{Owner: packed(t, owner), TTL: ttl}
	var rrs []dns.RR
	for _, text := range records {
		rr, err := dns.NewRR(fmt.Sprintf("%s %d IN %s", owner, ttl, text))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		n, err := dns.PackRR(rr, buf, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		rrs, s.Type = append(rrs, rr), rr.Header().Rrtype
		s.Wire = append(append(s.Wire, 0xC0, wire.HeaderLen), buf[len(packed(t, owner)):n]...)
	}
	return s, rrs
}

// rrsigs reads what Append writes.
func rrsigs(t testing.TB, e *Signed, owner string, ttl uint32) []*dns.RRSIG {
	t.Helper()
	msg := append(make([]byte, wire.HeaderLen), packed(t, owner)...)
	off := len(msg)
	msg = e.Append(msg, questionPointer, ttl)
	var out []*dns.RRSIG
	for off < len(msg) {
		rr, next, err := dns.UnpackRR(msg, off)
		if err != nil {
			t.Fatal(err)
		}
		out, off = append(out, rr.(*dns.RRSIG)), next
	}
	if len(out) != int(e.Count()) || len(msg) != wire.HeaderLen+len(packed(t, owner))+e.Len() {
		t.Fatalf("%d signatures in %d octets, not %d in %d", len(out), len(msg), e.Count(), e.Len())
	}
	return out
}

func at(unix int) Clock { return Clock{Unix: uint32(unix), Mono: time.Duration(unix) * time.Second} }

const now0 = 1_900_000_000

// TestSignaturesVerify: what is signed, of every type whose canonical form differs from the wire, verifies with another
// implementation.
//
// Covers: issue5 dnssec signatures, rfc 4034 canonical
func TestSignaturesVerify(t *testing.T) {
	sg, secrets := signing(t, 14*24*time.Hour)
	s := New(Config{})
	s.SetRing(ring(t, sg, secrets, nil))
	z := s.Ring().Zone(packed(t, zoneName))
	for _, row := range []struct {
		owner   string
		records []string
	}{
		{"www.example.net.", []string{"A 192.0.2.2", "A 192.0.2.10", "A 192.0.2.1"}},
		{"WWW.Example.NET.", []string{"AAAA 2001:db8::2", "AAAA 2001:db8::1"}},
		{"example.net.", []string{"NS NS2.Example.Net.", "NS ns1.Elsewhere.TEST."}},
		{"example.net.", []string{"SOA Ns1.Example.net. Hostmaster.Example.net. 7 3600 600 1209600 60"}},
		{"example.net.", []string{"MX 10 Mail.Example.net.", "MX 5 mail2.example.net."}},
		{"_sip._tcp.example.net.", []string{"SRV 0 5 5060 Sip.Example.net."}},
		{"example.net.", []string{`NAPTR 100 10 "U" "E2U+sip" "!^.*$!sip:Info@Example.net!" Replace.Example.net.`}},
		{"a.example.net.", []string{"CNAME Target.Example.ORG."}},
		{"a.example.net.", []string{"DNAME Target.Example.ORG."}},
		{"a.example.net.", []string{"PTR Host.Example.ORG."}},
		{"a.example.net.", []string{"RP Me.Example.org. Text.Example.org."}},
		{"a.example.net.", []string{"AFSDB 1 Afs.Example.org."}},
		{"a.example.net.", []string{"KX 1 Kx.Example.org."}},
		{"a.example.net.", []string{"PX 1 Px.Example.org. Py.Example.org."}},
		{"a.example.net.", []string{`TXT "Mixed Case" "stays"`, `TXT "b"`}},
		{"a.example.net.", []string{`CAA 0 issue "CA.example"`}},
		{"a.example.net.", []string{`HTTPS 1 Svc.Example.net. alpn="h2,h3" ipv4hint="192.0.2.1"`}},
		{"a.example.net.", []string{`TYPE65280 \# 4 0A000001`}},
		{"a.example.net.", []string{`TLSA 3 1 1 AABBCC`}},
		{"*.wild.example.net.", []string{"A 192.0.2.9"}},
		{`\000.a.example.net.`, []string{"A 192.0.2.9"}},
	} {
		set, rrs := setOf(t, row.owner, 300, row.records...)
		e := s.Sign(z, &set, Known, at(now0))
		if e == nil {
			t.Errorf("%s %v: not signed", row.owner, row.records)
			continue
		}
		for _, sig := range rrsigs(t, e, row.owner, 17) {
			if sig.Hdr.Ttl != 17 || sig.OrigTtl != 300 || sig.KeyTag != sg.Zones[0].Keys[1].Tag || sig.SignerName != zoneName {
				t.Errorf("%s %v: %v", row.owner, row.records, sig)
			}
			if !sig.ValidityPeriod(time.Unix(now0, 0)) || sig.ValidityPeriod(time.Unix(now0+15*86400, 0)) {
				t.Errorf("%s: valid from %d to %d", row.owner, sig.Inception, sig.Expiration)
			}
			if err := sig.Verify(dnstest.DNSKEY(zoneName, sg.Zones[0].Keys[1]), rrs); err != nil {
				t.Errorf("%s %v: %v", row.owner, row.records, err)
			}
		}
	}
}

// TestLabelsOfStars: only a label that is * alone is a wildcard; the library takes *a for one, so its verdict is no oracle
// here.
//
// Covers: issue5 dnssec signatures
func TestLabelsOfStars(t *testing.T) {
	for name, want := range map[string]uint8{".": 0, "a.": 1, "*.a.": 1, "*a.b.": 2, "x.*.a.": 3, "*.": 0} {
		if got := labels(packed(t, name)); got != want {
			t.Errorf("%s: %d labels, want %d", name, got, want)
		}
	}
}

// TestCompressedNames: a name that ends in a pointer to the question is signed whole.
//
// Covers: issue5 dnssec signatures
func TestCompressedNames(t *testing.T) {
	sg, secrets := signing(t, 24*time.Hour)
	s := New(Config{})
	s.SetRing(ring(t, sg, secrets, nil))
	set := Set{Owner: packed(t, zoneName), Type: dns.TypeNS, TTL: 60, Wire: []byte{
		0xC0, 12, 0, 2, 0, 1, 0, 0, 0, 0, 0, 6, 3, 'N', 's', '1', 0xC0, 12,
	}}
	e := s.Sign(s.Ring().Zone(packed(t, zoneName)), &set, Known, at(now0))
	if e == nil {
		t.Fatal("not signed")
	}
	_, rrs := setOf(t, zoneName, 60, "NS ns1.example.net.")
	if err := rrsigs(t, e, zoneName, 60)[0].Verify(dnstest.DNSKEY(zoneName, sg.Zones[0].Keys[1]), rrs); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]byte{nil, {1}, set.Wire[:len(set.Wire)-1], append([]byte{0}, set.Wire[1:]...), append(append([]byte{}, set.Wire[:17]...), 13)} {
		set.Wire = bad
		if s.Sign(s.Ring().Zone(packed(t, zoneName)), &set, Known, at(now0)) != nil {
			t.Errorf("%x is signed", bad)
		}
	}
}

// TestKeySets: DNSKEY, CDS and CDNSKEY are signed by every key-signing key; DS is what the library makes of the key; a zone
// that leaves asks for its DS to be deleted.
//
// Covers: issue5 dnssec keys, rfc 8624 algorithm, rfc 9904 algorithm
func TestKeySets(t *testing.T) {
	sg, secrets := signing(t, 24*time.Hour)
	next, nextSecret := makeKey(t, zoneName, 257, true, false)
	sg.Zones[0].Keys = append(sg.Zones[0].Keys, next)
	s := New(Config{})
	s.SetRing(ring(t, sg, append(secrets, nextSecret), nil))
	z := s.Ring().Zone(packed(t, zoneName))
	for rrType, count := range map[uint16]uint16{dns.TypeDNSKEY: 3, dns.TypeCDS: 1, dns.TypeCDNSKEY: 1} {
		set := z.Keys(rrType)
		if set == nil || set.Count != count || set.TTL != 3600 {
			t.Fatalf("type %d: %+v", rrType, set)
		}
		e := s.Sign(z, &Set{Owner: packed(t, zoneName), Type: set.Type, TTL: set.TTL, Wire: set.Wire}, Known, at(now0))
		if e == nil || e.Count() != 2 {
			t.Fatalf("type %d: signed by %v", rrType, e)
		}
		msg := append(append(make([]byte, wire.HeaderLen), packed(t, zoneName)...), set.Wire...)
		var rrs []dns.RR
		for off := wire.HeaderLen + len(packed(t, zoneName)); off < len(msg); {
			rr, next, err := dns.UnpackRR(msg, off)
			if err != nil {
				t.Fatal(err)
			}
			rr.Header().Ttl = set.TTL
			rrs, off = append(rrs, rr), next
		}
		for i, sig := range rrsigs(t, e, zoneName, 60) {
			if err := sig.Verify(dnstest.DNSKEY(zoneName, []snapshot.ZoneKey{sg.Zones[0].Keys[0], next}[i]), rrs); err != nil {
				t.Errorf("type %d, signature %d: %v", rrType, i, err)
			}
		}
		if rrType == dns.TypeCDS {
			want := dnstest.DNSKEY(zoneName, sg.Zones[0].Keys[0]).ToDS(dns.SHA256)
			got := rrs[0].(*dns.CDS)
			if got.KeyTag != want.KeyTag || got.DigestType != want.DigestType || !strings.EqualFold(got.Digest, want.Digest) {
				t.Errorf("CDS %v, want %v", got, want)
			}
		}
	}
	if z.Keys(dns.TypeA) != nil || z.DS() == nil || z.DS().Type != dns.TypeDS {
		t.Error("sets of other types")
	}
	sg.Zones[0].Unsign = true
	leaving := ring(t, sg, append(secrets, nextSecret), nil).Zone(packed(t, zoneName))
	if got := leaving.Keys(dns.TypeCDS).Wire[rrHead:]; string(got) != "\x00\x00\x00\x00\x00" {
		t.Errorf("CDS of a zone that leaves: %x", got)
	}
	if got := leaving.Keys(dns.TypeCDNSKEY).Wire[rrHead:]; string(got) != "\x00\x00\x03\x00\x00" {
		t.Errorf("CDNSKEY of a zone that leaves: %x", got)
	}
}

// TestCache: a second question costs no signature and allocates nothing; another answer, owner or TTL has its own.
//
// Covers: issue5 dnssec signatures
func TestCache(t *testing.T) {
	sg, secrets := signing(t, 24*time.Hour)
	s := New(Config{})
	s.SetRing(ring(t, sg, secrets, nil))
	z := s.Ring().Zone(packed(t, zoneName))
	set, _ := setOf(t, "www.example.net.", 300, "A 192.0.2.1")
	first := s.Sign(z, &set, Known, at(now0))
	clock := at(now0 + 60)
	if n := testing.AllocsPerRun(1000, func() {
		if s.Sign(z, &set, Known, clock) != first {
			t.Fatal("signed twice")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a cached signature", n)
	}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(1000, func() { buf = first.Append(buf[:0], questionPointer, 30) }); n != 0 {
		t.Errorf("%v allocations to append it", n)
	}
	made := s.Totals().Made.Known
	for _, other := range []Set{
		{Owner: packed(t, "www2.example.net."), Type: set.Type, TTL: set.TTL, Wire: set.Wire},
		{Owner: set.Owner, Type: set.Type, TTL: 301, Wire: set.Wire},
		{Owner: set.Owner, Type: set.Type, TTL: set.TTL, Wire: append(append([]byte{}, set.Wire[:len(set.Wire)-1]...), 2)},
	} {
		if s.Sign(z, &other, Known, at(now0)) == first {
			t.Errorf("%+v has the signature of another", other)
		}
	}
	if got := s.Totals().Made.Known - made; got != 3 {
		t.Errorf("%d signatures for three sets", got)
	}
}

// TestRenewal: a signature is made anew when half of its life is over and not before, in the background when it was used of
// late; one that is over, or of a time to come, is not used at all.
//
// Covers: issue5 dnssec signatures, rfc 4035 clock
func TestRenewal(t *testing.T) {
	const day = 86400
	sg, secrets := signing(t, 14*day*time.Second)
	s := New(Config{})
	s.SetRing(ring(t, sg, secrets, nil))
	z := s.Ring().Zone(packed(t, zoneName))
	set, _ := setOf(t, "www.example.net.", 300, "A 192.0.2.1")
	first := s.Sign(z, &set, Known, at(now0))
	if s.Sign(z, &set, Known, at(now0+5*day)) != first {
		t.Error("made anew before half of its life is over")
	}
	if n := s.Renew(at(now0+9*day), day*time.Second, 10); n != 0 {
		t.Errorf("%d made anew that nobody asked for", n)
	}
	if n := s.Renew(at(now0+9*day), 30*day*time.Second, 10); n != 1 {
		t.Errorf("%d made anew in the background", n)
	}
	second := s.Sign(z, &set, Known, at(now0+9*day))
	if second == first || second.expiry != now0+23*day {
		t.Error("not made anew")
	}
	if s.NextExpiry(at(now0+9*day)) != second.expiry {
		t.Errorf("next expiry %d", s.NextExpiry(at(now0+9*day)))
	}
	if third := s.Sign(z, &set, Known, at(now0+30*day)); third == second || third.expiry < now0+30*day {
		t.Error("an expired signature is used")
	}
	back := Clock{Unix: now0 - 30*day, Mono: at(now0 + 31*day).Mono}
	if fourth := s.Sign(z, &set, Known, back); fourth.inception > now0-30*day {
		t.Error("after the clock was set back a signature of the future is used")
	}
}

// TestRollOfKeys: after a roll of the zone-signing key old signatures are used while their key is published, and replaced
// when they are asked for; a key set is signed by a new key-signing key at once.
//
// Covers: issue5 dnssec keys
func TestRollOfKeys(t *testing.T) {
	sg, secrets := signing(t, 24*time.Hour)
	s := New(Config{KnownRate: 1})
	s.SetRing(ring(t, sg, secrets, nil))
	apex := packed(t, zoneName)
	set, _ := setOf(t, "www.example.net.", 300, "A 192.0.2.1")
	first := s.Sign(s.Ring().Zone(apex), &set, Known, at(now0))
	zsk, zskSecret := makeKey(t, zoneName, 256, true, false)
	keys := sg.Zones[0].Keys
	keys[1].Signs = false
	rolled := &snapshot.Signing{Zones: []snapshot.SignedZone{{Zone: zoneName, Life: 24 * time.Hour, KeyTTL: time.Hour, Keys: append(keys, zsk)}}}
	s.SetRing(ring(t, rolled, append(secrets, zskSecret), s.Ring()))
	second := s.Sign(s.Ring().Zone(apex), &set, Known, at(now0))
	if second == first || rrsigs(t, second, "www.example.net.", 1)[0].KeyTag != zsk.Tag {
		t.Error("the new key does not sign")
	}
	// The budget is used up: what the old key signed is good enough while that is published.
	other, _ := setOf(t, "other.example.net.", 300, "A 192.0.2.1")
	e, err := first.zone.sign(&other, now0)
	if err != nil {
		t.Fatal(err)
	}
	e.hash = s.hash(first.zone, &other)
	s.tables[Known].put(e)
	if s.Sign(s.Ring().Zone(apex), &other, Known, at(now0)) != e {
		t.Error("a good signature of the old key is not used")
	}
	gone := &snapshot.Signing{Zones: []snapshot.SignedZone{{Zone: zoneName, Life: 24 * time.Hour, KeyTTL: time.Hour, Keys: []snapshot.ZoneKey{keys[0], zsk}}}}
	s.SetRing(ring(t, gone, append(secrets, zskSecret), s.Ring()))
	if got := s.Sign(s.Ring().Zone(apex), &other, Known, at(now0)); got != nil {
		t.Error("a signature of a key that is gone is used")
	}
	if s.Totals().Refused.Known != 1 {
		t.Errorf("%+v", s.Totals())
	}
}

// TestMissingKeys: a zone without its private keys is known as signed and cannot be; keys that were in use before stay in use
// when they cannot be opened again; a key that does not fit is refused.
//
// Covers: issue5 dnssec keys missing, rfc 4035 keys away
func TestMissingKeys(t *testing.T) {
	sg, secrets := signing(t, 24*time.Hour)
	r, err := NewRing(sg, nil, nil)
	if err == nil || r.Zone(packed(t, zoneName)) == nil || r.Zone(packed(t, zoneName)).Ready() {
		t.Errorf("without keys: %v", err)
	}
	good := ring(t, sg, secrets, nil)
	r, err = NewRing(sg, nil, good)
	if err != nil || !r.Zone(packed(t, zoneName)).Ready() {
		t.Errorf("with the keys of before: %v", err)
	}
	wrong := append([]snapshot.PrivateKey{}, secrets...)
	wrong[0].Key, wrong[1].Key = wrong[1].Key, wrong[0].Key
	for _, s := range [][]snapshot.PrivateKey{wrong, {{Zone: zoneName, Tag: secrets[0].Tag, Key: []byte("short")}}} {
		r, err := NewRing(sg, s, nil)
		if err == nil || r.Zone(packed(t, zoneName)).Ready() {
			t.Errorf("keys that do not fit: %v", err)
		}
	}
}

// TestBudget: made-up names get a bounded number of signatures and never push known ones out; the budget grows with time.
//
// Covers: issue5 dnssec flood
func TestBudget(t *testing.T) {
	sg, secrets := signing(t, 24*time.Hour)
	s := New(Config{KnownSize: 64, MadeUpSize: 64, MadeUpRate: 10})
	s.SetRing(ring(t, sg, secrets, nil))
	z := s.Ring().Zone(packed(t, zoneName))
	known, _ := setOf(t, "www.example.net.", 300, "A 192.0.2.1")
	first := s.Sign(z, &known, Known, at(now0))
	flood := func(class Class, clock Clock) (signed int) {
		for i := range 200 {
			set, _ := setOf(t, fmt.Sprintf("x%d-%d.example.net.", class, i), 300, fmt.Sprintf("A 192.0.2.%d", clock.Unix%200))
			if s.Sign(z, &set, class, clock) != nil {
				signed++
			}
		}
		return signed
	}
	if n := flood(MadeUp, at(now0)); n != 20 {
		t.Errorf("%d signatures at once, want 20", n)
	}
	if n := flood(MadeUpTCP, at(now0)); n != 20 {
		t.Errorf("%d signatures over TCP, want 20: a flood over UDP takes them", n)
	}
	if n := flood(MadeUp, at(now0+1)); n != 10 {
		t.Errorf("%d signatures a second later, want 10", n)
	}
	if s.Sign(z, &known, Known, at(now0+1)) != first {
		t.Error("the flood took a known signature out of the cache")
	}
}

// TestTable: a full table gives up what was used longest ago, and never more than one place.
//
// Covers: issue5 dnssec flood
func TestTable(t *testing.T) {
	tb := newTable(ways)
	z := &Zone{name: packed(t, zoneName)}
	var all []*Signed
	for i := range ways + 1 {
		e := &Signed{zone: z, owner: []byte{byte(i)}, hash: uint64(i)}
		e.used.Store(uint32(100 - i))
		tb.put(e)
		all = append(all, e)
	}
	for i, e := range all {
		got := tb.find(e.hash, z, &Set{Owner: e.owner})
		if (got == nil) != (i == ways-1) {
			t.Errorf("entry %d: %v", i, got)
		}
	}
	again := &Signed{zone: z, owner: []byte{0}, hash: 0}
	tb.put(again)
	n := 0
	tb.each(func(*Signed) { n++ })
	if n != ways || tb.find(0, z, &Set{Owner: []byte{0}}) != again {
		t.Errorf("%d entries", n)
	}
}

// BenchmarkSign makes one signature of one address.
func BenchmarkSign(b *testing.B) {
	sg, secrets := signing(b, 24*time.Hour)
	z := ring(b, sg, secrets, nil).Zone(packed(b, zoneName))
	set, _ := setOf(b, "www.example.net.", 300, "A 192.0.2.1")
	for b.Loop() {
		if _, err := z.sign(&set, now0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCached looks up a signature that is in the cache.
func BenchmarkCached(b *testing.B) {
	sg, secrets := signing(b, 24*time.Hour)
	s := New(Config{})
	s.SetRing(ring(b, sg, secrets, nil))
	z := s.Ring().Zone(packed(b, zoneName))
	set, _ := setOf(b, "www.example.net.", 300, "A 192.0.2.1")
	clock := at(now0)
	s.Sign(z, &set, Known, clock)
	for b.Loop() {
		s.Sign(z, &set, Known, clock)
	}
}

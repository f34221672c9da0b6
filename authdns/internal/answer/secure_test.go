package answer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/sign"
	"steerpoint/snapshot"
)

// now is the wall clock of these tests.
const now = 1_900_000_000

// zoneKeys are the public keys of a signed zone, by name of the zone.
type zoneKeys map[string][]*dns.DNSKEY

// signed is a responder that signs some zones of the test map, and their keys.
func signed(t testing.TB, cfg sign.Config, d *snapshot.DNS, zones ...string) (*Responder, zoneKeys) {
	t.Helper()
	signer := sign.New(cfg)
	var sg snapshot.Signing
	var secrets []snapshot.PrivateKey
	keys := zoneKeys{}
	for _, name := range zones {
		z := snapshot.SignedZone{Zone: name, Life: 14 * 24 * time.Hour, KeyTTL: time.Hour}
		for _, flags := range []uint16{257, 256} {
			k, secret, rr := dnstest.Key(t, name, flags)
			z.Keys, secrets, keys[name] = append(z.Keys, k), append(secrets, secret), append(keys[name], rr)
		}
		sg.Zones = append(sg.Zones, z)
	}
	ring, err := sign.NewRing(&sg, secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	signer.SetRing(ring)
	r := NewResponder(Config{MaxUDP: 1232, Signer: signer})
	r.SetIndex(build(t, d))
	return r, keys
}

// secureAsk asks with DO, and CO if co.
func secureAsk(t testing.TB, r *Responder, name string, qtype uint16, co bool, x *Exchange, options ...dns.EDNS0) *dns.Msg {
	t.Helper()
	q := dnstest.Query(name, qtype, options...)
	q.IsEdns0().SetDo()
	q.IsEdns0().SetCo(co)
	x.Unix = now
	if !x.Client.IsValid() {
		x.Client = resolver
	}
	return dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, q), x))
}

// verify checks every signature of a section, and that every set has one; it gives the types that are signed.
func (k zoneKeys) verify(t testing.TB, section []dns.RR) (types []string) {
	t.Helper()
	sets := map[string][]dns.RR{}
	var sigs []*dns.RRSIG
	for _, rr := range section {
		if s, ok := rr.(*dns.RRSIG); ok {
			sigs = append(sigs, s)
			continue
		}
		key := strings.ToLower(rr.Header().Name) + " " + dns.TypeToString[rr.Header().Rrtype]
		sets[key] = append(sets[key], rr)
	}
	for _, s := range sigs {
		key := strings.ToLower(s.Hdr.Name) + " " + dns.TypeToString[s.TypeCovered]
		set := sets[key]
		if len(set) == 0 {
			t.Fatalf("a signature of nothing: %v", s)
		}
		if s.Hdr.Ttl != set[0].Header().Ttl || s.Hdr.Ttl > s.OrigTtl {
			t.Errorf("%s: TTL %d, of its signature %d, signed %d", key, set[0].Header().Ttl, s.Hdr.Ttl, s.OrigTtl)
		}
		i := slices.IndexFunc(k[s.SignerName], func(d *dns.DNSKEY) bool { return d.KeyTag() == s.KeyTag })
		if i < 0 {
			t.Fatalf("%s: signed by a key that is not of %s", key, s.SignerName)
		}
		if err := s.Verify(k[s.SignerName][i], set); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if !s.ValidityPeriod(time.Unix(now, 0)) {
			t.Errorf("%s: not valid now", key)
		}
		types = append(types, dns.TypeToString[s.TypeCovered])
	}
	if len(types) != len(sets) {
		t.Errorf("%d signatures for %d sets: %v", len(types), len(sets), section)
	}
	slices.Sort(types)
	return types
}

// bitmap is the types of the NSEC in a denial, without the two that every one has; its owner must be the name asked for, and
// nothing may lie between it and the next name.
func bitmap(t testing.TB, m *dns.Msg) string {
	t.Helper()
	for _, rr := range m.Ns {
		n, ok := rr.(*dns.NSEC)
		if !ok {
			continue
		}
		if !strings.EqualFold(n.Hdr.Name, m.Question[0].Name) || !strings.EqualFold(n.NextDomain, `\000.`+m.Question[0].Name) {
			t.Errorf("NSEC from %s to %s for %s", n.Hdr.Name, n.NextDomain, m.Question[0].Name)
		}
		var out []string
		for _, rrType := range n.TypeBitMap {
			if rrType != dns.TypeRRSIG && rrType != dns.TypeNSEC {
				out = append(out, dns.Type(rrType).String())
			}
		}
		if len(out) != len(n.TypeBitMap)-2 {
			t.Errorf("%v lacks RRSIG or NSEC", n.TypeBitMap)
		}
		return strings.Join(out, " ")
	}
	return "no NSEC"
}

// TestSignedAnswers: every kind of answer of a signed zone verifies, in every scope; the record set itself is what it is
// without DNSSEC.
//
// Covers: issue5 dnssec signatures, E2, rfc 4035 each set, rfc 4034 ttl
func TestSignedAnswers(t *testing.T) {
	r, keys := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.", "example.com.")
	for _, row := range []struct {
		name, qtype, subnet string
		types               string // signed
	}{
		{"shop.gslb.example.net.", "A", "", "A"},
		{"shop.gslb.example.net.", "AAAA", "", "AAAA"},
		{"SHOP.gslb.Example.NET.", "A", "", "A"},
		{"shop.gslb.example.net.", "A", "192.0.2.0/24", "CNAME"},
		{"shop.gslb.example.net.", "A", "198.51.100.128/25", "A"},
		{"shop.gslb.example.net.", "A", "203.0.113.0/24", "A"},
		{"split.gslb.example.net.", "A", "198.51.100.0/24", "A"},
		{"www.example.com.", "A", "", "A"},
		{"example.com.", "A", "", "A"},
		{"example.com.", "TXT", "", "TXT"},
		{"example.com.", "SOA", "", "SOA"},
		{"gslb.example.net.", "NS", "", "NS"},
		{"gslb.example.net.", "ANY", "", "SOA"},
		{"gslb.example.net.", "DNSKEY", "", "DNSKEY"},
		{"gslb.example.net.", "CDS", "", "CDS"},
		{"gslb.example.net.", "CDNSKEY", "", "CDNSKEY"},
		{"mail.example.com.", "A", "", "A"},
		{"alias.example.com.", "A", "", "A CNAME"},
		{"x.wild.example.com.", "TXT", "", "TXT"},
		{"*.wild.example.com.", "TXT", "", "TXT"},
		{"shop.gslb.example.net.", "NSEC", "", "NSEC"},
	} {
		var options []dns.EDNS0
		if row.subnet != "" {
			options = append(options, dnstest.ECS(row.subnet))
		}
		qtype := dns.StringToType[row.qtype]
		m := secureAsk(t, r, row.name, qtype, false, &Exchange{}, options...)
		if got := strings.Join(keys.verify(t, m.Answer), " "); got != row.types || !m.Authoritative || m.Rcode != 0 || len(m.Ns) != 0 {
			t.Errorf("%s %s %s: signed %q in %v", row.name, row.qtype, row.subnet, got, m)
		}
		if !m.IsEdns0().Do() {
			t.Errorf("%s %s: DO is not copied", row.name, row.qtype)
		}
		if qtype == dns.TypeNSEC {
			continue
		}
		plain := ask(t, r, dnstest.Query(row.name, qtype, options...), resolver)
		m.Answer = slices.DeleteFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeRRSIG })
		if brief(plain) != brief(m) {
			t.Errorf("%s %s: %s, without DO %s", row.name, row.qtype, brief(m), brief(plain))
		}
		if (dnstest.Subnet(m) == nil) != (dnstest.Subnet(plain) == nil) || dnstest.Subnet(m) != nil && dnstest.Subnet(m).SourceScope != dnstest.Subnet(plain).SourceScope {
			t.Errorf("%s %s: another ECS scope with DO", row.name, row.qtype)
		}
	}
}

// TestSignedDenials: a denial is NOERROR with SOA and one NSEC at the name itself, which lists what any client may find
// there, but for the type asked; NXDOMAIN stays for clients that know compact denial.
//
// Covers: issue5 dnssec denial, field 40, field 44, rfc 9824 nxname, rfc 9824 co, rfc 9824 nodata, rfc 9824 empty, rfc 4034 bitmap, rfc 8198 hides nothing
func TestSignedDenials(t *testing.T) {
	r, keys := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.", "example.com.")
	for _, row := range []struct{ name, qtype, subnet, types string }{
		{"plain.gslb.example.net.", "AAAA", "", "A"}, // A is all it has here, and AAAA is denied
		{"plain.gslb.example.net.", "TXT", "", "A AAAA"},
		{"empty.gslb.example.net.", "A", "", "AAAA"},
		{"empty.gslb.example.net.", "MX", "", "A AAAA"},
		{"shop.gslb.example.net.", "DS", "", ""},    // steered to a name for some: no shape is shown
		{"er.gslb.example.net.", "A", "", ""},       // an empty non-terminal has nothing
		{"no.gslb.example.net.", "A", "", "NXNAME"}, // NXNAME
		{"no.gslb.example.net.", "A", "198.51.100.0/24", "NXNAME"},
		{"a.b.c.gslb.example.net.", "TYPE65280", "", "NXNAME"},
		{"gslb.example.net.", "MX", "", "NS SOA DNSKEY CDS CDNSKEY"},
		{"gslb.example.net.", "DS", "", "NS SOA DNSKEY CDS CDNSKEY"}, // the zone above is not ours
		{"example.com.", "AAAA", "", "A NS SOA TXT DNSKEY CDS CDNSKEY"},
		{"child.example.com.", "DS", "", "NS"}, // a zone below that is not signed
		{"mail.example.com.", "AAAA", "", "A"},
		{"x.wild.example.com.", "A", "", "TXT"},
		{"a.wild.example.com.", "TXT", "", "A"},
		{"ent.example.com.", "A", "", ""},
	} {
		var options []dns.EDNS0
		if row.subnet != "" {
			options = append(options, dnstest.ECS(row.subnet))
		}
		qtype, ok := dns.StringToType[row.qtype]
		if !ok {
			qtype = 65280
		}
		for _, co := range []bool{false, true} {
			m := secureAsk(t, r, row.name, qtype, co, &Exchange{}, options...)
			rcode := dns.RcodeSuccess
			if co && row.types == "NXNAME" {
				rcode = dns.RcodeNameError
			}
			if got := strings.Join(keys.verify(t, m.Ns), " "); got != "NSEC SOA" || m.Rcode != rcode || len(m.Answer) != 0 || !m.Authoritative {
				t.Errorf("%s %s: signed %q in %v", row.name, row.qtype, got, m)
			}
			if m.IsEdns0().Co() != co {
				t.Errorf("%s %s: CO %v comes back as %v", row.name, row.qtype, co, !co)
			}
			if got := bitmap(t, m); got != row.types {
				t.Errorf("%s %s: has %q, want %q", row.name, row.qtype, got, row.types)
			}
			for _, rr := range m.Ns {
				if rr.Header().Ttl > 60 {
					t.Errorf("%s %s: a denial with TTL %d (RFC 9077)", row.name, row.qtype, rr.Header().Ttl)
				}
			}
		}
	}
}

// TestDSOfOwnChild: the DS of a signed zone below a signed zone of ours is answered, and signed, by the one above.
//
// Covers: issue5 dnssec keys, rfc 4035 ds above
func TestDSOfOwnChild(t *testing.T) {
	r, keys := signed(t, sign.Config{}, dnstest.Map(t), "child.example.com.", "example.com.")
	m := secureAsk(t, r, "child.example.com.", dns.TypeDS, false, &Exchange{})
	if got := keys.verify(t, m.Answer); len(got) != 1 || got[0] != "DS" {
		t.Fatal(m)
	}
	ds := m.Answer[0].(*dns.DS)
	if want := keys["child.example.com."][0].ToDS(dns.SHA256); ds.KeyTag != want.KeyTag || !strings.EqualFold(ds.Digest, want.Digest) {
		t.Errorf("%v, want %v", ds, want)
	}
	if sig := m.Answer[1].(*dns.RRSIG); sig.SignerName != "example.com." {
		t.Errorf("signed by %s", sig.SignerName)
	}
	if plain := ask(t, r, dnstest.Query("child.example.com.", dns.TypeDS), resolver); len(plain.Answer) != 1 {
		t.Errorf("without DO: %v", plain)
	}
}

// TestUnsignedStaysUnsigned: a zone that is not signed, a name outside, and a query without DO are answered as ever.
//
// Covers: issue5 dnssec denial, rfc 4035 unsigned
func TestUnsignedStaysUnsigned(t *testing.T) {
	r, _ := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.")
	before := newResponder(t, dnstest.Map(t))
	before.cfg = Config{MaxUDP: 1232}
	for _, name := range []string{"www.example.com.", "no.example.com.", "www.example.org.", "child.example.com."} {
		got, want := secureAsk(t, r, name, dns.TypeA, true, &Exchange{}), secureAsk(t, before, name, dns.TypeA, true, &Exchange{})
		if got.Id = want.Id; got.String() != want.String() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"shop.gslb.example.net.", "no.gslb.example.net.", "er.gslb.example.net."} {
		got, want := ask(t, r, dnstest.Query(name, dns.TypeA), resolver), ask(t, before, dnstest.Query(name, dns.TypeA), resolver)
		got.Id = want.Id
		if got.String() != want.String() {
			t.Errorf("%s without DO: %v, want %v", name, got, want)
		}
	}
}

// TestNXNAMECannotBeAsked: a question for the type that only denials have is a format error (RFC 9824 section 3.5).
//
// Covers: issue5 dnssec denial, rfc 9824 question
func TestNXNAMECannotBeAsked(t *testing.T) {
	r, _ := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.")
	for _, name := range []string{"shop.gslb.example.net.", "no.gslb.example.net."} {
		m := ask(t, r, dnstest.Query(name, typeNXNAME), resolver)
		if m.Rcode != dns.RcodeFormatError || len(m.IsEdns0().Option) != 1 || m.IsEdns0().Option[0].(*dns.EDNS0_EDE).InfoCode != edeInvalidType {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// TestLongNames: a denial at the longest names has a next name that comes at once and is a name.
//
// Covers: issue5 dnssec denial
func TestLongNames(t *testing.T) {
	r, keys := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.")
	for _, first := range []string{strings.Repeat("a", 60), strings.Repeat("a", 61), strings.Repeat("a", 62), strings.Repeat("a", 63), strings.Repeat(`\255`, 63), strings.Repeat("a", 62) + `\255`, strings.Repeat("a", 62) + `\064`} {
		name := first + "."
		for n := dnsLen(t, first+"."); n+4+dnsLen(t, "gslb.example.net.") <= 256; n += 4 {
			name += "xyz."
		}
		name += "gslb.example.net."
		q := dnstest.Query(name, dns.TypeA)
		q.IsEdns0().SetDo()
		m := new(dns.Msg)
		if err := m.Unpack(r.Respond(nil, dnstest.Pack(t, q), &Exchange{Client: resolver, Unix: now})); err != nil {
			t.Fatal(err)
		}
		if got := keys.verify(t, m.Ns); len(got) != 2 {
			t.Errorf("%s: %v", name, m)
		}
		for _, rr := range m.Ns {
			n, ok := rr.(*dns.NSEC)
			if !ok {
				continue
			}
			a, b := canonicalKey(t, n.Hdr.Name), canonicalKey(t, n.NextDomain)
			if slices.Compare(a, b) >= 0 {
				t.Errorf("the name after %s is %s", n.Hdr.Name, n.NextDomain)
			}
		}
	}
}

func dnsLen(t testing.TB, name string) int {
	t.Helper()
	b := make([]byte, 300)
	n, err := dns.PackDomainName(name, b, 0, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// canonicalKey is the labels of a name in the order of comparison.
func canonicalKey(t testing.TB, name string) (labels []string) {
	t.Helper()
	w, err := packName(name)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(w) > 1; w = w[1+int(w[0]):] {
		labels = append(labels, string(w[1:1+int(w[0])]))
	}
	slices.Reverse(labels)
	return labels
}

// TestSignedTruncation: a signed reply too large for the client is truncated, sections empty, OPT kept, and whole over TCP.
//
// Covers: issue5 dnssec signatures, field 51
func TestSignedTruncation(t *testing.T) {
	r, keys := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.")
	q := dnstest.Query("no."+strings.Repeat("a.", 60)+"gslb.example.net.", dns.TypeA)
	q.IsEdns0().SetDo()
	q.IsEdns0().SetUDPSize(512)
	x := &Exchange{Client: resolver, Unix: now}
	m := dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, q), x))
	if !m.Truncated || len(m.Ns) != 0 || m.IsEdns0() == nil {
		t.Errorf("over UDP: %v", m)
	}
	x.TCP = true
	if m := dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, q), x)); m.Truncated || len(keys.verify(t, m.Ns)) != 2 {
		t.Errorf("over TCP: %v", m)
	}
}

// TestOverBudget: when no signature can be made now, a client is sent to TCP, and there told to ask another name server;
// names that are known are answered on.
//
// Covers: issue5 dnssec flood
func TestOverBudget(t *testing.T) {
	r, keys := signed(t, sign.Config{MadeUpRate: 1}, dnstest.Map(t), "gslb.example.net.", "example.com.")
	known := secureAsk(t, r, "shop.gslb.example.net.", dns.TypeA, false, &Exchange{})
	for _, tcp := range []bool{false, true} {
		denied := 0
		for i := range 50 {
			m := secureAsk(t, r, fmt.Sprintf("x%d-%v.gslb.example.net.", i, tcp), dns.TypeA, false, &Exchange{TCP: tcp})
			switch {
			case m.Rcode == dns.RcodeSuccess && !m.Truncated:
				keys.verify(t, m.Ns)
				denied++
			case !tcp && (!m.Truncated || len(m.Ns)+len(m.Answer) != 0), tcp && m.Rcode != dns.RcodeServerFailure:
				t.Fatalf("TCP %v: %v", tcp, m)
			}
		}
		if denied != 2 {
			t.Errorf("TCP %v: %d denials, want 2", tcp, denied)
		}
		if m := secureAsk(t, r, fmt.Sprintf("y%v.wild.example.com.", tcp), dns.TypeTXT, false, &Exchange{TCP: tcp}); len(m.Answer) != 0 {
			t.Errorf("a made-up name under a wildcard has a budget of its own: %v", m)
		}
	}
	again := secureAsk(t, r, "shop.gslb.example.net.", dns.TypeA, false, &Exchange{})
	again.Id = known.Id
	if again.String() != known.String() {
		t.Errorf("%v, before the flood %v", again, known)
	}
	if m := secureAsk(t, r, "er.gslb.example.net.", dns.TypeA, false, &Exchange{}); len(keys.verify(t, m.Ns)) != 2 {
		t.Errorf("a name that exists is not denied a type: %v", m)
	}
}

// TestKeysNotAtHand: a zone that is to be signed and cannot be fails for clients that want signatures, and for nobody else.
//
// Covers: issue5 dnssec keys missing, rfc 8914 not ready
func TestKeysNotAtHand(t *testing.T) {
	r, _ := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.")
	ring, err := sign.NewRing(&snapshot.Signing{Zones: []snapshot.SignedZone{{Zone: "gslb.example.net.", Life: time.Hour}}}, nil, nil)
	if err == nil {
		t.Fatal("a zone without keys is well")
	}
	r.cfg.Signer.SetRing(ring)
	for _, name := range []string{"shop.gslb.example.net.", "no.gslb.example.net.", "gslb.example.net."} {
		if m := secureAsk(t, r, name, dns.TypeA, false, &Exchange{}); m.Rcode != dns.RcodeServerFailure || len(m.Answer)+len(m.Ns) != 0 {
			t.Errorf("%s: %v", name, m)
		}
	}
	if m := ask(t, r, dnstest.Query("shop.gslb.example.net.", dns.TypeA), resolver); len(m.Answer) != 1 {
		t.Errorf("without DO: %v", m)
	}
}

// TestWarm: what a new map answers otherwise at names in use is signed before it answers.
//
// Covers: issue5 dnssec signatures
func TestWarm(t *testing.T) {
	d := dnstest.Map(t)
	r, keys := signed(t, sign.Config{}, d, "gslb.example.net.")
	secureAsk(t, r, "plain.gslb.example.net.", dns.TypeA, false, &Exchange{})
	secureAsk(t, r, "plain.gslb.example.net.", dns.TypeAAAA, false, &Exchange{})
	next := *d
	next.Version++
	next.Services = slices.Clone(d.Services)
	next.Services[3].Rules = slices.Clone(d.Services[3].Rules)
	next.Services[3].Rules[0].Choices = []snapshot.DNSChoice{{Edge: "two", A: []netip.Addr{netip.MustParseAddr("192.0.2.77")}}}
	ix := build(t, &next)
	r.Warm(ix, sign.Clock{Unix: now}, func() time.Duration { return 0 })
	before := r.cfg.Signer.Totals().Made.Known
	r.SetIndex(ix)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m := secureAsk(t, r, "plain.gslb.example.net.", qtype, false, &Exchange{})
		keys.verify(t, m.Answer)
		keys.verify(t, m.Ns)
	}
	if n := r.cfg.Signer.Totals().Made.Known - before; n != 0 {
		t.Errorf("%d signatures were made by queries after the swap", n)
	}
}

// TestSignedNoAllocation: a signed reply whose signatures are known allocates nothing.
//
// Covers: issue5 dnssec signatures
func TestSignedNoAllocation(t *testing.T) {
	r, _ := signed(t, sign.Config{}, dnstest.Map(t), "gslb.example.net.", "example.com.")
	for _, q := range signedQueries(t) {
		x, dst := &Exchange{Client: resolver, Unix: now}, make([]byte, 0, 4096)
		r.Respond(dst, q.req, x)
		if n := testing.AllocsPerRun(100, func() { r.Respond(dst[:0], q.req, x) }); n != 0 {
			t.Errorf("%s: %v allocations", q.name, n)
		}
	}
}

func signedQueries(t testing.TB) (out []benchQuery) {
	for _, row := range []struct {
		what, name string
		qtype      uint16
	}{
		{"static", "mail.example.com.", dns.TypeA},
		{"steered", "shop.gslb.example.net.", dns.TypeA},
		{"nodata", "er.gslb.example.net.", dns.TypeA},
		{"nodata-apex", "example.com.", dns.TypeAAAA},
		{"nxdomain", "a.b.c.d.gslb.example.net.", dns.TypeA},
		{"wildcard", "x.wild.example.com.", dns.TypeTXT},
		{"dnskey", "gslb.example.net.", dns.TypeDNSKEY},
		{"soa", "gslb.example.net.", dns.TypeSOA},
	} {
		q := dnstest.Query(row.name, row.qtype)
		q.IsEdns0().SetDo()
		out = append(out, benchQuery{row.what, dnstest.Pack(t, q)})
	}
	return out
}

// BenchmarkSigned is the cost of replies whose signatures are known.
func BenchmarkSigned(b *testing.B) {
	r, _ := signed(b, sign.Config{}, dnstest.Map(b), "gslb.example.net.", "example.com.")
	for _, q := range signedQueries(b) {
		b.Run(q.name, func(b *testing.B) {
			x, dst := &Exchange{Client: resolver, Unix: now}, make([]byte, 0, 4096)
			for b.Loop() {
				r.Respond(dst[:0], q.req, x)
			}
		})
	}
}

// BenchmarkFlood is the cost of known answers alone, of a flood of made-up names alone, once its budget is used up, and of a
// known answer after each made-up name: what the flood takes from known answers is what its packets take, and the budget.
func BenchmarkFlood(b *testing.B) {
	r, _ := signed(b, sign.Config{MadeUpRate: 1}, dnstest.Map(b), "gslb.example.net.")
	q := dnstest.Query("shop.gslb.example.net.", dns.TypeA)
	q.IsEdns0().SetDo()
	known := dnstest.Pack(b, q)
	q = dnstest.Query("aaaaaaaaaaaa.gslb.example.net.", dns.TypeA)
	q.IsEdns0().SetDo()
	flood := dnstest.Pack(b, q)
	n := 0
	next := func() []byte {
		n++
		for i, x := 13, n; i < 25; i, x = i+1, x/26 {
			flood[i] = 'a' + byte(x%26)
		}
		return flood
	}
	x, dst, began := &Exchange{Client: resolver, Unix: now}, make([]byte, 0, 4096), time.Now()
	ask := func(req []byte) {
		x.Now = time.Since(began)
		r.Respond(dst[:0], req, x)
	}
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			ask(known)
		}
	})
	b.Run("made-up", func(b *testing.B) {
		for b.Loop() {
			ask(next())
		}
	})
	b.Run("both", func(b *testing.B) {
		for b.Loop() {
			ask(known)
			ask(next())
		}
	})
}

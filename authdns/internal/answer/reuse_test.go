package answer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
)

// revised is the test map with revisions, as control makes it.
func revised(t testing.TB) *snapshot.DNS {
	d := dnstest.Map(t)
	d.At = time.Hour
	for i := range d.Services {
		d.Services[i].Revision, d.Services[i].Made = d.Version, time.Hour
	}
	return d
}

// next is the map after d in which some services are others.
func next(d *snapshot.DNS, later time.Duration, change func(s *snapshot.DNSService), names ...string) *snapshot.DNS {
	out := *d
	out.Version++
	out.At += later
	out.Services = slices.Clone(d.Services)
	for i := range out.Services {
		if !slices.Contains(names, out.Services[i].Name) {
			continue
		}
		changed := *out.Services[i]
		s := &changed
		out.Services[i] = s
		s.Rules, s.Hosted = slices.Clone(s.Rules), slices.Clone(s.Hosted)
		for j := range s.Rules {
			s.Rules[j].Choices = slices.Clone(s.Rules[j].Choices)
		}
		s.Made, s.Revision = out.At, out.Version
		change(s)
	}
	return &out
}

func rebuild(t testing.TB, d *snapshot.DNS, now time.Duration, old *Index) *Index {
	t.Helper()
	tables := make([]Table, len(d.Tables))
	for i, table := range d.Tables {
		tables[i] = table
	}
	ix, err := Build(d, tables, now, old)
	if err != nil {
		t.Fatal(err)
	}
	return ix
}

// TestBuildReuses: the index of the next map takes over what did not change, names included, and makes the rest anew.
//
// Covers: A8, issue3 deltas
func TestBuildReuses(t *testing.T) {
	d := revised(t)
	first := rebuild(t, d, 0, nil)
	moved := next(d, time.Second, func(s *snapshot.DNSService) {
		s.Rules[0].Choices[0].A = []netip.Addr{netip.MustParseAddr("192.0.2.77")}
	}, "plain")
	second := rebuild(t, moved, time.Second, first)
	for i := range d.Services {
		if same := first.serviceOf(i) == second.serviceOf(i); same != (d.Services[i].Name != "plain") {
			t.Errorf("%s: taken over: %t", d.Services[i].Name, same)
		}
	}
	if first.names != second.names {
		t.Error("names were made anew though none changed")
	}

	named := next(moved, time.Second, func(s *snapshot.DNSService) { s.Hosted = append(s.Hosted, "new.example.com.") }, "split")
	named.Services = slices.Delete(named.Services, 0, 1)
	third := rebuild(t, named, 2*time.Second, second)
	if third.names == second.names || third.serviceOf(1) != second.serviceOf(2) || third.serviceOf(0) == second.serviceOf(1) {
		t.Error("after a change of names: want new names, the services that did not change, and the one that did anew")
	}

	untold := next(moved, time.Second, func(*snapshot.DNSService) {})
	secret := *untold.Services[3]
	secret.Revision, untold.Services[3] = 0, &secret
	silent := rebuild(t, untold, 0, second)
	if silent.serviceOf(3) == second.serviceOf(3) {
		t.Error("a service of which nobody says that it did not change was taken over")
	}
	if ix := rebuild(t, untold, 0, silent); ix.serviceOf(3) == silent.serviceOf(3) || ix.serviceOf(2) != silent.serviceOf(2) {
		t.Error("the same map again: want the service of which nobody says that it did not change made anew, and no other")
	}
	liar := next(moved, time.Second, func(*snapshot.DNSService) {})
	lies := *liar.Services[3]
	lies.Rules = slices.Clone(lies.Rules)
	lies.Rules[0].TTL++
	liar.Services[3] = &lies
	if ix := rebuild(t, liar, 0, second); ix.serviceOf(3) == second.serviceOf(3) {
		t.Error("a service that changed under its revision was taken over")
	}
	copied := next(moved, time.Second, func(*snapshot.DNSService) {})
	twin := *copied.Services[3]
	copied.Services[3] = &twin
	if ix := rebuild(t, copied, 0, second); ix.serviceOf(3).answers != second.serviceOf(3).answers || ix.serviceOf(3).src != &twin {
		t.Error("a copy of a service that did not change: want its answers taken over, and the copy before let go")
	}
}

// serviceOf is the service at an index of the snapshot.
func (ix *Index) serviceOf(i int) *service { return ix.service(ix.order[i]) }

// TestReusedDeadline: the deadline of a service that was taken over stands still, that of one compiled earlier than
// its map has the less time left.
//
// Covers: decisions 3, issue3 deltas
func TestReusedDeadline(t *testing.T) {
	d := next(revised(t), 0, func(s *snapshot.DNSService) { s.Rules[0].Soonest = 20 * time.Second }, "plain")
	ttl := func(ix *Index, now time.Duration) uint32 {
		t.Helper()
		r := newResponder(t, nil)
		r.SetIndex(ix)
		m := dnstest.Unpack(t, r.Respond(nil, dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA)), &Exchange{Client: resolver, Now: now}))
		return m.Answer[0].Header().Ttl
	}
	first := rebuild(t, d, 100*time.Second, nil)
	later := next(d, 8*time.Second, func(*snapshot.DNSService) {}, "split")
	// The delta was under way for 2 s: what was taken over does not count from its arrival.
	reused := rebuild(t, later, 110*time.Second, first)
	fresh := rebuild(t, later, 110*time.Second, nil)
	if a, b, c := ttl(first, 101*time.Second), ttl(reused, 111*time.Second), ttl(fresh, 111*time.Second); a != 19 || b != 9 || c != 11 {
		t.Errorf("TTLs %d, %d, %d, want 19, 9, 11", a, b, c)
	}
	over := next(d, time.Minute, func(*snapshot.DNSService) {}, "split")
	if got := ttl(rebuild(t, over, 0, nil), 0); got != 30 {
		t.Errorf("TTL %d after the deadline, want 30", got)
	}
}

// TestReuseChecks: what is checked of a whole map is checked of one that takes names over, too.
func TestReuseChecks(t *testing.T) {
	d := revised(t)
	first := rebuild(t, d, 0, nil)
	atApex := next(d, 0, func(s *snapshot.DNSService) {
		s.Rules[0].Choices[0] = snapshot.DNSChoice{Edge: "v", Target: "x.test."}
	}, "plain") // plain is hosted at the apex example.com.
	_, err := Build(atApex, []Table{d.Tables[0]}, 0, first)
	if err == nil || !strings.Contains(err.Error(), "MAP_INVALID") || !strings.Contains(err.Error(), "not with a name") {
		t.Errorf("a name at an apex: %v", err)
	}
	broken := next(d, 0, func(s *snapshot.DNSService) { s.Rules = nil }, "plain")
	if _, err := Build(broken, []Table{d.Tables[0]}, 0, first); err == nil || !strings.Contains(err.Error(), "no rules") {
		t.Errorf("a service without rules: %v", err)
	}
}

// TestReuseAnswersAlike: an index made from the one before answers every question as one made from nothing, through
// random changes of answers, names and zones.
//
// Covers: A8, issue3 deltas
func TestReuseAnswersAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	d := revised(t)
	step, scratch := newResponder(t, nil), newResponder(t, nil)
	var questions [][]byte
	for _, name := range []string{"shop.gslb", "split.gslb", "empty.gslb", "plain.gslb", "deep.er.gslb", "er.gslb", "x.gslb", "gslb", "ns1.gslb"} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSOA, dns.TypeNS, dns.TypeANY, dns.TypeTXT} {
			questions = append(questions, dnstest.Pack(t, dnstest.Query(name+".example.net.", qtype, dnstest.ECS("198.51.100.0/24"))))
		}
	}
	for _, name := range []string{"", "www.", "new.", "mail.", "alias.", "child.", "x.wild.", "r0.deep.", "r1.deep.", "deep.", "r2.", "x.y.w.", "w.", "v.w.", "sub.", "x.sub.", "ns.sub.", "flat."} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeSOA, dns.TypeANY, dns.TypeTXT} {
			questions = append(questions, dnstest.Pack(t, dnstest.Query(name+"example.com.", qtype)))
		}
	}
	var ix *Index
	reused, changed := 0, 0
	for round := range 600 {
		d = randomStep(rng, d)
		before := ix
		ix = rebuild(t, d, time.Duration(round), ix)
		fresh := rebuild(t, d, time.Duration(round), nil)
		switch {
		case before == nil:
		case before.names == ix.names:
			reused++
		case before.nodes.seed == ix.nodes.seed:
			changed++
		}
		if ix.Names() != fresh.Names() {
			t.Fatalf("round %d: %d names by steps, %d from nothing", round, ix.Names(), fresh.Names())
		}
		step.SetIndex(ix)
		scratch.SetIndex(fresh)
		for _, q := range questions {
			a := step.Respond(nil, q, &Exchange{Client: resolver, TCP: true})
			b := scratch.Respond(nil, q, &Exchange{Client: resolver, TCP: true})
			if !bytes.Equal(a, b) {
				t.Fatalf("round %d: by steps\n%v\nfrom nothing\n%v", round, dnstest.Unpack(t, a), dnstest.Unpack(t, b))
			}
		}
	}
	if reused < 200 || changed < 100 {
		t.Errorf("names were taken over in %d of 600 rounds, and changed in %d, only", reused, changed)
	}
}

// randomStep changes an answer, a name, the services there are, or a zone.
func randomStep(rng *rand.Rand, d *snapshot.DNS) *snapshot.DNS {
	name := d.Services[rng.IntN(len(d.Services))].Name
	switch rng.IntN(12) {
	case 0: // names
		return next(d, 1, func(s *snapshot.DNSService) {
			if i := slices.Index(s.Hosted, "new.example.com."); i >= 0 {
				s.Hosted = slices.Delete(s.Hosted, i, i+1)
			} else if s.Name == "split" {
				s.Hosted = append(s.Hosted, "new.example.com.")
			}
		}, name, "split")
	case 1: // services
		out := next(d, 1, func(*snapshot.DNSService) {})
		if i := slices.IndexFunc(out.Services, func(s *snapshot.DNSService) bool { return s.Name == "more" }); i >= 0 {
			out.Services = slices.Delete(out.Services, i, i+1)
			return out
		}
		s := *out.Services[0]
		s.Name, s.CNAME, s.Hosted, s.Revision = "more", "x.gslb.example.net.", nil, out.Version
		out.Services = slices.Insert(out.Services, rng.IntN(len(out.Services)), &s)
		return out
	case 2: // zones
		out := next(d, 1, func(*snapshot.DNSService) {})
		out.Zones = slices.Clone(out.Zones)
		out.Zones[rng.IntN(len(out.Zones))].NSTTL += time.Second
		return out
	case 3, 4: // records
		out := next(d, 1, func(*snapshot.DNSService) {})
		out.Zones = slices.Clone(out.Zones)
		i := slices.IndexFunc(out.Zones, func(z snapshot.DNSZone) bool { return z.Name == "example.com." })
		out.Zones[i].Records = randomRecords(rng, out.Zones[i].Records)
		return out
	case 5: // a name that is answered with addresses only
		return next(d, 1, func(s *snapshot.DNSService) {
			if s.Flat = nil; rng.IntN(2) == 0 {
				s.Flat = []string{"flat.example.com."}
			}
			s.Rules[0].Choices = []snapshot.DNSChoice{{Edge: "v", Target: "cdn.test.", FlatA: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(9))})}}}
		}, "split")
	case 6: // a delegation, its glue, and the address of a name server elsewhere in the zone
		out := next(d, 1, func(*snapshot.DNSService) {})
		out.Zones = slices.Clone(out.Zones)
		i := slices.IndexFunc(out.Zones, func(z snapshot.DNSZone) bool { return z.Name == "example.com." })
		out.Zones[i].Records = randomCut(rng, out.Zones[i].Records)
		return out
	default:
		return next(d, 1, func(s *snapshot.DNSService) {
			r := &s.Rules[rng.IntN(len(s.Rules))]
			r.Choices = []snapshot.DNSChoice{{Edge: "n", A: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(rng.IntN(4))})}}}
			r.TTL = time.Duration(20+rng.IntN(3)) * time.Second
		}, name)
	}
}

// randomRecords changes one of some record sets, adds one or takes one away, wildcards and names that make others exist
// among them.
func randomRecords(rng *rand.Rand, list []snapshot.DNSRecord) []snapshot.DNSRecord {
	names := []string{"r0.deep.", "r1.deep.", "deep.", "r2.", "*.w.", "v.w.", ""}
	r := snapshot.DNSRecord{
		Name: names[rng.IntN(len(names))] + "example.com.", Type: []string{"TXT", "MX", "CAA"}[rng.IntN(3)], TTL: time.Duration(1+rng.IntN(3)) * time.Minute,
	}
	r.Data = map[string][]string{"TXT": {fmt.Sprint(rng.IntN(3))}, "MX": {"10 mail.example.com."}, "CAA": {`0 issue "ca.test"`}}[r.Type]
	list = slices.Clone(list)
	at := slices.IndexFunc(list, func(o snapshot.DNSRecord) bool { return o.Name == r.Name && o.Type == r.Type })
	switch {
	case at < 0:
		return slices.Insert(list, rng.IntN(len(list)+1), r)
	case rng.IntN(2) == 0:
		return slices.Delete(list, at, at+1)
	default:
		list[at] = r
		return list
	}
}

// randomCut adds, changes or takes away one of the record sets that a referral is made of.
func randomCut(rng *rand.Rand, list []snapshot.DNSRecord) []snapshot.DNSRecord {
	address := []string{fmt.Sprint("192.0.2.", rng.IntN(9))}
	r := []snapshot.DNSRecord{
		{Name: "sub.example.com.", Type: "NS", Data: []string{"ns.sub.example.com.", "r2.example.com."}},
		{Name: "ns.sub.example.com.", Type: "A", Data: address},
		{Name: "r2.example.com.", Type: "A", Data: address},
		{Name: "x.sub.example.com.", Type: "TXT", Data: []string{"occluded"}},
	}[rng.IntN(4)]
	r.TTL = time.Minute
	list = slices.DeleteFunc(slices.Clone(list), func(o snapshot.DNSRecord) bool { return o.Name == r.Name && o.Type == r.Type })
	if rng.IntN(3) == 0 {
		return list
	}
	return slices.Insert(list, rng.IntN(len(list)+1), r)
}

// TestPoolForgets: record sets that no map uses any more do not stay in memory, and equal ones stay one.
func TestPoolForgets(t *testing.T) {
	d := revised(t)
	ix := rebuild(t, d, 0, nil)
	for i := range 3 * minSweep {
		d = next(d, 0, func(s *snapshot.DNSService) {
			s.Rules[0].Choices[0].A = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}
		}, "plain", "deep")
		ix = rebuild(t, d, 0, ix)
	}
	if n := len(ix.pool.sets); n > minSweep {
		t.Errorf("%d record sets are kept for a map that uses some twenty", n)
	}
	set := func(name string) *rrset {
		w, err := packName(name)
		if err != nil {
			t.Fatal(err)
		}
		return ix.at(ix.nodes.get(w)).rules[0].choices[0].a
	}
	if a, b := set("plain.gslb.example.net."), set("deep.er.gslb.example.net."); a != b || a == nil {
		t.Error("equal answers are kept twice")
	}
}

// BenchmarkSwap is the index of the map after one in which one of 10,000 services moved.
func BenchmarkSwap(b *testing.B) {
	d := revised(b)
	model := d.Services[0]
	for i := range 10_000 {
		s := *model
		s.Name = fmt.Sprintf("s%d", i)
		s.CNAME, s.Hosted = s.Name+".gslb.example.net.", nil
		d.Services = append(d.Services, &s)
	}
	ix := rebuild(b, d, 0, nil)
	moved := next(d, 0, func(s *snapshot.DNSService) { s.Rules[0].TTL += time.Second }, "s5000")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(moved, []Table{d.Tables[0]}, 0, ix); err != nil {
			b.Fatal(err)
		}
	}
}

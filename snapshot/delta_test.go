package snapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

// shopMaps are two maps of one compiler, between which one of two services moved.
func shopMaps(t *testing.T) (before, after *snapshot.DNS) {
	t.Helper()
	other := strings.NewReplacer("name: shop", "name: other", "[www.example.com, www.elsewhere.test]", "[x.elsewhere.test]").Replace(dnsShop)
	lab := dnsDefault + "  - {name: lab, scope: {cidr: 198.51.100.0/24}, mode: failover, edges: [b]}\n"
	in := dnsInput(t, dnsZones, dnsShop+lab, other+dnsDefault)
	var c snapshot.Compiler
	before, _ = c.Compile(in)
	in.Version, in.Now, in.Partial = 6, in.Now+time.Second, true
	in.Rules = map[string]snapshot.DNSRuleInput{"other/default": {Decision: steering.Decision{Edge: "b", Seq: 2}}}
	after, problems := c.Compile(in)
	if len(problems) > 0 || c.ServicesCompiled() != 3 {
		t.Fatalf("%v, %d services compiled, want 2 and 1", problems, c.ServicesCompiled())
	}
	return before, after
}

// TestDeltaIsSmall: a delta holds the service that moved and nothing else, and what did not change is shared.
//
// Covers: issue3 deltas
func TestDeltaIsSmall(t *testing.T) {
	before, after := shopMaps(t)
	d := snapshot.DiffDNS(before, after)
	if d.From != 5 || d.To != 6 || d.Whole != nil || d.Zones != nil || len(d.Tables) != 0 || len(d.Gone) != 0 ||
		len(d.Services) != 1 || d.Services[0].Name != "other" || d.Services[0].Revision != 6 {
		t.Errorf("%+v", d)
	}
	got, err := d.Apply(before)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(after) || &got.Services[1].Rules[0] != &before.Services[1].Rules[0] || got.Tables[0] != before.Tables[0] || &got.Zones[0] != &before.Zones[0] {
		t.Error("what did not change was copied")
	}
	if before.Version != 5 || before.Services[0].Revision != 5 {
		t.Error("the base was changed")
	}
}

// TestDeltaRefused: a delta on any base but its own makes no map. A node can never answer by a map nobody compiled.
//
// Covers: A2, A8, issue3 gap
func TestDeltaRefused(t *testing.T) {
	for _, row := range []struct {
		name   string
		want   error
		damage func(base *snapshot.DNS, d *snapshot.DNSDelta)
	}{
		{"later base", snapshot.ErrGap, func(base *snapshot.DNS, _ *snapshot.DNSDelta) { base.Version = 6 }},
		{"other service, same version", snapshot.ErrDigest, func(base *snapshot.DNS, _ *snapshot.DNSDelta) { base.Services[1].Rules[0].TTL++ }},
		{"other address", snapshot.ErrDigest, func(base *snapshot.DNS, _ *snapshot.DNSDelta) {
			base.Services[1].Rules[0].Choices[0].A = slices.Clone(base.Services[1].Rules[0].Choices[0].A[1:])
		}},
		{"other table", snapshot.ErrDigest, func(base *snapshot.DNS, _ *snapshot.DNSDelta) { base.Tables[0] = nil }},
		{"other zone", snapshot.ErrDigest, func(base *snapshot.DNS, _ *snapshot.DNSDelta) { base.Zones[0].NSTTL++ }},
		{"a service more", snapshot.ErrDigest, func(base *snapshot.DNS, _ *snapshot.DNSDelta) {
			s := *base.Services[0]
			s.Name = "zebra"
			base.Services = append(base.Services, &s)
		}},
		{"services in disorder", snapshot.ErrDigest, func(base *snapshot.DNS, _ *snapshot.DNSDelta) { slices.Reverse(base.Services) }},
		{"delta damaged", snapshot.ErrDigest, func(_ *snapshot.DNS, d *snapshot.DNSDelta) { d.Services[0].CNAME += "x" }},
		{"delta of another moment", snapshot.ErrDigest, func(_ *snapshot.DNS, d *snapshot.DNSDelta) { d.At++ }},
		{"delta ends what is not there", snapshot.ErrDigest, func(_ *snapshot.DNS, d *snapshot.DNSDelta) { d.Gone = []string{"nobody"} }},
		{"delta with a table that is not there", snapshot.ErrDigest, func(_ *snapshot.DNS, d *snapshot.DNSDelta) {
			d.Tables = []snapshot.DNSTable{{Index: 0, Hash: strings.Repeat("0", 64)}}
		}},
		{"delta with a table far out", snapshot.ErrDigest, func(_ *snapshot.DNS, d *snapshot.DNSDelta) { d.Tables = []snapshot.DNSTable{{Index: 1 << 40}} }},
		{"delta that keeps too much", snapshot.ErrDigest, func(_ *snapshot.DNS, d *snapshot.DNSDelta) { d.Kept = 9 }},
		{"delta that keeps less than nothing", snapshot.ErrDigest, func(_ *snapshot.DNS, d *snapshot.DNSDelta) { d.Kept = -1 }},
	} {
		before, after := shopMaps(t)
		base, delta := overTheWire(t, before), overTheWire(t, snapshot.DiffDNS(before, after))
		row.damage(base, delta)
		got, err := delta.Apply(base)
		if got != nil || !errors.Is(err, row.want) {
			t.Errorf("%s: %v, error %v", row.name, got, err)
		}
	}
	before, after := shopMaps(t)
	if _, err := snapshot.DiffDNS(before, after).Apply(nil); !errors.Is(err, snapshot.ErrGap) {
		t.Errorf("no base: %v", err)
	}
}

// TestDeltaWhole: where there is nothing to begin with, or lists are not in order, the delta is the map itself.
//
// Covers: issue3 resume
func TestDeltaWhole(t *testing.T) {
	before, after := shopMaps(t)
	for _, row := range []struct {
		name string
		base *snapshot.DNS
		next *snapshot.DNS
	}{
		{"first map", nil, after},
		{"disorder before", disordered(t, before), after},
		{"disorder after", before, disordered(t, after)},
	} {
		d := overTheWire(t, snapshot.DiffDNS(row.base, row.next))
		if d.Whole == nil || len(d.Services) != 0 {
			t.Errorf("%s: %+v", row.name, d)
		}
		if got, err := d.Apply(row.base); err != nil || !got.Equal(row.next) {
			t.Errorf("%s: %v", row.name, err)
		}
		if d.Whole != nil {
			d.Whole.Services[0].NegativeTTL++
		}
		if _, err := d.Apply(row.base); !errors.Is(err, snapshot.ErrDigest) {
			t.Errorf("%s, damaged: %v", row.name, err)
		}
	}
}

func disordered(t *testing.T, d *snapshot.DNS) *snapshot.DNS {
	d = overTheWire(t, d)
	slices.Reverse(d.Services)
	return d
}

const digestedMap = `{"version":6,"created":"2026-08-01T12:00:00.5+02:00","at":3601000000000,
"zones":[{"name":"example.com.","ns":[{"name":"ns1.example.com.","addresses":["192.0.2.53","2001:db8::53"]}],
 "soa":{"mname":"ns1.example.com.","rname":"h.example.com.","refresh":1,"retry":2,"expire":3,"minimum":4},"nsTTL":300000000000,
 "records":[{"name":"t.example.com.","type":"TXT","ttl":60000000000,"data":["\"x\""]}]}],
"tables":[null],
"services":[{"name":"shop","zone":"example.com.","cname":"shop.example.com.","hosted":["www.example.com."],"table":-1,
 "rules":[{"rule":"default","scope":"*","decision":9,"degraded":true,"choices":[
  {"edge":"a","weight":80,"a":["192.0.2.1"],"aaaa":["2001:db8::1"],"hasA":true,"hasAAAA":true},{"edge":"b","target":"b.test."}],
  "ttl":60000000000,"minTTL":10000000000,"soonest":7000000000}],
 "negativeTTL":15000000000,"made":3600000000000,"revision":5,"unknownToday":1}]}`

const digestedTasks = `{"version":3,"point":"far","tasks":[{"id":"01","kind":"https","address":"192.0.2.1","port":443,"url":"https://x.test/",
"method":"GET","interval":30000000000,"timeout":5000000000,"statuses":[{"min":200,"max":399}],"body":"ok","maxLatency":1000000,
"tlsVerify":true,"slowAbove":2000000,"fall":3,"rise":2}]}`

// TestDigestIsForEver: nodes of other versions compute the same digest. This one was computed by the first version
// that had deltas; a change that makes it another breaks every node that is not upgraded in the same second.
//
// Covers: issue3 version skew
func TestDigestIsForEver(t *testing.T) {
	d := new(snapshot.DNS)
	if err := json.Unmarshal([]byte(digestedMap), d); err != nil {
		t.Fatal(err)
	}
	if got, want := d.Digest(), "18208f5aaba6b3ce6458bbbf5cbf6ef9d0180ff97a8549bc283a37a9231e71cd"; got != want {
		t.Errorf("digest of the map is %s, was %s", got, want)
	}
	p := new(snapshot.Probe)
	if err := json.Unmarshal([]byte(digestedTasks), p); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Digest(), "dcb0eb698e7372eb6803dadcec9c2b814c4a5d201dc4a84ece360f21e1603f41"; got != want {
		t.Errorf("digest of the tasks is %s, was %s", got, want)
	}
	more := overTheWire(t, d)
	more.Tables = append(more.Tables, nil)
	if more.Digest() == d.Digest() {
		t.Error("a map with one more table has the same digest")
	}
}

func randomTasks(rng *rand.Rand) (out []snapshot.ProbeTask) {
	for i := range 8 {
		if rng.IntN(4) == 0 {
			continue
		}
		t := snapshot.ProbeTask{
			ID: fmt.Sprintf("%02d", i), Kind: snapshot.KindHTTPS, Address: fmt.Sprintf("192.0.2.%d", rng.IntN(3)), Port: 443,
			URL: "https://www.example.com/", Method: "HEAD", Interval: 30 * time.Second, Timeout: 5 * time.Second,
			Fall: 3, Rise: 2, TLSVerify: rng.IntN(2) == 0, SlowAbove: time.Duration(rng.IntN(2)) * time.Second,
		}
		if rng.IntN(2) == 0 {
			t.Statuses = []snapshot.StatusRange{{Min: 200, Max: 200 + rng.IntN(2)}}
		}
		out = append(out, t)
	}
	return out
}

// TestProbeDelta: a point that is sent deltas has the task list that was meant, and never another.
//
// Covers: A6, issue3 deltas, issue3 gap
func TestProbeDelta(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var sent, node *snapshot.Probe
	small := 0
	for v := range uint64(300) {
		next := &snapshot.Probe{Version: v + 1, Point: "far", Tasks: randomTasks(rng)}
		if sent != nil && v%3 > 0 { // mostly little changes
			next.Tasks = slices.Clone(sent.Tasks)
			if n := len(next.Tasks); n > 0 {
				next.Tasks[rng.IntN(n)].SlowAbove++
			}
		}
		d := overTheWire(t, snapshot.DiffProbe(sent, next))
		got, err := d.Apply(node)
		if err != nil || !got.Equal(next) || got.Digest() != next.Digest() {
			t.Fatalf("version %d: %v\n got %+v\nwant %+v", v+1, err, got, next)
		}
		if len(d.Tasks) < len(next.Tasks) {
			small++
		}
		if node != nil {
			wrong := overTheWire(t, node)
			wrong.Tasks = append(wrong.Tasks, snapshot.ProbeTask{ID: "99"})
			if _, err := d.Apply(wrong); !errors.Is(err, snapshot.ErrDigest) {
				t.Fatalf("a list with one task more: %v", err)
			}
			wrong.Version += 5
			if _, err := d.Apply(wrong); !errors.Is(err, snapshot.ErrGap) {
				t.Fatalf("another version: %v", err)
			}
		}
		sent, node = next, got
	}
	if small < 200 {
		t.Errorf("only %d of 300 deltas are smaller than the list", small)
	}
}

// TestMadeAndLeft: a service that does not change keeps when it was made, so that its deadline stands still while the
// versions go on; a deadline that is over is nothing.
//
// Covers: decisions 3, issue3 deltas
func TestMadeAndLeft(t *testing.T) {
	in := dnsInput(t, dnsZones, dnsShop+dnsDefault)
	decision := steering.Decision{Edge: "a", Seq: 1, Soonest: in.Now + 10*time.Second}
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: decision}
	var c snapshot.Compiler
	compile := func(after time.Duration) (*snapshot.DNSService, time.Duration) {
		in.Version++
		now := in
		now.Now += after
		d, _ := c.Compile(now)
		return d.Services[0], d.Left(d.Services[0], &d.Services[0].Rules[0])
	}
	s, left := compile(0)
	if s.Made != time.Hour || s.Revision != 6 || left != 10*time.Second {
		t.Fatalf("%+v, %s left", s, left)
	}
	for after, want := range map[time.Duration]time.Duration{4 * time.Second: 6 * time.Second, 10 * time.Second: 0, time.Minute: 0} {
		if s, left := compile(after); s.Made != time.Hour || s.Revision != 6 || s.Rules[0].Soonest != 10*time.Second || left != want {
			t.Errorf("%s later: %+v, %s left, want %s", after, s, left, want)
		}
	}
	decision.Soonest += 5 * time.Second
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: decision}
	if s, left := compile(4 * time.Second); s.Revision != in.Version || left != 11*time.Second {
		t.Errorf("another deadline: %+v, %s left", s, left)
	}
}

// TestTablesKeepTheirPlace: a table that goes leaves its index to the next one; the others do not move.
//
// Covers: issue3 deltas
func TestTablesKeepTheirPlace(t *testing.T) {
	service := func(name, cidr string) string {
		return strings.NewReplacer("name: shop", "name: "+name, "[www.example.com, www.elsewhere.test]", "[x.elsewhere.test]").Replace(dnsShop) +
			dnsDefault + "  - {name: lab, scope: {cidr: " + cidr + "}, mode: failover, edges: [b]}\n"
	}
	in := dnsInput(t, dnsZones, service("one", "198.51.100.0/24"), service("two", "203.0.113.0/24"), service("three", "192.0.2.0/24"))
	all := in.Services
	var c snapshot.Compiler
	compile := func(list ...int) (string, []*geo.Table) {
		in.Version++
		in.Services = nil
		for _, i := range list {
			in.Services = append(in.Services, all[i])
		}
		d, _ := c.Compile(in)
		var out []string
		for _, s := range d.Services {
			out = append(out, fmt.Sprint(s.Name, s.Table))
		}
		return strings.Join(out, " "), d.Tables
	}
	for _, row := range []struct {
		services []int
		want     string
		tables   int
	}{
		{[]int{0, 1}, "one0 two1", 2},
		{[]int{1}, "two1", 2},
		{[]int{1, 2}, "three0 two1", 2},
		{[]int{2}, "three0", 1},
		{nil, "", 0},
	} {
		if got, tables := compile(row.services...); got != row.want || len(tables) != row.tables {
			t.Errorf("%v: %s, %d tables, want %s, %d", row.services, got, len(tables), row.want, row.tables)
		}
	}
}

// FuzzApply: whatever bytes come for a delta, applying it does not panic, and what it makes has the digest it states.
//
// Covers: A2, issue3 gap
func FuzzApply(f *testing.F) {
	w := newWorld(f, 1)
	var c snapshot.Compiler
	var base *snapshot.DNS
	for range 12 {
		w.step()
		in, _ := w.inputs(nil)
		next, _ := c.Compile(in)
		for _, d := range []*snapshot.DNSDelta{snapshot.DiffDNS(base, next), snapshot.DiffDNS(next, base0(base))} {
			b, err := json.Marshal(d)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
		base = next
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d snapshot.DNSDelta
		if json.Unmarshal(data, &d) != nil {
			return
		}
		d.From = base.Version
		got, err := d.Apply(base)
		if err == nil && overTheWire(t, got).Digest() != d.Digest {
			t.Errorf("a map with digest %s, stated as %s", got.Digest(), d.Digest)
		}
	})
}

func base0(d *snapshot.DNS) *snapshot.DNS {
	if d == nil {
		return &snapshot.DNS{}
	}
	return d
}

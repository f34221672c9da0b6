package snapshot_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// world is a configuration, decisions and geo data that change at random, as people, the core and files change them.
type world struct {
	rng      *rand.Rand
	zones    []*spec.Zone
	models   []*spec.Service // what services are made of
	services map[string]*spec.Service
	unread   map[string]bool // services that cannot be read
	rules    map[string]snapshot.DNSRuleInput
	dbs      []*geo.DB
	db       *geo.DB
	version  uint64
	now      time.Duration

	// What changed since the last input.
	changed map[string]bool
	whole   bool
}

const worldRules = `  - {name: default, scope: "*", mode: failover, edges: [a, b]}
  - {name: lab, scope: {cidr: 198.51.100.0/24}, mode: failover, edges: [b, a]}
---
apiVersion: steerpoint/v1
kind: Service
name: model2
domains: [www.example.com]
edges: [{name: a, addresses: [192.0.2.7]}, {name: b, target: b.cdn.test}]
rules:
  - {name: default, scope: "*", mode: weighted, edges: [a, b]}
---
apiVersion: steerpoint/v1
kind: Service
name: model3
domains: [www.example.com]
edges: [{name: a, addresses: [192.0.2.8, 192.0.2.1]}, {name: b, addresses: ["2001:db8::8"]}]
rules:
  - {name: default, scope: "*", mode: failover, edges: [a, b], whenAllDown: all}
  - {name: cn, scope: {country: CN}, mode: failover, edges: [b]}
  - {name: lab, scope: {cidr: 198.51.100.0/24}, mode: fixed, edges: [a]}
`

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), services: map[string]*spec.Service{}, unread: map[string]bool{}, rules: map[string]snapshot.DNSRuleInput{}, changed: map[string]bool{}, whole: true}
	docs, errs := spec.Parse("world.yaml", []byte(dnsZones+"---"+dnsShop+worldRules))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, d := range docs {
		if d.Zone != nil {
			w.zones = append(w.zones, d.Zone)
		} else {
			w.models = append(w.models, d.Service)
		}
	}
	for _, places := range []string{"192.0.2.0/24 country=CN\n", "192.0.2.0/24 country=JP\n", "203.0.113.0/24 country=CN\n"} {
		list, err := geo.ParseList("places", []byte(places))
		if err != nil {
			t.Fatal(err)
		}
		w.dbs = append(w.dbs, geo.New(list))
	}
	w.db = w.dbs[0]
	for range 4 {
		w.service()
	}
	return w
}

func (w *world) pick(words ...string) string { return words[w.rng.IntN(len(words))] }

// service adds, changes or ends one of seven services.
func (w *world) service() {
	name := fmt.Sprintf("s%d", w.rng.IntN(7))
	if w.services[name] != nil && w.rng.IntN(4) == 0 {
		delete(w.services, name)
		return
	}
	s := *w.models[w.rng.IntN(len(w.models))]
	s.Name, s.Edges = name, slices.Clone(s.Edges)
	s.Domains = nil
	for range w.rng.IntN(4) {
		s.Domains = append(s.Domains, spec.Domain(w.pick("www.example.com", "example.com", "*.example.com", "m.example.com", "s0.gslb.example.net",
			"s3.gslb.example.net", "gslb.example.net", "ns1.gslb.example.net", "x.elsewhere.test")))
	}
	s.DNS.Zone = spec.HostName(w.pick("", "", "", "gslb.example.net", "example.com", "no.test"))
	s.DNS.Provider = w.pick("builtin", "builtin", "builtin", "builtin", "builtin", "vendor")
	s.Edges[w.rng.IntN(len(s.Edges))].Enabled = w.rng.IntN(5) > 0
	if w.rng.IntN(6) == 0 {
		s.Edges[1].Target, s.Edges[1].Addresses = spec.HostName(w.pick("www.example.com", "s0.gslb.example.net", "")), nil
	}
	if w.rng.IntN(8) == 0 {
		s.Rules = s.Rules[1:] // maybe without a catch-all
	}
	w.services[name] = &s
}

// hide makes a service unreadable, whether it was there or not, or readable again.
func (w *world) hide() {
	name := fmt.Sprintf("s%d", w.rng.IntN(7))
	if w.unread[name] {
		delete(w.unread, name)
	} else {
		w.unread[name] = true
	}
}

func (w *world) zone() {
	i := w.rng.IntN(len(w.zones))
	z := *w.zones[i]
	switch w.rng.IntN(4) {
	case 0:
		z.SOA.Refresh += spec.Duration(time.Second)
	case 1:
		z.Steering = !z.Steering
	case 2:
		z.NS = slices.Clone(z.NS)
		slices.Reverse(z.NS)
	default:
		if len(w.zones) > 2 {
			w.zones = slices.Delete(slices.Clone(w.zones), 2, 3)
			return
		}
		z.Name, z.Zone = "more", spec.HostName(w.pick("more.test", "img.example.com", "example.com", "m.example.com"))
		w.zones = append(slices.Clone(w.zones), &z)
		return
	}
	w.zones = slices.Clone(w.zones)
	w.zones[i] = &z
}

func (w *world) decide() {
	key := fmt.Sprintf("s%d/%s", w.rng.IntN(7), w.pick("default", "lab", "cn"))
	w.changed[key] = true
	if w.rng.IntN(10) == 0 {
		delete(w.rules, key)
		return
	}
	d := steering.Decision{
		Edge: w.pick("", "a", "a", "b", "b", "v", "gone", "fallback:x.test", "fallback:192.0.2.200"), Seq: uint64(w.rng.IntN(3)),
		AllDown: steering.AllDown(w.rng.IntN(5)), Degraded: w.rng.IntN(4) == 0,
	}
	if w.rng.IntN(2) == 0 {
		d.Soonest = w.now + time.Duration(w.rng.IntN(5)-1)*time.Second
	}
	s := steering.EdgeStatus{Edge: "a"}
	for _, x := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
		s.Addresses = append(s.Addresses, steering.AddressStatus{Address: x, Verdict: []steering.Verdict{steering.Up, steering.Down}[w.rng.IntN(2)]})
	}
	w.rules[key] = snapshot.DNSRuleInput{Decision: d, Edges: []steering.EdgeStatus{s}}
}

// step changes something.
func (w *world) step() {
	w.now += time.Duration(w.rng.IntN(3)) * time.Second
	for range 1 + w.rng.IntN(3) {
		switch n := w.rng.IntN(21); {
		case n < 13:
			w.decide()
		case n < 17:
			w.service()
		case n < 18:
			w.zone()
		case n < 19:
			w.db = w.dbs[w.rng.IntN(len(w.dbs))]
		case n < 20:
			w.hide()
		default:
			w.whole = true
		}
	}
}

// inputs gives what changed to a compiler that has seen the rest, and everything to one that has seen nothing.
func (w *world) inputs(previous *snapshot.DNS) (partial, all snapshot.DNSInput) {
	w.version++
	all = snapshot.DNSInput{
		Version: w.version, Created: time.Unix(int64(w.version), 5).UTC(), Now: w.now, Zones: slices.Clone(w.zones),
		Unread: slices.Sorted(maps.Keys(w.unread)), Rules: maps.Clone(w.rules), Geo: w.db, Previous: previous,
	}
	for name, s := range w.services {
		if !w.unread[name] {
			all.Services = append(all.Services, s)
		}
	}
	partial = all
	if !w.whole {
		partial.Partial, partial.Rules = true, map[string]snapshot.DNSRuleInput{}
		for key := range w.changed {
			if v, ok := w.rules[key]; ok {
				partial.Rules[key] = v
			} else {
				partial.Ended = append(partial.Ended, key)
			}
		}
	}
	w.whole, w.changed = false, map[string]bool{}
	return partial, all
}

// said is what a snapshot says, without what compilers may do in different ways: indices of tables, and when a value
// is from.
func said(t testing.TB, d *snapshot.DNS) string {
	t.Helper()
	type service struct {
		snapshot.DNSService
		TableData string
	}
	out := struct {
		Version  uint64
		Created  time.Time
		At       time.Duration
		Zones    []snapshot.DNSZone
		Services []service
	}{d.Version, d.Created, d.At, d.Zones, nil}
	for i := range d.Services {
		s := service{DNSService: *d.Services[i]}
		s.Rules = slices.Clone(s.Rules)
		for j := range s.Rules {
			s.Rules[j].Soonest = d.Left(d.Services[i], &d.Services[i].Rules[j])
		}
		if s.Table != snapshot.NoTable {
			b, err := json.Marshal(d.Tables[s.Table])
			if err != nil {
				t.Fatal(err)
			}
			s.TableData = string(b)
		}
		s.Table, s.Made, s.Revision = 0, 0, 0
		out.Services = append(out.Services, s)
	}
	b, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func lines(problems []snapshot.Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%s kept=%t lost=%t", p, p.Kept, p.Lost))
	}
	return strings.Join(out, "\n")
}

// overTheWire is a copy of a value as another machine gets it.
func overTheWire[T any](t testing.TB, v *T) *T {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCompilerSteps: whatever changes in whatever order, the compiler that goes on from the map before says what one
// says that begins anew; and a node that is sent deltas, now and then late, has the same map, octet by octet.
//
// Covers: A2, A8, issue3 deltas
func TestCompilerSteps(t *testing.T) {
	seeds, steps := 40, 60
	if testing.Short() {
		seeds = 8
	}
	kept, whole := 0, 0
	for seed := range seeds {
		w := newWorld(t, uint64(seed))
		var c snapshot.Compiler
		var last, sent, node *snapshot.DNS
		for step := range steps {
			w.step()
			partial, all := w.inputs(last)
			made, problems := c.Compile(partial)
			fresh, wantProblems := snapshot.CompileDNS(all)
			if d := cmp.Diff(said(t, fresh), said(t, made)); d != "" {
				t.Fatalf("seed %d step %d: from scratch and by steps differ:\n%s", seed, step, d)
			}
			if d := cmp.Diff(lines(wantProblems), lines(problems)); d != "" {
				t.Fatalf("seed %d step %d: problems differ:\n%s", seed, step, d)
			}
			kept += unchanged(t, last, made)
			last = made
			if w.rng.IntN(3) == 0 {
				continue // the node misses this one
			}
			delta := overTheWire(t, snapshot.DiffDNS(sent, made))
			got, err := delta.Apply(node)
			if err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if delta.Whole != nil {
				whole++
			}
			if !got.Equal(made) || got.Digest() != made.Digest() || asJSON(t, got) != asJSON(t, made) {
				t.Fatalf("seed %d step %d: the node has another map:\n%s", seed, step, cmp.Diff(asJSON(t, made), asJSON(t, got)))
			}
			sent, node = made, got
		}
	}
	if whole != seeds {
		t.Errorf("%d whole maps were sent to %d nodes", whole, seeds)
	}
	if kept < seeds*steps {
		t.Errorf("only %d services kept their value in %d steps: the test tests little", kept, seeds*steps)
	}
}

// asJSON is a snapshot as it is sent, empty lists written like missing ones.
func asJSON(t testing.TB, d *snapshot.DNS) string {
	t.Helper()
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "[]", "null")
}

// unchanged counts the services that kept their value, and holds Revision to its meaning.
func unchanged(t *testing.T, last, made *snapshot.DNS) (n int) {
	t.Helper()
	for _, s := range made.Services {
		if s.Revision == made.Version {
			if s.Made != made.At {
				t.Fatalf("service %s changed in version %d, made at %s of %s", s.Name, s.Revision, s.Made, made.At)
			}
			continue
		}
		j := -1
		if last != nil {
			j = slices.IndexFunc(last.Services, func(o *snapshot.DNSService) bool { return o.Name == s.Name })
		}
		if j < 0 || !last.Services[j].Equal(s) {
			t.Fatalf("service %s is said to be as in version %d, but is not as before", s.Name, s.Revision)
		}
		n++
	}
	return n
}

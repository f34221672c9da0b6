package importer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

func addr(t *testing.T, text string) spec.Address {
	t.Helper()
	var a spec.Address
	if err := a.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return a
}

func fixed(t *testing.T, b *Builder, name string) *Service {
	t.Helper()
	s, err := b.Service(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	edge := s.AddEdge(Edge{Name: "e", Addresses: []spec.Address{addr(t, "192.0.2.1")}})
	s.AddRule(Rule{Scope: Everybody(), Mode: spec.Fixed, Edges: []string{edge}, Probe: Probe{Off: true}})
	return s
}

// Names of services never meet those of records, of other services and of wildcards of their zone.
// Covers: issue4 import plan
func TestNamesAreFree(t *testing.T) {
	b := New(Options{})
	root := &tree.Node{Kind: tree.List, File: "f", Line: 1}
	b.Root(root)
	z, err := b.Zone("a.example", root)
	if err != nil {
		t.Fatal(err)
	}
	record := func(name string) {
		z.Record(name, "A", 60, "192.0.2.9", root.Add(&tree.Node{File: "f", Line: 2, Text: name}))
	}
	record("apex.a.example")
	record("x-y.a.example")
	long := strings.Repeat("long", 15)
	for _, name := range []string{"a.example", "x.y.a.example", "*.a.example", "any.a.example", "x_y.a.example", long + ".a.example", long + "2.a.example"} {
		fixed(t, b, name)
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range r.Docs {
		names = append(names, d.File())
	}
	if len(names) != 8 || !slices.Contains(names, "service-apex-2.yaml") || len(slices.Compact(slices.Sorted(slices.Values(names)))) != 8 {
		t.Error(names)
	}
	if r.Translated != 2 || r.Listed != 0 {
		t.Errorf("%d translated, %d listed", r.Translated, r.Listed)
	}
}

// A service has at most 1000 rules and a Zone so many record sets; the rest is listed, and what is made is valid.
// Covers: issue4 import hostile
func TestTooMany(t *testing.T) {
	b := New(Options{NS: []NS{{Name: "ns.example.net"}}})
	root := &tree.Node{Kind: tree.List, File: "f", Line: 1}
	b.Root(root)
	z, err := b.Zone("a.example", root)
	if err != nil {
		t.Fatal(err)
	}
	b.most = 1000
	for i := range b.most + 5 {
		z.Record("h"+strings.Repeat("x", i%50)+"-"+string(rune('a'+i%26))+spec.Milli(i*1000).String()+"z.a.example", "A", 60, "192.0.2.9", root.Add(&tree.Node{File: "f", Line: i, Text: "r"}))
	}
	s, err := b.Service("w.a.example", root)
	if err != nil {
		t.Fatal(err)
	}
	one := s.AddEdge(Edge{Name: "one", Addresses: []spec.Address{addr(t, "192.0.2.1")}})
	two := s.AddEdge(Edge{Name: "two", Addresses: []spec.Address{addr(t, "192.0.2.2")}})
	s.AddRule(Rule{Scope: Everybody(), Mode: spec.Fixed, Edges: []string{one}, Probe: Probe{Off: true}})
	for i := range 3 * maxList {
		sc, _, err := CIDR("10." + spec.Milli(i/250*1000).String() + "." + spec.Milli(i%250*1000).String() + ".0/24")
		if err != nil {
			t.Fatal(err)
		}
		edges := []string{one, two}
		if i%3 == 0 {
			edges = []string{two}
		}
		if !s.AddRule(Rule{Scope: sc, Mode: spec.Fixed, Edges: edges, Probe: Probe{Off: true}, At: root}) {
			t.Fatal("not added")
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	lost := slices.DeleteFunc(slices.Clone(r.Notes), func(n Note) bool { return !n.Lost })
	if len(lost) != 5 || r.Listed != 5 || len(s.spec.Rules) != 4 {
		t.Errorf("%d notes, %d listed, %d rules", len(lost), r.Listed, len(s.spec.Rules))
	}
}

// A result that would not validate is never written: the error says that the import is at fault.
// Covers: issue4 import exit codes
func TestInvalidIsAnError(t *testing.T) {
	b := New(Options{})
	s, err := b.Service("w.a.example", nil) // without a zone and without a rule
	if err != nil {
		t.Fatal(err)
	}
	s.AddEdge(Edge{Name: "e", Target: "x.example.net"})
	if _, err := b.Finish(); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// Covers: issue4 import exit codes
func TestParseNS(t *testing.T) {
	ns, err := ParseNS("NS1.example.net.=192.0.2.1,2001:db8::1")
	if err != nil || ns.Name != "ns1.example.net" || len(ns.Addresses) != 2 {
		t.Error(ns, err)
	}
	for _, bad := range []string{"", "x", "192.0.2.1", "ns.example.net=", "ns.example.net=x"} {
		if _, err := ParseNS(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

package snapshot_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

const staticZone = `apiVersion: steerpoint/v1
kind: Zone
name: static
zone: static.test
steering: false
ns: [{name: ns1.static.test, addresses: [192.0.2.53]}]
records:
`

func records(d *snapshot.DNS, zone string) string {
	var out []string
	for _, z := range d.Zones {
		if z.Name != zone {
			continue
		}
		for _, r := range z.Records {
			out = append(out, fmt.Sprintf("%s %s %s %s", strings.TrimSuffix(r.Name, "."+zone), r.Type, r.TTL, strings.Join(r.Data, ",")))
		}
	}
	return strings.Join(out, "\n")
}

// Records become sets with full names, in order; what another zone answers for, and what cannot be served, is left out, and
// nothing else suffers.
//
// Covers: issue5 static zones, rfc 2181 one ttl
func TestCompileRecords(t *testing.T) {
	in := dnsInput(t, dnsZones+"---\n"+staticZone+`
  - {name: "@", type: MX, values: [10 Mail.static.test, 20 mail.example.net]}
  - {name: mail, type: AAAA, values: ["2001:DB8::1"]}
  - {name: mail, type: A, ttl: 1h, values: [192.0.2.25]}
  - {name: txt, type: TXT, values: [v=spf1 -all]}
  - {name: branch, type: NS, values: [ns1.branch.static.test]}
  - {name: ns1.branch, type: A, values: [192.0.2.61]}
  - {name: odd, type: TYPE65280, values: ['\# 2 0A0b']}
`, dnsShop+dnsDefault)
	const good = `branch NS 5m0s ns1.branch.static.test.
mail A 1h0m0s 192.0.2.25
mail AAAA 5m0s 2001:db8::1
ns1.branch A 5m0s 192.0.2.61
odd TYPE65280 5m0s \# 2 0a0b
static.test. MX 5m0s 10 Mail.static.test.,20 mail.example.net.
txt TXT 5m0s "v=spf1 -all"`
	d, problems := compileDNS(in)
	if got := records(d, "static.test."); got != good || len(problems) != 0 {
		t.Fatalf("got\n%s\n%v", got, problems)
	}
	// What an older version had taken: each fault is named, the rest is served.
	z := zoneNamed(t, &in, "static")
	z.Records = append(z.Records,
		spec.Record{Name: "mail", Type: "A", Values: []string{"192.0.2.26"}}, spec.Record{Name: "mail", Type: "CNAME", Values: []string{"a.test"}},
		spec.Record{Name: "@", Type: "NS", Values: []string{"a.test"}}, spec.Record{Name: "@", Type: "CNAME", Values: []string{"a.test"}},
		spec.Record{Name: "bad", Type: "A", Values: []string{"x"}}, spec.Record{Name: "none", Type: "A"}, spec.Record{Name: "a..b", Type: "A", Values: []string{"192.0.2.1"}},
		spec.Record{Name: "ns1", Type: "A", Values: []string{"192.0.2.1"}}, spec.Record{Name: "*", Type: "NS", Values: []string{"a.test"}},
		spec.Record{Name: "big", Type: "TXT", Values: slices.Repeat([]string{strings.Repeat("x", 250)}, 300)},
	)
	d, problems = compileDNS(in)
	if got := records(d, "static.test."); got != good || len(problems) != 10 {
		t.Errorf("got\n%s\n%d problems %v", got, len(problems), problems)
	}
	for _, p := range problems {
		if p.Code != snapshot.ProblemRecord || p.Zone != "static" {
			t.Error(p)
		}
	}
}

func zoneNamed(t *testing.T, in *snapshot.DNSInput, name string) *spec.Zone {
	t.Helper()
	i := slices.IndexFunc(in.Zones, func(z *spec.Zone) bool { return z.Name == name })
	if i < 0 {
		t.Fatal("no zone", name)
	}
	z := *in.Zones[i]
	in.Zones[i] = &z
	return &z
}

// A service never answers where a record or a delegation does, and a name beside records only while it answers with addresses.
//
// Covers: issue5 static zones
func TestRecordsAndServices(t *testing.T) {
	addresses := strings.Replace(dnsShop, "target: shop.cdn-vendor.test", "addresses: [192.0.2.7]", 1)
	for _, row := range []struct {
		name, record, shop, hosted string
		problem                    string
	}{
		{"nothing there", "{name: other, type: A, values: [192.0.2.1]}", dnsShop, "www.static.test.", ""},
		{"address", "{name: www, type: A, values: [192.0.2.1]}", dnsShop, "", snapshot.ProblemNameTaken},
		{"ALIAS", "{name: www, type: ALIAS, values: [mail.static.test]}", dnsShop, "", snapshot.ProblemNameTaken},
		{"delegation", "{name: www, type: NS, values: [a.test]}", dnsShop, "", snapshot.ProblemNameTaken},
		{"text beside a name", "{name: www, type: TXT, values: [x]}", dnsShop, "", snapshot.ProblemNameTaken},
		{"text beside addresses", "{name: www, type: TXT, values: [x]}", addresses, "www.static.test.", ""},
	} {
		shop := strings.Replace(row.shop, "www.example.com", "www.static.test", 1)
		d, problems := compileDNS(dnsInput(t, dnsZones+"---\n"+staticZone+"  - {name: mail, type: A, values: [192.0.2.25]}\n  - "+row.record+"\n", shop+dnsDefault))
		problems = slices.DeleteFunc(problems, func(p snapshot.Problem) bool { return p.Code == snapshot.ProblemAlias })
		if hosted := strings.Join(d.Services[0].Hosted, " "); hosted != row.hosted {
			t.Errorf("%s: hosted %q", row.name, hosted)
		}
		if (row.problem == "") != (len(problems) == 0) || len(problems) > 0 && problems[0].Code != row.problem {
			t.Errorf("%s: %v", row.name, problems)
		}
	}
}

func addressesOf(list ...string) snapshot.Addresses {
	var a snapshot.Addresses
	for _, s := range list {
		if x := netip.MustParseAddr(s); x.Is4() {
			a.A = append(a.A, x)
		} else {
			a.AAAA = append(a.AAAA, x)
		}
	}
	return a
}

// An ALIAS answers with the addresses of a static name of ours, or of a name elsewhere as it was resolved; until then it is told
// of. Other addresses change that record and nothing else.
//
// Covers: issue5 names elsewhere, field 47
func TestAliasStatic(t *testing.T) {
	in := dnsInput(t, dnsZones+"---\n"+staticZone+`
  - {name: "@", type: ALIAS, ttl: 1m, values: [www.far.test]}
  - {name: near, type: ALIAS, ttl: 2m, values: [chain.static.test]}
  - {name: chain, type: CNAME, values: [mail.static.test]}
  - {name: mail, type: A, values: [192.0.2.25]}
  - {name: server, type: ALIAS, ttl: 3m, values: [ns1.static.test]}
  - {name: star, type: ALIAS, ttl: 3m, values: [x.wild.static.test]}
  - {name: "*.wild", type: AAAA, values: ["2001:db8::1"]}
  - {name: nowhere, type: ALIAS, values: [no.static.test]}
  - {name: away, type: ALIAS, values: [out.static.test]}
  - {name: out, type: CNAME, values: [out.far.test]}
`, dnsShop+dnsDefault)
	var c snapshot.Compiler
	d, problems := c.Compile(in)
	if got := c.Targets(); !slices.Equal(got, []string{"out.far.test.", "www.far.test."}) {
		t.Error(got)
	}
	const rest = `chain CNAME 5m0s mail.static.test.
mail A 5m0s 192.0.2.25
near A 2m0s 192.0.2.25
out CNAME 5m0s out.far.test.
server A 3m0s 192.0.2.53
star AAAA 3m0s 2001:db8::1`
	if got := records(d, "static.test."); got != "*.wild AAAA 5m0s 2001:db8::1\n"+rest || len(problems) != 3 {
		t.Errorf("got\n%s\n%v", got, problems)
	}
	in.Version++
	in.Partial = true
	in.Resolved = &snapshot.Resolved{Names: map[string]snapshot.Addresses{"www.far.test.": addressesOf("192.0.2.8", "2001:db8::8"), "out.far.test.": addressesOf("192.0.2.9")}}
	compiled := c.ServicesCompiled()
	d, problems = c.Compile(in)
	want := "*.wild AAAA 5m0s 2001:db8::1\naway A 5m0s 192.0.2.9\n" + rest + "\nstatic.test. A 1m0s 192.0.2.8\nstatic.test. AAAA 1m0s 2001:db8::8"
	wantLines := strings.Split(want, "\n")
	gotLines := strings.Split(records(d, "static.test."), "\n")
	slices.Sort(wantLines)
	slices.Sort(gotLines)
	if !slices.Equal(gotLines, wantLines) || len(problems) != 1 || problems[0].Code != snapshot.ProblemAlias || problems[0].Zone != "static" {
		t.Errorf("got\n%s\n%v", strings.Join(gotLines, "\n"), problems)
	}
	if c.ServicesCompiled() != compiled {
		t.Error("services were compiled again, and none changed")
	}
	in.Version++
	in.Resolved = &snapshot.Resolved{Names: in.Resolved.Names} // the same addresses: the same zones
	again, _ := c.Compile(in)
	if &again.Zones[0] != &d.Zones[0] || again.Digest() == d.Digest() {
		t.Error("zones are made anew without a change")
	}
}

// An ALIAS of a service, and a domain at an apex, answer as the service does, with addresses in the place of names: not before
// all are known, and again when they change.
//
// Covers: field 47, field 48, issue5 names elsewhere
func TestFlatNames(t *testing.T) {
	in := dnsInput(t, dnsZones+"---\n"+staticZone+"  - {name: \"@\", type: ALIAS, values: [shop.gslb.example.net]}\n",
		strings.Replace(dnsShop, "www.example.com", "example.com, www.example.com", 1)+dnsDefault)
	in.Rules["shop/default"] = snapshot.DNSRuleInput{Decision: steering.Decision{Edge: "v", Seq: 1}}
	var c snapshot.Compiler
	d, problems := c.Compile(in)
	s := d.Services[0]
	if len(s.Flat) != 0 || len(problems) != 2 || problems[0].Code != snapshot.ProblemAlias || !slices.Equal(s.Hosted, []string{"www.example.com."}) {
		t.Fatalf("before the addresses are known: flat %v, %v", s.Flat, problems)
	}
	if got := c.Targets(); !slices.Equal(got, []string{"shop.cdn-vendor.test."}) {
		t.Fatal(got)
	}
	resolve := func(addrs ...string) {
		in.Version++
		in.Partial, in.Rules = true, nil
		in.Resolved = &snapshot.Resolved{Names: map[string]snapshot.Addresses{"shop.cdn-vendor.test.": addressesOf(addrs...)}}
		d, problems = c.Compile(in)
		s = d.Services[0]
	}
	flat := func() string {
		var out []string
		for _, r := range s.Rules {
			for _, c := range r.Choices {
				if c.Target != "" {
					out = append(out, fmt.Sprint(c.FlatA, c.FlatAAAA))
				}
			}
		}
		return strings.Join(out, " ")
	}
	resolve("192.0.2.8", "2001:db8::8")
	if !slices.Equal(s.Flat, []string{"example.com.", "static.test."}) || len(problems) != 0 || !strings.Contains(flat(), "[192.0.2.8] [2001:db8::8]") {
		t.Fatalf("flat %v %s, %v", s.Flat, flat(), problems)
	}
	revision := s.Revision
	resolve("192.0.2.8", "2001:db8::8")
	if s.Revision != revision {
		t.Error("the same addresses make another answer")
	}
	resolve("192.0.2.9")
	if s.Revision == revision || !strings.Contains(flat(), "[192.0.2.9] []") {
		t.Errorf("other addresses: revision %d, %s", s.Revision, flat())
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("192.0.2.%d", i+1))
	}
	resolve(many...)
	for _, r := range s.Rules {
		for _, c := range r.Choices {
			if len(c.FlatA) > snapshot.MaxAnswerAddresses {
				t.Errorf("%d addresses", len(c.FlatA))
			}
		}
	}
	// The delta brings them, and both sides agree on the digest.
	before := d
	resolve("192.0.2.9")
	out, err := snapshot.DiffDNS(before, d).Apply(before)
	if err != nil || !out.Equal(d) || out.Digest() != d.Digest() {
		t.Error(err)
	}
}

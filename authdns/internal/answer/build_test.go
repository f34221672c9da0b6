package answer

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
)

// TestBuildRefuses breaks the test map in one way at a time: the error names the fault.
//
// Covers: issue2 bad input, rfc 1034 cname alone, rfc 2181 largest ttl
func TestBuildRefuses(t *testing.T) {
	service := func(d *snapshot.DNS) *snapshot.DNSService { return d.Services[0] }
	for _, row := range []struct {
		name, want string
		damage     func(d *snapshot.DNS)
	}{
		{"relative zone", "not absolute", func(d *snapshot.DNS) { d.Zones[0].Name = "gslb.example.net" }},
		{"bad zone name", "not a domain name", func(d *snapshot.DNS) { d.Zones[0].Name = "a..b." }},
		{"zone twice", "defined twice", func(d *snapshot.DNS) { d.Zones = append(d.Zones, d.Zones[0]) }},
		{"bad mname", "SOA", func(d *snapshot.DNS) { d.Zones[0].SOA.MName = "" }},
		{"negative SOA field", "refresh", func(d *snapshot.DNS) { d.Zones[0].SOA.Refresh = -time.Second }},
		{"endless TTL", "nsTTL", func(d *snapshot.DNS) { d.Zones[0].NSTTL = 100 * 365 * 24 * time.Hour }},
		{"no name servers", "no name servers", func(d *snapshot.DNS) { d.Zones[1].NS = nil }},
		{"name server without address", "has no address", func(d *snapshot.DNS) {
			d.Zones[1].NS = []snapshot.NameServer{{Name: "ns9.example.com."}}
		}},
		{"service outside", "no zone of ours", func(d *snapshot.DNS) { service(d).CNAME = "shop.example.org." }},
		{"hosted outside", "no zone of ours", func(d *snapshot.DNS) { service(d).Hosted = []string{"www.example.org."} }},
		{"two services, one name", "service shop and of service split", func(d *snapshot.DNS) { d.Services[1].Hosted = []string{"www.example.com."} }},
		{"no rules", "no rules", func(d *snapshot.DNS) { service(d).Rules = nil }},
		{"no such table", "table 5", func(d *snapshot.DNS) { service(d).Table = 5 }},
		{"no table", "table -1", func(d *snapshot.DNS) { service(d).Table = snapshot.NoTable }},
		{"table is nil", "table 0", func(d *snapshot.DNS) { d.Tables[0] = nil }},
		{"minTTL above ttl", "minTTL", func(d *snapshot.DNS) { service(d).Rules[0].MinTTL = time.Hour }},
		{"target and addresses", "not both", func(d *snapshot.DNS) { service(d).Rules[0].Choices[0].Target = "x.test." }},
		{"neither", "not both", func(d *snapshot.DNS) { service(d).Rules[0].Choices[0].A = nil }},
		{"IPv6 among A", "wrong family", func(d *snapshot.DNS) {
			service(d).Rules[0].Choices[0].A = []netip.Addr{netip.MustParseAddr("2001:db8::1")}
		}},
		{"mapped among AAAA", "wrong family", func(d *snapshot.DNS) {
			service(d).Rules[0].Choices[0].AAAA = []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.1")}
		}},
		{"relative target", "not absolute", func(d *snapshot.DNS) { service(d).Rules[1].Choices[0].Target = "x.test" }},
		{"weight 0", "weight 0", func(d *snapshot.DNS) { d.Services[1].Rules[0].Choices[0].Weight = 0 }},
		{"name at an apex", "not with a name", func(d *snapshot.DNS) { service(d).Hosted = []string{"child.example.com."} }},
		{"name beside TXT", "not with a name", func(d *snapshot.DNS) {
			d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{Name: "www.example.com.", Type: "TXT", Data: []string{"x"}})
		}},
		{"service at a name server", "addresses of its own", func(d *snapshot.DNS) { d.Services[4].Hosted = []string{"ns1.gslb.example.net."} }},
		{"CNAME and TXT", "nothing beside a CNAME", func(d *snapshot.DNS) {
			d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{Name: "alias.example.com.", Type: "TXT", Data: []string{"x"}})
		}},
		{"record outside", "outside the zone", func(d *snapshot.DNS) { d.Zones[1].Records[0].Name = "gslb.example.net." }},
		{"record in the zone inside", "outside the zone", func(d *snapshot.DNS) { d.Zones[1].Records[0].Name = "x.child.example.com." }},
		{"record of no type", "no type of records", func(d *snapshot.DNS) { d.Zones[1].Records[0].Type = "ANY" }},
		{"bad data", "is no IPv4 address", func(d *snapshot.DNS) { d.Zones[1].Records[1].Data = []string{"192.0.2.300"} }},
		{"no data", "no data", func(d *snapshot.DNS) { d.Zones[1].Records[1].Data = nil }},
		{"two records in one line", "no IPv4 address", func(d *snapshot.DNS) { d.Zones[1].Records[1].Data = []string{"192.0.2.3\n@ IN A 192.0.2.4"} }},
		{"NS of the zone itself", "are not records", func(d *snapshot.DNS) {
			d.Zones[1].Records[1] = snapshot.DNSRecord{Name: "example.com.", Type: "NS", Data: []string{"ns.test."}}
		}},
		{"NS twice", "NS records are defined twice", func(d *snapshot.DNS) {
			ns := snapshot.DNSRecord{Name: "sub.example.com.", Type: "NS", Data: []string{"ns.test."}}
			d.Zones[1].Records = append(d.Zones[1].Records, ns, ns)
		}},
		{"service below a delegation", "is delegated", func(d *snapshot.DNS) {
			d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{Name: "www.example.com.", Type: "NS", Data: []string{"ns.test."}})
		}},
		{"TXT of the zone inside", "outside the zone, in zone child", func(d *snapshot.DNS) { d.Zones[1].Records[0].Name = "child.example.com." }},
		{"made by the server", "made by the name server", func(d *snapshot.DNS) { d.Zones[1].Records[0].Type = "RRSIG" }},
	} {
		d := dnstest.Map(t)
		row.damage(d)
		ix, err := tryBuild(d, 0)
		if err == nil || ix != nil || !strings.HasPrefix(err.Error(), "MAP_INVALID: ") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want one with %q", row.name, err, row.want)
		}
	}
}

// TestBuildShares: equal answers are one in memory, however many services and rules have them.
func TestBuildShares(t *testing.T) {
	d := dnstest.Map(t)
	d.Services[3].Rules[0].Choices[0].A = d.Services[4].Rules[0].Choices[0].A
	ix := build(t, d)
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

// TestRootZone: the root may be one of our zones; every name is then in it.
func TestRootZone(t *testing.T) {
	d := dnstest.Map(t)
	d.Zones[0].NS = d.Zones[0].NS[:1] // the other one has no address, and is now in a zone of ours
	d.Zones = append(d.Zones, d.Zones[0])
	d.Zones[3].Name = "."
	r := newResponder(t, d)
	for name, want := range map[string]string{
		".": "NOERROR aa SOA:./60", "nowhere.test.": "NXDOMAIN aa SOA:./60", "net.": "NOERROR aa SOA:./60",
		"shop.gslb.example.net.": "NOERROR aa A=192.0.2.1/30",
	} {
		if got := brief(ask(t, r, dnstest.Query(name, dns.TypeA), resolver)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

package geo_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steerpoint/geo"
	"steerpoint/steering/scope"
)

// TestFill proves how two sources make one place: no mixture that is nowhere.
func TestFill(t *testing.T) {
	gd := scope.Place{Continent: "AS", Country: "CN", Province: "GD", City: "shenzhen", ISP: "a", ASN: 1}
	for _, tc := range []struct {
		name              string
		over, under, want scope.Place
	}{
		{"nothing over all", scope.Place{}, gd, gd},
		{"all over nothing", gd, scope.Place{}, gd},
		{
			"the same country is refined", scope.Place{Continent: "AS", Country: "CN"}, gd, gd,
		},
		{
			"another country is not",
			scope.Place{Continent: "AS", Country: "JP"},
			gd,
			scope.Place{Continent: "AS", Country: "JP", ISP: "a", ASN: 1},
		},
		{
			"the same province is refined", scope.Place{Continent: "AS", Country: "CN", Province: "GD"}, gd, gd,
		},
		{
			"another province is not",
			scope.Place{Continent: "AS", Country: "CN", Province: "FJ"},
			gd,
			scope.Place{Continent: "AS", Country: "CN", Province: "FJ", ISP: "a", ASN: 1},
		},
		{
			"a city without province takes none from below",
			scope.Place{Continent: "AS", Country: "CN", City: "xiamen"},
			gd,
			scope.Place{Continent: "AS", Country: "CN", City: "xiamen", ISP: "a", ASN: 1},
		},
		{
			"a network without place gets one",
			scope.Place{ISP: "b"},
			gd,
			scope.Place{Continent: "AS", Country: "CN", Province: "GD", City: "shenzhen", ISP: "b", ASN: 1},
		},
		{
			"the same continent is refined", scope.Place{Continent: "AS"}, gd, gd,
		},
		{
			"another continent is not", scope.Place{Continent: "EU"}, gd, scope.Place{Continent: "EU", ISP: "a", ASN: 1},
		},
	} {
		if diff := cmp.Diff(tc.want, geo.Fill(tc.over, tc.under)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestSourcesInOrder proves precedence and that a result names the source of each field.
//
// Covers: A3, issue2 geo
func TestSourcesInOrder(t *testing.T) {
	list := func(name, text string) *geo.Source {
		s, err := geo.ParseList(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := list("first", "10.0.0.0/8 isp=a\n10.1.0.0/16 country=JP\n")
	second := list("second", "10.0.0.0/8 country=CN\n2001:db8::/32 asn=7\n")
	third := list("third", "10.0.0.0/7 country=CN city=x province=GD asn=9\n")
	db := geo.New(first, second, third)
	for _, tc := range []struct {
		addr, prefix, inside string
		fields               []geo.Field
	}{
		{"10.9.9.9", "10.8.0.0/13", "", []geo.Field{
			{Name: "continent", Value: "AS", Source: "second"},
			{Name: "country", Value: "CN", Source: "second"},
			{Name: "province", Value: "GD", Source: "third"},
			{Name: "city", Value: "x", Source: "third"},
			{Name: "isp", Value: "a", Source: "first"},
			{Name: "asn", Value: "9", Source: "third"},
		}},
		{"10.1.2.3", "10.1.0.0/16", "", []geo.Field{
			{Name: "continent", Value: "AS", Source: "first"},
			{Name: "country", Value: "JP", Source: "first"},
			{Name: "isp", Value: "a", Source: "first"},
			{Name: "asn", Value: "9", Source: "third"},
		}},
		{"11.0.0.1", "11.0.0.0/8", "", []geo.Field{
			{Name: "continent", Value: "AS", Source: "third"},
			{Name: "country", Value: "CN", Source: "third"},
			{Name: "province", Value: "GD", Source: "third"},
			{Name: "city", Value: "x", Source: "third"},
			{Name: "asn", Value: "9", Source: "third"},
		}},
		{"2001:db8::1", "2001:db8::/32", "", []geo.Field{{Name: "asn", Value: "7", Source: "second"}}},
		{"2002:a01:203::1", "2002:a01::/32", "10.1.2.3", []geo.Field{
			{Name: "continent", Value: "AS", Source: "first"},
			{Name: "country", Value: "JP", Source: "first"},
			{Name: "isp", Value: "a", Source: "first"},
			{Name: "asn", Value: "9", Source: "third"},
		}},
		{"192.0.2.1", "128.0.0.0/1", "", []geo.Field{}},
	} {
		r := db.Lookup(netip.MustParseAddr(tc.addr))
		inside := ""
		if r.Inside.IsValid() {
			inside = r.Inside.String()
		}
		if r.Prefix.String() != tc.prefix || inside != tc.inside {
			t.Errorf("%s: block %s inside %q, want %s inside %q", tc.addr, r.Prefix, inside, tc.prefix, tc.inside)
		}
		if diff := cmp.Diff(tc.fields, r.Fields, cmpopts.IgnoreFields(geo.Field{}, "English", "Chinese")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.addr, diff)
		}
		if len(tc.fields) > 0 != (r.Source != "") {
			t.Errorf("%s: source %q", tc.addr, r.Source)
		}
	}
	if r := db.Lookup(netip.MustParseAddr("::ffff:10.1.2.3")); r.Place.Country != "JP" || r.Prefix.String() != "10.1.0.0/16" {
		t.Errorf("an IPv4-mapped address gives %+v", r)
	}
	if r := db.Lookup(netip.Addr{}); r.Place != (scope.Place{}) || r.Prefix.IsValid() {
		t.Errorf("no address gives %+v", r)
	}
	if r := geo.New().Lookup(netip.MustParseAddr("10.0.0.1")); r.Place != (scope.Place{}) || r.Prefix.String() != "0.0.0.0/0" {
		t.Errorf("without sources: %+v", r)
	}
}

// TestResultJSON pins what programs read from "geo lookup -o json".
func TestResultJSON(t *testing.T) {
	s := listSource(t, "10.0.0.0/8 country=CN asn=9")
	got, err := json.Marshal(geo.New(s).Lookup(netip.MustParseAddr("10.0.0.1")))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"addr":"10.0.0.1","place":{"continent":"AS","country":"CN","asn":9},"prefix":"10.0.0.0/8","source":"test.list",` +
		`"fields":[{"name":"continent","value":"AS","source":"test.list","en":"Asia","zh":"亚洲"},` +
		`{"name":"country","value":"CN","source":"test.list","en":"China","zh":"中国"},` +
		`{"name":"asn","value":"9","source":"test.list"}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestASNNamesTheISP proves that an AS number names the ISP only where no source does, that the answer says so, and
// that an operator's list beats both.
//
// Covers: issue4 asn as second source, A6
func TestASNNamesTheISP(t *testing.T) {
	operator := listSource(t, "10.2.0.0/16 isp=own")
	named := listSource(t, "10.1.0.0/16, isp=China Mobile", "10.2.0.0/16 isp=电信", "10.3.0.0/16 asn=64496", "10.4.0.0/17 country=CN isp=AS4134")
	asn := listSource(t, "10.0.0.0/8 asn=4134")
	db := geo.New(operator, named, asn)
	for addr, want := range map[string]string{
		"10.0.0.1": "chinatelecom via AS4134", "10.1.0.1": "chinamobile via ", "10.2.0.1": "own via ", "10.3.0.1": "", "10.4.0.1": "chinatelecom via ",
	} {
		got := ""
		for _, f := range db.Lookup(mustAddr(addr)).Fields {
			if f.Name == "isp" {
				got = f.Value + " via " + f.Via
			}
		}
		if got != want {
			t.Errorf("%s: isp %q, want %q", addr, got, want)
		}
	}
	// The block is as wide as is right: the place of 10.4 differs by its country only below 10.4.128.
	if r := db.Lookup(mustAddr("10.5.0.1")); r.Prefix.String() != "10.5.0.0/16" {
		t.Errorf("10.5.0.1 is in %s", r.Prefix)
	}
	table := mustCompile(t, db, scopesOf(t, "isp=中国电信"))
	if v, bits := table.Lookup(mustAddr("10.5.0.1")); v != 0 || bits != 14 {
		t.Errorf("10.5.0.1 has the value %d in a block of /%d, want 0 in /14", v, bits)
	}
	all := db.LookupAll(mustAddr("::ffff:10.2.0.1")).All
	want := []geo.Opinion{{Source: "test.list", Place: scope.Place{ISP: "own"}}, {Source: "test.list", Place: scope.Place{ISP: "chinatelecom"}}, {Source: "test.list", Place: scope.Place{ASN: 4134}}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("what the sources say (-want +got):\n%s", diff)
	}
	if all := db.LookupAll(netip.Addr{}).All; all != nil {
		t.Errorf("no address: %v", all)
	}
}

package geo_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

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
			{"continent", "AS", "second"},
			{"country", "CN", "second"},
			{"province", "GD", "third"},
			{"city", "x", "third"},
			{"isp", "a", "first"},
			{"asn", "9", "third"},
		}},
		{"10.1.2.3", "10.1.0.0/16", "", []geo.Field{
			{"continent", "AS", "first"},
			{"country", "JP", "first"},
			{"isp", "a", "first"},
			{"asn", "9", "third"},
		}},
		{"11.0.0.1", "11.0.0.0/8", "", []geo.Field{
			{"continent", "AS", "third"},
			{"country", "CN", "third"},
			{"province", "GD", "third"},
			{"city", "x", "third"},
			{"asn", "9", "third"},
		}},
		{"2001:db8::1", "2001:db8::/32", "", []geo.Field{{"asn", "7", "second"}}},
		{"2002:a01:203::1", "2002:a01::/32", "10.1.2.3", []geo.Field{
			{"continent", "AS", "first"},
			{"country", "JP", "first"},
			{"isp", "a", "first"},
			{"asn", "9", "third"},
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
		if diff := cmp.Diff(tc.fields, r.Fields); diff != "" {
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
		`"fields":[{"name":"continent","value":"AS","source":"test.list"},{"name":"country","value":"CN","source":"test.list"},` +
		`{"name":"asn","value":"9","source":"test.list"}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

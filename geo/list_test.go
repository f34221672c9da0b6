package geo_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/geo"
	"steerpoint/steering/scope"
)

// TestList proves both forms of a line, comments, spelling and inheritance.
func TestList(t *testing.T) {
	source, err := geo.ParseList("offices.list", []byte("\xef\xbb\xbf# our networks\r\n"+
		"192.0.2.0/24\tcountry=CN province=Guangdong city=shenzhen   # all of the office\r\n"+
		"\n"+
		"192.0.2.128/25, isp = China Telecom, asn = AS4134\r\n"+
		"192.0.2.200 country=JP\n"+
		"2001:db8::/32, country=US, province=New York, city=New York\n"+
		"198.51.100.0/24 continent=eu"))
	if err != nil {
		t.Fatal(err)
	}
	db := geo.New(source)
	for addr, want := range map[string]scope.Place{
		"192.0.2.1":    {Continent: "AS", Country: "CN", Province: "GD", City: "shenzhen"},
		"192.0.2.130":  {Continent: "AS", Country: "CN", Province: "GD", City: "shenzhen", ISP: "chinatelecom", ASN: 4134},
		"192.0.2.200":  {Continent: "AS", Country: "JP", ISP: "chinatelecom", ASN: 4134}, // a country of its own: the city is not inherited
		"192.0.2.201":  {Continent: "AS", Country: "CN", Province: "GD", City: "shenzhen", ISP: "chinatelecom", ASN: 4134},
		"2001:db8::1":  {Continent: "NA", Country: "US", Province: "NY", City: "newyork"},
		"198.51.100.1": {Continent: "EU"},
		"203.0.113.1":  {},
	} {
		if diff := cmp.Diff(want, db.Lookup(netip.MustParseAddr(addr)).Place); diff != "" {
			t.Errorf("%s (-want +got):\n%s", addr, diff)
		}
	}
}

// TestListErrors proves that every bad line is named at once, with its number and what is allowed.
//
// Covers: field 58
func TestListErrors(t *testing.T) {
	_, err := geo.ParseList("bad.list", []byte(`10.0.0.0/8 country=CN
10.0.0.1/8 country=CN
10.0.0/8 country=CN
11.0.0.0/8
12.0.0.0/8 region=EU
13.0.0.0/8 country=UK asn=x
14.0.0.0/8 country=CN country=JP
15.0.0.0/8 city=shenzhen
16.0.0.0/8 country
10.0.0.0/8 country=JP
2002::/24 country=CN
::ffff:10.0.0.0/104 country=CN
# prefix, country
17.0.0.0/8, country=CN,
`))
	want := `bad.list:2: cidr "10.0.0.1/8": has host bits set; write 10.0.0.0/8
bad.list:3: "10.0.0/8" is not a prefix; write for example 192.0.2.0/24 or 2001:db8::/32
bad.list:4: says nothing of the prefix; add for example country=CN
bad.list:5: "region=EU" names no field we know; allowed are continent, country, province, city, isp, asn
bad.list:6: country "UK": not an ISO 3166-1 alpha-2 code, such as CN or US; did you mean GB?
bad.list:6: asn "x": not an AS number; write 1 to 4294967295, for example 4134
bad.list:7: country is named twice; an address has one
bad.list:8: a province or city needs its country too
bad.list:9: "country": write key=value, for example country=CN
bad.list:10: 10.0.0.0/8 is named on line 1 already; keep one of the two
bad.list:11: cidr "2002::/24": addresses in 2002::/16 carry an IPv4 address and are looked up as that; write the IPv4 prefix
bad.list:12: cidr "::ffff:10.0.0.0/104": an IPv4-mapped prefix; write the IPv4 prefix 10.0.0.0/8
bad.list:14: "": write key=value, for example country=CN`
	if err == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	var e *geo.Error
	if !errors.As(err, &e) || e.Code != geo.CodeListLine || e.Line != 2 || e.File != "bad.list" {
		t.Errorf("first error is %+v", e)
	}
}

// TestListOfOtherThings proves that a file that is something else gives a bounded report, and an empty one an error.
func TestListOfOtherThings(t *testing.T) {
	_, err := geo.ParseList("novel.txt", []byte(strings.Repeat("call me Ishmael\n", 5000)))
	var errs geo.Errors
	if !errors.As(err, &errs) || len(errs) != 51 || !strings.Contains(errs[50].Msg, "more errors") {
		t.Errorf("%d errors, want 50 and a last one", len(errs))
	}
	for _, text := range []string{"", "\n\n", "# nothing\n"} {
		var e *geo.Error
		if _, err := geo.ParseList("x", []byte(text)); !errors.As(err, &e) || e.Code != geo.CodeEmpty {
			t.Errorf("list %q: %v, want %s", text, err, geo.CodeEmpty)
		}
	}
}

// FuzzList proves that no text makes a panic, that refusals have a code and a line, and that what is accepted answers.
func FuzzList(f *testing.F) {
	f.Add("10.0.0.0/8 country=CN province=GD city=x isp=y asn=1\n10.1.0.0/16, city=z, country=CN\n")
	f.Add("::/0 continent=EU\n2001:db8::1 country=FR # x\n0.0.0.0/0 asn=AS1\n255.255.255.255 isp=新")
	f.Fuzz(func(t *testing.T, text string) {
		source, err := geo.ParseList("x", []byte(text))
		if err != nil {
			var e *geo.Error
			if !errors.As(err, &e) || e.Code == "" || e.Line == 0 && e.Code != geo.CodeEmpty {
				t.Fatalf("error without code or line: %v", err)
			}
			return
		}
		db := geo.New(source)
		table := mustCompile(t, db, scopesOf(t, "country=CN", "isp=y"))
		for _, a := range []string{"10.0.0.1", "10.1.0.1", "2001:db8::1", "255.255.255.255"} {
			addr := netip.MustParseAddr(a)
			value, _ := table.Lookup(addr)
			place := db.Lookup(addr).Place
			if place.Canonical() != place {
				t.Fatalf("%s: place %+v is not canonical", a, place)
			}
			if known := place != (scope.Place{}); known != (value != geo.Unmapped) {
				t.Fatalf("%s: place %v, value %d", a, place, value)
			}
		}
	})
}

func ExampleDB_Lookup() {
	offices, err := geo.ParseList("offices.list", []byte("203.0.113.0/24 isp=chinatelecom\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	countries, err := geo.ParseList("countries.list", []byte("203.0.112.0/20 country=CN\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := geo.New(offices, countries).Lookup(netip.MustParseAddr("203.0.113.9"))
	fmt.Println(r.Prefix)
	for _, f := range r.Fields {
		fmt.Println(f.Name, f.Value, "says", f.Source)
	}
	// Output:
	// 203.0.113.0/24
	// continent AS says countries.list
	// country CN says countries.list
	// isp chinatelecom says offices.list
}

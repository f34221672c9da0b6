package scope_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/steering/scope"
)

// TestCanonical pins the text form: it is stored, shown and compared.
func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"*":                             "*",
		" * ":                           "*",
		"country=cn":                    "country=CN",
		"isp=ChinaTelecom country=CN":   "country=CN isp=chinatelecom",
		"country=jp,CN,JP":              "country=CN,JP",
		"country=CN province=guangdong": "country=CN province=GD",
		"country=CN province=44,广东,FJ":  "country=CN province=FJ,GD",
		"country=US city=new-york":      "country=US city=newyork",
		"ASN=AS4809,4134":               "asn=4134,4809",
		"continent=eu,as":               "continent=AS,EU",
		"cidr=2001:db8::/32,192.0.2.0/24,192.0.2.7": "cidr=192.0.2.0/24,192.0.2.7/32,2001:db8::/32",
	} {
		got := parse(t, in).Canonical()
		if got != want {
			t.Errorf("%q reads as %q, want %q", in, got, want)
		}
		if again := parse(t, got).Canonical(); again != got {
			t.Errorf("%q reads back as %q", got, again)
		}
	}
}

// TestRefused pins code and text of what is refused.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ in, code, text string }{
		{"", scope.CodeEmpty, `the scope is empty; write "*" for everyone, or for example country=CN`},
		{"CN", scope.CodeSyntax, `"CN": write key=value, for example country=CN, or "*" alone`},
		{"* country=CN", scope.CodeSyntax, `"*": write key=value, for example country=CN, or "*" alone`},
		{"region=EU", scope.CodeSyntax, `region: not a part of a scope; allowed are cidr, asn, continent, country, province, city, isp`},
		{"country=CN country=JP", scope.CodeSyntax, `country: named twice; write one list, separated by commas`},
		{"country=", scope.CodeCountry, `country: not an ISO 3166-1 alpha-2 code, such as CN or US`},
		{"country=CN,", scope.CodeCountry, `country: not an ISO 3166-1 alpha-2 code, such as CN or US`},
		{"country=UK", scope.CodeCountry, `country "UK": not an ISO 3166-1 alpha-2 code, such as CN or US; did you mean GB?`},
		{"country=EU", scope.CodeCountry, `country "EU": not an ISO 3166-1 alpha-2 code, such as CN or US`},
		{"continent=XX", scope.CodeContinent, `continent "XX": not a continent; allowed are AF, AN, AS, EU, NA, OC, SA`},
		{"isp=--", scope.CodeISP, `isp "--": has no letter or digit`},
		{"country=CN city=.", scope.CodeCity, `city ".": has no letter or digit`},
		{"country=CN province=-", scope.CodeProvince, `province "-": has no letter or digit`},
		{"asn=0", scope.CodeASN, `asn "0": not an AS number; write 1 to 4294967295, for example 4134`},
		{"asn=4294967296", scope.CodeASN, `asn "4294967296": not an AS number; write 1 to 4294967295, for example 4134`},
		{"cidr=10.0.0.1/8", scope.CodeCIDR, `cidr "10.0.0.1/8": has host bits set; write 10.0.0.0/8`},
		{"cidr=10.0.0.0/33", scope.CodeCIDR, `cidr "10.0.0.0/33": not a prefix; write for example 192.0.2.0/24 or 2001:db8::/32`},
		{"cidr=::ffff:192.0.2.0/120", scope.CodeCIDR, `cidr "::ffff:192.0.2.0/120": an IPv4-mapped prefix; write the IPv4 prefix 192.0.2.0/24`},
		{"cidr=2002:c000:200::/40", scope.CodeCIDR, `cidr "2002:c000:200::/40": addresses in 2002::/16 carry an IPv4 address and are looked up as that; write the IPv4 prefix`},
		{"cidr=64:ff9b::/96", scope.CodeCIDR, `cidr "64:ff9b::/96": addresses in 64:ff9b::/96 carry an IPv4 address and are looked up as that; write the IPv4 prefix`},
		{"cidr=10.0.0.0/8 country=CN", scope.CodeCombination, `cidr: an address prefix needs no other field; leave the others out`},
		{"asn=4134 country=CN", scope.CodeCombination, `asn: an AS number cannot be combined with other fields; use isp for a network inside a country`},
		{"asn=4134 isp=chinatelecom", scope.CodeCombination, `asn: an AS number cannot be combined with other fields; use isp for a network inside a country`},
		{"continent=AS isp=chinatelecom", scope.CodeCombination, `continent: isp and continent are not combined; name the countries instead`},
		{"continent=AS country=CN", scope.CodeCombination, `continent: a country already says its continent; leave continent out`},
		{"province=GD", scope.CodeCombination, `province: a province needs its country too: codes such as GD are only unique inside one`},
		{"city=shenzhen isp=chinatelecom", scope.CodeCombination, `city: a city needs its country too: names repeat from country to country`},
	} {
		_, err := scope.Parse(tc.in)
		var first *scope.Error
		if !errors.As(err, &first) {
			t.Errorf("Parse(%q): %v, want an *Error", tc.in, err)
			continue
		}
		if first.Code != tc.code || err.Error() != tc.text {
			t.Errorf("Parse(%q):\n got %s %s\nwant %s %s", tc.in, first.Code, err, tc.code, tc.text)
		}
	}
}

// TestAllErrors proves that every mistake of a scope is reported at once.
func TestAllErrors(t *testing.T) {
	s := scope.Scope{
		CIDR: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8"), {}}, Country: []string{"UK", "CN"}, ISP: []string{}, ASN: []uint32{0},
	}
	var errs scope.Errors
	if !errors.As(s.Validate(), &errs) {
		t.Fatal("no Errors")
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Field+" "+e.Code)
	}
	want := []string{"cidr SCOPE_CIDR", "cidr SCOPE_CIDR", "asn SCOPE_ASN", "country SCOPE_COUNTRY", "isp SCOPE_EMPTY"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if err := (scope.Scope{Any: true, Country: []string{"CN"}}).Validate(); err == nil {
		t.Error(`"*" with a country is accepted`)
	}
	if err := (scope.Scope{}).Validate(); err == nil {
		t.Error("the zero scope is accepted")
	}
}

// FuzzParse proves that parsing never panics, and that what it accepts has one stable text.
func FuzzParse(f *testing.F) {
	for _, text := range order {
		f.Add(text)
	}
	f.Add("country=CN,US province=guangdong,CA,44 city=新\u3000竹 isp=Ünïcode")
	f.Add("cidr=::ffff:1.2.3.4/100,::/0")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scope.Parse(text)
		if err != nil {
			var first *scope.Error
			if !errors.As(err, &first) || first.Code == "" || err.Error() == "" {
				t.Fatalf("Parse(%q): error %v without a code", text, err)
			}
			return
		}
		again, err := scope.Parse(s.Canonical())
		if err != nil {
			t.Fatalf("Parse(%q) gives %q, which is refused: %v", text, s.Canonical(), err)
		}
		if again.Canonical() != s.Canonical() || scope.Compare(again, s) != 0 {
			t.Fatalf("Parse(%q) gives %q, which reads back as %q", text, s.Canonical(), again.Canonical())
		}
		if s.Level() == 0 || !scope.Overlap(s, s) {
			t.Fatalf("Parse(%q) gives %q at level %v", text, s.Canonical(), s.Level())
		}
	})
}

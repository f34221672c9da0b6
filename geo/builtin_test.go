package geo_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"steerpoint/geo"
	"steerpoint/geo/internal/countryfile"
	"steerpoint/steering/scope"
)

func builtin(t testing.TB) *geo.Source {
	t.Helper()
	s, err := geo.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBuiltinKnowsWellKnownAddresses proves that geo works on first start, and that addresses nobody owns are unmapped.
//
// Covers: issue2 geo
func TestBuiltinKnowsWellKnownAddresses(t *testing.T) {
	db := geo.New(builtin(t))
	for addr, want := range map[string]string{
		"8.8.8.8":              "US",
		"114.114.114.114":      "CN",
		"1.1.1.1":              "AU",
		"2001:4860:4860::8888": "US",
		"133.11.0.1":           "JP", // University of Tokyo
		"193.0.6.139":          "NL", // RIPE NCC
		"202.96.128.86":        "CN", // China Telecom Guangdong
		"2400:3200::1":         "CN", // AliDNS
		"168.126.63.1":         "KR", // Korea Telecom
		"80.67.169.12":         "FR", // FDN
		"2a02:2168::1":         "RU",
		"200.160.2.3":          "BR", // NIC.br
		"196.216.2.1":          "ZA", // AFRINIC
		"2002:8080:808::1":     "US", // 6to4 of 128.128.8.8
	} {
		r := db.Lookup(netip.MustParseAddr(addr))
		if r.Place.Country != want || r.Place.Continent != scope.ContinentOf(want) || r.Source != "builtin" {
			t.Errorf("%s is in %v by %q, want %s", addr, r.Place, r.Source, want)
		}
	}
	table := mustCompile(t, db, scopesOf(t, "country=CN", "continent=EU"))
	for _, addr := range []string{
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "169.254.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "240.0.0.1", "255.255.255.255", "0.0.0.0", "::", "::1", "fe80::1", "fd00::1", "ff02::1", "2001:db8::1", "2002:a00:1::", "64:ff9b::10.0.0.1",
	} {
		if value, _ := table.Lookup(netip.MustParseAddr(addr)); value != geo.Unmapped {
			t.Errorf("%s has value %d, %+v", addr, value, db.Lookup(netip.MustParseAddr(addr)))
		}
	}
}

// TestBuiltinSaysWhatItIs proves that date, source, licence and credit travel with the data, and that it is small.
func TestBuiltinSaysWhatItIs(t *testing.T) {
	info := builtin(t).Info()
	if info.Kind != "builtin" || info.Built.IsZero() || info.Licence == "" || info.Credit == "" || info.Type == "" || info.SHA256 == "" {
		t.Errorf("described as %+v", info)
	}
	if info.Runs4 < 100_000 || info.Runs6 < 100_000 {
		t.Errorf("%d + %d runs: the table is cut short", info.Runs4, info.Runs6)
	}
	if size := len(geo.CountryTable()); size > 2<<20 {
		t.Errorf("%d bytes embedded, want less than 2 MiB", size)
	}
}

// TestBuiltinKnowsEveryCountry proves that the countries of the data are those of the scopes.
func TestBuiltinKnowsEveryCountry(t *testing.T) {
	table, err := countryfile.Decode(geo.CountryTable())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range table.Countries {
		if scope.ContinentOf(c) == "" {
			t.Errorf("country %s has no continent", c)
		}
	}
	if n := len(table.Countries); n < 240 || n > 250 {
		t.Errorf("%d countries", n)
	}
}

// TestBuiltinDamaged proves that a damaged build is named, not used.
func TestBuiltinDamaged(t *testing.T) {
	whole := geo.CountryTable()
	for name, data := range map[string][]byte{
		"nothing":   nil,
		"cut short": whole[:len(whole)/2],
		"flipped":   flipped(whole, len(whole)/3),
		"text":      []byte("hello"),
	} {
		_, err := geo.ReadBuiltin(data)
		var e *geo.Error
		if !errors.As(err, &e) || e.Code != geo.CodeBuiltin {
			t.Errorf("%s: %v, want %s", name, err, geo.CodeBuiltin)
		}
	}
}

func flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 0x55
	return data
}

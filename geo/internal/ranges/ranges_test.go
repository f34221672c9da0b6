package ranges_test

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/geo/internal/ranges"
)

// TestKeys proves the arithmetic of both families at their ends and at the seam of the IPv6 halves.
func TestKeys(t *testing.T) {
	v4 := func(s string) ranges.V4 { return ranges.FromV4(netip.MustParseAddr(s)) }
	v6 := func(s string) ranges.V6 { return ranges.FromV6(netip.MustParseAddr(s)) }
	for _, s := range []string{"0.0.0.0", "10.255.255.255", "255.255.255.254"} {
		a := netip.MustParseAddr(s)
		if got := v4(s).Next().Addr(); got != a.Next() {
			t.Errorf("%s.Next() = %s", s, got)
		}
		if got := v4(s).Next().Prev(); got != v4(s) {
			t.Errorf("%s.Next().Prev() = %s", s, got.Addr())
		}
	}
	for _, s := range []string{"::", "::ffff:ffff:ffff:ffff", "2001:db8::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"} {
		a := netip.MustParseAddr(s)
		if got := v6(s).Next().Addr(); got != a.Next() {
			t.Errorf("%s.Next() = %s", s, got)
		}
		if got := v6(s).Next().Prev(); got != v6(s) {
			t.Errorf("%s.Next().Prev() = %s", s, got.Addr())
		}
	}
	for _, tc := range []struct {
		prefix, last string
	}{
		{"10.0.0.0/8", "10.255.255.255"},
		{"0.0.0.0/0", "255.255.255.255"},
		{"10.0.0.1/32", "10.0.0.1"},
		{"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2001:db8::/32", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff"},
		{"2001:db8::/65", "2001:db8::7fff:ffff:ffff:ffff"},
		{"2001:db8::1/128", "2001:db8::1"},
	} {
		p := netip.MustParsePrefix(tc.prefix)
		var got netip.Addr
		if p.Addr().Is4() {
			got = ranges.FromV4(p.Addr()).Last(p.Bits()).Addr()
		} else {
			got = ranges.FromV6(p.Addr()).Last(p.Bits()).Addr()
		}
		if got.String() != tc.last {
			t.Errorf("last of %s = %s, want %s", tc.prefix, got, tc.last)
		}
	}
	for _, tc := range []struct {
		a, b string
		want int
	}{{"::", "::", 128}, {"::", "8000::", 0}, {"2001:db8::", "2001:db8::1", 127}, {"::", "::8000:0:0:0", 64}} {
		if got := v6(tc.a).Common(v6(tc.b)); got != tc.want {
			t.Errorf("Common(%s, %s) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

// TestFlattenAgainstDumbReader proves nesting, on random prefixes of a small space, with and without inheritance.
func TestFlattenAgainstDumbReader(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		seen := map[netip.Prefix]bool{}
		var blocks []ranges.Block[ranges.V4, int]
		var prefixes []netip.Prefix
		for range r.IntN(12) {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, byte(r.IntN(256))}), 24+r.IntN(9)).Masked()
			if seen[p] {
				continue
			}
			seen[p] = true
			prefixes = append(prefixes, p)
			first := ranges.FromV4(p.Addr())
			blocks = append(blocks, ranges.Block[ranges.V4, int]{First: first, Last: first.Last(p.Bits()), Value: p.Bits() % 3})
		}
		within := func(inner, outer int) int {
			if inner == 0 {
				return outer
			}
			return inner
		}
		runs := ranges.Flatten(blocks, within)
		checkRuns(t, runs)
		for last := range 256 {
			a := netip.AddrFrom4([4]byte{255, 255, 255, byte(last)})
			want := 0
			for bits := 24; bits <= 32; bits++ {
				for _, p := range prefixes {
					if p.Bits() == bits && p.Contains(a) {
						want = within(p.Bits()%3, want)
					}
				}
			}
			if got := runs.Values[runs.Find(ranges.FromV4(a))]; got != want {
				t.Fatalf("%v: %s has %d, want %d", prefixes, a, got, want)
			}
		}
	}
}

// checkRuns proves the invariants of Runs.
func checkRuns[K ranges.Key[K], V comparable](t *testing.T, r ranges.Runs[K, V]) {
	t.Helper()
	var zero K
	if r.Len() == 0 || r.Starts[0] != zero || len(r.Values) != len(r.Starts) {
		t.Fatalf("not a function of all addresses: %v", r)
	}
	for i := 1; i < r.Len(); i++ {
		if !r.Starts[i-1].Less(r.Starts[i]) || r.Values[i-1] == r.Values[i] {
			t.Fatalf("run %d does not differ from the one before: %v", i, r)
		}
	}
	for i := range r.Len() {
		first, last := r.Bounds(i)
		if r.Find(first) != i || r.Find(last) != i {
			t.Fatalf("run %d is not found by its ends", i)
		}
	}
}

// TestZipAgainstDumbReader proves that combining two functions combines every address, and that Bits is exact.
func TestZipAgainstDumbReader(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	random := func() ranges.Runs[ranges.V6, uint16] {
		out := ranges.Uniform[ranges.V6](uint16(0))
		at := uint64(0)
		for range r.IntN(6) {
			at += uint64(r.IntN(20))
			out.Append(ranges.V6{Lo: at << 58, Hi: at >> 6}, uint16(r.IntN(3)))
		}
		return out
	}
	for range 500 {
		a, b := random(), random()
		z := ranges.Zip(a, b, func(x, y uint16) uint16 { return x + y })
		checkRuns(t, z)
		for i := range uint64(128) {
			k := ranges.V6{Lo: i << 58, Hi: i >> 6}
			got := z.Values[z.Find(k)]
			if want := a.Values[a.Find(k)] + b.Values[b.Find(k)]; got != want {
				t.Fatalf("%v + %v: %s has %d, want %d", a, b, k.Addr(), got, want)
			}
			run := z.Find(k)
			bits := z.Bits(run, k)
			first, last := z.Bounds(run)
			if bits > 0 && !block(k, bits-1, first, last, false) || !block(k, bits, first, last, true) {
				t.Fatalf("%s in run %s-%s: %d bits", k.Addr(), first.Addr(), last.Addr(), bits)
			}
		}
	}
}

// block says whether the block of length bits around k is inside first to last (or, for inside false, is not).
func block(k ranges.V6, bits int, first, last ranges.V6, inside bool) bool {
	start := ranges.FromV6(netip.PrefixFrom(k.Addr(), bits).Masked().Addr())
	return inside == (!start.Less(first) && !last.Less(k.Last(bits)))
}

// TestCodecBytes pins the binary form of runs.
func TestCodecBytes(t *testing.T) {
	v4 := ranges.Runs[ranges.V4, uint16]{Starts: []ranges.V4{0, 1, 300, 0xffffffff}, Values: []uint16{7, 0, 200, 65535}}
	v6 := ranges.Runs[ranges.V6, uint16]{
		Starts: []ranges.V6{{}, {Lo: 1}, {Hi: 0x20010db8 << 32}, {Hi: 0x20010db8<<32 | 1}, {Hi: ^uint64(0), Lo: ^uint64(0)}},
		Values: []uint16{1, 2, 3, 4, 5},
	}
	if got, want := hex.EncodeToString(ranges.Append4(nil, v4)), "04"+"07"+"0100"+"ab02c801"+"d3fdffff0fffff03"; got != want {
		t.Errorf("IPv4: got %s, want %s", got, want)
	}
	want6 := "05" + "01" + "f00102" + "0320010db803" + "70" + "01" + "04" + "0fffffffffffffffffffffffffffffffff05"
	if got := hex.EncodeToString(ranges.Append6(nil, v6)); got != want6 {
		t.Errorf("IPv6: got %s, want %s", got, want6)
	}
	back4, rest, err := ranges.Read4(append(ranges.Append4(nil, v4), 0xaa))
	if err != nil || len(rest) != 1 || !cmp.Equal(back4, v4) {
		t.Errorf("IPv4 read back: %v %x %v", back4, rest, err)
	}
	back6, rest, err := ranges.Read6(append(ranges.Append6(nil, v6), 0xaa))
	if err != nil || len(rest) != 1 || !cmp.Equal(back6, v6) {
		t.Errorf("IPv6 read back: %v %x %v", back6, rest, err)
	}
}

// TestCodecStrict proves that each way to write the same thing otherwise is refused.
func TestCodecStrict(t *testing.T) {
	for name, text := range map[string]string{
		"no runs":                      "00",
		"a count beyond the bytes":     "ff7f" + "07",
		"a repeated start":             "02" + "07" + "0008",
		"a repeated value":             "02" + "07" + "0107",
		"past the last address":        "03" + "07" + "ffffffff0f08" + "0107",
		"a number with a leading zero": "02" + "07" + "810008",
		"a value beyond 16 bits":       "01" + "808004",
		"a number without end":         "01" + "ffffffffffffffffffffff",
	} {
		src, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ranges.Read4(src); !errors.Is(err, ranges.ErrStrict) && !errors.Is(err, ranges.ErrShort) {
			t.Errorf("IPv4, %s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"cut in a start":         "02" + "01" + "0320",
		"cut before a start":     "02" + "01",
		"a start too long":       "02" + "01" + "f1000102",
		"a trailing zero":        "02" + "01" + "01200002",
		"falling starts":         "03" + "01" + "002002" + "001003",
		"a shared byte repeated": "03" + "01" + "002002" + "01200103",
	} {
		src, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ranges.Read6(src); !errors.Is(err, ranges.ErrStrict) && !errors.Is(err, ranges.ErrShort) {
			t.Errorf("IPv6, %s: %v", name, err)
		}
	}
}

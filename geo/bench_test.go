package geo_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"steerpoint/geo"
	"steerpoint/geo/internal/ranges"
	"steerpoint/steering/scope"
)

// wide makes a table with runs of each family, values 0 to 39 and some unmapped.
func wide(runs int) *geo.Table {
	r := rand.New(rand.NewPCG(1, 1))
	var v4 ranges.Runs[ranges.V4, uint16]
	var v6 ranges.Runs[ranges.V6, uint16]
	value := func(i int) uint16 {
		if v := uint16(i*7%41 + r.IntN(2)); v < 40 {
			return v
		}
		return geo.Unmapped
	}
	for i := range runs {
		v4.Append(ranges.V4(uint64(i)<<32/uint64(runs))+ranges.V4(r.IntN(256)*min(i, 1)), value(i))
		// As allocations are: dense in a few /12s of 2000::/3.
		hi := uint64(0x24+2*(i*4/runs))<<56 | uint64(i)<<32/uint64(runs)<<24
		v6.Append(ranges.V6{Hi: hi * uint64(min(i, 1))}, value(i))
	}
	return geo.NewTable(v4, v6)
}

func benchmarkLookup(b *testing.B, v6 bool) {
	table := wide(300_000)
	r := rand.New(rand.NewPCG(2, 2))
	addrs := make([]netip.Addr, 1<<16)
	for i := range addrs {
		var a [16]byte
		binary.BigEndian.PutUint64(a[:], r.Uint64())
		addrs[i] = netip.AddrFrom4([4]byte(a[:4]))
		if v6 {
			a[0] = byte(0x24 + 2*r.IntN(4))
			a[1] &= 0x0f
			addrs[i] = netip.AddrFrom16(a)
		}
	}
	i, sum := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		v, bits := table.Lookup(addrs[i&(len(addrs)-1)])
		sum += int(v) + bits
		i++
	}
	if sum == 0 {
		b.Fatal("nothing looked up")
	}
}

// BenchmarkLookup4 looks random addresses up among 300,000 runs.
func BenchmarkLookup4(b *testing.B) { benchmarkLookup(b, false) }

// BenchmarkLookup6 looks random addresses up among 300,000 runs.
func BenchmarkLookup6(b *testing.B) { benchmarkLookup(b, true) }

// large makes a database of so many ranges, half of each family, with 20,000 places.
func large(tb testing.TB, count int) *geo.DB {
	tb.Helper()
	places := []scope.Place{{}}
	countries := []string{"CN", "JP", "FR", "US", "BR", "DE", "ZA", "AU", "IN", "KR"}
	for i := range 20_000 {
		places = append(places, scope.Place{Country: countries[i%len(countries)], City: fmt.Sprint("city", i), ISP: fmt.Sprint("isp", i%50)}.Canonical())
	}
	var v4 ranges.Runs[ranges.V4, uint32]
	var v6 ranges.Runs[ranges.V6, uint32]
	half := count / 2
	for i := range half {
		id := uint32(i*7919%20_000) + 1
		v4.Append(ranges.V4(uint64(i)<<32/uint64(half)), id)
		v6.Append(ranges.V6{Hi: uint64(i) << 40}, id)
	}
	return geo.New(geo.NewSource(places, v4, v6))
}

// forty makes forty scopes of several levels.
func forty(tb testing.TB) []scope.Scope {
	tb.Helper()
	var texts []string
	for i, c := range []string{"CN", "JP", "FR", "US", "BR", "DE", "ZA"} {
		texts = append(texts, "country="+c, fmt.Sprintf("country=%s isp=isp%d", c, i), fmt.Sprintf("country=%s city=city%d", c, i), fmt.Sprintf("cidr=10.%d.0.0/16", i))
	}
	for i := range 12 {
		texts = append(texts, fmt.Sprintf("isp=isp%d", 30+i))
	}
	return scopesOf(tb, texts...)
}

// BenchmarkCompileMillion compiles a million ranges for forty scopes.
func BenchmarkCompileMillion(b *testing.B) {
	db, scopes := large(b, 1_000_000), forty(b)
	for b.Loop() {
		mustCompile(b, db, scopes)
	}
}

// BenchmarkBuiltin unpacks the built-in table, as the first start does.
func BenchmarkBuiltin(b *testing.B) {
	for b.Loop() {
		if _, err := geo.ReadBuiltin(geo.CountryTable()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTableDecode reads a table of 300,000 runs a family, as a name server does with a snapshot.
func BenchmarkTableDecode(b *testing.B) {
	table := mustCompile(b, geo.New(builtin(b)), scopesOf(b, everyCountry()...))
	data, err := table.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var back geo.Table
		if err := back.UnmarshalBinary(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(data)), "bytes")
}

// everyCountry makes a scope for each country: the widest table the built-in data give.
func everyCountry() []string {
	var texts []string
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			if c := string(a) + string(b); scope.ContinentOf(c) != "" {
				texts = append(texts, "country="+c)
			}
		}
	}
	return texts
}

// TestLoadTimes holds loading and compiling to three times their targets: 2 s for a million ranges (a name server's
// start must not wait for its map), 150 ms for the built-in table.
//
// Covers: field 60
func TestLoadTimes(t *testing.T) {
	if os.Getenv("STEER_LONG") == "" {
		t.Skip("asserts wall time: only with STEER_LONG=1 (make test-long)")
	}
	if underRace {
		t.Skip("asserts wall time, which means nothing under the race detector; make test-long runs it without")
	}
	db, scopes := large(t, 1_000_000), forty(t)
	start := time.Now()
	mustCompile(t, db, scopes)
	if took := time.Since(start); took > 6*time.Second {
		t.Errorf("a million ranges compiled in %v, want under 2 s", took)
	}
	start = time.Now()
	if _, err := geo.ReadBuiltin(geo.CountryTable()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 450*time.Millisecond {
		t.Errorf("the built-in table read in %v, want under 150 ms", took)
	}
}

// TestCompileDoesNotAllocatePerRange proves without a clock that a range costs no allocation of its own: four times the
// ranges, the same allocations but for growing slices.
//
// Covers: field 60
func TestCompileDoesNotAllocatePerRange(t *testing.T) {
	scopes := forty(t)
	count := func(ranges int) float64 {
		db := large(t, ranges)
		return testing.AllocsPerRun(1, func() { mustCompile(t, db, scopes) })
	}
	small, big := count(40_000), count(160_000)
	if big-small > 100 {
		t.Errorf("%v allocations for 40,000 ranges, %v for 160,000", small, big)
	}
}

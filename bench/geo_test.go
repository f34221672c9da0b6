package bench

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"steerpoint/geo"
)

// clients are addresses of both families, spread over all of IPv4 and over the global unicast part of IPv6, the same
// in every run.
func clients(n int) []netip.Addr {
	r := rand.New(rand.NewPCG(1, 2))
	addrs := make([]netip.Addr, n)
	for i := range addrs {
		if i%2 == 0 {
			v := r.Uint32()
			addrs[i] = netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
			continue
		}
		var a [16]byte
		hi := r.Uint64()
		a[0], a[1], a[2], a[3] = 0x20|byte(hi>>61), byte(hi>>8), byte(hi>>16), byte(hi>>24)
		a[4], a[5], a[6], a[7] = byte(hi>>32), byte(hi>>40), byte(hi>>48), byte(hi>>56)
		addrs[i] = netip.AddrFrom16(a)
	}
	return addrs
}

// BenchmarkScopeLookup is what every steered DNS answer needs: address to rule and exact scope, over the built-in
// countries.
func BenchmarkScopeLookup(b *testing.B) {
	_, t := table(b)
	addrs := clients(1 << 14)
	b.ReportAllocs()
	i, sum := 0, 0
	for b.Loop() {
		v, bits := t.Lookup(addrs[i&(1<<14-1)])
		sum += int(v) + bits
		i++
	}
	if sum == 0 {
		b.Fatal("every look-up came to nothing")
	}
}

// BenchmarkPlaceLookup is an address to its place, as explain and geo lookup show it.
func BenchmarkPlaceLookup(b *testing.B) {
	db, _ := table(b)
	addrs := clients(1 << 14)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		db.Lookup(addrs[i&(1<<14-1)])
		i++
	}
}

// BenchmarkCompileScopes is a set of scopes compiled over the built-in table, as after a change of a service's scopes.
func BenchmarkCompileScopes(b *testing.B) {
	db, _ := table(b)
	for b.Loop() {
		if _, err := geo.Compile(db, scopes()); err != nil {
			b.Fatal(err)
		}
	}
}

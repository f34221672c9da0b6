package rrl

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"
	"unsafe"
)

var (
	www  = []byte("\x03www\x07example\x00")
	mail = []byte("\x04mail\x07example\x00")
)

// sent is how many of n replies within a time, evenly spread, may be sent.
func sent(l *Limiter, client string, kind Kind, name []byte, n int, from, over time.Duration) (ok int) {
	a := netip.MustParseAddr(client)
	for i := range n {
		if l.Check(a, kind, name, from+over*time.Duration(i)/time.Duration(n)) == Send {
			ok++
		}
	}
	return ok
}

// within fails unless got is want, a twentieth off at most: a tick is a microsecond, and limits are whole ticks.
func within(t *testing.T, what string, got, want int) {
	t.Helper()
	if diff := got - want; diff > want/20+1 || diff < -want/20-1 {
		t.Errorf("%s: %d replies, want about %d", what, got, want)
	}
}

// TestLimits floods by every way of being counted apart, each at ten times its limit and below it.
//
// Covers: issue5 rate limit
func TestLimits(t *testing.T) {
	cfg := Config{Answers: 100, NXDomains: 50, Errors: 20, Total: 1000, Burst: 2 * time.Second}
	for _, row := range []struct {
		name   string
		kind   Kind
		limit  int
		client string
	}{
		{"answers", Answer, 100, "192.0.2.1"},
		{"NXDOMAIN", NXDomain, 50, "192.0.2.1"},
		{"errors", Error, 20, "192.0.2.1"},
		{"IPv6", Answer, 100, "2001:db8:1:2::3"},
	} {
		l := New(cfg)
		const seconds = 10
		n := row.limit * seconds
		within(t, row.name+" at ten times the limit", sent(l, row.client, row.kind, www, n*10, time.Hour, seconds*time.Second), row.limit*(seconds+2))
		if got := sent(New(cfg), row.client, row.kind, www, n, 0, seconds*time.Second); got != n {
			t.Errorf("%s at the limit: %d of %d", row.name, got, n)
		}
		within(t, row.name+" after a pause", sent(l, row.client, row.kind, www, n, 2*time.Hour, time.Millisecond), row.limit*2)
	}
}

// TestCountedApart: another name, kind or network has a limit of its own; addresses of one network share theirs.
//
// Covers: issue5 rate limit
func TestCountedApart(t *testing.T) {
	cfg := Config{Answers: 100, NXDomains: 100, Errors: 100, Burst: time.Second}
	flooded := func() *Limiter {
		l := New(cfg)
		sent(l, "192.0.2.1", Answer, www, 1000, 0, time.Millisecond)
		sent(l, "2001:db8:0:100::1", Answer, www, 1000, 0, time.Millisecond)
		sent(l, "192.0.2.1", Error, www, 1000, 0, time.Millisecond)
		return l
	}
	for _, row := range []struct {
		client string
		kind   Kind
		name   []byte
		want   int
	}{
		{"192.0.2.1", Answer, www, 0},
		{"192.0.2.254", Answer, www, 0},
		{"192.0.3.1", Answer, www, 10},
		{"192.0.2.1", Answer, mail, 10},
		{"192.0.2.1", NXDomain, www, 10},
		{"192.0.2.1", Error, mail, 0},
		{"192.0.3.1", Error, mail, 10},
		{"2001:db8:0:1ff::9", Answer, www, 0},
		{"2001:db8:0:200::1", Answer, www, 10},
	} {
		if got := sent(flooded(), row.client, row.kind, row.name, 10, time.Millisecond, time.Millisecond); got != row.want {
			t.Errorf("%+v: %d of 10", row, got)
		}
	}
}

// TestTotal: whoever asks for other names all the time, or for names that are not counted, meets the limit of all.
//
// Covers: issue5 rate limit
func TestTotal(t *testing.T) {
	l, a := New(Config{Answers: 100, Total: 500, Burst: time.Second}), netip.MustParseAddr("192.0.2.1")
	got := 0
	for i := range 10_000 {
		var name []byte
		if i%2 == 0 {
			name = fmt.Appendf(nil, "%d", i)
		}
		if l.Check(a, Answer, name, time.Duration(i)*time.Millisecond) == Send { // ten seconds
			got++
		}
	}
	within(t, "random names", got, 500*11)
}

// TestSlip: of what is over the limit one in so many is told.
//
// Covers: issue5 rate limit
func TestSlip(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.1")
	for slip, want := range map[int]int{0: 0, 1: 100, 2: 50, 4: 25} {
		l := New(Config{Answers: 1, Slip: slip})
		l.Check(a, Answer, www, 0)
		told := 0
		for range 100 {
			switch l.Check(a, Answer, www, 0) {
			case Slip:
				told++
			case Send:
				t.Errorf("slip %d: sent", slip)
			}
		}
		if told != want {
			t.Errorf("slip %d: %d of 100 told, want %d", slip, told, want)
		}
	}
}

// TestExempt: networks without limits have none, and without any limit nobody has.
//
// Covers: issue5 rate limit
func TestExempt(t *testing.T) {
	l := New(Config{Answers: 1, Total: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("2001:db8::/32")}})
	for client, want := range map[string]int{"192.0.2.1": 1000, "2001:db8::1": 1000, "192.0.2.200": 1} {
		if got := sent(l, client, Answer, www, 1000, 0, time.Microsecond); got != want {
			t.Errorf("%s: %d, want %d", client, got, want)
		}
	}
	if got := sent(New(Config{}), "192.0.2.1", Answer, www, 1000, 0, 0); got != 1000 {
		t.Errorf("without limits: %d of 1000", got)
	}
}

// TestForgedSources: a flood from half a million networks takes no more memory, and the one that is really attacked stays
// limited while it goes on; a quiet one is hardly ever mistaken for a loud one.
//
// Covers: issue5 rate limit
func TestForgedSources(t *testing.T) {
	l := New(Config{Answers: 100, Total: 200, Burst: time.Second})
	if size := unsafe.Sizeof(line{}) * lines; size != 1<<20 {
		t.Errorf("the table has %d octets", size)
	}
	victim := netip.MustParseAddr("198.51.100.1")
	random := rand.New(rand.NewPCG(1, 2))
	got, refused := 0, 0
	const seconds = 5
	for i := range 100_000 * seconds { // 100,000 a second
		now := time.Duration(i) * 10 * time.Microsecond
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], random.Uint32())
		if l.Check(netip.AddrFrom4(b), Answer, www, now) != Send {
			refused++
		}
		if i%10 == 0 && l.Check(victim, Answer, www, now) == Send { // 10,000 a second
			got++
		}
	}
	within(t, "to the victim", got, 100*(seconds+1))
	if refused > 100 {
		t.Errorf("%d of half a million replies to networks that were answered once were taken for too many", refused)
	}
}

// TestConcurrently counts from several goroutines: the limit holds, but for what is lost in a race.
//
// Covers: issue5 rate limit
func TestConcurrently(t *testing.T) {
	l, a := New(Config{Answers: 1000, Burst: time.Second}), netip.MustParseAddr("192.0.2.1")
	var wg sync.WaitGroup
	got := make([]int, 4)
	for g := range got {
		wg.Go(func() {
			for range 20_000 {
				if l.Check(a, Answer, www, 0) == Send {
					got[g]++
				}
			}
		})
	}
	wg.Wait()
	if sum := got[0] + got[1] + got[2] + got[3]; sum < 1000 || sum > 2000 {
		t.Errorf("%v of 80,000 were sent at a limit of 1000", got)
	}
}

// TestNothingIsAllocated: whatever is counted.
//
// Covers: issue5 rate limit, issue5 no allocation
func TestNothingIsAllocated(t *testing.T) {
	l, a := New(Config{Answers: 10, Total: 100, Slip: 1}), netip.MustParseAddr("2001:db8::1")
	now := time.Duration(0)
	if n := testing.AllocsPerRun(1000, func() { l.Check(a, Answer, www, now); now += time.Millisecond }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCheck is one reply to a network that is far from its limit: 4096 networks in turn, so that the table is not in
// the nearest cache.
func BenchmarkCheck(b *testing.B) {
	l := New(Config{Answers: MaxRate, Total: MaxRate, Burst: time.Second})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
		l.Check(a, Answer, www, time.Duration(i)*time.Microsecond)
	}
}

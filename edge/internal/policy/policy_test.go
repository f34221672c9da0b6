package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"steerpoint/edge/internal/headtest"
	"steerpoint/edge/internal/rules"
	"steerpoint/snapshot"
)

// head is a head as a test writes it.
type head = headtest.Lines

func from(addr, path string, lines ...string) *rules.Request {
	return &rules.Request{Path: []byte(path), Client: netip.AddrPortFrom(netip.MustParseAddr(addr), 1), Country: "DE", Header: head(lines)}
}

// The first policy that fits decides; who none fits may come in; all conditions of one must hold.
//
// Covers: C1-C10 access
func TestAccess(t *testing.T) {
	office := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/32")}
	a := NewAccess([]snapshot.EdgeAccess{
		{Allow: true, Paths: []string{"/admin/*"}, Prefixes: office},
		{Paths: []string{"/admin/*", "/secret"}},
		{Countries: []string{"AQ"}},
		{Referers: []string{"bad.example", "*.worse.example"}, Paths: []string{"/img/*"}},
		{UserAgents: []string{"EvilBot"}},
	})
	for _, tt := range []struct {
		r    *rules.Request
		want int // the policy that decides
	}{
		{from("192.0.2.1", "/admin/x"), 0},
		{from("192.0.2.127", "/admin/"), 0},
		{from("::ffff:192.0.2.7", "/admin/"), 0},
		{from("2001:db8:ffff::1", "/admin/"), 0},
		{from("192.0.2.128", "/admin/"), 1},
		{from("192.0.1.255", "/admin/"), 1},
		{from("2001:db9::", "/admin/"), 1},
		{from("0.0.0.0", "/admin/"), 1},
		{from("198.51.100.1", "/admin"), -1},
		{from("198.51.100.1", "/secret"), 1},
		{from("198.51.100.1", "/secret/x"), -1},
		{from("198.51.100.1", "/img/a", "Referer: https://BAD.example:444/x?y"), 3},
		{from("198.51.100.1", "/img/a", "Referer: https://user@a.b.worse.example"), 3},
		{from("198.51.100.1", "/img/a", "Referer: https://worse.example/"), -1},
		{from("198.51.100.1", "/img/a", "Referer: https://good.example/bad.example"), -1},
		{from("198.51.100.1", "/img/a", "Referer: bad.example"), -1},
		{from("198.51.100.1", "/x", "Referer: https://bad.example/"), -1},
		{from("198.51.100.1", "/x", "User-Agent: Mozilla (evilBOT/1.0)"), 4},
		{&rules.Request{Path: []byte("/x"), Country: "AQ"}, 2},
		{&rules.Request{}, -1},
	} {
		ok, by := a.Admits(tt.r)
		if by != tt.want || ok != (tt.want <= 0) {
			t.Errorf("%s %s %v: %v by %d, want %d", tt.r.Client, tt.r.Path, tt.r.Header, ok, by, tt.want)
		}
	}
}

// Ranges found by halves are those that a walk over the prefixes finds.
func TestRanges(t *testing.T) {
	var list []netip.Prefix
	for _, s := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.255.255.255/32", "11.0.0.0/32", "192.0.2.64/26", "0.0.0.0/32", "255.255.255.255/32", "::/128", "2001:db8::/33", "2001:db8:8000::/127", "ffff::/16"} {
		list = append(list, netip.MustParsePrefix(s))
	}
	r := newRanges(list)
	try := []netip.Addr{netip.MustParseAddr("2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"), netip.MustParseAddr("::1"), netip.MustParseAddr("1.1.1.1")}
	for _, p := range list {
		try = append(try, p.Addr(), p.Addr().Prev(), p.Addr().Next(), lastOf(p), lastOf(p).Next())
	}
	for _, a := range try {
		if !a.IsValid() {
			continue
		}
		if want := slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) }); r.contain(a) != want {
			t.Errorf("%s: %v", a, !want)
		}
	}
	if (&ranges{}).contain(netip.MustParseAddr("1.1.1.1")) || r.contain(netip.Addr{}) {
		t.Error("nothing contains something")
	}
}

// A client gets its burst at once and then its rate, exactly; others are counted apart.
//
// Covers: C1-C10 rate limit
func TestLimit(t *testing.T) {
	l := NewLimits([]snapshot.EdgeLimit{{Paths: []string{"/login"}, Requests: 10, Per: time.Minute, Burst: 3}}, nil)
	a, b := from("192.0.2.1", "/login"), from("192.0.2.2", "/login")
	at := func(r *rules.Request, now time.Duration) (bool, time.Duration) {
		ok, _, wait := l.Admits(r, now)
		return ok, wait
	}
	now := time.Hour
	for range 3 {
		if ok, _ := at(a, now); !ok {
			t.Fatal("the burst is refused")
		}
	}
	if ok, wait := at(a, now); ok || wait != 6*time.Second {
		t.Errorf("the fourth at once: %v, wait %s", ok, wait)
	}
	if ok, wait := at(a, now+6*time.Second-1); ok || wait != 1 {
		t.Errorf("a nanosecond early: %v, %s", ok, wait)
	}
	if ok, _ := at(a, now+6*time.Second); !ok {
		t.Error("one interval later")
	}
	if ok, _ := at(b, now); !ok {
		t.Error("another client")
	}
	if ok, _ := at(from("192.0.2.1", "/other"), now); !ok {
		t.Error("another path")
	}
	got := 0
	for i := range 6000 { // ten minutes in tenths of a second
		if ok, _ := at(a, now+time.Minute+time.Duration(i)*100*time.Millisecond); ok {
			got++
		}
	}
	if got != 102 { // 100, and two saved up
		t.Errorf("%d requests in ten minutes", got)
	}
}

// Of IPv6 the first 64 bits are one client; a header's value is one where it is there.
//
// Covers: C1-C10 rate limit
func TestWhoIsCounted(t *testing.T) {
	one := func(header string) *Limits {
		return NewLimits([]snapshot.EdgeLimit{{Paths: []string{"/*"}, Header: header, Requests: 1, Per: time.Hour, Burst: 1}}, nil)
	}
	for _, tt := range []struct {
		header string
		a, b   *rules.Request
		same   bool
	}{
		{"", from("2001:db8::1", "/"), from("2001:db8::2", "/"), true},
		{"", from("2001:db8::1", "/"), from("2001:db8:0:1::1", "/"), false},
		{"", from("192.0.2.1", "/"), from("::ffff:192.0.2.1", "/"), true},
		{"", from("192.0.2.1", "/"), from("192.0.2.2", "/"), false},
		{"x-key", from("192.0.2.1", "/", "X-Key: a"), from("192.0.2.2", "/", "X-Key: a"), true},
		{"x-key", from("192.0.2.1", "/", "X-Key: a"), from("192.0.2.1", "/", "X-Key: b"), false},
		{"x-key", from("192.0.2.1", "/"), from("192.0.2.1", "/x"), true},
		{"", &rules.Request{Path: []byte("/")}, &rules.Request{Path: []byte("/")}, true},
	} {
		l := one(tt.header)
		l.Admits(tt.a, time.Second)
		if ok, _, _ := l.Admits(tt.b, time.Second); ok == tt.same {
			t.Errorf("%s %v and %s %v: one client %v", tt.a.Client, tt.a.Header, tt.b.Client, tt.b.Header, !ok)
		}
	}
}

// What an inner limit refuses does not drain the outer one; an unchanged limit goes on counting after a change.
//
// Covers: gateway fault 63
func TestRefused(t *testing.T) {
	list := []snapshot.EdgeLimit{
		{Paths: []string{"/*"}, Requests: 5, Per: time.Hour, Burst: 5},
		{Paths: []string{"/x"}, Requests: 1, Per: time.Hour, Burst: 1},
	}
	l := NewLimits(list, nil)
	x, y := from("192.0.2.1", "/x"), from("192.0.2.1", "/y")
	for i := range 20 {
		ok, by, wait := l.Admits(x, time.Second)
		if ok != (i == 0) || !ok && (by != 1 || wait != time.Hour) {
			t.Fatalf("request %d: %v by %d, wait %s", i, ok, by, wait)
		}
	}
	for range 2 {
		if ok, _, _ := l.Admits(y, time.Second); !ok {
			t.Fatal("the outer limit was drained")
		}
	}
	l = NewLimits(list, l)
	got := 0
	for range 10 {
		if ok, _, _ := l.Admits(y, time.Second); ok {
			got++
		}
	}
	if got != 2 {
		t.Errorf("%d more after the change, want 2", got)
	}
	list[0].Requests = 6
	if ok, _, _ := NewLimits(list, l).Admits(y, time.Second); !ok {
		t.Error("a limit that changed did not begin anew")
	}
}

// A flood of made-up clients costs a bounded memory, and those who were there are counted on.
//
// Covers: C1-C10 rate limit
func TestFlood(t *testing.T) {
	l := NewLimits([]snapshot.EdgeLimit{{Paths: []string{"/*"}, Header: "k", Requests: 1, Per: time.Hour, Burst: 1}}, nil)
	known := from("192.0.2.1", "/", "k: known")
	const most = 16
	l.list[0].most = most
	l.Admits(known, time.Second)
	admitted := 0
	for i := range 10 * shards * most {
		if ok, _, _ := l.Admits(from("192.0.2.1", "/", fmt.Sprint("k: ", i)), time.Second); ok {
			admitted++
		}
	}
	held := 0
	for i := range l.list[0].shards {
		held += len(l.list[0].shards[i].due)
	}
	if held > shards*most || admitted > shards*most+shards {
		t.Errorf("%d clients held, %d admitted", held, admitted)
	}
	if ok, _, _ := l.Admits(known, time.Second); ok {
		t.Error("who was there is forgotten")
	}
	if ok, _, _ := l.Admits(from("192.0.2.1", "/", "k: later"), 2*time.Hour); !ok {
		t.Error("the flood is never over")
	}
}

// Covers: C1-C10 response headers
func TestHeaders(t *testing.T) {
	h := NewHeaders([]snapshot.EdgeHeaders{
		{Paths: []string{"/*"}, Set: map[string]string{"B": "2", "A": "1"}, Remove: []string{"Server"}},
		{Paths: []string{"/x/*"}, Set: map[string]string{"A": "3"}},
	})
	var got []string
	for _, c := range h.AppendTo(nil, from("192.0.2.1", "/x/y")) {
		got = append(got, fmt.Sprintf("%d %s=%s", c.Operation, c.Name, c.Value))
	}
	if want := []string{"2 Server=", "0 A=1", "0 B=2", "0 A=3"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if n := len(h.AppendTo(nil, from("192.0.2.1", "/x"))); n != 3 {
		t.Errorf("%d changes", n)
	}
}

// Asking allocates nothing for a client that is known.
func TestAllocatesNothing(t *testing.T) {
	a := NewAccess([]snapshot.EdgeAccess{{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, {UserAgents: []string{"x"}, Referers: []string{"y"}}})
	l := NewLimits([]snapshot.EdgeLimit{{Paths: []string{"/*"}, Requests: 1 << 30, Per: time.Second, Burst: 1 << 30}}, nil)
	r := from("192.0.2.1", "/x")
	r.Header = nil
	l.Admits(r, time.Second)
	if n := testing.AllocsPerRun(100, func() {
		a.Admits(r)
		l.Admits(r, time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

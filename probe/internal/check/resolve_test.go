package check

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"steerpoint/report"
)

// names is a resolver of one answer.
type names struct {
	network string // that must be asked for; "": ip
	want    string
	addrs   []string
	err     error
	hang    bool
}

func (n names) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if n.hang {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	if network != cmp.Or(n.network, "ip") || host != n.want {
		return nil, errors.New("asked for " + network + " " + host)
	}
	var addrs []netip.Addr
	for _, a := range n.addrs {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, n.err
}

// TestNamedTarget: a target that is a name is resolved by the point at every probe, and its addresses are taken in
// turn; the request still has the URL's host.
//
// Covers: decisions 1, field 30
func TestNamedTarget(t *testing.T) {
	p := serve(t, "127.0.0.1:0", answer(well))
	tk := task("http", p.addr)
	tk.Address = "Shop.CDN-vendor.example"
	g, err := NewTarget(&tk)
	if err != nil {
		t.Fatal(err)
	}
	resolver := names{want: "shop.cdn-vendor.example.", addrs: []string{"127.0.0.1", "::ffff:127.0.0.2", "127.0.0.3", "127.0.0.1"}}
	c := newChecker(Config{Resolver: resolver})
	var got []string
	for range 6 {
		o := c.Run(t.Context(), g)
		got = append(got, o.Address.Addr().String())
		if o.Phases.DNS <= 0 || o.Latency > o.Phases.Total-o.Phases.DNS {
			t.Errorf("resolving is in the latency: %+v", o)
		}
	}
	want := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	if !slices.Equal(got, append(want, want...)) {
		t.Errorf("addresses %v", got)
	}
}

// TestNameFailures: whatever keeps a name from resolving, within the probe's own timeout, has cause dns.
func TestNameFailures(t *testing.T) {
	const name = "shop.example."
	for _, row := range []struct {
		what     string
		resolver names
		cause    report.Cause
		detail   string
	}{
		{"no such name", names{want: name, err: &net.DNSError{Err: "no such host", IsNotFound: true}}, report.CauseDNS, "does not exist"},
		{"server failure", names{want: name, err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}, report.CauseDNS, "server misbehaving"},
		{"another error", names{want: name, err: errors.New("odd\x1b[2J")}, report.CauseDNS, "odd?[2J"},
		{"no address", names{want: name}, report.CauseDNS, "no address"},
		{"hangs", names{hang: true}, report.CauseDNS, "no answer from the resolver"},
	} {
		tk := task("tcp", netip.MustParseAddrPort("192.0.2.1:80"))
		if tk.Address = name; row.resolver.hang {
			tk.Timeout = short
		}
		o := run(t, newChecker(Config{Resolver: row.resolver}), tk)
		wantFailure(t, o, row.cause, row.detail)
		if o.Address.IsValid() || o.Phases.Connect != 0 {
			t.Errorf("%s: it connected: %+v", row.what, o)
		}
	}
}

// TestGuardAfterResolution: a name that leads to an address the point does not probe is not followed there; its other
// addresses are.
func TestGuardAfterResolution(t *testing.T) {
	p := serve(t, "127.0.0.1:0", hold)
	tk := task("tcp", p.addr)
	tk.Address = "rebind.example"
	for _, row := range []struct{ addrs, detail string }{
		{"127.0.0.1", "resolves to 127.0.0.1, a loopback address"},
		{"::ffff:127.0.0.1", "resolves to 127.0.0.1, a loopback address"},
		{"169.254.169.254", "a metadata address"},
	} {
		c := New(Config{Point: "local", Resolver: names{want: "rebind.example.", addrs: []string{row.addrs}}})
		wantFailure(t, run(t, c, tk), report.CauseDNS, row.detail)
	}
	if p.count() != 0 {
		t.Fatal("a refused address was connected to")
	}
	// A usable address beside a refused one: always that one. TEST-NET-1 answers nobody, or there is no route.
	c := New(Config{Point: "local", Resolver: names{want: "rebind.example.", addrs: []string{"127.0.0.1", "192.0.2.1"}}})
	tk.Timeout = time.Second
	g, err := NewTarget(&tk)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if o := c.Run(t.Context(), g); o.Address.Addr() != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("it went to %v", o.Address)
		}
	}
	literal := task("tcp", p.addr)
	wantFailure(t, run(t, New(Config{Point: "local"}), literal), report.CauseLocal, "loopback")
}

// starved is a resolver whose goroutine comes to run again only so long after the probe's deadline.
type starved time.Duration

func (s starved) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	<-ctx.Done()
	time.Sleep(time.Duration(s))
	return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
}

// TestTimeOutNoticedLate: a point whose process does not get to run sees time-outs everywhere. One noticed long after
// its deadline is the point's trouble and no vote; one noticed in time is the target's.
//
// Covers: A7, decisions 1
func TestTimeOutNoticedLate(t *testing.T) {
	for _, row := range []struct {
		after time.Duration
		cause report.Cause
		part  string
	}{
		{tooLate, report.CauseDNS, "no answer from the resolver"},
		{tooLate + 100*time.Millisecond, report.CauseLocal, "too busy to probe: the time-out of 2s was noticed 600ms late"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tk := task("tcp", netip.MustParseAddrPort("192.0.2.1:80"))
			tk.Address, tk.Timeout = "shop.example", 2*time.Second
			c := New(Config{Point: "local", Resolver: starved(row.after)})
			wantFailure(t, run(t, c, tk), row.cause, row.part)
		})
	}
}

// TestFamilyNotHere: of a name with both families only the one this machine has is probed; a literal of a missing
// family, or anything without a route to anywhere, is the point's trouble and no vote.
func TestFamilyNotHere(t *testing.T) {
	p := serve(t, "127.0.0.1:0", hold)
	tk := task("tcp", p.addr)
	tk.Address = "both.example"
	c := newChecker(Config{Resolver: names{want: "both.example.", addrs: []string{"127.0.0.1", "2001:db8::1"}}})
	c.routed = netip.Addr.Is4
	g, err := NewTarget(&tk)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if o := c.Run(t.Context(), g); !o.OK {
			t.Errorf("got %+v", o)
		}
	}
}

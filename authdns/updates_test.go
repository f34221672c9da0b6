package authdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/internal/dnsupdate"
	"steerpoint/report"
)

// keeper is what a name server hands updates to.
type keeper struct {
	mu     sync.Mutex
	got    []report.Update
	answer func(ctx context.Context, u report.Update) (report.UpdateResult, error)
}

func (k *keeper) take(ctx context.Context, u report.Update) (report.UpdateResult, error) {
	k.mu.Lock()
	k.got = append(k.got, u)
	answer := k.answer
	k.mu.Unlock()
	if answer == nil {
		return report.UpdateResult{}, nil
	}
	return answer(ctx, u)
}

func (k *keeper) taken() []report.Update {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]report.Update{}, k.got...)
}

func update(zone string, values ...string) *dns.Msg {
	m := new(dns.Msg).SetUpdate(zone)
	for _, v := range values {
		m.Insert([]dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "_acme-challenge." + zone, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{v}}})
	}
	return m
}

// TestUpdates: a signed update is handed on with its key and sender, over UDP and TCP, and answered with what became of it,
// signed; what is not signed, or not by a key of that zone, is handed to nobody.
//
// Covers: issue5 update, rfc 2136, rfc 8945
func TestUpdates(t *testing.T) {
	k := &keeper{}
	r := start(t, Config{updateWait: patience, Updates: k.take, DoT: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, xferMap(t, 20))
	client := func(network string) *dns.Client {
		return withKey(&dns.Client{Net: network, TLSConfig: trusting("dot")})
	}
	for i, row := range []struct {
		network string
		result  report.UpdateResult
		err     error
		want    int
	}{
		{"udp", report.UpdateResult{}, nil, dns.RcodeSuccess},
		{"tcp", report.UpdateResult{}, nil, dns.RcodeSuccess},
		{"tcp-tls", report.UpdateResult{}, nil, dns.RcodeSuccess},
		{"udp", report.UpdateResult{Rcode: dns.RcodeYXRrset, Reason: "there is one"}, nil, dns.RcodeYXRrset},
		{"tcp", report.UpdateResult{Rcode: dns.RcodeRefused}, nil, dns.RcodeRefused},
		{"udp", report.UpdateResult{Rcode: 4000}, nil, dns.RcodeServerFailure},
		{"udp", report.UpdateResult{}, errors.New("control is away"), dns.RcodeServerFailure},
	} {
		k.mu.Lock()
		k.answer = func(context.Context, report.Update) (report.UpdateResult, error) { return row.result, row.err }
		k.mu.Unlock()
		addr := r.addr
		if row.network == "tcp-tls" {
			addr = r.DoT()[0].String()
		}
		in, _, err := client(row.network).Exchange(withTSIG(update(childName, "a", "b")), addr)
		if err != nil || in.Rcode != row.want || in.IsTsig() == nil || in.Opcode != dns.OpcodeUpdate {
			t.Fatalf("row %d: %v, %v", i, in, err)
		}
		got := k.taken()
		u := got[len(got)-1]
		if len(got) != i+1 || u.Zone != childName || u.Key != xferKey || u.Client != "127.0.0.1" {
			t.Fatalf("row %d: handed on was %+v", i, got)
		}
		if parsed, err := dnsupdate.Parse(u.Message); err != nil || parsed.Zone != childName {
			t.Errorf("row %d: the message handed on is none: %v", i, err)
		}
	}
	n := len(k.taken())
	for what, m := range map[string]*dns.Msg{
		"not signed": update(childName, "x"), "another zone of ours": withTSIG(update("example.com.", "x")),
		"a name in the zone": withTSIG(update("deep."+childName, "x")),
	} {
		in, _, err := client("udp").Exchange(m, r.addr)
		if errors.Is(err, dns.ErrAuth) { // what the library makes of NOTAUTH
			continue
		}
		if err != nil {
			t.Fatal(what, err)
		}
		if in.Rcode != dns.RcodeRefused && in.Rcode != dns.RcodeNotAuth {
			t.Errorf("%s: %v", what, in)
		}
	}
	odd := update(childName, "x")
	odd.Question[0].Qtype = dns.TypeA
	if in, _, err := client("tcp").Exchange(withTSIG(odd), r.addr); err != nil || in.Rcode != dns.RcodeFormatError {
		t.Errorf("a zone by type A: %v, %v", in, err)
	}
	if got := len(k.taken()); got != n {
		t.Errorf("%d updates were handed on that nobody may send", got-n)
	}
	eventually(t, "the metrics", func() bool {
		return r.metric(t, "steer_authdns_updates_total", "rcode=NOERROR") == 3 &&
			r.metric(t, "steer_authdns_queries_total", "rcode=YXRRSET", "transport=udp") == 1
	})
}

// TestUpdateHoldsUpNobody: while an update waits, its sender's other questions are answered, on its connection and over UDP, and
// so are those of everybody; its answer comes when it is ready, also to who has nothing more to ask. A transfer that waits is
// no different.
//
// Covers: rfc 7766, issue5 out of order, issue5 update
func TestUpdateHoldsUpNobody(t *testing.T) {
	release := make(chan struct{})
	k := &keeper{answer: func(ctx context.Context, _ report.Update) (report.UpdateResult, error) {
		select {
		case <-release:
			return report.UpdateResult{}, nil
		case <-ctx.Done():
			return report.UpdateResult{}, ctx.Err()
		}
	}}
	r := start(t, Config{updateWait: patience, Updates: k.take, TCPTotal: 2, TCPPerClient: 10}, xferMap(t, 20, "a one"))
	signed := func(m *dns.Msg) []byte {
		b, _, err := dns.TsigGenerate(withTSIG(m), xferSecret, "", false)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	c := dialTCP(t, r.addr)
	m := update(childName, "x")
	m.Id = 1
	q := dnstest.Query("mail.example.com.", dns.TypeA)
	q.Id = 2
	x := new(dns.Msg).SetAxfr(childName)
	x.Id = 3
	var all []byte
	for _, b := range [][]byte{signed(m), dnstest.Pack(t, q), signed(x), dnstest.Pack(t, q)} {
		all = append(all, frame(b)...)
	}
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	seen := map[uint16]int{}
	for range 3 {
		seen[readTCP(t, c).Id]++
	}
	if seen[2] != 2 || seen[3] != 1 {
		t.Fatalf("answered were %v", seen)
	}
	over := dnsOverUDP(t, r.addr)
	if _, err := over.Write(signed(update(childName, "y"))); err != nil {
		t.Fatal(err)
	}
	if got := r.ask(t, "udp", dnstest.Query("mail.example.com.", dns.TypeA)); got.Rcode != dns.RcodeSuccess {
		t.Fatal(got)
	}
	// Its connection waits for an answer and not for a query: it gives way to nobody. Others do, as soon as they are idle.
	for range 3 {
		dialTCP(t, r.addr) // it asks nothing
		eventually(t, "a place for another connection", func() bool {
			_, _, err := (&dns.Client{Net: "tcp", Timeout: patience}).Exchange(q, r.addr)
			return err == nil
		})
	}
	if tc, is := c.(*net.TCPConn); is {
		if err := tc.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both updates to be under way", func() bool { return len(k.taken()) == 2 })
	close(release)
	if got := readTCP(t, c); got.Id != 1 || got.Rcode != dns.RcodeSuccess || got.Opcode != dns.OpcodeUpdate {
		t.Errorf("%v", got)
	}
	ended(t, c)
	b := make([]byte, 2048)
	if err := over.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	n, err := over.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := dnstest.Unpack(t, b[:n]); got.Rcode != dns.RcodeSuccess {
		t.Errorf("%v", got)
	}
}

func dnsOverUDP(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestUpdatesAreBounded: so many are under way, and so many a second of one key; what is beyond fails at once and is told so.
// When the server ends, those under way are answered.
//
// Covers: issue5 update bounds
func TestUpdatesAreBounded(t *testing.T) {
	k := &keeper{answer: func(ctx context.Context, _ report.Update) (report.UpdateResult, error) {
		<-ctx.Done()
		return report.UpdateResult{}, ctx.Err()
	}}
	r := start(t, Config{updateWait: patience, Updates: k.take}, xferMap(t, 20))
	failed, other := 0, 0
	sockets := make([]net.Conn, maxUpdates)
	for i := range sockets {
		sockets[i] = dnsOverUDP(t, r.addr)
		b, _, err := dns.TsigGenerate(withTSIG(update(childName, fmt.Sprint(i))), xferSecret, "", false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sockets[i].Write(b); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all places to be taken", func() bool { return len(k.taken()) == maxUpdates })
	for i := range updateBurst {
		in, _, err := withKey(&dns.Client{}).Exchange(withTSIG(update(childName, fmt.Sprint("more", i))), r.addr)
		if err != nil {
			t.Fatal(err)
		}
		if in.Rcode == dns.RcodeServerFailure {
			failed++
		} else {
			other++
		}
	}
	if failed != updateBurst || other != 0 {
		t.Errorf("%d failed, %d were answered otherwise", failed, other)
	}
	if got := len(k.taken()); got != maxUpdates {
		t.Errorf("%d were handed on, want %d", got, maxUpdates)
	}
	r.stop()
	for _, c := range sockets {
		b := make([]byte, 2048)
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(b)
		if err != nil || dnstest.Unpack(t, b[:n]).Rcode != dns.RcodeServerFailure {
			t.Fatalf("at the end: %v", err)
		}
	}
}

// TestUpdateShare: a key has its share of updates, whatever others do, and gets it back with time.
//
// Covers: issue5 update bounds
func TestUpdateShare(t *testing.T) {
	r := start(t, Config{}, xferMap(t, 20))
	u, now := r.updates, time.Now()
	count := func(key string, at time.Time) (n int) {
		for range 2 * updateBurst {
			if u.allow(childName, key, at) {
				n++
			}
		}
		return n
	}
	for i, row := range []struct {
		key  string
		at   time.Time
		want int
	}{
		{"a.", now, updateBurst},
		{"b.", now, updateBurst},
		{"a.", now, 0},
		{"a.", now.Add(3 * time.Second), 3 * updateRate},
		{"a.", now.Add(time.Second), 0},
		{"a.", now.Add(time.Hour), updateBurst},
	} {
		if got := count(row.key, row.at); got != row.want {
			t.Errorf("row %d: %d updates, want %d", i, got, row.want)
		}
	}
}

// TestUpdateOnAWildcard: a reply that comes later leaves from the address that was asked, as others do.
//
// Covers: issue5 update
func TestUpdateOnAWildcard(t *testing.T) {
	for listen, ask := range map[string]string{"0.0.0.0:0": "127.0.0.2", "[::]:0": "::1"} {
		k := &keeper{}
		r := start(t, Config{updateWait: patience, Updates: k.take, Listen: []netip.AddrPort{netip.MustParseAddrPort(listen)}}, xferMap(t, 20))
		addr := net.JoinHostPort(ask, fmt.Sprint(r.Addrs()[0].Port()))
		in, _, err := withKey(&dns.Client{}).Exchange(withTSIG(update(childName, "x")), addr)
		if err != nil || in.Rcode != dns.RcodeSuccess {
			t.Errorf("%s: %v, %v", listen, in, err)
		}
	}
}

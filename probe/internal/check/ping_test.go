package check

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"steerpoint/report"
	"steerpoint/snapshot"
)

func pingTask(address string) snapshot.ProbeTask {
	return snapshot.ProbeTask{ID: "t", Kind: snapshot.KindICMP, Address: address, Interval: plenty, Timeout: plenty}
}

// TestPingLoopback: the kernel itself answers, in both families, over every kind of socket this process may open.
//
// Covers: issue4 probe icmp
func TestPingLoopback(t *testing.T) {
	open := 0
	for name, socket := range map[string]func(netip.Addr) (pinger, error){"ping": pingSocket, "raw": rawSocket} {
		for _, address := range []string{"127.0.0.1", "::1"} {
			if l, err := net.ListenPacket("udp", net.JoinHostPort(address, "0")); err != nil {
				t.Logf("no %s here: %v", address, err)
				continue
			} else if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			conn, err := socket(netip.MustParseAddr(address))
			if err != nil {
				t.Logf("%s socket to %s: %v", name, address, err)
				continue
			}
			conn.Close()
			open++
			c := newChecker(Config{})
			c.pings = []func(netip.Addr) (pinger, error){socket}
			if o := run(t, c, pingTask(address)); !o.OK || o.Latency <= 0 || o.Latency != o.Phases.FirstByte || o.Address.Port() != 0 {
				t.Errorf("%s socket: got %+v", name, o)
			}
		}
	}
	if open == 0 {
		t.Skip("this process may send no ICMP: no group in net.ipv4.ping_group_range, and no CAP_NET_RAW")
	}
}

// TestPingForbidden: where neither kind of socket may be opened, the point says what to do and votes for nothing.
//
// Covers: issue4 probe icmp
func TestPingForbidden(t *testing.T) {
	var tried []string
	refuse := func(name string, errno syscall.Errno) func(netip.Addr) (pinger, error) {
		return func(netip.Addr) (pinger, error) {
			tried = append(tried, name)
			return nil, os.NewSyscallError("socket", errno)
		}
	}
	c := newChecker(Config{})
	c.pings = []func(netip.Addr) (pinger, error){refuse("ping", syscall.EACCES), refuse("raw", syscall.EPERM)}
	o := run(t, c, pingTask("127.0.0.1"))
	wantFailure(t, o, report.CauseLocal, "ping_group_range")
	if o.Counts() || len(tried) != 2 || tried[0] != "ping" {
		t.Errorf("got %+v after %v", o, tried)
	}
	c.pings = []func(netip.Addr) (pinger, error){refuse("ping", syscall.EMFILE)}
	wantFailure(t, run(t, c, pingTask("127.0.0.1")), report.CauseLocal, "file descriptor")
}

// wirePing is a socket on which the test answers.
type wirePing struct {
	answers func(sent []byte) []heardPing
	next    []heardPing
	failure error
}

type heardPing struct {
	from string
	b    []byte
}

func (w *wirePing) Write(b []byte) (int, error) {
	w.next = w.answers(b)
	return len(b), nil
}

func (w *wirePing) ReadFromAddr(b []byte) (int, netip.Addr, error) {
	if len(w.next) == 0 {
		return 0, netip.Addr{}, w.failure
	}
	h := w.next[0]
	w.next = w.next[1:]
	return copy(b, h.b), netip.MustParseAddr(h.from), nil
}

// rawPing is a wirePing that hears what a raw socket does.
type rawPing struct{ *wirePing }

func (rawPing) raw() {}

// TestPingRaw: a raw socket hears all that the peer sends to this machine. However many requests, replies to others and
// messages of other kinds those are, none is a wrong answer.
//
// Covers: issue4 probe icmp
func TestPingRaw(t *testing.T) {
	answers := func(sent []byte) []heardPing {
		m, err := icmp.ParseMessage(protocolICMP, sent)
		if err != nil {
			t.Fatal(err)
		}
		message := func(kind ipv4.ICMPType, id int) heardPing {
			echo := *m.Body.(*icmp.Echo)
			echo.ID ^= id
			b, err := (&icmp.Message{Type: kind, Body: &echo}).Marshal(nil)
			if err != nil {
				t.Fatal(err)
			}
			return heardPing{"192.0.2.1", b}
		}
		heard := []heardPing{{"192.0.2.1", sent}, {"192.0.2.1", []byte{3, 1}}}
		for range 2 * wrongLimit {
			heard = append(heard, message(ipv4.ICMPTypeEchoReply, 1), message(ipv4.ICMPTypeTimestamp, 0))
		}
		return append(heard, message(ipv4.ICMPTypeEchoReply, 0))
	}
	c := newChecker(Config{})
	c.pings = []func(netip.Addr) (pinger, error){func(netip.Addr) (pinger, error) {
		return rawPing{&wirePing{answers: answers, failure: os.ErrDeadlineExceeded}}, nil
	}}
	if o := run(t, c, pingTask("192.0.2.1")); !o.OK || o.Detail != "" {
		t.Errorf("got %+v", o)
	}
}

func (w *wirePing) SetDeadline(time.Time) error { return nil }
func (w *wirePing) Close() error                { return nil }

// TestPingReplies: only the reply to this very request counts; that of another machine is not even a wrong one.
func TestPingReplies(t *testing.T) {
	reply := func(sent []byte, change func(*icmp.Echo)) []byte {
		m, err := icmp.ParseMessage(protocolICMP, sent)
		if err != nil {
			t.Fatal(err)
		}
		echo := m.Body.(*icmp.Echo)
		change(echo)
		b, err := (&icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: echo}).Marshal(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	same := func(*icmp.Echo) {}
	for _, row := range []struct {
		name    string
		answers func(sent []byte) []heardPing
		failure error
		cause   report.Cause
		detail  string
	}{
		{name: "ok", answers: func(s []byte) []heardPing { return []heardPing{{"192.0.2.1", reply(s, same)}} }},
		{name: "other ID", answers: func(s []byte) []heardPing {
			return []heardPing{{"192.0.2.1", reply(s, func(e *icmp.Echo) { e.ID++ })}} // a ping socket's own
		}},
		{name: "stranger", answers: func(s []byte) []heardPing { return []heardPing{{"192.0.2.2", reply(s, same)}} }, failure: os.ErrDeadlineExceeded, cause: report.CauseTimeout, detail: "waiting for the answer"},
		{name: "request, garbage, other payload", answers: func(s []byte) []heardPing {
			return []heardPing{{"192.0.2.1", s}, {"192.0.2.1", []byte{0}}, {"192.0.2.1", reply(s, func(e *icmp.Echo) { e.Data = e.Data[1:] })}}
		}, failure: os.ErrDeadlineExceeded, cause: report.CauseTimeout, detail: "3 wrong answers were ignored"},
		{name: "unreachable", answers: func([]byte) []heardPing { return nil }, failure: os.NewSyscallError("recvfrom", syscall.EHOSTUNREACH), cause: report.CauseUnreachable, detail: "no way to"},
		{name: "does not take it", answers: func([]byte) []heardPing { return nil }, failure: os.NewSyscallError("recvfrom", syscall.ECONNREFUSED), cause: report.CauseRefused, detail: "192.0.2.1 does not take ICMP echo"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newChecker(Config{})
			c.routed = func(netip.Addr) bool { return true }
			c.pings = []func(netip.Addr) (pinger, error){func(netip.Addr) (pinger, error) {
				return &wirePing{answers: row.answers, failure: row.failure}, nil
			}}
			o := run(t, c, pingTask("192.0.2.1"))
			if row.cause != "" {
				wantFailure(t, o, row.cause, row.detail)
			} else if !o.OK {
				t.Errorf("got %+v", o)
			}
		})
	}
}

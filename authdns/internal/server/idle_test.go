package server

import (
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// idleClients opens connections that ask nothing, each of another client, and closes them with the test.
func idleClients(t *testing.T, n int, to netip.AddrPort) {
	t.Helper()
	for i := range n {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i))}}
		c, err := d.DialContext(t.Context(), "tcp", to.String())
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// memory is what this process has in use.
func memory() int64 {
	runtime.GC()
	runtime.GC() // stacks shrink by one, and are given back by the next
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// clients is how many connections a test with two ends in one process can have.
func clients(t *testing.T, want int) int {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	return min(want, int(l.Cur)/2-200)
}

// TestIdleConnections: thousands of connections that ask nothing cost little, and nobody waits for them.
//
// Covers: issue5 tcp, rfc 9210, rfc 7766 limits
func TestIdleConnections(t *testing.T) {
	n := 1500
	if os.Getenv("STEER_LONG") != "" {
		n = 10_000
	}
	n = clients(t, n)
	s := serve(t, 1, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Sockets: 1})
	s.conns.mu.Lock()
	s.conns.total = n + 10
	s.conns.mu.Unlock()
	before := memory()
	idleClients(t, n, s.Bound()[0])
	for s.conns.waiting() != n {
		time.Sleep(time.Millisecond)
	}
	// Both ends are in this process: what a connection costs the server is less than this.
	each := (memory() - before) / int64(n)
	t.Logf("%d idle connections: %d octets each, both ends together", n, each)
	if each > 12<<10 {
		t.Errorf("an idle connection costs %d octets", each)
	}
	c := connect(t, "tcp", s.Bound()[0])
	for id := range byte(50) {
		write(t, c, framed(message(id)))
		expect(t, c, framed(append(message(id), 1)))
	}
	u := connect(t, "udp", s.Bound()[0])
	write(t, u, message(9))
	expect(t, u, append(message(9), 1))
}

// TestHalfOpen: clients that stop in the middle of whatever they do hold nobody up: after a part of a length, of a query,
// with their half closed, and without reading.
//
// Covers: issue5 tcp, issue5 bad input, rfc 9210 half open
func TestHalfOpen(t *testing.T) {
	s := serve(t, 1, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Sockets: 1})
	for _, part := range [][]byte{nil, {0}, {0, headerLen}, {0, headerLen, 1, 2, 3}, framed(message(1))} {
		write(t, connect(t, "tcp", s.Bound()[0]), part)
	}
	// What was asked is answered to who says that it will ask no more (RFC 7766 section 6.2.4 lets either side close first).
	half := connect(t, "tcp", s.Bound()[0])
	write(t, half, append(framed(message(2)), framed(message(3))...))
	if err := half.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	expect(t, half, append(framed(append(message(2), 1)), framed(append(message(3), 1))...))
	if n, err := half.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d octets, %v after the end", n, err)
	}
	c := connect(t, "tcp", s.Bound()[0])
	write(t, c, framed(message(4)))
	expect(t, c, framed(append(message(4), 1)))
}

// TestLongBurst: queries longer than the buffer, and bursts of more than it holds, come and are answered whole.
//
// Covers: issue5 tcp
func TestLongBurst(t *testing.T) {
	s := serve(t, 1, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Sockets: 1})
	c := connect(t, "tcp", s.Bound()[0])
	var sent, want []byte
	for i := range 400 {
		msg := append(message(byte(i%90)), make([]byte, i*i%7000)...)
		sent = append(sent, framed(msg)...)
		want = append(want, framed(append(message(byte(i%90)), 1))...)
	}
	go func() { _, _ = c.Write(sent) }() // the replies say whether it went
	expect(t, c, want)
}

// several is a handler whose replies have as many messages as the second octet of the query says.
type several struct {
	marker
	left byte
}

func (h *several) Handle(reply, msg []byte, client netip.Addr, now time.Time) []byte {
	h.left = msg[1]
	return h.marker.Handle(reply, msg, client, now)
}

func (h *several) More(reply []byte) []byte {
	if h.left <= 1 {
		return reply
	}
	h.left--
	return append(append(reply, h.left), make([]byte, 1000)...)
}

// TestSeveralMessages: a reply of several messages goes out whole before the next one begins, in a burst too.
//
// Covers: issue5 tcp
func TestSeveralMessages(t *testing.T) {
	s := serve(t, 1, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Sockets: 1})
	s.sessions[TCP].init(func() Handler { return &several{marker: marker{mark: 1}} }) // nobody has connected yet
	var sent, want []byte
	for _, n := range []byte{1, 100, 2, 0} {
		msg := message(7)
		msg[1] = n
		sent = append(sent, framed(msg)...)
		want = append(want, framed(append(msg, 1))...)
		for left := n - 1; n > 0 && left > 0; left-- {
			want = append(want, framed(append([]byte{left}, make([]byte, 1000)...))...)
		}
	}
	c := connect(t, "tcp", s.Bound()[0])
	write(t, c, sent)
	expect(t, c, want)
}

// TestPathMTU: UDP replies are never marked against being fragmented, and what ICMP says of a path is not believed, on
// sockets of our own and on those handed over (RFC 9715).
//
// Covers: rfc 9715 socket
func TestPathMTU(t *testing.T) {
	for _, row := range []struct {
		addr          string
		level, option int
		want          int
	}{
		{"127.0.0.1:0", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT},
		{"0.0.0.0:0", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT},
		{"[::1]:0", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT},
	} {
		addr := netip.MustParseAddrPort(row.addr)
		own, err := listenUDP(t.Context(), addr, 1, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		given, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
		if err != nil {
			t.Fatal(err)
		}
		if err := adoptUDP(given, addr.Addr(), 1<<16); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*net.UDPConn{own[0], given} {
			raw, err := c.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			got := -1
			if err := control(raw, func(fd int) error { got, err = unix.GetsockoptInt(fd, row.level, row.option); return err }); err != nil || got != row.want {
				t.Errorf("%s: %d, %v; want %d", row.addr, got, err, row.want)
			}
			_ = c.Close()
		}
	}
}

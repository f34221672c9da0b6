package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/internal/inherit"
)

// patience is for a machine that is busy; nothing is asserted about how long things take.
const patience = time.Minute

// marker answers every message with its first octets and a mark of its own. A message that begins with slow is told to
// taken, and answered once the gate is closed.
type marker struct {
	mark  byte
	taken chan<- struct{}
	gate  <-chan struct{}
}

const slow = 99

func (m marker) Handle(reply, msg []byte, _ netip.Addr, _ time.Time) []byte {
	if msg[0] == slow {
		m.taken <- struct{}{}
		<-m.gate
	}
	return append(append(reply, msg[:headerLen]...), m.mark)
}

// serving is a server that runs.
type serving struct {
	*Server
	stop  func()        // asks it to end
	done  chan error    // of Serve
	taken chan struct{} // one for each slow message that is being answered
	gate  chan struct{}
}

func serve(t *testing.T, mark byte, cfg Config) *serving {
	t.Helper()
	cfg.ReadBuffer, cfg.TCPIdle, cfg.TCPMessage, cfg.TCPWrite, cfg.TCPTotal, cfg.TCPPerClient = 1<<16, patience, patience, patience, 10, 10
	none, taken, gate := func(string) {}, make(chan struct{}, 1), make(chan struct{})
	s, err := Listen(t.Context(), cfg, func(Transport) Handler { return marker{mark, taken, gate} }, Counters{
		TCPOpened: func() {}, TCPClosed: func() {}, TCPRefused: none, TCPEnded: none, UDPFailed: none,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &serving{Server: s, stop: cancel, done: make(chan error, 1), taken: taken, gate: gate}
	go func() { r.done <- s.Serve(ctx) }()
	t.Cleanup(cancel)
	return r
}

// end stops a server and waits for its end.
func (s *serving) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// handed are the sockets of a server as the next program gets them: by number, in its environment.
func handed(t *testing.T, s *Server) *inherit.Sockets {
	t.Helper()
	var list []string
	add := func(c syscall.Conn) {
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		own, dupErr := -1, error(nil)
		err = raw.Control(func(fd uintptr) { own, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
		if err = errors.Join(err, dupErr); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d=%s", own, Name)) // the descriptor is inherit's from now on
	}
	for _, c := range s.udp {
		own, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d=%s", own, Name))
	}
	for _, l := range s.tcp {
		add(l)
	}
	env := map[string]string{inherit.Variable: fmt.Sprintf("%d:%s", os.Getpid(), strings.Join(list, ","))}
	sockets, err := inherit.FromEnvironment(func(k string) string { return env[k] }, func(k string) error { delete(env, k); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return sockets
}

func message(id byte) []byte { return append([]byte{id}, make([]byte, headerLen-1)...) }

func framed(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}

func connect(t *testing.T, network string, to netip.AddrPort) net.Conn {
	t.Helper()
	c, err := net.Dial(network, to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s %s: %x, %v; want %x", c.RemoteAddr().Network(), c.RemoteAddr(), got, err, want)
	}
}

// TestTakesOver: what is asked between two servers is answered by the second, on every address and over UDP and TCP;
// all sockets that were there are served, however many it would have opened.
// Covers: issue3 upgrade
func TestTakesOver(t *testing.T) {
	listen := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("0.0.0.0:0")}
	if hasIPv6(t) {
		listen = append(listen, netip.MustParseAddrPort("[::1]:0"))
	}
	first := serve(t, 1, Config{Listen: listen, Sockets: 3})
	sockets := handed(t, first.Server)
	first.end(t)
	var clients []net.Conn
	for _, to := range first.Bound() {
		if to.Addr().IsUnspecified() { // any address of the machine
			to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), to.Port())
		}
		for id := range byte(10) { // from several ports, so that the kernel takes several sockets
			c := connect(t, "udp", to)
			write(t, c, message(id))
			clients = append(clients, c)
		}
		c := connect(t, "tcp", to)
		write(t, c, framed(message(10)))
		clients = append(clients, c)
	}
	second := serve(t, 2, Config{Listen: listen, Sockets: 1, Inherited: sockets})
	if got, want := fmt.Sprint(second.Bound(), len(second.udp)), fmt.Sprint(first.Bound(), 3*len(listen)); got != want {
		t.Errorf("serves %s, want %s", got, want)
	}
	if rest := sockets.Finish(); rest != nil {
		t.Errorf("%v were not taken", rest)
	}
	for i, c := range clients {
		want := append(message(byte(i%11)), 2)
		if i%11 == 10 {
			want = framed(want)
		}
		expect(t, c, want)
	}
	second.end(t)
	if err := sockets.Close(); err != nil {
		t.Error(err)
	}
}

// TestEndAnswersWhatCame: a query that has come when the server is to end is answered; a connection that asks nothing is
// closed.
// Covers: issue3 upgrade
func TestEndAnswersWhatCame(t *testing.T) {
	s := serve(t, 1, Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Sockets: 1})
	s.drainTime = patience // a slow machine shall not cut the conversation
	busy, idle := connect(t, "tcp", s.Bound()[0]), connect(t, "tcp", s.Bound()[0])
	for _, c := range []net.Conn{busy, idle} { // both are being served
		write(t, c, framed(message(1)))
		expect(t, c, framed(append(message(1), 1)))
	}
	write(t, busy, framed(message(slow)))
	select {
	case <-s.taken:
	case <-time.After(patience):
		t.Fatal("the query was not read")
	}
	s.stop()
	if n, err := idle.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the idle connection: %d octets, %v; want its end", n, err)
	}
	close(s.gate)
	expect(t, busy, framed(append(message(slow), 1)))
	if err := <-s.done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := s.tcp[0].Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the port is still bound: %v", err)
	}
}

// hasIPv6 reports whether this machine has the loopback address of IPv6: containers often have none.
func hasIPv6(t *testing.T) bool {
	t.Helper()
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Logf("nothing is tested over IPv6: %v", err)
		return false
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

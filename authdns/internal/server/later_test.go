package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// waiter answers messages that begin with slow when its gate is closed, and apart; all others at once.
type waiter struct {
	gate  <-chan struct{}
	under *atomic.Int32 // replies under way
	rest  Later
}

func (w *waiter) Handle(reply, msg []byte, _ netip.Addr, _ time.Time) []byte {
	if msg[0] != slow {
		return append(reply, msg[:headerLen]...)
	}
	own := append([]byte{}, msg[:headerLen]...)
	w.rest = func(send func([]byte) bool) {
		w.under.Add(1)
		defer w.under.Add(-1)
		<-w.gate
		for range 2 {
			if !send(own) {
				return
			}
		}
	}
	return reply
}

func (w *waiter) Later() Later {
	rest := w.rest
	w.rest = nil
	return rest
}

// waiting runs a server of waiters.
func waiting(t *testing.T) (s *Server, gate chan struct{}, under *atomic.Int32, end func()) {
	t.Helper()
	cfg := Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Sockets: 1}
	cfg.ReadBuffer, cfg.TCPIdle, cfg.TCPMessage, cfg.TCPWrite, cfg.TCPTotal, cfg.TCPPerClient = 1<<16, patience, patience, patience, 10, 10
	none, gate, under := func(string) {}, make(chan struct{}), new(atomic.Int32)
	s, err := Listen(t.Context(), cfg, func(Transport) Handler { return &waiter{gate: gate, under: under} }, Counters{
		TCPOpened: func() {}, TCPClosed: func() {}, TCPRefused: none, TCPEnded: none, UDPFailed: none,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return s, gate, under, end
}

// until polls until ok, for at most patience.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestLaterReplies: replies that wait are made apart, so many of a connection at once, and hold up nothing that was asked before
// so many; every one arrives whole, also when the client has nothing more to ask.
//
// Covers: rfc 7766, issue5 out of order
func TestLaterReplies(t *testing.T) {
	s, gate, under, _ := waiting(t)
	c := connect(t, "tcp", s.Bound()[0])
	for range maxLate { // quick ones between them
		write(t, c, framed(message(slow)))
		write(t, c, framed(message(1)))
	}
	for range maxLate {
		expect(t, c, framed(message(1)))
	}
	until(t, "all places to be taken", func() bool { return under.Load() == maxLate })
	write(t, c, framed(message(slow))) // one too many: it waits for a place
	write(t, c, framed(message(2)))
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[byte]int{}
	for one := len(framed(message(slow))); len(got) >= one; got = got[one:] {
		counts[got[lengthLen]]++
	}
	if counts[slow] != 2*(maxLate+1) || counts[2] != 1 || len(got) != 0 {
		t.Errorf("replies were %v, and %d octets more", counts, len(got))
	}
}

// TestLaterRepliesAtTheEnd: the server ends when replies that are under way are sent, over UDP too; a client that is gone holds
// up nothing.
//
// Covers: issue5 out of order
func TestLaterRepliesAtTheEnd(t *testing.T) {
	s, gate, under, end := waiting(t)
	gone, udp := connect(t, "tcp", s.Bound()[0]), connect(t, "udp", s.Bound()[0])
	write(t, gone, framed(message(slow)))
	write(t, udp, message(slow))
	until(t, "both to be under way", func() bool { return under.Load() == 2 })
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); end() }()
	close(gate)
	expect(t, udp, message(slow))
	<-stopped
	if n := under.Load(); n != 0 {
		t.Errorf("%d replies are still under way", n)
	}
}

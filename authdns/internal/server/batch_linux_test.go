package server

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// batchSocket is a UDP socket of the server's kind.
func batchSocket(t *testing.T, addr string) (s *udpSocket, port uint16) {
	t.Helper()
	conns, err := listenUDP(t.Context(), netip.MustParseAddrPort(addr), 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	port = conns[0].LocalAddr().(*net.UDPAddr).AddrPort().Port()
	if s, err = newUDPSocket(conns[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // may be closed already
	return s, port
}

// asker is a client that takes replies only from the address it asked.
func asker(t *testing.T, addr netip.Addr, port uint16) net.Conn {
	t.Helper()
	c, err := net.Dial("udp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func tell(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn) string {
	t.Helper()
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestBatch: packets of many clients, more than a batch holds, to several addresses of the machine: each reply goes to
// who asked, from the address that was asked; what is dropped is not answered, and what is too long is cut.
//
// Covers: A2, issue5 batch, rfc 2181 source
func TestBatch(t *testing.T) {
	for _, row := range []struct {
		name, listen string
		asked        []string
	}{
		{"IPv4", "127.0.0.1:0", []string{"127.0.0.1"}},
		{"every IPv4", "0.0.0.0:0", []string{"127.0.0.1", "127.0.0.9", "127.1.2.3"}},
		{"IPv6", "[::1]:0", []string{"::1"}},
		{"every IPv6", "[::]:0", []string{"::1"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if netip.MustParseAddr(row.asked[0]).Is6() && !hasIPv6(t) {
				t.Skip("this machine has no ::1")
			}
			server, port := batchSocket(t, row.listen)
			const clients, each = 6, 20
			var conns []net.Conn
			for i := range clients {
				conns = append(conns, asker(t, netip.MustParseAddr(row.asked[i%len(row.asked)]), port))
			}
			for n := range each {
				for i, c := range conns {
					tell(t, c, fmt.Sprintf("%d of %d", n, i))
				}
			}
			tell(t, conns[0], "drop")
			tell(t, conns[0], string(bytes.Repeat([]byte("x"), maxQuery+1)))
			b := newBatch(8)
			for seen := 0; seen < clients*each+2; seen += b.received {
				if _, err := b.receive(server); err != nil {
					t.Fatal(err)
				}
				for i := range b.received {
					msg, from := b.packet(i)
					if !from.IsLoopback() || from.Is4In6() {
						t.Errorf("packet of %s", from)
					}
					if string(msg) == "drop" {
						b.reply(i, b.room())
						continue
					}
					b.reply(i, fmt.Appendf(b.room(), "%.9s, %d octets", msg, len(msg)))
				}
				if failed := b.send(server); failed > 0 {
					t.Errorf("%d replies were not sent", failed)
				}
			}
			for i, c := range conns {
				for n := range each {
					text := fmt.Sprintf("%d of %d", n, i)
					if got, want := hear(t, c), fmt.Sprintf("%s, %d octets", text, len(text)); got != want {
						t.Errorf("client %d got %q, want %q", i, got, want)
					}
				}
			}
			if got, want := hear(t, conns[0]), fmt.Sprintf("xxxxxxxxx, %d octets", maxQuery); got != want {
				t.Errorf("too long: %q, want %q", got, want)
			}
		})
	}
}

// TestBatchSkipsWhatCannotBeSent: a reply that the kernel refuses costs no other one its way.
//
// Covers: A2, issue5 batch
func TestBatchSkipsWhatCannotBeSent(t *testing.T) {
	server, port := batchSocket(t, "127.0.0.1:0")
	c := asker(t, netip.MustParseAddr("127.0.0.1"), port)
	const packets = 6
	for i := range packets {
		tell(t, c, fmt.Sprint(i))
	}
	b := newBatch(packets)
	for seen := 0; seen < packets; {
		if _, err := b.receive(server); err != nil {
			t.Fatal(err)
		}
		failing := 0
		for i := range b.received {
			msg, _ := b.packet(i)
			if n := seen + i; n == 0 || n == 3 || n == packets-1 {
				b.sources[i].Family = 77
				failing++
			}
			b.reply(i, append(b.room(), msg...))
		}
		if failed := b.send(server); failed != failing {
			t.Errorf("%d replies were not sent, want %d", failed, failing)
		}
		seen += b.received
	}
	for _, want := range []string{"1", "2", "4"} {
		if got := hear(t, c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestBatchEnds: a socket that is to stop takes no packet any more, though one waits, whoever has it next does; closing it
// under a reader waits for the reader.
//
// Covers: issue3 upgrade, issue5 batch
func TestBatchEnds(t *testing.T) {
	server, port := batchSocket(t, "127.0.0.1:0")
	c := asker(t, netip.MustParseAddr("127.0.0.1"), port)
	b := newBatch(4)
	tell(t, c, "waits")
	server.stop()
	if _, err := b.receive(server); !errors.Is(err, errStopped) || b.received != 0 {
		t.Errorf("%d packets, %v", b.received, err)
	}
	server.stopping.Store(false)
	if _, err := b.receive(server); err != nil || b.received != 1 {
		t.Fatalf("%d packets, %v", b.received, err)
	}
	if !server.begin() {
		t.Fatal("the socket is closed")
	}
	if err := server.Close(); err != nil || server.fd < 0 {
		t.Errorf("closed under its reader: %v", err)
	}
	b.reply(0, append(b.room(), "last"...))
	if failed := b.send(server); failed != 0 || hear(t, c) != "last" {
		t.Errorf("%d replies of the reader were not sent", failed)
	}
	if _, err := b.receive(server); !errors.Is(err, errStopped) {
		t.Errorf("receive after Close: %v", err)
	}
	if err := server.end(); err != nil || server.fd >= 0 {
		t.Errorf("the reader is gone, the socket open: %v", err)
	}
	if server.begin() || server.Close() != nil {
		t.Error("a closed socket is read, or cannot be closed again")
	}
}

// TestBatchWaits: a reader that waits is woken by a packet, and by the end within the time it looks.
//
// Covers: A2, issue5 batch
func TestBatchWaits(t *testing.T) {
	server, port := batchSocket(t, "127.0.0.1:0")
	c := asker(t, netip.MustParseAddr("127.0.0.1"), port)
	got := make(chan string)
	go func() {
		defer close(got)
		for b := newBatch(4); ; {
			if _, err := b.receive(server); err != nil {
				return
			}
			for i := range b.received {
				msg, _ := b.packet(i)
				got <- string(msg)
			}
		}
	}()
	for _, text := range []string{"one", "two"} {
		tell(t, c, text)
		if s := <-got; s != text {
			t.Errorf("got %q, want %q", s, text)
		}
	}
	server.stop()
	if s, open := <-got; open {
		t.Errorf("got %q after the end", s)
	}
}

// TestBatchAllocatesNothing: neither taking packets nor sending replies.
//
// Covers: A2, issue5 no allocation
func TestBatchAllocatesNothing(t *testing.T) {
	server, port := batchSocket(t, "0.0.0.0:0")
	c := asker(t, netip.MustParseAddr("127.0.0.1"), port)
	b, query, answer := newBatch(batchSize), []byte("query"), make([]byte, 16)
	if n := testing.AllocsPerRun(200, func() {
		for range 3 {
			if _, err := c.Write(query); err != nil {
				t.Fatal(err)
			}
		}
		for left := 3; left > 0; left -= b.received {
			if _, err := b.receive(server); err != nil {
				t.Fatal(err)
			}
			for i := range b.received {
				msg, _ := b.packet(i)
				b.reply(i, append(b.room(), msg...))
			}
			b.send(server)
		}
		for range 3 {
			if _, err := c.Read(answer); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

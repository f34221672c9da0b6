package dnsload_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/packaging/dnsload"
)

// serve answers with an address until the test ends, in order, except that it does with the nth query over UDP what spoil
// does.
func serve(t *testing.T, nth int, spoil func(m *dns.Msg) (send bool)) string {
	t.Helper()
	pc, l := listen(t)
	ready, done := make(chan struct{}), make(chan struct{})
	tcp := &dns.Server{Listener: l, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(reply(q)) // the load counts what does not come
	})}
	go func() { _ = tcp.ActivateAndServe() }() // ends with Shutdown
	go func() {
		defer close(done)
		answerUDP(pc, nth, spoil)
	}()
	<-ready
	t.Cleanup(func() {
		if err := errors.Join(tcp.Shutdown(), pc.Close()); err != nil {
			t.Error(err)
		}
		<-done
	})
	return pc.LocalAddr().String()
}

// listen takes a port that is free for UDP and TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for {
		pc, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp4", pc.LocalAddr().String())
		if err == nil {
			return pc, l
		}
		if !errors.Is(err, syscall.EADDRINUSE) || pc.Close() != nil {
			t.Fatal(err)
		}
	}
}

func answerUDP(pc net.PacketConn, nth int, spoil func(*dns.Msg) bool) {
	buf := make([]byte, 4096)
	for n := 1; ; n++ {
		size, from, err := pc.ReadFrom(buf)
		if err != nil {
			return
		}
		q := new(dns.Msg)
		if err := q.Unpack(buf[:size]); err != nil {
			continue
		}
		m := reply(q)
		if n == nth && !spoil(m) {
			continue
		}
		if b, err := m.Pack(); err == nil {
			_, _ = pc.WriteTo(b, from) // the load counts what does not come
		}
	}
}

func reply(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
	return m
}

// TestOneQueryShows: a single query that is lost or answered wrongly is told, and none when there is none.
// Covers: issue3 upgrade
func TestOneQueryShows(t *testing.T) {
	for _, row := range []struct {
		name     string
		nth      int
		spoil    func(*dns.Msg) bool
		patience time.Duration
		want     string
	}{
		{"nothing", 0, nil, time.Minute, ""},
		{"lost", 100, func(*dns.Msg) bool { return false }, 2 * time.Second, "was not answered"},
		{"wrong", 100, func(m *dns.Msg) bool { m.Answer = nil; return true }, time.Minute, "0 were lost and 1 answered wrongly"},
		{"of another", 100, func(m *dns.Msg) bool { m.Id++; return true }, time.Minute, "0 were lost and 1 answered wrongly"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, err := dnsload.Start(serve(t, row.nth, row.spoil), "www.example.com", "192.0.2.1", row.patience)
			if err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); l.Answered() < 300 && l.Err() == nil; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no answers")
				}
			}
			result, err := l.Stop()
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v; %+v; want %q", err, result, row.want)
			}
		})
	}
}

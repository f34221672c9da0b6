package check

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/report"
	"steerpoint/snapshot"
)

// nameServer is a real server on UDP and TCP of one port.
func nameServer(t *testing.T, handle dns.HandlerFunc) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", ownLoopback())
	if err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenPacket("udp", l.Addr().String())
	if err != nil {
		l.Close()
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{{Listener: l, Handler: handle}, {PacketConn: pc, Handler: handle}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		ended := make(chan struct{})
		go func() {
			s.ActivateAndServe() // ends with the test
			close(ended)
		}()
		<-started
		t.Cleanup(func() {
			s.Shutdown()
			<-ended
		})
	}
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func dnsTask(to netip.AddrPort, question string) snapshot.ProbeTask {
	return snapshot.ProbeTask{
		ID: "t", Kind: snapshot.KindDNS, Address: to.Addr().String(), Port: int(to.Port()), Interval: plenty, Timeout: plenty,
		URL: "dns://ns1.example.net/" + question,
	}
}

// answering gives records, or an rcode.
func answering(t *testing.T, rcode int, records ...string) dns.HandlerFunc {
	var rrs []dns.RR
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	return func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetRcode(q, rcode)
		m.Answer = rrs
		if size := q.IsEdns0(); w.LocalAddr().Network() == "udp" && size != nil {
			m.Truncate(int(size.UDPSize()))
		}
		w.WriteMsg(m)
	}
}

const wwwA = "www.example.com?type=A&rcode=NOERROR"

// TestDNS: answers of a real name server, judged by rcode and by the text of its records; a long one comes over TCP.
//
// Covers: issue4 probe dns
func TestDNS(t *testing.T) {
	var long []string
	for i := range 200 {
		long = append(long, "www.example.com. 60 IN A 192.0.2."+strconv.Itoa(i))
	}
	for _, row := range []struct {
		name, question, body string
		rcode                int
		records              []string
		cause                report.Cause
		detail               string
		tcp                  bool
	}{
		{name: "ok", question: wwwA, records: []string{"www.example.com. 60 IN A 192.0.2.1"}},
		{name: "no data is an answer", question: wwwA},
		{name: "other case", question: "WWW.Example.com?type=A&rcode=NOERROR", records: []string{"www.example.com. 60 IN A 192.0.2.1"}},
		{name: "text", question: wwwA, body: "192.0.2.1", records: []string{"www.example.com. 60 IN A 192.0.2.1"}},
		{name: "text of the whole record", question: wwwA, body: "www.example.com. IN A 192.0.2.1", records: []string{"WWW.example.com. 60 IN A 192.0.2.1"}},
		{name: "text of another type", question: "example.com?type=MX&rcode=NOERROR", body: "10 mx.example.com.", records: []string{"example.com. 60 IN MX 10 mx.example.com."}},
		{name: "text not there", question: wwwA, body: "192.0.2.2", records: []string{"www.example.com. 60 IN A 192.0.2.1"}, cause: report.CauseBody, detail: "none of the 1 records"},
		{name: "rcode", question: wwwA, rcode: dns.RcodeServerFailure, cause: report.CauseStatus, detail: "answered SERVFAIL, not NOERROR"},
		{name: "wanted rcode", question: "no.example.com?type=A&rcode=NXDOMAIN", rcode: dns.RcodeNameError},
		{name: "wanted rcode not given", question: "no.example.com?type=A&rcode=NXDOMAIN", cause: report.CauseStatus, detail: "answered NOERROR, not NXDOMAIN"},
		{name: "cut short", question: wwwA, body: "192.0.2.199", records: long, tcp: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			tk := dnsTask(nameServer(t, answering(t, row.rcode, row.records...)), row.question)
			tk.Body = row.body
			o := run(t, newChecker(Config{}), tk)
			if row.cause != "" {
				wantFailure(t, o, row.cause, row.detail)
				return
			}
			if !o.OK || o.Latency != o.Phases.Connect+o.Phases.FirstByte || o.Phases.FirstByte <= 0 || row.tcp != (o.Phases.Connect > 0) {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestDNSPeers: what is not the answer to the question is ignored over UDP and a failure over TCP; nothing a server
// sends makes a probe go on beyond its limits.
//
// Covers: issue4 probe dns
func TestDNSPeers(t *testing.T) {
	// reply is the right answer with something changed.
	reply := func(change func(*dns.Msg)) func(*net.UDPConn, netip.AddrPort, []byte) {
		return func(c *net.UDPConn, to netip.AddrPort, b []byte) {
			var q dns.Msg
			if q.Unpack(b) != nil {
				return
			}
			m := new(dns.Msg)
			m.SetReply(&q)
			change(m)
			if out, err := m.Pack(); err == nil {
				send(c, to, out)
			}
		}
	}
	for _, row := range []struct {
		name   string
		handle func(*net.UDPConn, netip.AddrPort, []byte)
		cause  report.Cause
		detail string
	}{
		{name: "other ID", handle: reply(func(m *dns.Msg) { m.Id++ }), cause: report.CauseTimeout, detail: "1 wrong answer was ignored"},
		{name: "other name", handle: reply(func(m *dns.Msg) { m.Question[0].Name = "a.example." }), cause: report.CauseTimeout, detail: "1 wrong answer"},
		{name: "other type", handle: reply(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }), cause: report.CauseTimeout, detail: "1 wrong answer"},
		{name: "a question", handle: reply(func(m *dns.Msg) { m.Response = false }), cause: report.CauseTimeout, detail: "1 wrong answer"},
		{name: "no question", handle: reply(func(m *dns.Msg) { m.Question = nil }), cause: report.CauseTimeout, detail: "1 wrong answer"},
		{name: "no question in an error", handle: reply(func(m *dns.Msg) { m.Question, m.Rcode = nil, dns.RcodeFormatError }), cause: report.CauseStatus, detail: "FORMERR"},
		{name: "garbage, then the answer", handle: func(c *net.UDPConn, to netip.AddrPort, b []byte) {
			send(c, to, []byte("SSH-2.0"))
			send(c, to, append(append([]byte{}, b[:2]...), strings.Repeat("\xc0", 500)...))
			reply(func(*dns.Msg) {})(c, to, b)
		}, detail: "2 wrong answers were ignored"},
		{name: "flood", handle: func(c *net.UDPConn, to netip.AddrPort, b []byte) {
			flood(c, to, b[:20])
		}, cause: report.CauseProtocol, detail: "256 datagrams"},
		{name: "cut short, and no TCP", handle: reply(func(m *dns.Msg) { m.Truncated = true }), cause: report.CauseRefused, detail: "refused the connection"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tk := dnsTask(serveUDP(t, ownLoopback(), row.handle), wwwA)
			if row.cause == report.CauseTimeout {
				wantFailure(t, runOut(t, newChecker(Config{}), tk, row.detail), row.cause, row.detail)
				return
			}
			o := run(t, newChecker(Config{}), tk)
			if row.cause != "" {
				wantFailure(t, o, row.cause, row.detail)
			} else if !o.OK || o.Detail != row.detail {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestDNSOverTCPPeers: a server that cut its answer short and then misbehaves over TCP.
func TestDNSOverTCPPeers(t *testing.T) {
	frame := func(b []byte) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...) }
	for _, row := range []struct {
		name   string
		handle func(net.Conn)
		cause  report.Cause
		detail string
	}{
		{name: "garbage", handle: func(c net.Conn) { c.Write(frame([]byte("HTTP/1.1 400 Bad Request"))); hold(c) }, cause: report.CauseProtocol, detail: "not the answer"},
		{name: "empty", handle: func(c net.Conn) { c.Write(frame(nil)); hold(c) }, cause: report.CauseProtocol, detail: "not the answer"},
		{name: "closes", handle: func(c net.Conn) { io.ReadFull(c, make([]byte, 20)) }, cause: report.CauseReset},
		{name: "breaks off", handle: func(c net.Conn) { c.Write([]byte{0xff, 0xff, 1}); c.(*net.TCPConn).CloseWrite(); hold(c) }, cause: report.CauseReset},
		{name: "silent", handle: hold, cause: report.CauseTimeout, detail: "over TCP"},
		{name: "drips", handle: func(c net.Conn) {
			for c.Write([]byte{0xff, 0xff}); ; time.Sleep(5 * time.Millisecond) {
				if _, err := c.Write([]byte{0}); err != nil {
					return
				}
			}
		}, cause: report.CauseTimeout, detail: "over TCP"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := serve(t, ownLoopback(), row.handle)
			serveUDP(t, p.addr.String(), func(c *net.UDPConn, to netip.AddrPort, b []byte) {
				b[2] |= 0x82 // QR and TC
				send(c, to, b)
			})
			tk := dnsTask(p.addr, wwwA)
			if row.cause == report.CauseTimeout {
				wantFailure(t, runOut(t, newChecker(Config{}), tk, row.detail), row.cause, row.detail)
				return
			}
			wantFailure(t, run(t, newChecker(Config{}), tk), row.cause, row.detail)
		})
	}
}

package authdns

import (
	"crypto/tls"
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
)

// recorded keeps what comes on a connection.
type recorded struct {
	net.Conn
	came []byte
}

func (c *recorded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.came = append(c.came, b[:n]...)
	return n, err
}

// TestReplyLeavesInOneWrite: length and message of a reply leave together. Every write of a server is a record of TLS, which can
// be counted; what is sent without TLS goes the same way.
//
// Covers: rfc 7766 one write
func TestReplyLeavesInOneWrite(t *testing.T) {
	r := start(t, Config{DoT: anyPort}, dnstest.Map(t))
	plain := dialTCP(t, r.DoT()[0].String())
	raw := &recorded{Conn: plain}
	cfg := trusting("dot")
	cfg.MaxVersion = tls.VersionTLS12 // nothing comes then behind the handshake but what is answered
	c := tls.Client(raw, cfg)
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		raw.came = nil
		q := dnstest.Query("plain.gslb.example.net.", dns.TypeA)
		if _, err := c.Write(frame(dnstest.Pack(t, q))); err != nil {
			t.Fatal(err)
		}
		if m := readTCP(t, c); m.Id != q.Id {
			t.Fatal(m)
		}
		if n := records(raw.came); n != 1 {
			t.Errorf("a reply came in %d records", n)
		}
	}
}

// records is the number of TLS records in what came (RFC 5246 section 6.2.1); -1: the last is not whole.
func records(b []byte) (n int) {
	for len(b) > 0 {
		if len(b) < 5 || len(b) < 5+int(binary.BigEndian.Uint16(b[3:])) {
			return -1
		}
		b = b[5+int(binary.BigEndian.Uint16(b[3:])):]
		n++
	}
	return n
}

// TestTransportsAreEqual: what fits is answered alike over UDP and TCP, whatever is asked; what does not is cut over UDP and
// whole over TCP.
//
// Covers: rfc 9210 equal, rfc 8482 one set, rfc 9715 early tc
func TestTransportsAreEqual(t *testing.T) {
	d := dnstest.Map(t)
	long := snapshot.DNSRecord{Name: "long.example.com.", Type: "TXT", TTL: time.Minute}
	for i := range 20 {
		long.Data = append(long.Data, strings.Repeat(string(rune('a'+i)), 100))
	}
	d.Zones[1].Records = append(d.Zones[1].Records, long)
	r := start(t, Config{}, d)
	for _, name := range []string{
		"shop.gslb.example.net.", "gslb.example.net.", "er.gslb.example.net.", "no.gslb.example.net.", "example.com.", "mail.example.com.",
		"alias.example.com.", "q.wild.example.com.", "child.example.com.", "example.org.", ".",
	} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeSOA, dns.TypeTXT, dns.TypeDS, dns.TypeANY, dns.TypeHTTPS, 65280} {
			q := dnstest.Query(name, qtype, dnstest.ECS("198.51.100.0/24"))
			udp, tcp := r.ask(t, "udp", q), r.ask(t, "tcp", q)
			if a, b := recordTexts(udp), recordTexts(tcp); !slices.Equal(a, b) || udp.Rcode != tcp.Rcode || udp.Authoritative != tcp.Authoritative || udp.Truncated {
				t.Errorf("%s %s: UDP %v, TCP %v", name, dns.TypeToString[qtype], udp, tcp)
			}
		}
	}
	q := dnstest.Query("long.example.com.", dns.TypeTXT)
	if m := r.ask(t, "udp", q); !m.Truncated || len(m.Answer) != 0 || m.IsEdns0() == nil {
		t.Errorf("UDP: %v", m)
	}
	if m := r.ask(t, "tcp", q); m.Truncated || len(m.Answer) != 20 {
		t.Errorf("TCP: %v", m)
	}
}

// recordTexts are the records of a reply, in order.
func recordTexts(m *dns.Msg) (list []string) {
	for _, rr := range slices.Concat(m.Answer, m.Ns, m.Extra) {
		if rr.Header().Rrtype != dns.TypeOPT {
			list = append(list, rr.String())
		}
	}
	slices.Sort(list)
	return list
}

// TestEncryptedServersAreNamed: a _dns name tells where its server is reached by DoT and DoH.
//
// Covers: rfc 9461 dohpath, rfc 9460 service mode
func TestEncryptedServersAreNamed(t *testing.T) {
	d := dnstest.Map(t)
	d.Zones[1].Records = append(d.Zones[1].Records, snapshot.DNSRecord{
		Name: "_dns.ns1.example.com.", Type: "SVCB", TTL: time.Minute,
		Data: []string{`1 ns1.example.com. dohpath="/dns-query{?dns}" alpn="h2,dot" port="853" mandatory="port,alpn"`},
	})
	m := start(t, Config{}, d).ask(t, "udp", dnstest.Query("_dns.ns1.example.com.", dns.TypeSVCB))
	if len(m.Answer) != 1 {
		t.Fatal(m)
	}
	var keys []uint16
	for _, v := range m.Answer[0].(*dns.SVCB).Value {
		keys = append(keys, uint16(v.Key()))
		if p, ok := v.(*dns.SVCBDoHPath); ok && p.Template != "/dns-query{?dns}" {
			t.Errorf("dohpath %q", p.Template)
		}
	}
	if !slices.Equal(keys, []uint16{0, 1, 3, 7}) { // mandatory, alpn, port, dohpath
		t.Errorf("parameters %v: want them in the order of their numbers", keys)
	}
}

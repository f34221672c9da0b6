package check

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"steerpoint/report"
	"steerpoint/snapshot"
)

const (
	// udpReply is what a server may send in one datagram (EDNS, RFC 6891): the size that fits everywhere since the DNS
	// flag day of 2020. What is larger comes over TCP.
	udpReply = 1232
	// dnsHeader is the length of a header (RFC 1035 section 4.1.1).
	dnsHeader = 12
)

// setDNS reads dns://host/name?type=A&rcode=NOERROR (the form of RFC 4501, with the rcode added).
func (g *Target) setDNS(t *snapshot.ProbeTask) error {
	u, err := g.parse(t)
	if err != nil {
		return err
	}
	name, q := strings.TrimPrefix(u.Path, "/"), u.Query()
	if _, ok := dns.IsDomainName(name); !ok || name == "" || strings.ContainsAny(name, "/\\ ") {
		return bad("url", "its path %q is not a name to ask for", u.Path)
	}
	qtype, ok := dns.StringToType[q.Get("type")]
	switch {
	case !ok, qtype == dns.TypeNone, qtype >= dns.TypeUNSPEC && qtype <= dns.TypeANY, qtype == dns.TypeOPT, qtype == dns.TypeReserved:
		return bad("url", "type %q is not one to ask for", q.Get("type"))
	case len(t.Body) > dns.MaxMsgSize:
		return bad("body", "%d bytes cannot be in an answer", len(t.Body))
	}
	if g.rcode, ok = dns.StringToRcode[q.Get("rcode")]; !ok || g.rcode > 0xF {
		return bad("url", "rcode %q is not one a server answers with", q.Get("rcode"))
	}
	g.question = dns.Question{Name: dns.Fqdn(strings.ToLower(name)), Qtype: qtype, Qclass: dns.ClassINET}
	return nil
}

// query asks over UDP, over TCP when the answer is cut short, and judges the answer. The question is one that
// recursive servers answer too.
func (p *probe) query(ctx context.Context) error {
	q := &dns.Msg{MsgHdr: dns.MsgHdr{Id: dns.Id(), RecursionDesired: true}, Question: []dns.Question{p.question}}
	q.SetEdns0(udpReply, false)
	wire, err := q.Pack()
	if err != nil {
		return failf(report.CauseLocal, "the question cannot be packed: %v", err)
	}
	reply, err := p.queryUDP(ctx, wire)
	if err == nil && reply.Truncated {
		reply, err = p.queryTCP(ctx, wire)
	}
	if err != nil {
		return err
	}
	return p.judgeReply(reply)
}

func (p *probe) queryUDP(ctx context.Context, wire []byte) (*dns.Msg, error) {
	conn, err := p.connect(ctx, "udp")
	if err != nil {
		return nil, err
	}
	defer conn.Close() // what could still come is not wanted
	defer p.bound(ctx, conn)()
	var reply *dns.Msg
	ignored, err := p.trade(conn, wire, make([]byte, 4096), func(answer []byte) bool {
		reply = p.answers(wire, answer)
		return reply != nil
	})
	if err != nil {
		return nil, err
	}
	p.roundTrip()
	if ignored > 0 {
		p.o.Detail = wrongAnswers(ignored)
	}
	return reply, nil
}

func (p *probe) queryTCP(ctx context.Context, wire []byte) (*dns.Msg, error) {
	conn, err := p.connect(ctx, "tcp")
	if err != nil {
		return nil, err
	}
	defer conn.Close() // everything was read that is wanted: its error says nothing
	defer p.bound(ctx, conn)()
	p.phase = "asking over TCP, because the answer over UDP was cut short"
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)); err != nil {
		return nil, err
	}
	reply, err := p.readTCP(conn, wire)
	if err != nil {
		return nil, err
	}
	p.o.Phases.FirstByte += p.lap()
	p.o.Latency = p.o.Phases.Connect + p.o.Phases.FirstByte
	return reply, nil
}

// readTCP reads one message behind its length (RFC 1035 section 4.2.2).
func (p *probe) readTCP(r io.Reader, wire []byte) (*dns.Msg, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	if reply := p.answers(wire, buf); reply != nil {
		return reply, nil
	}
	return nil, failf(report.CauseProtocol, "what came over TCP is not the answer to the question")
}

// answers is the answer as a message, if it is one to the question in wire: same ID, and the same question. A server
// that cannot read a question may leave it out of its error (RFC 1035 section 4.1.1).
func (p *probe) answers(wire, answer []byte) *dns.Msg {
	if len(answer) < dnsHeader || answer[0] != wire[0] || answer[1] != wire[1] {
		return nil
	}
	m := new(dns.Msg)
	if err := m.Unpack(answer); err != nil || !m.Response || m.Opcode != dns.OpcodeQuery {
		return nil
	}
	switch {
	case len(m.Question) == 0 && m.Rcode != dns.RcodeSuccess:
		return m
	case len(m.Question) != 1 || !strings.EqualFold(m.Question[0].Name, p.question.Name),
		m.Question[0].Qtype != p.question.Qtype, m.Question[0].Qclass != p.question.Qclass:
		return nil
	}
	return m
}

func (p *probe) judgeReply(m *dns.Msg) error {
	if m.Rcode != p.rcode {
		return failf(report.CauseStatus, "answered %s, not %s", rcodeName(m.Rcode), rcodeName(p.rcode))
	}
	if p.body == "" || slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return strings.Contains(recordText(rr), p.body) }) {
		return nil
	}
	return failf(report.CauseBody, "the expected text is in none of the %d records of the answer", len(m.Answer))
}

func rcodeName(code int) string {
	if s, ok := dns.RcodeToString[code]; ok {
		return s
	}
	return fmt.Sprintf("rcode %d", code)
}

// recordText is a record as in a zone file without its TTL, which counts down, and with single blanks:
// "www.example.com. IN A 192.0.2.1".
func recordText(rr dns.RR) string {
	h := rr.Header()
	data := strings.TrimPrefix(rr.String(), h.String())
	return fmt.Sprintf("%s %s %s %s", strings.ToLower(h.Name), dns.ClassToString[h.Class], dns.TypeToString[h.Rrtype],
		strings.Join(strings.Fields(data), " "))
}

package check

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"steerpoint/report"
)

// pinger is a socket for ICMP messages that is connected to one address. Read gives one message, without the header
// of IP, whoever sent it says from.
type pinger interface {
	Write(b []byte) (int, error)
	ReadFromAddr(b []byte) (n int, from netip.Addr, err error)
	SetDeadline(t time.Time) error
	Close() error
}

// pingPayload is what an echo request carries: unguessable, so that no one who does not see it can answer for the target.
const pingPayload = 16

// protocols of ICMP and ICMPv6, as icmp.ParseMessage wants them.
const (
	protocolICMP   = 1
	protocolICMPv6 = 58
)

// ping sends one echo request (RFC 792, RFC 4443 section 4) and waits for its reply.
func (p *probe) ping(ctx context.Context) error {
	p.phase = "opening a socket"
	conn, err := p.openPing()
	if err != nil {
		return err
	}
	defer conn.Close() // what could still come is not wanted
	defer p.bound(ctx, conn)()
	nonce := make([]byte, pingPayload)
	rand.Read(nonce) // never fails
	request, err := p.echoRequest(nonce)
	if err != nil {
		return failf(report.CauseLocal, "the echo request cannot be packed: %v", err)
	}
	p.mark = time.Now()
	ignored, err := p.trade(&fromPeer{conn, p.o.Address.Addr(), p.concerns(conn, request)}, request, make([]byte, 1500), func(answer []byte) bool {
		return p.isReply(answer, nonce)
	})
	if err != nil {
		return err
	}
	p.roundTrip()
	if ignored > 0 {
		p.o.Detail = wrongAnswers(ignored)
	}
	return nil
}

// openPing takes the first kind of socket that this process may open.
func (p *probe) openPing() (pinger, error) {
	for _, open := range p.pings {
		conn, err := open(p.o.Address.Addr())
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, errors.ErrUnsupported),
			errors.Is(err, syscall.EPROTONOSUPPORT), errors.Is(err, syscall.EPROTOTYPE):
		default:
			return nil, p.connectFailure(err)
		}
	}
	return nil, failf(report.CauseLocal, "this process may not send ICMP: set sysctl net.ipv4.ping_group_range='0 2147483647', or give it CAP_NET_RAW")
}

func (p *probe) echoRequest(nonce []byte) ([]byte, error) {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: int(binary.BigEndian.Uint16(nonce)), Seq: 1, Data: nonce}}
	if p.o.Address.Addr().Is6() {
		m.Type = ipv6.ICMPTypeEchoRequest // the kernel fills in the checksum (RFC 3542 section 3.1)
	}
	return m.Marshal(nil)
}

// isReply tells the reply by what it carries. The ID says nothing: for a socket without privileges the kernel writes
// its own.
func (p *probe) isReply(answer, nonce []byte) bool {
	proto, want := protocolICMP, icmp.Type(ipv4.ICMPTypeEchoReply)
	if p.o.Address.Addr().Is6() {
		proto, want = protocolICMPv6, ipv6.ICMPTypeEchoReply
	}
	m, err := icmp.ParseMessage(proto, answer)
	if err != nil || m.Type != want {
		return false
	}
	body, ok := m.Body.(*icmp.Echo)
	return ok && string(body.Data) == string(nonce)
}

// fromPeer leaves out what other machines send: a socket for ICMP hears them, however it is connected. A raw one also
// hears what the peer sends to every other program; that is no wrong answer of the target.
type fromPeer struct {
	pinger
	peer     netip.Addr
	concerns func(message []byte) bool
}

// Read reads the next message of the peer that concerns the request.
func (f *fromPeer) Read(b []byte) (int, error) {
	for {
		n, from, err := f.ReadFromAddr(b)
		if err != nil || from.Unmap().WithZone("") == f.peer.WithZone("") && f.concerns(b[:n]) {
			return n, err
		}
	}
}

// concerns tells what may be an answer to this request. A ping socket hears nothing else. A raw one hears all of ICMP:
// requests, the replies to other programs and to other probes of this one, and the neighbours of IPv6; a reply to this
// request has its ID.
func (p *probe) concerns(conn pinger, request []byte) func(message []byte) bool {
	if _, raw := conn.(interface{ raw() }); !raw {
		return func([]byte) bool { return true }
	}
	reply := byte(ipv4.ICMPTypeEchoReply)
	if p.o.Address.Addr().Is6() {
		reply = byte(ipv6.ICMPTypeEchoReply)
	}
	const id = 4 // of its two bytes in an echo message
	return func(m []byte) bool {
		return len(m) >= id+2 && m[0] == reply && string(m[id:id+2]) == string(request[id:id+2])
	}
}

// rawConn is a raw socket, for which a process needs CAP_NET_RAW.
type rawConn struct{ *net.IPConn }

// raw marks it as one that hears all messages.
func (rawConn) raw() {}

// ReadFromAddr reads one message.
func (c rawConn) ReadFromAddr(b []byte) (int, netip.Addr, error) {
	n, from, err := c.ReadFromIP(b) // which takes the header of IPv4 away
	if err != nil {
		return 0, netip.Addr{}, err
	}
	addr, _ := netip.AddrFromSlice(from.IP)
	return n, addr, nil
}

func rawSocket(to netip.Addr) (pinger, error) {
	network := "ip4:icmp"
	if to.Is6() {
		network = "ip6:ipv6-icmp"
	}
	conn, err := net.DialIP(network, nil, &net.IPAddr{IP: to.AsSlice(), Zone: to.Zone()})
	if err != nil {
		return nil, err
	}
	return rawConn{conn}, nil
}

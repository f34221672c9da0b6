package echo16

import (
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// batchSize is how many datagrams one system call takes: at 100,000 a second it saves nine calls of ten, and at one a
// second it costs nothing.
const batchSize = 64

// socket is one bound socket.
type socket struct {
	conn  *net.UDPConn
	local netip.AddrPort
	four  *ipv4.PacketConn // exactly one of four and six is set
	six   *ipv6.PacketConn
	// anyAddress: it is bound to every address, and each answer has to leave from the one that was asked.
	anyAddress bool
}

func newSocket(c *net.UDPConn, listen netip.Addr) (socket, error) {
	s := socket{conn: c, anyAddress: listen.IsUnspecified()}
	if a, ok := c.LocalAddr().(*net.UDPAddr); ok {
		s.local = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	}
	var err error
	if listen.Is4() {
		s.four = ipv4.NewPacketConn(c)
		if s.anyAddress {
			err = s.four.SetControlMessage(ipv4.FlagDst, true)
		}
	} else {
		s.six = ipv6.NewPacketConn(c)
		if s.anyAddress {
			err = s.six.SetControlMessage(ipv6.FlagDst, true)
		}
	}
	return s, err
}

// batch reads and writes many datagrams a call. Its memory is used again and again.
type batch struct {
	*socket
	in, out []ipv4.Message // both families have the same type
	wanted  int            // of out
}

func newBatch(s *socket) *batch {
	b := &batch{socket: s, in: make([]ipv4.Message, batchSize), out: make([]ipv4.Message, batchSize)}
	for i := range b.in {
		// One byte more than is answered, so that a longer one is known as such.
		b.in[i] = ipv4.Message{Buffers: [][]byte{make([]byte, Size+1)}, OOB: make([]byte, 128)}
		b.out[i].Buffers = make([][]byte, 1)
	}
	return b
}

func (b *batch) read() (int, error) {
	if b.four != nil {
		return b.four.ReadBatch(b.in, 0)
	}
	return b.six.ReadBatch(b.in, 0)
}

// answer takes those of the first n datagrams that admit lets pass.
func (b *batch) answer(n int, admit func(size int, from netip.AddrPort) bool) {
	b.wanted = 0
	for i := range n {
		m := &b.in[i]
		from, ok := m.Addr.(*net.UDPAddr)
		if !ok {
			continue
		}
		peer := from.AddrPort()
		if !admit(m.N, netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())) {
			continue
		}
		o := &b.out[b.wanted]
		o.Buffers[0], o.Addr, o.OOB = m.Buffers[0][:Size], m.Addr, b.source(m)
		b.wanted++
	}
}

// source makes an answer leave from the address that was asked; nil where the kernel cannot choose another.
func (b *batch) source(m *ipv4.Message) []byte {
	switch {
	case !b.anyAddress:
		return nil
	case b.four != nil:
		var c ipv4.ControlMessage
		if c.Parse(m.OOB[:m.NN]) != nil || c.Dst == nil {
			return nil
		}
		return (&ipv4.ControlMessage{Src: c.Dst}).Marshal()
	}
	var c ipv6.ControlMessage
	if c.Parse(m.OOB[:m.NN]) != nil || c.Dst == nil {
		return nil
	}
	return (&ipv6.ControlMessage{Src: c.Dst}).Marshal()
}

// write sends what answer took. An answer that cannot be sent is left: its asker asks again, or counts it as lost.
func (b *batch) write() (sent, failed int) {
	for rest := b.out[:b.wanted]; len(rest) > 0; {
		var n int
		var err error
		if b.four != nil {
			n, err = b.four.WriteBatch(rest, 0)
		} else {
			n, err = b.six.WriteBatch(rest, 0)
		}
		sent += max(n, 0)
		rest = rest[max(n, 0):]
		if err != nil && len(rest) > 0 { // of the first that was not sent
			failed++
			rest = rest[1:]
		}
	}
	return sent, failed
}

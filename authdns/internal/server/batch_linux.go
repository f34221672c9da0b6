package server

import (
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batch is a number of packets that are taken from a socket by one system call, and the replies that are sent by
// another: what answering costs under load is system calls. The netpoller waits for both, so a socket's deadline and
// end hold here too. A batch belongs to one goroutine and allocates nothing once made.
type batch struct {
	in, out  []mmsghdr
	queries  []byte // maxQuery for each packet
	sources  []unix.RawSockaddrInet6
	controls []byte // oobSize for each packet
	replies  []byte // of the whole batch, one after the other

	received int // packets of the last receive
	sending  int // replies made of them
	sent     int // of these, sent or given up
	errno    unix.Errno

	// Made once: a closure for each call would be an allocation for each call.
	recv, write func(fd uintptr) bool
}

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

func newBatch(size int) *batch {
	b := &batch{
		in: make([]mmsghdr, size), out: make([]mmsghdr, size),
		queries: make([]byte, size*maxQuery), sources: make([]unix.RawSockaddrInet6, size),
		controls: make([]byte, size*oobSize), replies: make([]byte, 0, size*maxReply),
	}
	iovs := make([]unix.Iovec, 2*size)
	for i := range size {
		query, control := b.queries[i*maxQuery:], b.controls[i*oobSize:]
		in, out := &b.in[i].hdr, &b.out[i].hdr
		in.Iov, out.Iov = &iovs[i], &iovs[size+i]
		in.Iov.Base = &query[0]
		in.Iov.SetLen(maxQuery)
		in.SetIovlen(1)
		out.SetIovlen(1)
		in.Name = (*byte)(unsafe.Pointer(&b.sources[i]))
		in.Control = &control[0]
	}
	b.recv, b.write = b.recvmmsg, b.sendmmsg
	return b
}

// receive waits for packets and takes what is there. The error is of the socket, and may be net.ErrClosed or
// os.ErrDeadlineExceeded.
func (b *batch) receive(raw syscall.RawConn) error {
	b.received, b.sending, b.sent = 0, 0, 0
	b.replies = b.replies[:0]
	if err := raw.Read(b.recv); err != nil {
		return err
	}
	if b.errno != 0 {
		return os.NewSyscallError("recvmmsg", b.errno)
	}
	return nil
}

func (b *batch) recvmmsg(fd uintptr) (done bool) {
	for i := range b.in { // the kernel wrote over them
		h := &b.in[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(oobSize)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.in[0])), uintptr(len(b.in)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		case 0:
			b.received = int(n)
		}
		b.errno = errno
		return true
	}
}

// packet is the i-th packet received and where it came from, an IPv4 address as such. It is valid until the next
// receive.
func (b *batch) packet(i int) (msg []byte, from netip.Addr) {
	at := i * maxQuery
	msg = b.queries[at : at+int(b.in[i].n)]
	if source := &b.sources[i]; source.Family == unix.AF_INET {
		return msg, netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(source)).Addr)
	}
	// The scope of a link-local address is not part of who asks; the reply goes by the kernel's own form of the address.
	return msg, netip.AddrFrom16(b.sources[i].Addr).Unmap()
}

// room is where the next reply is to be appended; at least maxReply octets are free.
func (b *batch) room() []byte {
	n := len(b.replies)
	return b.replies[n:n]
}

// reply is what was appended to room for the i-th packet; nothing: there is no reply to it.
func (b *batch) reply(i int, reply []byte) {
	if len(reply) == 0 {
		return
	}
	b.replies = b.replies[:len(b.replies)+len(reply)]
	in, out := &b.in[i].hdr, &b.out[b.sending].hdr
	out.Iov.Base = &reply[0]
	out.Iov.SetLen(len(reply))
	out.Name, out.Namelen = in.Name, in.Namelen
	control := replyFrom(b.controls[i*oobSize:][:in.Controllen])
	out.Control = nil
	if len(control) > 0 {
		out.Control = &control[0]
	}
	out.SetControllen(len(control))
	b.sending++
}

// send sends the replies and says how many could not be sent.
func (b *batch) send(raw syscall.RawConn) (failed int) {
	for b.sent < b.sending {
		if err := raw.Write(b.write); err != nil { // closed
			return failed + b.sending - b.sent
		}
		if b.errno != 0 { // it is of the first that was left; those behind it have their chance
			failed++
			b.sent++
		}
	}
	return failed
}

func (b *batch) sendmmsg(fd uintptr) (done bool) {
	left := b.out[b.sent:b.sending]
	for {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&left[0])), uintptr(len(left)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		case 0:
			b.sent += int(n)
		}
		b.errno = errno
		return true
	}
}

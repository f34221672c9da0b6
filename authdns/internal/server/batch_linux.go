package server

import (
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batch is a number of packets that are taken from a socket by one system call, and the replies that are sent by
// another: what answering costs under load is system calls. A batch belongs to one goroutine and allocates nothing once
// made.
//
// Calls that cannot wait are raw: the scheduler is not told of them. It would take the processor away from a goroutine
// whose call lasts 20 µs, which is what the sending of ten replies takes, and hand it to another thread.
type batch struct {
	in, out  []mmsghdr
	queries  []byte // querySpace for each packet
	sources  []unix.RawSockaddrInet6
	controls []byte // oobSize for each packet
	replies  []byte // of the whole batch, one after the other
	msgs     [][]byte

	gather   gather
	received int // packets of the last receive
	sending  int // replies made of them
	sent     int // of these, sent or given up
}

// querySpace is from one query to the next: not a power of two, or the first octets of all of them would lie in the same
// few lines of the cache.
const querySpace = maxQuery + 64

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

func newBatch(size int) *batch {
	b := &batch{
		in: make([]mmsghdr, size), out: make([]mmsghdr, size),
		queries: make([]byte, size*querySpace), sources: make([]unix.RawSockaddrInet6, size),
		controls: make([]byte, size*oobSize), replies: make([]byte, 0, size*maxReply),
		msgs: make([][]byte, 0, size),
	}
	iovs := make([]unix.Iovec, 2*size)
	for i := range size {
		query, control := b.queries[i*querySpace:], b.controls[i*oobSize:]
		in, out := &b.in[i].hdr, &b.out[i].hdr
		in.Iov, out.Iov = &iovs[i], &iovs[size+i]
		in.Iov.Base = &query[0]
		in.Iov.SetLen(maxQuery)
		in.SetIovlen(1)
		out.SetIovlen(1)
		in.Name = (*byte)(unsafe.Pointer(&b.sources[i]))
		in.Control = &control[0]
	}
	b.gather.gap = longGap
	b.received = size // so that reset sets all
	b.reset()
	return b
}

// reset makes ready for the next packets.
func (b *batch) reset() {
	for i := range b.received { // the kernel wrote over them
		h := &b.in[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(oobSize)
	}
	b.received, b.sending, b.sent = 0, 0, 0
	b.replies = b.replies[:0]
}

// receive waits for packets and takes what is there; it says when that was. The error is of the socket, or errStopped.
func (b *batch) receive(s *udpSocket) (now time.Time, err error) {
	full := b.received == len(b.in) // then more are there already
	b.reset()
	if !full && b.gather.dense() {
		b.gather.sleep()
	}
	for !s.stopping.Load() {
		n, errno := b.recvmmsg(s)
		switch errno {
		case 0:
			b.received = int(n)
			now = time.Now()
			b.gather.note(b.received, now)
			return now, nil
		case unix.EAGAIN: // nothing came in the time
			b.gather.pause()
		case unix.EINTR:
		default:
			return now, os.NewSyscallError("recvmmsg", errno)
		}
	}
	return now, errStopped
}

// recvmmsg takes what is there, or waits for it: while packets come one after the other for a moment and without telling the
// scheduler, otherwise for longer. The runtime looks every 20 µs for goroutines that are in a system call, and goes on looking
// for a while when it finds one; between packets that come in a row that would cost several times what they do.
func (b *batch) recvmmsg(s *udpSocket) (uintptr, unix.Errno) {
	if !b.gather.steady() {
		s.wait(waitTime)
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&b.in[0])), uintptr(len(b.in)), unix.MSG_WAITFORONE, 0, 0)
		return n, errno
	}
	s.wait(holdTime)
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&b.in[0])), uintptr(len(b.in)), unix.MSG_WAITFORONE, 0, 0)
	return n, errno
}

// packet is the i-th packet received and where it came from, an IPv4 address as such. It is valid until the next
// receive.
func (b *batch) packet(i int) (msg []byte, from netip.Addr) {
	at := i * querySpace
	msg = b.queries[at : at+int(b.in[i].n)]
	if source := &b.sources[i]; source.Family == unix.AF_INET {
		return msg, netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(source)).Addr)
	}
	// The scope of a link-local address is not part of who asks; the reply goes by the kernel's own form of the address.
	return msg, netip.AddrFrom16(b.sources[i].Addr).Unmap()
}

// messages are all packets received.
func (b *batch) messages() [][]byte {
	b.msgs = b.msgs[:0]
	for i := range b.received {
		at := i * querySpace
		b.msgs = append(b.msgs, b.queries[at:at+int(b.in[i].n)])
	}
	return b.msgs
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
func (b *batch) send(s *udpSocket) (failed int) {
	for b.sent < b.sending {
		left := b.out[b.sent:b.sending]
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&left[0])), uintptr(len(left)), unix.MSG_DONTWAIT, 0, 0)
		if errno == unix.EAGAIN { // the queue of the socket is full
			n, _, errno = unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&left[0])), uintptr(len(left)), 0, 0, 0)
		}
		switch errno {
		case 0:
			b.sent += int(n)
		case unix.EINTR:
		case unix.EAGAIN: // it stayed full: those behind would wait as long, each
			return failed + len(left)
		default: // it is of the first that was left; those behind it have their chance
			failed++
			b.sent++
		}
	}
	return failed
}

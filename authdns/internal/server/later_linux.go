package server

import (
	"bytes"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sender copies where the i-th packet came from.
func (b *batch) sender(i int) *sender {
	h := &b.in[i].hdr
	return &sender{
		name: b.sources[i], nameLen: h.Namelen,
		control: bytes.Clone(replyFrom(b.controls[i*oobSize:][:h.Controllen])),
	}
}

// sendTo sends one packet, beside the goroutine that reads the socket.
func (s *udpSocket) sendTo(msg []byte, to *sender) error {
	if len(msg) == 0 {
		return nil
	}
	iov := unix.Iovec{Base: &msg[0]}
	iov.SetLen(len(msg))
	h := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&to.name)), Namelen: to.nameLen, Iov: &iov}
	h.SetIovlen(1)
	if len(to.control) > 0 {
		h.Control = &to.control[0]
		h.SetControllen(len(to.control))
	}
	s.mu.Lock() // so that the descriptor is not closed meanwhile
	defer s.mu.Unlock()
	if s.fd < 0 {
		return net.ErrClosed
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&h)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("sendmsg", errno)
		}
	}
}

package server

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// errStopped ends the reading of a socket: the next packet is not ours.
var errStopped = errors.New("stopped")

const (
	// A thread that waits in the kernel does not see that the server is to end; it looks this often. It costs an idle socket
	// ten wake-ups a second, and an end of the server a tenth of a second.
	waitTime = 100 * time.Millisecond
	// holdTime is how long a thread that waits in the kernel may keep its processor from other goroutines. The kernel counts
	// in ticks, of up to 10 ms.
	holdTime = time.Millisecond
)

// udpSocket is a UDP socket that is read by blocking system calls. The netpoller, which every other socket waits with,
// costs a callback in the kernel for each packet and an epoll_wait and a turn of the scheduler for each batch: at DNS rates
// that is as much as the answers. The descriptor is closed only when nobody reads it, so that its number cannot become
// another file's under a reader.
type udpSocket struct {
	fd       int
	stopping atomic.Bool
	receives time.Duration // how long a receive waits

	mu             sync.Mutex
	reading, ended bool
}

// newUDPSocket takes over a socket; c is closed, whatever comes.
func newUDPSocket(c *net.UDPConn) (*udpSocket, error) {
	s := &udpSocket{fd: -1}
	raw, err := c.SyscallConn()
	if err == nil {
		err = control(raw, func(fd int) error {
			s.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
			return err
		})
	}
	// Closing takes it out of the netpoller; the copy stays bound.
	if err = errors.Join(err, c.Close()); err == nil {
		err = s.block()
	}
	if err != nil {
		return nil, fmt.Errorf("take socket over: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

// block makes system calls wait, for a bounded time. The mode belongs to the socket and not to the descriptor; who it is
// handed on to sets it as it needs it.
func (s *udpSocket) block() error {
	if err := unix.SetNonblock(s.fd, false); err != nil {
		return err
	}
	if err := s.setWait(waitTime); err != nil {
		return fmt.Errorf("SO_RCVTIMEO: %w", err)
	}
	t := unix.NsecToTimeval(waitTime.Nanoseconds())
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &t); err != nil {
		return fmt.Errorf("SO_SNDTIMEO: %w", err)
	}
	return nil
}

func (s *udpSocket) setWait(d time.Duration) error {
	t := unix.NsecToTimeval(d.Nanoseconds())
	s.receives = d
	return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t)
}

// wait says how long the next receives wait. Only the reader calls it.
func (s *udpSocket) wait(d time.Duration) {
	if s.receives != d {
		_ = s.setWait(d) // it worked before; if it does not now, the end of the server comes later
	}
}

// begin notes a reader, which calls end; false: the socket is closed.
func (s *udpSocket) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = !s.ended
	return s.reading
}

// end notes that the reader is gone.
func (s *udpSocket) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if s.ended {
		return s.release()
	}
	return nil
}

// stop has the reader take no packet any more, within waitTime.
func (s *udpSocket) stop() { s.stopping.Store(true) }

// Close closes the socket, at once or when its reader is gone. It may be called again.
func (s *udpSocket) Close() error {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.ended = true
	if s.reading {
		return nil
	}
	return s.release()
}

func (s *udpSocket) release() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return unix.Close(fd)
}

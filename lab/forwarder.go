//go:build linux

package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/lab/internal/wan"
)

// batch is how many packets of one host are taken before the others and those that are due have their turn.
const batch = 64

// forwarder moves packets between the hosts' devices. One thread does all of it and sleeps in epoll with a timer of
// nanoseconds: goroutines and Go's own timers would round each delay up to the next millisecond.
type forwarder struct {
	devices []int
	byAddr  map[netip.Addr]int
	mtu     int

	epoll, timer, wake int // descriptors
	armed              time.Duration
	buffers            [][]byte // to be used again

	mu  sync.Mutex
	net *wan.Net
}

// Numbers by which epoll tells what is ready; the hosts are counted from 0.
const (
	timerReady = -1
	wakeReady  = -2
)

func newForwarder(hosts []*host, cfg Config) (f *forwarder, err error) {
	f = &forwarder{byAddr: map[netip.Addr]int{}, mtu: cfg.MTU, net: wan.New(len(hosts), cfg.Seed)}
	if f.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if f.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, errors.Join(os.NewSyscallError("timerfd_create", err), f.close())
	}
	if f.wake, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, errors.Join(os.NewSyscallError("eventfd", err), f.close())
	}
	ready := map[int]int{f.timer: timerReady, f.wake: wakeReady}
	for i, h := range hosts {
		f.devices = append(f.devices, h.device)
		f.byAddr[h.addr4], f.byAddr[h.addr6] = i, i
		ready[h.device] = i
	}
	for fd, number := range ready {
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(number)}
		if err := unix.EpollCtl(f.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return nil, errors.Join(os.NewSyscallError("epoll_ctl", err), f.close())
		}
	}
	return f, nil
}

// close closes what newForwarder opened; the devices are the hosts'.
func (f *forwarder) close() error {
	var errs []error
	for _, fd := range []int{f.epoll, f.timer, f.wake} {
		if fd != 0 {
			errs = append(errs, os.NewSyscallError("close", unix.Close(fd)))
		}
	}
	return errors.Join(errs...)
}

// stop makes run return.
func (f *forwarder) stop() error {
	_, err := unix.Write(f.wake, binary.NativeEndian.AppendUint64(nil, 1))
	return os.NewSyscallError("write", err)
}

// run forwards until stop.
func (f *forwarder) run() error {
	events := make([]unix.EpollEvent, len(f.devices)+2)
	for {
		n, err := unix.EpollWait(f.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return errors.Join(os.NewSyscallError("epoll_wait", err), f.close())
		}
		for _, e := range events[:max(n, 0)] {
			switch number := int(e.Fd); number {
			case wakeReady:
				return f.close()
			case timerReady:
				f.armed = 0
				var expirations [8]byte
				_, _ = unix.Read(f.timer, expirations[:]) // so that it is not ready any more; how often it rang is no matter
			default:
				f.receive(number)
			}
		}
		if err := f.deliver(); err != nil {
			return errors.Join(err, f.close())
		}
	}
}

// receive takes what a host sent.
func (f *forwarder) receive(from int) {
	for range batch {
		b := f.buffer()
		n, err := unix.Read(f.devices[from], b)
		if err != nil { // nothing more; that a device is gone is no news to who closes it
			f.buffers = append(f.buffers, b)
			return
		}
		if !f.send(from, b[:n]) {
			f.buffers = append(f.buffers, b)
		}
	}
}

// send puts a packet on its way and reports whether it is. What goes to no host is dropped: the multicast of IPv6, above
// all, which looks for neighbours that the devices have no need of.
func (f *forwarder) send(from int, packet []byte) bool {
	dst, ok := wan.Destination(packet)
	if !ok {
		return false
	}
	to, ok := f.byAddr[dst]
	if !ok || to == from {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.net.Send(monotonic(), from, to, packet)
}

// deliver hands over what is due and sets the timer for what is not.
func (f *forwarder) deliver() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := monotonic()
	for {
		p, ok := f.net.Due(now)
		if !ok {
			break
		}
		// A host that takes no packet loses it, as it would from a real line.
		_, _ = unix.Write(f.devices[p.To], p.Data)
		f.buffers = append(f.buffers, p.Data[:cap(p.Data)])
	}
	due, ok := f.net.Next()
	if !ok || due == f.armed {
		return nil
	}
	f.armed = due
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(due.Nanoseconds())}
	if err := unix.TimerfdSettime(f.timer, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
		return fmt.Errorf("timer: %w", os.NewSyscallError("timerfd_settime", err))
	}
	return nil
}

func (f *forwarder) buffer() []byte {
	last := len(f.buffers) - 1
	if last < 0 {
		return make([]byte, f.mtu)
	}
	b := f.buffers[last]
	f.buffers = f.buffers[:last]
	return b
}

// monotonic is the clock of the timer. It cannot fail: every Linux has it.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}

func (f *forwarder) change(from, to int, change func(*Pair)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.net.Pair(from, to)
	change(&p)
	if err := p.Validate(); err != nil {
		return err
	}
	f.net.Set(from, to, p)
	return nil
}

func (f *forwarder) pair(from, to int) Pair {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.net.Pair(from, to)
}

func (f *forwarder) counts(from, to int) Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.net.Counts(from, to)
}

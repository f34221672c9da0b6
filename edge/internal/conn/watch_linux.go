package conn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watcher notices when the other side of a connection closes it or goes away, whatever the connection is used for
// meanwhile: a goroutine that waits for an origin does not read from its client. One epoll set does that for all, at the
// cost of one system call a connection. A side that only closes its sending half is taken to be gone, as NGINX takes it.
type Watcher struct {
	file *os.File // of the epoll set
	raw  syscall.RawConn

	mu    sync.Mutex
	last  uint64
	calls map[uint64]func()
}

// NewWatcher makes a watcher. It must be run.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll set: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Run can wait in the poller of the runtime
		return nil, errors.Join(fmt.Errorf("make epoll set: %w", err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "epoll")
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make epoll set: %w", err), f.Close())
	}
	return &Watcher{file: f, raw: raw, calls: map[uint64]func(){}}, nil
}

// Add calls gone, once, on the watcher's goroutine, when the other side of c has left. It must return soon. The ticket is
// for Remove, which must be called before c is closed.
func (w *Watcher) Add(c *Conn, gone func()) (ticket uint64, err error) {
	w.mu.Lock()
	w.last++
	ticket = w.last
	w.calls[ticket] = gone
	w.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(ticket), Pad: int32(ticket >> 32)}
	if err := w.control(c, &event); err != nil {
		w.Remove(ticket)
		return 0, fmt.Errorf("watch connection: %w", err)
	}
	return ticket, nil
}

func (w *Watcher) control(c *Conn, event *unix.EpollEvent) error {
	var added, inner error
	outer := w.raw.Control(func(set uintptr) {
		inner = c.sock.raw.Control(func(fd uintptr) {
			added = unix.EpollCtl(int(set), unix.EPOLL_CTL_ADD, int(fd), event)
		})
	})
	return errors.Join(outer, inner, added)
}

// Remove forgets a connection: its function is not called after that. The kernel forgets it when it is closed.
func (w *Watcher) Remove(ticket uint64) {
	w.mu.Lock()
	delete(w.calls, ticket)
	w.mu.Unlock()
}

// Close ends a watcher that was not run.
func (w *Watcher) Close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("close epoll set: %w", err)
	}
	return nil
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = w.file.Close() }) // which wakes it
	defer stop()
	events := make([]unix.EpollEvent, 64)
	for {
		n := 0
		var failed error
		err := w.raw.Read(func(fd uintptr) bool {
			n, failed = unix.EpollWait(int(fd), events, 0)
			return n > 0 || failed != nil && failed != unix.EINTR
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil || failed != nil:
			return fmt.Errorf("watch connections: %w", errors.Join(err, failed))
		}
		for _, e := range events[:n] {
			w.call(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32)
		}
	}
}

// call calls a function under the lock, so that none is called after Remove has returned.
func (w *Watcher) call(ticket uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone := w.calls[ticket]; gone != nil {
		delete(w.calls, ticket)
		gone()
	}
}

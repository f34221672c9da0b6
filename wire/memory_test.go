package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// memoryNet is a listener whose connections go through memory, and through a relay that can lose everything, as a
// firewall does that forgot the connection: nobody is told.
type memoryNet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	cut    atomic.Bool
}

func newMemoryNet() *memoryNet {
	return &memoryNet{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (n *memoryNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *memoryNet) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *memoryNet) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7072} }

func (n *memoryNet) dial(context.Context, string, string) (net.Conn, error) {
	node, nearRelay := net.Pipe()
	farRelay, server := net.Pipe()
	go n.relay(nearRelay, farRelay)
	go n.relay(farRelay, nearRelay)
	select {
	case n.conns <- server:
		return node, nil
	case <-n.closed:
		return nil, errors.Join(net.ErrClosed, node.Close(), nearRelay.Close(), server.Close(), farRelay.Close())
	}
}

// relay carries bytes one way until an end closes; after a cut the close is lost too.
func (n *memoryNet) relay(from, to net.Conn) {
	buf := make([]byte, 32*kib)
	for {
		got, err := from.Read(buf)
		if n.cut.Load() {
			if err != nil {
				_ = from.Close() // its own end is closed
				return
			}
			continue
		}
		if err == nil {
			_, err = to.Write(buf[:got])
		}
		if err != nil {
			_ = errors.Join(from.Close(), to.Close()) // pipes: closing them cannot fail
			return
		}
	}
}

func (n *memoryNet) client(t *testing.T, r *rig, name string) *Client {
	cert := pair(t, r.authority, name, []string{RoleDNS}, time.Now(), 24*time.Hour)
	return r.client(t, cert, func(c *ClientConfig) { c.Dial, c.Silence = n.dial, 0 })
}

// A stream on which nothing happens stays for hours by its keep-alives, which the node never sees.
//
// Covers: issue3 keep-alives
func TestQuietStreamStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		r := newRigOn(t, n, quiet(), nil)
		f := followDNS(t, n.client(t, r, "ns1"), 0)
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if len(f.updates) > 0 {
			t.Errorf("an update came: %+v", <-f.updates)
		}
		r.hub.PublishDNS(dnsMap(1, 1))
		synctest.Wait()
		if len(f.updates) != 1 {
			t.Error("the map did not come after six quiet hours")
		}
		if got := r.metric(t, "steer_wire_sent_frames_total"); got < 6*3600/5 {
			t.Errorf("%v frames were sent in six hours, want a keep-alive every 5 s", got)
		}
	})
}

// When the way is cut without a word, the node gives the stream up after three keep-alives, and control misses the node
// in less than 30 s.
//
// Covers: issue3 keep-alives, issue3 control away
func TestCutWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		r := newRigOn(t, n, quiet(), nil)
		f := followDNS(t, n.client(t, r, "ns1"), 0)
		time.Sleep(12 * time.Second) // the last keep-alive comes at 10 s
		synctest.Wait()
		n.cut.Store(true)
		cut := time.Now()
		if err := f.end(t); !errors.Is(err, ErrStreamEnded) {
			t.Errorf("error %v, want that the stream ended", err)
		}
		if d := time.Since(cut); d > 13*time.Second {
			t.Errorf("the node noticed after %s, want 13 s: 15 s after the last keep-alive", d)
		}
		r.control.await(t, "gone ns1 dns", 1)
		if d := time.Since(cut); d > 30*time.Second {
			t.Errorf("control noticed after %s", d)
		}
	})
}

// A node that takes its time over an update does not lose the stream by it.
//
// Covers: issue3 slow clients
func TestSlowTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		r := newRigOn(t, n, quiet(), nil)
		r.hub.PublishDNS(dnsMap(1, 1))
		taken := make(chan uint64, 10)
		f := startFollowing(t, func(ctx context.Context, take func(Update) error) error {
			return n.client(t, r, "ns1").FollowDNS(ctx, 0, func(u Update) error {
				time.Sleep(10 * time.Minute)
				if u.Full != nil {
					taken <- u.Full.Version
				} else {
					taken <- u.Delta.To
				}
				return take(u)
			})
		})
		time.Sleep(5 * time.Minute)
		for v := uint64(2); v <= 5; v++ {
			r.hub.PublishDNS(dnsMap(v, 1))
		}
		for last := uint64(0); last < 5; {
			select {
			case last = <-taken:
			case err := <-f.ended:
				f.ended <- err // for the clean-up
				t.Fatalf("the stream ended after version %d: %v", last, err)
			}
		}
	})
}

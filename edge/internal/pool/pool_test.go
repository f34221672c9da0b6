package pool

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server accepts connections and gives them to the test.
func server(t *testing.T) (addr string, accepted chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = make(chan net.Conn, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		close(accepted)
		for c := range accepted {
			_ = c.Close()
		}
	})
	return l.Addr().String(), accepted
}

func open(t *testing.T, cfg Config) (*Pool, *conn.Clock) {
	t.Helper()
	clock := conn.NewClock()
	p := New(cfg, clock, h1.NewPool())
	t.Cleanup(p.Close)
	return p, clock
}

func get(t *testing.T, p *Pool, clock *conn.Clock) *Conn {
	t.Helper()
	if u := p.Idle(clock.Now(), 0); u != nil {
		return u
	}
	u, err := p.Dial(context.Background(), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The connection used last is used next; those beyond the bound and those idle for too long are closed.
//
// Covers: issue6 proxy pool
func TestNewestFirst(t *testing.T) {
	addr, _ := server(t)
	p, clock := open(t, Config{Address: addr, MaxIdle: 2, IdleTimeout: time.Hour})
	a, b, c := get(t, p, clock), get(t, p, clock), get(t, p, clock)
	if n := p.Counts(); n != (Counts{Active: 3}) {
		t.Errorf("counts %+v", n)
	}
	for _, u := range []*Conn{a, b, c} {
		p.Put(u, clock.Now())
	}
	if n := p.Counts(); n != (Counts{Idle: 2}) {
		t.Errorf("counts %+v", n)
	}
	if got := get(t, p, clock); got != c || !got.Reused {
		t.Error("not the newest")
	}
	if got := get(t, p, clock); got != b {
		t.Error("not the second newest")
	} else {
		p.Put(got, clock.Now())
	}
	if u := p.Idle(clock.Now().Add(time.Minute), time.Second); u != nil {
		t.Error("one that was idle for longer than may be")
	}
	p.Trim(clock.Now().Add(time.Minute))
	if n := p.Counts(); n != (Counts{Active: 1, Idle: 1}) {
		t.Errorf("after a minute: counts %+v", n)
	}
	p.Trim(clock.Now().Add(2 * time.Hour))
	if n := p.Counts(); n != (Counts{Active: 1}) {
		t.Errorf("after two hours: counts %+v", n)
	}
	p.Drop(c)
	if n := p.Counts(); n != (Counts{}) {
		t.Errorf("at the end: counts %+v", n)
	}
}

// A connection on which something came that belongs to no response is not kept.
//
// Covers: issue6 proxy pool, issue6 smuggling
func TestUnaskedOctetsEndAConnection(t *testing.T) {
	addr, accepted := server(t)
	p, clock := open(t, Config{Address: addr})
	u := get(t, p, clock)
	k := <-accepted
	defer k.Close()
	if _, err := io.WriteString(k, "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n"); err != nil {
		t.Fatal(err)
	}
	var r h1.Response
	if err := u.Reader.Response(&r, false); err != nil {
		t.Fatal(err)
	}
	for u.Reader.Buffered() == 0 { // the rest of it may come later
		if _, err := u.Reader.Next(); err != nil && u.Reader.Await() != nil {
			t.Fatal(err)
		}
	}
	p.Put(u, clock.Now())
	if n := p.Counts(); n != (Counts{}) {
		t.Errorf("counts %+v", n)
	}
	if _, err := bufio.NewReader(k).ReadByte(); err == nil {
		t.Error("the connection is open still")
	}
}

// No more requests are let in than may be; the others wait in their order, as many as may, and as long.
//
// Covers: issue6 proxy pool
func TestRequestsTakeTurns(t *testing.T) {
	addr, _ := server(t)
	p, clock := open(t, Config{Address: addr, MaxActive: 1, MaxWaiting: 2})
	first := get(t, p, clock)
	if u := p.Idle(clock.Now(), 0); u != nil {
		t.Error("a second request was let in")
	}
	type turn struct {
		n   int
		u   *Conn
		err error
	}
	turns := make(chan turn, 3)
	wait := func(ctx context.Context, n int) {
		go func() {
			u, err := p.Dial(ctx, false, 0)
			turns <- turn{n, u, err}
		}()
		for p.Counts().Waiting < n {
			time.Sleep(time.Millisecond)
		}
	}
	gone, leave := context.WithCancel(context.Background())
	wait(gone, 1)
	wait(context.Background(), 2)
	if _, err := p.Dial(context.Background(), false, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("one more than may wait: %v", err)
	}
	leave()
	if got := <-turns; got.n != 1 || !errors.Is(got.err, context.Canceled) {
		t.Errorf("who left: %+v", got)
	}
	p.Put(first, clock.Now())
	got := <-turns
	if got.n != 2 || got.err != nil || got.u != first {
		t.Errorf("the next: %+v, want the connection that was given back", got)
	}
	p.Put(got.u, clock.Now())
	if n := p.Counts(); n != (Counts{Idle: 1}) {
		t.Errorf("counts %+v", n)
	}

	p, clock = open(t, Config{Address: addr, MaxActive: 1, MaxWaiting: 1, WaitTimeout: time.Millisecond})
	first = get(t, p, clock)
	if _, err := p.Dial(context.Background(), false, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("waited for too long: %v", err)
	}
	over, end := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer end()
	if _, err := p.Dial(over, false, 0); !errors.Is(err, ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("whose time was over while it waited: %v", err)
	}
	p.Drop(first)
}

// A pool whose origin is no more lets nobody in, and keeps nothing.
//
// Covers: issue6 proxy pool, issue6 reload
func TestClosedPools(t *testing.T) {
	addr, _ := server(t)
	p, clock := open(t, Config{Address: addr})
	a, b := get(t, p, clock), get(t, p, clock)
	p.Put(a, clock.Now())
	p.Close()
	p.Put(b, clock.Now())
	if n := p.Counts(); n != (Counts{}) {
		t.Errorf("counts %+v", n)
	}
	if _, err := p.Dial(context.Background(), false, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("dial: %v", err)
	}
	if p.Idle(clock.Now(), 0) != nil {
		t.Error("an idle connection")
	}
}

package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steerpoint/edge/internal/h1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// pair is a connection of ours and its other end.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	theirs, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(ours.(*net.TCPConn), NewClock(), h1.NewPool())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = theirs.Close() })
	return c, theirs.(*net.TCPConn)
}

func (c *Conn) now() Instant { return c.sock.clock.Now() }

// A limit that was moved on is not reached where it was before, and one that is reached is told as such.
//
// Covers: issue6 proxy limits
func TestLimitsThatMove(t *testing.T) {
	c, theirs := pair(t)
	p := make([]byte, 10)
	c.ReadBy(c.now().Add(time.Millisecond))
	if _, err := c.Read(p); !errors.Is(err, ErrTimeout) {
		t.Fatalf("read past its limit: %v", err)
	}
	// The limit armed in the system has passed. The next one holds all the same: none, and one far away.
	for _, d := range []time.Duration{0, time.Hour} {
		c.ReadBy(c.now().Add(d))
		got := make(chan error, 1)
		go func() { _, err := c.Read(p); got <- err }()
		if _, err := io.WriteString(theirs, "x"); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Errorf("read with a limit of %v: %v", d, err)
		}
		c.ReadBy(c.now().Add(time.Millisecond))
		if _, _, err := c.ReadLent(h1.NewPool(), h1.Small); !errors.Is(err, ErrTimeout) {
			t.Errorf("read past its limit: %v", err)
		}
	}
	c.WriteBy(c.now().Add(time.Millisecond))
	for big := make([]byte, 1<<20); ; {
		if _, err := c.Write(big); err != nil {
			if !errors.Is(err, ErrTimeout) {
				t.Errorf("write past its limit: %v", err)
			}
			break
		}
	}
}

// Cut wakes who waits, whatever limits are set meanwhile; CutReads leaves writing as it is.
//
// Covers: issue6 proxy
func TestCut(t *testing.T) {
	c, theirs := pair(t)
	got := make(chan error, 1)
	go func() {
		_, _, err := c.ReadLent(h1.NewPool(), h1.Small)
		got <- err
	}()
	c.CutReads()
	if err := <-got; !errors.Is(err, ErrCut) {
		t.Errorf("read of what was cut: %v", err)
	}
	c.ReadBy(c.now().Add(time.Hour))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrCut) {
		t.Errorf("read after that: %v", err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Errorf("write: %v", err)
	}
	c.Cut()
	if _, err := c.Write([]byte("x")); !errors.Is(err, ErrCut) {
		t.Errorf("write after Cut: %v", err)
	}
	_ = theirs
}

// An idle connection is alive until something comes on it, and nothing is taken by looking.
//
// Covers: issue6 proxy, gateway fault 26
func TestAlive(t *testing.T) {
	c, theirs := pair(t)
	if !c.Alive() {
		t.Fatal("a fresh connection is not alive")
	}
	c.ReadBy(c.now().Add(time.Nanosecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
	if !c.Alive() {
		t.Error("the limit of an earlier use ends it")
	}
	if _, err := io.WriteString(theirs, "x"); err != nil {
		t.Fatal(err)
	}
	await(t, "octet seen", func() bool { return !c.Alive() })
	c.ReadBy(0)
	if n, err := c.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if !c.Alive() {
		t.Error("not alive after what came was read")
	}
	if n := testing.AllocsPerRun(100, func() { c.Alive() }); n > 0 {
		t.Errorf("a look allocates %v", n)
	}
	_ = theirs.Close()
	await(t, "end seen", func() bool { return !c.Alive() })
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not in %v", what, patience)
}

// Parts are written in order, whole, and without an allocation.
//
// Covers: issue6 proxy
func TestWriteParts(t *testing.T) {
	c, theirs := pair(t)
	big := make([]byte, 1<<20)
	go func() {
		_ = c.WriteParts([]byte("a"), big, nil)
		_ = c.WriteParts(nil, nil, []byte("z"))
		_ = c.CloseWrite()
	}()
	all, err := io.ReadAll(theirs)
	if err != nil || len(all) != 1<<20+2 || all[0] != 'a' || all[len(all)-1] != 'z' {
		t.Errorf("%d octets, %v", len(all), err)
	}
	d, reads := pair(t)
	go func() { _, _ = io.Copy(io.Discard, reads) }()
	a, b := []byte("a"), []byte("b")
	if n := testing.AllocsPerRun(100, func() { _ = d.WriteParts(a, b, a) }); n > 0 {
		t.Errorf("a write allocates %v", n)
	}
	_ = d.Close()
}

// A side that leaves is noticed, once; one that was removed is not, and none is called after Remove has returned.
//
// Covers: issue6 proxy, gateway fault 20
func TestWatcher(t *testing.T) {
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	gone := make(chan string, 10)
	watch := func(name string) (uint64, *net.TCPConn) {
		c, theirs := pair(t)
		ticket, err := w.Add(c, func() { gone <- name })
		if err != nil {
			t.Fatal(err)
		}
		return ticket, theirs
	}
	_, closes := watch("closes")
	_, half := watch("half")
	_, resets := watch("resets")
	removed, quiet := watch("removed")
	w.Remove(removed)
	_ = quiet.Close()
	for name, leave := range map[string]func(){
		"closes": func() { _ = closes.Close() },
		"half":   func() { _ = half.CloseWrite() },
		"resets": func() { _ = resets.SetLinger(0); _ = resets.Close() },
	} {
		leave()
		if got := <-gone; got != name {
			t.Errorf("%s is said to have left: want %s", got, name)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(gone) > 0 {
		t.Errorf("%s is said to have left", <-gone)
	}
	c, _ := pair(t)
	if _, err := w.Add(c, func() {}); err == nil {
		t.Error("a watcher that has ended took a connection")
	}
}

// lent is a buffer with a question of n octets, as Ask wants it.
func lent(n int) (*h1.Buffer, int) {
	b := h1.NewPool().Lend(h1.Small)
	if n > len(b.B) {
		b.B = make([]byte, n) // larger than any: more than a socket takes at once
	}
	b.B[n-1] = 'q'
	return b, n
}

// Ask writes all of a question, of any length, and returns when there is something to read, which a read then gets; limits and
// Cut end it.
//
// Covers: issue6 proxy
func TestAsk(t *testing.T) {
	c, theirs := pair(t)
	for _, n := range []int{1, 1000, 1 << 20} {
		answered := make(chan error, 1)
		go func() {
			got := make([]byte, n)
			_, err := io.ReadFull(theirs, got)
			if err == nil && got[n-1] != 'q' {
				err = errors.New("another octet")
			}
			if err == nil {
				_, err = theirs.Write([]byte("a"))
			}
			answered <- err
		}()
		c.ReadBy(c.now().Add(patience))
		c.WriteBy(c.now().Add(patience))
		if err := c.Ask(lent(n)); err != nil {
			t.Fatalf("%d octets: %v", n, err)
		}
		p := make([]byte, 10)
		if got, err := c.Read(p); got != 1 || p[0] != 'a' || err != nil {
			t.Errorf("%d octets: answer %q, %v", n, p[:got], err)
		}
		if err := <-answered; err != nil {
			t.Errorf("%d octets: %v", n, err)
		}
	}
	c.ReadBy(c.now().Add(time.Millisecond))
	if err := c.Ask(lent(1)); !errors.Is(err, ErrTimeout) {
		t.Errorf("without an answer: %v", err)
	}
	c.ReadBy(c.now().Add(time.Nanosecond)) // a limit that has passed already, and is then moved
	if err := c.Ask(lent(1)); !errors.Is(err, ErrTimeout) {
		t.Errorf("past its limit: %v", err)
	}
	c.ReadBy(c.now().Add(time.Hour))
	done := make(chan error, 1)
	go func() { done <- c.Ask(lent(1)) }()
	c.Cut()
	if err := <-done; !errors.Is(err, ErrCut) {
		t.Errorf("cut: %v", err)
	}
	d, other := pair(t)
	_ = other.SetLinger(0)
	_ = other.Close()
	await(t, "the end is seen", func() bool { return !d.Alive() })
	if err := d.Ask(lent(1)); err == nil {
		if _, err := d.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that was reset gave an answer")
		}
	}
}

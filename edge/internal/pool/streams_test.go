package pool

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2up"
)

// multiplexer is an origin with HTTP/2 that answers every request with 204, when it is told to.
type multiplexer struct {
	addr    string
	streams uint32 // that it allows on a connection

	mu    sync.Mutex
	links []*link
}

type link struct {
	net.Conn
	fr    *http2.Framer
	heads []uint32 // streams that are not answered yet
}

func multiplex(t *testing.T, streams uint32) *multiplexer {
	t.Helper()
	addr, accepted := server(t)
	m := &multiplexer{addr: addr, streams: streams}
	var running sync.WaitGroup
	go func() {
		for c := range accepted {
			running.Go(func() { m.serve(c) })
		}
		running.Wait()
	}()
	t.Cleanup(func() { // before server's, which closes the channel
		m.mu.Lock()
		for _, l := range m.links {
			_ = l.Close()
		}
		m.mu.Unlock()
	})
	return m
}

func (m *multiplexer) serve(c net.Conn) {
	defer c.Close()
	l := &link{Conn: c, fr: http2.NewFramer(c, c)}
	l.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	m.mu.Lock()
	m.links = append(m.links, l)
	err := l.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: m.streams})
	m.mu.Unlock()
	for err == nil {
		var f http2.Frame
		if f, err = l.fr.ReadFrame(); err != nil {
			return
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			m.mu.Lock()
			l.heads = append(l.heads, h.StreamID)
			m.mu.Unlock()
		}
	}
}

func (m *multiplexer) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.links)
}

// with does something with a connection.
func (m *multiplexer) with(i int, f func(l *link) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f(m.links[i])
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not come about", what)
}

func openShared(t *testing.T, cfg Config) (*Pool, *conn.Clock) {
	t.Helper()
	cfg.HTTP2 = true
	p, clock := open(t, cfg)
	t.Cleanup(func() { p.Close(); p.Wait() })
	return p, clock
}

func join(t *testing.T, p *Pool, clock *conn.Clock) *Conn {
	t.Helper()
	if u := p.Idle(clock.Now(), 0); u != nil {
		return u
	}
	u, err := p.Dial(context.Background(), false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func send(t *testing.T, u *Conn) {
	t.Helper()
	if _, err := u.Stream.Send([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), nil, true); err != nil {
		t.Fatal(err)
	}
}

// Requests that come at once share one connection, which is made once; as many more are made as the origin's limit of streams
// takes; MaxConns bounds them.
//
// Covers: issue6 http2 origins
func TestRequestsShareConnections(t *testing.T) {
	m := multiplex(t, 10)
	var dialed atomic.Int32
	p, _ := openShared(t, Config{Address: m.addr, MaxConns: 2, Dialed: func() { dialed.Add(1) }})
	got := make(chan *Conn, 10)
	for range 10 {
		go func() {
			u, err := p.Dial(context.Background(), false, time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- u
		}()
	}
	var all []*Conn
	for range 10 {
		u := <-got
		if u == nil {
			t.FailNow()
		}
		all = append(all, u)
	}
	if m.connections() != 1 || dialed.Load() != 1 {
		t.Errorf("%d connections for ten requests, %d were counted", m.connections(), dialed.Load())
	}
	if n := p.Counts(); n != (Counts{Active: 1, Streams: 10}) {
		t.Errorf("counts %+v", n)
	}
	for range 10 {
		u, err := p.Dial(context.Background(), false, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
	if m.connections() != 2 {
		t.Errorf("%d connections for twenty requests", m.connections())
	}
	if _, err := p.Dial(context.Background(), false, time.Minute); !errors.Is(err, ErrBusy) {
		t.Errorf("a third connection: %v", err)
	}
	all[0].Drop()
	u := p.Idle(0, 0)
	if u == nil || !u.Reused {
		t.Fatal("the place of the request that ended is not given again")
	}
	u.Drop()
	for _, u := range all[1:] {
		u.Put(0)
	}
	if n := p.Counts(); n != (Counts{Idle: 2}) {
		t.Errorf("counts %+v", n)
	}
}

// A connection that the origin wants to end takes no more requests; those on it end on it.
//
// Covers: gateway fault 26, issue6 http2 origins
func TestGoAwayDrains(t *testing.T) {
	m := multiplex(t, 10)
	p, clock := openShared(t, Config{Address: m.addr})
	u := join(t, p, clock)
	send(t, u)
	eventually(t, "the request", func() bool {
		n := 0
		_ = m.with(0, func(l *link) error { n = len(l.heads); return nil })
		return n == 1
	})
	if err := m.with(0, func(l *link) error { return l.fr.WriteGoAway(1, http2.ErrCodeNo, nil) }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "GOAWAY", func() bool {
		if n := p.Idle(clock.Now(), 0); n != nil {
			n.Drop()
			return false
		}
		return true
	})
	other := join(t, p, clock)
	if m.connections() != 2 {
		t.Errorf("%d connections", m.connections())
	}
	other.Drop()
	if err := m.with(0, func(l *link) error {
		return l.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x89}, EndHeaders: true, EndStream: true})
	}); err != nil {
		t.Fatal(err)
	}
	u.ReadBy(clock.Now().Add(30 * time.Second))
	var r h1.Response
	if err := u.Response(&r, false); err != nil || r.Status != 204 {
		t.Errorf("%d, %v", r.Status, err)
	}
	u.Put(clock.Now())
}

// Connections without a request are closed after a time, and those beyond the bound at once; with none to be kept, each has one
// request.
//
// Covers: issue6 http2 origins
func TestIdleSharedConnections(t *testing.T) {
	m := multiplex(t, 1)
	p, clock := openShared(t, Config{Address: m.addr, IdleTimeout: time.Hour, MaxIdle: 1})
	a, b := join(t, p, clock), join(t, p, clock)
	a.Drop()
	b.Drop()
	if n := p.Counts(); n.Idle != 2 {
		t.Fatalf("counts %+v", n)
	}
	p.Trim(clock.Now())
	if n := p.Counts(); n.Idle != 1 {
		t.Errorf("counts %+v with one to be kept", n)
	}
	p.Trim(clock.Now().Add(time.Hour))
	if n := p.Counts(); n.Idle != 0 {
		t.Errorf("counts %+v after an hour", n)
	}
	none, clock := openShared(t, Config{Address: m.addr, MaxIdle: -1})
	before := m.connections()
	for range 3 {
		u := join(t, none, clock)
		send(t, u)
		u.Drop()
	}
	if n := m.connections() - before; n != 3 {
		t.Errorf("three requests had %d connections", n)
	}
}

// Whoever waits for a connection may leave; it is made for the next one. An origin that does not speak HTTP/2 is told from one that is not
// there, and a pool that is closed makes none.
//
// Covers: issue6 http2 origins
func TestDialingShared(t *testing.T) {
	addr, accepted := server(t)
	p, clock := openShared(t, Config{Address: addr})
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, err := p.Dial(ctx, false, time.Minute)
		left <- err
	}()
	c := <-accepted
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := http2.NewFramer(c, nil).WriteSettings(); err != nil {
		t.Fatal(err)
	}
	u := join(t, p, clock)
	if n := len(accepted); n != 0 {
		t.Errorf("%d further connections", n)
	}
	u.Drop()
	_ = c.Close()

	other, _ := openShared(t, Config{Address: addr})
	failed := make(chan error, 1)
	go func() {
		_, err := other.Dial(context.Background(), false, time.Minute)
		failed <- err
	}()
	c = <-accepted
	if _, err := io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, h2up.ErrNotHTTP2) {
		t.Errorf("HTTP/1.1: %v", err)
	}
	_ = c.Close()

	go func() {
		_, err := other.Dial(context.Background(), false, time.Minute)
		failed <- err
	}()
	c = <-accepted
	other.Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	_ = c.Close()
}

package h2

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a connection under test, with its client.
type served struct {
	*Conn
	k    *h2test.Client
	done chan error // what Serve returned
}

// pair is a connection of ours and its other end.
func pair(t testing.TB, clock *conn.Clock, pool *h1.Pool) (*conn.Conn, net.Conn) {
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
	c, err := conn.New(ours.(*net.TCPConn), clock, pool)
	if err != nil {
		t.Fatal(err)
	}
	return c, theirs
}

// serve serves a connection with a handler until the test ends. raw: the client has said nothing yet.
func serve(t testing.TB, cfg Config, raw bool, handle func(*Stream), settings ...http2.Setting) *served {
	t.Helper()
	cfg.Clock, cfg.Buffers, cfg.Handle = conn.NewClock(), h1.NewPool(), handle
	link, theirs := pair(t, cfg.Clock, cfg.Buffers)
	s := &served{Conn: New(link, cfg), done: make(chan error, 1)}
	var wg sync.WaitGroup
	wg.Go(func() {
		s.done <- s.Serve(nil)
		_ = link.CloseWrite()
		_ = link.Sock().SetReadDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.Copy(io.Discard, link.Sock()) // so that what was said last is not thrown away
		_ = link.Close()
	})
	t.Cleanup(func() { _ = theirs.Close(); wg.Wait() })
	if s.k = h2test.Raw(t, theirs); !raw {
		s.k = h2test.New(t, theirs, settings...)
	}
	return s
}

// text reads the head of a request, as it was written.
func text(s *Stream) string {
	b, n, _ := s.Head()
	if b == nil {
		return ""
	}
	defer s.c.cfg.Buffers.Return(b)
	return string(b.B[:n])
}

const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"

// echo answers with the head of the request and its body.
func echo(s *Stream) {
	head := text(s)
	body, err := io.ReadAll(s)
	if err != nil {
		return
	}
	_ = s.Respond([]byte(ok), []byte(head+string(body)+string(s.Trailer())), true)
}

// lines joins the lines of a head.
func lines(all ...string) string { return strings.Join(all, "\r\n") }

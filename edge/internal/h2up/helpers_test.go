package h2up

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come. Nothing is judged by it but whether it comes at all.
const patience = 30 * time.Second

// peer is an origin, frame by frame.
type peer struct {
	net.Conn
	t    *testing.T
	fr   *http2.Framer
	room bytes.Buffer
	enc  *hpack.Encoder
}

// open makes a connection to a peer that has said its settings.
func open(t *testing.T, cfg Config, settings ...http2.Setting) (*Conn, *peer) {
	t.Helper()
	k, c := dial(t)
	p := &peer{Conn: c, t: t}
	p.enc = hpack.NewEncoder(&p.room)
	p.fr = http2.NewFramer(c, c)
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	ready := make(chan error, 1)
	go func() {
		preface := make([]byte, len(http2.ClientPreface))
		_, err := io.ReadFull(c, preface)
		if err == nil && string(preface) != http2.ClientPreface {
			err = fmt.Errorf("preface %q", preface)
		}
		ready <- errors.Join(err, p.fr.WriteSettings(settings...))
	}()
	up, err := New(t.Context(), k, conn.NewClock(), h1.NewPool(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		up.Close()
		_ = c.Close()
		<-up.Done()
	})
	return up, p
}

// dial gives both ends of a connection.
func dial(t *testing.T) (*conn.Conn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	k, err := conn.New(c.(*net.TCPConn), conn.NewClock(), h1.NewPool())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return k, other
}

// next gives the next frame that want accepts, and passes the others over. It fails when there is none.
func (p *peer) next(what string, want func(http2.Frame) bool) http2.Frame {
	p.t.Helper()
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			p.t.Fatalf("waited for %s: %v", what, err)
		}
		if want(f) {
			return f
		}
	}
}

// head waits for the head of a request.
func (p *peer) head() *http2.MetaHeadersFrame {
	p.t.Helper()
	f, _ := p.next("HEADERS", func(f http2.Frame) bool { _, ok := f.(*http2.MetaHeadersFrame); return ok }).(*http2.MetaHeadersFrame)
	return f
}

// reset waits for a RST_STREAM.
func (p *peer) reset(id uint32) http2.ErrCode {
	p.t.Helper()
	f, _ := p.next("RST_STREAM", func(f http2.Frame) bool { return f.Header().Type == http2.FrameRSTStream && f.Header().StreamID == id }).(*http2.RSTStreamFrame)
	return f.ErrCode
}

// goAway waits for a GOAWAY.
func (p *peer) goAway() http2.ErrCode {
	p.t.Helper()
	f, _ := p.next("GOAWAY", func(f http2.Frame) bool { return f.Header().Type == http2.FrameGoAway }).(*http2.GoAwayFrame)
	return f.ErrCode
}

// data reads so many octets of a body.
func (p *peer) data(id uint32, n int) (body string, ended bool) {
	p.t.Helper()
	for len(body) < n {
		f, _ := p.next("DATA", func(f http2.Frame) bool { return f.Header().Type == http2.FrameData && f.Header().StreamID == id }).(*http2.DataFrame)
		body, ended = body+string(f.Data()), f.StreamEnded()
	}
	return body, ended
}

// block encodes fields, given as name and value in turn.
func (p *peer) block(fields ...string) []byte {
	p.room.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		if err := p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			p.t.Fatal(err)
		}
	}
	return bytes.Clone(p.room.Bytes())
}

// say sends a head.
func (p *peer) say(id uint32, end bool, fields ...string) {
	p.t.Helper()
	p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(fields...), EndHeaders: true, EndStream: end}))
}

func (p *peer) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// begin sends a request without a body.
func begin(t *testing.T, c *Conn, path string) *Stream {
	t.Helper()
	return beginWith(t, c, "GET "+path+" HTTP/1.1\r\nHost: a.example\r\n\r\n", "", true)
}

func beginWith(t *testing.T, c *Conn, head, body string, end bool) *Stream {
	t.Helper()
	s := c.Reserve()
	if s == nil {
		t.Fatal("no stream")
	}
	t.Cleanup(s.Close)
	s.ReadBy(c.clock.Now().Add(patience))
	s.WriteBy(c.clock.Now().Add(patience))
	taken, err := s.Send([]byte(head), []byte(body), end)
	if err != nil || !taken {
		t.Fatalf("send: taken %t, %v", taken, err)
	}
	return s
}

// whole reads a response to its end.
func whole(s *Stream) (status int, body string, err error) {
	var r h1.Response
	for {
		if err := s.Response(&r, false); err != nil {
			return 0, "", err
		}
		if !r.Informational() {
			break
		}
	}
	var b strings.Builder
	for {
		part, err := s.Next()
		b.Write(part)
		if errors.Is(err, io.EOF) {
			return r.Status, b.String(), nil
		}
		if err != nil {
			return r.Status, b.String(), err
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not come about in %v", what, patience)
}

// answers has a peer answer each request with its path, on a goroutine until the connection ends.
func (p *peer) answers() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			f, err := p.fr.ReadFrame()
			if err != nil {
				return
			}
			h, ok := f.(*http2.MetaHeadersFrame)
			if !ok {
				continue
			}
			_ = p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, BlockFragment: p.block(":status", "200"), EndHeaders: true})
			_ = p.fr.WriteData(h.StreamID, true, []byte(h.PseudoValue("path")))
		}
	}()
	p.t.Cleanup(func() { _ = p.Close(); <-done })
}

func dialTo(t *testing.T, addr string) *conn.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	k, err := conn.New(c.(*net.TCPConn), conn.NewClock(), h1.NewPool())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

package h2up

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// A request comes to an ordinary server as it was, and its response comes back, with bodies and trailers both ways.
//
// Covers: issue6 http2 origins
func TestRequestsAndResponses(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Saw", strings.Join([]string{
			r.Proto, r.Method, r.Host, r.RequestURI, r.Header.Get("X-A"), r.Header.Get("TE"), r.Header.Get("Connection"), r.Trailer.Get("X-T"),
		}, "|"))
		w.WriteHeader(201)
		_, _ = w.Write(body)
		w.Header().Set("X-Sum", "7")
	}))
	server.Config.Protocols = &protocols
	server.Start()
	defer server.Close()
	c := connect(t, server.Listener.Addr().String(), Config{})

	big := strings.Repeat("0123456789abcdef", 40_000)
	for _, size := range []int{0, 1, 70_000, len(big)} {
		s := c.Reserve()
		s.ReadBy(c.clock.Now().Add(patience))
		s.WriteBy(c.clock.Now().Add(patience))
		head := "POST /p?q=1 HTTP/1.1\r\nHost: A.example:81\r\nX-A:  b \r\nTrailer: X-T\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nTE: gzip\r\n\r\n"
		if _, err := s.Send([]byte(head), nil, false); err != nil {
			t.Fatal(err)
		}
		if err := s.Write([]byte(big[:size]), false); err != nil {
			t.Fatal(err)
		}
		if err := s.WriteTrailer([]byte("X-T: u\r\n")); err != nil {
			t.Fatal(err)
		}
		var r h1.Response
		if err := s.Response(&r, false); err != nil {
			t.Fatal(err)
		}
		saw, _ := r.Field("x-saw", 0)
		if r.Status != 201 || string(saw) != "HTTP/2.0|POST|A.example:81|/p?q=1|b|trailers||u" {
			t.Errorf("%d octets: status %d, the server saw %s", size, r.Status, saw)
		}
		var got strings.Builder
		for {
			part, err := s.Next()
			got.Write(part)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var trailer h1.Head
		if err := s.Trailer(&trailer); err != nil {
			t.Fatal(err)
		}
		if sum, _ := trailer.Field("x-sum", 0); got.String() != big[:size] || string(sum) != "7" || !s.Done() {
			t.Errorf("%d octets: %d came back, trailer %q, done %t", size, got.Len(), sum, s.Done())
		}
		s.Close()
	}
	if n := c.Streams(); n != 0 || c.IdleSince() == 0 {
		t.Errorf("%d streams are left", n)
	}
}

func connect(t *testing.T, addr string, cfg Config) *Conn {
	t.Helper()
	k := dialTo(t, addr)
	c, err := New(t.Context(), k, conn.NewClock(), h1.NewPool(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); <-c.Done() })
	return c
}

// What the origin has not begun on is told from what it may have.
//
// Covers: gateway T40, gateway fault 25, issue6 http2 origins
func TestWhatWasNotBegunOn(t *testing.T) {
	cases := []struct {
		name  string
		do    func(*peer)
		fresh bool // of stream 3; stream 1 was begun on
		want  error
	}{
		{"refused", func(p *peer) { p.must(p.fr.WriteRSTStream(3, http2.ErrCodeRefusedStream)) }, true, nil},
		{"reset", func(p *peer) { p.must(p.fr.WriteRSTStream(3, http2.ErrCodeInternal)) }, false, nil},
		{"goaway", func(p *peer) { p.must(p.fr.WriteGoAway(1, http2.ErrCodeNo, nil)) }, true, nil},
		{"goaway after both", func(p *peer) {
			p.must(p.fr.WriteGoAway(3, http2.ErrCodeNo, nil))
			_ = p.Close()
		}, false, ErrLost},
		{"closed", func(p *peer) { _ = p.Close() }, false, ErrLost},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			up, p := open(t, Config{})
			first, second := begin(t, up, "/1"), begin(t, up, "/2")
			p.head()
			p.head()
			c.do(p)
			_, _, err := whole(second)
			if err == nil || errors.Is(err, ErrUnprocessed) != c.fresh || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want unprocessed %t", err, c.fresh)
			}
			if strings.HasPrefix(c.name, "goaway") && up.Reserve() != nil {
				t.Error("a stream after GOAWAY")
			}
			if c.name == "goaway" { // the first one goes on
				p.say(1, true, ":status", "200")
				if status, _, err := whole(first); status != 200 || err != nil {
					t.Errorf("stream 1: %d, %v", status, err)
				}
			}
		})
	}
}

// What was reserved before a connection was lost was never sent.
//
// Covers: issue6 http2 origins
func TestNothingWasSent(t *testing.T) {
	up, p := open(t, Config{})
	s := up.Reserve()
	defer s.Close()
	_ = p.Close()
	eventually(t, "the loss", func() bool { return !up.Usable() })
	if _, err := s.Send([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), nil, true); !errors.Is(err, ErrUnprocessed) {
		t.Errorf("%v", err)
	}
}

// A stream that is cut is reset at once with CANCEL, whatever it waits for; its siblings go on, and what still comes on it takes no
// credit from them.
//
// Covers: gateway fault 20, issue6 http2 origins
func TestCutResets(t *testing.T) {
	up, p := open(t, Config{})
	s, sibling := begin(t, up, "/1"), begin(t, up, "/2")
	p.head()
	p.head()
	waited := make(chan error, 1)
	go func() {
		_, _, err := whole(s)
		waited <- err
	}()
	s.Cut()
	if err := <-waited; !errors.Is(err, conn.ErrCut) {
		t.Errorf("%v", err)
	}
	if code := p.reset(1); code != http2.ErrCodeCancel {
		t.Errorf("reset with %v", code)
	}
	p.say(1, false, ":status", "200")
	sent, credited := 0, 0
	for sent < 2*connWindow { // were it not given back, the connection would stand still
		p.must(p.fr.WriteData(1, false, make([]byte, maxFrame)))
		for sent += maxFrame; sent-credited > connWindow-2*maxFrame; {
			f, _ := p.next("WINDOW_UPDATE", func(f http2.Frame) bool { return f.Header().Type == http2.FrameWindowUpdate }).(*http2.WindowUpdateFrame)
			if f.StreamID == 0 {
				credited += int(f.Increment)
			}
		}
	}
	p.say(3, true, ":status", "204")
	if status, _, err := whole(sibling); status != 204 || err != nil {
		t.Errorf("sibling: %d, %v", status, err)
	}
}

// The body of a request waits for the origin's windows, of the stream and of the connection, and goes on when they open.
//
// Covers: issue6 http2 origins
func TestBodiesWaitForWindows(t *testing.T) {
	up, p := open(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	s := beginWith(t, up, "POST / HTTP/1.1\r\nHost: a\r\n\r\n", "", false)
	p.head()
	wrote := make(chan error, 1)
	go func() { wrote <- s.Write([]byte(strings.Repeat("x", 25)), true) }()
	if got, ended := p.data(1, 10); len(got) != 10 || ended {
		t.Errorf("%d octets into a window of 10, ended %t", len(got), ended)
	}
	select {
	case err := <-wrote:
		t.Fatalf("written: %v", err)
	default:
	}
	p.must(p.fr.WriteWindowUpdate(1, 7))
	if got, _ := p.data(1, 7); len(got) != 7 {
		t.Errorf("%d octets into a window of 7", len(got))
	}
	p.must(p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}))
	if got, ended := p.data(1, 8); len(got) != 8 || !ended {
		t.Errorf("%d octets, ended %t", len(got), ended)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	late := beginWith(t, up, "POST / HTTP/1.1\r\nHost: a\r\n\r\n", "", false)
	late.WriteBy(1)
	if err := late.Write(make([]byte, 200), true); !errors.Is(err, conn.ErrTimeout) {
		t.Errorf("write past its limit: %v", err)
	}
}

// An origin can send no more than the window to who does not read, and its other streams go on meanwhile. The window grows for who
// reads all that comes.
//
// Covers: gateway fault 41, issue6 http2 origins
func TestWindowsBoundWhatIsKept(t *testing.T) {
	up, p := open(t, Config{})
	slow, fast := begin(t, up, "/slow"), begin(t, up, "/fast")
	p.head()
	p.head()
	p.say(1, false, ":status", "200")
	p.say(3, false, ":status", "200")
	for range streamWindow / maxFrame {
		p.must(p.fr.WriteData(1, false, make([]byte, maxFrame)))
	}
	var r h1.Response
	if err := fast.Response(&r, false); err != nil {
		t.Fatal(err)
	}
	grown, room := 0, streamWindow
	for sent := 0; sent < 4<<20; sent += maxFrame {
		for room < maxFrame {
			f, _ := p.next("credit", func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameWindowUpdate && f.Header().StreamID == 3
			}).(*http2.WindowUpdateFrame)
			room += int(f.Increment)
		}
		p.must(p.fr.WriteData(3, false, make([]byte, maxFrame)))
		for n := 0; n < maxFrame; {
			part, err := fast.Next()
			if err != nil {
				t.Fatal(err)
			}
			n += len(part)
		}
		room -= maxFrame
		grown = max(grown, room)
	}
	if grown < 2*streamWindow {
		t.Errorf("the window of a fast reader is %d", grown)
	}
	p.must(p.fr.WriteData(1, false, []byte{1}))
	if code := p.reset(1); code != http2.ErrCodeFlowControl {
		t.Errorf("more than the window: %v", code)
	}
	if _, _, err := whole(slow); !errors.Is(err, Malformed) {
		t.Errorf("slow: %v", err)
	}
	up.mu.Lock()
	queued := up.queued
	up.mu.Unlock()
	if queued != 0 {
		t.Errorf("%d octets are kept for nobody", queued)
	}
}

// A response that is malformed ends its stream, with RST_STREAM, and no other.
//
// Covers: issue6 http2 origins
func TestMalformedResponses(t *testing.T) {
	cases := map[string]func(p *peer, id uint32){
		"no status":         func(p *peer, id uint32) { p.say(id, true, "x-a", "b") },
		"status of a text":  func(p *peer, id uint32) { p.say(id, true, ":status", "abc") },
		"status 101":        func(p *peer, id uint32) { p.say(id, true, ":status", "101") },
		"status 99":         func(p *peer, id uint32) { p.say(id, true, ":status", "099") },
		"two statuses":      func(p *peer, id uint32) { p.say(id, true, ":status", "200", ":status", "200") },
		"late status":       func(p *peer, id uint32) { p.say(id, true, "x-a", "b", ":status", "200") },
		"a request":         func(p *peer, id uint32) { p.say(id, true, ":status", "200", ":path", "/") },
		"upper case":        func(p *peer, id uint32) { p.say(id, true, ":status", "200", "X-A", "b") },
		"a line end":        func(p *peer, id uint32) { p.say(id, true, ":status", "200", "x-a", "b\r\nx-c: d") },
		"a zero octet":      func(p *peer, id uint32) { p.say(id, true, ":status", "200", "x-a", "b\x00") },
		"a space in a name": func(p *peer, id uint32) { p.say(id, true, ":status", "200", "x a", "b") },
		"connection":        func(p *peer, id uint32) { p.say(id, true, ":status", "200", "connection", "close") },
		"transfer-encoding": func(p *peer, id uint32) { p.say(id, true, ":status", "200", "transfer-encoding", "chunked") },
		"two lengths": func(p *peer, id uint32) {
			p.say(id, true, ":status", "200", "content-length", "1", "content-length", "1")
		},
		"too long": func(p *peer, id uint32) {
			p.say(id, false, ":status", "200", "content-length", "1")
			p.must(p.fr.WriteData(id, true, []byte("ab")))
		},
		"too short": func(p *peer, id uint32) {
			p.say(id, false, ":status", "200", "content-length", "3")
			p.must(p.fr.WriteData(id, true, []byte("ab")))
		},
		"data before the head":   func(p *peer, id uint32) { p.must(p.fr.WriteData(id, false, []byte("ab"))) },
		"information at the end": func(p *peer, id uint32) { p.say(id, true, ":status", "103") },
		"data after information": func(p *peer, id uint32) {
			p.say(id, false, ":status", "103")
			p.must(p.fr.WriteData(id, true, []byte("ab")))
		},
		"trailer without end": func(p *peer, id uint32) {
			p.say(id, false, ":status", "200")
			p.say(id, false, "x-a", "b")
		},
		"status in the trailer": func(p *peer, id uint32) {
			p.say(id, false, ":status", "200")
			p.say(id, true, ":status", "200")
		},
		"a zero window": func(p *peer, id uint32) {
			p.must(p.fr.WriteRawFrame(http2.FrameWindowUpdate, 0, id, []byte{0, 0, 0, 0}))
		},
		"a body of none": func(p *peer, id uint32) {
			p.say(id, false, ":status", "204")
			p.must(p.fr.WriteData(id, true, []byte("ab")))
		},
	}
	up, p := open(t, Config{})
	for name, do := range cases {
		s, sibling := begin(t, up, "/"), begin(t, up, "/")
		id := p.head().StreamID
		p.head()
		do(p, id)
		fault := (*h1.Error)(nil)
		if _, _, err := whole(s); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
		p.say(id+2, true, ":status", "200")
		if _, _, err := whole(sibling); err != nil {
			t.Errorf("%s: its sibling: %v", name, err)
		}
		sibling.Close()
	}
}

// A malformed frame, or too many that carry nothing, end the connection, and GOAWAY says why.
//
// Covers: issue6 http2 origins
func TestMalformedConnections(t *testing.T) {
	many := func(f func(*peer) error) func(*peer) {
		return func(p *peer) {
			for range 2 * maxUseless {
				if f(p) != nil {
					return // it has seen enough
				}
			}
		}
	}
	cases := map[string]struct {
		do   func(p *peer)
		want http2.ErrCode
		more bool // it sends on: that may reset the connection before it has read the last word
	}{
		"a push": {func(p *peer) {
			p.must(p.fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true}))
		}, http2.ErrCodeProtocol, false},
		"an even stream":   {func(p *peer) { p.say(2, true, ":status", "200") }, http2.ErrCodeProtocol, false},
		"a stream to come": {func(p *peer) { p.must(p.fr.WriteData(9, true, nil)) }, http2.ErrCodeProtocol, false},
		"a large window":   {func(p *peer) { p.must(p.fr.WriteWindowUpdate(0, maxWindow)) }, http2.ErrCodeFlowControl, false},
		"large settings": {func(p *peer) {
			p.must(p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}))
		}, http2.ErrCodeFlowControl, false},
		"a large frame": {func(p *peer) { p.must(p.fr.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, maxTaken+1))) }, http2.ErrCodeFrameSize, true},
		"a broken block": {func(p *peer) {
			p.must(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true}))
		}, http2.ErrCodeCompression, false},
		"pings":    {many(func(p *peer) error { return p.fr.WritePing(false, [8]byte{}) }), http2.ErrCodeEnhanceYourCalm, true},
		"settings": {many(func(p *peer) error { return p.fr.WriteSettings() }), http2.ErrCodeEnhanceYourCalm, true},
		"empty frames": {func(p *peer) {
			p.say(1, false, ":status", "200")
			many(func(p *peer) error { return p.fr.WriteData(1, false, nil) })(p)
		}, http2.ErrCodeEnhanceYourCalm, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			up, p := open(t, Config{})
			s := begin(t, up, "/")
			p.head()
			code := make(chan http2.ErrCode, 1)
			go func() { // who sends much must read what comes
				for {
					f, err := p.fr.ReadFrame()
					if err != nil {
						close(code)
						return
					}
					if g, ok := f.(*http2.GoAwayFrame); ok {
						code <- g.ErrCode
						return
					}
				}
			}()
			c.do(p)
			if _, _, err := whole(s); !errors.Is(err, ErrLost) || errors.Is(err, ErrUnprocessed) {
				t.Errorf("%v", err)
			}
			got, heard := <-code
			if heard && got != c.want || !heard && !c.more {
				t.Errorf("GOAWAY %v, want %v", got, c.want)
			}
			<-up.Done()
		})
	}
}

// A peer that does not speak HTTP/2 is told from one that cannot be reached.
//
// Covers: issue6 http2 origins
func TestOthersAreNotHTTP2(t *testing.T) {
	for name, said := range map[string]string{
		"HTTP/1.1": "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
		"nothing":  "",
		"a ping":   "\x00\x00\x08\x06\x00\x00\x00\x00\x00abcdefgh",
	} {
		k, other := dial(t)
		if _, err := io.WriteString(other, said); err != nil {
			t.Fatal(err)
		}
		if said == "" {
			_ = other.Close()
		}
		if _, err := New(t.Context(), k, conn.NewClock(), h1.NewPool(), Config{}); !errors.Is(err, ErrNotHTTP2) {
			t.Errorf("%s: %v", name, err)
		}
		_ = other.Close()
	}
	k, other := dial(t)
	defer other.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, k, conn.NewClock(), h1.NewPool(), Config{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence: %v", err)
	}
}

// A connection that was silent gets a PING with the next request. Without an answer it is lost; with one it goes on. No second PING
// is sent before the peer has sent something of a response: servers of gRPC take that for an attack.
//
// Covers: issue6 http2 origins
func TestSilentConnectionsArePinged(t *testing.T) {
	up, p := open(t, Config{PingAfter: time.Nanosecond, PingTimeout: time.Hour})
	ping := func(f http2.Frame) bool { return f.Header().Type == http2.FramePing }
	dead := begin(t, up, "/1")
	p.next("PING", ping)
	begin(t, up, "/2").Close()
	p.next("RST_STREAM", func(f http2.Frame) bool {
		if ping(f) {
			t.Error("a second PING")
		}
		return f.Header().Type == http2.FrameRSTStream
	})
	p.say(1, true, ":status", "200")
	if _, _, err := whole(dead); err != nil {
		t.Fatal(err)
	}
	dead = begin(t, up, "/3")
	p.next("PING", ping)
	up.Check(up.clock.Now())
	if !up.Usable() {
		t.Fatal("lost before its time")
	}
	up.Check(up.clock.Now().Add(time.Hour))
	if _, _, err := whole(dead); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	<-up.Done()
}

// There are as many streams as the origin allows, at any time.
//
// Covers: issue6 http2 origins
func TestStreamsAreBounded(t *testing.T) {
	up, p := open(t, Config{MaxStreams: 3}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
	a, b := up.Reserve(), up.Reserve()
	if up.Reserve() != nil {
		t.Error("a third stream")
	}
	p.must(p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100}))
	var c *Stream
	eventually(t, "a third stream", func() bool { c = up.Reserve(); return c != nil })
	if up.Reserve() != nil {
		t.Error("a fourth stream")
	}
	for _, s := range []*Stream{a, b, c} {
		s.Close()
	}
	if up.Streams() != 0 {
		t.Errorf("%d streams", up.Streams())
	}
}

// Information comes before the response; it is bounded.
//
// Covers: issue6 http2 origins
func TestInformation(t *testing.T) {
	up, p := open(t, Config{})
	s := begin(t, up, "/")
	p.head()
	p.say(1, false, ":status", "103", "link", "</a>")
	p.say(1, true, ":status", "200")
	var r h1.Response
	if err := s.Response(&r, false); err != nil || r.Status != 103 || !r.Informational() {
		t.Fatalf("%d, %v", r.Status, err)
	}
	if err := s.Response(&r, false); err != nil || r.Status != 200 || r.Length != (h1.Length{Kind: h1.Sized}) {
		t.Fatalf("%d, %+v, %v", r.Status, r.Length, err)
	}
	s = begin(t, up, "/")
	p.head()
	for range maxHeads + 1 {
		p.say(3, false, ":status", "103")
	}
	if code := p.reset(3); code != http2.ErrCodeProtocol {
		t.Errorf("reset with %v", code)
	}
	s.Close()
}

// Close lets streams end and then says GOAWAY.
//
// Covers: issue6 http2 origins
func TestCloseLetsStreamsEnd(t *testing.T) {
	up, p := open(t, Config{})
	s := begin(t, up, "/")
	p.head()
	up.Close()
	if up.Reserve() != nil {
		t.Error("a stream after Close")
	}
	p.say(1, true, ":status", "200")
	if status, _, err := whole(s); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	s.Close()
	if code := p.goAway(); code != http2.ErrCodeNo {
		t.Errorf("GOAWAY %v", code)
	}
	<-up.Done()
}

// Many requests at once are answered each with its own response.
//
// Covers: issue6 http2 origins
func TestManyAtOnce(t *testing.T) {
	up, p := open(t, Config{})
	p.answers()
	failed := make(chan string, 50)
	for i := range 50 {
		go func() {
			path := "/" + strings.Repeat("x", i)
			for range 20 {
				s := up.Reserve()
				s.ReadBy(up.clock.Now().Add(patience))
				if _, err := s.Send([]byte("GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"), nil, true); err != nil {
					failed <- err.Error()
					return
				}
				if _, body, err := whole(s); err != nil || body != path {
					failed <- path + " got " + body
					return
				}
				s.Close()
			}
			failed <- ""
		}()
	}
	for range 50 {
		if f := <-failed; f != "" {
			t.Error(f)
		}
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	if up.queued != 0 || len(up.streams) != 0 || up.reserved != 0 {
		t.Errorf("left: %d octets, %d streams, %d reserved", up.queued, len(up.streams), up.reserved)
	}
}

// A body that is taken with its head is sent to its end, however much waits to be written before it.
//
// Covers: issue6 http2 origins
func TestBodiesThatJustFit(t *testing.T) {
	head := []byte("PUT / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	taken := 0
	for _, size := range []int{1, maxFrame, maxFrame + 1, 2 * maxFrame, 3*maxFrame + 1} {
		for gap := range 200 { // around as much as fits, with the head
			c := newConn(conn.NewClock(), h1.NewPool(), Config{})
			c.window, c.peerWindow = 1<<20, 1<<20
			c.out = make([]byte, maxBacklog-size-gap)
			s := c.Reserve()
			ok, err := s.Send(head, make([]byte, size), true)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				taken++
			}
			if s.sent != ok {
				t.Errorf("%d octets with room for %d: taken %t, sent %t", size, size+gap, ok, s.sent)
			}
			s.Close()
		}
	}
	if taken == 0 {
		t.Error("nothing was taken")
	}
}

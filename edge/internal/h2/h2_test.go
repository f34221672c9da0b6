package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/h2test"
)

// A request becomes a head of HTTP/1.1, with its cookies in one field and its authority as Host; body and trailer come as they are.
//
// Covers: issue6 http2
func TestRequestsBecomeHeads(t *testing.T) {
	s := serve(t, Config{}, false, echo)
	k := s.k
	for i, c := range []struct {
		fields []string
		want   string
	}{
		{h2test.Get("/a?b=c"), lines("GET /a?b=c HTTP/1.1", "host: example.com", "", "")},
		{append(h2test.Get("/"), "cookie", "a=1", "x", "y", "cookie", "b=2", "te", "trailers"), lines("GET / HTTP/1.1", "host: example.com", "x: y", "te: trailers", "cookie: a=1; b=2", "", "")},
		{append(h2test.Get("/"), "host", "EXAMPLE.com", "empty", ""), lines("GET / HTTP/1.1", "host: example.com", "empty: ", "", "")},
		{[]string{":method", "GET", ":scheme", "https", ":path", "/", "host", "a.example"}, lines("GET / HTTP/1.1", "host: a.example", "", "")},
		{[]string{":method", "OPTIONS", ":scheme", "https", ":path", "*", ":authority", "a"}, lines("OPTIONS * HTTP/1.1", "host: a", "", "")},
		{[]string{":method", "CONNECT", ":authority", "a:443"}, lines("CONNECT a:443 HTTP/1.1", "host: a:443", "", "")},
	} {
		id := uint32(2*i + 1)
		k.Headers(id, true, c.fields...)
		if a := k.Answer(id); a.Status != "200" || string(a.Body) != c.want || a.Field("content-type") != "text/plain" {
			t.Errorf("%v: %v, want %q", c.fields, a, c.want)
		}
	}
	k.Headers(99, false, append(h2test.Post("/"), "content-length", "5")...)
	k.Must(k.WriteData(99, false, []byte("he")))
	k.Must(k.WriteDataPadded(99, false, []byte("llo"), make([]byte, 200)))
	k.Headers(99, true, "checksum", "1")
	if a := k.Answer(99); !strings.HasSuffix(string(a.Body), "\r\n\r\nhellochecksum: 1\r\n\r\n") {
		t.Errorf("%v", a)
	}
	block := k.Block(append(h2test.Get("/parts"), "x-long", strings.Repeat("v", 3000))...)
	k.Must(k.WriteHeaders(http2.HeadersFrameParam{StreamID: 101, BlockFragment: block[:10], EndStream: true, PadLength: 3, Priority: http2.PriorityParam{StreamDep: 0, Weight: 1}}))
	k.Must(k.WriteContinuation(101, false, block[10:11]))
	k.Must(k.WriteContinuation(101, false, nil))
	k.Must(k.WriteContinuation(101, true, block[11:]))
	if a := k.Answer(101); !strings.HasPrefix(string(a.Body), "GET /parts HTTP/1.1\r\n") {
		t.Errorf("%v", a)
	}
}

// A request to become a WebSocket becomes one of HTTP/1.1, with a key of ours.
//
// Covers: issue6 http2, gateway fault 44
func TestExtendedConnectBecomesAnUpgrade(t *testing.T) {
	s := serve(t, Config{}, false, func(s *Stream) {
		head := text(s)
		if s.WebSocketKey == "" || !strings.Contains(head, "\r\nsec-websocket-key: "+s.WebSocketKey+"\r\n") {
			head = "no key"
		}
		_ = s.WriteHead([]byte("HTTP/1.1 200 OK\r\n\r\n"), false)
		_ = s.Write([]byte(head), false)
		b, n, err := s.ReadLent(nil, 0)
		if err != nil {
			return
		}
		_ = s.Write(b.B[:n], true)
		s.c.cfg.Buffers.Return(b)
	})
	k := s.k
	k.Headers(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "a", ":path", "/chat", "sec-websocket-version", "13", "sec-websocket-key", "theirs")
	k.Must(k.WriteData(1, false, []byte("ping")))
	a := k.Answer(1)
	if a.Status != "200" || !strings.HasPrefix(string(a.Body), "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: ") ||
		strings.Contains(string(a.Body), "theirs") || !strings.HasSuffix(string(a.Body), "sec-websocket-version: 13\r\n\r\nping") {
		t.Errorf("%v", a)
	}
	if k.Settings[settingConnect] != 1 {
		t.Errorf("settings: %v", k.Settings)
	}
}

// A malformed request ends its stream, and nothing of it is handled; its siblings go on.
//
// Covers: issue6 http2, gateway fault 37
func TestMalformedRequestsEndTheirStream(t *testing.T) {
	var handled atomic.Int32
	s := serve(t, Config{}, false, func(s *Stream) { handled.Add(1); echo(s) })
	k := s.k
	get := func(more ...string) []string { return append(h2test.Get("/"), more...) }
	cases := [][]string{
		get("Upper", "x"), get("sp ace", "x"), get("", "x"), get("a:b", "x"), get("x", "a\r\nb: c"), get("x", "a\nb"), get("x", "a\x00b"), get("x", " a"), get("x", "a\t"), get("x", "\x7f"),
		get("connection", "close"), get("keep-alive", "1"), get("proxy-connection", "x"), get("transfer-encoding", "chunked"), get("upgrade", "h2c"),
		get("te", "gzip"), get("te", "trailers, gzip"), get("host", "other.example"), get("content-length", "1"), get(":late", "x"), get("x", "y", ":path", "/"), get(":path", "/2"),
		get(":status", "200"), get(":unknown", "x"),
		{":scheme", "http", ":authority", "a", ":path", "/"},
		{":method", "GET", ":authority", "a", ":path", "/"},
		{":method", "GET", ":scheme", "http", ":authority", "a"},
		{":method", "GET", ":scheme", "http", ":authority", "a", ":path", ""},
		{":method", "GET", ":scheme", "http", ":authority", "", ":path", "/"},
		{":method", "GET", ":scheme", "ftp", ":authority", "a", ":path", "/"},
		{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "a"},
		{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "http://b/"},
		{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "*"},
		{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/ HTTP/1.1\r\nx: y"},
		{":method", "GET", ":scheme", "http", ":authority", "a\r\nx: y", ":path", "/"},
		{":method", "GET /x HTTP/1.1\r\n", ":scheme", "http", ":authority", "a", ":path", "/"},
		{":method", "G T", ":scheme", "http", ":authority", "a", ":path", "/"},
		{":method", "CONNECT", ":scheme", "http", ":authority", "a", ":path", "/"},
		{":method", "CONNECT"},
		{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/", ":protocol", "websocket"},
		{":method", "CONNECT", ":protocol", "websocket", ":authority", "a"},
	}
	id := uint32(1)
	for _, fields := range cases {
		k.Headers(id, true, fields...)
		if a := k.Answer(id); a.Reset == nil || *a.Reset != http2.ErrCodeProtocol {
			t.Errorf("%q: %v, want a reset", fields, a)
		}
		id += 2
	}
	for _, c := range []struct {
		name string
		send func(id uint32)
		code http2.ErrCode
	}{
		{"less than the length", func(id uint32) {
			k.Headers(id, false, append(h2test.Post("/"), "content-length", "3")...)
			k.Must(k.WriteData(id, true, []byte("ab")))
		}, http2.ErrCodeProtocol},
		{"more than the length", func(id uint32) {
			k.Headers(id, false, append(h2test.Post("/"), "content-length", "3")...)
			k.Must(k.WriteData(id, false, []byte("abcd")))
		}, http2.ErrCodeProtocol},
		{"pseudo fields in a trailer", func(id uint32) {
			k.Headers(id, false, h2test.Post("/")...)
			k.Headers(id, true, ":path", "/")
		}, http2.ErrCodeProtocol},
		{"HEADERS in the middle", func(id uint32) {
			k.Headers(id, false, h2test.Post("/")...)
			k.Headers(id, false, "x", "y")
		}, http2.ErrCodeProtocol},
		{"a window of 0", func(id uint32) {
			k.Headers(id, false, h2test.Post("/")...)
			k.Must(k.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4)))
		}, http2.ErrCodeProtocol},
		{"a window too large", func(id uint32) {
			k.Headers(id, false, h2test.Post("/")...)
			k.Must(k.WriteWindowUpdate(id, maxWindow))
		}, http2.ErrCodeFlowControl},
	} {
		before := handled.Load()
		c.send(id)
		if a := k.Answer(id); a.Reset == nil || *a.Reset != c.code {
			t.Errorf("%s: %v, want %v", c.name, a, c.code)
		}
		if n := handled.Load(); n > before+1 {
			t.Errorf("%s: %d requests", c.name, n-before)
		}
		id += 2
	}
	k.Headers(id, true, h2test.Get("/")...)
	if a := k.Answer(id); a.Status != "200" {
		t.Errorf("a request after all that: %v", a)
	}
}

// A malformed frame ends the connection, and the peer is told why.
//
// Covers: issue6 http2
func TestMalformedFramesEndTheConnection(t *testing.T) {
	raw := func(kind http2.FrameType, flags http2.Flags, id uint32, payload ...byte) func(*h2test.Client) {
		return func(k *h2test.Client) { k.Must(k.WriteRawFrame(kind, flags, id, payload)) }
	}
	get := func(k *h2test.Client) { k.Headers(1, true, h2test.Get("/")...) }
	both := func(f ...func(*h2test.Client)) func(*h2test.Client) {
		return func(k *h2test.Client) {
			for _, g := range f {
				g(k)
			}
		}
	}
	for _, c := range []struct {
		name string
		send func(*h2test.Client)
		code http2.ErrCode
	}{
		{"a frame too long", raw(http2.FrameData, 0, 1, make([]byte, maxFrame+1)...), http2.ErrCodeFrameSize},
		{"DATA on stream 0", raw(http2.FrameData, 0, 0, 1), http2.ErrCodeProtocol},
		{"DATA on an idle stream", raw(http2.FrameData, 0, 1, 1), http2.ErrCodeProtocol},
		{"DATA on an even stream", both(get, raw(http2.FrameData, 0, 2, 1)), http2.ErrCodeProtocol},
		{"padding without its octet", both(func(k *h2test.Client) { k.Headers(1, false, h2test.Post("/")...) }, raw(http2.FrameData, http2.FlagDataPadded, 1)), http2.ErrCodeFrameSize},
		{"more padding than frame", both(func(k *h2test.Client) { k.Headers(1, false, h2test.Post("/")...) }, raw(http2.FrameData, http2.FlagDataPadded, 1, 9, 0, 0)), http2.ErrCodeProtocol},
		{"HEADERS on stream 0", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, 0x82), http2.ErrCodeProtocol},
		{"HEADERS on an even stream", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 2, 0x82), http2.ErrCodeProtocol},
		{"HEADERS with more padding than frame", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersPadded, 1, 9, 0x82), http2.ErrCodeProtocol},
		{"HEADERS that depend on themselves", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersPriority, 1, 0, 0, 0, 1, 9, 0x82), http2.ErrCodeProtocol},
		{"a lower stream", both(func(k *h2test.Client) { k.Headers(5, true, h2test.Get("/")...) }, func(k *h2test.Client) { k.Headers(3, true, h2test.Get("/")...) }), http2.ErrCodeProtocol},
		{"a stream again", both(get, func(k *h2test.Client) { k.Answer(1); get(k) }), http2.ErrCodeStreamClosed},
		{"HPACK that is none", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, 0xff, 0xff, 0xff, 0xff), http2.ErrCodeCompression},
		{"HPACK that is cut", raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, 0x40, 9, 'a'), http2.ErrCodeCompression},
		{"CONTINUATION of nothing", raw(http2.FrameContinuation, 0, 1, 0x82), http2.ErrCodeProtocol},
		{"a block that is interrupted", both(raw(http2.FrameHeaders, 0, 1, 0x82), raw(http2.FramePing, 0, 0, make([]byte, 8)...)), http2.ErrCodeProtocol},
		{"a block that goes on elsewhere", both(raw(http2.FrameHeaders, 0, 1, 0x82), raw(http2.FrameContinuation, 0, 3, 0x82)), http2.ErrCodeProtocol},
		{"PRIORITY of stream 0", raw(http2.FramePriority, 0, 0, 0, 0, 0, 3, 1), http2.ErrCodeProtocol},
		{"RST_STREAM of stream 0", raw(http2.FrameRSTStream, 0, 0, 0, 0, 0, 8), http2.ErrCodeProtocol},
		{"RST_STREAM of an idle stream", raw(http2.FrameRSTStream, 0, 1, 0, 0, 0, 8), http2.ErrCodeProtocol},
		{"RST_STREAM that is short", both(get, raw(http2.FrameRSTStream, 0, 1, 8)), http2.ErrCodeFrameSize},
		{"SETTINGS on a stream", raw(http2.FrameSettings, 0, 1), http2.ErrCodeProtocol},
		{"SETTINGS with half a parameter", raw(http2.FrameSettings, 0, 0, 1, 2, 3), http2.ErrCodeFrameSize},
		{"an acknowledgement with content", raw(http2.FrameSettings, http2.FlagSettingsAck, 0, 0, 1, 0, 0, 0, 0), http2.ErrCodeFrameSize},
		{"a push setting of 2", raw(http2.FrameSettings, 0, 0, 0, 2, 0, 0, 0, 2), http2.ErrCodeProtocol},
		{"a window above 2^31-1", raw(http2.FrameSettings, 0, 0, 0, 4, 0x80, 0, 0, 0), http2.ErrCodeFlowControl},
		{"frames too small", raw(http2.FrameSettings, 0, 0, 0, 5, 0, 0, 0, 1), http2.ErrCodeProtocol},
		{"frames too large", raw(http2.FrameSettings, 0, 0, 0, 5, 1, 0, 0, 0), http2.ErrCodeProtocol},
		{"PUSH_PROMISE", raw(http2.FramePushPromise, 4, 1, 0, 0, 0, 2, 0x82), http2.ErrCodeProtocol},
		{"PING on a stream", raw(http2.FramePing, 0, 1, make([]byte, 8)...), http2.ErrCodeProtocol},
		{"a short PING", raw(http2.FramePing, 0, 0, 1), http2.ErrCodeFrameSize},
		{"GOAWAY on a stream", raw(http2.FrameGoAway, 0, 1, make([]byte, 8)...), http2.ErrCodeProtocol},
		{"a short GOAWAY", raw(http2.FrameGoAway, 0, 0, 1), http2.ErrCodeFrameSize},
		{"a short WINDOW_UPDATE", raw(http2.FrameWindowUpdate, 0, 0, 1), http2.ErrCodeFrameSize},
		{"a window of 0", raw(http2.FrameWindowUpdate, 0, 0, 0, 0, 0, 0), http2.ErrCodeProtocol},
		{"a window too large", raw(http2.FrameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff), http2.ErrCodeFlowControl},
		{"a window of an idle stream", raw(http2.FrameWindowUpdate, 0, 1, 0, 0, 0, 1), http2.ErrCodeProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, Config{}, false, func(s *Stream) {
				_ = text(s)
				_ = s.Respond([]byte(ok), nil, true)
			})
			c.send(s.k)
			if code, told := s.k.End(); !told || code != c.code {
				t.Errorf("%v, told %t; want %v", code, told, c.code)
			}
		})
	}
	for _, first := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n........", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n.........", Preface + "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"} {
		s := serve(t, Config{}, true, echo)
		_, err := io.WriteString(s.k.Conn, first)
		s.k.Must(err)
		if code, told := s.k.End(); !told || code != http2.ErrCodeProtocol {
			t.Errorf("%q: %v, told %t", first, code, told)
		}
	}
}

// What a peer may do now and then it may not do without end: each flood ends the connection, with a reason of its own.
//
// Covers: issue6 http2 floods, gateway fault 39
func TestFloodsEndTheConnection(t *testing.T) {
	big := bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 1000)
	for _, c := range []struct {
		reason string
		send   func(k *h2test.Client, i int) error
	}{
		{"pings", func(k *h2test.Client, _ int) error { return k.WritePing(false, [8]byte{}) }},
		{"settings", func(k *h2test.Client, _ int) error { return k.WriteSettings() }},
		{"settings", func(k *h2test.Client, _ int) error { return k.WriteSettingsAck() }},
		{"empty_frames", func(k *h2test.Client, i int) error {
			if i == 0 {
				k.Headers(1, false, h2test.Post("/")...)
			}
			return k.WriteData(1, false, nil)
		}},
		{"empty_frames", func(k *h2test.Client, _ int) error { return k.WriteRawFrame(0x77, 0, 0, []byte("x")) }},
		{"empty_frames", func(k *h2test.Client, _ int) error {
			return k.WritePriority(9, http2.PriorityParam{StreamDep: 1})
		}},
		{"window_updates", func(k *h2test.Client, _ int) error { return k.WriteWindowUpdate(0, 1) }},
		{"resets", func(k *h2test.Client, i int) error {
			k.Headers(uint32(2*i+1), true, h2test.Get("/")...)
			return k.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
		}},
		{"resets", func(k *h2test.Client, i int) error { // malformed, so that we are the ones who reset
			return k.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: k.Block("x", "y"), EndStream: true, EndHeaders: true})
		}},
		{"continuations", func(k *h2test.Client, i int) error {
			if i == 0 {
				return k.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: k.Block(h2test.Get("/")...)})
			}
			return k.WriteContinuation(1, false, nil)
		}},
		{"continuations", func(k *h2test.Client, i int) error {
			if i == 0 {
				return k.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: k.Block(h2test.Get("/")...)})
			}
			return k.WriteContinuation(1, false, big)
		}},
	} {
		s := serve(t, Config{}, false, func(s *Stream) { _ = text(s); _, _ = io.Copy(io.Discard, s) })
		s.k.Until("SETTINGS", func() bool { return len(s.k.Settings) > 0 }) // whose answer must not come into a header block
		var sending sync.WaitGroup
		sending.Go(func() {
			// Written on its own, as the flooded end may stop reading. Headers fails the test when the connection has ended.
			k := h2test.Raw(quiet{t}, s.k.Conn)
			for i := range 20_000 {
				if c.send(k, i) != nil {
					return
				}
			}
		})
		code, told := s.k.End()
		_ = s.k.Conn.Close()
		sending.Wait()
		err, fault := <-s.done, (*ConnError)(nil)
		if !errors.As(err, &fault) || fault.Code != EnhanceYourCalm || fault.Reason != c.reason {
			t.Errorf("%s: ended by %v", c.reason, err)
		}
		if told && code != http2.ErrCodeEnhanceYourCalm { // the system may throw the word away when much is unread
			t.Errorf("%s: the peer was told %v", c.reason, code)
		}
	}
}

// quiet is a test whose connection may end at any moment.
type quiet struct{ testing.TB }

func (quiet) Fatal(...any) {}

// Handlers that still run count, so that resets make no room for more of them; what is beyond is refused.
//
// Covers: issue6 http2 floods, gateway fault 39
func TestResetsMakeNoRoom(t *testing.T) {
	const most = 5
	var running, peak atomic.Int32
	goOn := make(chan struct{})
	s := serve(t, Config{MaxStreams: most}, false, func(s *Stream) {
		_ = text(s)
		n := running.Add(1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		<-goOn
		running.Add(-1)
		_ = s.Respond([]byte(ok), nil, true)
	})
	k := s.k
	for i := range most {
		k.Headers(uint32(2*i+1), true, h2test.Get("/")...)
	}
	id := uint32(2*most + 1)
	k.Headers(id, true, h2test.Get("/")...)
	if a := k.Answer(id); a.Reset == nil || *a.Reset != http2.ErrCodeRefusedStream {
		t.Errorf("one too many: %v", a)
	}
	for i := range most {
		k.Must(k.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel))
	}
	for range 20 {
		id += 2
		k.Headers(id, true, h2test.Get("/")...)
		if a := k.Answer(id); a.Reset == nil || *a.Reset != http2.ErrCodeRefusedStream {
			t.Errorf("after resets: %v", a)
		}
	}
	close(goOn)
	for a := k.On(id); a.Status == ""; { // as soon as the handlers have ended
		id += 2
		k.Headers(id, true, h2test.Get("/")...)
		a = k.Answer(id)
	}
	if p := peak.Load(); p > most {
		t.Errorf("%d handlers at once", p)
	}
}

// A response goes as far as the windows allow, the connection's and the stream's, and goes on when there is room; a change of
// the first window holds for streams that are open.
//
// Covers: issue6 http2 flow control
func TestResponsesKeepToTheWindows(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 20_000)
	s := serve(t, Config{}, false, func(s *Stream) {
		_ = text(s)
		_ = s.Respond([]byte(ok), body, true)
	}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	k := s.k
	k.Greedy = false
	k.Headers(1, true, h2test.Get("/")...)
	a := k.On(1)
	k.Until("10 octets", func() bool { return len(a.Body) >= 10 })
	k.Must(k.WritePing(false, [8]byte{1}))
	k.Until("PING", func() bool { return len(k.Pings) == 1 })
	if len(a.Body) != 10 {
		t.Fatalf("%d octets in a window of 10", len(a.Body))
	}
	k.Must(k.WriteWindowUpdate(1, 5))
	k.Until("5 more", func() bool { return len(a.Body) >= 15 })
	k.Must(k.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	k.Until("the connection's window", func() bool { return len(a.Body) >= firstWindow })
	k.Must(k.WritePing(false, [8]byte{2}))
	k.Until("PING", func() bool { return len(k.Pings) == 2 })
	if len(a.Body) != firstWindow {
		t.Fatalf("%d octets in a window of %d", len(a.Body), firstWindow)
	}
	k.Must(k.WriteWindowUpdate(0, 1<<20))
	if k.Answer(1); !bytes.Equal(a.Body, body) {
		t.Errorf("%d octets, want %d", len(a.Body), len(body))
	}
}

// A body comes as fast as it is taken: a stream that nobody reads from holds what its window is and no more, and its siblings
// go on.
//
// Covers: issue6 http2 flow control, gateway fault 28, gateway fault 40
func TestBodiesKeepToTheWindows(t *testing.T) {
	read := make(chan struct{})
	s := serve(t, Config{}, false, func(s *Stream) {
		switch head := text(s); {
		case strings.HasPrefix(head, "POST /slow"):
			<-read
		case strings.HasPrefix(head, "POST /never"):
			gone := make(chan struct{})
			s.OnGone(func() { close(gone) })
			<-gone
			return
		}
		n, err := io.Copy(io.Discard, s)
		_ = s.Respond([]byte(ok), fmt.Appendf(nil, "%d %v", n, err), true)
	})
	k := s.k
	if k.Until("SETTINGS", func() bool { return len(k.Settings) > 0 }); k.Settings[http2.SettingInitialWindowSize] != streamWindow {
		t.Fatalf("settings: %v", k.Settings)
	}
	part := make([]byte, maxFrame)
	k.Headers(1, false, h2test.Post("/slow")...)
	for range streamWindow / maxFrame {
		k.Must(k.WriteData(1, false, part))
	}
	k.Headers(3, false, h2test.Post("/quick")...)
	sent := 0
	for ; sent < 2<<20; sent += maxFrame {
		k.Until("room", func() bool { return streamWindow+k.On(3).Credit-sent >= maxFrame })
		k.Must(k.WriteData(3, false, part))
	}
	k.Must(k.WriteData(3, true, nil))
	if a := k.Answer(3); string(a.Body) != fmt.Sprintf("%d <nil>", sent) {
		t.Errorf("the quick one: %v", a)
	}
	if c := k.On(1).Credit; c != 0 {
		t.Errorf("the slow one got %d octets of room", c)
	}
	if c := k.On(0).Credit; c < sent-connWindow {
		t.Errorf("the connection got %d octets of room", c)
	}
	close(read)
	k.Until("room", func() bool { return k.On(1).Credit > 0 })
	k.Must(k.WriteData(1, true, part))
	if a := k.Answer(1); string(a.Body) != fmt.Sprintf("%d <nil>", streamWindow+maxFrame) {
		t.Errorf("the slow one: %v", a)
	}
	k.Headers(5, false, h2test.Post("/never")...) // more than it has room for
	for range streamWindow/maxFrame + 1 {
		k.Must(k.WriteData(5, false, part))
	}
	if a := k.Answer(5); a.Reset == nil || *a.Reset != http2.ErrCodeFlowControl {
		t.Errorf("beyond the window: %v", a)
	}
}

// The peer learns that no more streams are to be begun, in two steps; what was begun before the second one is answered, and then the
// connection ends.
//
// Covers: issue6 http2 drain
func TestShutdownLetsStreamsEnd(t *testing.T) {
	goOn := make(chan struct{})
	s := serve(t, Config{LeaveWait: time.Minute}, false, func(s *Stream) {
		_ = text(s)
		<-goOn
		_ = s.Respond([]byte(ok), []byte("done"), true)
	})
	k := s.k
	k.Quiet = true
	k.Headers(1, true, h2test.Get("/")...)
	k.Until("SETTINGS", func() bool { return len(k.Settings) > 0 })
	s.Shutdown()
	s.Shutdown()
	k.Until("GOAWAY", func() bool { return len(k.GoAways) == 1 && len(k.Pings) == 1 })
	if g := k.GoAways[0]; g.LastStreamID != maxStream || g.ErrCode != 0 {
		t.Errorf("the first step: %v", g)
	}
	k.Headers(3, true, h2test.Get("/")...) // it was on its way
	k.Must(k.WritePing(true, k.Pings[0].Data))
	k.Until("the second GOAWAY", func() bool { return len(k.GoAways) == 2 })
	if g := k.GoAways[1]; g.LastStreamID != 3 || g.ErrCode != 0 {
		t.Errorf("the second step: %v", g)
	}
	k.Headers(5, true, h2test.Get("/")...) // it knows better: this is not answered
	close(goOn)
	for _, id := range []uint32{1, 3} {
		if a := k.Answer(id); string(a.Body) != "done" {
			t.Errorf("stream %d: %v", id, a)
		}
	}
	k.End()
	if a := k.On(5); a.Over() || a.Status != "" {
		t.Errorf("the late one: %v", a)
	}
	if err := <-s.done; err != nil {
		t.Errorf("ended by %v", err)
	}

	s = serve(t, Config{}, false, echo) // one that never answers the PING, and one that has nothing to do
	s.k.Quiet = true
	s.k.Until("SETTINGS", func() bool { return len(s.k.Settings) > 0 })
	s.Shutdown()
	if s.k.End(); len(s.k.GoAways) != 2 {
		t.Errorf("GOAWAY %v", s.k.GoAways)
	}
	s = serve(t, Config{}, false, echo) // the peer leaves
	s.k.Must(s.k.WriteGoAway(0, http2.ErrCodeNo, nil))
	s.k.End()
	if err := <-s.done; err != nil {
		t.Errorf("ended by %v", err)
	}
}

// What a peer takes its time for ends: a head that does not come, a connection without requests, a response that it gives no room.
//
// Covers: issue6 http2, gateway fault 46
func TestTimeLimits(t *testing.T) {
	short := Config{HeadTimeout: 50 * time.Millisecond, IdleTimeout: 50 * time.Millisecond, WriteTimeout: 50 * time.Millisecond}
	ends := func(name string, cfg Config, want Code, reason string, send func(k *h2test.Client)) {
		s := serve(t, cfg, true, func(s *Stream) { _ = text(s); _ = s.Respond([]byte(ok), make([]byte, 100_000), true) })
		send(s.k)
		err, fault := <-s.done, (*ConnError)(nil)
		if !errors.As(err, &fault) || fault.Code != want || fault.Reason != reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	begin := func(k *h2test.Client) {
		_, err := io.WriteString(k.Conn, Preface)
		k.Must(err)
	}
	ends("no preface", Config{HeadTimeout: short.HeadTimeout}, ProtocolError, "head_timeout", func(*h2test.Client) {})
	ends("half a head", Config{HeadTimeout: short.HeadTimeout}, ProtocolError, "head_timeout", func(k *h2test.Client) {
		begin(k)
		k.Must(k.WriteSettings())
		k.Must(k.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: k.Block(h2test.Get("/")...)}))
	})
	ends("half a frame", Config{HeadTimeout: short.HeadTimeout}, ProtocolError, "head_timeout", func(k *h2test.Client) {
		begin(k)
		k.Must(k.WriteSettings())
		_, err := k.Conn.Write([]byte{0, 0})
		k.Must(err)
	})
	ends("nothing to do", Config{IdleTimeout: short.IdleTimeout}, NoError, "idle", func(k *h2test.Client) {
		begin(k)
		k.Must(k.WriteSettings())
	})
	ends("half a frame of DATA", Config{PartTimeout: 50 * time.Millisecond}, ProtocolError, "body_timeout", func(k *h2test.Client) {
		begin(k)
		k.Must(k.WriteSettings())
		k.Headers(1, false, h2test.Post("/")...)
		_, err := k.Conn.Write([]byte{0, 1, 0, 0, 0, 0, 0, 0, 1, 'x'})
		k.Must(err)
	})
	waits := func(s *Stream) {
		_ = text(s)
		if _, _, err := s.ReadLent(nil, 0); !errors.Is(err, errGone) { // which ends with the connection
			t.Errorf("read: %v", err)
		}
	}
	s := serve(t, Config{Silence: 50 * time.Millisecond}, false, waits)
	s.k.Quiet = true
	s.k.Headers(1, false, h2test.Post("/")...)
	for n := range 3 { // a peer that answers stays
		s.k.Until("PING", func() bool { return len(s.k.Pings) > n })
		s.k.Must(s.k.WritePing(true, s.k.Pings[n].Data))
	}
	s = serve(t, Config{Silence: 50 * time.Millisecond, Answer: 50 * time.Millisecond}, false, waits)
	s.k.Headers(1, false, h2test.Post("/")...)
	var silent *ConnError
	if err := <-s.done; !errors.As(err, &silent) || silent.Reason != "silent" {
		t.Errorf("a peer that is not there: %v", err)
	}
	s = serve(t, Config{WriteTimeout: short.WriteTimeout}, false, func(s *Stream) {
		n := 100_000
		if strings.Contains(text(s), "/small") {
			n = 10
		}
		_ = s.Respond([]byte(ok), make([]byte, n), true)
	})
	s.k.Greedy = false
	s.k.Headers(1, true, h2test.Get("/")...)
	if a := s.k.Answer(1); a.Reset == nil || *a.Reset != http2.ErrCodeInternal || len(a.Body) != firstWindow {
		t.Errorf("no room: %v", a)
	}
	s.k.Must(s.k.WriteWindowUpdate(0, 1<<20))
	s.k.Headers(3, true, h2test.Get("/small")...) // a sibling goes on
	if a := s.k.Answer(3); !a.Ended || len(a.Body) != 10 {
		t.Errorf("a sibling: %v", a)
	}
}

// What is read of a body has its limits, and ends when it is cut, when the peer resets the stream, and when the connection ends.
//
// Covers: issue6 http2
func TestReadsEnd(t *testing.T) {
	errs, begun := make(chan error, 1), make(chan struct{}, 1)
	s := serve(t, Config{}, false, func(s *Stream) {
		head := text(s)
		begun <- struct{}{} // one that is reset before that is not handled at all
		gone := make(chan struct{})
		s.OnGone(func() { close(gone) })
		switch {
		case strings.Contains(head, "/late"):
			s.ReadBy(s.c.cfg.Clock.Now().Add(time.Millisecond))
		case strings.Contains(head, "/cut"):
			s.CutReads()
		case strings.Contains(head, "/kill"):
			s.Kill()
		}
		_, _, err := s.ReadLent(nil, 0)
		if strings.Contains(head, "/reset") || strings.Contains(head, "/end") {
			<-gone
			if w := s.Write([]byte("x"), true); w == nil {
				err = fmt.Errorf("a write after %w", err)
			}
		}
		errs <- err
	})
	k := s.k
	for i, c := range []struct {
		path string
		want error
	}{{"/late", conn.ErrTimeout}, {"/cut", conn.ErrCut}, {"/kill", conn.ErrCut}, {"/reset", errGone}, {"/end", errGone}} {
		id := uint32(2*i + 1)
		k.Headers(id, false, h2test.Post(c.path)...)
		<-begun
		switch c.path {
		case "/reset":
			k.Must(k.WriteRSTStream(id, http2.ErrCodeCancel))
		case "/end":
			k.Must(k.Conn.Close())
		}
		if err := <-errs; !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.path, err, c.want)
		}
	}
}

// What a peer says that nobody reads any more can be read to its end all the same, however much it is, and no longer than to an instant.
//
// Covers: issue6 http2, issue6 websocket
func TestDiscard(t *testing.T) {
	cut, goOn := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{}, false, func(s *Stream) {
		wait := 30 * time.Second
		if strings.Contains(text(s), "/stays") {
			wait = time.Millisecond
		}
		s.CutReads()
		cut <- struct{}{}
		<-goOn
		s.Discard(s.c.cfg.Clock.Now().Add(wait))
		_ = s.Respond([]byte(ok), nil, true)
	})
	k := s.k
	k.Headers(1, false, h2test.Post("/")...)
	k.Headers(3, false, h2test.Post("/stays")...)
	<-cut
	<-cut
	for range 10 {
		k.Must(k.WriteData(1, false, make([]byte, 10_000)))
	}
	k.Must(k.WritePing(false, [8]byte{}))
	k.Until("the end of what was thrown away", func() bool { return len(k.Pings) == 1 })
	close(goOn)
	k.Until("room for more", func() bool { return k.On(1).Credit >= 100_000 })
	for i := range 10 {
		k.Must(k.WriteData(1, i == 9, make([]byte, 10_000)))
	}
	if a := k.Answer(1); a.Status != "200" || !a.Ended {
		t.Errorf("one that ends: %v", a)
	}
	if a := k.Answer(3); a.Status != "200" || !a.Ended {
		t.Errorf("one that does not: %v", a)
	}
}

// What was read is given back when less of it is taken.
func TestReadsOfAnySize(t *testing.T) {
	s := serve(t, Config{}, false, func(s *Stream) {
		_ = text(s)
		var got []byte
		for one := make([]byte, 3); ; {
			n, err := s.Read(one)
			got = append(got, one[:n]...)
			if err != nil {
				break
			}
		}
		_ = s.Respond([]byte(ok), got, true)
	})
	s.k.Headers(1, false, h2test.Post("/")...)
	s.k.Must(s.k.WriteData(1, false, []byte("0123456789")))
	s.k.Must(s.k.WriteData(1, true, []byte("abc")))
	if a := s.k.Answer(1); string(a.Body) != "0123456789abc" {
		t.Errorf("%v", a)
	}
}

// A head above the limit is answered, and the state of HPACK is kept for those that follow.
//
// Covers: issue6 http2 limits
func TestLargeHeads(t *testing.T) {
	s := serve(t, Config{Limits: h1.Limits{Head: 2000}}, false, func(s *Stream) {
		if s.TooLarge {
			_ = s.Respond([]byte("HTTP/1.1 431 Too Large\r\n\r\n"), nil, true)
			return
		}
		echo(s)
	})
	k := s.k
	for i, c := range []struct {
		fields []string
		status string
	}{
		{append(h2test.Get("/"), "x-kept", "in the table", "a", strings.Repeat("x", 5000)), "431"},
		{append(h2test.Get("/"), "x-kept", "in the table"), "200"},
		{append(h2test.Get("/"), "x-kept", "in the table", "a", strings.Repeat("x", 1000)), "200"},
	} {
		id := uint32(2*i + 1)
		k.Headers(id, true, c.fields...)
		if a := k.Answer(id); a.Status != c.status || c.status == "200" && !strings.Contains(string(a.Body), "x-kept: in the table\r\n") {
			t.Errorf("%d: %v, want %s", i, a, c.status)
		}
	}
}

// A large head of a response goes in several frames, and fields about a connection stay behind.
//
// Covers: issue6 http2
func TestResponseHeads(t *testing.T) {
	long := strings.Repeat("v", 20_000)
	s := serve(t, Config{}, false, func(s *Stream) {
		_ = text(s)
		_ = s.WriteHead([]byte("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), false)
		head := "HTTP/1.1 207 Multi-Status\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nKeep-Alive: 1\r\nUpgrade: x\r\nProxy-Connection: x\r\nX-Long: " + long +
			"\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nEmpty: \r\n\r\n"
		_ = s.Respond([]byte(head), []byte("body"), false)
		var trailer h1.Head
		_ = s.WriteTrailer(&trailer, nil)
	})
	s.k.Headers(1, true, h2test.Get("/")...)
	a := s.k.Answer(1)
	if got := strings.Join(a.Fields, "\n"); a.Status != "207" || got != "x-long: "+long+"\nset-cookie: a=b\nset-cookie: c=d\nempty: " || string(a.Body) != "body" || len(a.Early) != 1 || a.Early[0] != "103" {
		t.Errorf("%v %v %d octets of fields", a, a.Early, len(got))
	}
}

// Integers are encoded as RFC 7541 says in its examples.
//
// Covers: issue6 http2
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		bits uint
		n    int
		want []byte
	}{{5, 10, []byte{10}}, {5, 1337, []byte{31, 154, 10}}, {8, 42, []byte{42}}, {7, 127, []byte{127, 0}}} {
		if got := appendInt(nil, 0, c.bits, c.n); !bytes.Equal(got, c.want) {
			t.Errorf("%d in %d bits: %v, want %v", c.n, c.bits, got, c.want)
		}
	}
	if f := readFrame(appendFrame(nil, 0x123456, framePing, 1, 7)); f != (frame{0x123456, framePing, 1, 7}) {
		t.Errorf("%v", f)
	}
	if b := appendReset(nil, 1, Cancel); binary.BigEndian.Uint32(b[frameHead:]) != 8 {
		t.Errorf("%v", b)
	}
}

package edge

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/h2test"
)

// provenOrigin is socketOrigin for streams: it proves that it took the handshake.
func provenOrigin(t *testing.T) (addr string, got chan []byte) {
	t.Helper()
	got = make(chan []byte, 100)
	s := script(t, func(_ int, k *talk) {
		head := k.readHead()
		_, key, found := strings.Cut(head, "sec-websocket-key: ")
		key, _, _ = strings.Cut(key, "\r\n")
		if !found { // an ordinary request, which is never answered to its end
			k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "x", "")
			_, _ = io.Copy(io.Discard, k.r)
			return
		}
		k.say("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: upgrade", "Sec-WebSocket-Accept: "+string(accepted(key)), "", "")
		var all bytes.Buffer
		_, _ = io.Copy(io.MultiWriter(k.TCPConn, &all), k.r)
		got <- all.Bytes()
	})
	return s.addr(), got
}

// socketOn asks for a WebSocket on a stream.
func socketOn(k *h2test.Client, id uint32) *h2test.Answer {
	k.Headers(id, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "a", ":path", "/", "sec-websocket-version", "13")
	a := k.On(id)
	k.Until("a WebSocket", func() bool { return a.Status == "200" })
	return a
}

// WebSockets over HTTP/2 that are still open when a gateway goes are told so on both sides by a Close (1001) between two frames, and the
// stream ends after it. One that is in the middle of a frame is reset, and one that has said Close itself is not told again. What else is
// on the connection does not keep them from it.
//
// Covers: issue6 websocket, issue6 http2 drain
func TestWebSocketsOverHTTP2AreToldToGo(t *testing.T) {
	message := frame(1, true, 300)
	for name, last := range map[string][]byte{"between": nil, "in a frame": message[:100], "after a Close": frame(opClose, true, 2)} {
		t.Run(name, func(t *testing.T) {
			addr, got := provenOrigin(t)
			d, _ := one(addr)
			b := start(t, Config{Drain: time.Millisecond}, d)
			k := b.two(t)
			k.Headers(1, true, h2test.Get("/")...)
			k.Until("a response", func() bool { return len(k.On(1).Body) == 1 })
			a := socketOn(k, 3)
			sent := append(bytes.Clone(message), last...)
			k.Must(k.WriteData(3, false, sent))
			k.Until("the echo", func() bool { return len(a.Body) == len(sent) })
			stopped := make(chan error, 1)
			go func() { stopped <- b.stop() }()
			k.Answer(3)
			if !k.On(1).Over() {
				k.Answer(1)
			}
			if a.Ended {
				_ = k.WriteData(3, true, frame(opClose, true, 2)) // which is not waited for for ever
			}
			code, told := k.End()
			_ = k.Conn.Close()
			atOrigin := <-got
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			rest, said := bytes.TrimPrefix(a.Body, sent), bytes.TrimPrefix(atOrigin, sent)
			switch name {
			case "between":
				if !a.Ended || !isClose(rest) {
					t.Errorf("the client was told %x: %v", rest, a)
				}
				if len(said) != 8 || said[0] != 0x88 || said[1] != 0x82 || said[6]^said[2] != 0x03 || said[7]^said[3] != 0xe9 {
					t.Errorf("the origin was told %x", said)
				}
			default:
				if len(rest)+len(said) > 0 {
					t.Errorf("the client was told %x, the origin %x", rest, said)
				}
				if cut := name == "in a frame"; a.Ended == cut || cut && *a.Reset != http2.ErrCodeInternal {
					t.Errorf("the end: %v", a)
				}
			}
			if a := k.On(1); a.Reset == nil || *a.Reset != http2.ErrCodeInternal {
				t.Errorf("the response that was cut: %v", a)
			}
			if !told || code != http2.ErrCodeNo {
				t.Errorf("the end of the connection: %v, told %t", code, told)
			}
			logged := false
			for _, line := range b.log.all(t) {
				logged = logged || line["status"] == 200.0 && line["reason"] == "going_away" && line["method"] == "GET" && line["in"] == float64(len(sent))
			}
			if !logged {
				t.Errorf("log: %v", b.log.all(t))
			}
		})
	}
}

// A WebSocket over HTTP/2 in which nobody says anything, which has lasted as long as it may, or whose route is removed, is told to go too;
// its connection goes on.
//
// Covers: issue6 websocket, issue6 proxy limits
func TestWebSocketsOverHTTP2EndInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		route  *Route
		reason string
	}{
		"idle":    {&Route{Service: "shop", Name: "all", TunnelTimeout: 50 * time.Millisecond}, "tunnel_idle"},
		"life":    {&Route{Service: "shop", Name: "all", TunnelLife: 50 * time.Millisecond}, "going_away"},
		"removed": {&Route{Service: "shop", Name: "all", Drain: time.Millisecond}, "going_away"},
	} {
		t.Run(name, func(t *testing.T) {
			addr, got := provenOrigin(t)
			b := start(t, Config{}, paths{"*": {route: c.route, group: group(addr)}})
			k := b.two(t)
			a := socketOn(k, 1)
			if name == "removed" {
				if err := b.Swap(siteOf(paths{})); err != nil {
					t.Fatal(err)
				}
			}
			if k.Answer(1); !a.Ended || !isClose(a.Body) {
				t.Errorf("the client was told %x: %v", a.Body, a)
			}
			k.Must(k.WriteData(1, true, frame(opClose, true, 2)))
			if said := <-got; len(said) != 8 {
				t.Errorf("the origin was told %x", said)
			}
			if line := b.log.wait(t, 1); line["reason"] != c.reason || line["status"] != 200.0 {
				t.Errorf("log: %v", line)
			}
			if name == "removed" {
				k.Headers(3, true, h2test.Get("/")...)
				if a := k.Answer(3); a.Status != "400" {
					t.Errorf("another request of the connection: %v", a)
				}
			}
			b.wants(t, `steer_edge_websockets 0`, `steer_edge_http2_streams 0`)
		})
	}
}

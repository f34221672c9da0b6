package edge

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/h2test"
)

// refusingOrigin is an origin of HTTP/2 that refuses every request: when its head has come, or with the end of its body. It says so.
func refusingOrigin(t *testing.T, atEnd bool, refuse func(fr *http2.Framer, id uint32) error) (addr string, headed, refused chan struct{}) {
	t.Helper()
	headed, refused = make(chan struct{}, 10), make(chan struct{}, 10)
	s := script(t, func(_ int, k *talk) {
		if _, err := io.ReadFull(k.r, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		fr := http2.NewFramer(k, k.r)
		fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if fr.WriteSettings() != nil {
			return
		}
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			ended := f.Header().Flags.Has(http2.FlagDataEndStream)
			switch f.Header().Type {
			case http2.FrameHeaders:
				headed <- struct{}{}
				ended = ended || !atEnd
			case http2.FrameData:
				ended = ended && atEnd
			default:
				ended = false
			}
			if ended {
				_ = refuse(fr, f.Header().StreamID)
				refused <- struct{}{}
			}
		}
	})
	return s.addr(), headed, refused
}

func refuseStream(fr *http2.Framer, id uint32) error {
	return fr.WriteRSTStream(id, http2.ErrCodeRefusedStream)
}

func goAway(fr *http2.Framer, _ uint32) error { return fr.WriteGoAway(0, http2.ErrCodeNo, nil) }

// taker is an origin of HTTP/2 that says what came.
func taker(t *testing.T) string {
	t.Helper()
	return multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %d %v", r.Method, r.ContentLength, strings.Count(string(body), "x"), err)
	})
}

// A request that an origin has not begun on is sent to another one with all of its body, whatever the method and whenever the body came,
// as long as all of it is kept; or else the client is told that it was refused.
//
// Covers: gateway T39, gateway fault 24, issue6 http2 origins
func TestRefusedUploadsAreSentAgain(t *testing.T) {
	const refused = "503 Service Unavailable: origin_refused\n"
	for _, c := range []struct {
		name   string
		atEnd  bool
		refuse func(*http2.Framer, uint32) error
		cfg    Config
		fields []string
		parts  []string // of the body: the first with the head, the second when the origin has that, the third when it has refused
		want   string
	}{
		{"before the body", false, refuseStream, Config{}, []string{"Content-Length: 3"}, []string{"", "", "xxx"}, "POST 3 3 <nil>"},
		{"goaway before the body", false, goAway, Config{}, []string{"Content-Length: 3"}, []string{"", "", "xxx"}, "POST 3 3 <nil>"},
		{"in the body", false, refuseStream, Config{}, []string{"Content-Length: 5000"}, []string{"xxx", "", strings.Repeat("x", 4997)}, "POST 5000 5000 <nil>"},
		{"after the body", true, refuseStream, Config{}, []string{"Content-Length: 5"}, []string{"xx", "xxx", ""}, "POST 5 5 <nil>"},
		{"goaway after the body", true, goAway, Config{}, []string{"Content-Length: 5"}, []string{"", "xxxxx", ""}, "POST 5 5 <nil>"},
		{"after chunks", true, refuseStream, Config{}, []string{"Transfer-Encoding: chunked"}, []string{"2\r\nxx\r\n", "1\r\nx\r\n0\r\n\r\n", ""}, "POST 3 3 <nil>"},
		{"after no chunks", true, refuseStream, Config{}, []string{"Transfer-Encoding: chunked"}, []string{"", "0\r\n\r\n", ""}, "POST 0 0 <nil>"},
		{"as much as is kept", true, refuseStream, Config{}, []string{"Transfer-Encoding: chunked"}, []string{"", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 60_000, strings.Repeat("x", 60_000)), ""}, "POST 60000 60000 <nil>"},
		{"before one that is not sent unasked", false, refuseStream, Config{}, []string{"Content-Length: 3", "Expect: 100-continue"}, []string{"", "", "xxx"}, "POST 3 3 <nil>"},
		{"before a long body", false, refuseStream, Config{}, []string{"Content-Length: 65537"}, []string{"", "", ""}, refused},
		{"before chunks", false, refuseStream, Config{}, []string{"Transfer-Encoding: chunked"}, []string{"", "", ""}, refused},
		{"after a trailer", true, refuseStream, Config{}, []string{"Transfer-Encoding: chunked"}, []string{"", "1\r\nx\r\n0\r\nSum: 1\r\n\r\n", ""}, refused},
		{"without room", true, refuseStream, Config{BodyMemory: 1}, []string{"Content-Length: 3"}, []string{"", "xxx", ""}, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad, headed, no := refusingOrigin(t, c.atEnd, c.refuse)
			d, g := two(bad, taker(t))
			b := start(t, c.cfg, d)
			k := dial(t, b.addr)
			k.send(append(append([]string{"POST / HTTP/1.1", "Host: a"}, c.fields...), "", c.parts[0])...)
			<-headed
			k.send(c.parts[1])
			<-no
			if strings.HasPrefix(c.fields[len(c.fields)-1], "Expect") {
				if r := k.head("POST"); r.StatusCode != 100 {
					t.Errorf("before the body: %d", r.StatusCode)
				}
			}
			k.send(c.parts[2])
			if _, body := k.get("POST"); body != c.want {
				t.Errorf("%q, want %q", body, c.want)
			}
			reports, tries := "o0 3 o1 0", 2.0
			if c.want == refused {
				reports, tries = "o0 3", 1.0
			}
			if line := b.log.wait(t, 1); line["tries"] != nil && line["tries"] != tries || g.said() != reports {
				t.Errorf("reports %s, log %v", g.said(), line)
			}
			b.wants(t, `steer_edge_body_memory_bytes 0`)
			if c.want != refused { // the connection goes on
				k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 1", "", "x")
				if _, body := k.get("POST"); body != "POST 1 1 <nil>" {
					t.Errorf("the next request: %q", body)
				}
			}
		})
	}
}

// The same holds of the streams of a client with HTTP/2, as gRPC sends them: head and body apart, and no length.
//
// Covers: gateway fault 24, issue6 http2 origins, issue6 http2
func TestRefusedStreamsAreSentAgain(t *testing.T) {
	bad, headed, _ := refusingOrigin(t, true, refuseStream)
	d, _ := two(bad, taker(t))
	d["*"].route.GRPC = true
	b := start(t, Config{}, d)
	k := b.two(t)
	k.Headers(1, false, h2test.Post("/")...)
	<-headed
	k.Must(k.WriteData(1, false, []byte("xxx")))
	k.Must(k.WriteData(1, true, []byte("xx")))
	if a := k.Answer(1); string(a.Body) != "POST 5 5 <nil>" {
		t.Errorf("%v", a)
	}
	b.wants(t, `steer_edge_body_memory_bytes 0`)
}

// A client that leaves, or is too slow, while the rest of its body is waited for is told what one is told whose origin takes it; and what
// is kept of a body is let go when the origin begins to answer.
//
// Covers: gateway fault 20, gateway fault 24, issue6 http2 origins
func TestRefusedUploadsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    Config
		status float64
		reason string
	}{
		"leaves": {Config{}, 499, "client_left"}, "slow": {Config{BodyTimeout: 100 * time.Millisecond}, 408, "body_timeout"},
	} {
		bad, _, no := refusingOrigin(t, false, refuseStream)
		d, _ := two(bad, taker(t))
		b := start(t, c.cfg, d)
		k := dial(t, b.addr)
		k.send("POST / HTTP/1.1", "Host: a", "Content-Length: 3", "", "x")
		if name == "leaves" {
			<-no
			_ = k.Close()
		} else if r, _ := k.get("POST"); r.StatusCode != 408 {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
		if line := b.log.wait(t, 1); line["status"] != c.status || line["reason"] != c.reason {
			t.Errorf("%s: log %v", name, line)
		}
		b.wants(t, `steer_edge_body_memory_bytes 0`)
	}

	goOn := make(chan struct{})
	d, _ := two(multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 3))
		<-goOn
		w.(http.Flusher).Flush()
		_, _ = io.Copy(w, r.Body)
	}))
	b := start(t, Config{}, d)
	k := b.two(t)
	k.Headers(1, false, h2test.Post("/")...)
	k.Must(k.WriteData(1, false, []byte("xxx")))
	b.wants(t, `steer_edge_body_memory_bytes 3`)
	close(goOn)
	k.Until("a head", func() bool { return k.On(1).Status == "200" })
	b.wants(t, `steer_edge_body_memory_bytes 0`)
	k.Must(k.WriteData(1, true, []byte("yy")))
	if a := k.Answer(1); string(a.Body) != "yy" {
		t.Errorf("%v", a)
	}
}

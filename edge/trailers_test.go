package edge

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"steerpoint/edge/internal/h2test"
)

// An origin with HTTP/1.1 is told that trailer fields are welcome when the client said so as it has to, and in our own words. Its trailer
// goes to whoever can have one.
//
// Covers: issue6 proxy, gateway fault 42
func TestOriginsAreToldWhoTakesTrailers(t *testing.T) {
	heads := make(chan string, 10)
	s := script(t, func(_ int, k *talk) {
		for {
			head := k.readHead()
			if head == "" {
				return
			}
			heads <- head
			k.say("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "2", "ok", "0", "Sum: 1", "", "")
		}
	})
	d, _ := one(s.addr())
	b := start(t, Config{}, d)
	told := func() bool {
		head := <-heads
		if strings.Contains(head, "deflate") || strings.Contains(strings.ToLower(head), "keep-alive") {
			t.Errorf("the origin was told %q", head)
		}
		named, said := strings.Count(head, "\r\nConnection: TE\r\n"), strings.Count(head, "\r\nTE: trailers\r\n")
		if lower := strings.ToLower(head); named != strings.Count(lower, "\r\nconnection:") || said != strings.Count(lower, "\r\nte:") || named != said || said > 1 {
			t.Errorf("the origin was told %q", head)
		}
		return said == 1
	}
	for _, c := range []struct {
		version string
		fields  []string
		want    bool
	}{
		{"1.1", []string{"TE: trailers", "Connection: TE"}, true},
		{"1.1", []string{"TE: deflate;q=0.5 ,\tTrailers", "Connection: keep-alive", "Connection: te"}, true},
		{"1.1", []string{"TE: deflate", "TE: trailers", "Connection: te, te"}, true},
		{"1.1", []string{"TE: trailers"}, false},
		{"1.1", []string{"TE: trailers", "Connection: keep-alive"}, false},
		{"1.1", []string{"TE: deflate, xtrailers, trailersx", "Connection: TE"}, false},
		{"1.1", []string{"TE:", "Connection: TE"}, false},
		{"1.1", nil, false},
		{"1.0", []string{"TE: trailers", "Connection: TE"}, false},
	} {
		k := dial(t, b.addr)
		k.send(append(append([]string{"GET / HTTP/" + c.version, "Host: a"}, c.fields...), "", "")...)
		r, body := k.get("GET")
		if sum := r.Trailer.Get("Sum"); body != "ok" || (sum == "1") != (c.version == "1.1") {
			t.Errorf("%v: %q, trailer %v", c.fields, body, r.Trailer)
		}
		if got := told(); got != c.want {
			t.Errorf("HTTP/%s %v: told %t, want %t", c.version, c.fields, got, c.want)
		}
	}
	k := b.two(t)
	for i, fields := range [][]string{append(h2test.Get("/"), "te", "trailers"), h2test.Get("/")} {
		id := uint32(2*i + 1)
		k.Headers(id, true, fields...)
		if a := k.Answer(id); string(a.Body) != "ok" || !slices.Equal(a.Trailer, []string{"sum: 1"}) {
			t.Errorf("HTTP/2: %v, trailer %v", a, a.Trailer)
		}
		if got := told(); got != (i == 0) {
			t.Errorf("HTTP/2 %v: told %t", fields, got)
		}
	}
}

// What is said of trailers does not get into the way of what is said to an origin of a WebSocket, or by HTTP/2.
//
// Covers: issue6 websocket, issue6 http2 origins
func TestTrailersAreAskedForOnce(t *testing.T) {
	heads := make(chan string, 1)
	s := script(t, func(_ int, k *talk) {
		heads <- k.readHead()
		k.say("HTTP/1.1 426 Upgrade Required", "Content-Length: 0", "", "")
	})
	d, _ := one(s.addr())
	k := dial(t, start(t, Config{}, d).addr)
	k.send("GET / HTTP/1.1", "Host: a", "Connection: Upgrade, TE", "Upgrade: websocket", "TE: trailers", "", "")
	k.get("GET")
	if head := <-heads; !strings.HasSuffix(head, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") || strings.Contains(head, "TE:") {
		t.Errorf("the origin was told %q", head)
	}
	d, _ = two(multiplexed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join(r.Header["Te"], "|"))
	}))
	k = dial(t, start(t, Config{}, d).addr)
	k.send("GET / HTTP/1.1", "Host: a", "Connection: TE", "TE: trailers", "", "")
	if _, body := k.get("GET"); body != "trailers" {
		t.Errorf("by HTTP/2 the origin was told %q", body)
	}
}

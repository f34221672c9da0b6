package edge

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// hiddenField marks a response that an origin hides in another one, or behind it.
const hiddenField = "X-Hidden"

// response makes what an origin says to one request: a response of which something is odd, perhaps with another one in its
// body or behind it.
func (m *maker) response() string {
	hidden := "HTTP/1.1 200 OK\r\n" + hiddenField + ": 1\r\nContent-Length: 0\r\n\r\n"
	status := "HTTP/1.1 200 OK\r\n"
	if m.odds(6) {
		status = pick(m, "HTTP/1.1 204 No Content\r\n", "HTTP/1.1 304 Not Modified\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 200\r\n", "HTTP/1.1 200 \r\n", "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
			"HTTP/1.1 101 Switching Protocols\r\n", "HTTP/1.1 0200 OK\r\n", "HTTP/1.1 99 X\r\n", "HTTP/2 200 OK\r\n", "HTTP/1.1 200 O\rK\r\n", " HTTP/1.1 200 OK\r\n", "\r\nHTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\n", "http/1.1 200 OK\r\n")
	}
	framing, body := m.framed(hidden)
	fields := []string{framing}
	if m.odds(2) {
		fields = append(fields, pick(m, "Connection: close\r\n", "Connection: keep-alive\r\n", "Connection: Content-Length\r\n", "X: y\r\n z\r\n", "X: y\rz\r\n", "X: y\x00\r\n", "X : y\r\n", ": y\r\n", "X\r\n", "X: y\n", "Set-Cookie: a=b\r\n", "Trailer: Content-Length\r\n", "Upgrade: h2c\r\n"))
	}
	m.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	after := ""
	if m.odds(3) {
		after = pick(m, hidden, "\r\n"+hidden, "0\r\n\r\n"+hidden, "x", "\r\n")
	}
	return status + strings.Join(fields, "") + "\r\n" + body + after
}

// Whatever an origin says to one request, nothing of it is taken for the response to the next one, over one connection of the
// client, and of the origin if it is used again: 400 odd responses, 10,000 with STEER_LONG.
//
// Covers: issue6 smuggling, gateway fault 26
func TestNoResponseIsSmuggled(t *testing.T) {
	bursts := 400
	if os.Getenv("STEER_LONG") != "" {
		bursts = 10_000
	}
	s := script(t, func(_ int, k *talk) {
		for {
			head := k.readHead()
			if head == "" {
				return
			}
			var burst int
			if n, _ := fmt.Sscanf(head, "GET /odd%d ", &burst); n == 1 {
				m := &maker{rand.New(rand.NewPCG(63, uint64(burst))), burst}
				if !k.say(m.response()) || m.odds(4) {
					return // it may also close behind it
				}
				continue
			}
			path, _, _ := strings.Cut(strings.TrimPrefix(head, "GET "), " ")
			if !k.say("HTTP/1.1 200 OK", sawField+": "+path, "Content-Length: 2", "", "ok") {
				return
			}
		}
	})
	d, _ := one(s.addr())
	d["*"].route.IdleTimeout = 300 * time.Millisecond // for responses that do not end
	b := start(t, Config{}, d)
	var mu sync.Mutex
	kinds := map[int]int{}
	var workers sync.WaitGroup
	const parallel = 8
	for w := range parallel {
		workers.Go(func() {
			for i := w; i < bursts; i += parallel {
				first, err := afterOdd(t, b.addr, i)
				if err != nil {
					t.Errorf("response %d: %q: %v", i, (&maker{rand.New(rand.NewPCG(63, uint64(i))), i}).response(), err)
				}
				mu.Lock()
				kinds[first]++
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("answers to the odd ones, by status; 0 is one that was cut: %v", kinds)
	if kinds[200] < bursts/10 || kinds[502] < bursts/10 {
		t.Error("too little is tried")
	}
}

// afterOdd asks for an odd response, and then for two plain ones, on the same connection as long as it is kept.
func afterOdd(t *testing.T, addr string, i int) (first int, err error) {
	k := dial(t, addr)
	defer func() { _ = k.Close() }()
	ask := func(path string) (*http.Response, error) {
		if _, err := io.WriteString(k, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return nil, err
		}
		for {
			r, err := http.ReadResponse(k.r, nil)
			if err != nil {
				return nil, err
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode >= 200 {
				return r, err
			}
		}
	}
	r, err := ask(fmt.Sprintf("/odd%d", i))
	if err == nil {
		first = r.StatusCode
		if r.Header.Get(hiddenField) != "" {
			return first, errors.New("the hidden one is the answer")
		}
	}
	for n := range 2 {
		if err != nil || r.Close {
			_ = k.Close()
			k = dial(t, addr)
		}
		path := fmt.Sprintf("/plain%d/%d", i, n)
		if r, err = ask(path); err != nil {
			return first, fmt.Errorf("the next request: %w", err)
		}
		if saw := r.Header.Get(sawField); saw != path {
			return first, fmt.Errorf("the next request, for %s, got %d with %v", path, r.StatusCode, r.Header)
		}
	}
	return first, nil
}

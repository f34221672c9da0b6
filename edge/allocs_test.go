package edge

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
)

// A request on a kept connection allocates nothing, from the first octet to the line of the log. What the collector takes
// from the pools meanwhile is all that is made anew.
//
// Covers: issue6 allocations
func TestRequestsAllocateNothing(t *testing.T) {
	if underRace {
		t.Skip("the race detector makes pools lose what they are given")
	}
	body := bytes.Repeat([]byte("x"), 1024)
	response := append([]byte("HTTP/1.1 200 OK\r\nDate: now\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"), body...)
	s := script(t, func(_ int, k *talk) {
		p := make([]byte, 4096)
		for {
			if n, err := k.Read(p); err != nil || !bytes.HasSuffix(p[:n], []byte("\r\n\r\n")) {
				return
			}
			if _, err := k.TCPConn.Write(response); err != nil {
				return
			}
		}
	})
	d, _ := one(s.addr())
	b := start(t, Config{AccessLog: io.Discard, Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, d)
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request := []byte("GET /a?b=c HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\nAccept: */*\r\nCookie: a=b\r\n\r\n")
	p := make([]byte, 4096)
	once := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(p[:n], body); {
			m, err := c.Read(p[n:])
			if n += m; err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(2000, once); n >= 1 {
		t.Errorf("%v allocations a request", n)
	}
}

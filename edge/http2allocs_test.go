package edge

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/h2test"
)

// maxStreamAllocs bounds the allocations of a request of HTTP/2: its stream, its goroutine, and the strings that HPACK makes of what is not
// in its table.
const maxStreamAllocs = 4

// A request of HTTP/2 allocates little: all but its stream is used again.
//
// Covers: issue6 http2
func TestStreamsAllocateLittle(t *testing.T) {
	if underRace {
		t.Skip("the race detector makes pools lose what they are given")
	}
	response := append([]byte("HTTP/1.1 200 OK\r\nDate: now\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n"), make([]byte, 1024)...)
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
	b := start(t, Config{AccessLog: io.Discard}, d)
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k := h2test.New(t, c)
	k.Must(k.WriteWindowUpdate(0, 1<<30))
	k.Headers(1, true, append(h2test.Get("/"), "user-agent", "test", "cookie", "a=b")...)
	if a := k.Answer(1); len(a.Body) != 1024 {
		t.Fatalf("%v", a)
	}
	var frame bytes.Buffer // of the same fields, which are in HPACK's table by now
	k.Must(http2.NewFramer(&frame, nil).WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, EndStream: true, EndHeaders: true, BlockFragment: k.Block(append(h2test.Get("/"), "user-agent", "test", "cookie", "a=b")...),
	}))
	id, p, request := uint32(1), make([]byte, 20_000), frame.Bytes()
	once := func() {
		id += 2
		binary.BigEndian.PutUint32(request[5:], id)
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := io.ReadFull(c, p[:9]); err != nil {
				t.Fatal(err)
			}
			n, ends := int(p[0])<<16|int(p[1])<<8|int(p[2]), p[3] <= 1 && p[4]&1 != 0
			if _, err := io.ReadFull(c, p[:n]); err != nil {
				t.Fatal(err)
			}
			if ends {
				return
			}
		}
	}
	for range 100 {
		once()
	}
	n := testing.AllocsPerRun(2000, once)
	if t.Logf("%v allocations a request", n); n > maxStreamAllocs {
		t.Errorf("%v allocations a request, more than %d", n, maxStreamAllocs)
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// sizes are the bodies that the origin gives, in octets: /1024 is one of 1024. Other paths get the first.
var sizes = [...]int{16, 128, 1024, 64 << 10}

// serveOrigin answers every request with the same octets, at as little cost as can be. What comes is not looked at but for
// the path: it is for a benchmark alone, in which requests have no bodies.
func serveOrigin(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	responses := map[string][]byte{}
	for _, n := range sizes {
		responses["/"+strconv.Itoa(n)] = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nServer: bench\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
			n, strings.Repeat("x", n))
	}
	for {
		k, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go answer(k, responses)
	}
}

func answer(k net.Conn, responses map[string][]byte) {
	defer k.Close()
	r := bufio.NewReaderSize(k, 2048)
	for {
		response, every, err := request(r, responses)
		if err != nil {
			return
		}
		if every > 0 {
			sendEvents(k, every)
			return
		}
		if _, err := k.Write(response); err != nil {
			return
		}
	}
}

// request reads a head, and says what it is answered with: a response, or events at an interval.
func request(r *bufio.Reader, responses map[string][]byte) (response []byte, every time.Duration, err error) {
	response = responses["/"+strconv.Itoa(sizes[0])]
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, 0, err
		}
		if len(line) == 2 {
			return response, every, nil
		}
		if !first {
			continue
		}
		_, rest, _ := bytes.Cut(line, []byte(" "))
		path, _, _ := bytes.Cut(rest, []byte(" "))
		if known := responses[string(path)]; known != nil {
			response = known
		}
		if ms, ok := bytes.CutPrefix(path, []byte("/sse/")); ok {
			n, err := strconv.Atoi(string(ms))
			if err != nil {
				return nil, 0, err
			}
			every = time.Duration(n) * time.Millisecond
		}
	}
}

// sendEvents sends an event with the time in it, at once and then at an interval, until the other side leaves.
func sendEvents(w io.Writer, every time.Duration) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(w, head); err != nil {
		return
	}
	text := strings.Repeat("t", 128)
	var event, chunk []byte
	for {
		event = fmt.Appendf(event[:0], "data: %d %s\n\n", time.Now().UnixNano(), text)
		chunk = fmt.Appendf(chunk[:0], "%x\r\n%s\r\n", len(event), event)
		if _, err := w.Write(chunk); err != nil {
			return
		}
		time.Sleep(every)
	}
}

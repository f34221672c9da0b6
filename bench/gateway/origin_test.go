package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"time"
)

// The path says what the origin answers: so many octets, or events.
func TestRequest(t *testing.T) {
	responses := map[string][]byte{"/16": []byte("sixteen"), "/1024": []byte("many")}
	r := bufio.NewReader(strings.NewReader("GET /1024 HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\nGET /sse/200 HTTP/1.1\r\nX: /16 \r\n\r\n"))
	for _, want := range []struct {
		response string
		every    time.Duration
	}{{"many", 0}, {"sixteen", 0}, {"sixteen", 200 * time.Millisecond}} {
		response, every, err := request(r, responses)
		if string(response) != want.response || every != want.every || err != nil {
			t.Errorf("%q, %v, %v: want %q, %v", response, every, err, want.response, want.every)
		}
	}
	if _, _, err := request(r, responses); err != io.EOF {
		t.Errorf("after the last request: %v", err)
	}
	if _, _, err := request(bufio.NewReader(strings.NewReader("GET /sse/x HTTP/1.1\r\n\r\n")), responses); err == nil {
		t.Error("events at no interval")
	}
}

package h1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// Whatever comes, in whatever pieces, is read the same; and what we take, net/http takes as the same requests.
//
// Covers: issue6 codec, issue6 smuggling
func FuzzRequests(f *testing.F) {
	for _, c := range smuggling {
		f.Add([]byte(c.data), uint8(3))
	}
	f.Add([]byte(crlf(browserHead, "Content-Length: 5", "", "helloGET / HTTP/1.1", "Host: a", "", "")), uint8(1))
	f.Add([]byte(crlf("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "1;a=b", "x", "0", "Sum: 1", "", "")), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		whole := requests(string(data), 0, Limits{})
		if parts := requests(string(data), int(step), Limits{}); !reflect.DeepEqual(whole, parts) {
			t.Fatalf("whole: %v\nin steps of %d: %v", whole, step, parts)
		}
		agree(t, data, whole)
	})
}

// agree holds the requests we took against those of net/http.
func agree(t *testing.T, data []byte, ours []message) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(bytes.TrimPrefix(data, []byte("\r\n"))))
	for i, m := range ours {
		if m.err != nil {
			return
		}
		q, err := http.ReadRequest(r)
		if err != nil {
			if unlike(err) {
				return
			}
			t.Fatalf("request %d is %v, and net/http says %v", i, m, err)
		}
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Fatalf("request %d is %v, and net/http says %v of its body", i, m, err)
		}
		if got := q.Method + " " + q.RequestURI; got != m.first || string(body) != m.body {
			t.Fatalf("request %d is %v, and net/http has %s with %q", i, m, got, body)
		}
		if strings.HasPrefix(q.RequestURI, "/") && !strings.EqualFold(strings.Trim(q.Host, "[]"), m.host) && !strings.Contains(q.Host, "]:") {
			t.Fatalf("request %d is of %s, and net/http has %s", i, m.host, q.Host)
		}
		// net/http skips one empty line before a request, as we do; only the first was cut above.
		if next, _ := r.Peek(2); string(next) == "\r\n" {
			_, _ = r.Discard(2) // Peek has them
		}
	}
}

// unlike are the faults that net/http finds where we find none: it reads what is behind the %-escapes of a URL, and wants no
// length in a GET without a body to be longer than its own limits. We pass both on as they are (fault 38): whoever routes
// by the path reads it by its own strict rules.
func unlike(err error) bool {
	text := err.Error()
	for _, s := range []string{"invalid URL escape", "invalid port", "invalid host", "invalid URI for request", "parse ", "invalid userinfo"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// Whatever comes as a response, in whatever pieces, is read the same, and chunks written by us are read as the same body.
//
// Covers: issue6 codec
func FuzzResponses(f *testing.F) {
	for _, s := range []string{
		crlf("HTTP/1.1 200 OK", "Content-Length: 2", "", "hi"), crlf("HTTP/1.1 200 OK", "", "until the end"),
		crlf("HTTP/1.1 100 Continue", "", "HTTP/1.1 204 No Content", "", ""),
		crlf("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "2;x", "hi", "0", "T: 1", "", ""),
		"HTTP/1.0 200\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(3), false)
		f.Add([]byte(s), uint8(1), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, step uint8, bodiless bool) {
		whole := responses(string(data), 0, bodiless)
		if parts := responses(string(data), int(step), bodiless); !reflect.DeepEqual(whole, parts) {
			t.Fatalf("whole: %v\nin steps of %d: %v", whole, step, parts)
		}
		for _, m := range whole {
			again(t, m.body, int(step))
		}
	})
}

// again writes a body in chunks and reads it back.
func again(t *testing.T, body string, step int) {
	t.Helper()
	sent := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for rest := body; rest != ""; {
		n := min(len(rest), step+1)
		sent = AppendChunkSize(sent, n)
		sent = append(append(sent, rest[:n]...), "\r\n"...)
		rest = rest[n:]
	}
	sent = AppendLastChunk(sent, nil, nil)
	all := responses(string(sent), step, false)
	if len(all) != 1 || all[0].err != nil || all[0].body != body {
		t.Fatalf("%q was written as %q and read as %v", body, sent, all)
	}
	theirs, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(theirs.Body)
	if err != nil || string(got) != body {
		t.Fatal(fmt.Errorf("net/http reads %q: %w", got, errors.Join(err)))
	}
}

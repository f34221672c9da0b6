package check

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
)

// script is a connection on which the other side says a fixed text, a piece at a time, and closes.
type script struct {
	net.Conn
	text  *bytes.Reader
	piece int
}

func (s script) Read(b []byte) (int, error)  { return s.text.Read(b[:min(len(b), s.piece)]) }
func (s script) Write(b []byte) (int, error) { return len(b), nil }

// FuzzResponse: whatever a server says, the probe ends with one of the causes that fit, the same however the bytes
// are cut, and passes none of them on.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		well,
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\n c\n\nhello",
		"HTTP/1.0 302 Found\r\nLocation: x\r\n\r\n",
		"SSH-2.0-x\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhel",
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, get bool) {
		whole := exchange(t, text, get, 1<<20)
		if cut := exchange(t, text, get, 1); cut.OK != whole.OK || cut.Cause != whole.Cause || cut.Status != whole.Status || cut.Detail != whole.Detail {
			t.Errorf("whole: %+v, byte by byte: %+v", whole, cut)
		}
		switch whole.Cause {
		case "":
			if !whole.OK || whole.Status == 0 {
				t.Errorf("got %+v", whole)
			}
		case report.CauseStatus, report.CauseBody:
			if whole.Status == 0 {
				t.Errorf("got %+v", whole)
			}
		case report.CauseReset, report.CauseProtocol:
		default:
			t.Errorf("got %+v", whole)
		}
		if len(text) > 20 && strings.Contains(whole.Detail, string(text)) {
			t.Errorf("the detail holds what the server said: %q", whole.Detail)
		}
	})
}

func exchange(t *testing.T, text []byte, get bool, piece int) report.Observation {
	t.Helper()
	tk := snapshot.ProbeTask{
		Kind: "http", Address: "192.0.2.1", Port: 80, URL: "http://www.example.com/", Method: "HEAD",
		Interval: time.Hour, Timeout: time.Hour, Statuses: []snapshot.StatusRange{{Min: 200, Max: 399}},
	}
	if get {
		tk.Method, tk.Body = "GET", "hello"
	}
	g, err := NewTarget(&tk)
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{Checker: newChecker(Config{}), Target: g, mark: time.Now()}
	p.judge(p.exchange(script{text: bytes.NewReader(text), piece: piece}))
	return p.o
}

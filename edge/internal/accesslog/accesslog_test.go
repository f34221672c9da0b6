package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whatever octets a client sends, the line is JSON of the same text, with U+FFFD for what is not UTF-8.
//
// Covers: issue6 access log
func TestStringsAreJSON(t *testing.T) {
	for _, s := range []string{"", "plain", `"quotes" \ and /`, "\x00\x1f\n\t", "grün 网关", "\xff\xc3(", "a\xf0\x9f\x98", "\u2028\ufffd"} {
		var got string
		if err := json.Unmarshal(AppendString(nil, []byte(s)), &got); err != nil {
			t.Errorf("%q: %v", s, err)
		}
		if want := string([]rune(s)); got != want {
			t.Errorf("%q became %q, want %q", s, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0.000", time.Microsecond: "0.001", 12345678 * time.Nanosecond: "12.345", -time.Second: "0.000"} {
		if got := string(AppendMillis(nil, d)); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

// stuck is a writer that takes nothing until it is let go, and then fails if it is to.
type stuck struct {
	mu   sync.Mutex
	got  bytes.Buffer
	fail error
}

func (s *stuck) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return 0, s.fail
	}
	return s.got.Write(p)
}

// A writer that takes nothing holds nobody up: what does not fit is counted as lost, and the rest is written in order.
//
// Covers: issue6 access log
func TestNobodyWaitsForTheLog(t *testing.T) {
	s := &stuck{}
	s.mu.Lock()
	l := New(s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	line := []byte(strings.Repeat("x", 1023) + "\n")
	const lines = 3 * most / 1024
	for range lines {
		l.Write(line)
	}
	lost := l.Lost()
	if lost == 0 {
		t.Error("nothing was lost, and nothing was written")
	}
	s.mu.Unlock()
	cancel()
	<-done
	if got := uint64(s.got.Len()) / 1024; got != lines-lost {
		t.Errorf("%d lines were written, %d lost, of %d", got, lost, lines)
	}
	s.fail = errors.New("disk full")
	l.Write(line)
	l.flush()
	if l.Lost() != lost+1 {
		t.Errorf("%d lost after a write that failed, want %d", l.Lost(), lost+1)
	}
	none := New(nil)
	if none.Write(line); none.On() || none.Lost() != 0 {
		t.Error("a log that is not wanted is on, or loses lines")
	}
}

package conn

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// A header is read in whatever pieces it comes, and what follows it stays for who reads next.
//
// Covers: issue6 proxy protocol
func TestHeader(t *testing.T) {
	need := func(b []byte) (int, error) { // a header ends with LF
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			return i + 1, nil
		}
		if bytes.IndexByte(b, 'x') >= 0 {
			return 0, io.ErrNoProgress
		}
		return len(b) + 1, nil
	}
	for _, parts := range [][]string{{"head\nrest"}, {"he", "ad", "\n", "rest"}, {"head", "\nre", "st"}} {
		c, theirs := pair(t)
		go func() {
			for _, p := range parts {
				_, _ = io.WriteString(theirs, p) // what is read is judged
			}
		}()
		head, err := c.Header(make([]byte, 64), need)
		if err != nil || string(head) != "head\n" {
			t.Fatalf("%q: %q, %v", parts, head, err)
		}
		rest := make([]byte, 4)
		if _, err := io.ReadFull(c, rest); err != nil || string(rest) != "rest" {
			t.Errorf("%q: after it %q, %v", parts, rest, err)
		}
	}
	for _, row := range []struct {
		data string
		want error
	}{{"he", io.ErrUnexpectedEOF}, {"", io.ErrUnexpectedEOF}, {"hex", io.ErrNoProgress}} {
		c, theirs := pair(t)
		_, _ = io.WriteString(theirs, row.data)
		_ = theirs.CloseWrite()
		if _, err := c.Header(make([]byte, 64), need); !errors.Is(err, row.want) {
			t.Errorf("%q: %v, want %v", row.data, err, row.want)
		}
	}
	c, _ := pair(t)
	c.ReadBy(c.now().Add(1))
	if _, err := c.Header(make([]byte, 64), need); !errors.Is(err, ErrTimeout) {
		t.Errorf("nothing came: %v", err)
	}
	c, theirs := pair(t)
	_, _ = io.WriteString(theirs, "12345678")
	if _, err := c.Header(make([]byte, 4), need); err == nil {
		t.Error("a header longer than its room was read")
	}
}

// What the other side has not taken is known; when it has taken all, that is too.
//
// Covers: issue6 proxy limits
func TestUnsent(t *testing.T) {
	c, theirs := pair(t)
	if n := c.Unsent(); n != 0 {
		t.Errorf("%d octets of nothing", n)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = c.Write(make([]byte, 64<<20)) // more than any system holds for who does not read
	}()
	await(t, "something that is not taken", func() bool { return c.Unsent() > 0 })
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	<-written
	await(t, "all taken", func() bool { return c.Unsent() == 0 })
}

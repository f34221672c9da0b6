package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http/httptest"
	"testing"

	"steerpoint/edge/internal/h1"
)

// secured is pair with TLS on it.
func secured(t *testing.T) (*Conn, *tls.Conn) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	cert := s.TLS.Certificates[0]
	s.Close()
	c, raw := pair(t)
	theirs := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) // the certificate is not what is tested
	done := make(chan error, 1)
	go func() { done <- theirs.Handshake() }()
	if err := c.Accept(context.Background(), &tls.Config{Certificates: []tls.Certificate{cert}}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return c, theirs
}

// A read that came to its limit over TLS can be followed by another one, in the middle of a record too: a WebSocket whose one
// side is silent, and an origin that says nothing of 100 Continue, are read on.
//
// Covers: issue6 tls, issue6 proxy limits
func TestReadsGoOnAfterALimit(t *testing.T) {
	c, theirs := secured(t)
	for range 3 {
		c.ReadBy(c.now().Add(1))
		if _, _, err := c.ReadLent(h1.NewPool(), h1.Small); !errors.Is(err, ErrTimeout) {
			t.Fatalf("nothing came: %v", err)
		}
		c.ReadBy(c.now().Add(patience))
		go func() { _, _ = io.WriteString(theirs, "hello") }() // what is read is judged
		b, n, err := c.ReadLent(h1.NewPool(), h1.Small)
		if err != nil || string(b.B[:n]) != "hello" {
			t.Fatalf("after a limit: %d octets, %v", n, err)
		}
	}
}

// A connection that was cut ends with RST, over TLS too; one that is closed ends in order.
//
// Covers: gateway T41
func TestCutIsReset(t *testing.T) {
	for _, cut := range []bool{true, false} {
		c, theirs := pair(t)
		if cut {
			c.Cut()
		}
		_ = c.Close()
		if _, err := io.ReadAll(theirs); (err != nil) != cut {
			t.Errorf("cut %t: the other end reads %v", cut, err)
		}
		s, secure := secured(t)
		if cut {
			s.Cut()
		}
		_ = s.Close()
		if _, err := io.ReadAll(secure); (err != nil) != cut {
			t.Errorf("cut %t over TLS: the other end reads %v", cut, err)
		}
	}
}

// A record that holds one octet alone is read when it is there: nothing need come after it, as after the last octet of a body.
//
// Covers: issue6 tls
func TestRecordsOfOneOctet(t *testing.T) {
	c, theirs := secured(t)
	c.ReadBy(c.now().Add(patience))
	for _, said := range []string{"a", "b", "cd"} {
		if _, err := io.WriteString(theirs, said); err != nil {
			t.Fatal(err)
		}
		b, n, err := c.ReadLent(h1.NewPool(), h1.Small)
		if err != nil || string(b.B[:n]) != said {
			t.Fatalf("%q: %d octets, %v", said, n, err)
		}
	}
	if _, err := io.WriteString(theirs, "e"); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Close(); err != nil {
		t.Fatal(err)
	}
	b, n, err := c.ReadLent(h1.NewPool(), h1.Small)
	if err != nil || string(b.B[:n]) != "e" {
		t.Errorf("before the end: %d octets, %v", n, err)
	}
	if _, _, err := c.ReadLent(h1.NewPool(), h1.Small); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

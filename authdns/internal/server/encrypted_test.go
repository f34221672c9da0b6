package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/internal/certfile"
	"steerpoint/internal/inherit"
)

// encryptedConfig serves DoT and DoH on loopback, with a certificate made for it.
func encryptedConfig(t *testing.T) Config {
	t.Helper()
	source, err := certfile.Make("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	port := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	return Config{
		Listen: port, Sockets: 1, DoT: port, DoH: port, TLS: TLS(source.Get),
		Web: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "%s of %s", body, r.RemoteAddr)
		}),
	}
}

// handedListeners are listeners as the next program gets them.
func handedListeners(t *testing.T, name string, listeners ...*net.TCPListener) (list string) {
	t.Helper()
	for _, l := range listeners {
		raw, err := l.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		own, dupErr := -1, error(nil)
		err = raw.Control(func(fd uintptr) { own, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
		if err = errors.Join(err, dupErr); err != nil {
			t.Fatal(err)
		}
		list += fmt.Sprintf(",%d=%s", own, name) // the descriptor is inherit's from now on
	}
	return list
}

// TestEncryptedTakesOver: who connects to DoT or DoH between two servers is served by the second, at the same port.
//
// Covers: issue3 upgrade, issue5 dot, issue5 doh
func TestEncryptedTakesOver(t *testing.T) {
	cfg := encryptedConfig(t)
	first := serve(t, 1, cfg)
	list := handedListeners(t, NameDoT, first.dot...) + handedListeners(t, NameDoH, first.doh...)
	env := map[string]string{inherit.Variable: fmt.Sprintf("%d:%s", os.Getpid(), list[1:])}
	sockets, err := inherit.FromEnvironment(func(k string) string { return env[k] }, func(k string) error { delete(env, k); return nil })
	if err != nil {
		t.Fatal(err)
	}
	dot, doh := first.Encrypted(DoT)[0], first.Encrypted(DoH)[0]
	first.end(t)
	early := connect(t, "tcp", dot)
	cfg.Inherited = sockets
	second := serve(t, 2, cfg)
	if got := fmt.Sprint(second.Encrypted(DoT), second.Encrypted(DoH)); got != fmt.Sprintf("[%s] [%s]", dot, doh) {
		t.Errorf("serves %s, want %s and %s", got, dot, doh)
	}
	if rest := sockets.Finish(); rest != nil {
		t.Errorf("%v were not taken", rest)
	}
	c := tls.Client(early, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"dot"}})
	write(t, c, framed(message(3)))
	expect(t, c, framed(append(message(3), 2)))
	web := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer web.CloseIdleConnections()
	res, err := (&http.Client{Transport: web, Timeout: patience}).Get("https://" + doh.String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.ProtoMajor != 2 {
		t.Errorf("%s, %v", res.Proto, err)
	}
	second.end(t)
	if err := sockets.Close(); err != nil {
		t.Error(err)
	}
}

// TestEncryptedNeedsACertificate: there is no DoT without one, and no DoH without a handler.
//
// Covers: issue5 dot
func TestEncryptedNeedsACertificate(t *testing.T) {
	whole := encryptedConfig(t)
	for name, change := range map[string]func(*Config){
		"no certificate": func(c *Config) { c.TLS = nil },
		"no handler":     func(c *Config) { c.Web = nil },
	} {
		cfg := whole
		change(&cfg)
		if s, err := Listen(t.Context(), cfg, nil, Counters{}, nil); err == nil {
			t.Errorf("%s: it listens", name)
			_ = s.Close()
		}
	}
}

// TestIdleTLS: what an encrypted connection costs that asks nothing.
//
// Covers: issue5 dot
func TestIdleTLS(t *testing.T) {
	s := serve(t, 1, encryptedConfig(t))
	n := clients(t, 300)
	s.conns.mu.Lock()
	s.conns.total = n + 10
	s.conns.mu.Unlock()
	before := memory()
	for i := range n {
		d := tls.Dialer{
			NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 2, byte(i>>8), byte(i))}},
			Config:    &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"dot"}},
		}
		c, err := d.DialContext(t.Context(), "tcp", s.Encrypted(DoT)[0].String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		write(t, c, framed(message(1)))
		expect(t, c, framed(append(message(1), 1)))
	}
	each := (memory() - before) / int64(n)
	t.Logf("%d idle connections over TLS: %d octets each, both ends together", n, each)
	if each > 64<<10 {
		t.Errorf("an idle connection costs %d octets", each)
	}
}

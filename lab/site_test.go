//go:build linux

package lab_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"steerpoint/lab"
)

// behaviour is how a site treats its visitors; the zero value answers 200 at once.
type behaviour struct {
	down   bool // connections are refused
	hang   bool // requests are taken and never answered
	delay  time.Duration
	status int
}

// site is a web server on port 80 of a host, on both of its addresses.
type site struct {
	name string
	lab  *lab.Lab

	mu      sync.Mutex
	how     behaviour
	servers []*http.Server
}

func (s *site) set(b behaviour) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how = b
	if b.down {
		s.closeServers()
		return nil
	}
	if s.servers != nil {
		return nil
	}
	for _, addr := range []netip.Addr{s.lab.Addr4(s.name), s.lab.Addr6(s.name)} {
		ln, err := s.lab.Listen(s.name, "tcp", netip.AddrPortFrom(addr, 80).String())
		if err != nil {
			s.closeServers()
			return fmt.Errorf("site %s: %w", s.name, err)
		}
		srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
		s.servers = append(s.servers, srv)
		go func() { _ = srv.Serve(ln) }() // ends with http.ErrServerClosed when the site goes down
	}
	return nil
}

func (s *site) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeServers()
}

// closeServers cuts every connection too, as a crash would. Callers hold mu.
func (s *site) closeServers() {
	for _, srv := range s.servers {
		_ = srv.Close()
	}
	s.servers = nil
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	how := s.how
	s.mu.Unlock()
	if how.hang {
		<-r.Context().Done()
		return
	}
	select {
	case <-time.After(how.delay):
	case <-r.Context().Done():
		return
	}
	if how.status != 0 {
		w.WriteHeader(how.status)
	}
	fmt.Fprintf(w, "%s from %s\n", r.Host, s.name)
}

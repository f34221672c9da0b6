package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// site is one address of one demo edge: a listener and the server behind it.
//
// Invariant: server != nil exactly while the address accepts connections, which is exactly while it runs and is not
// Down.
type site struct {
	edge     string
	origin   bool          // of the gateway
	distance time.Duration // that its visitors have to it
	addr     netip.AddrPort

	requests atomic.Uint64
	loses    atomic.Uint64 // requests that came while Lose was set: the counter that spreads the losses evenly

	mu        sync.Mutex
	behaviour Behaviour
	listener  net.Listener // bound by New, taken by the first open
	server    *http.Server
	closed    bool
	served    sync.WaitGroup
}

// open starts serving, on the listener bound before if there is one. Callers hold mu.
func (s *site) open() error {
	if s.server != nil || s.closed {
		return nil
	}
	l := s.listener
	s.listener = nil
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", s.addr.String()); err != nil {
			return fmt.Errorf("demo edge %s: %w", s.edge, err)
		}
	}
	// A visitor of the demo is a probe or a person; ten seconds for a request line is generous to both.
	srv := &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	s.server = srv
	s.served.Go(func() { _ = srv.Serve(l) }) // always ErrServerClosed: only close ends it
	return nil
}

// close stops accepting and cuts every connection. Callers hold mu.
func (s *site) close() {
	if s.server != nil {
		_ = s.server.Close()
		s.server = nil
	}
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
}

func (s *site) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behaviour.Down {
		return nil
	}
	return s.open()
}

func (s *site) stop() {
	s.mu.Lock()
	s.closed = true
	s.close()
	s.mu.Unlock()
	s.served.Wait()
}

// set changes the behaviour. A site that cannot come back keeps being down and says why.
func (s *site) set(b Behaviour) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopped
	}
	if b.Down {
		s.close()
	} else if err := s.open(); err != nil {
		return err
	}
	s.behaviour = b
	return nil
}

func (s *site) now() Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behaviour
}

var errStopped = errors.New("the demo has stopped")

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	b := s.now()
	if b.Lose > 0 && lost(s.loses.Add(1), b.Lose) {
		<-r.Context().Done() // until the visitor gives up or the site closes
		return
	}
	if !pause(r.Context(), s.distance+b.Delay) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Demo-Edge", s.edge)
	w.Header().Set("Cache-Control", "private") // sessions begin on what no cache gives to others
	if b.Status != 0 {
		w.WriteHeader(b.Status)
	}
	switch {
	case r.Method == http.MethodHead:
	case s.origin:
		fmt.Fprintf(w, "from origin %s (%s)\n", s.edge, s.addr.Addr())
	default:
		fmt.Fprintf(w, "%s from edge %s (%s)\n", r.Host, s.edge, s.addr.Addr())
	}
}

// lost says whether the n-th request is among the percent lost. The losses are spread evenly and are the same on
// every run: of any 100 requests in a row exactly percent are lost.
func lost(n uint64, percent int) bool {
	p := uint64(percent)
	return n*p/100 != (n-1)*p/100
}

func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

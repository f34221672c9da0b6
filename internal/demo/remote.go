package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Remote is how another process on this machine reaches a running demo. It is written to the data folder, readable
// by its owner only; the token keeps web pages and other users out.
type Remote struct {
	Format int    `json:"format"` // 1
	URL    string `json:"url"`
	Token  string `json:"token"`
}

// order is the body of one change.
type order struct {
	Edge      string     `json:"edge"`
	Address   netip.Addr `json:"address"` // invalid: every address of the edge
	Behaviour Behaviour  `json:"behaviour"`
}

// Desk takes orders for a demo over HTTP on loopback.
type Desk struct {
	demo     *Demo
	listener net.Listener
	remote   Remote
}

// NewDesk binds a free loopback port.
func NewDesk(d *Demo) (*Desk, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo control: %w", err)
	}
	return &Desk{demo: d, listener: l, remote: Remote{Format: 1, URL: "http://" + l.Addr().String(), Token: rand.Text()}}, nil
}

// Remote is what a client needs to reach the desk.
func (k *Desk) Remote() Remote { return k.remote }

// Close gives the port back when Run will not be called.
func (k *Desk) Close() error {
	if err := k.listener.Close(); err != nil {
		return fmt.Errorf("demo control: %w", err)
	}
	return nil
}

// Run serves until ctx ends.
func (k *Desk) Run(ctx context.Context) error {
	srv := &http.Server{Handler: k, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(k.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("demo control: %w", err)
	}
	return nil
}

// ServeHTTP answers GET with the state of every edge and takes one order by POST.
func (k *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+k.remote.Token)) != 1 {
		http.Error(w, "the token of the demo is wrong", http.StatusUnauthorized)
		return
	}
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		var o order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4096)).Decode(&o); err != nil {
			http.Error(w, "order: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := k.demo.Set(o.Edge, o.Address, o.Behaviour); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	default:
		http.Error(w, "GET or POST", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(k.demo.State()) // the client has gone: nobody is left to tell
}

// State asks a running demo for its edges.
func (r Remote) State(ctx context.Context) ([]EdgeState, error) {
	return r.call(ctx, http.MethodGet, nil)
}

// Set changes an edge of a running demo, as Demo.Set does, and returns all edges.
func (r Remote) Set(ctx context.Context, edge string, addr netip.Addr, b Behaviour) ([]EdgeState, error) {
	body, err := json.Marshal(order{Edge: edge, Address: addr, Behaviour: b})
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	return r.call(ctx, http.MethodPost, body)
}

// ErrRefused is wrapped when the demo was reached and said no.
var ErrRefused = errors.New("the demo refused")

func (r Remote) call(ctx context.Context, method string, body []byte) ([]EdgeState, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("demo control: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("demo control: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1024))
		return nil, fmt.Errorf("%w: %s", ErrRefused, bytes.TrimSpace(text))
	}
	var out []EdgeState
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&out); err != nil {
		return nil, fmt.Errorf("demo control: %w", err)
	}
	return out, nil
}

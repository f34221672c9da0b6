package authdns

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/answer"
	"steerpoint/snapshot"
)

// Book answers questions as a name server with the same map does, and listens to nobody: it is for a control without a
// name server of its own, which has to check maps and to explain what nodes answer.
type Book struct{ server *Server }

// NewBook makes a book without a map. Of the configuration only what shapes answers counts.
func NewBook(cfg Config, log *slog.Logger) (*Book, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	answers, err := cfg.answers()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: log, epoch: time.Now(), wake: make(chan struct{}, 1), pressing: make(chan struct{}, 1), cookies: answers.Cookies}
	s.signing.init(&answers)
	s.signing.publicOnly = true
	s.responder = answer.NewResponder(answers)
	// Of its own: the counters of a server that serves nobody are nobody's business.
	if s.metrics, err = newMetrics(prometheus.NewRegistry(), s.mapInfo, &s.kept); err != nil {
		return nil, err
	}
	return &Book{s}, nil
}

// Swap validates a map and makes it the one that answers, as Server.Swap does.
func (b *Book) Swap(d *snapshot.DNS) error { return b.server.Swap(d) }

// Map describes the map that answers now.
func (b *Book) Map() MapInfo { return b.server.Map() }

// Explain answers a question and tells why, as Server.Explain does.
func (b *Book) Explain(name string, client netip.Addr, ecs netip.Prefix, qtype uint16) (Explanation, error) {
	return b.server.Explain(name, client, ecs, qtype)
}

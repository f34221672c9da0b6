package authdns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/sign"
	"steerpoint/snapshot"
)

// signing is what the server needs to sign zones. It goes on by the keys it has, however long control is away.
type signing struct {
	signer *sign.Signer
	// publicOnly: of a Book, which shows keys and signs nothing.
	publicOnly bool
	// taken are the keys in use and why some are missing; guarded by Server.mu.
	taken *snapshot.Signing
	err   error
	// trouble is the text of err, for those who must not wait for a swap.
	trouble atomic.Pointer[string]
}

const (
	// renewEvery is how often signatures that are due are looked for, renewMost how many are made then: some 20 ms of a
	// core.
	renewEvery = 10 * time.Second
	renewMost  = 500
	// renewUsed: signatures that nobody asked for so long are left to run out.
	renewUsed = 24 * time.Hour
)

func (g *signing) init(answers *answer.Config) {
	g.signer = sign.New(sign.Config{})
	answers.Signer = g.signer
}

// register adds the metrics of signing.
func (g *signing) register(reg prometheus.Registerer, clock func() sign.Clock) error {
	var errs []error
	add := func(c prometheus.Collector) { errs = append(errs, reg.Register(c)) }
	counter := func(name, help, class string, value func(*sign.Counts) uint64) {
		add(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "steer_authdns_" + name, Help: help, ConstLabels: prometheus.Labels{"names": class},
		}, func() float64 { c := g.signer.Totals(); return float64(value(&c)) }))
	}
	const made, refused = "Signatures made, by the names they are for.", "Signed answers that were put off because the budget of signatures was used up, by the names asked for."
	counter("signatures_total", made, "known", func(c *sign.Counts) uint64 { return c.Made.Known })
	counter("signatures_total", made, "made-up", func(c *sign.Counts) uint64 { return c.Made.MadeUp + c.Made.MadeUpTCP })
	counter("signatures_refused_total", refused, "known", func(c *sign.Counts) uint64 { return c.Refused.Known })
	counter("signatures_refused_total", refused, "made-up", func(c *sign.Counts) uint64 { return c.Refused.MadeUp + c.Refused.MadeUpTCP })
	gauge := func(name, help string, value func() float64) {
		add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "steer_authdns_" + name, Help: help}, value))
	}
	gauge("signed_zones", "Zones that are to be signed.", func() float64 { return float64(g.signer.Ring().Len()) })
	gauge("zone_keys_missing", "1: zones that are to be signed are not, since their keys are not at hand.", func() float64 {
		if g.trouble.Load() != nil {
			return 1
		}
		return 0
	})
	gauge("signature_expiry_seconds", "Time until the first signature used within a day ends; 0: there is none.", func() float64 {
		now := clock()
		next := g.signer.NextExpiry(now)
		if next == 0 {
			return 0
		}
		return float64(int32(next - now.Unix))
	})
	return errors.Join(errs...)
}

// clock is the present as signatures and their budgets need it.
func (s *Server) clock() sign.Clock {
	now := time.Now()
	return sign.Clock{Unix: uint32(now.Unix()), Mono: now.Sub(s.epoch)}
}

// takeKeys puts the keys of a map in use. Keys that cannot be opened are replaced by those in use, where they are the same;
// a zone without is refused to who wants signatures, and goes on for everybody else. The caller holds the lock.
func (s *Server) takeKeys(next *snapshot.Signing) {
	g := &s.signing
	if next == g.taken && g.err == nil {
		return
	}
	if g.publicOnly {
		ring, _ := sign.NewRing(next, nil, nil) // its fault is that keys are missing, which they are to be
		g.signer.SetRing(ring)
		g.taken = next
		return
	}
	private, err := s.openKeys(next)
	ring, ringErr := sign.NewRing(next, private, g.signer.Ring())
	for i := range private {
		clear(private[i].Key)
	}
	if err != nil && ringErr == nil { // every key was in use already
		s.log.Warn("the zone keys of this map cannot be opened: zones are signed on by those in use, until a restart", "error", err)
	}
	g.signer.SetRing(ring)
	was := g.err
	g.taken, g.err = next, ringErr
	if ringErr == nil {
		g.trouble.Store(nil)
		if was != nil {
			signal(s.pressing)
			s.log.Info("every signed zone has its keys again")
		}
		return
	}
	g.err = fmt.Errorf("ZONE_KEYS_MISSING: %w", errors.Join(err, ringErr))
	text := g.err.Error()
	g.trouble.Store(&text)
	if was == nil || was.Error() != text {
		s.log.Error("zones that are to be signed cannot be: who asks for signatures is told to ask another name server", "error", g.err)
	}
}

// openKeys gives the private keys of a map.
func (s *Server) openKeys(next *snapshot.Signing) ([]snapshot.PrivateKey, error) {
	if next == nil || len(next.Keys) == 0 {
		return nil, nil
	}
	if s.cfg.OpenKeys == nil {
		return nil, errors.New("this name server has no key to open zone keys with")
	}
	text, err := s.cfg.OpenKeys(snapshot.SigningUse, next.Keys)
	if err != nil {
		return nil, fmt.Errorf("the zone keys cannot be opened: %w", err)
	}
	defer clear(text)
	var private []snapshot.PrivateKey
	if err := json.Unmarshal(text, &private); err != nil {
		return nil, errors.New("the zone keys are sealed to this name server and cannot be read") // err may hold some of it
	}
	return private, nil
}

// KeyTrouble says why zones that are to be signed are not, and why keys of transfers and cookies are missing; "": nothing is
// wrong.
func (s *Server) KeyTrouble() string {
	var parts []string
	for _, t := range []*string{s.signing.trouble.Load(), s.sharing.trouble.Load()} {
		if t != nil {
			parts = append(parts, *t)
		}
	}
	return strings.Join(parts, "; ")
}

// warm makes the signatures that the next index will be asked for at once.
func (s *Server) warm(ix *answer.Index) {
	began := time.Now()
	s.responder.Warm(ix, s.clock(), func() time.Duration { return time.Since(began) })
}

// keepSigned makes signatures anew when they are due, and tries again to open keys that did not open, until ctx ends.
func (s *Server) keepSigned(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.signing.trouble.Load() != nil || s.sharing.trouble.Load() != nil {
			s.mu.Lock()
			s.takeKeys(s.signing.taken)
			s.takeSecrets(s.sharing.taken)
			s.mu.Unlock()
		}
		s.signing.signer.Renew(s.clock(), renewUsed, renewMost)
	}
}

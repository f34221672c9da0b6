// Package resolve keeps the addresses of names that lie in zones of others: name servers answer with them at an apex and for
// ALIAS records, and ask nobody. It asks a resolver again and again in the background. What was last found holds for ever: a
// name that can no longer be resolved keeps its addresses, and is told of.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"steerpoint/snapshot"
)

// Times between two questions for a name. The resolver's TTL counts within the first two: below the least nobody follows anyway,
// and beyond the most an address that changed would be answered for too long.
const (
	leastRefresh = 30 * time.Second
	mostRefresh  = 5 * time.Minute
	firstRetry   = 5 * time.Second
	mostRetry    = time.Minute
	// failures in a row until a name that is known is told of: a resolver that restarts is no news.
	toldAfter = 3
	// atOnce names are asked for at the same time.
	atOnce = 8
)

// Exchange sends a question to a server, ADDR:PORT, and gives its answer.
type Exchange func(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error)

// Config says whom to ask, and whom to tell.
type Config struct {
	// Servers are resolvers, ADDR or ADDR:PORT, asked in turn until one answers. Empty: those of /etc/resolv.conf, which is
	// read again for each round.
	Servers []string
	// File keeps what was found, so that a restart begins with it. Its folder must exist. "": nothing is kept.
	File string
	// Changed is called when other addresses are known. nil: nobody is told.
	Changed func()
	// Failing is called when a name cannot be resolved, and when that is over. nil: nobody is told.
	Failing func(name string, on bool, message string)
	// Exchange sends questions; nil: over UDP, and TCP where an answer does not fit.
	Exchange Exchange
	Log      *slog.Logger
}

// Keeper keeps addresses. Make it with New; it asks while Run runs.
type Keeper struct {
	cfg  Config
	wake chan struct{} // 1 deep: other names are wanted

	mu      sync.Mutex
	names   map[string]*name // those wanted; before the first Want those of the file
	current *snapshot.Resolved
	unsaved bool
}

// name is what is known of one name.
type name struct {
	addrs    snapshot.Addresses
	known    bool
	at       time.Time // of the last success; zero: none
	due      time.Time
	failures int
	told     bool
	asking   bool
}

// New makes a keeper that knows what the file has. A damaged file is set aside and logged.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, wake: make(chan struct{}, 1), names: map[string]*name{}}
	if k.cfg.Exchange == nil {
		k.cfg.Exchange = overNetwork
	}
	k.load()
	k.publish()
	return k
}

// Resolved is what is known now; it is never nil, and another pointer when it changed.
func (k *Keeper) Resolved() *snapshot.Resolved {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Want says which names, as FQDNs, are to be known from now on. Others are forgotten.
func (k *Keeper) Want(list []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := make(map[string]bool, len(list))
	changed := false
	for _, n := range list {
		wanted[n] = true
		if k.names[n] == nil {
			k.names[n], changed = &name{}, true
		}
	}
	for n, s := range k.names {
		if wanted[n] {
			continue
		}
		delete(k.names, n)
		changed = true
		if s.told && k.cfg.Failing != nil {
			k.cfg.Failing(n, false, "")
		}
	}
	if !changed {
		return
	}
	k.unsaved = true
	k.publish()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// publish makes current of names; the caller holds the lock.
func (k *Keeper) publish() {
	made := make(map[string]snapshot.Addresses, len(k.names))
	for n, s := range k.names {
		if s.known {
			made[n] = s.addrs
		}
	}
	if k.current == nil || !maps.EqualFunc(made, k.current.Names, snapshot.Addresses.Equal) {
		k.current = &snapshot.Resolved{Names: made}
	}
}

// Run asks until ctx ends; when it returns, everything it started has.
func (k *Keeper) Run(ctx context.Context) error {
	results := make(chan result)
	asking := 0
	for {
		wait := time.Hour
		for asking < atOnce {
			var n string
			if n, wait = k.next(); n == "" {
				break
			}
			asking++
			go func() {
				r := k.ask(ctx, n)
				results <- r
			}()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-timer.C:
		case r := <-results:
			asking--
			k.take(ctx, r)
		}
		timer.Stop()
		k.save()
		if ctx.Err() != nil {
			for ; asking > 0; asking-- {
				<-results
			}
			return nil
		}
	}
}

// next is a name that is due, or how long until one is.
func (k *Keeper) next() (string, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, wait := time.Now(), time.Hour
	for n, s := range k.names {
		switch left := s.due.Sub(now); {
		case s.asking:
		case left <= 0:
			s.asking = true
			return n, 0
		default:
			wait = min(wait, left)
		}
	}
	return "", wait
}

// result is what came of asking for a name.
type result struct {
	name  string
	addrs snapshot.Addresses
	ttl   time.Duration
	err   error
}

// take notes a result.
func (k *Keeper) take(ctx context.Context, r result) {
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	s := k.names[r.name]
	if s == nil { // no longer wanted
		k.mu.Unlock()
		return
	}
	s.asking = false
	now := time.Now()
	if r.err != nil {
		s.failures++
		s.due = now.Add(min(firstRetry<<min(s.failures-1, 10), mostRetry))
		tell := !s.told && (!s.known || s.failures >= toldAfter)
		s.told = s.told || tell
		message := s.trouble(r)
		k.mu.Unlock()
		if tell {
			k.tell(r.name, true, message)
		}
		return
	}
	s.due = now.Add(min(max(r.ttl, leastRefresh), mostRefresh))
	over := s.told
	changed := !s.known || !s.addrs.Equal(r.addrs)
	s.addrs, s.known, s.at, s.failures, s.told = r.addrs, true, now, 0, false
	k.unsaved = k.unsaved || changed
	k.publish()
	k.mu.Unlock()
	if over {
		k.tell(r.name, false, "")
	}
	if changed && k.cfg.Changed != nil {
		k.cfg.Changed()
	}
}

func (k *Keeper) tell(name string, on bool, message string) {
	if k.cfg.Failing != nil {
		k.cfg.Failing(name, on, message)
	}
}

// trouble says what is wrong and what is answered meanwhile.
func (s *name) trouble(r result) string {
	what := fmt.Sprintf("the addresses of %s cannot be found: %v", r.name, r.err)
	if !s.known {
		return what + "; it was never resolved, so no address is answered for it"
	}
	return fmt.Sprintf("%s; those last found (%d) are answered on", what, len(s.addrs.A)+len(s.addrs.AAAA))
}

// errNone: the name has no address, or is none.
var errNone = errors.New("it has none")

// ask finds the addresses of a name.
func (k *Keeper) ask(ctx context.Context, n string) result {
	r := result{name: n}
	servers, err := k.servers()
	if err != nil {
		r.err = err
		return r
	}
	r.ttl = mostRefresh
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		addrs, ttl, err := k.query(ctx, n, qtype, servers)
		if err != nil {
			r.err = err
			return r
		}
		r.ttl = min(r.ttl, ttl)
		if qtype == dns.TypeA {
			r.addrs.A = addrs
		} else {
			r.addrs.AAAA = addrs
		}
	}
	if len(r.addrs.A)+len(r.addrs.AAAA) == 0 {
		r.err = errNone
	}
	return r
}

// Names are the names wanted, for tests and status.
func (k *Keeper) Names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.names))
}

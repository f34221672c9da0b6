package notify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/internal/hidden"
)

// Config of a Hub. Folder, From, Floor, Failing and Log are needed.
type Config struct {
	// Folder is where outboxes are kept; made if absent. Key files without a leading slash are looked for in its parent.
	Folder string
	From   From
	// Floor is an ID of a switch: to a target that is new, those up to it are no news.
	Floor func() string
	// Failing is told when a target begins or ceases to fail. It is called from several goroutines and must not wait.
	Failing func(name string, on bool, message string)
	Log     *slog.Logger
	// AllowLocal lets targets be on loopback, link-local and metadata addresses.
	AllowLocal bool
	Roots      *x509.CertPool // nil: those of the system
	Timing     Timing
	Now        func() time.Time // nil: time.Now
	// Secret opens a value of a Secret; nil: there are none.
	Secret func(name, key string) (hidden.Text, error)
	// Never are files that are not read as key files, besides control's own in the folder of key files.
	Never []string
}

// folder is where key files with relative names are.
func (c *Config) folder() string { return filepath.Dir(c.Folder) }

// From says who sends.
type From struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

// ErrUnknown is matched by the error about a target that does not exist.
var ErrUnknown = errors.New("no such notifier")

// Hub serves all targets. Methods may run at the same time; none of them waits for a network.
type Hub struct {
	cfg Config

	mu       sync.Mutex
	couriers map[string]*courier
	ctx      context.Context // nil before Run and after it

	// pubMu is apart from mu, under which outboxes are opened: who publishes does not wait for a disk.
	pubMu sync.Mutex
	// pubs are publications of switches, by event ID; pubOrder the IDs, oldest first; fresh those not handed on yet.
	pubs     map[string]Publication
	pubOrder []string
	fresh    map[string]Publication
}

// New makes a hub without targets.
func New(cfg Config) (*Hub, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("outboxes: %w", err)
	}
	return &Hub{cfg: cfg, couriers: map[string]*courier{}, pubs: map[string]Publication{}, fresh: map[string]Publication{}}, nil
}

// Configure puts these targets in the place of those before. What waits for one that is gone is deleted.
func (h *Hub) Configure(targets []Target) {
	h.mu.Lock()
	var gone []*courier
	for name, c := range h.couriers {
		if !slices.ContainsFunc(targets, func(t Target) bool { return t.Name == name }) {
			gone = append(gone, c)
			delete(h.couriers, name)
		}
	}
	var changed []func()
	for _, t := range targets {
		if c := h.couriers[t.Name]; c != nil {
			changed = append(changed, func() { c.set(t) })
			continue
		}
		c, err := newCourier(&h.cfg, t)
		if err != nil {
			h.cfg.Log.Error("notifier cannot be served", "notifier", t.Name, "error", err)
			changed = append(changed, func() { h.cfg.Failing(t.Name, true, "notifier "+t.Name+" cannot be served: "+err.Error()) })
			continue
		}
		h.couriers[t.Name] = c
		h.startCourier(c)
	}
	h.mu.Unlock()
	for _, f := range changed {
		f()
	}
	for _, c := range gone {
		if err := c.remove(); err != nil {
			h.cfg.Log.Warn("outbox of a notifier that is gone not removed", "error", err)
		}
		h.cfg.Failing(c.name, false, "")
	}
}

// startCourier sets a courier to work, if the hub works. The caller holds the lock.
func (h *Hub) startCourier(c *courier) {
	if h.ctx == nil || c.stop != nil {
		return
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(h.ctx)
	go c.run(ctx)
}

// end stops a courier and waits for it: at most as long as closing a connection takes.
func (c *courier) end() {
	if c.stop != nil {
		c.stop()
		<-c.ended
	}
}

// remove stops a courier for good and deletes what waits.
func (c *courier) remove() error {
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	return c.box.remove()
}

// Run delivers until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	h.mu.Lock()
	h.ctx = ctx
	for _, c := range h.couriers {
		h.startCourier(c)
	}
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	h.ctx = nil
	all := h.all()
	h.mu.Unlock()
	for _, c := range all {
		c.end()
	}
	return nil
}

// all gives the couriers by name. The caller holds the lock.
func (h *Hub) all() []*courier {
	out := make([]*courier, 0, len(h.couriers))
	for _, c := range h.couriers {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *courier) int { return strings.Compare(a.name, b.name) })
	return out
}

func (h *Hub) each(f func(*courier)) {
	h.mu.Lock()
	all := h.all()
	h.mu.Unlock()
	for _, c := range all {
		f(c)
	}
}

// Take queues events for everyone they are for. When it returns they are on the disk.
func (h *Hub) Take(events []Event) {
	if len(events) == 0 {
		return
	}
	h.pubMu.Lock()
	for i := range events {
		if p, ok := h.pubs[events[i].ID]; ok && events[i].Publication == nil {
			events[i].Publication = &p
		}
	}
	h.pubMu.Unlock()
	h.each(func(c *courier) { c.take(events) })
}

// Recover queues switches, oldest first, that a process before this one may not have come to tell.
func (h *Hub) Recover(events []Event) {
	h.each(func(c *courier) {
		c.mu.Lock()
		floor := c.box.state.Floor
		c.mu.Unlock()
		c.take(slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.ID <= floor }))
	})
}

// Lost notes that so many events never came here.
func (h *Hub) Lost(n uint64) { h.each(func(c *courier) { c.lost(n) }) }

// maxPubs bounds the publications kept for switches that were not taken yet.
const maxPubs = 4096

// Published notes when a switch was published; the event may come later.
func (h *Hub) Published(id string, p Publication) {
	h.pubMu.Lock()
	defer h.pubMu.Unlock()
	if _, again := h.pubs[id]; !again {
		h.pubOrder = append(h.pubOrder, id)
	}
	h.pubs[id], h.fresh[id] = p, p
	if len(h.pubOrder) > maxPubs {
		delete(h.pubs, h.pubOrder[0])
		delete(h.fresh, h.pubOrder[0])
		h.pubOrder = h.pubOrder[1:]
	}
}

// Flush adds what Published noted to events that wait for it.
func (h *Hub) Flush() {
	h.pubMu.Lock()
	pubs := h.fresh
	h.fresh = map[string]Publication{}
	h.pubMu.Unlock()
	if len(pubs) > 0 {
		h.each(func(c *courier) { c.published(pubs) })
	}
}

// Settle tells the end of alarms that were told and are not among those on now, by code and subject.
func (h *Hub) Settle(on map[string]bool) {
	h.each(func(c *courier) { c.settle(on, h.cfg.Now()) })
}

// Status gives the state of every target, by name.
func (h *Hub) Status() []Status {
	var out []Status
	h.each(func(c *courier) { out = append(out, c.view()) })
	return out
}

// TestResult is what came of a test message.
type TestResult struct {
	OK       bool
	ID       string
	Status   int    // HTTP; 0: no answer
	Answer   string // its first part; keys taken out
	Error    string
	Duration time.Duration
}

// Test sends a message to a target now, past its queue, and waits for the answer.
func (h *Hub) Test(ctx context.Context, name string) (TestResult, error) {
	h.mu.Lock()
	c := h.couriers[name]
	h.mu.Unlock()
	if c == nil {
		return TestResult{}, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	now := h.cfg.Now()
	id := fmt.Sprintf("test-%016x", now.UnixNano())
	c.mu.Lock()
	t := c.target
	c.pacer.sent(now)
	c.mu.Unlock()
	m := &message{id: id, kind: kindTest, at: now, from: h.cfg.From, language: t.Language}
	r := c.send(ctx, &t, m)
	out := TestResult{OK: r.err == nil, ID: id, Status: r.status, Answer: r.text, Duration: h.cfg.Now().Sub(now)}
	if r.err != nil {
		out.Error = r.err.Error()
	}
	return out, nil
}

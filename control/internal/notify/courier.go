package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"
)

const (
	// failingAfter tries in a row an alarm is raised: the first seconds of an outage are nobody's night.
	failingAfter = 3
	// refusals of one message after which it is given up.
	maxRefusals = 3
)

// Status is the state of one target.
type Status struct {
	Name, Type  string
	Queue       int       // events that wait, those under way included
	LastSuccess time.Time // zero: none since the start of this process
	LastError   string    // of the newest try; "" when it succeeded
	LastTry     time.Time
	NextTry     time.Time // zero: nothing waits for another try
	Failures    int       // tries in a row
	Sent        uint64    // messages delivered since the start of this process, as are the next two
	Failed      uint64    // tries that failed
	Lost        uint64    // events given up
}

// courier serves one target.
type courier struct {
	name   string
	cfg    *Config
	client *http.Client
	log    *slog.Logger
	wake   chan struct{}
	stop   context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex // of what follows
	target   Target
	box      *outbox
	former   *former
	pacer    pacer
	status   Status
	refusals int  // of the message under way
	failing  bool // told by Config.Failing; true at first, so that an alarm from before is taken away
	// keyTrouble: the key files could not be read when they were looked at last, without a message.
	keyTrouble bool
	gone       bool // removed: nothing is written any more
	diskErr    error
}

func newCourier(cfg *Config, t Target) (*courier, error) {
	c := &courier{
		name: t.Name, cfg: cfg, target: t, client: newClient(cfg.AllowLocal, cfg.Roots), log: cfg.Log.With("notifier", t.Name),
		wake: make(chan struct{}, 1), ended: make(chan struct{}), failing: true, former: newFormer(cfg.Timing), pacer: pacerOf(t.Type),
	}
	box, problem, err := openOutbox(outboxPath(cfg.Folder, t.Name), cfg.Floor())
	if box == nil {
		return nil, err
	}
	c.box, c.diskErr = box, err
	if problem != nil {
		c.log.Error("outbox damaged", "error", problem)
	}
	now := cfg.Now()
	for i := range box.state.Queue {
		it := &box.state.Queue[i]
		if it.At.After(now) { // the clock was set back meanwhile: it is not waited for
			it.At = now
		}
		c.former.arrived(it.At)
	}
	c.check()
	return c, nil
}

// keyCheck is how often key files that could not be read are looked at again.
const keyCheck = time.Minute

// check reads the key files, so that a mistake in them is known before there is news.
func (c *courier) check() {
	_, err := c.target.read(c.cfg)
	switch {
	case err != nil:
		c.status.LastError, c.status.LastTry, c.status.Failures = err.Error(), c.cfg.Now(), failingAfter
	case c.keyTrouble:
		c.status.LastError, c.status.Failures, c.status.NextTry = "", 0, time.Time{}
	}
	c.keyTrouble = err != nil
}

// set changes the target. What waits is tried at once: the change may be the cure.
func (c *courier) set(t Target) {
	c.mu.Lock()
	if reflect.DeepEqual(c.target, t) {
		c.mu.Unlock()
		return
	}
	if c.target.Type != t.Type {
		c.pacer = pacerOf(t.Type)
	}
	c.target = t
	c.status.NextTry, c.status.Failures, c.status.LastError, c.refusals = time.Time{}, 0, "", 0
	c.check()
	tell := c.judge()
	c.mu.Unlock()
	tell()
	c.ring()
}

func (c *courier) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take queues events; those that are not for the target, or no news, are passed over.
func (c *courier) take(events []Event) {
	c.mu.Lock()
	now := c.cfg.Now()
	var steps []record
	for i := range events {
		e := events[i]
		if !c.target.hears(&e) {
			continue
		}
		e.trim()
		steps = append(steps, record{Take: &item{At: now, Event: e}})
	}
	c.do(c.admitted(steps, now))
	c.mu.Unlock()
	c.ring()
}

// admitted numbers the events of steps that are news, and makes room for them.
func (c *courier) admitted(steps []record, now time.Time) []record {
	s := &c.box.state
	news := make([]record, 0, len(steps))
	after := state{Known: slices.Clone(s.Known), Floor: s.Floor, Alarms: maps.Clone(s.Alarms), Seq: s.Seq}
	for _, r := range steps {
		if after.wants(&r.Take.Event) {
			r.Take.Seq = after.Seq + 1
			after.take(r.Take)
			c.former.arrived(now)
			news = append(news, r)
		}
	}
	var room []record
	if n := len(news) - maxQueue; n > 0 {
		room, news = append(room, record{Lost: uint64(n)}), news[n:]
		c.status.Lost += uint64(n)
	}
	if seqs := tooMany(s, len(news)); len(seqs) > 0 {
		room = append(room, record{Drop: seqs})
		c.status.Lost += uint64(len(seqs))
	}
	return append(room, news...)
}

// do does steps and keeps what the disk says of them.
func (c *courier) do(steps []record) {
	if len(steps) == 0 || c.gone {
		return
	}
	err := c.box.step(steps...)
	if err != nil && c.diskErr == nil {
		c.log.Error("outbox not written; delivery goes on, and a restart may lose what waits", "error", err)
	}
	c.diskErr = err
}

// published notes when switches were published.
func (c *courier) published(pubs map[string]Publication) {
	c.mu.Lock()
	var steps []record
	for i := range c.box.state.Queue {
		it := &c.box.state.Queue[i]
		if p, ok := pubs[it.Event.ID]; ok && it.Event.Publication == nil && !c.box.state.underWay(it.Seq) {
			steps = append(steps, record{Pub: &pubRecord{it.Seq, p}})
		}
	}
	c.do(steps)
	c.mu.Unlock()
	c.ring()
}

// lost notes news that never came here.
func (c *courier) lost(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Lost += n
	c.do([]record{{Lost: n}})
}

// settle tells the end of alarms that ended while nobody looked.
func (c *courier) settle(on map[string]bool, now time.Time) {
	c.mu.Lock()
	var over []Event
	var steps []record
	for key, e := range c.box.state.Alarms {
		if on[key] {
			continue
		}
		if !c.target.hears(&e) {
			steps = append(steps, record{Over: &overRecord{key}})
			continue
		}
		e.ID, e.Time, e.On, e.Message = e.ID+"-over", now, false, "over: "+e.Message
		over = append(over, e)
	}
	c.do(steps)
	c.mu.Unlock()
	c.take(over)
}

// view is the status now.
func (c *courier) view() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Name, s.Type, s.Queue = c.name, c.target.Type, len(c.box.state.Queue)
	if s.LastError == "" && c.diskErr != nil {
		s.LastError = c.diskErr.Error()
	}
	return s
}

// run delivers until ctx ends.
func (c *courier) run(ctx context.Context) {
	defer close(c.ended)
	defer c.client.CloseIdleConnections()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.box.close()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
		timer.Reset(c.turn(ctx))
	}
}

// turn sends one message if there is one to be sent, and gives the time to the next turn.
func (c *courier) turn(ctx context.Context) time.Duration {
	c.mu.Lock()
	if c.keyTrouble {
		c.check()
	}
	tell := c.judge()
	m, wait := c.due(c.cfg.Now())
	if c.keyTrouble {
		wait = min(wait, keyCheck)
	}
	t := c.target
	c.mu.Unlock()
	tell()
	if m == nil {
		return wait
	}
	r := c.send(ctx, &t, m)
	if ctx.Err() != nil {
		return never
	}
	c.mu.Lock()
	tell = c.sent(m, &r)
	c.mu.Unlock()
	tell()
	return 0
}

// due is the message to be sent now, or how long there is none.
func (c *courier) due(now time.Time) (*message, time.Duration) {
	s := &c.box.state
	if seqs := tooOld(s, now); len(seqs) > 0 {
		c.status.Lost += uint64(len(seqs))
		c.do([]record{{Drop: seqs}})
	}
	if wait := c.status.NextTry.Sub(now); wait > 0 {
		return nil, wait
	}
	if wait := c.pacer.wait(now); wait > 0 && len(s.Queue) > 0 {
		return nil, wait
	}
	if s.Form == nil {
		form, wait := c.former.next(s, now)
		if form == nil {
			return nil, wait
		}
		// Written down before the first try: whoever sends it after a kill sends it under the same ID.
		c.do([]record{{Form: form}})
		c.refusals = 0
	}
	c.pacer.sent(now)
	return c.messageOf(s), 0
}

func (c *courier) messageOf(s *state) *message {
	return &message{
		id: s.Form.ID, kind: s.Form.Kind, at: s.Form.At, lost: s.Form.Lost, events: s.events(), from: c.cfg.From, language: c.target.Language,
	}
}

// send posts a message by the keys as they are now.
func (c *courier) send(ctx context.Context, t *Target, m *message) reply {
	k, err := t.read(c.cfg)
	if err != nil {
		return reply{err: err}
	}
	return post(ctx, c.client, t, &k, m, c.cfg.Now())
}

// sent notes what came of a try; what it gives is to be called without the lock.
func (c *courier) sent(m *message, r *reply) func() {
	now := c.cfg.Now()
	c.status.LastTry = now
	if r.err == nil {
		c.status.Sent++
		c.status.LastSuccess, c.status.LastError, c.status.NextTry, c.status.Failures = now, "", time.Time{}, 0
		c.do([]record{{Done: m.id}})
		return c.judge()
	}
	c.status.Failed++
	c.status.Failures++
	c.status.LastError = r.err.Error()
	c.status.NextTry = now.Add(max(backoff(c.former.timing, c.status.Failures), r.retryAfter))
	if errors.Is(r.err, errRefused) {
		c.refusals++
	}
	if c.refusals >= maxRefusals || now.Sub(m.at) > maxAge {
		c.log.Warn("message given up", "id", m.id, "events", len(m.events), "error", c.status.LastError)
		c.status.Lost += uint64(len(m.events))
		c.status.NextTry = now.Add(backoff(c.former.timing, 1))
		c.do([]record{{Gone: m.id}})
	}
	return c.judge()
}

// backoff doubles from the first to the last retry; a part is left to chance, so that many do not come back at once.
func backoff(t Timing, failures int) time.Duration {
	d := t.FirstRetry << min(failures-1, 20)
	if d <= 0 || d > t.LastRetry {
		d = t.LastRetry
	}
	return d - rand.N(d/5+1)
}

// judge raises the alarm about this target, or takes it away, when what it gives is called.
func (c *courier) judge() func() {
	failing := c.status.Failures >= failingAfter
	if !failing && !c.failing {
		return func() {}
	}
	c.failing = failing
	text := ""
	if failing {
		text = fmt.Sprintf("notifier %s does not deliver, %d events wait: %s", c.name, len(c.box.state.Queue), c.status.LastError)
	}
	return func() { c.cfg.Failing(c.name, failing, text) }
}

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
	"steerpoint/control/internal/store"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

// committer is what of the store decisions need; a test puts a failing one in its place.
type committer interface {
	CommitDecisions(ctx context.Context, commits []store.Commit) (int, error)
	WritePublications(ctx context.Context, entries []store.Entry) error
}

// work is what one rule wants written, and what follows when it is.
type work struct {
	rule     string
	ended    bool
	record   []byte // nil and not ended: nothing to write, only the view is new
	switches []store.Entry
	undone   []store.Entry
	refs     []switchRef
	events   []api.Event
	view     *snapshot.DNSRuleInput
}

// switchRef is a switch whose publication is waited for.
type switchRef struct {
	id string
	at steering.Instant // of the decision
	// audience is the name servers connected then: the publication is theirs.
	audience *roster.Audience
}

// join adds newer work of the same rule.
func (w *work) join(n *work) {
	if n.record != nil || n.ended {
		w.record, w.ended = n.record, n.ended
	}
	w.switches, w.undone = append(w.switches, n.switches...), append(w.undone, n.undone...)
	w.refs, w.events = append(w.refs, n.refs...), append(w.events, n.events...)
	if n.view != nil || n.ended {
		w.view = n.view
	}
}

// maxQueuedSwitches bounds the switch-log entries that wait for a store that does not take them; the oldest go.
const maxQueuedSwitches = 100_000

// commitQueue holds work until it is written. Of each rule only the newest record waits; every switch does.
type commitQueue struct {
	mu           sync.Mutex
	order        []*work
	byRule       map[string]*work
	cfg          *published
	publications []store.Entry
	news         chan struct{}
	switches     int
	lost         int
}

func (q *commitQueue) init() {
	q.byRule, q.news = map[string]*work{}, make(chan struct{}, 1)
}

func (q *commitQueue) wake() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

func (q *commitQueue) add(w *work) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(w)
	q.wake()
}

func (q *commitQueue) put(w *work) {
	q.switches += len(w.switches)
	if old := q.byRule[w.rule]; old != nil {
		old.join(w)
		w = old
	} else {
		q.byRule[w.rule] = w
		q.order = append(q.order, w)
	}
	if over := q.switches - maxQueuedSwitches; over > 0 && len(w.switches) > 1 {
		n := min(over, len(w.switches)-1)
		w.switches, q.lost, q.switches = w.switches[n:], q.lost+n, q.switches-n
	}
}

// config lets the publisher go on to another configuration once everything before it is written.
func (q *commitQueue) config(p *published) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cfg = p
	q.wake()
}

func (q *commitQueue) publication(entries []store.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.publications = append(q.publications, entries...)
	q.wake()
}

// takeAll empties the queue.
func (q *commitQueue) takeAll() ([]*work, *published, []store.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	order, cfg, pubs := q.order, q.cfg, q.publications
	q.order, q.byRule, q.cfg, q.publications, q.switches = nil, map[string]*work{}, nil, nil, 0
	return order, cfg, pubs
}

// putBack returns what could not be written, before what has come since.
func (q *commitQueue) putBack(rest []*work, cfg *published, pubs []store.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	newer := q.order
	q.order, q.byRule, q.switches = nil, map[string]*work{}, 0
	for _, w := range append(rest, newer...) {
		q.put(w)
	}
	if q.cfg == nil {
		q.cfg = cfg
	}
	q.publications = append(pubs, q.publications...)
}

// pending is how many rules wait.
func (q *commitQueue) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.order)
}

func (q *commitQueue) waits(rule string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.byRule[rule]
	return w != nil && (w.record != nil || w.ended)
}

// commitAll writes work as it comes, until ctx ends. A store that refuses is tried again and again: answers stay as
// they are, decisions wait.
func (c *Control) commitAll(ctx context.Context) error {
	wait := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.queue.news:
		}
		err := c.commitOnce(ctx)
		if err == nil {
			wait = 0
			continue
		}
		if errors.Is(err, store.ErrFull) {
			if err := c.store.Relieve(ctx); err != nil {
				c.log.Warn("no room made in the store", "error", err)
			}
		}
		wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
			c.queue.wake()
		}
	}
}

// commitOnce writes everything that waits.
func (c *Control) commitOnce(ctx context.Context) error {
	order, cfg, pubs := c.queue.takeAll()
	if len(order) == 0 && cfg == nil && len(pubs) == 0 {
		return nil
	}
	var commits []store.Commit
	var at []int // commits[i] is of order[at[i]]
	for i, w := range order {
		if w.record != nil || w.ended {
			commits = append(commits, store.Commit{Rule: w.rule, Record: w.record, Switches: w.switches, Undone: w.undone})
			at = append(at, i)
		}
	}
	start := time.Now()
	n, err := c.commits.CommitDecisions(ctx, commits)
	done := len(order)
	if err != nil {
		done = 0
		if n > 0 {
			done = at[n-1] + 1
		}
	} else if len(pubs) > 0 {
		if err = c.commits.WritePublications(ctx, pubs); err == nil {
			pubs = nil
		}
	}
	if len(commits) > 0 && err == nil {
		c.metrics.commit.Observe(time.Since(start).Seconds())
	}
	c.committed(order[:done])
	if err != nil {
		c.metrics.storeErrors.Inc()
		c.queue.putBack(order[done:], cfg, pubs)
		if ctx.Err() == nil {
			c.alarms.set(api.AlarmStore, "", true, c.storeTrouble(err))
		}
		return err
	}
	c.alarms.set(api.AlarmStore, "", false, "")
	if cfg != nil {
		c.answers.setConfig(cfg)
		c.edges.setConfig(cfg.set)
	}
	return nil
}

// storeTrouble says what a store that does not take writes means, and what to do.
func (c *Control) storeTrouble(err error) string {
	do := "decisions wait and are tried again; check disk space and permissions of the data folder"
	if c.store.Err() != nil {
		do = "the store has given up: free disk space or mend the disk, then restart steer; until then no decision and no change is taken"
	}
	return fmt.Sprintf("the store takes no writes: %v. Name servers answer on by the last decisions; %s", err, do)
}

// committed hands on what is safely written: to the publisher and to the watchers.
func (c *Control) committed(done []*work) {
	if len(done) == 0 {
		return
	}
	c.answers.update(done)
	for _, w := range done {
		for _, e := range w.events {
			c.feed.Add(e)
		}
	}
}

// entry makes a log entry of a value that always encodes.
func entry(id string, v any) (store.Entry, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return store.Entry{}, fmt.Errorf("log entry %s: %w", id, err)
	}
	return store.Entry{ID: id, Value: b}, nil
}

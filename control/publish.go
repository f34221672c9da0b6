package control

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

const (
	// coalesce is how long the publisher waits for more changes of the same moment: a commit of 500 rules is one
	// snapshot, and nobody notices 2 ms beside a TTL. After a snapshot that took longer to make it waits as long again,
	// up to maxCoalesce: thousands of rules that move are many commits, and each would be compiled whole.
	coalesce    = 2 * time.Millisecond
	maxCoalesce = 100 * time.Millisecond
	// versionBlock is how many map versions are reserved in the store at once: a version never comes twice, also after
	// a crash, since it is the SOA serial.
	versionBlock = 1000
)

// published is a configuration as the publisher needs it.
type published struct {
	services []*spec.Service
	zones    []*spec.Zone
}

// answers is what the publisher compiles from: committed decisions and the configuration they belong to.
type answers struct {
	mu      sync.Mutex
	views   map[string]snapshot.DNSRuleInput
	cfg     *published
	refs    []switchRef
	news    chan struct{}
	version uint64 // next
	block   uint64 // end of what is reserved
	status  api.MapStatus
	last    *snapshot.DNS // acknowledged
}

func (a *answers) init() {
	a.views, a.news = map[string]snapshot.DNSRuleInput{}, make(chan struct{}, 1)
}

func (a *answers) start(first uint64) { a.version, a.block = first, first+versionBlock }

// mark asks for a publication.
func (a *answers) mark() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *answers) setViews(v map[string]snapshot.DNSRuleInput) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.views = v
}

func (a *answers) setConfig(p *published) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cfg = p
	a.mark()
}

func (a *answers) update(done []*work) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range done {
		switch {
		case w.ended:
			delete(a.views, w.rule)
		case w.view != nil:
			a.views[w.rule] = *w.view
		}
		a.refs = append(a.refs, w.refs...)
	}
	a.mark()
}

// soften brings the open deadlines of a committed decision up to date; it asks for no publication by itself.
func (a *answers) soften(rule string, v snapshot.DNSRuleInput) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, ok := a.views[rule]; ok && old.Decision.Seq == v.Decision.Seq {
		a.views[rule] = v
	}
}

// job is one publication.
type job struct {
	in   snapshot.DNSInput
	refs []switchRef
}

// next takes what is to be published; false before the first configuration.
func (a *answers) next() (job, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cfg == nil {
		return job{}, false
	}
	j := job{refs: a.refs, in: snapshot.DNSInput{
		Version: a.version, Zones: a.cfg.zones, Services: a.cfg.services, Rules: maps.Clone(a.views), Previous: a.last,
	}}
	a.refs = nil
	a.version++
	return j, true
}

func (a *answers) acknowledged(d *snapshot.DNS, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = d
	a.status = api.MapStatus{Version: d.Version, Published: at, Services: len(d.Services)}
}

func (a *answers) failed(refs []switchRef, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refs = append(refs, a.refs...)
	a.status.Error = err.Error()
}

func (a *answers) state() (api.MapStatus, *snapshot.DNS) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status, a.last
}

// needVersions reports whether the reserved versions run out.
func (a *answers) needVersions() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version+versionBlock/2 > a.block
}

// publish compiles and publishes whenever something that was committed changes answers.
func (c *Control) publish(ctx context.Context) error {
	var cache snapshot.TableCache
	wait := coalesce
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.answers.news:
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		began := time.Now()
		if !c.publishOnce(&cache) {
			c.retryPublication(ctx)
		}
		wait = min(max(time.Since(began), coalesce), maxCoalesce)
		if c.answers.needVersions() {
			c.reserve(ctx)
		}
	}
}

// retryPublication waits a second before the next try.
func (c *Control) retryPublication(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
		c.answers.mark()
	}
}

// reserve takes another block of versions. Without one the publisher goes on beyond what is reserved: an answer that
// is late is worse than a serial that might come twice after a crash.
func (c *Control) reserve(ctx context.Context) {
	if _, err := c.store.ReserveVersions(ctx, versionBlock); err != nil {
		c.log.Warn("no block of map versions reserved", "error", err)
		return
	}
	c.answers.mu.Lock()
	defer c.answers.mu.Unlock()
	c.answers.block += versionBlock
}

func (c *Control) publishOnce(cache *snapshot.TableCache) bool {
	j, ok := c.answers.next()
	if !ok {
		return true
	}
	now := c.clock.Moment()
	j.in.Created, j.in.Now, j.in.Geo = now.Wall.UTC(), now.At, c.deps.Geo()
	made, problems := snapshot.CompileDNS(j.in, cache)
	c.compileAlarms(problems)
	if err := c.deps.Publisher.PublishDNS(made); err != nil {
		c.answers.failed(j.refs, err)
		c.alarms.set(api.AlarmPublish, "", true, fmt.Sprintf("map %d was not taken: %v; name servers answer on by the one before", made.Version, err))
		return false
	}
	c.alarms.set(api.AlarmPublish, "", false, "")
	ack := c.clock.Moment()
	c.answers.acknowledged(made, ack.Wall.UTC())
	c.ready.Store(true)
	c.acknowledge(made, ack.At, ack.Wall.UTC(), j.refs)
	return true
}

// acknowledge notes that switches are answered by.
func (c *Control) acknowledge(made *snapshot.DNS, at time.Duration, wall time.Time, refs []switchRef) {
	var longest float64
	var entries []store.Entry
	for _, r := range refs {
		p := api.Publication{Time: wall, Seconds: (at - r.at).Seconds(), MapVersion: made.Version}
		longest = max(longest, p.Seconds)
		c.metrics.publication.Observe(p.Seconds)
		if e, err := entry(r.id, p); err == nil {
			entries = append(entries, e)
		}
	}
	if len(entries) > 0 {
		c.queue.publication(entries)
	}
	e := api.Event{Time: wall, Kind: api.EventAck, Map: made.Version, Seconds: longest, Message: fmt.Sprintf("name servers answer by map %d", made.Version)}
	if len(refs) > 0 {
		e.Switch = refs[len(refs)-1].id
		e.Message += fmt.Sprintf(": %d switch(es) published within %.1f ms of the decision", len(refs), longest*1000)
	}
	c.feed.Add(e)
}

// compileAlarms raises what could not be compiled as written.
func (c *Control) compileAlarms(problems []snapshot.Problem) {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	c.alarms.set(api.AlarmResource, "map", len(lines) > 0, strings.Join(lines, "; "))
}

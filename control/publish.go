package control

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
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
	unread   []string // services of which nothing can be read
	set      *spec.Set
	revision int64 // of the resources
}

// answers is what the publisher compiles from: committed decisions and the configuration they belong to.
type answers struct {
	mu      sync.Mutex
	views   map[string]snapshot.DNSRuleInput
	changed map[string]struct{} // rules whose view the compiler has not seen yet, ended ones too
	whole   bool                // the compiler is to be told all views
	cfg     *published
	refs    []switchRef
	news    chan struct{}
	version uint64 // next
	block   uint64 // end of what is reserved
	status  api.MapStatus
	last    *snapshot.DNS // handed out, or from before the restart
	signing *snapshot.Signing
}

func (a *answers) init() {
	a.views, a.changed, a.whole = map[string]snapshot.DNSRuleInput{}, map[string]struct{}{}, true
	a.news = make(chan struct{}, 1)
}

// start begins with a version, from which on so many are reserved; previous is the map from before the restart, or nil.
func (a *answers) start(first, reserved uint64, previous *snapshot.DNS) {
	a.version, a.block, a.last = first, first+reserved, previous
}

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
	a.views, a.whole = v, true
}

func (a *answers) setConfig(p *published) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cfg = p
	a.mark()
}

// setSigning gives what zones are signed by.
func (a *answers) setSigning(s *snapshot.Signing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signing = s
	a.mark()
}

func (a *answers) update(done []*work) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range done {
		a.changed[w.rule] = struct{}{}
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

// soften brings the open deadline of a committed decision up to date; it asks for no publication by itself. Nothing else
// is taken over: a verdict, or that every edge is down, may wait for the store under the same sequence number.
func (a *answers) soften(rule string, d *steering.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old, ok := a.views[rule]; ok && old.Decision.Seq == d.Seq {
		old.Decision.Soonest = d.Soonest
		a.views[rule], a.changed[rule] = old, struct{}{}
	}
}

// job is one publication.
type job struct {
	in   snapshot.DNSInput
	refs []switchRef

	revision int64 // of the resources
}

// next takes what is to be published; false before the first configuration.
func (a *answers) next() (job, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cfg == nil {
		return job{}, false
	}
	j := job{refs: a.refs, revision: a.cfg.revision, in: snapshot.DNSInput{
		Version: a.version, Zones: a.cfg.zones, Services: a.cfg.services, Unread: a.cfg.unread, Partial: !a.whole, Previous: a.last, Signing: a.signing,
	}}
	if a.whole {
		j.in.Rules = maps.Clone(a.views)
	} else {
		j.in.Rules, j.in.Ended = a.unseen()
	}
	clear(a.changed)
	a.refs, a.whole = nil, false
	a.version++
	return j, true
}

// unseen is what the compiler has not seen yet: views that changed, and rules that ended.
func (a *answers) unseen() (views map[string]snapshot.DNSRuleInput, ended []string) {
	views = make(map[string]snapshot.DNSRuleInput, len(a.changed))
	for rule := range a.changed {
		if v, ok := a.views[rule]; ok {
			views[rule] = v
		} else {
			ended = append(ended, rule)
		}
	}
	return views, ended
}

func (a *answers) published(d *snapshot.DNS, at time.Time) {
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

// needVersions is how many versions to reserve, since those that are run out; 0: none. What was used beyond them counts.
func (a *answers) needVersions() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.version+versionBlock/2 <= a.block {
		return 0
	}
	return versionBlock + max(a.version, a.block) - a.block
}

// newest is the version of the newest map, handed out or not.
func (a *answers) newest() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version - 1
}

// publish compiles and publishes whenever something that was committed changes answers.
func (c *Control) publish(ctx context.Context) error {
	var compiler snapshot.Compiler
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
		if !c.publishOnce(&compiler) {
			c.retryPublication(ctx)
		}
		wait = min(max(time.Since(began), coalesce), maxCoalesce)
		if n := c.answers.needVersions(); n > 0 {
			c.reserve(ctx, n)
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

// reserve takes another n versions. Without them the publisher goes on beyond what is reserved: an answer that is late
// is worse than a serial that might come twice after a crash.
func (c *Control) reserve(ctx context.Context, n uint64) {
	first, err := c.store.ReserveVersions(ctx, n)
	if err != nil {
		c.log.Warn("no block of map versions reserved", "error", err)
		return
	}
	c.answers.mu.Lock()
	defer c.answers.mu.Unlock()
	c.answers.block = first + n
}

func (c *Control) publishOnce(compiler *snapshot.Compiler) bool {
	j, ok := c.answers.next()
	if !ok {
		return true
	}
	now := c.clock.Moment()
	j.in.Created, j.in.Now, j.in.Geo = now.Wall.UTC(), now.At, c.deps.Geo()
	j.in.Resolved = c.resolver.Resolved()
	var keyProblems []snapshot.Problem
	j.in.Sealed, keyProblems = c.share(j.in.Zones, c.cookies.at(now.Wall))
	made, problems := compiler.Compile(j.in)
	problems = append(problems, keyProblems...)
	c.resolver.Want(compiler.Targets())
	c.compileAlarms(problems)
	handed := c.clock.Now()
	c.rollout.Handed(made.Version, handed)
	if err := c.deps.Publisher.PublishDNS(made); err != nil {
		c.answers.failed(j.refs, err)
		c.alarms.set(api.AlarmPublish, "", true, fmt.Sprintf("map %d was not taken: %v; name servers answer on by the one before", made.Version, err))
		return false
	}
	c.alarms.set(api.AlarmPublish, "", false, "")
	c.answers.published(made, c.wallNow())
	c.dnssec.published(made.Signing, made.Version)
	c.ready.Store(true)
	c.handedOut(made, handed, j.refs)
	c.shown.set(j.revision, made.Version)
	return true
}

// compileAlarms raises what could not be compiled as written.
func (c *Control) compileAlarms(problems []snapshot.Problem) {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	c.alarms.set(api.AlarmResource, "map", len(lines) > 0, strings.Join(lines, "; "))
}

package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/store"
	"steerpoint/spec"
	"steerpoint/steering"
)

// resources is what is stored, parsed. The loop owns it.
type resources struct {
	docs   map[string]spec.Resource // by key
	stored map[string]store.Resource
	broken map[string]string // stored but unreadable, with the reason

	revision int64 // of the newest write among them
}

func keyOf(r *store.Resource) string { return r.Kind + "/" + r.Name }

// replace takes everything that is stored.
func (r *resources) replace(v store.View, unreadable func(key string, err error)) {
	was := r.docs
	r.revision = v.Revision
	r.docs, r.stored, r.broken = map[string]spec.Resource{}, map[string]store.Resource{}, map[string]string{}
	for _, s := range v.Resources {
		if doc, inUse := was[keyOf(&s)]; inUse {
			r.docs[keyOf(&s)] = doc
		}
		r.put(s, unreadable)
	}
}

// unread reports whether a service is stored that cannot be read and of which nothing is in use.
func (r *resources) unread(service string) bool {
	key := string(spec.KindService) + "/" + service
	_, inUse := r.docs[key]
	return r.broken[key] != "" && !inUse
}

// allUnread names these services, in order.
func (r *resources) allUnread() (names []string) {
	for key := range r.broken {
		if kind, name, _ := strings.Cut(key, "/"); kind == string(spec.KindService) && r.unread(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// put takes one resource that was written; one without a document is gone. One that this version cannot read leaves
// what was there before in use.
func (r *resources) put(s store.Resource, unreadable func(key string, err error)) {
	key := keyOf(&s)
	if s.Document == nil {
		delete(r.docs, key)
		delete(r.stored, key)
		delete(r.broken, key)
		return
	}
	r.stored[key] = s
	doc, err := parseStored(&s)
	if err != nil {
		r.broken[key] = err.Error()
		unreadable(key, err)
		return
	}
	delete(r.broken, key)
	r.docs[key] = doc
}

// parseStored reads a stored document.
func parseStored(s *store.Resource) (spec.Resource, error) {
	docs, errs := spec.Parse("", shown(s.Kind, s.Document))
	if err := errs.Err(); err != nil {
		return spec.Resource{}, err
	}
	if len(docs) != 1 || docs[0].Key() != keyOf(s) {
		return spec.Resource{}, fmt.Errorf("%s holds %d documents, not itself", keyOf(s), len(docs))
	}
	docs[0].Revision = uint64(s.Revision)
	return docs[0], nil
}

func (r *resources) set() *spec.Set {
	return spec.NewSet(slices.Collect(maps.Values(r.docs)))
}

// overrides gives the Overrides with their ends on the core's clock.
func (r *resources) overrides(clock *moment.Clock) []engine.Override {
	return overridesOf(r.set(), r.stored, clock)
}

// overridesOf gives the overrides of a set. One that is not stored yet is written now.
func overridesOf(set *spec.Set, stored map[string]store.Resource, clock *moment.Clock) []engine.Override {
	var out []engine.Override
	for _, v := range set.Overrides() {
		s, ok := stored["Override/"+v.Name]
		written := clock.Moment()
		if ok {
			written = moment.Moment{Wall: s.Meta.Modified, Boot: s.Meta.Boot, BootTime: s.Meta.BootTime}
		}
		o := engine.Override{Name: v.Name, Order: s.Revision}
		if !ok {
			o.Order = 1<<63 - 1
		}
		if !v.Until.IsZero() {
			o.Until = max(clock.Until(written, v.Until), 1) // 0 would be for ever
		}
		switch {
		case v.Force != "":
			o.Kind, o.Edge = engine.Force, v.Force
			o.Service, o.Rule = splitRule(v.Rule)
		case v.Freeze != nil && v.Freeze.Rule != "":
			o.Kind = engine.Freeze
			o.Service, o.Rule = splitRule(v.Freeze.Rule)
		case v.Freeze != nil:
			o.Kind, o.Service = engine.Freeze, v.Freeze.Service
		case v.Drain != nil && v.Drain.Edge != "":
			o.Kind = engine.Drain
			o.Service, o.Edge = splitRule(v.Drain.Edge)
		case v.Drain != nil && v.Drain.Point != "":
			o.Kind, o.Point = engine.Drain, v.Drain.Point
		case v.Drain != nil && v.Drain.Node != "":
			o.Kind, o.Point, o.Node = engine.Drain, v.Drain.Node, true
		default:
			continue
		}
		out = append(out, o)
	}
	return out
}

// actor is who wrote a stored resource.
func (r *resources) actor(key string) string { return r.stored[key].Meta.Actor }

// expired names the overrides of ours whose time is over. What came by an apply stays: its file would write it again.
func (r *resources) expired(now steering.Instant, e *engine.Engine) []string {
	var over []string
	for _, o := range e.Overrides() {
		s, ok := r.stored["Override/"+o.Name]
		if ok && s.Meta.ApplySet == "" && o.Until != 0 && o.Until <= now {
			over = append(over, o.Name)
		}
	}
	return over
}

func (c *Control) unreadable(key string, err error) {
	c.log.Error("stored resource cannot be read; what was in use of it stays so", "resource", key, "error", err)
	c.alarms.set(api.AlarmResource, key, true, "stored resource "+key+" cannot be read by this version: "+err.Error())
}

// follow puts what is written to resources in place, in order. A watch that is lost begins again from everything.
func (c *Control) follow(ctx context.Context) error {
	after := c.applied.get()
	for ctx.Err() == nil {
		for batch := range c.store.WatchResources(ctx, after) {
			rev := revisionOf(batch)
			after = max(after, rev)
			if err := c.do(ctx, func() { c.putInPlace(batch, rev) }); err != nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.store.Failed():
			<-ctx.Done() // nothing can be written any more
			return nil
		case <-time.After(100 * time.Millisecond):
		}
		view, err := c.store.Resources(ctx)
		if err != nil {
			continue
		}
		after = view.Revision
		if err := c.do(ctx, func() { c.resources.replace(view, c.unreadable); c.reconfigure(); c.applied.set(after) }); err != nil {
			return nil
		}
	}
	return nil
}

func revisionOf(batch []store.Resource) int64 {
	var rev int64
	for i := range batch {
		rev = max(rev, batch[i].Revision)
	}
	return rev
}

// putInPlace is one write, in the loop.
func (c *Control) putInPlace(batch []store.Resource, rev int64) {
	for i := range batch {
		key := keyOf(&batch[i])
		_, was := c.resources.stored[key]
		old := c.resources.docs[key].Override
		c.resources.put(batch[i], c.unreadable)
		if c.resources.broken[key] == "" {
			c.alarms.set(api.AlarmResource, key, false, "")
		}
		c.tell(&batch[i], was, old)
	}
	c.resources.revision = max(c.resources.revision, rev)
	c.reconfigure()
	c.applied.set(rev)
}

// tell informs watchers of one written resource; was: it was stored before; old: what it was, if an Override.
func (c *Control) tell(r *store.Resource, was bool, old *spec.Override) {
	e := api.Event{Time: c.clock.Moment().Wall.UTC(), Kind: api.EventConfig, Actor: r.Meta.Actor, Subject: keyOf(r)}
	if r.Kind == string(spec.KindOverride) {
		e.Kind, e.Subject = api.EventOverride, r.Name
	}
	if r.Kind == string(spec.KindService) {
		e.Service = r.Name
	}
	word := "updated"
	switch {
	case r.Document == nil:
		word = "deleted"
		e.Actor = c.deletes.take(keyOf(r))
		c.parsed.drop(keyOf(r))
	case !was:
		word = "created"
	}
	e.Message = r.Kind + " " + r.Name + " " + word
	if e.Actor != "" {
		e.Message += " by " + e.Actor
	}
	if v := cmp.Or(c.resources.docs[keyOf(r)].Override, old); v != nil {
		e.Service, e.Rule = splitRule(overrideTarget(v))
		e.Message += ": " + describeOverride(v)
	}
	c.feed.Add(e)
}

// deletions remembers who deleted what until the deletion comes back from the store, which does not say.
type deletions struct {
	mu sync.Mutex
	by map[string]string
}

func (d *deletions) note(writes []store.Write, actor string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[string]string{}
	}
	for i := range writes {
		if writes[i].Document == nil {
			d.by[writes[i].Kind+"/"+writes[i].Name] = actor
		}
	}
}

func (d *deletions) take(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	actor := d.by[key]
	delete(d.by, key)
	return actor
}

// parseCache keeps parsed documents by revision: a plan reads everything that is stored. Parsed resources are never
// changed, so they can be shared.
type parseCache struct {
	mu   sync.Mutex
	docs map[string]spec.Resource
}

func (p *parseCache) get(s *store.Resource) (spec.Resource, error) {
	key := keyOf(s)
	p.mu.Lock()
	doc, ok := p.docs[key]
	p.mu.Unlock()
	if ok && int64(doc.Revision) == s.Revision {
		return doc, nil
	}
	doc, err := parseStored(s)
	if err != nil {
		return doc, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.docs == nil {
		p.docs = map[string]spec.Resource{}
	}
	p.docs[key] = doc
	return doc, nil
}

// drop forgets a resource that is gone.
func (p *parseCache) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.docs, key)
}

// reconfigure gives the engine what is stored, in the loop.
func (c *Control) reconfigure() {
	now := c.clock.Moment()
	overrides := c.resources.overrides(c.clock)
	c.dropKept()
	waiting := len(c.engine.Kept())
	c.tape.configuration(now.At, c.resources.docs, overrides)
	before := c.engine.Services()
	c.take(now, c.engine.Configure(now.At, now.Wall, c.resources.set(), overrides))
	c.answeredAnew(now, before)
	for _, err := range c.engine.Refused() {
		c.log.Error("saved state refused", "error", err)
	}
	if waiting != len(c.engine.Kept()) && c.tape != nil {
		c.checkpoint(now, true) // a rule went on from what no record of the tape says
	}
	c.queue.config(c.published())
	c.secretsChanged()
	c.news.configure(c.engine.Set())
	c.sendProbes()
	for _, w := range c.engine.Warnings() {
		c.log.Warn("configuration", "rule", w.Rule, "code", w.Code, "message", w.Message)
	}
}

// appliedRevision is how far the engine has come, so that a writer can wait for its own write.
type appliedRevision struct {
	mu   sync.Mutex
	rev  int64
	news chan struct{}
}

func (a *appliedRevision) init() { a.news = make(chan struct{}) }

func (a *appliedRevision) set(rev int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rev = max(a.rev, rev)
	close(a.news)
	a.news = make(chan struct{})
}

func (a *appliedRevision) get() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rev
}

// wait returns when rev is in place, or ctx ends.
func (a *appliedRevision) wait(ctx context.Context, rev int64) {
	for {
		a.mu.Lock()
		done, news := a.rev >= rev, a.news
		a.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// idTime is the time an entry's ID was made from.
func idTime(id string) time.Time {
	n, err := strconv.ParseInt(id, 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/moment"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

type engineOutcome = engine.Outcome

// batch is how many observations are taken before anything else gets its turn.
const batch = 256

// evaluate is the loop that owns the engine: observations, calls and time come in, outcomes go out.
func (c *Control) evaluate(ctx context.Context) error {
	defer close(c.done)
	c.sendProbes()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-c.observations:
			c.observeBatch(o)
		case f := <-c.calls:
			f()
		case <-c.nodeNews:
			c.nodesChanged()
		case <-timer.C:
			c.advance(c.clock.Moment())
			c.sendProbes()
		}
		timer.Reset(c.untilNext())
	}
}

// untilNext is the time to the next instant something is announced for, at most a second.
func (c *Control) untilNext() time.Duration {
	next := c.engine.Next()
	if next == 0 {
		return time.Second
	}
	return min(max(next-c.clock.Now(), 0), time.Second)
}

// observeBatch evaluates an observation and those that wait behind it.
func (c *Control) observeBatch(o report.Observation) {
	for range batch {
		c.observe(&o)
		select {
		case o = <-c.observations:
		default:
			return
		}
	}
}

func (c *Control) observe(o *report.Observation) {
	now := c.clock.Moment()
	at := c.when(now.At, o)
	if !c.admit(at, o) {
		return
	}
	c.seen.note(o.Point, now.Wall)
	c.metrics.observed(o)
	c.noteLocal(o)
	c.certificates.note(at, o)
	c.measured(at, o)
	c.tape.observation(c.engine, now.At, at, o)
	if out := c.engine.Observe(at, o); out != nil {
		c.take(now, out)
	}
}

// noteLocal raises an alarm about a point that cannot probe, and takes it away when the task that showed it goes well
// again or is no more: a point may be able to do all kinds of probes but one.
func (c *Control) noteLocal(o *report.Observation) {
	task, on := c.localTrouble[o.Point]
	switch local := o.Cause == report.CauseLocal; {
	case local && !on:
		c.localTrouble[o.Point] = o.Task
	case !local && on:
		if uses, _ := c.engine.UsesOf(o.Point, task); task != o.Task && len(uses) > 0 {
			return
		}
		delete(c.localTrouble, o.Point)
	default:
		return
	}
	c.alarms.set(api.AlarmPointLocal, o.Point, !on, "point "+o.Point+" cannot probe: "+o.Detail+"; its results are no votes")
}

// when is the instant of an observation: its receipt less the age its point states, at most a minute. The core does
// not go back before what it has already seen.
func (c *Control) when(now steering.Instant, o *report.Observation) steering.Instant {
	return now - min(max(o.Age, 0), maxAge)
}

// take turns outcomes into what is written, published and told.
func (c *Control) take(now moment.Moment, out []engineOutcome) {
	for i := range out {
		o := &out[i]
		c.metrics.events(o)
		c.answered(now, o)
		switch {
		case o.Ended:
			delete(c.flagged, o.Rule)
			c.alarms.drop(o.Rule)
			c.queue.add(c.workOfEnd(now, o.Rule))
		case o.State == nil:
			c.answers.soften(o.Rule, &o.Decision)
			c.softDirty.Store(true)
		default:
			w, err := c.workOf(now, o)
			if err != nil {
				c.log.Error("decision cannot be written", "rule", o.Rule, "error", err)
				continue
			}
			c.queue.add(w)
		}
	}
	if len(out) > 0 {
		c.ruleAlarms(out)
	}
}

// workOfEnd forgets a rule that is gone; the switch it stood on ended with it.
func (c *Control) workOfEnd(now moment.Moment, rule string) *work {
	w := &work{rule: rule, ended: true}
	if before := c.current[rule]; before != "" {
		u, err := entry(before, api.Undone{Time: now.Wall, Seconds: now.Wall.Sub(idTime(before)).Seconds()})
		if err != nil {
			c.log.Error("end of a switch cannot be written", "rule", rule, "error", err)
		} else {
			w.undone = append(w.undone, u)
		}
	}
	delete(c.current, rule)
	return w
}

// workOf makes the record of one rule's change, its switch-log entries and what watchers are told.
func (c *Control) workOf(now moment.Moment, o *engineOutcome) (*work, error) {
	w := &work{rule: o.Rule, view: &snapshot.DNSRuleInput{Decision: o.Decision, Edges: o.Edges}}
	for i := range o.Events {
		ev := &o.Events[i]
		e := c.event(o, ev)
		if ev.Kind == steering.EventDecision {
			c.tape.decision(now.At, o.Rule, ev)
		}
		if ev.Kind == steering.EventDecision && ev.From != "" {
			if err := c.logSwitch(w, o, ev); err != nil {
				return nil, err
			}
			e.Switch = c.current[o.Rule]
		}
		w.events = append(w.events, e)
	}
	var err error
	w.record, err = json.Marshal(record{Format: recordFormat, Moment: now, State: *o.State, Switch: c.current[o.Rule]})
	if err != nil {
		return nil, fmt.Errorf("record of rule %s: %w", o.Rule, err)
	}
	return w, nil
}

// logSwitch adds the switch-log entry of one decision to the work, and ends the one before it.
func (c *Control) logSwitch(w *work, o *engineOutcome, ev *steering.Event) error {
	wall := c.clock.Wall(ev.At)
	s := api.Switch{
		ID: c.store.NextID(wall), Time: wall, Service: o.Service, Rule: o.Name, Scope: o.Scope, From: ev.From, To: ev.To,
		Cause: string(ev.Cause), Reason: ev.Reason, Sequence: o.Decision.Seq, DetectionSeconds: ev.Detection.Seconds(),
		Votes: c.votes(ev.Votes, ev.At, nil),
	}
	if ev.Cause == steering.CauseForced {
		s.Override, s.Actor = o.Override, c.resources.actor("Override/"+o.Override)
	}
	e, err := entry(s.ID, s)
	if err != nil {
		return err
	}
	w.switches = append(w.switches, e)
	w.refs = append(w.refs, switchRef{s.ID, ev.At, c.roster.Audience()})
	if before := c.current[o.Rule]; before != "" {
		u, err := entry(before, api.Undone{Time: wall, Seconds: wall.Sub(idTime(before)).Seconds(), By: s.ID})
		if err != nil {
			return err
		}
		w.undone = append(w.undone, u)
	}
	c.current[o.Rule] = s.ID
	c.massSwitch(o, ev, wall)
	return nil
}

// event is what watchers are told.
func (c *Control) event(o *engineOutcome, ev *steering.Event) api.Event {
	e := api.Event{
		Time: c.clock.Wall(ev.At), Service: o.Service, Rule: o.Name, Scope: o.Scope, Edge: ev.Edge, Point: ev.Point, Message: ev.Reason,
	}
	switch ev.Kind {
	case steering.EventDecision:
		e.Kind, e.From, e.To, e.Cause, e.Seconds = api.EventSwitch, ev.From, ev.To, string(ev.Cause), ev.Detection.Seconds()
		if ev.From == "" {
			e.Kind = api.EventInitial
		}
	case steering.EventVerdict:
		e.Kind, e.From, e.To, e.Held = api.EventVerdict, ev.VerdictFrom.String(), ev.VerdictTo.String(), ev.HeldTo
	case steering.EventDegraded:
		e.Kind, e.On = api.EventDegraded, ev.Degraded
	case steering.EventSuspended:
		e.Kind, e.On = api.EventSuspended, true
	case steering.EventRestored:
		e.Kind = api.EventRestored
	case steering.EventDamped:
		e.Kind, e.On = api.EventDamped, ev.Damped
	case steering.EventAllDown:
		e.Kind, e.On = api.EventAllDown, ev.AllDown
	}
	return e
}

// probeRetry is the pause before the same tasks are offered again to a point that did not take all of them.
const probeRetry = 10 * time.Second

// probeFailure is the version a point did not take whole, and when.
type probeFailure struct {
	version uint64
	at      steering.Instant
}

// sendProbes gives the points their tasks, if those changed. A point that does not take them is tried again.
func (c *Control) sendProbes() {
	for _, p := range c.engine.Points() {
		s := c.engine.Probe(p.Name)
		if s == nil || c.probeSent[p.Name] == s.Version {
			continue
		}
		if f, again := c.probeFailed[p.Name]; again && f.version == s.Version && c.clock.Now()-f.at < probeRetry {
			continue
		}
		if err := c.deps.Publisher.PublishProbe(s); err != nil {
			c.probeFailed[p.Name] = probeFailure{s.Version, c.clock.Now()}
			c.alarms.set(api.AlarmPublish, p.Name, true, fmt.Sprintf("point %s did not take all its tasks: %v", p.Name, err))
			continue
		}
		c.alarms.set(api.AlarmPublish, p.Name, false, "")
		c.probeSent[p.Name] = s.Version
	}
}

// published is the configuration in use as the publisher needs it.
func (c *Control) published() *published {
	set := c.engine.Set()
	return &published{
		services: c.engine.Services(), zones: c.servedZones(set), unread: c.resources.allUnread(), revision: c.resources.revision, set: set,
	}
}

// housekeep does what has no hurry, once a second and more rarely.
func (c *Control) housekeep(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	save := time.NewTicker(c.cfg.SaveEvery)
	defer save.Stop()
	prune := time.NewTicker(time.Hour)
	defer prune.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.everySecond(ctx)
		case <-save.C:
			err := c.saveState(ctx)
			if err != nil && ctx.Err() == nil {
				c.log.Warn("core state not saved", "error", err)
			}
			c.alarms.set(api.AlarmDisk, "", err != nil && ctx.Err() == nil, fmt.Sprintf("what the core learns is not saved: %v; a restart would go on from the last decisions", err))
		case <-prune.C:
			c.pruneEnrolled(ctx)
			c.keepAPITokens(ctx, usedEvery)
		}
	}
}

func (c *Control) everySecond(ctx context.Context) {
	if c.softDirty.Swap(false) {
		c.answers.mark()
	}
	if c.store.Err() != nil {
		c.alarms.set(api.AlarmStore, "", true, c.storeTrouble(c.store.Err()))
	}
	step := c.clock.Step()
	c.alarms.set(api.AlarmClock, "", step != 0, fmt.Sprintf(
		"the wall clock was set by %v while steer runs: decisions do not depend on it, but times shown and schedules go by the old setting until a restart", step))
	var over []string
	err := c.do(ctx, func() {
		now := c.clock.Moment()
		c.engine.RefreshSlow(now.At)
		c.keepTape(now, false)
		c.refreshPoints()
		c.sendProbes()
		c.nodeAlarms()
		c.allRuleAlarms()
		c.judgeMass(now.Wall)
		c.judgeCertificates(now)
		over = c.resources.expired(now.At, c.engine)
	})
	c.rolledOut(c.rollout.Expire(c.clock.Now()))
	if err == nil {
		c.endOverrides(ctx, over)
	}
}

package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/steering"
)

// alarms is what an operator must know now. Methods may run at the same time.
type alarms struct {
	mu sync.Mutex
	on map[string]api.Alarm // by code and subject
	c  *Control
}

func (a *alarms) init(c *Control) { a.on, a.c = map[string]api.Alarm{}, c }

// set raises an alarm or takes it away; watchers are told when that is news.
func (a *alarms) set(code, subject string, on bool, message string) {
	key := code + " " + subject
	a.mu.Lock()
	old, was := a.on[key]
	if !was && !on {
		a.mu.Unlock()
		return
	}
	now := a.c.clock.Moment().Wall.UTC()
	switch {
	case on && was:
		old.Message = message
		a.on[key] = old
	case on:
		a.on[key] = api.Alarm{Code: code, Since: now, Subject: subject, Message: message}
	default:
		delete(a.on, key)
		message = "over: " + old.Message
	}
	a.mu.Unlock()
	if on == was {
		return
	}
	service, rule, _ := strings.Cut(subject, "/")
	e := api.Event{Time: now, Kind: api.EventAlarm, Code: code, Subject: subject, On: on, Message: message}
	switch {
	case code == api.AlarmEdgeCert:
		e.Service, e.Edge = service, rule
	case code == api.AlarmOriginsDown:
		e.Service = service
	case rule != "":
		e.Service, e.Rule = service, rule
	}
	a.c.feed.Add(e)
	if on {
		a.c.log.Warn("alarm", "code", code, "subject", subject, "message", message)
	} else {
		a.c.log.Info("alarm over", "code", code, "subject", subject)
	}
}

// drop takes away what is about a rule that is gone.
func (a *alarms) drop(rule string) {
	for _, code := range []string{api.AlarmDegraded, api.AlarmAllDown, api.AlarmFrozen, api.AlarmFewPoints} {
		a.set(code, rule, false, "")
	}
}

// list gives them by code and subject.
func (a *alarms) list() []api.Alarm {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.AppendSeq([]api.Alarm{}, maps.Values(a.on))
	slices.SortFunc(out, func(x, y api.Alarm) int {
		return cmp.Or(strings.Compare(x.Code, y.Code), strings.Compare(x.Subject, y.Subject))
	})
	return out
}

func (a *alarms) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.on)
}

// ruleAlarms brings the alarms of the rules in out up to date.
func (c *Control) ruleAlarms(out []engineOutcome) {
	now := c.clock.Now()
	for i := range out {
		if f, ok := c.engine.Flags(now, out[i].Rule); ok {
			c.flag(f)
		}
	}
}

// allRuleAlarms does so for every rule: freezes end, points fall silent and new edges stay without a result, all
// without an outcome.
func (c *Control) allRuleAlarms() {
	for f := range c.engine.AllFlags(c.clock.Now()) {
		c.flag(f)
	}
}

func (c *Control) flag(f engine.Flags) {
	on := f.Degraded || f.AllDead || f.Frozen || f.Held
	if !on && !c.flagged[f.Rule] {
		return
	}
	if c.flagged[f.Rule] = on; !on {
		delete(c.flagged, f.Rule)
	}
	c.alarms.set(api.AlarmDegraded, f.Rule, f.Degraded, "rule "+f.Rule+": its edge is down and none other is confirmed well")
	c.alarms.set(api.AlarmAllDown, f.Rule, f.AllDead, "rule "+f.Rule+": every edge is down")
	c.alarms.set(api.AlarmFrozen, f.Rule, f.Frozen, "rule "+f.Rule+" is frozen: it does not move by itself, also not for failure")
	c.alarms.set(api.AlarmFewPoints, f.Rule, f.Held, "rule "+f.Rule+": too few probe points have a fresh result: verdicts stay as they were")
}

// rateOfSwitches keeps the switches of the last minute, to tell what moved many rules at once.
type rateOfSwitches struct {
	recent []recentSwitch
}

type recentSwitch struct {
	at   time.Time
	rule string
	what []string // what it may have in common with others
}

// massShare and massRules: one alarm when more than a fifth of the rules, and at least three, switch within a minute.
// With fewer it is no mass: every switch is in the log.
const (
	massShare = 0.2
	massRules = 3
)

// massSwitch notes a switch that nobody asked for.
func (c *Control) massSwitch(o *engineOutcome, ev *steering.Event, wall time.Time) {
	if ev.Cause == steering.CauseForced || ev.Cause == steering.CauseConfig || ev.Cause == steering.CauseSchedule {
		return // somebody meant it
	}
	s := recentSwitch{at: wall, rule: o.Rule, what: []string{"edge " + o.Service + "/" + ev.From}}
	for _, v := range ev.Votes {
		s.what = append(s.what, "address "+v.Address)
		if v.State == steering.Down {
			s.what = append(s.what, "point "+v.Point)
		}
	}
	c.switches.recent = append(c.switches.recent, s)
}

// judgeMass raises the alarm that names what many switched rules have in common, or takes it away. It runs once a
// second: with thousands of switches in a moment, looking at each would cost more than the switches.
func (c *Control) judgeMass(wall time.Time) {
	r := &c.switches
	r.recent = slices.DeleteFunc(r.recent, func(x recentSwitch) bool { return wall.Sub(x.at) > time.Minute })
	rules, shared := map[string]bool{}, map[string]map[string]bool{}
	for _, x := range r.recent {
		rules[x.rule] = true
		for _, w := range x.what {
			if shared[w] == nil {
				shared[w] = map[string]bool{}
			}
			shared[w][x.rule] = true
		}
	}
	total := c.engine.Len()
	if len(rules) < massRules || float64(len(rules)) <= massShare*float64(total) {
		c.alarms.set(api.AlarmMassSwitch, "", false, "")
		return
	}
	c.alarms.set(api.AlarmMassSwitch, "", true, fmt.Sprintf("%d of %d rules switched within a minute; most in common: %s",
		len(rules), total, mostShared(shared)))
}

// mostShared names what most of the rules share; of equals an address, then an edge, then a point.
func mostShared(shared map[string]map[string]bool) string {
	best := ""
	for _, what := range slices.Sorted(maps.Keys(shared)) {
		if best == "" || len(shared[what]) > len(shared[best]) {
			best = what
		}
	}
	if n := len(shared[best]); n > 1 {
		return fmt.Sprintf("%s (%d rules)", best, n)
	}
	return "nothing"
}

// pointsSeen counts what each point sends.
type pointsSeen struct {
	mu sync.Mutex
	by map[string]pointSeen
}

type pointSeen struct {
	n    uint64
	last time.Time
}

func (p *pointsSeen) note(point string, wall time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[string]pointSeen{}
	}
	s := p.by[point]
	p.by[point] = pointSeen{s.n + 1, wall}
}

func (p *pointsSeen) of(point string) pointSeen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[point]
}

// GeoFile raises the alarm of a geo data file that is not in use, message says why, or takes it away: message is empty.
func (c *Control) GeoFile(path, message string) {
	c.alarms.set(api.AlarmGeoFile, path, message != "", message)
}

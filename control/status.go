package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/moment"
	"steerpoint/spec"
	"steerpoint/steering"
)

// status is the state of one service, or of all for "".
func (c *Control) status(ctx context.Context, service string) (*api.Status, error) {
	s := &api.Status{
		Version: c.cfg.Version, Node: c.cfg.Node, Started: c.started, Listeners: map[string]string{"api": c.ln.Addr().String()},
		Services: []api.ServiceStatus{}, Overrides: []api.OverrideStatus{}, Points: []api.PointStatus{},
		Nodes: []api.NodeView{},
	}
	if c.deps.Listeners != nil {
		for role, addr := range c.deps.Listeners() {
			s.Listeners[role] = addr
		}
	}
	found := true
	var set *spec.Set
	err := c.do(ctx, func() {
		now := c.clock.Moment()
		s.Now = now.Wall.UTC()
		set = c.engine.Set()
		c.allRuleAlarms()
		found = c.serviceStatus(now.At, service, s)
		c.overrideStatus(now.At, s)
		c.pointStatus(now, s)
		c.nodeAlarms()
		s.Nodes = c.nodeViews(now)
		s.Gateway = c.gatewayStatus(now, service)
		s.Store.Revision = c.applied.get()
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound("no service is named %s", service)
	}
	s.Store.SizeBytes, s.Store.QuotaBytes = c.store.Size()
	s.Store.Pending = c.queue.pending()
	s.Map, _ = c.answers.state()
	s.Map.Nodes, s.Map.Current = c.roster.Current(s.Map.Version, s.Map.Version)
	if !s.Map.Published.IsZero() {
		s.Map.AgeSeconds = s.Now.Sub(s.Map.Published).Seconds()
	}
	c.seriesStatus(s)
	s.Tape = c.tapeStatus()
	s.Notifiers = c.notifierStatus()
	s.Certificates = c.certificateViews(set)
	s.Alarms = c.alarms.list()
	for _, a := range s.Alarms {
		if a.Code == api.AlarmStore {
			s.Store.Error = a.Message
		}
	}
	return s, nil
}

func (c *Control) serviceStatus(now steering.Instant, service string, s *api.Status) bool {
	rules := map[string][]api.RuleStatus{}
	for _, v := range c.engine.Views(now, service) {
		rules[v.Config.Service] = append(rules[v.Config.Service], c.ruleStatus(now, &v))
	}
	for _, svc := range c.engine.Services() {
		if service != "" && svc.Name != service {
			continue
		}
		st := api.ServiceStatus{Name: svc.Name, CNAME: c.engine.Set().CNAME(svc), Domains: []string{}, Rules: rules[svc.Name]}
		for _, d := range svc.Domains {
			st.Domains = append(st.Domains, string(d))
		}
		slices.SortFunc(st.Rules, func(a, b api.RuleStatus) int { return cmp.Compare(a.Rule, b.Rule) })
		s.Services = append(s.Services, st)
	}
	return service == "" || len(s.Services) > 0
}

// wall gives a time of an instant for the API; nil for 0.
func (c *present) wall(at steering.Instant) *time.Time {
	if at == 0 {
		return nil
	}
	t := c.clock.Wall(at).Truncate(time.Millisecond)
	return &t
}

func (c *present) ruleStatus(now steering.Instant, v *engine.View) api.RuleStatus {
	d := &v.Decision
	r := api.RuleStatus{
		Rule: v.Config.Name, Scope: v.Config.Scope, Mode: v.Config.Mode.String(), Edge: d.Edge, Set: d.Set, Cause: string(d.Cause),
		Since: c.clock.Wall(d.Since).Truncate(time.Millisecond), Sequence: d.Seq, Degraded: d.Degraded, AllDown: d.AllDead,
		Next: c.wall(d.Next), Forced: d.Forced, Frozen: d.Frozen, Held: d.Held, Points: slices.Clone(v.Config.Points),
		WhenAllDown: whenAllDown(d), Probed: v.Rule.Probe.Enabled, ScheduleNext: c.wall(d.ScheduleNext),
		TTLSeconds: time.Duration(v.Service.RuleTTL(v.Rule)).Seconds(), Pending: c.waits(v.Key), Warning: v.Warning,
	}
	if r.Points == nil {
		r.Points = []string{}
	}
	if d.LockEnd > now {
		r.Locked, r.LockedUntil = true, c.wall(d.LockEnd)
	}
	if d.Forced {
		r.ForcedUntil = c.wall(v.ForceUntil)
	}
	if d.Frozen {
		r.FrozenUntil = c.wall(v.FreezeUntil)
	}
	r.Edges = c.edgeViews(now, v)
	return r
}

// edgeViews lists every edge of the rule, disabled and drained ones too, and says of each why it is answered or not.
func (c *present) edgeViews(now steering.Instant, v *engine.View) []api.EdgeView {
	out := []api.EdgeView{}
	add := func(name string) {
		if slices.ContainsFunc(out, func(e api.EdgeView) bool { return e.Edge == name }) {
			return
		}
		view := api.EdgeView{Edge: name, Verdict: steering.Unknown.String(), Availability: 1, Addresses: []api.AddressView{}}
		if e := v.Service.Edge(name); e != nil {
			view.Enabled = e.Enabled
		}
		for i := range v.Edges {
			if v.Edges[i].Edge == name {
				view = c.edgeView(now, &v.Edges[i])
				for j := range view.Addresses {
					a := &view.Addresses[j]
					a.CertificateExpires = c.certificate(v.Config.Service, name, a.Address)
				}
			}
		}
		if until, drained := c.engine.DrainUntil(now, v.Config.Service, name); drained {
			view.Drained, view.DrainedUntil = true, c.wall(until)
		}
		view.Current = name == v.Decision.Edge || slices.Contains(v.Decision.Set, name)
		view.Share = share(name, v)
		view.Why = why(&view, v)
		out = append(out, view)
	}
	for _, name := range v.Config.Edges {
		add(name)
	}
	for _, e := range v.Edges { // those only a schedule or a force names
		add(e.Edge)
	}
	return out
}

// share is the part of the clients that a weighted rule gives an edge: its weight among those that share.
func share(edge string, v *engine.View) float64 {
	own, all := 0, 0
	for _, name := range v.Decision.Set {
		if e := v.Service.Edge(name); e != nil {
			all += e.Weight
			if name == edge {
				own = e.Weight
			}
		}
	}
	if own == 0 {
		return 0
	}
	return float64(own) / float64(all)
}

func (c *present) edgeView(now steering.Instant, e *steering.EdgeStatus) api.EdgeView {
	out := api.EdgeView{
		Edge: e.Edge, Enabled: e.Enabled, Verdict: e.Verdict.String(), Held: e.Held, Since: c.wall(e.Since), UpSince: c.wall(e.UpSince),
		Confirmed: e.Confirmed, Damped: e.Damped, Penalty: e.Penalty, ScoreMs: ms(e.Score), Availability: e.Availability,
		Observations: e.Observations, Addresses: []api.AddressView{},
	}
	for i := range e.Addresses {
		a := &e.Addresses[i]
		out.Addresses = append(out.Addresses, api.AddressView{
			Address: a.Address, Verdict: a.Verdict.String(), Held: a.Held, Points: c.votes(a.Votes, now, a.SlowAbove),
		})
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (c *present) votes(votes []steering.Vote, now steering.Instant, slow map[string]time.Duration) []api.VoteView {
	out := make([]api.VoteView, 0, len(votes))
	for _, v := range votes {
		w := api.VoteView{
			Point: v.Point, Address: v.Address, State: v.State.String(), Suspended: v.Suspended, Fails: v.Fails, Oks: v.Oks,
			Since: c.wall(v.Since), Last: c.wall(v.LastAt), Cause: v.LastCause, SlowAboveMs: ms(slow[v.Point]),
		}
		if v.LastAt != 0 {
			w.AgeSeconds = (now - v.LastAt).Seconds()
		}
		out = append(out, w)
	}
	return out
}

// whenAllDown names what is answered instead of the current edge while every edge is down; "" when that edge is.
func whenAllDown(d *steering.Decision) string {
	switch {
	case d.AllDown == steering.AllDownHold, d.AllDown == steering.AllDownFallback:
		return ""
	}
	return d.AllDown.String()
}

// why says in one sentence why an edge is answered or not.
func why(e *api.EdgeView, v *engine.View) string {
	d := &v.Decision
	switch {
	case d.AllDown == steering.AllDownEmpty:
		return "left out: every edge is down, and the rule then answers with nothing"
	case d.AllDown == steering.AllDownAll && slices.Contains(d.List, e.Edge):
		return "answered although down: every edge is, and the rule then answers with all"
	case d.AllDown == steering.AllDownFirst && len(d.List) > 0 && e.Edge == d.List[0]:
		return "answered although down: every edge is, and the rule then answers with its first"
	case d.AllDown == steering.AllDownFirst && e.Current:
		return "left out: every edge is down, and the rule then answers with its first"
	case e.Current && d.Forced:
		return "answered: forced"
	case e.Current && d.Frozen && e.Verdict == "down":
		return "answered although down: the rule is frozen"
	case e.Current && d.Degraded:
		return "answered although down: no other edge is confirmed well"
	case e.Current:
		return "answered, moved to with cause " + string(d.Cause)
	case e.Drained:
		return "left out: drained"
	case !e.Enabled:
		return "left out: disabled"
	case !slices.Contains(v.Config.Edges, e.Edge):
		return "not in the rule now"
	case e.Verdict == "down":
		return "left out: down"
	case e.Verdict == "unknown":
		return "stands by: nothing is known of it, so nothing moves there"
	case e.Held:
		return "stands by: too few points have a fresh result"
	case e.Damped:
		return "stands by: put last because it failed too often"
	case d.Forced || d.Frozen:
		return "stands by: the rule does not move by itself now"
	}
	return "stands by: up"
}

func (c *Control) overrideStatus(now steering.Instant, s *api.Status) {
	for _, v := range c.engine.Set().Overrides() {
		o := api.OverrideStatus{
			Name: v.Name, Kind: overrideKind(v), Target: overrideTarget(v), Edge: v.Force, Reason: v.Reason,
			Actor: c.resources.actor("Override/" + v.Name), Active: c.engine.Active(now, v.Name),
		}
		if !v.Until.IsZero() {
			until := v.Until.UTC()
			o.Until = &until
		}
		s.Overrides = append(s.Overrides, o)
	}
}

func (c *Control) pointStatus(now moment.Moment, s *api.Status) {
	for _, p := range c.engine.Points() {
		seen := c.seen.of(p.Name)
		st := api.PointStatus{Name: p.Name, Labels: p.Labels, Observations: seen.n, State: c.pointState(now, p.Name)}
		if probe := c.engine.Probe(p.Name); probe != nil {
			st.Tasks = len(probe.Tasks)
		}
		if !seen.last.IsZero() {
			last := seen.last.UTC()
			st.LastSeen = &last
		}
		if until, drained := c.engine.DrainUntil(now.At, "", p.Name); drained {
			st.Drained, st.DrainedUntil = true, c.wall(until)
		}
		s.Points = append(s.Points, st)
	}
}

func (c *Control) pointState(now moment.Moment, name string) string {
	v, joined := c.roster.View(name, now)
	switch {
	case c.ownPoint(name) || !joined:
		return api.PointLocal
	case v.Silent:
		return api.PointSilent
	case v.Away:
		return api.PointAway
	}
	return api.PointConnected
}

// findHost finds the service a name belongs to: its service CNAME, a domain of its, or a wildcard domain around it.
func (c *present) findHost(host string) *spec.Service {
	var wild *spec.Service
	for _, s := range c.engine.Services() {
		if c.engine.Set().CNAME(s) == host {
			return s
		}
		for _, d := range s.Domains {
			switch {
			case string(d) == host:
				return s
			case d.Wildcard() && underWildcard(host, string(d)):
				wild = s
			}
		}
	}
	return wild
}

// underWildcard reports whether *.example.com covers host.
func underWildcard(host, wild string) bool {
	tail := wild[1:]
	return len(host) > len(tail) && host[len(host)-len(tail):] == tail
}

func describeLock(r *api.RuleStatus) string {
	return fmt.Sprintf("no voluntary move until %s (lock)", r.LockedUntil.Format(time.TimeOnly))
}

package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/roster"
	"steerpoint/report"
	"steerpoint/steering"
)

// maxAge is the oldest an observation may be to be a vote: what a point saw before says nothing of now, and a spool
// shipped after an hour's cut would replay the past.
const maxAge = time.Minute

// NodeHub is where nodes are connected. Its methods return at once; they are called from the evaluation loop.
type NodeHub interface {
	// Disconnect ends every stream of a node, whose certificate is refused from now on.
	Disconnect(node string)
	// SetDrained tells a node that it is to take itself out, or back in.
	SetDrained(node string, drained bool)
}

// Reasons why observations are no votes.
const (
	refusedPoint = "point" // not of the node that sent it
	refusedTask  = "task"  // the point has no such task
	refusedOrder = "order" // overtaken by a newer one of its task
	refusedLate  = "late"  // older than maxAge
)

// Observe takes observations of a node. It never blocks. What is not of the point that the node is, or older than a
// minute, is counted and left; the rest is evaluated the oldest first, whatever order it was sent in.
func (c *Control) Observe(node string, list []report.Observation) {
	good := make([]report.Observation, 0, len(list))
	var late, refused uint64
	for i := range list {
		switch o := &list[i]; {
		case o.Point != node:
			refused++
		case o.Age > maxAge:
			late++
		default:
			good = append(good, *o)
		}
	}
	if !c.roster.Speaks(node, c.clock.Moment(), roster.Counts{Late: late, Refused: refused}) {
		refused, good = uint64(len(list))-late, nil
	}
	c.metrics.refused.WithLabelValues(refusedLate).Add(float64(late))
	c.metrics.refused.WithLabelValues(refusedPoint).Add(float64(refused))
	slices.SortStableFunc(good, func(a, b report.Observation) int { return cmp.Compare(b.Age, a.Age) })
	for i := range good {
		c.queueObservation(good[i])
	}
}

// ObserveLocal takes one observation of a probe point in this process. It never blocks: when evaluation cannot follow,
// the observation is dropped and counted, which to the core is a probe that was not made.
func (c *Control) ObserveLocal(o report.Observation) {
	if !c.ownPoint(o.Point) {
		c.metrics.refused.WithLabelValues(refusedPoint).Inc()
		return
	}
	c.queueObservation(o)
}

func (c *Control) queueObservation(o report.Observation) {
	select {
	case c.observations <- o:
	default:
		c.metrics.dropped.Inc()
	}
}

// admit judges an observation in the loop, and counts it.
func (c *Control) admit(at steering.Instant, o *report.Observation) bool {
	counts := roster.Counts{Evaluated: 1}
	switch c.engine.Admit(at, o) {
	case engine.NoTask:
		c.metrics.refused.WithLabelValues(refusedTask).Inc()
		counts = roster.Counts{Refused: 1}
	case engine.OutOfOrder:
		c.metrics.refused.WithLabelValues(refusedOrder).Inc()
		counts = roster.Counts{Late: 1}
	}
	c.roster.Counted(o.Point, counts)
	return counts.Evaluated > 0
}

// Acked takes a node's answer to a snapshot.
func (c *Control) Acked(node string, a report.Ack) {
	now := c.clock.Moment()
	var after time.Duration
	if a.OK && a.Snapshot == report.SnapshotDNS {
		results, since := c.rollout.Ack(node, a.Version, now.At)
		c.rolledOut(results)
		if after = since; after > 0 {
			c.metrics.nodeAcked.Observe(after.Seconds())
		}
	}
	if !c.roster.Acked(node, a, after, now) {
		return
	}
	if !a.OK {
		c.metrics.nodeNacks.Inc()
	}
	c.alarms.set(api.AlarmNodeNack, node+" "+a.Snapshot, !a.OK, fmt.Sprintf(
		"node %s does not take %s snapshot %d: %s; it goes on by %d", node, a.Snapshot, a.Version, printable(a.Reason, 500), a.Using))
	if a.Snapshot == report.SnapshotProbe {
		// A point takes the tasks it can do and names the others: of a kind that its version does not know, for one.
		c.alarms.set(api.AlarmPublish, node, a.OK && a.Reason != "", "point "+node+" did not take all its tasks: "+printable(a.Reason, 500))
	}
}

// Reported takes what a node says of itself. A map that it works by is as good as acknowledged: the answer may have
// been lost on the way.
func (c *Control) Reported(node string, s report.NodeStatus) {
	now := c.clock.Moment()
	s.Version = printable(s.Version, maxVersionText)
	if c.roster.Reported(node, s, now) && s.Map != nil && !s.Map.FromDisk {
		results, _ := c.rollout.Ack(node, s.Map.Version, now.At)
		c.rolledOut(results)
	}
}

// Connected notes that a node opened a stream of a kind of snapshot.
func (c *Control) Connected(node, snapshot, remote string) {
	if c.roster.Connected(node, snapshot, remote, c.clock.Moment()) {
		c.nodeEvent(node, true, fmt.Sprintf("node %s connected from %s", node, from(remote)))
	}
	c.nudge()
}

// Gone notes that a stream ended.
func (c *Control) Gone(node, snapshot string) {
	if c.roster.Gone(node, snapshot) {
		c.nodeEvent(node, false, fmt.Sprintf("node %s has no stream any more", node))
	}
}

// nudge makes the loop look at the points and nodes soon.
func (c *Control) nudge() {
	select {
	case c.nodeNews <- struct{}{}:
	default:
	}
}

// ownPoint reports whether a point is in this process.
func (c *Control) ownPoint(name string) bool {
	return slices.ContainsFunc(c.cfg.Points, func(p steering.Point) bool { return p.Name == name })
}

// points are all probe points: those of this process, which share its fate and are never silent, and joined nodes.
func (c *Control) points(now steering.Instant) []steering.Point {
	points := slices.Clone(c.cfg.Points)
	for _, p := range c.roster.Points(now) {
		if !c.ownPoint(p.Name) {
			points = append(points, p)
		}
	}
	return points
}

// pointsEvery is the least time between two changes of the points that nobody waits for: each goes through every rule,
// and a thousand nodes may join in a minute.
const pointsEvery = time.Second

// nodesChanged is a nudge, in the loop.
func (c *Control) nodesChanged() {
	if now := c.clock.Now(); now-c.pointsSet >= pointsEvery {
		c.refreshPoints()
	} else {
		c.tellDrains(now) // the points follow within a second
	}
}

// refreshPoints gives the engine the points there are now. It runs in the loop.
func (c *Control) refreshPoints() {
	now := c.clock.Moment()
	points, old := c.points(now.At), c.engine.Points()
	if !slices.EqualFunc(points, old, samePoint) {
		c.pointsSet = now.At
		c.tellSilence(points, old)
		c.tape.points(now.At, points)
		c.take(now, c.engine.SetPoints(now.At, points))
		for _, p := range old {
			if c.engine.Probe(p.Name) == nil {
				c.forgetPoint(p.Name)
			}
		}
		c.sendProbes()
	}
	c.tellDrains(now.At)
}

// forgetPoint takes away what is kept of a probe point that is gone. It runs in the loop.
func (c *Control) forgetPoint(name string) {
	delete(c.probeSent, name)
	delete(c.probeFailed, name)
	delete(c.localTrouble, name)
	c.alarms.set(api.AlarmPublish, name, false, "")
	c.alarms.set(api.AlarmPointLocal, name, false, "")
}

func samePoint(a, b steering.Point) bool {
	if a.Name != b.Name || a.Silent != b.Silent || len(a.Labels) != len(b.Labels) {
		return false
	}
	for k, v := range a.Labels {
		if w, ok := b.Labels[k]; !ok || w != v {
			return false
		}
	}
	return true
}

// tellSilence tells watchers of points that fell silent, and of those that speak again.
func (c *Control) tellSilence(points, old []steering.Point) {
	for _, p := range points {
		was := slices.ContainsFunc(old, func(o steering.Point) bool { return o.Name == p.Name && o.Silent })
		if p.Silent == was {
			continue
		}
		message := "probe point " + p.Name + " speaks again: rules that chose it have it back"
		if p.Silent {
			message = "nothing was heard of probe point " + p.Name + " for ten minutes: rules that choose by near or labels go on with others"
		}
		c.feed.Add(api.Event{Time: c.wallNow(), Kind: api.EventPoint, Point: p.Name, On: p.Silent, Message: message})
		c.log.Warn("probe point", "point", p.Name, "silent", p.Silent)
	}
}

// tellDrains tells nodes whether they are drained, where that is news.
func (c *Control) tellDrains(now steering.Instant) {
	if c.deps.Nodes == nil {
		return
	}
	for _, d := range c.roster.TellDrains(func(name string) bool { return c.engine.NodeDrained(now, name) }) {
		c.deps.Nodes.SetDrained(d.Node, d.Drained)
	}
}

// certLow is the share of a certificate's life that is left when its renewal is overdue: it is due at two thirds.
const certLow = 6

// clockTolerance is by how much a node's wall clock may differ before it is shown: nothing depends on it.
const clockTolerance = 30 * time.Second

// nodeAlarms brings the alarms of all nodes up to date.
func (c *Control) nodeAlarms() {
	now := c.clock.Moment()
	hash, foreign := c.authority.Hash(), 0
	for _, v := range c.roster.Views(now) {
		c.judgeNode(now, &v)
		if v.Record.Revoked.IsZero() && v.Record.Authority != hash {
			foreign++
		}
	}
	c.judgeOrigins(now)
	message := ""
	if foreign > 0 {
		message = fmt.Sprintf("%d node(s) have certificates of another authority than the one in %s: they refuse this control and answer on by their last map. "+
			"Put that folder back from the backup and restart; or remove the nodes and join them again", foreign, c.authorityDir())
	}
	c.alarms.set(api.AlarmAuthority, "", foreign > 0, message)
}

func (c *Control) judgeNode(now moment.Moment, v *roster.View) {
	name := v.Record.Name
	away := v.Expected() && v.Silence >= roster.AwayAfter && !c.engine.NodeDrained(now.At, name)
	message := ""
	if away {
		message = fmt.Sprintf("node %s is away: nothing was heard of it for %v; a name server answers on by its last map, a gateway serves on by its last snapshot, a probe point has no vote",
			name, v.Silence.Truncate(time.Second))
	}
	c.alarms.set(api.AlarmNodeAway, name, away, message)
	here := v.Record.Revoked.IsZero() && !v.Away
	skewed := here && max(v.Offset, -v.Offset) > clockTolerance
	if skewed {
		message = fmt.Sprintf("the wall clock of node %s is off by %v: shown only, no decision depends on it; its logs and TLS of others may",
			name, v.Offset.Round(time.Second))
	}
	c.alarms.set(api.AlarmNodeClock, name, skewed, message)
	left, life := v.Record.Expires.Sub(now.Wall), v.Record.Expires.Sub(v.Record.Issued)
	low := here && left < life/certLow
	if low {
		message = fmt.Sprintf("the certificate of node %s ends at %s and was not renewed at two thirds of its life: look at the node's log",
			name, v.Record.Expires.Format(time.RFC3339))
	}
	c.alarms.set(api.AlarmCertEnding, name, low, message)
	c.judgeGateway(now.At, v, here)
}

// dropNode takes away what is about a node that is revoked or removed.
func (c *Control) dropNode(name string) {
	for _, subject := range []string{name, name + " " + report.SnapshotDNS, name + " " + report.SnapshotProbe, name + " " + report.SnapshotEdge} {
		for _, code := range []string{api.AlarmNodeAway, api.AlarmNodeClock, api.AlarmCertEnding, api.AlarmNodeNack, api.AlarmGatewayBehind} {
			c.alarms.set(code, subject, false, "")
		}
	}
	c.rolledOut(c.rollout.Drop(name))
	if c.deps.Nodes != nil {
		c.deps.Nodes.Disconnect(name)
	}
	c.nudge()
}

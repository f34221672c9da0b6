package control

import (
	"fmt"
	"strings"

	"steerpoint/control/api"
	"steerpoint/control/internal/rollout"
	"steerpoint/control/internal/store"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

// maxListed bounds the name servers listed with one switch: thousands of rules may move at once, and each entry of the
// log would carry the list.
const maxListed = 32

// handedOut notes that a map was given to every name server at an instant, and that the one in this process answers by
// it now.
func (c *Control) handedOut(made *snapshot.DNS, at steering.Instant, refs []switchRef) {
	switches := make([]rollout.Switch, len(refs))
	for i, r := range refs {
		switches[i] = rollout.Switch{ID: r.id, At: r.at, Audience: r.audience}
	}
	results := c.rollout.Open(made.Version, switches, c.roster.Audience(), at)
	if !c.deps.NoNameServer {
		through, _ := c.rollout.Ack(c.cfg.Node, made.Version, c.clock.Now())
		results = append(results, through...)
	}
	c.rolledOut(results)
}

// rolledOut notes publications that are through: in the switch log, in the metrics and to watchers.
func (c *Control) rolledOut(results []rollout.Result) {
	for i := range results {
		r := &results[i]
		var longest float64
		var entries []store.Entry
		for _, s := range r.Switches {
			p := c.publication(r, &s)
			longest = max(longest, p.Seconds)
			if p.MissingCount == 0 {
				c.metrics.publication.Observe(p.Seconds)
			}
			c.news.hub.Published(switchNews(s.ID), publicationNews(&p))
			if e, err := entry(s.ID, p); err == nil {
				entries = append(entries, e)
			}
		}
		if len(entries) > 0 {
			c.queue.publication(entries)
		}
		c.feed.Add(c.ackEvent(r, longest))
	}
}

// publication is the later record of one switch.
func (c *Control) publication(r *rollout.Result, s *rollout.Switch) api.Publication {
	p := api.Publication{
		Time: c.clock.Wall(r.At), Seconds: (r.At - s.At).Seconds(), MapVersion: r.Version, Acked: len(r.Acks),
		MissingCount: len(r.Missing), Missing: r.Missing[:min(len(r.Missing), maxListed)],
	}
	for _, a := range r.Acks[:min(len(r.Acks), maxListed)] {
		p.Nodes = append(p.Nodes, api.NodeAck{Node: a.Node, Seconds: (a.At - s.At).Seconds()})
	}
	return p
}

func (c *Control) ackEvent(r *rollout.Result, longest float64) api.Event {
	e := api.Event{Time: c.clock.Wall(r.At), Kind: api.EventAck, Map: r.Version, Seconds: longest}
	e.Message = fmt.Sprintf("name servers answer by map %d", r.Version)
	if len(r.Missing) > 0 {
		e.Message = fmt.Sprintf("%d of %d name servers answer by map %d; not: %s", len(r.Acks), len(r.Acks)+len(r.Missing), r.Version,
			strings.Join(r.Missing[:min(len(r.Missing), maxListed)], ", "))
	}
	if n := len(r.Switches); n > 0 {
		e.Switch = r.Switches[n-1].ID
		e.Message += fmt.Sprintf(": %d switch(es) published within %.1f ms of the decision", n, longest*1000)
	}
	return e
}

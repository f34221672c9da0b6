package roster

import (
	"time"

	"steerpoint/control/internal/moment"
	"steerpoint/report"
	"steerpoint/steering"
)

// hear notes that a node spoke. It gives nil for a node that is not known or revoked. The caller holds the lock.
func (r *Roster) hear(name string, now moment.Moment) *node {
	n := r.nodes[name]
	if n == nil || !n.rec.Revoked.IsZero() {
		return nil
	}
	n.heard = now
	return n
}

// Connected notes an open stream; one of the same snapshot that was open before is replaced by it. news: the node had
// none before.
func (r *Roster) Connected(name, snapshot, remote string, now moment.Moment) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.hear(name, now)
	if n == nil {
		return false
	}
	news = len(n.streams) == 0
	n.streams[snapshot] = true
	n.remote, n.drain, r.dns = remote, notTold, nil
	return news
}

// Gone notes that a stream ended. last: the node has none now.
func (r *Roster) Gone(name, snapshot string) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[name]
	if n == nil || !n.streams[snapshot] {
		return false
	}
	delete(n.streams, snapshot)
	r.dns = nil
	return len(n.streams) == 0
}

// Speaks notes that a node spoke, and what became of observations it sent. False: it has no say.
func (r *Roster) Speaks(name string, now moment.Moment, c Counts) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.hear(name, now)
	if n == nil {
		return false
	}
	n.counts.add(c)
	return true
}

// Counted notes what became of observations that were heard before.
func (r *Roster) Counted(name string, c Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.nodes[name]; n != nil {
		n.counts.add(c)
	}
}

func (c *Counts) add(o Counts) {
	c.Evaluated += o.Evaluated
	c.Late += o.Late
	c.Refused += o.Refused
}

// Acked notes an answer to a snapshot; after is the time since that version was published, 0 if that is not known.
// False: the node has no say.
func (r *Roster) Acked(name string, a report.Ack, after time.Duration, now moment.Moment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.hear(name, now)
	if n == nil || n.acks[a.Snapshot] == nil {
		return false
	}
	k := n.acks[a.Snapshot]
	if !a.OK {
		k.refused, k.reason = a.Version, a.Reason
		k.using = a.Using
		return true
	}
	if a.Snapshot == report.SnapshotDNS && k.using != a.Using {
		n.mapAt = now.At
	}
	*k = ack{using: max(a.Using, a.Version), after: after}
	return true
}

// Reported notes what a node says of itself.
func (r *Roster) Reported(name string, s report.NodeStatus, now moment.Moment) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.hear(name, now)
	if n == nil {
		return false
	}
	n.status = &s
	if !s.Wall.IsZero() {
		n.offset = s.Wall.Sub(now.Wall)
	}
	if s.Map != nil {
		n.acks[report.SnapshotDNS].using, n.mapAt = s.Map.Version, now.At-max(s.Map.Age, 0)
	}
	if s.Tasks != nil {
		n.acks[report.SnapshotProbe].using = s.Tasks.Version
	}
	if s.Edge != nil {
		n.acks[report.SnapshotEdge].using = s.Edge.Version
	}
	return true
}

// Drain is a node's state of being drained that it has to be told.
type Drain struct {
	Node    string
	Drained bool
}

// TellDrains gives the connected nodes whose state differs from what they were told; they count as told then. A node
// that connects is told in any case: it may remember another state.
func (r *Roster) TellDrains(drained func(name string) bool) []Drain {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Drain
	for name, n := range r.nodes {
		if len(n.streams) == 0 || !n.rec.Revoked.IsZero() {
			continue
		}
		want := toldNot
		if drained(name) {
			want = toldDrained
		}
		if n.drain != want {
			n.drain = want
			out = append(out, Drain{name, want == toldDrained})
		}
	}
	return out
}

// Current counts the connected name servers, and those that answer by a version or a later one; localVersion is the
// map of the one in this process. One that refused the newest it was sent is none of them, whatever the number of its
// own: control may have gone back.
func (r *Roster) Current(version, localVersion uint64) (connected, current int) {
	names := r.Audience().Names
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, name := range names {
		connected++
		using, refused := localVersion, false
		if n := r.nodes[name]; n != nil {
			using, refused = n.acks[report.SnapshotDNS].using, n.acks[report.SnapshotDNS].refused != 0
		}
		if using >= version && version > 0 && !refused {
			current++
		}
	}
	return connected, current
}

// silence is how long a node was not heard.
func (r *Roster) silence(n *node, now steering.Instant) time.Duration { return now - r.lastHeard(n) }

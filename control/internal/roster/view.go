package roster

import (
	"maps"
	"slices"
	"time"

	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/store"
	"steerpoint/report"
)

// View is one node as it is now. Its parts are not changed later.
type View struct {
	Record    store.Node
	Connected bool   // a stream is open
	Away      bool   // no stream is open, or nothing was heard for AwayAfter
	Silent    bool   // nothing was heard for SilentAfter
	Remote    string // "": it never connected to this process
	LastHeard time.Time
	Silence   time.Duration // since it was last heard, or since the start of this process
	Status    *report.NodeStatus
	Offset    time.Duration
	MapAge    time.Duration
	Map       Ack
	Tasks     Ack
	Edge      Ack
	Counts    Counts
}

// Ack is how a node stands to a kind of snapshot.
type Ack struct {
	Using   uint64
	Refused uint64 // the version it did not take; 0: it took the newest it was sent
	Reason  string
	After   time.Duration // publication to ack of Using; 0: not known
}

// Has reports whether the node has a role.
func (v *View) Has(role string) bool { return slices.Contains(v.Record.Roles, role) }

// Expected reports whether the node should be there: it is not revoked, and one of its roles needs a stream.
func (v *View) Expected() bool {
	return v.Record.Revoked.IsZero() && (v.Has(RoleDNS) || v.Has(RoleProbe) || v.Has(RoleEdge))
}

// View gives one node.
func (r *Roster) View(name string, now moment.Moment) (View, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n := r.nodes[name]
	if n == nil {
		return View{}, false
	}
	return r.view(n, now), true
}

// Views gives every node, by name.
func (r *Roster) Views(now moment.Moment) []View {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]View, 0, len(r.nodes))
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		out = append(out, r.view(r.nodes[name], now))
	}
	return out
}

func (r *Roster) view(n *node, now moment.Moment) View {
	v := View{
		Record: n.rec, Connected: len(n.streams) > 0, Remote: n.remote, Silence: r.silence(n, now.At),
		Status: n.status, Offset: n.offset, Counts: n.counts,
		Map: n.acks[report.SnapshotDNS].public(), Tasks: n.acks[report.SnapshotProbe].public(), Edge: n.acks[report.SnapshotEdge].public(),
	}
	v.Away = !v.Connected || v.Silence >= AwayAfter
	v.Silent = v.Silence >= SilentAfter
	if n.heard.At != 0 {
		v.LastHeard = n.heard.Wall.UTC()
	}
	if v.Map.Using != 0 {
		v.MapAge = max(now.At-n.mapAt, 0)
	}
	return v
}

func (a *ack) public() Ack { return Ack{a.using, a.refused, a.reason, a.after} }

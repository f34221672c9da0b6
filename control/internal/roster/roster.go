// Package roster knows the joined nodes: their records and those of tokens as they are in the store, and what each node
// was last heard to say. It decides nothing, stores nothing and starts nothing; times are handed in.
//
// Records change only after they were written; what is heard is forgotten with the process.
package roster

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/store"
	"steerpoint/report"
	"steerpoint/steering"
)

// The roles a node can have.
const (
	RoleDNS   = "dns"
	RoleProbe = "probe"
	RoleEdge  = "edge"
)

const (
	// AwayAfter is how long after its last message a node counts as away: twelve status reports.
	AwayAfter = time.Minute
	// SilentAfter is how long after its last message a probe point is replaced (decisions.md section 2).
	SilentAfter = 10 * time.Minute
)

// Roster is all of it. Methods may run at the same time.
type Roster struct {
	mu      sync.RWMutex
	tokens  map[string]store.Token
	nodes   map[string]*node
	removed map[string]store.Removed
	origin  steering.Instant // silence counts from here at the earliest
	local   string           // the name server in this process; "": none
	dns     *Audience        // nil: to be made anew
}

// Audience is the name servers that were connected at one time, by name. It is never changed.
type Audience struct{ Names []string }

// node is a record and what was heard.
type node struct {
	rec     store.Node
	streams map[string]bool // open ones, by snapshot
	remote  string
	heard   moment.Moment // At 0: never
	status  *report.NodeStatus
	offset  time.Duration // of the node's wall clock
	acks    map[string]*ack
	mapAt   steering.Instant // when the map in use was new
	counts  Counts
	drain   drainTold
}

// ack is what a node said of a kind of snapshot.
type ack struct {
	using   uint64
	refused uint64
	reason  string
	after   time.Duration // publication to ack of using; 0: not known
}

type drainTold uint8

const (
	notTold drainTold = iota
	toldDrained
	toldNot
)

// Counts are observations of a node since the start of this process.
type Counts struct {
	Evaluated, Late, Refused uint64
}

// New makes a roster. local is the name under which the name server in this process counts, "" when there is none.
func New(origin steering.Instant, local string) *Roster {
	return &Roster{
		tokens: map[string]store.Token{}, nodes: map[string]*node{}, removed: map[string]store.Removed{},
		origin: origin, local: local,
	}
}

// Load takes every record as it is stored. What was heard of nodes that stay is kept.
func (r *Roster) Load(e store.Enrolled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.nodes
	r.tokens, r.nodes, r.removed, r.dns = map[string]store.Token{}, map[string]*node{}, map[string]store.Removed{}, nil
	for _, t := range e.Tokens {
		r.tokens[t.ID] = t
	}
	for _, rec := range e.Nodes {
		n := old[rec.Name]
		if n == nil {
			n = newNode()
		}
		n.rec = rec
		r.nodes[rec.Name] = n
	}
	for _, x := range e.Removed {
		r.removed[x.Name] = x
	}
}

func newNode() *node {
	return &node{streams: map[string]bool{}, acks: map[string]*ack{report.SnapshotDNS: {}, report.SnapshotProbe: {}, report.SnapshotEdge: {}}}
}

// Wrote takes over a change that was written.
func (r *Roster) Wrote(e *store.Enrolment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range []*store.Token{e.NewToken, e.Token} {
		if t != nil {
			r.tokens[t.ID] = *t
		}
	}
	for _, rec := range []*store.Node{e.NewNode, e.Node} {
		if rec == nil {
			continue
		}
		n := r.nodes[rec.Name]
		if n == nil {
			n = newNode()
			r.nodes[rec.Name] = n
		}
		n.rec = *rec
	}
	for _, id := range e.DropTokens {
		delete(r.tokens, id)
	}
	if e.DropNode != nil {
		delete(r.nodes, e.DropNode.Name)
	}
	if e.Removed != nil {
		r.removed[e.Removed.Name] = *e.Removed
	}
	for _, name := range e.DropRemoved {
		delete(r.removed, name)
	}
	r.dns = nil
}

// Token gives the record of a token.
func (r *Roster) Token(id string) (store.Token, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.tokens[id]
	return t, ok
}

// Tokens gives every token, the newest first.
func (r *Roster) Tokens() []store.Token {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := slices.Collect(maps.Values(r.tokens))
	slices.SortFunc(out, func(a, b store.Token) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Node gives the record of a node.
func (r *Roster) Node(name string) (store.Node, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	n := r.nodes[name]
	if n == nil {
		return store.Node{}, false
	}
	return n.rec, true
}

// Removed gives what stayed of a removed node.
func (r *Roster) Removed(name string) (store.Removed, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	x, ok := r.removed[name]
	return x, ok
}

// AllRemoved gives what stayed of every removed node, in no order.
func (r *Roster) AllRemoved() []store.Removed {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.removed))
}

// Names lists every node, by name.
func (r *Roster) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.nodes))
}

// Points gives the nodes that are probe points, by name: silent ones marked, revoked ones left out.
func (r *Roster) Points(now steering.Instant) []steering.Point {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []steering.Point
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		if slices.Contains(n.rec.Roles, RoleProbe) && n.rec.Revoked.IsZero() {
			out = append(out, steering.Point{Name: name, Labels: n.rec.Labels, Silent: now-r.lastHeard(n) >= SilentAfter})
		}
	}
	return out
}

// lastHeard is when a node was last heard, or control's start.
func (r *Roster) lastHeard(n *node) steering.Instant { return max(n.heard.At, r.origin) }

// Audience is the name servers that are connected now, the one in this process included.
func (r *Roster) Audience() *Audience {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dns == nil {
		r.dns = &Audience{}
		if r.local != "" {
			r.dns.Names = append(r.dns.Names, r.local)
		}
		for name, n := range r.nodes {
			if n.streams[report.SnapshotDNS] && n.rec.Revoked.IsZero() {
				r.dns.Names = append(r.dns.Names, name)
			}
		}
		slices.Sort(r.dns.Names)
	}
	return r.dns
}

// Package rollout tells when name servers answer by a map: it takes publications and acknowledgements and gives out,
// once for each publication, who had it and when. Times are handed in; nothing is started.
package rollout

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"steerpoint/control/internal/roster"
	"steerpoint/steering"
)

const (
	// Patience is how long after it was handed out a map is waited for.
	Patience = 30 * time.Second
	// remembered is how many publications back an acknowledgement is still measured.
	remembered = 256
)

// Switch is a switch that a map carries.
type Switch struct {
	ID       string
	At       steering.Instant // of the decision
	Audience *roster.Audience // the name servers connected then
}

// Result is a publication that is through, or was waited for long enough.
type Result struct {
	Version  uint64
	Switches []Switch
	Acks     []Ack // the latest first
	Missing  []string
	At       steering.Instant // of the last acknowledgement; of the publication when there is none
}

// Ack is when one name server answered by the map or a later one.
type Ack struct {
	Node string
	At   steering.Instant
}

// Tracker follows publications. Methods may run at the same time. The zero value is ready.
type Tracker struct {
	mu     sync.Mutex
	newest map[string]newest // by node
	handed uint64            // the newest version handed out
	open   []*wave
	times  [remembered]published
	news   chan struct{} // closed when a node acknowledges or is dropped; nil: nobody waits
}

// newest is the newest version a node has acknowledged.
type newest struct {
	version uint64
	at      steering.Instant
}

type published struct {
	version uint64
	at      steering.Instant
}

// wave is one publication to one audience.
type wave struct {
	version  uint64
	at       steering.Instant
	switches []Switch
	waiting  map[string]bool
	acks     []Ack
	missing  []string // no longer there to be waited for
}

// Handed notes when a map is handed out, so that what is acknowledged before Open is measured too.
func (t *Tracker) Handed(version uint64, at steering.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handed = max(t.handed, version)
	t.times[version%remembered] = published{version, at}
}

// Open says that a map was handed out at an instant. Without switches it is followed for now's audience, until a newer map makes it
// uninteresting. What is through at once is given back.
func (t *Tracker) Open(version uint64, switches []Switch, now *roster.Audience, at steering.Instant) []Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handed = max(t.handed, version)
	t.open = slices.DeleteFunc(t.open, func(w *wave) bool { return len(w.switches) == 0 })
	if len(switches) == 0 {
		t.add(version, at, nil, now)
	}
	for len(switches) > 0 { // those that one audience saw are one wave
		same := func(s Switch) bool { return s.Audience == switches[0].Audience }
		rest := slices.DeleteFunc(slices.Clone(switches), same)
		t.add(version, at, slices.DeleteFunc(slices.Clone(switches), func(s Switch) bool { return !same(s) }), switches[0].Audience)
		switches = rest
	}
	return t.through()
}

func (t *Tracker) add(version uint64, at steering.Instant, switches []Switch, to *roster.Audience) {
	w := &wave{version: version, at: at, switches: switches, waiting: map[string]bool{}}
	for _, name := range to.Names {
		if n := t.newest[name]; n.version >= version {
			w.acks = append(w.acks, Ack{name, max(n.at, at)})
		} else {
			w.waiting[name] = true
		}
	}
	t.open = append(t.open, w)
}

// Ack says that a node answers by a version. It gives what is through by it, and how long after its publication the
// version was acknowledged; 0: that is not known. A version that was never handed out is of a control before this one
// was restored from an older copy: it says nothing of ours.
func (t *Tracker) Ack(node string, version uint64, at steering.Instant) (through []Result, after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if version > t.handed {
		return nil, 0
	}
	if t.newest == nil {
		t.newest = map[string]newest{}
	}
	if n := t.newest[node]; version > n.version {
		t.newest[node] = newest{version, at}
		t.ring()
	}
	for _, w := range t.open {
		if w.version <= version && w.waiting[node] {
			delete(w.waiting, node)
			w.acks = append(w.acks, Ack{node, at})
		}
	}
	if p := t.times[version%remembered]; p.version == version {
		after = max(at-p.at, 0)
	}
	return t.through(), after
}

// Drop says that a node is no name server of ours any more: nobody waits for it.
func (t *Tracker) Drop(node string) []Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.newest, node)
	t.ring()
	for _, w := range t.open {
		if w.waiting[node] {
			delete(w.waiting, node)
			w.missing = append(w.missing, node)
		}
	}
	return t.through()
}

// Expire gives what was waited for long enough.
func (t *Tracker) Expire(now steering.Instant) []Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.open {
		if now-w.at < Patience {
			continue
		}
		for name := range w.waiting {
			w.missing = append(w.missing, name)
		}
		w.waiting = nil
	}
	return t.through()
}

// through takes out what nobody is waited for any more.
func (t *Tracker) through() (out []Result) {
	t.open = slices.DeleteFunc(t.open, func(w *wave) bool {
		if len(w.waiting) > 0 {
			return false
		}
		r := Result{Version: w.version, Switches: w.switches, Acks: w.acks, Missing: w.missing, At: w.at}
		slices.SortFunc(r.Acks, func(a, b Ack) int { return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Node, b.Node)) })
		slices.Sort(r.Missing)
		if len(r.Acks) > 0 {
			r.At = max(r.At, r.Acks[0].At)
		}
		out = append(out, r)
		return true
	})
	return out
}

// Missing are those of some name servers that do not answer by a version yet, and what is closed when that may have changed.
func (t *Tracker) Missing(version uint64, names []string) (missing []string, news <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		if t.newest[name].version < version {
			missing = append(missing, name)
		}
	}
	if t.news == nil {
		t.news = make(chan struct{})
	}
	return missing, t.news
}

// ring wakes those who wait for news. The caller holds the lock.
func (t *Tracker) ring() {
	if t.news != nil {
		close(t.news)
		t.news = nil
	}
}

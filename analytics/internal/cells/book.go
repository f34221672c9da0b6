package cells

import (
	"maps"
	"slices"
	"sync"
	"time"

	"steerpoint/report"
)

// Late is how long a cell stays open after its end: an observation may be a minute old when it comes (control takes none
// for older), and is then on its way for a moment.
const Late = 65 * time.Second

// lateMs is Late in the unit of cells' starts.
const lateMs = int64(Late / time.Millisecond)

// Book holds the cells that are open. Its methods may run at the same time; those that a loop calls for each observation
// never wait for longer than another takes with one service.
type Book struct {
	mu       sync.Mutex
	services map[string]map[string]*ruleBook // by service and rule
	closed   int64                           // cells that start before it are closed
	late     uint64
}

// ruleBook is the open cells of one rule.
type ruleBook struct {
	edges   map[string]*[]Cell // by start
	steered []Cell
	answers []answer // by time
}

// answer is what a rule answers after an instant, until the next one.
type answer struct {
	at      int64 // Unix nanoseconds
	targets []report.AnswerTarget
	empty   bool
}

// holds reports whether another answer, not older, says nothing new: control says it anew whenever it may have changed.
func (a *answer) holds(next *answer) bool {
	return a.at <= next.at && a.empty == next.empty && slices.Equal(a.targets, next.targets)
}

// NewBook makes a book without cells.
func NewBook() *Book { return &Book{services: map[string]map[string]*ruleBook{}} }

func (b *Book) rule(service, rule string) *ruleBook {
	rules := b.services[service]
	if rules == nil {
		rules = map[string]*ruleBook{}
		b.services[service] = rules
	}
	r := rules[rule]
	if r == nil {
		r = &ruleBook{edges: map[string]*[]Cell{}}
		rules[rule] = r
	}
	return r
}

// Measured puts an observation into its cell, of the edge, and of the rule when it answered with that address then.
func (b *Book) Measured(m report.Measurement) {
	start := StartOf(m.At)
	b.mu.Lock()
	defer b.mu.Unlock()
	if start < b.closed {
		b.late++
		return
	}
	r := b.rule(m.Service, m.Rule)
	edge := r.edges[m.Edge]
	if edge == nil {
		edge = new([]Cell)
		r.edges[m.Edge] = edge
	}
	cellAt(edge, Key{m.Service, m.Rule, m.Edge}, start).observe(m.OK, m.Latency, 1)
	if weight, empty := r.answered(m.At.UnixNano(), m.Edge, m.Address); weight > 0 {
		cellAt(&r.steered, Key{m.Service, m.Rule, ""}, start).observe(m.OK && !empty, m.Latency, weight)
	}
}

// Answered notes what a rule answers from now on. Answers come in the order of their times.
func (b *Book) Answered(a report.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.rule(a.Service, a.Rule)
	next := answer{a.At.UnixNano(), slices.Clone(a.Targets), a.Empty}
	if n := len(r.answers); n > 0 && r.answers[n-1].holds(&next) {
		return
	}
	r.answers = append(r.answers, next)
}

// answered gives the weight of an address among those answered at an instant; 0: it was none of them. An answer holds
// for what was observed after it: the observation that brought it about tells of the one before.
func (r *ruleBook) answered(at int64, edge, address string) (weight float64, empty bool) {
	for i := len(r.answers) - 1; i >= 0; i-- {
		a := &r.answers[i]
		if a.at >= at {
			continue
		}
		for _, t := range a.targets {
			if t.Edge == edge && t.Address == address {
				return t.Weight, a.empty
			}
		}
		return 0, false
	}
	return 0, false
}

// cellAt finds or makes the cell of a start. The newest comes last and is nearly always the one.
func cellAt(list *[]Cell, key Key, start int64) *Tally {
	for i := len(*list) - 1; i >= 0; i-- {
		switch c := &(*list)[i]; {
		case c.Start == start:
			return &c.Tally
		case c.Start < start:
			*list = slices.Insert(*list, i+1, Cell{Key: key, Start: start})
			return &(*list)[i+1].Tally
		}
	}
	*list = slices.Insert(*list, 0, Cell{Key: key, Start: start})
	return &(*list)[0].Tally
}

// Close takes out the cells in which nothing can be put any more at now, by start and key.
func (b *Book) Close(now time.Time) []Cell {
	b.mu.Lock()
	b.closed = max(b.closed, floor(now.UnixMilli()-lateMs, widthMs))
	closed := b.closed
	b.mu.Unlock()
	var out []Cell
	b.each("", func(service string, rules map[string]*ruleBook) {
		for name, r := range rules {
			if out = r.close(closed, out); r.over() {
				delete(rules, name)
			}
		}
		if len(rules) == 0 {
			delete(b.services, service)
		}
	})
	Sort(out)
	return out
}

// each calls f for one service, or for every one for "", and lets others in between.
func (b *Book) each(service string, f func(string, map[string]*ruleBook)) {
	names := []string{service}
	if service == "" {
		b.mu.Lock()
		names = slices.Collect(maps.Keys(b.services))
		b.mu.Unlock()
	}
	for _, name := range names {
		b.mu.Lock()
		if rules := b.services[name]; rules != nil {
			f(name, rules)
		}
		b.mu.Unlock()
	}
}

// Sort orders cells by start and key.
func Sort(list []Cell) {
	slices.SortFunc(list, func(x, y Cell) int {
		if x.Start != y.Start {
			return int((x.Start - y.Start) / widthMs)
		}
		return x.Key.Compare(y.Key)
	})
}

func (r *ruleBook) close(before int64, out []Cell) []Cell {
	out = closeCells(&r.steered, before, out)
	for edge, list := range r.edges {
		if out = closeCells(list, before, out); len(*list) == 0 {
			delete(r.edges, edge)
		}
	}
	// The answer that held when the oldest open cell began is still needed, none before it.
	keep := 0
	for i := range r.answers {
		if r.answers[i].at < before*int64(time.Millisecond) {
			keep = i
		}
	}
	r.answers = slices.Delete(r.answers, 0, keep)
	return out
}

func closeCells(list *[]Cell, before int64, out []Cell) []Cell {
	n := 0
	for n < len(*list) && (*list)[n].Start < before {
		n++
	}
	out = append(out, (*list)[:n]...)
	*list = slices.Delete(*list, 0, n)
	return out
}

// over reports whether the rule has no cell and no answer: it is gone.
func (r *ruleBook) over() bool {
	return len(r.edges) == 0 && len(r.steered) == 0 && (len(r.answers) == 0 || len(r.answers) == 1 && len(r.answers[0].targets) == 0)
}

// Open gives copies of the open cells of a service, or of all services for "", in no order.
func (b *Book) Open(service string) []Cell {
	var out []Cell
	b.each(service, func(_ string, rules map[string]*ruleBook) {
		n := len(out)
		for _, r := range rules {
			out = append(out, r.steered...)
			for _, list := range r.edges {
				out = append(out, *list...)
			}
		}
		for i := n; i < len(out); i++ {
			out[i].Latency = slices.Clone(out[i].Latency)
		}
	})
	return out
}

// Sum adds up the open cells of a key, without a histogram.
func (b *Book) Sum(k Key) Tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	var t Tally
	r := b.services[k.Service][k.Rule]
	if r == nil {
		return t
	}
	list := r.steered
	if k.Edge != "" {
		if r.edges[k.Edge] == nil {
			return t
		}
		list = *r.edges[k.Edge]
	}
	for i := range list {
		t.Probes += list[i].Probes
		t.OK += list[i].OK
		t.Seconds += list[i].Seconds
	}
	return t
}

// Restore puts cells back that were open when the process before this one ended. Those that start before open are on disk,
// and left out. It gives those back that this book has closed already, by start and key.
func (b *Book) Restore(list []Cell, open int64) (over []Cell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range list {
		c := &list[i]
		switch {
		case c.Start < open:
			continue
		case c.Start < b.closed:
			over = append(over, *c)
			continue
		}
		r := b.rule(c.Service, c.Rule)
		into := &r.steered
		if c.Edge != "" {
			if r.edges[c.Edge] == nil {
				r.edges[c.Edge] = new([]Cell)
			}
			into = r.edges[c.Edge]
		}
		cellAt(into, c.Key, c.Start).Add(&c.Tally)
	}
	Sort(over)
	return over
}

// Late is how many observations came after their cell was closed.
func (b *Book) Late() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.late
}

package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"steerpoint/geo"
	"steerpoint/steering/scope"
)

// table is one scope table in use.
type table struct {
	key   string // of its scope set; "": taken over from another snapshot
	geo   *geo.Table
	sum   sum
	slot  int // in DNS.Tables while in use
	users int
}

// tableSet keeps the tables from one snapshot to the next, by scope set: services with equal sets share one. A table
// keeps its index while it is used, so that a service that did not change stays the same value. The zero value is
// ready.
type tableSet struct {
	db    *geo.DB
	byKey map[string]*table // of the geo data at hand, or proven equal to it
	old   map[string]*table // of the geo data before
	slots []*table
	live  int      // slots in use
	lists struct { // of slots; shared by snapshots, nil: to be made
		tables []*geo.Table
		sums   []sum
	}
	compiled int // so far; for tests and benchmarks
}

// geo puts other geo data in place.
func (s *tableSet) geo(db *geo.DB) { s.db, s.old, s.byKey = db, s.byKey, map[string]*table{} }

// get is the table of a scope set in the total order.
func (s *tableSet) get(key string, scopes []scope.Scope) (*table, error) {
	if t := s.byKey[key]; t != nil {
		return t, nil
	}
	made, err := geo.Compile(cmp.Or(s.db, geo.New()), scopes)
	if err != nil {
		return nil, err
	}
	s.compiled++
	t := &table{key: key, geo: made, sum: tableSum(made)}
	if before := s.old[key]; before != nil && before.sum == t.sum {
		t = before // other data, but not for these scopes
	}
	s.byKey[key] = t
	return t, nil
}

// adopt takes over a table of another snapshot.
func (s *tableSet) adopt(g *geo.Table) *table {
	for _, t := range s.slots {
		if t != nil && t.geo == g {
			s.acquire(t)
			return t
		}
	}
	t := &table{geo: g, sum: tableSum(g)}
	s.acquire(t)
	return t
}

// acquire counts a user; the first one gives the table its index.
func (s *tableSet) acquire(t *table) {
	if t.users++; t.users > 1 {
		return
	}
	if t.slot = slices.Index(s.slots, nil); t.slot < 0 {
		t.slot = len(s.slots)
		s.slots = append(s.slots, nil)
	}
	s.slots[t.slot] = t
	s.live++
	s.lists.tables, s.lists.sums = nil, nil
}

// release takes a user away; with the last one the table goes.
func (s *tableSet) release(t *table) {
	if t == nil {
		return
	}
	if t.users--; t.users > 0 {
		return
	}
	s.slots[t.slot] = nil
	s.live--
	for len(s.slots) > 0 && s.slots[len(s.slots)-1] == nil {
		s.slots = s.slots[:len(s.slots)-1]
	}
	s.lists.tables, s.lists.sums = nil, nil
}

// list gives the tables by index, and their sums. Tables that nobody uses are forgotten.
func (s *tableSet) list() ([]*geo.Table, []sum) {
	s.old = nil
	if len(s.byKey) > s.live {
		maps.DeleteFunc(s.byKey, func(_ string, t *table) bool { return t.users == 0 })
	}
	if s.lists.sums != nil {
		return s.lists.tables, s.lists.sums
	}
	s.lists.tables, s.lists.sums = make([]*geo.Table, len(s.slots)), make([]sum, len(s.slots))
	for i, t := range s.slots {
		if t != nil {
			s.lists.tables[i], s.lists.sums[i] = t.geo, t.sum
		}
	}
	return s.lists.tables, s.lists.sums
}

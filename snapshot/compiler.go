package snapshot

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"steerpoint/geo"
	"steerpoint/spec"
)

// Compiler makes the snapshots for name servers, each from the one before: it compiles again only the services whose
// resource, rules' inputs, zone or geo data changed, and the others keep their value, Made and Revision included. The
// zero value is ready. Calls must not overlap.
//
// Problems are values: one bad service or zone never keeps the others from being published.
type Compiler struct {
	db       *geo.DB
	rules    map[string]DNSRuleInput // all there are, by "service/rule"
	zones    zoneSet
	services []*spec.Service // as they were given
	unread   []string        // likewise: names of those that cannot be read
	entries  []*entry        // by name
	byName   map[string]*entry
	tables   tableSet
	owners   map[string]string // who answers at a name: "name server" or "service shop"; as of the last claims
	cnames   map[string]string // service CNAMEs, taken or not, and their services
	last     *DNS
	previous *DNS // only until the first call is done

	compiled int // services, so far
}

// entry is one service.
type entry struct {
	name  string
	spec  *spec.Service // nil: it cannot be read
	plan  *plan         // what follows from spec alone; nil: not made yet
	zone  string        // its steering zone; "": zoneErr says why
	dirty bool          // to be compiled

	// What it answers, its names and what others do left out: made holds if err is nil.
	made     DNSService
	table    *table
	err      error
	problems []Problem
	names    string // which part of it could answer with a name; "": none

	// What of its names it has, beside the others.
	claim claim
	stale bool // out does not follow made and claim

	// What of it is in the snapshot.
	out      DNSService
	outTable *table
	present  bool
	at       int // in DNS.Services
	told     []Problem
}

// CompileDNS makes one snapshot from nothing but its input; Rules are all there are.
func CompileDNS(in DNSInput) (*DNS, []Problem) {
	in.Partial = false
	return new(Compiler).Compile(in)
}

// Compile makes the next snapshot. It shares nothing with the input that the caller may change.
func (c *Compiler) Compile(in DNSInput) (*DNS, []Problem) {
	if c.last == nil {
		c.previous, c.rules, c.byName = in.Previous, map[string]DNSRuleInput{}, map[string]*entry{}
	}
	c.takeRules(&in)
	rezoned := c.takeZones(in.Zones)
	renamed := c.takeServices(&in, rezoned)
	c.takeGeo(in.Geo)
	for _, e := range c.entries {
		if e.dirty {
			renamed = c.compile(e, &in) || renamed
		}
	}
	if renamed {
		c.claims()
	}
	return c.assemble(&in)
}

// ServicesCompiled is how many services were compiled so far, each time one was; for tests and benchmarks.
func (c *Compiler) ServicesCompiled() int { return c.compiled }

// TablesCompiled is how many scope tables were compiled so far.
func (c *Compiler) TablesCompiled() int { return c.tables.compiled }

// takeRules notes what the core says, and which services that concerns.
func (c *Compiler) takeRules(in *DNSInput) {
	if !in.Partial {
		c.rules = make(map[string]DNSRuleInput, len(in.Rules))
		for _, e := range c.entries {
			e.dirty = true
		}
	}
	touch := func(key string) {
		service, _, _ := strings.Cut(key, "/")
		if e := c.byName[service]; e != nil {
			e.dirty = true
		}
	}
	for key, rule := range in.Rules {
		c.rules[key] = rule
		touch(key)
	}
	for _, key := range in.Ended {
		if _, ok := in.Rules[key]; !ok {
			delete(c.rules, key)
			touch(key)
		}
	}
}

// takeZones puts zones in place. It reports whether anything changed that services depend on.
func (c *Compiler) takeZones(zones []*spec.Zone) bool {
	if c.last != nil && slices.Equal(zones, c.zones.given) {
		return false
	}
	made := newZoneSet(zones)
	if c.last != nil && EqualZones(made.zones, c.zones.zones) {
		made.zones, made.sum = c.zones.zones, c.zones.sum
	}
	changed := c.last == nil || !made.sameNames(&c.zones)
	c.zones = made
	return changed
}

// takeServices puts services in place. It reports whether names may have changed hands.
func (c *Compiler) takeServices(in *DNSInput, rezoned bool) bool {
	same := c.last != nil && slices.Equal(in.Services, c.services) && slices.Equal(in.Unread, c.unread)
	if same && !rezoned {
		return false
	}
	if !same {
		c.services, c.unread = slices.Clone(in.Services), slices.Clone(in.Unread)
		c.newEntries()
	}
	for _, e := range c.entries {
		if e.spec == nil {
			continue
		}
		zone, err := c.zones.of(e.spec)
		if e.zone != zone || err != nil {
			e.zone, e.dirty = zone, true
		}
	}
	return true
}

// newEntries keeps the entries of services that are as they were.
func (c *Compiler) newEntries() {
	sorted := slices.DeleteFunc(slices.Clone(c.services), func(s *spec.Service) bool {
		return s.DNS.Provider != "" && s.DNS.Provider != "builtin"
	})
	before := c.byName
	c.entries, c.byName = make([]*entry, 0, len(sorted)+len(c.unread)), make(map[string]*entry, len(sorted)+len(c.unread))
	for _, s := range sorted {
		c.newEntry(before, s.Name, s)
	}
	for _, name := range c.unread {
		c.newEntry(before, name, nil)
	}
	slices.SortFunc(c.entries, func(a, b *entry) int { return cmp.Compare(a.name, b.name) })
	for _, e := range before {
		c.tables.release(e.outTable)
	}
}

// newEntry makes the entry of a service, or takes that of before. Of two with one name the first counts.
func (c *Compiler) newEntry(before map[string]*entry, name string, s *spec.Service) {
	if c.byName[name] != nil {
		return
	}
	e := before[name]
	delete(before, name)
	if e == nil {
		e = &entry{name: name, dirty: true}
		c.seed(e)
	}
	if e.spec != s {
		e.spec, e.plan, e.dirty = s, nil, true
	}
	c.entries, c.byName[name] = append(c.entries, e), e
}

// seed gives a service of the first call the answers it had in the snapshot before, to keep if it must.
func (c *Compiler) seed(e *entry) {
	if c.previous == nil {
		return
	}
	i, found := slices.BinarySearchFunc(c.previous.Services, e.name, func(s DNSService, name string) int { return cmp.Compare(s.Name, name) })
	if !found {
		return
	}
	out := c.previous.Services[i]
	if t := out.Table; t != NoTable && (t < 0 || t >= len(c.previous.Tables) || c.previous.Tables[t] == nil) {
		return // a map of a file that no name server has looked at
	}
	e.out, e.present, e.stale = out, true, true
	e.out.Revision = 0 // it was made on another clock: its value is not kept
	if e.out.Table != NoTable {
		e.outTable = c.tables.adopt(c.previous.Tables[e.out.Table])
		e.out.Table = e.outTable.slot
	}
}

func (c *Compiler) takeGeo(db *geo.DB) {
	if c.last != nil && db == c.db {
		return
	}
	c.db = db
	c.tables.geo(db)
	for _, e := range c.entries {
		e.dirty = e.dirty || e.spec != nil && len(e.spec.Rules) > 1
	}
}

// assemble makes the snapshot of the entries.
func (c *Compiler) assemble(in *DNSInput) (*DNS, []Problem) {
	out := &DNS{Version: in.Version, Created: in.Created, At: in.Now, Zones: c.zones.zones, zonesSum: c.zones.sum}
	problems := slices.Clone(c.zones.problems)
	var changed []*entry
	moved := c.last == nil || len(c.last.Services) == 0
	n := 0
	for _, e := range c.entries {
		if e.stale {
			c.finish(e, in)
			changed = append(changed, e)
		}
		problems = append(problems, e.told...)
		if e.present {
			moved = moved || n >= len(c.last.Services) || c.last.Services[n].Name != e.out.Name
			e.at = n
			n++
		}
	}
	switch {
	case moved || n != len(c.last.Services):
		out.Services = make([]DNSService, 0, n)
		for _, e := range c.entries {
			if e.present {
				out.Services = append(out.Services, e.out)
			}
		}
	case len(changed) == 0:
		out.Services = c.last.Services
	default:
		out.Services = slices.Clone(c.last.Services)
		for _, e := range changed {
			if e.present {
				out.Services[e.at] = e.out
			}
		}
	}
	out.Tables, out.tableSums = c.tables.list()
	c.last, c.previous = out, nil
	return out, problems
}

// rebase counts deadlines from now.
func (s *DNSService) rebase(now time.Duration) {
	if passed := now - s.Made; passed != 0 {
		s.Rules = slices.Clone(s.Rules)
		for i := range s.Rules {
			s.Rules[i].Soonest = max(0, s.Rules[i].Soonest-passed)
		}
	}
	s.Made = now
}

// finish makes what of a service is in the snapshot, and keeps its value if it answers as before.
func (c *Compiler) finish(e *entry, in *DNSInput) {
	e.stale = false
	var made DNSService
	var t *table
	e.told = slices.Clone(e.problems)
	err := cmp.Or(e.claim.err, e.err)
	switch {
	case err == nil:
		made, t = e.made, e.table
		made.Hosted = e.claim.hosted
		e.told = append(e.told, e.claim.problems...)
	case e.claim.kept != nil:
		made, t = *e.claim.kept, e.outTable
		fallthrough
	default:
		e.told = append(e.told, failure(e, err))
	}
	if err != nil && e.claim.kept == nil {
		c.tables.release(e.outTable)
		e.present, e.out, e.outTable = false, DNSService{}, nil
		return
	}
	made.Table = NoTable
	if t != nil {
		c.tables.acquire(t)
		made.Table = t.slot
	}
	c.tables.release(e.outTable)
	e.outTable = t
	made.rebase(in.Now)
	if e.present && e.out.Revision != 0 && e.out.sameAnswers(&made, in.Now) {
		return
	}
	made.Revision = in.Version
	made.sum = sumService(&made)
	e.out, e.present = made, true
}

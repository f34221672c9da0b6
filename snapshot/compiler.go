package snapshot

import (
	"cmp"
	"maps"
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
	serials  serials
	owners   map[string]string // who answers at a name: "name server" or "service shop"; as of the last claims
	cnames   map[string]string // service CNAMEs, taken or not, and their services
	last     *DNS
	previous *DNS // only until the first call is done

	// What a call has to look at, so that one that changes little looks at little.
	dirty, stale []*entry
	troubled     map[*entry]struct{} // those with problems
	moved        bool                // services of the snapshot came or went

	steered    map[string]bool // owners of ALIAS records that services answer for; as of the last claims
	aliasFails []Problem       // likewise: those that get none of their addresses of the service
	unknowns   []Problem       // ALIAS records of no service whose addresses are not known
	signed     map[string]bool // zones that are signed, or are to be
	signedBy   *Signing        // of the last call
	unfinished bool            // zones lacks the addresses of ALIAS records
	targets    []string        // names elsewhere that addresses are wanted of; nil: to be found anew

	compiled int // services, so far
}

// entry is one service.
type entry struct {
	name  string
	spec  *spec.Service // nil: it cannot be read
	plan  *plan         // what follows from spec alone; nil: not made yet
	zone  string        // its steering zone; "": zoneErr says why
	dirty bool          // to be compiled: it is in Compiler.dirty
	ended bool          // there is no such service any more

	// What it answers, its names and what others do left out: made holds if err is nil.
	made     DNSService
	table    *table
	err      error
	problems []Problem
	names    string // which part of it could answer with a name; "": none

	wantsFlat bool // it has names where only addresses can be answered, and choices that are names
	flat      bool // made has the addresses of those choices
	flatReady bool // of all of them
	oneShape  bool // it answers with addresses in the place of names everywhere

	// What of its names it has, beside the others.
	claim claim
	stale bool // out does not follow made and claim: it is in Compiler.stale

	// What of it is in the snapshot.
	out      *DNSService // nil: nothing
	outTable *table
	at       int // in DNS.Services
	told     []Problem
}

// touch has a service compiled again.
func (c *Compiler) touch(e *entry) {
	if !e.dirty {
		e.dirty, c.dirty = true, append(c.dirty, e)
	}
}

// outdate has what of a service is in the snapshot made again.
func (c *Compiler) outdate(e *entry) {
	if !e.stale {
		e.stale, c.stale = true, append(c.stale, e)
	}
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
		c.troubled = map[*entry]struct{}{}
	}
	c.takeRules(&in)
	zones := c.zones.given
	rezoned := c.takeZones(in.Zones)
	c.takeSigned(zones, &in)
	renamed := c.takeServices(&in, rezoned)
	c.takeGeo(in.Geo)
	c.takeResolved(in.Resolved)
	slices.SortFunc(c.dirty, byName)
	for _, e := range c.dirty {
		if !e.ended {
			renamed = c.compile(e, &in) || renamed
		}
	}
	c.dirty = c.dirty[:0]
	if renamed {
		c.claims()
		if c.flatten(&in) {
			c.claims()
		}
		c.serials.renamed = true
	}
	c.finishZones()
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
			c.touch(e)
		}
	}
	touch := func(key string) {
		service, _, _ := strings.Cut(key, "/")
		if e := c.byName[service]; e != nil {
			c.touch(e)
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
	made := newZoneSet(withCatalogs(zones), &c.zones)
	made.given, made.resolved = slices.Clone(zones), c.zones.resolved
	changed := c.last == nil || !made.sameNames(&c.zones)
	c.zones, c.unfinished = made, true
	c.touchFlat() // what a name points at may be a record
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
			e.zone = zone
			c.touch(e)
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
	slices.SortFunc(c.entries, byName)
	for _, e := range before {
		e.ended = true
		c.tables.release(e.outTable)
		delete(c.troubled, e)
	}
	c.moved = true
}

func byName(a, b *entry) int { return cmp.Compare(a.name, b.name) }

// newEntry makes the entry of a service, or takes that of before. Of two with one name the first counts.
func (c *Compiler) newEntry(before map[string]*entry, name string, s *spec.Service) {
	if c.byName[name] != nil {
		return
	}
	e := before[name]
	delete(before, name)
	if e == nil {
		e = &entry{name: name}
		c.touch(e)
		c.seed(e)
	}
	if e.spec != s {
		e.spec, e.plan = s, nil
		c.touch(e)
	}
	c.entries, c.byName[name] = append(c.entries, e), e
}

// seed gives a service of the first call the answers it had in the snapshot before, to keep if it must.
func (c *Compiler) seed(e *entry) {
	if c.previous == nil {
		return
	}
	i, found := slices.BinarySearchFunc(c.previous.Services, e.name, func(s *DNSService, name string) int { return cmp.Compare(s.Name, name) })
	if !found {
		return
	}
	out := *c.previous.Services[i]
	if t := out.Table; t != NoTable && (t < 0 || t >= len(c.previous.Tables) || c.previous.Tables[t] == nil) {
		return // a map of a file that no name server has looked at
	}
	out.Revision = 0 // it was made on another clock: its value is not kept
	if out.Table != NoTable {
		e.outTable = c.tables.adopt(c.previous.Tables[out.Table])
		out.Table = e.outTable.slot
	}
	e.out = &out
	c.outdate(e)
}

func (c *Compiler) takeGeo(db *geo.DB) {
	if c.last != nil && db == c.db {
		return
	}
	c.db = db
	c.tables.geo(db)
	for _, e := range c.entries {
		if e.spec != nil && len(e.spec.Rules) > 1 {
			c.touch(e)
		}
	}
}

// assemble makes the snapshot of the entries.
func (c *Compiler) assemble(in *DNSInput) (*DNS, []Problem) {
	slices.SortFunc(c.stale, byName)
	for _, e := range c.stale {
		if !e.ended {
			c.finish(e, in)
		}
	}
	out := &DNS{
		Version: in.Version, Created: in.Created, At: in.Now, Zones: c.zones.zones, zonesSum: c.zones.sum,
		Services: c.list(), ordered: true,
	}
	out.known = out
	changed := c.stale
	c.stale, c.moved = nil, false
	out.Tables, out.tableSums = c.tables.list()
	out.Signing, out.Sealed = in.Signing, in.Sealed
	out.Serials = c.serials.next(out, c.previous, c.zones.steering, changed)
	c.last, c.previous = out, nil
	return out, c.problems()
}

// list is the services of the snapshot. Unless some came or went, it is the list before with the changed ones replaced.
func (c *Compiler) list() []*DNSService {
	if c.last != nil && !c.moved {
		list := c.last.Services
		for _, e := range c.stale {
			if e.out == nil || list[e.at] == e.out {
				continue
			}
			if &list[0] == &c.last.Services[0] {
				list = slices.Clone(list)
			}
			list[e.at] = e.out
		}
		return list
	}
	list := make([]*DNSService, 0, len(c.entries))
	for _, e := range c.entries {
		if e.out != nil {
			e.at = len(list)
			list = append(list, e.out)
		}
	}
	return list
}

// problems are those of zones, then those of services in their order.
func (c *Compiler) problems() []Problem {
	problems := slices.Concat(c.zones.problems, c.aliasFails, c.unknowns)
	for _, e := range slices.SortedFunc(maps.Keys(c.troubled), byName) {
		problems = append(problems, e.told...)
	}
	return problems
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
		made.Hosted, made.Flat = e.claim.hosted, e.claim.flat
		e.told = append(e.told, e.claim.problems...)
	case e.claim.kept != nil:
		made, t = *e.claim.kept, e.outTable
		fallthrough
	default:
		e.told = append(e.told, failure(e, err))
	}
	if delete(c.troubled, e); len(e.told) > 0 {
		c.troubled[e] = struct{}{}
	}
	if err != nil && e.claim.kept == nil {
		c.tables.release(e.outTable)
		c.moved = c.moved || e.out != nil
		e.out, e.outTable = nil, nil
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
	if e.out != nil && e.out.Revision != 0 && e.out.sameAnswers(&made, in.Now) {
		return
	}
	made.Revision = in.Version
	made.sum = sumService(&made)
	c.moved = c.moved || e.out == nil
	e.out = &made
}

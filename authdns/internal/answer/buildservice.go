package answer

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"steerpoint/snapshot"
)

// addServices makes the services, or takes them over from old, and notes in b.changes what became of each that is not
// the same.
func (b *builder) addServices(old *Index) {
	ix := b.ix
	ix.slots = old.slots // shared until something changes
	list, before := ix.d.Services, old.d.Services
	same := b.sameTables(old)
	from, moved := b.match(list, before)
	if moved {
		ix.order = make([]int32, len(list))
		b.retire(before, from)
	}
	for i, s := range list {
		j := i
		if moved {
			if j = int(from[i]); j < 0 {
				ix.order[i] = b.slot(b.service(s), nil)
				b.changes = append(b.changes, change{nil, s, ix.order[i]})
				continue
			}
			ix.order[i] = old.order[j]
		}
		o := before[j]
		if s == o && same && old.untold == 0 {
			continue
		}
		at := old.order[j]
		made := old.service(at)
		switch {
		case s.Revision == 0 || made.table != b.tableOf(s) || !s.Equal(o):
			made = b.service(s)
		case s != o: // the old one of another copy of the map, which is not to stay in memory for its sake
			kept := *made
			kept.src, made = s, &kept
			if kept.flat != nil {
				flat := *kept.flat
				flat.src, kept.flat = s, &flat
			}
		default:
			continue
		}
		b.slot(made, &at)
		b.changes = append(b.changes, change{o, s, at})
	}
}

// change is a service that is not as it was.
type change struct {
	old, new *snapshot.DNSService // nil: there was none, there is none
	slot     int32
}

// renamed reports whether a service has other names than before.
func (c *change) renamed() bool {
	return c.old == nil || c.new == nil || c.old.CNAME != c.new.CNAME || !slices.Equal(c.old.Hosted, c.new.Hosted) ||
		!slices.Equal(c.old.Flat, c.new.Flat)
}

// namesOf are the names of a service: its CNAME, those that answer likewise, and those that answer with addresses only.
func namesOf(s *snapshot.DNSService) []string {
	if s == nil {
		return nil
	}
	return slices.Concat([]string{s.CNAME}, s.Hosted, s.Flat)
}

// sameTables reports whether the tables are those of old. Where they are not, each service has to be looked at.
func (b *builder) sameTables(old *Index) bool { return slices.Equal(b.ix.tables, old.tables) }

// match finds each service in the list before, by name: its index there, or -1. Unless moved is set all stand where they
// stood, and from is empty. Both lists are walked in the order of names, which is the one they have unless somebody made
// them up.
func (b *builder) match(list, before []*snapshot.DNSService) (from []int32, moved bool) {
	if slices.EqualFunc(list, before, func(s, o *snapshot.DNSService) bool { return s == o || s.Name == o.Name }) {
		return nil, false
	}
	from = make([]int32, len(list))
	i, j := 0, 0
	for ; i < len(list); i++ {
		for j < len(before) && before[j] != list[i] && before[j].Name < list[i].Name {
			j++
		}
		if j < len(before) && (before[j] == list[i] || before[j].Name == list[i].Name) {
			from[i] = int32(j)
			j++
			continue
		}
		from[i] = -1
	}
	if !ordered(list) || !ordered(before) {
		return matchAny(list, before), true
	}
	return from, true
}

func ordered(list []*snapshot.DNSService) bool {
	return slices.IsSortedFunc(list, func(a, b *snapshot.DNSService) int { return cmp.Compare(a.Name, b.Name) })
}

// matchAny is match for lists in any order.
func matchAny(list, before []*snapshot.DNSService) []int32 {
	at := make(map[string]int32, len(before))
	for i, s := range before {
		at[s.Name] = int32(i)
	}
	from := make([]int32, len(list))
	for i, s := range list {
		from[i] = -1
		if j, ok := at[s.Name]; ok {
			from[i] = j
			delete(at, s.Name) // of two with one name the second is new
		}
	}
	return from
}

// retire gives back the slots of services that are no more.
func (b *builder) retire(before []*snapshot.DNSService, from []int32) {
	stays := make([]bool, len(before))
	for _, j := range from {
		if j >= 0 {
			stays[j] = true
		}
	}
	order := b.old.order
	for j, s := range before {
		if !stays[j] {
			at := order[j]
			b.slot(nil, &at)
			b.ix.free = append(b.ix.free, at)
			b.changes = append(b.changes, change{s, nil, at})
		}
	}
}

// slot puts a service at a slot, at a free one if at is nil, and says which.
func (b *builder) slot(s *service, at *int32) int32 {
	ix := b.ix
	if b.ownPages == nil {
		ix.pages, ix.free, b.ownPages = slices.Clone(ix.pages), slices.Clone(ix.free), map[int32]struct{}{}
	}
	var n int32
	switch {
	case at != nil:
		n = *at
	case len(ix.free) > 0:
		n = ix.free[len(ix.free)-1]
		ix.free = ix.free[:len(ix.free)-1]
	default:
		n = int32(ix.used)
		ix.used++
	}
	p := b.page(n / pageSlots)
	ix.untold += told(p[n%pageSlots]) - told(s)
	p[n%pageSlots] = s
	return n
}

// page is a page of slots that may be changed.
func (b *builder) page(i int32) *page {
	if int(i) == len(b.ix.pages) {
		b.ix.pages = append(b.ix.pages, new(page))
		b.ownPages[i] = struct{}{}
	}
	if _, own := b.ownPages[i]; !own {
		made := *b.ix.pages[i]
		b.ix.pages[i] = &made
		b.ownPages[i] = struct{}{}
	}
	return b.ix.pages[i]
}

// told is -1 of a service whose snapshot does not say when it changed.
func told(s *service) int {
	if s != nil && s.src.Revision == 0 {
		return -1
	}
	return 0
}

// tableOf is the table a service with several rules looks up; nil: it has none, or needs none.
func (b *builder) tableOf(s *snapshot.DNSService) Table {
	if len(s.Rules) < 2 || s.Table < 0 || s.Table >= len(b.ix.tables) {
		return nil
	}
	return b.ix.tables[s.Table]
}

// service makes a service, after a fault one that answers nothing.
func (b *builder) service(s *snapshot.DNSService) *service {
	what := place{s.Name, ""}
	made := &service{src: s, negTTL: b.ttl(what, "negativeTTL", s.NegativeTTL), answers: &answers{}}
	switch {
	case len(s.Rules) == 0:
		b.fail("%s has no rules", what)
		return made
	case len(s.Rules) >= int(unmapped):
		b.fail("%s has %d rules: at most %d", what, len(s.Rules), unmapped-1)
		return made
	case len(s.Rules) > 1:
		if made.table = b.tableOf(s); made.table == nil {
			b.fail("%s names table %d of %d", what, s.Table, len(b.ix.tables))
			return made
		}
	}
	// Services of one list of rules, as a map read from disk has them, need it made once.
	if list := b.lists[&s.Rules[0]]; list != nil && len(list.rules) == len(s.Rules) {
		made.answers = list
	} else {
		made.answers = b.answers(s)
	}
	if len(s.Flat) > 0 {
		made.flat = b.flatten(made)
	}
	return made
}

// answers makes what the rules of a service answer.
func (b *builder) answers(s *snapshot.DNSService) *answers {
	made := &answers{rules: make([]rule, len(s.Rules))}
	for i := range s.Rules {
		made.rules[i] = b.rule(s, &s.Rules[i])
		for j := range made.rules[i].choices {
			made.named = made.named || made.rules[i].choices[j].cname != nil
		}
	}
	for k := range kinds {
		made.tailored[k] = made.dependsOnClient(k)
	}
	if made.lasting() {
		made = b.ix.pool.answers(made)
		if !slices.ContainsFunc(s.Rules, func(r snapshot.DNSRule) bool { return r.Soonest != 0 }) { // over, counted from when this one was made
			b.lists[&s.Rules[0]] = made
		}
	}
	return made
}

// lasting reports whether answers are the same for every service of these rules, now and later: nothing in them depends
// on the service, and no deadline on when they were made.
func (a *answers) lasting() bool {
	for i := range a.rules {
		if a.rules[i].deadline != 0 || len(a.rules[i].choices) > 1 {
			return false
		}
	}
	return true
}

// place names a service, and a rule of it, in what is said of faults; most have none, so it is written only then.
type place struct{ service, rule string }

func (p place) String() string {
	if p.rule == "" {
		return "service " + p.service
	}
	return "rule " + p.service + "/" + p.rule
}

// ttl is seconds for a field of a service or rule.
func (b *builder) ttl(of place, field string, d time.Duration) uint32 {
	if d >= 0 && d <= maxTTL {
		return uint32(d / time.Second)
	}
	return b.seconds(of.String()+": "+field, d)
}

// nameService gives a service its names.
func (b *builder) nameService(s *snapshot.DNSService, slot int32) {
	for i, name := range namesOf(s) {
		n, w := b.ownedBy("service ", s.Name, name)
		switch {
		case n == nil:
		case b.isCut(w, n.zone):
			b.fail("%s is a name of service %s and is delegated", name, s.Name)
		case n.service == slot+1:
			b.fail("%s is a name of service %s twice", name, s.Name)
		case n.service != 0:
			b.fail("%s is a name of service %s and of service %s", name, b.ix.at(n).src.Name, s.Name)
		default:
			n = b.mine(n)
			n.service, n.flat = slot+1, i > len(s.Hosted)
		}
	}
}

// dependsOnClient reports whether who asks makes a difference to a kind of question.
func (a *answers) dependsOnClient(k kind) bool {
	if len(a.rules) == 1 && len(a.rules[0].eligible[k]) <= 1 {
		return false
	}
	for i := range a.rules {
		for j := range a.rules[i].choices {
			if a.rules[i].choices[j].set(k) != nil {
				return true
			}
		}
	}
	return false // NODATA for everyone
}

func (b *builder) rule(s *snapshot.DNSService, r *snapshot.DNSRule) rule {
	what := place{s.Name, r.Rule}
	made := rule{ttl: b.ttl(what, "ttl", r.TTL), minTTL: b.ttl(what, "minTTL", r.MinTTL)}
	if made.minTTL > made.ttl {
		b.fail("%s: minTTL %s is above ttl %s", what, r.MinTTL, r.TTL)
	}
	if left := b.ix.d.Left(s, r); left > 0 {
		made.deadline = b.now + left
	}
	choices := make([]choice, 0, len(r.Choices))
	for i := range r.Choices {
		c := b.choice(what, s.Name, &r.Choices[i])
		if choices = append(choices, c); len(r.Choices) > 1 && c.weight <= 0 {
			b.fail("%s: edge %s has weight %d: want 1 to 1000", what, c.edge, r.Choices[i].Weight)
		}
	}
	made.offer = b.ix.pool.offer(choices)
	return made
}

func (b *builder) choice(of place, serviceName string, c *snapshot.DNSChoice) choice {
	what := edgeOf{of, c.Edge}
	made := choice{edge: c.Edge, weight: float64(c.Weight), hash: nameHash(serviceName, c.Edge)}
	if (c.Target != "") == (len(c.A)+len(c.AAAA) > 0) {
		b.fail("%s: want a target or addresses, and not both", what)
		return made
	}
	if c.Target != "" {
		target, err := packName(c.Target)
		if err != nil {
			b.fail("%s: target: %w", what, err)
			return made
		}
		made.cname = b.intern(c.Edge, dns.TypeCNAME, 0, [][]byte{target})
		return made
	}
	if !all(c.A, netip.Addr.Is4) || !all(c.AAAA, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }) {
		b.fail("%s: an address stands in the wrong family: a %v, aaaa %v", what, c.A, c.AAAA)
		return made
	}
	if len(c.A) > 0 {
		made.a = b.intern(c.Edge, typeA, 0, rdatas(c.A))
	}
	if len(c.AAAA) > 0 {
		made.aaaa = b.intern(c.Edge, typeAAAA, 0, rdatas(c.AAAA))
	}
	return made
}

// edgeOf names an edge, as place does.
type edgeOf struct {
	of   place
	edge string
}

func (e edgeOf) String() string { return e.of.String() + ": edge " + e.edge }

func all(addrs []netip.Addr, is func(netip.Addr) bool) bool {
	for _, a := range addrs {
		if !is(a) || a.Zone() != "" {
			return false
		}
	}
	return true
}

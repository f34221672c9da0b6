package dnsupdate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Set is one record set of a zone.
type Set struct {
	Type uint16
	TTL  uint32
	Data []string // in presentation format
	// Fixed: no update changes it; Why says whose it is. Its data may be unknown, such as that of a steered name.
	Fixed bool
	Why   string
}

// Change is a record set as it is after an update; without data there is none.
type Change struct {
	Name string // FQDN, lower case
	Set
}

// Zone is what an update meets.
type Zone interface {
	// Sets are the record sets at a name. The name has none of its own: it is not in use.
	Sets(name string) []Set
	// May says why the sender may not change records of a type at a name; nil: it may. The type ANY asks about the name.
	May(name string, rrType uint16) error
}

// Apply works an update out: prerequisites first, then what may be changed, then the changes one after another. It gives the
// sets that differ afterwards, in the order in which they were first touched. The error is a *Fault, and then nothing changes.
func (u *Update) Apply(z Zone) ([]Change, error) {
	if err := u.check(z); err != nil {
		return nil, err
	}
	w := &work{zone: z, apex: u.Zone, names: map[string][]Set{}}
	for i := range u.changes {
		if err := w.may(&u.changes[i]); err != nil {
			return nil, err
		}
	}
	for i := range u.changes {
		if err := w.change(&u.changes[i]); err != nil {
			return nil, err
		}
	}
	return w.differences(), nil
}

// check is section 3.2.
func (u *Update) check(z Zone) error {
	type key struct {
		name string
		rr   uint16
	}
	wanted := map[key][]string{}
	var order []key
	for i := range u.prerequisites {
		r := &u.prerequisites[i]
		sets := z.Sets(r.name)
		there := slices.ContainsFunc(sets, func(s Set) bool { return s.Type == r.rr })
		what := r.name + " " + dns.Type(r.rr).String()
		switch {
		case r.class == dns.ClassANY && r.rr == dns.TypeANY && len(sets) == 0:
			return fault(dns.RcodeNameError, "prerequisite: %s is not in use", r.name)
		case r.class == dns.ClassNONE && r.rr == dns.TypeANY && len(sets) > 0:
			return fault(dns.RcodeYXDomain, "prerequisite: %s is in use", r.name)
		case r.rr == dns.TypeANY:
		case r.class == dns.ClassANY && !there:
			return fault(dns.RcodeNXRrset, "prerequisite: there is no record set %s", what)
		case r.class == dns.ClassNONE && there:
			return fault(dns.RcodeYXRrset, "prerequisite: there is a record set %s", what)
		case r.class == dns.ClassINET:
			k := key{r.name, r.rr}
			if wanted[k] == nil {
				order = append(order, k)
			}
			wanted[k] = append(wanted[k], r.data)
		}
	}
	for _, k := range order {
		i, sets := -1, z.Sets(k.name)
		if i = slices.IndexFunc(sets, func(s Set) bool { return s.Type == k.rr }); i < 0 || !sameData(sets[i].Data, wanted[k]) {
			return fault(dns.RcodeNXRrset, "prerequisite: the record set %s %s is another", k.name, dns.Type(k.rr))
		}
	}
	return nil
}

// sameData reports whether two lists are one set.
func sameData(a, b []string) bool {
	in := func(list []string, v string) bool { return slices.Contains(list, v) }
	return !slices.ContainsFunc(a, func(v string) bool { return !in(b, v) }) && !slices.ContainsFunc(b, func(v string) bool { return !in(a, v) })
}

// work is an update under way.
type work struct {
	zone  Zone
	apex  string
	names map[string][]Set // as they are now
	order []string         // names, as they were touched
}

func (w *work) at(name string) []Set {
	if sets, ok := w.names[name]; ok {
		return sets
	}
	sets := slices.Clone(w.zone.Sets(name))
	for i := range sets {
		sets[i].Data = slices.Clone(sets[i].Data)
	}
	w.names[name], w.order = sets, append(w.order, name)
	return sets
}

// may is section 3.3.
func (w *work) may(r *record) error {
	types := []uint16{r.rr}
	if r.rr == dns.TypeANY { // of all that there is
		for _, s := range w.at(r.name) {
			if !s.Fixed {
				types = append(types, s.Type)
			}
		}
	}
	for _, t := range types {
		if err := w.zone.May(r.name, t); err != nil {
			return fault(dns.RcodeRefused, "%v", err)
		}
	}
	return nil
}

// change is section 3.4.2.
func (w *work) change(r *record) error {
	sets := w.at(r.name)
	switch {
	case r.class == dns.ClassINET:
		return w.add(r, sets)
	case r.rr == dns.TypeANY:
		return w.drop(r, sets, func(*Set) bool { return true })
	case r.class == dns.ClassANY:
		return w.drop(r, sets, func(s *Set) bool { return s.Type == r.rr })
	}
	i := slices.IndexFunc(sets, func(s Set) bool { return s.Type == r.rr })
	if i < 0 || !slices.Contains(sets[i].Data, r.data) {
		return nil
	}
	if sets[i].Fixed {
		return fixed(r.name, &sets[i])
	}
	sets[i].Data = slices.DeleteFunc(sets[i].Data, func(v string) bool { return v == r.data })
	if len(sets[i].Data) == 0 {
		sets = slices.Delete(sets, i, i+1)
	}
	w.names[r.name] = sets
	return nil
}

// add adds a record: section 3.4.2.2. A CNAME beside other records, and another record beside a CNAME, are left out
// silently, as that section wants it.
func (w *work) add(r *record, sets []Set) error {
	beside := func(s Set) bool { return (s.Type == dns.TypeCNAME) != (r.rr == dns.TypeCNAME) }
	if slices.ContainsFunc(sets, beside) {
		return nil
	}
	i := slices.IndexFunc(sets, func(s Set) bool { return s.Type == r.rr })
	switch {
	case i < 0:
		w.names[r.name] = append(sets, Set{Type: r.rr, TTL: r.ttl, Data: []string{r.data}})
	case sets[i].Fixed && slices.Contains(sets[i].Data, r.data):
	case sets[i].Fixed:
		return fixed(r.name, &sets[i])
	case r.rr == dns.TypeCNAME:
		sets[i].TTL, sets[i].Data = r.ttl, []string{r.data}
	default:
		sets[i].TTL = r.ttl // a record set has one TTL: that of the last that came
		if !slices.Contains(sets[i].Data, r.data) {
			sets[i].Data = append(sets[i].Data, r.data)
		}
	}
	return nil
}

// drop deletes record sets. Those of the zone itself, SOA and NS, stay as sections 3.4.2.3 and 3.4.2.4 want it.
func (w *work) drop(r *record, sets []Set, which func(*Set) bool) error {
	var rest []Set
	for i := range sets {
		s := &sets[i]
		own := r.name == w.apex && (s.Type == dns.TypeSOA || s.Type == dns.TypeNS)
		switch {
		case own || !which(s):
			rest = append(rest, *s)
		case s.Fixed:
			return fixed(r.name, s)
		}
	}
	w.names[r.name] = rest
	return nil
}

func fixed(name string, s *Set) error {
	return fault(dns.RcodeRefused, "the %s records of %s cannot be changed by an update: %s", dns.Type(s.Type), name, s.Why)
}

// differences are the sets that are not as the zone has them.
func (w *work) differences() (out []Change) {
	for _, name := range w.order {
		before, now := w.zone.Sets(name), w.names[name]
		for _, s := range now {
			i := slices.IndexFunc(before, func(b Set) bool { return b.Type == s.Type })
			if i < 0 || before[i].TTL != s.TTL || !sameData(before[i].Data, s.Data) {
				out = append(out, Change{name, s})
			}
		}
		for _, b := range before {
			if !slices.ContainsFunc(now, func(s Set) bool { return s.Type == b.Type }) {
				out = append(out, Change{name, Set{Type: b.Type}})
			}
		}
	}
	return out
}

// Words says for people what the changes come to.
func Words(changes []Change) string {
	var parts []string
	for i := range changes {
		c := &changes[i]
		text := "delete " + strings.TrimSuffix(c.Name, ".") + " " + dns.Type(c.Type).String()
		if len(c.Data) > 0 {
			text = fmt.Sprintf("%s %s: %d record(s)", strings.TrimSuffix(c.Name, "."), dns.Type(c.Type), len(c.Data))
		}
		parts = append(parts, text)
		if len(parts) == maxWords && len(changes) > maxWords {
			parts = append(parts, fmt.Sprintf("%d more", len(changes)-maxWords))
			break
		}
	}
	return strings.Join(parts, "; ")
}

// maxWords is how many record sets Words names.
const maxWords = 5

package spec

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/internal/rrdata"
	"steerpoint/spec/internal/names"
)

// UpdateGrant lets the holder of a TSIG key change records of a zone by DNS UPDATE (RFC 2136).
type UpdateGrant struct {
	TSIGKey HostName      `json:"tsigKey" required:"true" doc:"name of the TSIG key that updates must be signed by"`
	Prefix  Prefix        `json:"prefix" doc:"addresses they may come from; left out: any"`
	Names   []NamePattern `json:"names" default:"_acme-challenge.*" maxItems:"1000" doc:"names it may change, relative to the zone: www is one name, *.dev every name below dev, _acme-challenge.* that label alone and before every name, * every name below the zone, @ the zone itself"`
	Types   []RecordType  `json:"types" default:"TXT" maxItems:"64" doc:"types of records it may change; NS, DS, DNAME and ALIAS are not among those possible"`
}

// Key tells the grants of a zone apart.
func (g UpdateGrant) Key() string { return string(g.TSIGKey) }

// Covers reports whether a grant is about records of a type at a name, as the zone has it: relative, or @.
func (g *UpdateGrant) Covers(name string, t RecordType) bool {
	return slices.Contains(g.Types, t) && g.CoversName(name)
}

// CoversName reports whether a grant is about a name, relative to the zone or @.
func (g *UpdateGrant) CoversName(name string) bool {
	return slices.ContainsFunc(g.Names, func(p NamePattern) bool { return p.Covers(name) })
}

// NamePattern is a name relative to a zone, whose first or last label may be * for any labels, or * alone.
type NamePattern string

// MarshalText writes the pattern.
func (p NamePattern) MarshalText() ([]byte, error) { return []byte(p), nil }

// UnmarshalText reads a pattern in any case of letters.
func (p *NamePattern) UnmarshalText(text []byte) error {
	s := strings.ToLower(string(text))
	bare := strings.TrimPrefix(s, "*.")
	if bare == s {
		bare = strings.TrimSuffix(s, ".*")
	}
	if s != "@" && s != "*" {
		if _, err := ownerName(bare); err != nil || strings.Contains(bare, "*") {
			return &valueError{CodeBadName, "is no name or pattern", "a name relative to the zone; * may stand for the first or for the last labels, or alone; @ is the zone itself", ""}
		}
	}
	*p = NamePattern(s)
	return nil
}

// Covers reports whether a name relative to the zone, or @, fits the pattern.
func (p NamePattern) Covers(name string) bool {
	s := string(p)
	switch {
	case s == "*":
		return name != "@"
	case strings.HasPrefix(s, "*."):
		return strings.HasSuffix(name, s[1:])
	case strings.HasSuffix(s, ".*"):
		return name == s[:len(s)-2] || strings.HasPrefix(name, s[:len(s)-1])
	}
	return name == s
}

// DynamicRecords are the record sets of a zone that DNS UPDATE wrote. They stand beside those of the Zone that has the same
// name, so that to apply that one neither loses nor keeps them. Where both have something at a name that cannot stand
// together, the Zone's is served.
type DynamicRecords struct {
	Name string `json:"-"` // the resource's name, which is that of the Zone

	Records []Record `json:"records" required:"true" item:"record" maxItems:"10000" doc:"record sets that updates wrote"`
}

// fixedTypes are not changed by updates: they say who answers for other names.
func fixedType(t RecordType) bool { return t == "NS" || t == "DS" || t == "DNAME" || t == Alias }

// updates checks who may change records of a zone.
func (c *checker) updates(z *Zone, keys []string, used map[string]bool) {
	first := map[HostName]int{}
	for i := range z.Update {
		g := &z.Update[i]
		path := at("update[%d]", i)
		if j, twice := first[g.TSIGKey]; twice && g.TSIGKey != "" {
			c.fail(path+".tsigKey", string(g.TSIGKey), valueError{CodeRepeated, fmt.Sprintf("stands in update[%d] too", j), "one entry for a key", ""})
			continue
		}
		first[g.TSIGKey] = i
		c.keyNamed(path+".tsigKey", g.TSIGKey, keys, used)
		for j, t := range g.Types {
			if fixedType(t) {
				c.fail(at("%s.types[%d]", path, j), string(t), valueError{CodeBadValue, "cannot be changed by updates: it says who answers for names", "types of records that answer at their own name", ""})
			}
		}
	}
}

// Unserved is a dynamic record set that is not served, and why.
type Unserved struct {
	Record int // index in DynamicRecords.Records
	Why    string
}

// Dynamic are the dynamic records of a zone; nil: it has none.
func (s *Set) Dynamic(z *Zone) *DynamicRecords {
	doc, ok := s.Get(KindDynamicRecords, z.Name)
	if !ok {
		return nil
	}
	return doc.DynamicRecords
}

// Served is a zone as it is served: with its dynamic records, less those that cannot stand beside what the Zone, its services
// and other zones have. Without dynamic records it is the zone itself.
func (s *Set) Served(z *Zone) (*Zone, []Unserved) {
	d := s.Dynamic(z)
	if d == nil || len(d.Records) == 0 {
		return z, nil
	}
	m := newDynamicMerge(s, z, d)
	out := *z
	out.Records = slices.Clone(z.Records)
	var left []Unserved
	for i := range d.Records {
		if why := m.clash(&d.Records[i]); why != "" {
			left = append(left, Unserved{i, why})
			continue
		}
		out.Records = append(out.Records, d.Records[i])
	}
	return &out, left
}

// dynamicMerge judges dynamic records one after another.
type dynamicMerge struct {
	zone    *Zone
	static  map[string][]RecordType // by owner, what the Zone has at names of dynamic records
	taken   map[string][]RecordType // by owner, dynamic ones taken
	steered map[string]*Service     // by owner, services that have the name
	servers map[string]bool
}

func newDynamicMerge(s *Set, z *Zone, d *DynamicRecords) *dynamicMerge {
	m := &dynamicMerge{zone: z, static: map[string][]RecordType{}, taken: map[string][]RecordType{}, steered: map[string]*Service{}, servers: map[string]bool{}}
	for i := range d.Records {
		if owner, err := z.owner(d.Records[i].Name); err == nil {
			m.static[owner] = nil
		}
	}
	for i := range z.Records {
		owner, err := z.owner(z.Records[i].Name)
		if _, wanted := m.static[owner]; err == nil && wanted {
			m.static[owner] = append(m.static[owner], z.Records[i].Type)
		}
	}
	for _, v := range s.services {
		m.claim(s.CNAME(v), v)
		for _, name := range v.Domains {
			m.claim(string(name), v)
		}
	}
	for _, other := range s.zones {
		for _, ns := range other.NS {
			m.servers[string(ns.Name)] = true
		}
	}
	return m
}

func (m *dynamicMerge) claim(name string, v *Service) {
	if _, wanted := m.static[name]; wanted {
		m.steered[name] = v
	}
}

// clash says why a record set is not served; "": it is.
func (m *dynamicMerge) clash(r *Record) string {
	owner, err := m.zone.owner(r.Name)
	if err != nil {
		return "the name " + err.Error()
	}
	apex := owner == string(m.zone.Zone)
	static, taken := m.static[owner], m.taken[owner]
	alone := func(list []RecordType) bool {
		return slices.ContainsFunc(list, func(t RecordType) bool { return (t == "CNAME") != (r.Type == "CNAME") })
	}
	service := m.steered[owner]
	switch {
	case fixedType(r.Type) || len(r.Values) == 0 || r.Hints:
		return "such records cannot be dynamic"
	case slices.Contains(static, r.Type):
		return "the Zone has " + string(r.Type) + " records there"
	case slices.Contains(taken, r.Type):
		return "they stand there twice"
	case r.Type == "CNAME" && (apex || len(r.Values) > 1):
		return "a CNAME stands alone, and not at the zone itself"
	case alone(static) || alone(taken):
		return "nothing can stand beside a CNAME"
	case slices.Contains(static, Alias) && (r.Type == "A" || r.Type == "AAAA"):
		return "the Zone has an ALIAS there"
	case m.servers[owner] && r.Type.addresses():
		return "it is a name server, whose addresses stand under ns"
	case service != nil && r.Type.addresses():
		return "Service " + service.Name + " answers there"
	case service != nil && couldName(service) != "" && !apex:
		return "Service " + service.Name + " answers there, and " + couldName(service)
	case service != nil && r.hints():
		return "Service " + service.Name + " steers there, and hints would not follow it"
	}
	m.taken[owner] = append(taken, r.Type)
	return ""
}

// hints reports whether a value holds addresses beside its target.
func (r *Record) hints() bool {
	return slices.ContainsFunc(r.Values, func(v string) bool {
		data, err := r.Type.Parse(v)
		return err == nil && data.Hints()
	})
}

// dynamic checks the records that updates wrote. What the Zone has meanwhile makes no error of them: they are not served, and
// people are told.
func (k *setChecker) dynamic() {
	k.each(func(r *Resource) {
		d := r.DynamicRecords
		if d == nil {
			return
		}
		doc, ok := k.set.Get(KindZone, r.Name)
		if !ok {
			if k.whole {
				k.warn(r, "name", r.Name, valueError{CodeDynamicUnserved, "is the name of no Zone, so its records are not served", "", ""})
			}
			return
		}
		c := &checker{r: r, src: r.src}
		c.records(&Zone{Zone: doc.Zone.Zone, Records: d.Records})
		for i := range d.Records {
			if t := d.Records[i].Type; fixedType(t) {
				c.fail(at("records[%d].type", i), string(t), valueError{CodeBadValue, "cannot be dynamic: it says who answers for names", "types of records that answer at their own name", ""})
			}
		}
		k.errs = append(k.errs, c.errs...)
		if len(c.errs) > 0 {
			return
		}
		_, left := k.set.Served(doc.Zone)
		for _, u := range left {
			k.warn(r, at("records[%d]", u.Record), d.Records[u.Record].Name, valueError{CodeDynamicUnserved, "has " + string(d.Records[u.Record].Type) + " records that are not served: " + u.Why, "", ""})
		}
	})
}

// RelativeName is a name as records of the zone write it: relative, or @. ok is false for one outside the zone, or one that
// no record can have.
func (z *Zone) RelativeName(full string) (name string, ok bool) {
	full = strings.ToLower(strings.TrimSuffix(full, "."))
	if full == string(z.Zone) {
		return "@", true
	}
	name, ok = strings.CutSuffix(full, "."+string(z.Zone))
	if _, err := z.owner(name); err != nil || !ok || !names.Under(strings.TrimPrefix(full, "*."), string(z.Zone)) {
		return "", false
	}
	return name, true
}

// TypeName is a record type by number as resources write it; false: zones here do not hold it, or updates do not change it.
func TypeName(number uint16) (RecordType, bool) {
	_, name, err := rrdata.Type(fmt.Sprintf("TYPE%d", number))
	return RecordType(name), err == nil && !fixedType(RecordType(name))
}

// Answers says who answers at a name beside the records of its zone: a service, whose answer may be a CNAME. nil: none does.
func (s *Set) Answers(name string) (v *Service, named bool) {
	for _, v := range s.services {
		if s.CNAME(v) == name || slices.Contains(v.Domains, Domain(name)) {
			return v, couldName(v) != ""
		}
	}
	return nil, false
}

package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// maxChain is how many CNAMEs of our zones are followed in one answer.
const maxChain = 8

// recordClaims takes the names whose addresses are records, and those that are delegated: nothing else may answer for them.
func (k *setChecker) recordClaims(r *Resource, take func(string, claim), seen map[string]bool) {
	for i := range r.Zone.Records {
		rec := &r.Zone.Records[i]
		owner, err := r.Zone.owner(rec.Name)
		if err != nil || !rec.Type.addresses() || seen["record "+owner] || k.glue(r.Zone, owner) {
			continue
		}
		seen["record "+owner] = true // of two families once
		take(owner, claim{r, at("records[%d].name", i), "a record"})
	}
}

// glue reports whether a name of a zone lies at or below a delegation, so that an address there is no claim to it.
func (k *setChecker) glue(z *Zone, owner string) bool {
	if k.cuts == nil {
		k.findCuts()
	}
	cut, ok := k.cutOf(owner)
	return ok && cut.r.Zone == z
}

// recordAt is a record set and where it stands.
type recordAt struct {
	r     *Resource
	i     int
	owner string
}

func (a recordAt) set() *Record { return &a.r.Zone.Records[a.i] }

// findCuts finds the delegations: NS records below the zone's own name. A DNAME record is as good as one for what lies below its
// name, and for that only.
func (k *setChecker) findCuts() {
	k.cuts = map[string]recordAt{}
	k.each(func(r *Resource) {
		if r.Zone == nil || k.set.zoneByName[r.Zone.Zone] != r.Zone {
			return
		}
		for i := range r.Zone.Records {
			if t := r.Zone.Records[i].Type; t != "NS" && t != "DNAME" {
				continue
			}
			if owner, err := r.Zone.owner(r.Zone.Records[i].Name); err == nil && (owner != string(r.Zone.Zone) || r.Zone.Records[i].Type == "DNAME") {
				if old, twice := k.cuts[owner]; twice && old.set().Type == "NS" {
					continue
				}
				k.cuts[owner] = recordAt{r, i, owner}
			}
		}
	})
}

// cutOf is the highest delegation at or above a name, inside the zone of ours that the name lies in.
func (k *setChecker) cutOf(name string) (cut recordAt, ok bool) {
	if len(k.cuts) == 0 {
		return cut, false
	}
	for parent := range names.Parents(strings.TrimPrefix(name, "*.")) {
		apex := k.set.zoneByName[HostName(parent)] != nil
		if c, is := k.cuts[parent]; is && (c.set().Type == "NS" || parent != name) {
			cut, ok = c, true
		}
		if apex {
			break // what is above answers for nothing in here
		}
	}
	return cut, ok
}

// records checks what records have to do with one another, and with names of services.
func (k *setChecker) records() {
	if k.cuts == nil {
		k.findCuts()
	}
	all := map[string][]recordAt{}
	k.each(func(r *Resource) {
		if r.Zone == nil || k.set.zoneByName[r.Zone.Zone] != r.Zone {
			return
		}
		for i := range r.Zone.Records {
			if owner, err := r.Zone.owner(r.Zone.Records[i].Name); err == nil {
				all[owner] = append(all[owner], recordAt{r, i, owner})
			}
		}
	})
	k.each(func(r *Resource) {
		switch {
		case r.Zone != nil && k.set.zoneByName[r.Zone.Zone] == r.Zone:
			for i := range r.Zone.Records {
				if owner, err := r.Zone.owner(r.Zone.Records[i].Name); err == nil {
					k.record(recordAt{r, i, owner}, all)
				}
			}
		case r.Service != nil:
			k.delegated(r)
		}
	})
}

// delegated refuses names of services that others answer for.
func (k *setChecker) delegated(r *Resource) {
	check := func(name, path string) {
		if cut, ok := k.cutOf(name); ok && name != "" && k.set.HostingZone(name) != nil {
			k.fail(r, path, name, valueError{
				CodeDelegated, "lies at or below the " + cut.word() + " of " + cut.owner + " (Zone " + cut.r.Name + " " + cut.r.where() + ")", "a name that is not delegated", "",
			})
		}
	}
	check(k.set.CNAME(r.Service), "name")
	for i, d := range r.Service.Domains {
		check(string(d), at("domains[%d]", i))
	}
}

func (k *setChecker) record(a recordAt, all map[string][]recordAt) {
	rec, apex := a.set(), a.owner == string(a.r.Zone.Zone)
	path := at("records[%d]", a.i)
	bad := func(problem, allowed string) {
		k.fail(a.r, path, a.owner, valueError{CodeBadRecord, problem, allowed, ""})
	}
	switch {
	case k.occluded(a, path):
		return
	case rec.Type == "NS" && apex:
		bad("has NS records of the zone itself", "the zone's name servers under ns")
	case rec.Type == "NS" && strings.HasPrefix(a.owner, "*."):
		bad("delegates a wildcard, for which nothing is defined (RFC 4592 section 4.2)", "NS records for each name")
	case rec.Type == "DS" && apex:
		bad("has DS records of the zone itself", "them in the zone above this one, whose records they are")
	case rec.Type == "DS" && !has(all[a.owner], "NS"):
		bad("has DS records and is not delegated", "NS records at the same name")
	case rec.Type == "DNAME":
		k.dname(a, all, bad)
	case rec.Type == Alias:
		k.alias(a, all, bad)
	case rec.Type == "HTTPS" || rec.Type == "SVCB":
		k.svcb(a, bad)
	case rec.Type == "CNAME":
		k.chain(a, all)
	}
	k.targets(a, all)
}

func has(sets []recordAt, types ...RecordType) bool {
	return slices.ContainsFunc(sets, func(o recordAt) bool { return slices.Contains(types, o.set().Type) })
}

// occluded warns of a record that another zone answers for. Addresses may be glue.
func (k *setChecker) occluded(a recordAt, path string) bool {
	rec := a.set()
	where := ""
	if inner := k.set.HostingZone(a.owner); inner != nil && inner != a.r.Zone {
		if rec.Type == "A" || rec.Type == "AAAA" || string(inner.Zone) == a.owner && (rec.Type == "NS" || rec.Type == "DS") {
			return false
		}
		where = "the zone " + string(inner.Zone) + " of ours"
	} else if cut, ok := k.cutOf(a.owner); ok {
		if cut.set().Type == "NS" && (rec.Type == "A" || rec.Type == "AAAA") || cut.owner == a.owner && (rec.Type == "NS" || rec.Type == "DS" || rec.Type == "DNAME") {
			return false
		}
		where = "the " + cut.word() + " of " + cut.owner
	}
	if where == "" {
		return false
	}
	k.warn(a.r, path, a.owner, valueError{CodeOccluded, "has " + string(rec.Type) + " records, and lies in " + where + ", which answers for it: they are not served", "", ""})
	return true
}

func (k *setChecker) alias(a recordAt, all map[string][]recordAt, bad func(problem, allowed string)) {
	rec := a.set()
	if len(rec.Values) > 1 {
		bad("has an ALIAS of several names", "one name")
		return
	}
	if has(all[a.owner], "A", "AAAA", "NS") {
		bad("has an ALIAS and addresses or a delegation beside it", "an ALIAS alone, or addresses")
	}
	target := aliasTarget(rec)
	if target == a.owner {
		bad("is an ALIAS of itself", "another name")
		return
	}
	if k.set.HostingZone(target) == nil {
		return
	}
	if sets, _ := covering(all, target); has(sets, Alias) {
		bad("is an ALIAS of "+target+", which is an ALIAS itself", "the name that one points at")
	}
}

// aliasTarget is the name an ALIAS points at, without the last dot.
func aliasTarget(rec *Record) string {
	if len(rec.Values) == 0 {
		return ""
	}
	name, err := names.Host(strings.TrimSuffix(rec.Values[0], "."))
	if err != nil {
		return ""
	}
	return name
}

func (k *setChecker) svcb(a recordAt, bad func(problem, allowed string)) {
	aliases, rec := 0, a.set()
	for _, v := range rec.Values {
		if data, err := rec.Type.Parse(v); err == nil && data.AliasMode() {
			aliases++
		}
	}
	if aliases > 0 && aliases < len(rec.Values) {
		bad("has "+string(rec.Type)+" records of priority 0, which make it an alias, and others", "one kind of the two (RFC 9460 section 2.4.1)")
	}
}

// covering are the record sets at a name, or else those of the wildcard that answers for it.
func covering(all map[string][]recordAt, name string) (sets []recordAt, owner string) {
	if sets = all[name]; sets != nil {
		return sets, name
	}
	for parent := range names.Parents(name) {
		if parent == name {
			continue
		}
		if sets := all["*."+parent]; sets != nil {
			return sets, "*." + parent
		}
		if all[parent] != nil {
			break
		}
	}
	return nil, ""
}

// chain follows a CNAME through our zones: it must not come back, and should not be long.
func (k *setChecker) chain(a recordAt, all map[string][]recordAt) {
	way := []string{a.owner}
	for at := a; ; {
		data, err := at.set().Type.Parse(at.set().Values[0])
		if err != nil {
			return
		}
		next := strings.TrimSuffix(data.Target(), ".")
		sets, owner := covering(all, next)
		i := slices.IndexFunc(sets, func(o recordAt) bool { return o.set().Type == "CNAME" && len(o.set().Values) == 1 })
		if i < 0 {
			break
		}
		if owner == a.owner {
			k.fail(a.r, atValue(a), next, valueError{CodeLoop, "leads back to this name: " + strings.Join(append(way, owner), " -> "), "a name that leads to addresses", ""})
			return
		}
		if slices.Contains(way, owner) {
			return // told where the circle is
		}
		way, at = append(way, owner), sets[i]
	}
	if len(way) > maxChain {
		k.warn(a.r, atValue(a), a.owner, valueError{CodeLongChain, fmt.Sprintf("leads over %d CNAMEs of our zones; at most %d are answered at once", len(way), maxChain), "", ""})
	}
}

func atValue(a recordAt) string { return at("records[%d].values[0]", a.i) }

// targets warns of records whose target is a CNAME here, and refuses delegations whose glue is missing.
func (k *setChecker) targets(a recordAt, all map[string][]recordAt) {
	rec := a.set()
	switch rec.Type {
	case "NS", "MX", "SRV":
	default:
		return
	}
	for j, v := range rec.Values {
		data, err := rec.Type.Parse(v)
		if err != nil {
			return
		}
		target := strings.TrimSuffix(data.Target(), ".")
		if target == "" {
			continue
		}
		sets, _ := covering(all, target)
		path := at("records[%d].values[%d]", a.i, j)
		if has(sets, "CNAME") {
			k.warn(a.r, path, target, valueError{CodeTargetCNAME, "is a CNAME; many programs do not follow one here", "", ""})
		}
		if rec.Type == "NS" && names.Under(target, a.owner) && !has(all[target], "A", "AAAA") && a.owner != string(a.r.Zone.Zone) && !k.serves(target) {
			k.fail(a.r, path, target, valueError{CodeNeedsGlue, "lies inside what it is to serve and has no addresses here, so nobody could find it", "A or AAAA records of it in this zone", ""})
		}
	}
}

// serves reports whether a name is a name server of a zone of ours, whose addresses stand there.
func (k *setChecker) serves(name string) bool {
	z := k.set.HostingZone(name)
	return z != nil && slices.ContainsFunc(z.NS, func(n NameServer) bool { return string(n.Name) == name })
}

// beside checks records of other types at names of services: they stand there as long as the service answers with
// addresses, and hints in them would not follow the decision.
func (k *setChecker) beside(taken map[string]claim) {
	k.each(func(r *Resource) {
		if r.Zone == nil || k.set.zoneByName[r.Zone.Zone] != r.Zone {
			return
		}
		for i := range r.Zone.Records {
			rec := &r.Zone.Records[i]
			owner, err := r.Zone.owner(rec.Name)
			c, is := taken[owner]
			if err != nil || !is || c.r.Service == nil || rec.Type.addresses() || rec.Type == "NS" || rec.Type == "DS" {
				continue
			}
			path := at("records[%d]", i)
			if what := couldName(c.r.Service); what != "" && owner != string(r.Zone.Zone) {
				k.fail(r, path, owner, valueError{
					CodeDomainTaken, "is " + c.what + " of Service " + c.r.Name + " (" + c.r.where() + "), and " + what + ": nothing can stand beside a CNAME",
					"a service with addresses only, or the record at another name", "",
				})
				continue
			}
			if rec.Hints {
				k.steeredHints[rec] = true
			}
			for j, v := range rec.Values {
				if data, err := rec.Type.Parse(v); err == nil && data.Hints() {
					k.fail(r, at("%s.values[%d]", path, j), owner, valueError{
						CodeBadRecord, "is steered by Service " + c.r.Name + ", and hints would not follow its decisions", "hints: true in the place of ipv4hint and ipv6hint", "",
					})
				}
			}
		}
	})
}

// couldName says what of a service can answer with a name; "" if nothing can.
func couldName(s *Service) string {
	for i := range s.Edges {
		if e := &s.Edges[i]; e.Enabled && e.Target != "" {
			return "its edge " + e.Name + " is a name"
		}
	}
	for i := range s.Rules {
		w := s.Rules[i].WhenAllDown
		if _, err := netip.ParseAddr(w.Target); w.Policy == "fallback" && err != nil {
			return "its rule " + s.Rules[i].Name + " falls back to a name"
		}
	}
	return ""
}

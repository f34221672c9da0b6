package spec

import (
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// word is what a cut is called.
func (a recordAt) word() string {
	if a.set().Type == "DNAME" {
		return "DNAME"
	}
	return "delegation"
}

// dname checks a DNAME record (RFC 6672): it stands for all names below its own, which nothing else may be at.
func (k *setChecker) dname(a recordAt, all map[string][]recordAt, bad func(problem, allowed string)) {
	rec, apex := a.set(), a.owner == string(a.r.Zone.Zone)
	below := func(name string) bool { return name != a.owner && names.Under(name, a.owner) }
	switch {
	case strings.HasPrefix(a.owner, "*."):
		bad("is a wildcard with a DNAME, for which nothing is defined (RFC 6672 section 3.3)", "a DNAME at a name of its own")
		return
	case len(rec.Values) > 1:
		bad("has several DNAME records", "one (RFC 6672 section 2.4)")
		return
	case !apex && has(all[a.owner], "NS"):
		bad("has a DNAME and is delegated", "one of the two (RFC 6672 section 2.4)")
		return
	}
	for _, z := range k.set.zones {
		if below(string(z.Zone)) {
			bad("has a DNAME, and the zone "+string(z.Zone)+" of ours lies below it", "no zone below a DNAME")
			return
		}
		for _, ns := range z.NS {
			if below(string(ns.Name)) {
				bad("has a DNAME, and the name server "+string(ns.Name)+" lies below it, so nobody could find it", "a name server elsewhere")
				return
			}
		}
	}
	k.dnameChain(a)
}

// dnameChain follows a DNAME over others of ours: it must not come back.
func (k *setChecker) dnameChain(a recordAt) {
	way := []string{a.owner}
	for at := a; ; {
		data, err := at.set().Type.Parse(at.set().Values[0])
		if err != nil {
			return
		}
		target := strings.TrimSuffix(data.Target(), ".")
		if names.Under(target, a.owner) {
			problem := "leads below itself"
			if len(way) > 1 {
				problem = "leads back to this name: " + strings.Join(append(way, target), " -> ")
			}
			k.fail(a.r, atValue(a), target, valueError{CodeLoop, problem, "a name outside of it", ""})
			return
		}
		// What is below the target may be below another DNAME: that of the target itself, or of a name above it.
		next, ok := k.cutOf("x." + target)
		if !ok || next.set().Type != "DNAME" || slices.Contains(way, next.owner) || k.set.HostingZone(target) == nil {
			return
		}
		way, at = append(way, next.owner), next
	}
}

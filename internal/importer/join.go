package importer

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/spec"
)

// join settles what only the whole says: zones of services, names of resources, records beside steered names.
func (b *Builder) join() {
	steered := map[string]bool{}
	for _, z := range b.zones {
		if s := b.Find(z.Name()); s != nil && !s.onlyAddresses(z.Name()) {
			b.Drop(s)
		}
	}
	for _, s := range b.services {
		s.join()
		for _, d := range s.spec.Domains {
			steered[string(d)] = true
		}
	}
	taken := map[string]bool{}
	for _, z := range b.zones {
		z.spec.Name = unique(Label(z.Name(), "zone"), func(n string) bool { return taken["zone/"+n] })
		taken["zone/"+z.spec.Name] = true
		z.finish(steered)
		for _, r := range z.spec.Records {
			if owner, err := z.spec.Owner(&r); err == nil && !steered[owner] {
				taken[owner] = true
			}
		}
		for _, n := range z.spec.NS {
			taken[string(n.Name)] = true
		}
	}
	for _, s := range b.services {
		b.name(s, taken, steered)
	}
}

// name gives a service its zone and its name. The service's CNAME is a name of the zone too: it must be free, or be the
// service's own.
func (b *Builder) name(s *Service, taken, steered map[string]bool) {
	first := string(s.spec.Domains[0])
	zone := ""
	for _, z := range b.zones {
		if z.holds(strings.TrimPrefix(first, "*.")) && len(z.Name()) > len(zone) {
			zone = z.Name()
		}
	}
	s.spec.DNS.Zone = spec.HostName(zone)
	rest := strings.TrimSuffix(strings.TrimSuffix(first, zone), ".")
	if first == zone {
		rest = "apex"
	}
	rest = strings.Replace(rest, "*", "any", 1)
	own := func(n string) bool { return n == first }
	s.spec.Name = unique(Label(rest, "service"), func(n string) bool {
		cname := n + "." + zone
		return taken["service/"+n] || taken[cname] || steered[cname] && !own(cname)
	})
	taken["service/"+s.spec.Name] = true
	taken[s.spec.Name+"."+zone] = true
}

// onlyAddresses takes away the edges that are names, because the service stands at a zone itself. It returns false where
// nothing is left for everybody.
func (s *Service) onlyAddresses(zone string) bool {
	if !s.HasTarget() {
		return true
	}
	const why = "left out: %s is a zone itself, where no CNAME can stand (RFC 1034 section 3.6.2)"
	for _, e := range s.spec.Edges {
		if e.Target != "" {
			s.b.Lost(s.edgeAt[e.Name], "edge "+e.Name+" to "+string(e.Target), fmt.Sprintf(why, zone), "use the addresses behind the name, or steer a name below the zone")
		}
	}
	var left []rule
	everybody := false
	for _, r := range s.rules {
		r.Edges = slices.DeleteFunc(r.Edges, func(name string) bool { return s.spec.Edge(name).Target != "" })
		if len(r.Edges) == 0 {
			s.b.Lost(r.at, "rule for "+r.Scope.String()+" of "+zone, "left out: none of its edges is left", "")
			continue
		}
		everybody = everybody || r.Scope.Any
		left = append(left, r)
	}
	if s.rules = left; !everybody {
		s.b.Lost(s.at, "the steered name "+zone, "left out: no edge is left for everybody", "write the Service by hand, with addresses")
	}
	return everybody
}

package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"steerpoint/spec"
)

// zoneSet is the zones of a configuration and what services need to know of them.
type zoneSet struct {
	given    []*spec.Zone
	zones    []DNSZone // by name
	sum      sum       // of zones; zero: not taken yet
	names    map[string]bool
	steering []string        // FQDNs of the steering zones, by name
	servers  map[string]bool // names of name servers that lie in given zones
	problems []Problem

	static   map[*spec.Zone]*staticZone // the records of each zone in zones, kept from one set to the next
	order    []*staticZone              // of zones, in their order
	resolved *Resolved                  // where the addresses of names elsewhere are found
	taken    map[string]string          // who answers at a name by records: "a record of zone main"
	beside   map[string]bool            // names that have records a CNAME cannot stand beside
	cuts     map[string]bool            // names that are delegated
	renames  map[string]bool            // names with a DNAME: what is below them is elsewhere
}

// newZoneSet compiles zones. One that cannot be served is a problem and left out. Records of zones that old has are taken over.
func newZoneSet(given []*spec.Zone, old *zoneSet) zoneSet {
	z := zoneSet{
		given: slices.Clone(given), names: map[string]bool{}, servers: map[string]bool{}, static: map[*spec.Zone]*staticZone{},
		taken: map[string]string{}, beside: map[string]bool{}, cuts: map[string]bool{}, renames: map[string]bool{},
	}
	sorted := slices.Clone(given)
	slices.SortFunc(sorted, func(a, b *spec.Zone) int {
		return cmp.Or(cmp.Compare(fqdn(a.Zone), fqdn(b.Zone)), cmp.Compare(a.Name, b.Name))
	})
	configured := make(map[string]bool, len(sorted))
	hosts := map[string][]spec.Address{} // of name servers, what all zones say together
	for _, s := range sorted {
		configured[fqdn(s.Zone)] = true
		for _, ns := range s.NS {
			name := fqdn(ns.Name)
			for _, a := range ns.Addresses {
				if !slices.Contains(hosts[name], a) {
					hosts[name] = append(hosts[name], a)
				}
			}
		}
	}
	for _, s := range sorted {
		made, err := compileZone(s, configured, hosts)
		if err == nil && z.names[made.Name] {
			err = fmt.Errorf("another Zone has the zone %s already: delete one of them", s.Zone)
		}
		if err != nil {
			z.problems = append(z.problems, Problem{Code: ProblemZone, Zone: s.Name, Message: err.Error(), Lost: true})
			continue
		}
		z.add(s, made, configured)
	}
	z.addRecords(configured, old)
	return z
}

func (z *zoneSet) add(s *spec.Zone, made DNSZone, configured map[string]bool) {
	z.zones, z.names[made.Name] = append(z.zones, made), true
	z.order = append(z.order, &staticZone{spec: s})
	if s.Steering {
		z.steering = append(z.steering, made.Name)
	}
	for _, ns := range made.NS {
		if closest(ns.Name, configured) != "" {
			z.servers[ns.Name] = true
		}
	}
}

// sameNames reports whether two sets make no difference to services.
func (z *zoneSet) sameNames(o *zoneSet) bool {
	return maps.Equal(z.names, o.names) && slices.Equal(z.steering, o.steering) && maps.Equal(z.servers, o.servers) &&
		maps.Equal(z.taken, o.taken) && maps.Equal(z.beside, o.beside) && maps.Equal(z.cuts, o.cuts) && maps.Equal(z.renames, o.renames) && slices.Equal(z.aliases(), o.aliases())
}

// of is the steering zone that holds a service's CNAME.
func (z *zoneSet) of(s *spec.Service) (string, error) {
	if s.DNS.Zone == "" {
		if len(z.steering) == 1 {
			return z.steering[0], nil
		}
		return "", refuse(ProblemNoZone, "", "it names no dns.zone and there are %d steering zones: name one", len(z.steering))
	}
	zone := fqdn(s.DNS.Zone)
	if !slices.Contains(z.steering, zone) {
		return "", refuse(ProblemNoZone, "", "its zone %s is not a steering zone of ours: apply a Zone with steering: true for it", s.DNS.Zone)
	}
	return zone, nil
}

// around is the closest of our zones at or above a name, "" if none.
func (z *zoneSet) around(name string) string { return closest(name, z.names) }

func (z *zoneSet) isApex(name string) bool { return z.names[name] }

// closest is the longest of some zones that a name is in; all are FQDNs.
func closest(name string, zones map[string]bool) string {
	for at := name; at != ""; {
		if zones[at] {
			return at
		}
		_, at, _ = strings.Cut(at, ".")
	}
	if zones["."] {
		return "."
	}
	return ""
}

// fqdn is the form of names in snapshots.
func fqdn[T ~string](name T) string {
	return strings.ToLower(strings.TrimSuffix(string(name), ".")) + "."
}

func serviceCNAME(s *spec.Service, zone string) string { return fqdn(s.Name + "." + zone) }

// compileZone makes a zone as name servers get it. A name server that lies in another zone of ours needs its addresses in one
// Zone only.
func compileZone(z *spec.Zone, configured map[string]bool, hosts map[string][]spec.Address) (DNSZone, error) {
	made := DNSZone{
		Name: fqdn(z.Zone), NSTTL: time.Duration(z.NSTTL), Transfer: compileTransfer(z.Transfer),
		SOA: SOA{
			MName: fqdn(z.SOA.MName), RName: fqdn(z.SOA.RName),
			Refresh: time.Duration(z.SOA.Refresh), Retry: time.Duration(z.SOA.Retry),
			Expire: time.Duration(z.SOA.Expire), Minimum: time.Duration(z.SOA.Minimum),
		},
	}
	for _, ns := range z.NS {
		server := NameServer{Name: fqdn(ns.Name)}
		ours := closest(server.Name, configured) != ""
		addresses := ns.Addresses
		if len(addresses) == 0 && ours {
			addresses = hosts[server.Name]
		}
		for _, a := range addresses {
			server.Addresses = append(server.Addresses, a.Addr)
		}
		if len(server.Addresses) == 0 && ours {
			return made, fmt.Errorf("name server %s lies in our own zones and has no address: write its addresses under ns, here or in the Zone it lies in", ns.Name)
		}
		made.NS = append(made.NS, server)
	}
	if len(made.NS) == 0 {
		return made, fmt.Errorf("it has no name servers: write at least one under ns")
	}
	if z.SOA.MName == "" {
		made.SOA.MName = made.NS[0].Name
	}
	if z.SOA.RName == "" {
		made.SOA.RName = "hostmaster." + made.Name
	}
	return made, nil
}

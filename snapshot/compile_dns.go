package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"steerpoint/geo"
	"steerpoint/spec"
	"steerpoint/steering"
)

// DNSInput is everything a DNS snapshot is compiled from.
type DNSInput struct {
	Version uint64
	Created time.Time
	// Now is the instant the decisions are of, on the core's clock.
	Now      steering.Instant
	Zones    []*spec.Zone
	Services []*spec.Service
	// Rules is what the core says of each rule, by "service/rule". A rule that is missing answers with its first
	// enabled edge: priority order until something is known.
	Rules map[string]DNSRuleInput
	Geo   *geo.DB
	// Previous is the snapshot before; nil at the start. A service that cannot be compiled keeps its answers of then.
	Previous *DNS
}

// DNSRuleInput is the core's view of one rule.
type DNSRuleInput struct {
	Decision steering.Decision
	// Edges tells which addresses are down.
	Edges []steering.EdgeStatus
}

// Codes of problems.
const (
	ProblemZone      = "DNS_ZONE_REFUSED"        // the zone cannot be served
	ProblemNoZone    = "DNS_NO_ZONE"             // the service's zone does not exist
	ProblemNameTaken = "DNS_NAME_TAKEN"          // two owners for one name
	ProblemApexName  = "DNS_APEX_NAME"           // a name as answer at a zone's apex
	ProblemLoop      = "DNS_TARGET_LOOP"         // an edge's target is a name of the service itself
	ProblemNoAnswer  = "DNS_NO_ANSWER"           // the edge to answer with has neither target nor addresses yet
	ProblemScopes    = "DNS_SCOPES_REFUSED"      // the rules' scopes do not make a table
	ProblemAllNames  = "DNS_ALL_NEEDS_ADDRESSES" // whenAllDown: all with an edge that is a name
	ProblemTooMany   = "DNS_TOO_MANY_ADDRESSES"  // more addresses of one family than an answer carries
)

// Problem is something that could not be compiled as written. What is not named in problems is in the snapshot.
type Problem struct {
	Code    string
	Zone    string // name of the Zone resource, or ""
	Service string
	Rule    string // "" unless it is about one rule
	Message string // for people: what, why, what to do
	// Kept: the service goes on with its answers of the previous snapshot. Lost: it is not answered at all.
	Kept, Lost bool
}

func (p Problem) String() string {
	who := ""
	switch {
	case p.Rule != "":
		who = " rule " + p.Service + "/" + p.Rule + ":"
	case p.Service != "":
		who = " service " + p.Service + ":"
	case p.Zone != "":
		who = " zone " + p.Zone + ":"
	}
	return p.Code + ":" + who + " " + p.Message
}

// MaxAnswerAddresses is how many addresses of one family an answer carries at most.
const MaxAnswerAddresses = 10

// CompileDNS makes the snapshot for name servers. It is pure but for the cache, which keeps tables from one call to the
// next; calls that share a cache must not overlap. Problems are values: one bad service or zone never keeps the others
// from being published. The result shares nothing with the input that the caller may change, except Previous' parts.
func CompileDNS(in DNSInput, cache *TableCache) (*DNS, []Problem) {
	c := &dnsCompiler{
		in: in, cache: cache, owners: map[string]string{}, cnames: map[string]string{},
		out: &DNS{Version: in.Version, Created: in.Created},
	}
	cache.begin(in.Geo)
	c.zones()
	services := slices.Clone(in.Services)
	slices.SortFunc(services, func(a, b *spec.Service) int { return cmp.Compare(a.Name, b.Name) })
	services = slices.DeleteFunc(services, func(s *spec.Service) bool {
		return s.DNS.Provider != "" && s.DNS.Provider != "builtin"
	})
	for _, s := range services {
		if zone, err := c.serviceZone(s); err == nil {
			c.cnames[serviceCNAME(s, zone)] = s.Name
		}
	}
	for _, s := range services {
		c.service(s)
	}
	cache.end()
	return c.out, c.problems
}

// dnsCompiler is one run of CompileDNS.
type dnsCompiler struct {
	in       DNSInput
	cache    *TableCache
	out      *DNS
	problems []Problem
	owners   map[string]string // who answers at a name: "name server" or "service shop"
	cnames   map[string]string // service CNAMEs, taken or not yet, and their services
	steering []string          // FQDNs of the steering zones
	tables   map[*geo.Table]int
}

// fqdn is the form of names in snapshots.
func fqdn[T ~string](name T) string {
	return strings.ToLower(strings.TrimSuffix(string(name), ".")) + "."
}

func serviceCNAME(s *spec.Service, zone string) string { return fqdn(s.Name + "." + zone) }

// zones compiles the zones, sorted by name.
func (c *dnsCompiler) zones() {
	zones := slices.Clone(c.in.Zones)
	slices.SortFunc(zones, func(a, b *spec.Zone) int { return cmp.Compare(a.Zone, b.Zone) })
	for _, z := range zones {
		made, err := compileZone(z, zones)
		if err == nil && slices.ContainsFunc(c.out.Zones, func(o DNSZone) bool { return o.Name == made.Name }) {
			err = fmt.Errorf("another Zone has the zone %s already: delete one of them", z.Zone)
		}
		if err != nil {
			c.problems = append(c.problems, Problem{Code: ProblemZone, Zone: z.Name, Message: err.Error(), Lost: true})
			continue
		}
		c.out.Zones = append(c.out.Zones, made)
		if z.Steering {
			c.steering = append(c.steering, made.Name)
		}
		for _, ns := range made.NS {
			if inAny(ns.Name, zones) {
				c.owners[ns.Name] = "name server"
			}
		}
	}
}

func inAny(name string, zones []*spec.Zone) bool {
	return slices.ContainsFunc(zones, func(z *spec.Zone) bool { return under(name, fqdn(z.Zone)) })
}

// under reports whether a name is a zone's apex or below it; both are FQDNs.
func under(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone) || zone == "."
}

func compileZone(z *spec.Zone, all []*spec.Zone) (DNSZone, error) {
	made := DNSZone{
		Name: fqdn(z.Zone), NSTTL: time.Duration(z.NSTTL),
		SOA: SOA{
			MName: fqdn(z.SOA.MName), RName: fqdn(z.SOA.RName),
			Refresh: time.Duration(z.SOA.Refresh), Retry: time.Duration(z.SOA.Retry),
			Expire: time.Duration(z.SOA.Expire), Minimum: time.Duration(z.SOA.Minimum),
		},
	}
	for _, ns := range z.NS {
		server := NameServer{Name: fqdn(ns.Name)}
		for _, a := range ns.Addresses {
			server.Addresses = append(server.Addresses, a.Addr)
		}
		if len(server.Addresses) == 0 && inAny(server.Name, all) {
			return made, fmt.Errorf("name server %s lies in our own zones and has no address: write its addresses under ns", ns.Name)
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

// zoneOf is the closest of our zones around a name, "" if none.
func (c *dnsCompiler) zoneOf(name string) string {
	best := ""
	for i := range c.out.Zones {
		if z := c.out.Zones[i].Name; under(name, z) && len(z) > len(best) {
			best = z
		}
	}
	return best
}

func (c *dnsCompiler) isApex(name string) bool { return c.zoneOf(name) == name }

// addTable gives the index of a table in the snapshot.
func (c *dnsCompiler) addTable(t *geo.Table) int {
	if i, ok := c.tables[t]; ok {
		return i
	}
	if c.tables == nil {
		c.tables = map[*geo.Table]int{}
	}
	c.out.Tables = append(c.out.Tables, t)
	c.tables[t] = len(c.out.Tables) - 1
	return c.tables[t]
}

func split(addrs []netip.Addr) (a, aaaa []netip.Addr) {
	for _, x := range addrs {
		if x.Is4() {
			a = append(a, x)
		} else {
			aaaa = append(aaaa, x)
		}
	}
	return a, aaaa
}

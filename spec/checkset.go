package spec

import (
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// Completeness says whether a set is everything there is, or a part of it.
type Completeness bool

// Partial judges only what the resources at hand show to be wrong: zones and services may be elsewhere. Complete also
// refuses what is missing.
const (
	Partial  Completeness = false
	Complete Completeness = true
)

// setChecker finds what is wrong between resources.
type setChecker struct {
	set   *Set
	whole bool
	errs  Errors
	warns []Warning
	cuts  map[string]recordAt // delegations by name; nil: not looked for yet

	steeredHints map[*Record]bool // records with hints at names of services
}

// Check finds what is wrong with each resource and between them, and what the operator should know. Both come by file
// and line.
func (s *Set) Check(whole Completeness) (Errors, []Warning) {
	k := &setChecker{set: s, whole: bool(whole), errs: slices.Clone(s.dups), steeredHints: map[*Record]bool{}}
	for i := range s.resources {
		c := &checker{r: &s.resources[i], src: s.resources[i].src}
		c.resource()
		k.errs, k.warns = append(k.errs, c.errs...), append(k.warns, c.warns...)
	}
	k.zones()
	k.domains()
	k.records()
	k.loops()
	k.affinity()
	k.overrides()
	k.notifiers()
	k.secretRefs()
	k.catalogs()
	k.signed()
	k.gateway()
	k.provable()
	k.dynamic()
	k.hints()
	k.servers()
	k.errs.sort()
	sortWarnings(k.warns)
	return k.errs, k.warns
}

func (k *setChecker) fail(r *Resource, path, value string, e valueError) {
	k.errs = append(k.errs, Error{(&checker{r: r, src: r.src}).finding(path, value, e)})
}

func (k *setChecker) warn(r *Resource, path, value string, e valueError) {
	k.warns = append(k.warns, Warning{(&checker{r: r, src: r.src}).finding(path, value, e)})
}

func (k *setChecker) each(f func(r *Resource)) {
	for i := range k.set.resources {
		f(&k.set.resources[i])
	}
}

// zones checks that no two zones are one, and that every service has its zone.
func (k *setChecker) zones() {
	first := map[HostName]*Resource{}
	var steering []string
	k.each(func(r *Resource) {
		z := r.Zone
		if z == nil {
			return
		}
		if other := first[z.Zone]; other != nil {
			k.fail(r, "zone", string(z.Zone), valueError{CodeDomainTaken, "is the zone of " + other.Name + " (" + other.where() + ") too", "one Zone for a name", ""})
			return
		}
		first[z.Zone] = r
		if z.Steering {
			steering = append(steering, string(z.Zone))
		}
	})
	k.each(func(r *Resource) {
		if r.Service != nil {
			k.serviceZone(r, first, steering)
		}
	})
}

func (k *setChecker) serviceZone(r *Resource, zones map[HostName]*Resource, steering []string) {
	want := r.Service.DNS.Zone
	allowed := "a Zone with steering: true"
	if len(steering) > 0 {
		allowed = strings.Join(steering, ", ")
	}
	switch {
	case want == "" && len(steering) > 1:
		k.fail(r, "dns.zone", "", valueError{CodeWhichZone, "is needed: there are several steering zones", allowed, ""})
	case want == "" && len(steering) == 0 && k.whole:
		k.fail(r, "dns.zone", "", valueError{CodeNoZone, "there is no steering zone for the service CNAME", allowed, ""})
	case want != "" && zones[want] != nil && !zones[want].Zone.Steering:
		k.fail(r, "dns.zone", string(want), valueError{CodeNoZone, "is not a steering zone (its Zone has steering: false)", allowed, ""})
	case want != "" && zones[want] == nil && k.whole:
		k.fail(r, "dns.zone", string(want), valueError{CodeNoZone, "is no zone of ours", allowed, names.Nearest(string(want), steering)})
	}
}

// claim is who answers for a name.
type claim struct {
	r    *Resource
	path string
	what string
}

// domains checks that every name has one owner: a service's domain, a service CNAME, a name server or a record.
func (k *setChecker) domains() {
	taken := map[string]claim{}
	zoneSeen := map[HostName]bool{}
	take := func(name string, c claim) {
		if o, twice := taken[name]; twice {
			k.fail(c.r, c.path, name, valueError{CodeDomainTaken, "is " + o.what + " of " + string(o.r.Kind) + " " + o.r.Name + " (" + o.r.where() + ") too", "a name in one place only", ""})
			return
		}
		taken[name] = c
	}
	k.each(func(r *Resource) {
		if r.Zone == nil || zoneSeen[r.Zone.Zone] {
			return
		}
		zoneSeen[r.Zone.Zone] = true
		seen := map[string]bool{}
		for i, ns := range r.Zone.NS {
			if n := string(ns.Name); names.Under(n, string(r.Zone.Zone)) && !seen[n] {
				seen[n] = true
				take(n, claim{r, at("ns[%d].name", i), "a name server"})
			}
		}
		k.recordClaims(r, take, seen)
	})
	k.each(func(r *Resource) {
		if r.Service == nil {
			return
		}
		cname := k.set.CNAME(r.Service)
		if cname != "" {
			take(cname, claim{r, "name", "the service CNAME"})
		}
		for i, d := range r.Service.Domains {
			if string(d) != cname {
				take(string(d), claim{r, at("domains[%d]", i), "a domain"})
			}
			k.apex(r, i)
		}
	})
	k.beside(taken)
}

// apex tells of a name as answer where the domain is a zone itself: its addresses are answered in its place.
func (k *setChecker) apex(r *Resource, i int) {
	d := string(r.Service.Domains[i])
	z := k.set.HostingZone(d)
	if z == nil || string(z.Zone) != d {
		return
	}
	if what := couldName(r.Service); what != "" {
		k.warn(r, at("domains[%d]", i), d, valueError{CodeFlattened, "is a zone itself, where no CNAME can stand, and " + what + ": the addresses of the name are answered there, as control finds them", "", ""})
	}
}

// affinity warns of two services under one wildcard parent that both keep visitors by cookie: the cookie's domain is
// the parent, so each would see the other's.
func (k *setChecker) affinity() {
	sticky := func(s *Service) bool {
		return slices.ContainsFunc(s.OriginGroups, func(g OriginGroup) bool { return g.SessionAffinity })
	}
	parents := map[string]*Resource{}
	k.each(func(r *Resource) {
		if r.Service == nil || !sticky(r.Service) {
			return
		}
		for _, d := range r.Service.Domains {
			if p, wild := strings.CutPrefix(string(d), "*."); wild && parents[p] == nil {
				parents[p] = r
			}
		}
	})
	k.each(func(r *Resource) {
		if r.Service == nil || !sticky(r.Service) {
			return
		}
		for i, d := range r.Service.Domains {
			for p := range names.Parents(strings.TrimPrefix(string(d), "*.")) {
				if other := parents[p]; other != nil && other != r {
					k.warn(r, at("domains[%d]", i), string(d), valueError{CodeAffinity, "lies under *." + p + " of service " + other.Name + "; both use session affinity, and their cookies share that domain", "", ""})
				}
			}
		}
	})
}

// overrides warns of overrides that name nothing: they stay behind when a service goes, and must not stop an apply.
func (k *setChecker) overrides() {
	if !k.whole {
		return
	}
	k.each(func(r *Resource) {
		if r.Override == nil {
			return
		}
		for _, e := range k.set.CheckOverride(r) {
			e.Code = CodeNoEffect
			k.warns = append(k.warns, Warning(e))
		}
	})
}

// CheckOverride says whether what an override names exists in the set. Callers that write one refuse it by this;
// Check only warns.
func (s *Set) CheckOverride(r *Resource) Errors {
	o := r.Override
	if o == nil {
		return nil
	}
	k := &setChecker{set: s}
	service := func(path, name string) *Service {
		v, ok := s.Get(KindService, name)
		if !ok {
			k.fail(r, path, name, valueError{CodeOverrideTarget, "is no service", strings.Join(k.serviceNames(), ", "), names.Nearest(name, k.serviceNames())})
			return nil
		}
		return v.Service
	}
	rule := func(path, key string) *Service {
		name, ruleName, _ := strings.Cut(key, "/")
		v := service(path, name)
		if v != nil && v.Rule(ruleName) == nil {
			k.fail(r, path, key, valueError{CodeOverrideTarget, "is no rule of the service", strings.Join(v.ruleNames(), ", "), names.Nearest(ruleName, v.ruleNames())})
		}
		return v
	}
	edge := func(path string, v *Service, name string) {
		switch e := v.Edge(name); {
		case e == nil:
			k.fail(r, path, name, valueError{CodeOverrideTarget, "is no edge of the service", strings.Join(v.edgeNames(), ", "), names.Nearest(name, v.edgeNames())})
		case path == "force" && !e.Enabled:
			k.fail(r, path, name, valueError{CodeOverrideTarget, "is disabled", "an enabled edge of the service", ""})
		}
	}
	if o.Force != "" {
		if v := rule("rule", o.Rule); v != nil {
			edge("force", v, o.Force)
		}
	}
	if o.Drain != nil && o.Drain.Edge != "" {
		name, edgeName, _ := strings.Cut(o.Drain.Edge, "/")
		if v := service("drain.edge", name); v != nil {
			edge("drain.edge", v, edgeName)
		}
	}
	if o.Freeze != nil && o.Freeze.Service != "" {
		service("freeze.service", o.Freeze.Service)
	}
	if o.Freeze != nil && o.Freeze.Rule != "" {
		rule("freeze.rule", o.Freeze.Rule)
	}
	return k.errs
}

func (k *setChecker) serviceNames() []string {
	var out []string
	for _, v := range k.set.Services() {
		out = append(out, v.Name)
	}
	return out
}

func (s *Service) ruleNames() []string {
	out := make([]string, len(s.Rules))
	for i := range s.Rules {
		out[i] = s.Rules[i].Name
	}
	return out
}

func (s *Service) edgeNames() []string {
	out := make([]string, len(s.Edges))
	for i := range s.Edges {
		out[i] = s.Edges[i].Name
	}
	return out
}

package control

import (
	"fmt"
	"net/http"
	"strings"

	"steerpoint/control/api"
	"steerpoint/spec"
)

// reserved are the names that a caller for some services may not take: those of zones, which are everybody's, and the
// domains of services that it is not for.
type reserved struct {
	at    map[string]string // by name, without the star of a wildcard: whose it is, for people
	above map[string]string // the same by each parent of these
}

// others is told of a name instead of the service that has it: its name is nothing for the caller.
const others = "a service that the token is not for"

func reservedFor(who *caller, s *spec.Set) *reserved {
	r := &reserved{at: map[string]string{}, above: map[string]string{}}
	for _, v := range s.Services() {
		if who.owns(v.Name) {
			continue
		}
		for _, d := range v.Domains {
			r.add(strings.TrimPrefix(string(d), "*."), others)
		}
	}
	for _, z := range s.Zones() {
		r.add(string(z.Zone), "zone "+string(z.Zone))
	}
	return r
}

func (r *reserved) add(name, whose string) {
	r.at[name] = whose
	for p := parent(name); p != ""; p = parent(p) {
		r.above[p] = whose
	}
}

// parent is the name without its first label; "" of one label.
func parent(name string) string {
	_, p, _ := strings.Cut(name, ".")
	return p
}

// whose says who has the name of a domain, or one that lies above it or, for a wildcard, below; "" if nobody has.
func (r *reserved) whose(d spec.Domain) string {
	base := strings.TrimPrefix(string(d), "*.")
	for n := base; n != ""; n = parent(n) {
		if has := r.at[n]; has != "" {
			return has
		}
	}
	if d.Wildcard() {
		return r.above[base]
	}
	return ""
}

// mayTake says why a limited caller may not give its service the domains that it would have; nil if it may. Name servers
// answer for whatever is a domain, so a new one must take no visitor from others. What the caller's services have already
// stays allowed: an admin gave it to them.
func mayTake(who *caller, service string, current, next *spec.Set) *api.Problem {
	doc, ok := next.Get(spec.KindService, service)
	if !ok || doc.Service == nil {
		return nil
	}
	had := map[spec.Domain]bool{spec.Domain(next.CNAME(doc.Service)): true} // which is the service's by its name
	for _, v := range current.Services() {
		if !who.owns(v.Name) {
			continue
		}
		for _, d := range v.Domains {
			had[d] = true
		}
	}
	var taken *reserved
	for _, d := range doc.Service.Domains {
		if had[d] {
			continue
		}
		if taken == nil {
			taken = reservedFor(who, next)
		}
		if whose := taken.whose(d); whose != "" {
			return problem(http.StatusForbidden, api.CodeForbiddenService, "Domain is not the token's to take",
				fmt.Sprintf("domain %s of Service %s is at, below or by its wildcard above a name of %s, and token %s is for %s only: an admin adds the domain, or a token without --service",
					d, service, whose, who.name, strings.Join(who.services, ", ")))
		}
	}
	return nil
}

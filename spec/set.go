package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// Set is all resources together. It is built once and not changed: edits make a new one (With).
type Set struct {
	resources []Resource     // in order of kind, then name
	index     map[string]int // Key -> resources
	dups      Errors

	zoneByName map[HostName]*Zone
	steering   []*Zone

	services  []*Service
	zones     []*Zone
	overrides []*Override
	notifiers []*Notifier
	secrets   []*Secret

	ruleSets     []*RuleSet
	certificates []*Certificate
}

// NewSet puts resources together. Of two with one key the first counts and Check reports the other.
func NewSet(docs []Resource) *Set {
	s := &Set{index: make(map[string]int, len(docs)), zoneByName: map[HostName]*Zone{}}
	first := map[string]*Resource{}
	for i := range docs {
		r := &docs[i]
		if other, twice := first[r.Key()]; twice {
			s.dups = append(s.dups, Error{(&checker{r: r, src: r.src}).finding("name", r.Name, valueError{
				CodeDuplicateName, "is defined twice (first " + other.where() + ")", "one document for a kind and name", "",
			})})
			continue
		}
		first[r.Key()] = r
		s.resources = append(s.resources, *r)
	}
	slices.SortStableFunc(s.resources, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(kindOrder(a.Kind), kindOrder(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	for i := range s.resources {
		r := &s.resources[i]
		s.index[r.Key()] = i
		switch {
		case r.Service != nil:
			s.services = append(s.services, r.Service)
		case r.Zone != nil:
			s.addZone(r.Zone)
		case r.Override != nil:
			s.overrides = append(s.overrides, r.Override)
		case r.Notifier != nil:
			s.notifiers = append(s.notifiers, r.Notifier)
		case r.Secret != nil:
			s.secrets = append(s.secrets, r.Secret)
		case r.RuleSet != nil:
			s.ruleSets = append(s.ruleSets, r.RuleSet)
		case r.Certificate != nil:
			s.certificates = append(s.certificates, r.Certificate)
		}
	}
	return s
}

func (s *Set) addZone(z *Zone) {
	s.zones = append(s.zones, z)
	if s.zoneByName[z.Zone] != nil {
		return // Check reports it
	}
	s.zoneByName[z.Zone] = z
	if z.Steering {
		s.steering = append(s.steering, z)
	}
}

func kindOrder(k Kind) int { return slices.Index(Kinds(), k) }

func (r *Resource) where() string {
	file, line := r.File()
	if file == "" {
		return "in the same input"
	}
	return fmt.Sprintf("in %s:%d", file, line)
}

// Len is the number of resources.
func (s *Set) Len() int { return len(s.resources) }

// Resources gives all of them in the order of Kinds, each kind by name. The list must not be changed.
func (s *Set) Resources() []Resource { return s.resources }

// Get finds a resource.
func (s *Set) Get(kind Kind, name string) (Resource, bool) {
	i, ok := s.index[string(kind)+"/"+name]
	if !ok {
		return Resource{}, false
	}
	return s.resources[i], true
}

// With gives a new set in which docs stand in the place of those with the same key, or beside the others.
func (s *Set) With(docs ...Resource) *Set {
	all := slices.Clone(docs)
	replaced := map[string]bool{}
	for i := range docs {
		replaced[docs[i].Key()] = true
	}
	for _, r := range s.resources {
		if !replaced[r.Key()] {
			all = append(all, r)
		}
	}
	return NewSet(all)
}

// Without gives a new set that lacks the resources with these keys ("Service/shop").
func (s *Set) Without(keys ...string) *Set {
	var rest []Resource
	for _, r := range s.resources {
		if !slices.Contains(keys, r.Key()) {
			rest = append(rest, r)
		}
	}
	return NewSet(rest)
}

// Services gives the services by name. The list must not be changed.
func (s *Set) Services() []*Service { return s.services }

// Zones gives the zones by name of the resource. The list must not be changed.
func (s *Set) Zones() []*Zone { return s.zones }

// Overrides gives the overrides by name. The list must not be changed.
func (s *Set) Overrides() []*Override { return s.overrides }

// Notifiers gives the notifiers by name. The list must not be changed.
func (s *Set) Notifiers() []*Notifier { return s.notifiers }

// Secrets gives the secrets by name. The list must not be changed.
func (s *Set) Secrets() []*Secret { return s.secrets }

// RuleSets gives the rule sets by name. The list must not be changed.
func (s *Set) RuleSets() []*RuleSet { return s.ruleSets }

// Certificates gives the certificates by name. The list must not be changed.
func (s *Set) Certificates() []*Certificate { return s.certificates }

// ServiceZone is the steering zone that holds a service's CNAME: dns.zone, or the only one. nil: there is none, or it
// is not clear which.
func (s *Set) ServiceZone(v *Service) *Zone {
	if v.DNS.Zone != "" {
		if z := s.zoneByName[v.DNS.Zone]; z != nil && z.Steering {
			return z
		}
		return nil
	}
	if len(s.steering) == 1 {
		return s.steering[0]
	}
	return nil
}

// CNAME is the service CNAME, <service>.<zone>, without a trailing dot; "" without a zone.
func (s *Set) CNAME(v *Service) string {
	if z := s.ServiceZone(v); z != nil {
		return v.Name + "." + string(z.Zone)
	}
	return ""
}

// HostingZone is the zone of ours a name lies in, the closest one; nil if none.
func (s *Set) HostingZone(name string) *Zone {
	for parent := range names.Parents(strings.TrimPrefix(name, "*.")) {
		if z := s.zoneByName[HostName(parent)]; z != nil {
			return z
		}
	}
	return nil
}

// Hosted gives the domains of a service that lie inside a zone of ours and are answered directly.
func (s *Set) Hosted(v *Service) []string {
	var out []string
	for _, d := range v.Domains {
		if s.HostingZone(string(d)) != nil {
			out = append(out, string(d))
		}
	}
	return out
}

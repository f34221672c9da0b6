package spec

import (
	"fmt"
	"net/netip"
	"strings"
)

// signed refuses what cannot be signed. In a signed zone a name has one shape for everybody, since a denial of one client's
// answer is kept by resolvers for all of theirs (RFC 8198): a service of names and addresses is answered with the addresses of
// its names. A name that is steered here itself has no addresses that everybody gets.
func (k *setChecker) signed() {
	var steered map[string]string
	k.each(func(r *Resource) {
		if r.Service == nil || !mixed(r.Service) {
			return
		}
		in := k.signedName(r.Service)
		if in == "" {
			return
		}
		if steered == nil {
			steered = k.steered()
		}
		for path, target := range namesToAnswer(r.Service) {
			if by := steeredBy(steered, target); by != "" {
				k.fail(r, path, target, valueError{CodeSignedMix, fmt.Sprintf("is a name that service %s steers by client, and %s, in a signed zone, is answered with addresses only, since other edges have addresses", by, in), "a name of another zone, or addresses", ""})
			}
		}
	})
}

// signedName is a name of a service that lies in a signed zone; "" if none does.
func (k *setChecker) signedName(s *Service) string {
	hosts := []string{k.set.CNAME(s)}
	for _, d := range s.Domains {
		hosts = append(hosts, string(d))
	}
	for _, name := range hosts {
		if name == "" {
			continue
		}
		if z := k.set.HostingZone(name); z != nil && z.DNSSEC.Enabled {
			return name
		}
	}
	return ""
}

// mixed reports whether a service has answers of both kinds.
func mixed(s *Service) bool {
	addresses := false
	for i := range s.Edges {
		addresses = addresses || len(s.Edges[i].Addresses) > 0
	}
	for i := range s.Rules {
		_, err := netip.ParseAddr(s.Rules[i].WhenAllDown.Target)
		addresses = addresses || err == nil
	}
	return addresses && len(namesToAnswer(s)) > 0
}

// namesToAnswer are the names that a service could answer with, by the field they stand in.
func namesToAnswer(s *Service) map[string]string {
	out := map[string]string{}
	for i := range s.Edges {
		if t := s.Edges[i].Target; t != "" {
			out[fmt.Sprintf("edges[%d].target", i)] = string(t)
		}
	}
	for i := range s.Rules {
		w := &s.Rules[i].WhenAllDown
		if _, err := netip.ParseAddr(w.Target); w.Policy == "fallback" && w.Target != "" && err != nil {
			out[fmt.Sprintf("rules[%d].whenAllDown", i)] = w.Target
		}
	}
	return out
}

// steered are the names that services answer at, in lower case and without the last dot, and the services.
func (k *setChecker) steered() map[string]string {
	out := map[string]string{}
	k.each(func(r *Resource) {
		if r.Service == nil {
			return
		}
		out[plainName(k.set.CNAME(r.Service))] = r.Name
		for _, d := range k.set.Hosted(r.Service) {
			out[plainName(d)] = r.Name
		}
	})
	return out
}

// steeredBy is the service that answers at a name, itself or by a wildcard; "" if none does.
func steeredBy(steered map[string]string, name string) string {
	name = plainName(name)
	if by := steered[name]; by != "" {
		return by
	}
	for _, up, ok := strings.Cut(name, "."); ok; _, up, ok = strings.Cut(up, ".") {
		if by := steered["*."+up]; by != "" {
			return by
		}
	}
	return ""
}

func plainName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

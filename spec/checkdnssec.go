package spec

// signed refuses what cannot be signed: a name in a signed zone that is a CNAME for some clients and has addresses for
// others. A denial of one client's answer is kept by resolvers for all of theirs (RFC 8198), and would deny the others'.
func (k *setChecker) signed() {
	k.each(func(r *Resource) {
		if r.Service == nil || !mixed(r.Service) {
			return
		}
		hosts := []string{k.set.CNAME(r.Service)}
		for _, d := range r.Service.Domains {
			hosts = append(hosts, string(d))
		}
		for _, name := range hosts {
			if z := k.set.HostingZone(name); name != "" && z != nil && z.DNSSEC.Enabled {
				k.fail(r, "edges", "", valueError{CodeSignedMix, "are names and addresses, and " + name + " is in the signed zone " + string(z.Zone), "edges that are all names, or all addresses", ""})
				return
			}
		}
	})
}

// mixed reports whether a service has edges of both kinds.
func mixed(s *Service) bool {
	var targets, addresses bool
	for i := range s.Edges {
		targets = targets || s.Edges[i].Target != ""
		addresses = addresses || len(s.Edges[i].Addresses) > 0
	}
	return targets && addresses
}

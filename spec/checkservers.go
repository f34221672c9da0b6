package spec

// servers warns of name servers that lie in another zone of ours and have addresses nowhere: the zone that names them is not
// served then. One Zone with the addresses is enough for all.
func (k *setChecker) servers() {
	if !k.whole {
		return
	}
	known := map[HostName]bool{}
	k.each(func(r *Resource) {
		if r.Zone == nil {
			return
		}
		for _, ns := range r.Zone.NS {
			known[ns.Name] = known[ns.Name] || len(ns.Addresses) > 0
		}
	})
	k.each(func(r *Resource) {
		if r.Zone == nil {
			return
		}
		for i, ns := range r.Zone.NS {
			in := k.set.HostingZone(string(ns.Name))
			if known[ns.Name] || in == nil || in.Zone == r.Zone.Zone {
				continue
			}
			k.warn(r, at("ns[%d]", i), string(ns.Name), valueError{
				CodeNeedsGlue, "lies in the zone " + string(in.Zone) + " of ours, and no Zone has its addresses: until one does, this zone is not served", "", "",
			})
		}
	})
}

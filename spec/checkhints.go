package spec

import "strings"

// maxHinted is how many records of one set hints are added to: with all addresses they still fit into a message.
const maxHinted = 32

// recordHints checks that hints are asked for where they can be added: to records in service mode about their own name, since
// they would be another's otherwise (RFC 9460 section 7.3).
func (c *checker) recordHints(r *Record, owner, path string) {
	if !r.Hints {
		return
	}
	fail := func(e valueError) { c.fail(path+".hints", "true", e) }
	switch {
	case r.Type != "HTTPS" && r.Type != "SVCB":
		fail(valueError{CodeContradiction, "is for HTTPS and SVCB records", "hints: true beside one of these types", ""})
	case len(r.Values) > maxHinted:
		fail(valueError{CodeOutOfRange, "stands beside too many values", "at most 32 values", ""})
	case !r.ownTarget(owner):
		fail(valueError{CodeContradiction, "needs records that are about their own name", "values such as 1 . alpn=h2", ""})
	}
}

// ownTarget reports whether every value that can be read is in service mode with the record's name as target.
func (r *Record) ownTarget(owner string) bool {
	for _, v := range r.Values {
		data, err := r.Type.Parse(v)
		if err != nil {
			continue // told elsewhere
		}
		target := strings.TrimSuffix(data.Target(), ".")
		if data.AliasMode() || target != "" && target != owner {
			return false
		}
	}
	return true
}

// hints checks that hints are asked for only where a service has addresses to give.
func (k *setChecker) hints() {
	k.each(func(r *Resource) {
		if r.Zone == nil || !k.whole || k.set.zoneByName[r.Zone.Zone] != r.Zone {
			return
		}
		for i := range r.Zone.Records {
			if rec := &r.Zone.Records[i]; rec.Hints && !k.steeredHints[rec] {
				k.fail(r, at("records[%d].hints", i), "true", valueError{
					CodeContradiction, "stands at a name of no service, so there are no addresses to give", "ipv4hint and ipv6hint in the values, or a name of a service", "",
				})
			}
		}
	})
}

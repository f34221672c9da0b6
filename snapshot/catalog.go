package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"steerpoint/spec"
)

// catalogVersion is the form of catalog zones (RFC 9432 section 4.2.1).
const catalogVersion = "2"

// withCatalogs adds to zones that others name as their catalog the records that list them (RFC 9432), so that secondaries which
// have the catalog take up zones, and let them go, by themselves. The other zones are those that were given.
func withCatalogs(zones []*spec.Zone) []*spec.Zone {
	members := map[spec.HostName][]*spec.Zone{}
	for _, z := range zones {
		if z.Transfer != nil && z.Transfer.Catalog != "" && z.Transfer.Catalog != z.Zone {
			members[z.Transfer.Catalog] = append(members[z.Transfer.Catalog], z)
		}
	}
	if len(members) == 0 {
		return zones
	}
	out := slices.Clone(zones)
	for i, z := range out {
		if list := members[z.Zone]; list != nil {
			out[i] = catalog(z, list)
		}
	}
	return out
}

// catalog is a zone with the list of its members.
func catalog(z *spec.Zone, members []*spec.Zone) *spec.Zone {
	made := *z
	records := slices.Clone(z.Records)
	// TTLs say nothing here (section 4.1): nobody asks for these names.
	records = append(records, spec.Record{Name: "version", Type: "TXT", TTL: z.NSTTL, Values: []string{catalogVersion}})
	slices.SortFunc(members, func(a, b *spec.Zone) int { return cmp.Compare(a.Zone, b.Zone) })
	for _, m := range members {
		records = append(records, spec.Record{Name: memberLabel(m.Zone) + ".zones", Type: "PTR", TTL: z.NSTTL, Values: []string{fqdn(m.Zone)}})
	}
	made.Records = records
	return &made
}

// memberLabel names a member: the same for the same zone, so that a change of the list is a change of one record, and another
// for another.
func memberLabel(zone spec.HostName) string {
	sum := sha256.Sum256([]byte(strings.ToLower(string(zone))))
	return hex.EncodeToString(sum[:16])
}

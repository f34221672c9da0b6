package snapshot

import (
	"slices"
	"strings"
)

// hintsMark ends the type of record sets that name servers add the addresses of the service at their name to, as hints. It
// stands in the type so that a name server of a version that does not know it refuses the map, and does not serve the records
// without what belongs to them.
const hintsMark = "+hints"

// Kind is the mnemonic of a record set's type, and whether hints are added to its records (RFC 9460 section 7.3).
func (r *DNSRecord) Kind() (rrType string, hints bool) { return strings.CutSuffix(r.Type, hintsMark) }

// WithoutHints are record sets as they are served where nothing is added.
func WithoutHints(records []DNSRecord) []DNSRecord {
	if !slices.ContainsFunc(records, func(r DNSRecord) bool { return strings.HasSuffix(r.Type, hintsMark) }) {
		return records
	}
	out := slices.Clone(records)
	for i := range out {
		out[i].Type, _ = out[i].Kind()
	}
	return out
}

package answer

import (
	"slices"

	"steerpoint/snapshot"
)

// flatten makes of a service what it answers where only addresses can be: its rules, with the addresses of names in the place
// of names.
func (b *builder) flatten(s *service) *service {
	flat := &answers{rules: slices.Clone(s.rules)}
	for i := range flat.rules {
		r, of := &flat.rules[i], &s.src.Rules[i]
		choices := slices.Clone(r.choices)
		for j := range choices {
			c, from := &choices[j], &of.Choices[j]
			if c.cname == nil {
				continue
			}
			c.cname = nil
			if len(from.FlatA)+len(from.FlatAAAA) > 0 {
				plain := snapshot.DNSChoice{Edge: from.Edge, Weight: from.Weight, A: from.FlatA, AAAA: from.FlatAAAA}
				*c = b.choice(place{s.src.Name, of.Rule}, s.src.Name, &plain)
			}
		}
		r.offer = b.ix.pool.offer(choices)
	}
	for k := range kinds {
		flat.tailored[k] = flat.dependsOnClient(k)
	}
	if flat.lasting() {
		flat = b.ix.pool.answers(flat)
	}
	return &service{answers: flat, table: s.table, src: s.src, negTTL: s.negTTL}
}

package answer

import (
	"slices"

	"steerpoint/internal/rrdata"
	"steerpoint/snapshot"
)

// When more than a quarter of the names changes, and more than a few, all are made anew, which then costs less.
const (
	rebuildShare = 4
	rebuildFew   = 100
)

// changeNames makes the names from those of old by what changed. It reports false when it cannot, or when too much did:
// then all have to be made anew. Faults are told as in a map that is made anew.
func (b *builder) changeNames() bool {
	if b.old.names == nil || b.old.twice {
		return false
	}
	b.zones, b.cuts = b.old.zones, b.old.cuts
	records, ok := b.recordChanges()
	if !ok {
		return false
	}
	touched := map[string]struct{}{} // wire names
	touch := func(name string) {
		if w, err := appendName(b.scratch[:0], name); err == nil { // of a bad name, adding it tells
			b.scratch = w
			touched[string(w)] = struct{}{}
		}
	}
	for i := range records {
		touch(records[i].record.Name)
	}
	for i := range b.changes {
		if c := &b.changes[i]; c.renamed() {
			for _, name := range append(namesOf(c.old), namesOf(c.new)...) {
				touch(name)
			}
		}
	}
	if len(touched) > max(rebuildFew, b.old.nodes.count/rebuildShare) || b.reachesCut(touched) {
		return false
	}
	if len(touched) == 0 {
		b.ix.names = b.old.names
	} else {
		b.ix.names = &names{nodes: b.old.nodes.edit(), zones: b.old.zones, cuts: b.old.cuts}
		b.fresh = map[*node]struct{}{}
		b.moveNames(records, touched)
	}
	for i := range b.changes {
		b.checkService(b.changes[i].new)
	}
	return true
}

// moveNames takes away what is gone, then adds what is new, then looks at each name that was touched.
func (b *builder) moveNames(records []recordChange, touched map[string]struct{}) {
	for i := range records {
		if r := &records[i]; r.gone {
			b.dropRecord(r.record)
		}
	}
	for i := range b.changes {
		if c := &b.changes[i]; c.renamed() {
			b.unnameService(c.old, c.slot)
		}
	}
	for i := range records {
		if r := &records[i]; !r.gone {
			b.addRecord(r.zone, b.zones[r.wire], r.record)
		}
	}
	for i := range b.changes {
		if c := &b.changes[i]; c.renamed() && c.new != nil {
			b.nameService(c.new, c.slot)
		}
	}
	for name := range touched {
		if n := b.ix.nodes.get([]byte(name)); n != nil {
			b.prune(n)
		}
	}
	for name := range touched {
		if n := b.ix.nodes.get([]byte(name)); n != nil {
			b.checkNode(n)
		}
	}
}

// checkService finds what may not stand beside a service at its names.
func (b *builder) checkService(s *snapshot.DNSService) {
	for _, name := range namesOf(s) {
		w, err := appendName(b.scratch[:0], name)
		if err != nil {
			continue // told
		}
		b.scratch = w
		if n := b.ix.nodes.get(w); n != nil {
			b.checkNode(n)
		}
	}
}

// recordChange is one record set that came or went.
type recordChange struct {
	gone   bool
	record *snapshot.DNSRecord
	zone   *snapshot.DNSZone // that it came to
	wire   string            // name of the zone
}

// recordChanges are the record sets that differ. It reports false where zones differ in more than records, or where records
// changed that make a difference to other names.
func (b *builder) recordChanges() (changes []recordChange, ok bool) {
	zones, before := b.ix.d.Zones, b.old.d.Zones
	if len(zones) != len(before) {
		return nil, false
	}
	for i := range zones {
		z, o := &zones[i], &before[i]
		if sameMemory(z.Records, o.Records) && z.Equal(o) {
			continue
		}
		bare, bareOld := *z, *o
		bare.Records, bareOld.Records = nil, nil
		if !bare.Equal(&bareOld) {
			return nil, false
		}
		w, err := packName(z.Name)
		gone, came := differing(o.Records, z.Records)
		if err != nil || slices.ContainsFunc(gone, reaches) || slices.ContainsFunc(came, reaches) {
			return nil, false
		}
		for _, list := range []struct {
			gone    bool
			records []snapshot.DNSRecord
		}{{true, gone}, {false, came}} {
			for j := range list.records {
				r := &list.records[j]
				if name, err := packName(r.Name); err == nil && b.zoneOf(name) != b.zones[string(w)] {
					return nil, false // it says something of another zone
				}
				changes = append(changes, recordChange{list.gone, r, z, string(w)})
			}
		}
	}
	return changes, true
}

// reaches reports whether a record makes a difference to names other than its own: below a delegation names are not ours.
// Where such a record comes or goes, nothing is taken over.
func reaches(r snapshot.DNSRecord) bool { return r.Type == "NS" || r.Type == "DNAME" || r.Type == "DS" }

// reachesCut reports whether one of some names, in wire form, lies at or below a delegation, or is that of a name server of
// one, whose addresses stand in the referral.
func (b *builder) reachesCut(touched map[string]struct{}) bool {
	if len(b.cuts) == 0 {
		return false
	}
	for _, c := range b.cuts {
		for _, server := range c.servers {
			if _, ok := touched[string(lowered(server))]; ok {
				return true
			}
		}
	}
	for name := range touched {
		if z := b.zoneOf([]byte(name)); z != nil && b.isCut([]byte(name), z) {
			return true
		}
	}
	return false
}

func sameMemory[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// differing cuts off what two lists have in common at their beginning and at their end. What is left differs, or stands
// between what does: it goes and comes again.
func differing(before, after []snapshot.DNSRecord) (gone, came []snapshot.DNSRecord) {
	for len(before) > 0 && len(after) > 0 && before[0].Equal(&after[0]) {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1].Equal(&after[len(after)-1]) {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return before, after
}

// dropRecord takes a record set away from its name.
func (b *builder) dropRecord(r *snapshot.DNSRecord) {
	n := b.nodeOf(r.Name)
	if n == nil {
		return
	}
	n = b.mine(n)
	kind, _ := r.Kind()
	rrType, _, err := rrdata.Type(kind)
	if err != nil {
		return // it never was a set
	}
	for i := int(n.ofZones); i < len(n.sets); i++ {
		if n.sets[i].rrType == rrType {
			n.sets = slices.Delete(n.sets, i, i+1)
			return
		}
	}
}

// unnameService takes its names away from a service.
func (b *builder) unnameService(s *snapshot.DNSService, slot int32) {
	for _, name := range namesOf(s) {
		if n := b.nodeOf(name); n != nil && n.service == slot+1 {
			n = b.mine(n)
			n.service, n.flat = 0, false
		}
	}
}

func (b *builder) nodeOf(name string) *node {
	w, err := appendName(b.scratch[:0], name)
	if err != nil {
		return nil
	}
	b.scratch = w
	return b.ix.nodes.get(w)
}

// prune removes a name that nothing makes exist any more, and those above it that existed for its sake.
func (b *builder) prune(n *node) {
	for !n.fixed && n.cut == nil && len(n.sets) == 0 && n.service == 0 && n.children == 0 {
		b.ix.nodes.remove(n.name)
		up := b.mine(b.ix.nodes.get([]byte(n.name[1+int(n.name[0]):])))
		up.children--
		if isWildcard(n.name) {
			up.wildcard = nil
		}
		n = up
	}
}

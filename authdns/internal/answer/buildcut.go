package answer

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
	"steerpoint/snapshot"
)

// cut is a delegation on its way to a referral.
type cut struct {
	zone    *zone
	ttl     uint32
	servers [][]byte // wire names, in their own case
	// renames: it is none, but a DNAME, which stands for all below its name and not for the name itself.
	renames bool
}

// referral is what is answered at and below a delegation, wherever the name stands: NS records in authority, then the
// addresses that nobody could find otherwise, then those that are only of use.
type referral struct {
	name []byte // of the delegation, wire form, lower case
	// wire holds the records. Names end in pointers that are not set yet: at ownerAt to the delegation's name in the question, at
	// selfAt from the beginning of wire on.
	wire            []byte
	ownerAt, selfAt []uint16
	nsLen           int    // octets of the NS records
	must            int    // and of the addresses that must go with them (RFC 9471)
	ns, glue, more  uint16 // records: NS, addresses within must, addresses beyond
}

const (
	// maxSelf is up to where a name in a referral is pointed at: a pointer reaches 16 KiB, and a chain of CNAMEs may stand
	// before it.
	maxSelf = 8 << 10
	// maxReferral bounds the octets of a referral: nobody has so many name servers.
	maxReferral = 48 << 10
)

// findCuts notes where the zones delegate: NS records below an apex, unless a zone of ours begins there.
func (b *builder) findCuts(d *snapshot.DNS) {
	b.cuts, b.glue = map[string]*cut{}, map[string][]*rrset{}
	for i := range d.Zones {
		for j := range d.Zones[i].Records {
			r := &d.Zones[i].Records[j]
			if r.Type != "NS" && r.Type != "DNAME" {
				continue
			}
			name, err := packName(r.Name)
			if err != nil || b.zones[string(name)] != nil && r.Type == "NS" {
				continue // addRecords tells of a bad name
			}
			b.cuts[string(name)] = &cut{zone: b.zoneOf(name), renames: r.Type == "DNAME"}
		}
	}
}

// cutAbove is the highest delegation at or above a name, or DNAME above it, within its zone; nil: none. at says that it is the
// name itself.
func (b *builder) cutAbove(name []byte, z *zone) (above []byte, at bool) {
	if len(b.cuts) == 0 {
		return nil, false
	}
	for up := name; len(up) >= len(z.name); up = up[1+int(up[0]):] {
		if c := b.cuts[string(up)]; c != nil && !(c.renames && len(up) == len(name)) {
			above = up
		}
		if len(up) == 1 {
			break
		}
	}
	return above, above != nil && len(above) == len(name)
}

// addBetween makes the names between a zone and the one of ours around it: they exist, in the outer one, unless it delegates
// them. Then the names below that delegation are not its own, and neither is the DS set of the zone.
func (b *builder) addBetween(z *zone) {
	up := z.name[1+int(z.name[0]):]
	if above, _ := b.cutAbove(up, z.parent); above != nil {
		z.hidden, up = above, above
	}
	for ; len(up) > len(z.parent.name); up = up[1+int(up[0]):] {
		b.node(up, z.parent)
	}
}

func (b *builder) isCut(name []byte, z *zone) bool {
	above, _ := b.cutAbove(name, z)
	return above != nil
}

// addCut takes the NS records of a delegation.
func (b *builder) addCut(what string, name []byte, z *zone, ttl uint32, servers [][]byte) {
	c := b.cuts[string(name)]
	if c.servers != nil {
		b.fail("%s: NS records are defined twice", what)
		return
	}
	c.ttl, c.servers = ttl, servers
	b.node(name, z)
}

// addOccluded takes a record at or below a delegation, where others answer. Addresses may be of use to find them; records count
// more than what is said of the zone's own name servers, which comes first. Nothing below a delegation is a node: looking a
// name up there ends at the delegation.
func (b *builder) addOccluded(what string, name []byte, rrType uint16, ttl uint32, datas [][]byte) {
	if rrType != typeA && rrType != typeAAAA || len(datas) == 0 {
		return
	}
	sets := slices.DeleteFunc(b.glue[string(name)], func(s *rrset) bool { return s.rrType == rrType })
	b.glue[string(name)] = append(sets, b.intern(what, rrType, ttl, datas))
}

// addCuts gives the delegations their referrals.
//
// A referral holds addresses that stand elsewhere in the zones: see reachesCut.
func (b *builder) addCuts() {
	for name, c := range b.cuts {
		if n := b.ix.nodes.get([]byte(name)); n != nil && c.servers != nil {
			n.cut = b.refer([]byte(name), c)
		}
	}
}

// refer makes the referral of a delegation.
func (b *builder) refer(name []byte, c *cut) *referral {
	r := &referral{name: name}
	at := make([]int, len(c.servers)) // where the name of each server stands in wire
	for i, server := range c.servers {
		r.ownerAt = append(r.ownerAt, uint16(len(r.wire)))
		data, short := server, false
		if tail := suffix(server, name); tail >= 0 {
			data, short = append(bytes.Clone(server[:tail]), 0xC0, 0), true
		}
		at[i] = len(r.wire) + rrHead
		r.wire = appendRR(r.wire, []byte{0xC0, 0}, dns.TypeNS, c.ttl, data)
		if short {
			r.ownerAt = append(r.ownerAt, uint16(len(r.wire)-2))
		}
		r.ns++
	}
	r.nsLen = len(r.wire)
	for i, server := range c.servers {
		if suffix(server, name) >= 0 {
			r.glue += b.appendGlue(r, server, at[i])
		}
	}
	r.must = len(r.wire)
	for i, server := range c.servers {
		if suffix(server, name) < 0 {
			r.more += b.appendGlue(r, server, at[i])
		}
	}
	return r
}

// appendGlue adds the addresses that our zones have of a name server. They are the same in all scopes: the name of a service is
// left out.
func (b *builder) appendGlue(r *referral, server []byte, at int) (records uint16) {
	for _, s := range b.addressesOf(server) {
		for _, data := range s.rdatas() {
			if len(r.wire) > maxReferral {
				return records
			}
			owner := server
			if at < maxSelf {
				owner = binary.BigEndian.AppendUint16(nil, 0xC000|uint16(at))
				r.selfAt = append(r.selfAt, uint16(len(r.wire)))
			}
			r.wire = appendRR(r.wire, owner, s.rrType, s.ttl, data)
			records++
		}
	}
	return records
}

// addressesOf are the address sets that our zones have of a name, whether they answer for it or not.
func (b *builder) addressesOf(server []byte) (sets []*rrset) {
	key := lowered(server)
	if sets = b.glue[string(key)]; sets != nil {
		return sets
	}
	n := b.ix.nodes.get(key)
	if n == nil || n.service != 0 {
		return nil
	}
	for _, rrType := range []uint16{typeA, typeAAAA} {
		if s := n.set(rrType); s != nil {
			sets = append(sets, s)
		}
	}
	return sets
}

// lowered is a wire name in lower case; a length octet is below every letter.
func lowered(name []byte) []byte {
	out := bytes.Clone(name)
	for i, c := range out {
		out[i] = wire.Lower(c)
	}
	return out
}

// rdatas gives the data of each record of a set.
func (s *rrset) rdatas() [][]byte {
	out := make([][]byte, 0, len(s.ttlAt))
	for _, at := range s.ttlAt {
		n := int(binary.BigEndian.Uint16(s.wire[at+4:]))
		out = append(out, s.wire[int(at)+6:int(at)+6+n])
	}
	return out
}

// suffix is where in a wire name another one begins that ends it, in any case of letters; -1: nowhere.
func suffix(name, end []byte) int {
	for at := 0; len(name)-at >= len(end); at += 1 + int(name[at]) {
		if len(name)-at == len(end) && slices.EqualFunc(name[at:], end, func(a, b byte) bool { return wire.Lower(a) == wire.Lower(b) }) {
			return at
		}
		if name[at] == 0 {
			break
		}
	}
	return -1
}

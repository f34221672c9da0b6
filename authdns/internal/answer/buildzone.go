package answer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
	"steerpoint/snapshot"
)

// pointerToQuestion is the compressed name that stands for the name in the question: it always begins right behind
// the header.
var pointerToQuestion = []byte{0xC0, wire.HeaderLen}

// appendRR appends one record of class IN.
func appendRR(dst, owner []byte, rrType uint16, ttl uint32, rdata []byte) []byte {
	dst = append(dst, owner...)
	dst = binary.BigEndian.AppendUint16(dst, rrType)
	dst = binary.BigEndian.AppendUint16(dst, wire.ClassIN)
	dst = binary.BigEndian.AppendUint32(dst, ttl)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(rdata)))
	return append(dst, rdata...)
}

// addZones makes the apexes, then the name servers inside our zones, then the NS sets and glue.
func (b *builder) addZones(d *snapshot.DNS) {
	for i := range d.Zones {
		b.addApex(&d.Zones[i])
	}
	b.findCuts(d)
	for _, z := range b.zones {
		if len(z.name) > 1 {
			if z.parent = b.zoneOf(z.name[1+int(z.name[0]):]); z.parent != nil {
				b.addBetween(z)
			}
		}
	}
	for i := range d.Zones {
		b.addHosts(&d.Zones[i])
	}
	for name, h := range b.hosts {
		z := b.zoneOf([]byte(name))
		if above, _ := b.cutAbove([]byte(name), z); above != nil { // others answer for it
			b.addOccluded("name server", []byte(name), typeA, h.ttl, rdatas(h.a))
			b.addOccluded("name server", []byte(name), typeAAAA, h.ttl, rdatas(h.aaaa))
			continue
		}
		n := b.node([]byte(name), z)
		b.addAddresses(n, "name server", h.a, h.aaaa, h.ttl)
	}
	for i := range d.Zones {
		b.addNS(&d.Zones[i])
	}
}

func (b *builder) addAddresses(n *node, what string, a, aaaa []netip.Addr, ttl uint32) {
	if len(a) > 0 {
		b.addSet(n, what, b.intern(what, typeA, ttl, rdatas(a)))
	}
	if len(aaaa) > 0 {
		b.addSet(n, what, b.intern(what, typeAAAA, ttl, rdatas(aaaa)))
	}
}

func rdatas(addrs []netip.Addr) (out [][]byte) {
	for _, a := range addrs {
		out = append(out, a.AsSlice())
	}
	return out
}

func (b *builder) addApex(z *snapshot.DNSZone) {
	what := "zone " + z.Name
	name, err := packName(z.Name)
	if err != nil {
		b.fail("%s: %w", what, err)
		return
	}
	if b.zones[string(name)] != nil {
		b.fail("%s is defined twice", what)
		return
	}
	soa, err := soaData(z)
	if err != nil {
		b.fail("%s: SOA: %w", what, err)
		return
	}
	ttl := b.seconds(what+": nsTTL", z.NSTTL)
	made := &zone{
		name: name, text: z.Name, soa: soa, labels: uint8(dns.CountLabel(z.Name)),
		negTTL: min(ttl, b.seconds(what+": soa.minimum", z.SOA.Minimum)), ttl: ttl,
	}
	b.zones[string(name)] = made
	apex := b.node(name, made)
	apex.zone, apex.apex = made, true
	b.addSet(apex, what, b.intern(what, dns.TypeSOA, ttl, [][]byte{soa}))
}

// soaNumbers is the length of what ends the RDATA of a SOA: serial, refresh, retry, expire and minimum.
const soaNumbers = 20

// soaData is a SOA's RDATA with serial 0.
func soaData(z *snapshot.DNSZone) ([]byte, error) {
	var out []byte
	for _, s := range []string{z.SOA.MName, z.SOA.RName} {
		w, err := packName(s)
		if err != nil {
			return nil, err
		}
		out = append(out, w...)
	}
	out = binary.BigEndian.AppendUint32(out, 0)
	for _, d := range []struct {
		name  string
		value int64
	}{
		{"refresh", int64(z.SOA.Refresh.Seconds())},
		{"retry", int64(z.SOA.Retry.Seconds())},
		{"expire", int64(z.SOA.Expire.Seconds())},
		{"minimum", int64(z.SOA.Minimum.Seconds())},
	} {
		if d.value < 0 || d.value > 1<<31-1 {
			return nil, fmt.Errorf("%s is %d seconds: want 0 to 2^31-1", d.name, d.value)
		}
		out = binary.BigEndian.AppendUint32(out, uint32(d.value))
	}
	return out, nil
}

// addHosts notes the name servers of z that lie inside a zone of ours.
func (b *builder) addHosts(z *snapshot.DNSZone) {
	ttl := b.seconds("zone "+z.Name+": nsTTL", z.NSTTL)
	for _, ns := range z.NS {
		name, err := packName(ns.Name)
		if err != nil || b.zoneOf(name) == nil {
			continue // addNS tells of a bad name; a name elsewhere is resolved elsewhere
		}
		h := b.hosts[string(name)]
		if h == nil {
			h = &host{ttl: ttl}
			b.hosts[string(name)] = h
		}
		h.ttl = min(h.ttl, ttl) // a record set has one TTL
		for _, a := range ns.Addresses {
			switch {
			case a.Is4() && !slices.Contains(h.a, a):
				h.a = append(h.a, a)
			case a.Is6() && !a.Is4In6() && !slices.Contains(h.aaaa, a):
				h.aaaa = append(h.aaaa, a)
			}
		}
		if len(h.a)+len(h.aaaa) == 0 {
			b.fail("zone %s: name server %s lies in our own zones and has no address", z.Name, ns.Name)
		}
	}
}

func (b *builder) addNS(z *snapshot.DNSZone) {
	what := "zone " + z.Name
	zoneName, err := packName(z.Name)
	if err != nil || b.zones[string(zoneName)] == nil {
		return // told by addApex
	}
	apex := b.ix.nodes.get(zoneName)
	var names, whole [][]byte
	for _, ns := range z.NS {
		name, err := packName(ns.Name)
		if err != nil {
			b.fail("%s: ns: %w", what, err)
			continue
		}
		short := compress(name, zoneName)
		names, whole = append(names, short), append(whole, name)
		if h := b.hosts[string(name)]; h != nil {
			for _, rd := range append(rdatas(h.a), rdatas(h.aaaa)...) {
				apex.glue = appendRR(apex.glue, short, addrType(rd), h.ttl, rd)
				apex.glues++
			}
		}
	}
	if len(names) == 0 {
		b.fail("%s has no name servers", what)
		return
	}
	ttl := b.seconds(what+": nsTTL", z.NSTTL)
	b.addSet(apex, what, b.intern(what, dns.TypeNS, ttl, names))
	apex.zone.ns = b.intern(what, dns.TypeNS, ttl, whole)
}

func addrType(rdata []byte) uint16 {
	if len(rdata) == 4 {
		return typeA
	}
	return typeAAAA
}

// compress replaces the zone's name at the end of a name by the pointer to the question: NS records and glue are sent
// only where the question is the zone's name.
func compress(name, zoneName []byte) []byte {
	for rest := name; len(rest) > 1; rest = rest[1+int(rest[0]):] {
		if bytes.Equal(rest, zoneName) {
			return append(bytes.Clone(name[:len(name)-len(rest)]), pointerToQuestion...)
		}
	}
	return name
}

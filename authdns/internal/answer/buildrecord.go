package answer

import (
	"bytes"
	"fmt"

	"github.com/miekg/dns"

	"steerpoint/internal/rrdata"
	"steerpoint/snapshot"
)

// addRecords adds the zone's static record sets.
func (b *builder) addRecords(z *snapshot.DNSZone) {
	zoneName, err := packName(z.Name)
	if err != nil || b.zones[string(zoneName)] == nil {
		return // told by addApex
	}
	own := b.zones[string(zoneName)]
	for i := range z.Records {
		b.addRecord(z, own, &z.Records[i])
	}
}

// addRecord adds one of them. It is also called for one that is new in a map whose other names are taken over: what it does
// then must not depend on other names.
func (b *builder) addRecord(z *snapshot.DNSZone, own *zone, r *snapshot.DNSRecord) {
	what := "zone " + z.Name + ": record " + r.Name + " " + r.Type
	name, err := packName(r.Name)
	if err != nil {
		b.fail("%s: %w", what, err)
		return
	}
	rrType, datas, err := recordData(r)
	if err != nil {
		b.fail("%s: %w", what, err)
		return
	}
	in, ttl := b.zoneOf(name), b.seconds(what, r.TTL)
	above, at := b.cutAbove(name, own)
	switch {
	case in != own:
		b.addAbove(what, name, in, own, rrType, datas, r)
	case rrType == dns.TypeSOA, rrType == dns.TypeNS && bytes.Equal(name, own.name):
		b.fail("%s: the zone's own NS and SOA are not records", what)
	case rrType == dns.TypeNS && at:
		b.addCut(what, name, own, ttl, datas)
	case above != nil && !(at && rrType == dns.TypeDS):
		b.addOccluded(what, name, rrType, ttl, datas)
	default:
		s := b.intern(what, rrType, ttl, datas)
		if _, hints := r.Kind(); hints {
			s = b.withHints(what, s)
		}
		b.addSet(b.node(name, own), what, s)
	}
}

// addAbove takes what a zone has of a name that lies in a zone of ours inside it. That zone answers for the name, but its DS
// set belongs to the zone above (RFC 4035 section 3.1.4.1); the delegation and its glue are of use to who transfers the zone.
func (b *builder) addAbove(what string, name []byte, in, own *zone, rrType uint16, datas [][]byte, r *snapshot.DNSRecord) {
	switch {
	case in == nil || in.parent != own:
		b.fail("%s lies outside the zone", what)
	case rrType == typeA || rrType == typeAAAA:
	case !bytes.Equal(name, in.name) || rrType != dns.TypeNS && rrType != dns.TypeDS:
		b.fail("%s lies outside the zone, in zone %s", what, in.text)
	case rrType == dns.TypeDS:
		b.ix.nodes.get(name).ds = b.intern(what, rrType, b.seconds(what, r.TTL), datas)
	}
}

// recordData parses presentation format into RDATA, uncompressed.
func recordData(r *snapshot.DNSRecord) (rrType uint16, datas [][]byte, err error) {
	kind, _ := r.Kind()
	if rrType, _, err = rrdata.Type(kind); err != nil {
		return 0, nil, fmt.Errorf("type %q: it %w", r.Type, err)
	}
	if len(r.Data) == 0 {
		return 0, nil, fmt.Errorf("it has no data")
	}
	for _, text := range r.Data {
		data, err := rrdata.Parse(rrType, text)
		if err != nil {
			return 0, nil, fmt.Errorf("data %q: it %w", text, err)
		}
		datas = append(datas, data.Wire)
	}
	return rrType, datas, nil
}

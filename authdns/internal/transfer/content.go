// Package transfer makes zones into what other name servers copy: it knows what a zone holds in each map, keeps what
// changed between them, and packs both into the messages of AXFR (RFC 5936) and IXFR (RFC 1995). Keys, sockets and clocks
// are the caller's.
package transfer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
	"steerpoint/snapshot"
)

// Content is what a zone holds, its SOA left out: records in wire form, uncompressed, in the order of their octets, each
// once.
type Content []string

// Source reads zones out of one map.
type Source struct {
	d      *snapshot.DNS
	byName map[string]int
	inner  map[int][]int                 // zones of ours right inside a zone
	hosts  map[int]map[string]*host      // name servers that lie in a zone, by name
	names  map[int][]snapshot.CopiedName // steered names in a zone; only of zones that are transferred
}

// host is a name server's addresses, merged over the zones that name it, as they are answered.
type host struct {
	addrs []netip.Addr
	ttl   time.Duration
}

// NewSource prepares a map for reading.
func NewSource(d *snapshot.DNS) *Source {
	s := &Source{d: d, byName: map[string]int{}, inner: map[int][]int{}, hosts: map[int]map[string]*host{}, names: map[int][]snapshot.CopiedName{}}
	for i := range d.Zones {
		s.byName[d.Zones[i].Name] = i
	}
	for i := range d.Zones {
		z := &d.Zones[i]
		if outer, ok := s.zoneOf(snapshot.Parent(z.Name)); ok && outer != i {
			s.inner[outer] = append(s.inner[outer], i)
		}
		for j := range z.NS {
			if at, ok := s.zoneOf(z.NS[j].Name); ok {
				s.addHost(at, &z.NS[j], z.NSTTL)
			}
		}
	}
	for i := range d.Services {
		for _, c := range d.Services[i].Copied() {
			if at, ok := s.zoneOf(c.Name); ok && d.Zones[at].Transfer != nil {
				s.names[at] = append(s.names[at], c)
			}
		}
	}
	return s
}

// zoneOf is the closest zone of ours at or above a name.
func (s *Source) zoneOf(name string) (int, bool) {
	for ; name != ""; name = snapshot.Parent(name) {
		if i, ok := s.byName[name]; ok {
			return i, true
		}
	}
	return 0, false
}

func (s *Source) addHost(zone int, ns *snapshot.NameServer, ttl time.Duration) {
	if s.hosts[zone] == nil {
		s.hosts[zone] = map[string]*host{}
	}
	h := s.hosts[zone][ns.Name]
	if h == nil {
		h = &host{ttl: ttl}
		s.hosts[zone][ns.Name] = h
	}
	h.ttl = min(h.ttl, ttl)
	for _, a := range ns.Addresses {
		if !slices.Contains(h.addrs, a) {
			h.addrs = append(h.addrs, a)
		}
	}
}

// Refused says why a zone is not transferred to anybody, "" if it is.
func (s *Source) Refused(zone int) string {
	switch t := s.d.Zones[zone].Transfer; {
	case t == nil:
		return "the zone has no transfer"
	case len(s.names[zone]) > 0 && !t.Default:
		return "the zone has steered names, and transfer.steered is refuse"
	default:
		return ""
	}
}

// Read gives what a zone holds.
func (s *Source) Read(zone int) (Content, error) {
	z := &s.d.Zones[zone]
	w := &writer{}
	w.nameServers(z)
	for name, h := range s.hosts[zone] {
		w.addresses(name, h.ttl, h.addrs)
	}
	records := snapshot.WithoutHints(z.Records)
	for i := range records {
		w.record(&records[i])
	}
	for _, inner := range s.inner[zone] {
		s.delegation(w, z, &s.d.Zones[inner])
	}
	for _, n := range s.names[zone] {
		w.steered(n)
	}
	if w.err != nil {
		return nil, fmt.Errorf("zone %s: %w", z.Name, w.err)
	}
	slices.Sort(w.out)
	return slices.Compact(w.out), nil
}

// delegation is what a copy of a zone needs of a zone of ours inside it: there the servers of both are not the same.
func (s *Source) delegation(w *writer, outer, inner *snapshot.DNSZone) {
	w.nameServers(inner)
	for i := range inner.NS {
		ns := &inner.NS[i]
		at, ok := s.zoneOf(ns.Name)
		if !ok || !within(ns.Name, outer.Name) || s.d.Zones[at].Name == outer.Name {
			continue // found by its own name, or in the zone anyhow
		}
		if h := s.hosts[at][ns.Name]; h != nil {
			w.addresses(ns.Name, h.ttl, h.addrs)
		}
	}
}

func within(name, zone string) bool {
	return name == zone || zone == "." || strings.HasSuffix(name, "."+zone)
}

// SOA is a zone's SOA record with a serial, in wire form.
func SOA(z *snapshot.DNSZone, serial uint32) (string, error) {
	w := &writer{}
	data := append(w.name(z.SOA.MName), w.name(z.SOA.RName)...)
	data = binary.BigEndian.AppendUint32(data, serial)
	for _, d := range [...]time.Duration{z.SOA.Refresh, z.SOA.Retry, z.SOA.Expire, z.SOA.Minimum} {
		data = binary.BigEndian.AppendUint32(data, uint32(d/time.Second))
	}
	w.add(w.name(z.Name), dns.TypeSOA, z.NSTTL, data)
	if w.err != nil {
		return "", fmt.Errorf("zone %s: SOA: %w", z.Name, w.err)
	}
	return w.out[0], nil
}

// writer collects records; the first error stays.
type writer struct {
	out []string
	err error
	buf []byte // of record
}

func (w *writer) name(text string) []byte {
	b, err := Name(text)
	if err != nil && w.err == nil {
		w.err = err
	}
	return b
}

// Name is the wire form of an absolute name, in lower case.
func Name(text string) ([]byte, error) {
	buf := make([]byte, 256)
	n, err := dns.PackDomainName(text, buf, 0, nil, false)
	if err != nil || !dns.IsFqdn(text) {
		return nil, fmt.Errorf("%q is not an absolute domain name", text)
	}
	for i, c := range buf[:n] {
		buf[i] = wire.Lower(c)
	}
	return bytes.Clone(buf[:n]), nil
}

func (w *writer) add(owner []byte, rrType uint16, ttl time.Duration, data []byte) {
	b := binary.BigEndian.AppendUint16(bytes.Clone(owner), rrType)
	b = binary.BigEndian.AppendUint16(b, wire.ClassIN)
	b = binary.BigEndian.AppendUint32(b, uint32(ttl/time.Second))
	b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
	w.out = append(w.out, string(append(b, data...)))
}

func (w *writer) nameServers(z *snapshot.DNSZone) {
	owner := w.name(z.Name)
	for i := range z.NS {
		w.add(owner, dns.TypeNS, z.NSTTL, w.name(z.NS[i].Name))
	}
}

func (w *writer) addresses(name string, ttl time.Duration, addrs []netip.Addr) {
	owner := w.name(name)
	for _, a := range addrs {
		rrType := dns.TypeAAAA
		if a.Is4() {
			rrType = dns.TypeA
		}
		w.add(owner, rrType, ttl, a.AsSlice())
	}
}

func (w *writer) steered(c snapshot.CopiedName) {
	if c.Target != "" {
		w.add(w.name(c.Name), dns.TypeCNAME, c.TTL, w.name(c.Target))
		return
	}
	w.addresses(c.Name, c.TTL, c.A)
	w.addresses(c.Name, c.TTL, c.AAAA)
}

// record adds a static record set.
func (w *writer) record(r *snapshot.DNSRecord) {
	if w.err != nil {
		return
	}
	owner := w.name(r.Name)
	if w.buf == nil {
		w.buf = make([]byte, dns.MaxMsgSize)
	}
	for _, text := range r.Data {
		rr, err := dns.NewRR(". 0 IN " + r.Type + " " + text)
		if err != nil || rr == nil {
			w.err = fmt.Errorf("record %s %s cannot be transferred: no other server could read %.60q: %w", r.Name, r.Type, text, err)
			return
		}
		n, err := dns.PackRR(rr, w.buf, 0, nil, false)
		if err != nil {
			w.err = fmt.Errorf("record %s %s: %w", r.Name, r.Type, err)
			return
		}
		w.add(owner, rr.Header().Rrtype, r.TTL, w.buf[rootOwner:n])
	}
}

// rootOwner is the length of a record with the root as its owner, its data left out.
const rootOwner = 11

package answer

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/wire"
	"steerpoint/snapshot"
)

// Type codes answers depend on.
const (
	typeA    = dns.TypeA
	typeAAAA = dns.TypeAAAA
	typeANY  = dns.TypeANY
)

// maxErrors bounds how many faults of one snapshot are told at once.
const maxErrors = 20

// builder collects an index and every fault found on the way.
type builder struct {
	ix    *Index
	zones map[string]*zone // by wire name
	same  map[string]*rrset
	hosts map[string]*host // name servers inside our zones, by wire name
	errs  []error
}

// host is a name server's addresses, merged over the zones that name it.
type host struct {
	a, aaaa []netip.Addr
	ttl     uint32
}

// Build validates a snapshot and makes its index. now is the instant, on the clock of Exchange.Now, at which the
// snapshot came: its Soonest times count from there. The error tells every fault, up to 20; its text begins with
// MAP_INVALID.
func Build(d *snapshot.DNS, tables []Table, now time.Duration) (*Index, error) {
	b := &builder{
		ix:    &Index{Version: d.Version, nodes: map[string]*node{}},
		zones: map[string]*zone{}, same: map[string]*rrset{}, hosts: map[string]*host{},
	}
	b.addZones(d)
	for i := range d.Zones {
		b.addRecords(&d.Zones[i])
	}
	for i := range d.Services {
		b.addService(&d.Services[i], tables, now)
	}
	b.linkWildcards()
	b.checkNodes()
	if len(b.errs) > 0 {
		return nil, fmt.Errorf("MAP_INVALID: map version %d is refused, the one before stays: %w", d.Version, errors.Join(b.errs...))
	}
	return b.ix, nil
}

func (b *builder) fail(format string, args ...any) {
	if len(b.errs) < maxErrors {
		b.errs = append(b.errs, fmt.Errorf(format, args...))
	}
}

// packName gives the wire form in lower case.
func packName(name string) ([]byte, error) {
	if !dns.IsFqdn(name) {
		return nil, fmt.Errorf("name %q is not absolute: it wants a final dot", name)
	}
	buf := make([]byte, 256)
	n, err := dns.PackDomainName(name, buf, 0, nil, false)
	if err != nil || n > 255 {
		return nil, fmt.Errorf("name %q is not a domain name", name)
	}
	buf = buf[:n]
	for i, c := range buf {
		buf[i] = wire.Lower(c)
	}
	return buf, nil
}

// seconds converts a TTL; RFC 2181 section 8 caps it.
func (b *builder) seconds(what string, d time.Duration) uint32 {
	if d < 0 || d > (1<<31-1)*time.Second {
		b.fail("%s is %s: want 0s to 2^31-1 seconds", what, d)
		return 0
	}
	return uint32(d / time.Second)
}

// zoneOf is the closest zone of ours at or above a wire name.
func (b *builder) zoneOf(name []byte) *zone {
	for {
		if z := b.zones[string(name)]; z != nil {
			return z
		}
		if len(name) <= 1 {
			return nil
		}
		name = name[1+int(name[0]):]
	}
}

// node returns the node of a name in z, making it and the empty non-terminals between it and the apex.
func (b *builder) node(name []byte, z *zone) *node {
	n := b.ix.nodes[string(name)]
	if n != nil {
		return n
	}
	n = &node{zone: z}
	b.ix.nodes[string(name)] = n
	if !bytes.Equal(name, z.name) {
		b.node(name[1+int(name[0]):], z)
	}
	return n
}

// owned makes the node of a name that must lie in some zone of ours.
func (b *builder) owned(what, name string) (*node, []byte) {
	w, err := packName(name)
	if err != nil {
		b.fail("%s: %w", what, err)
		return nil, nil
	}
	z := b.zoneOf(w)
	if z == nil {
		b.fail("%s: %s is in no zone of ours", what, name)
		return nil, nil
	}
	return b.node(w, z), w
}

func (b *builder) addSet(n *node, what string, s *rrset) {
	if old := n.set(s.rrType); old != nil {
		if old != s {
			b.fail("%s: %s records are defined twice, and differently", what, dns.TypeToString[s.rrType])
		}
		return
	}
	n.sets = append(n.sets, s)
}

// intern makes a record set of RDATAs; equal sets are one, so memory goes with the number of different answers.
func (b *builder) intern(what string, rrType uint16, ttl uint32, rdatas [][]byte) *rrset {
	s := &rrset{rrType: rrType, ttl: ttl, count: uint16(len(rdatas))}
	for _, rd := range rdatas {
		s.wire = appendRR(s.wire, pointerToQuestion, rrType, 0, rd)
		at := len(s.wire) - len(rd) - 6
		if at > 1<<16-1 {
			b.fail("%s: its %s records do not fit into one message", what, dns.TypeToString[rrType])
			break
		}
		s.ttlAt = append(s.ttlAt, uint16(at))
	}
	key := fmt.Sprintf("%d/%d/%s", rrType, ttl, s.wire)
	if old := b.same[key]; old != nil {
		return old
	}
	b.same[key] = s
	return s
}

func (b *builder) linkWildcards() {
	for name, n := range b.ix.nodes {
		if len(name) > 2 && name[:2] == "\x01*" {
			if parent := b.ix.nodes[name[2:]]; parent != nil {
				parent.wildcard = n
			}
		}
	}
}

// checkNodes finds what may not stand together at one name.
func (b *builder) checkNodes() {
	for name, n := range b.ix.nodes {
		text, _, err := dns.UnpackDomainName([]byte(name), 0)
		if err != nil {
			b.fail("name %x cannot be read: %w", name, err)
			continue
		}
		if n.set(dns.TypeCNAME) != nil && (len(n.sets) > 1 || n.service != nil) {
			b.fail("%s has a CNAME record and others: RFC 1034 section 3.6.2 allows nothing beside a CNAME", text)
		}
		if n.service == nil || len(n.sets) == 0 {
			continue
		}
		if n.set(typeA) != nil || n.set(typeAAAA) != nil {
			b.fail("%s is a name of service %s and has addresses of its own", text, n.service.name)
		}
		if n.service.hasCNAME() {
			b.fail("%s has records of its own, so service %s can answer there with addresses only, not with a name", text, n.service.name)
		}
	}
}

func (s *service) hasCNAME() bool {
	for i := range s.rules {
		for j := range s.rules[i].choices {
			if s.rules[i].choices[j].cname != nil {
				return true
			}
		}
	}
	return false
}

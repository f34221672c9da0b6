package answer

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
	now   time.Duration
	zones map[string]*zone // by wire name
	hosts map[string]*host // name servers inside our zones, by wire name
	errs  []error
}

// host is a name server's addresses, merged over the zones that name it.
type host struct {
	a, aaaa []netip.Addr
	ttl     uint32
}

// Build validates a snapshot and makes its index. now is the instant, on the clock of Exchange.Now, at which the
// snapshot came: what is left of its deadlines counts from there. The error tells every fault, up to 20; its text
// begins with MAP_INVALID.
//
// old is the index in use, or nil. What it has of a service that is the same in both snapshots is taken over, deadlines
// included; and its names, if none changed. Calls with one old must not overlap.
func Build(d *snapshot.DNS, tables []Table, now time.Duration, old *Index) (*Index, error) {
	b := &builder{ix: &Index{Version: d.Version, d: d}, now: now}
	if old == nil {
		old = &Index{d: &snapshot.DNS{}, pool: newPool()}
	}
	b.ix.pool = old.pool
	b.addServices(tables, old)
	if old.names != nil && b.sameNames(old) {
		b.ix.names = old.names
	} else {
		b.addNames(d)
	}
	b.checkServices()
	if len(b.errs) > 0 {
		return nil, fmt.Errorf("MAP_INVALID: map version %d is refused, the one before stays: %w", d.Version, errors.Join(b.errs...))
	}
	b.ix.pool.sweep(b.ix)
	return b.ix, nil
}

// sameNames reports whether the snapshots have the same zones and names, in the same order.
func (b *builder) sameNames(old *Index) bool {
	d := b.ix.d
	if len(d.Services) != len(old.d.Services) {
		return false
	}
	for i := range d.Services {
		if b.ix.services[i] == old.services[i] {
			continue // taken over: equal in all
		}
		s, o := &d.Services[i], &old.d.Services[i]
		if s.Name != o.Name || s.CNAME != o.CNAME || !slices.Equal(s.Hosted, o.Hosted) {
			return false
		}
	}
	return snapshot.EqualZones(d.Zones, old.d.Zones)
}

// addNames makes the names of zones and services.
func (b *builder) addNames(d *snapshot.DNS) {
	b.ix.names = &names{nodes: map[string]*node{}, ownRecords: make([]bool, len(d.Services))}
	b.zones, b.hosts = map[string]*zone{}, map[string]*host{}
	b.addZones(d)
	for i := range d.Zones {
		b.addRecords(&d.Zones[i])
	}
	for i := range d.Services {
		b.nameService(i)
	}
	b.linkWildcards()
	b.checkNodes()
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
	return b.ix.pool.share(s)
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
		if n.set(dns.TypeCNAME) != nil && (len(n.sets) > 1 || n.service != 0) {
			b.fail("%s has a CNAME record and others: RFC 1034 section 3.6.2 allows nothing beside a CNAME", text)
		}
		if n.service == 0 || len(n.sets) == 0 {
			continue
		}
		b.ix.ownRecords[n.service-1] = true
		if n.set(typeA) != nil || n.set(typeAAAA) != nil {
			b.fail("%s is a name of service %s and has addresses of its own", text, b.ix.d.Services[n.service-1].Name)
		}
	}
}

// checkServices finds services that answer with a name where there are records beside.
func (b *builder) checkServices() {
	for i, s := range b.ix.services {
		if s != nil && s.named && b.ix.ownRecords[i] {
			b.fail("a name of service %s has records of its own, so the service can answer there with addresses only, not with a name", s.name)
		}
	}
}

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

// maxTTL is the longest TTL: RFC 2181 section 8.
const maxTTL = (1<<31 - 1) * time.Second

// maxErrors bounds how many faults of one snapshot are told at once.
const maxErrors = 20

// builder collects an index and every fault found on the way.
type builder struct {
	ix    *Index
	old   *Index // what is taken over from
	now   time.Duration
	zones map[string]*zone // by wire name
	hosts map[string]*host // name servers inside our zones, by wire name
	cuts  map[string]*cut  // delegations, by wire name
	glue  map[string][]*rrset
	errs  []error

	changes  []change           // of services
	ownPages map[int32]struct{} // those of ix.pages that are not old's; nil: ix.pages is old's
	lists    map[*snapshot.DNSRule]*answers
	// fresh are the nodes made or copied while names are changed; nil: all are made anew.
	fresh   map[*node]struct{}
	byZones bool // what is added now is of zones
	scratch []byte
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
// old is the index in use, or nil. What it has of services, names and records that are the same in both snapshots is taken
// over, deadlines of services included; what a change costs goes with the change, but for a walk over the list of
// services. Calls with one old must not overlap.
func Build(d *snapshot.DNS, tables []Table, now time.Duration, old *Index) (*Index, error) {
	if old == nil {
		old = &Index{d: &snapshot.DNS{}, pool: newPool()}
	}
	b := &builder{
		ix:  &Index{Version: d.Version, d: d, tables: tables, pool: old.pool},
		old: old, now: now, lists: map[*snapshot.DNSRule]*answers{},
	}
	if slices.Contains(d.Services, nil) {
		return nil, fmt.Errorf("MAP_INVALID: map version %d is refused, the one before stays: a service of it is null", d.Version)
	}
	b.addServices(old)
	if !b.changeNames() {
		b.addNames(d)
	}
	if len(b.errs) > 0 {
		return nil, fmt.Errorf("MAP_INVALID: map version %d is refused, the one before stays: %w", d.Version, errors.Join(b.errs...))
	}
	if b.ix.names != old.names {
		b.ix.nodes.seal()
	}
	b.ix.pool.sweep(b.ix)
	return b.ix, nil
}

// addNames makes the names of zones and services.
func (b *builder) addNames(d *snapshot.DNS) {
	b.zones, b.hosts = map[string]*zone{}, map[string]*host{}
	b.ix.names = &names{nodes: newNodeTable(countNames(d)), zones: b.zones}
	b.byZones = true
	b.addZones(d)
	b.numberZones(d)
	b.byZones = false
	b.ix.nodes.each(func(n *node) { n.fixed, n.ofZones = true, int16(len(n.sets)) })
	for i := range d.Zones {
		b.addRecords(&d.Zones[i])
	}
	for i, s := range d.Services {
		b.nameService(s, b.ix.order[i])
	}
	b.linkWildcards()
	b.addCuts()
	b.ix.cuts = b.cuts
	b.ix.nodes.each(b.checkNode)
}

// countNames is about how many names a map has.
func countNames(d *snapshot.DNS) int {
	n := 0
	for i := range d.Zones {
		n += 2 + len(d.Zones[i].Records)
	}
	for _, s := range d.Services {
		n += 1 + len(s.Hosted) + len(s.Flat)
	}
	return n
}

func (b *builder) fail(format string, args ...any) {
	if len(b.errs) < maxErrors {
		b.errs = append(b.errs, fmt.Errorf(format, args...))
	}
}

// packName gives the wire form in lower case.
func packName(name string) ([]byte, error) { return appendName(nil, name) }

// appendName appends it to dst, which is empty.
func appendName(dst []byte, name string) ([]byte, error) {
	if out, ok := appendPlainName(dst, name); ok {
		return out, nil
	}
	if !dns.IsFqdn(name) {
		return nil, fmt.Errorf("name %q is not absolute: it wants a final dot", name)
	}
	buf := make([]byte, 256)
	n, err := dns.PackDomainName(name, buf, 0, nil, false)
	if err != nil || n > 255 {
		return nil, fmt.Errorf("name %q is not a domain name", name)
	}
	for _, c := range buf[:n] {
		dst = append(dst, wire.Lower(c))
	}
	return dst, nil
}

// appendPlainName is appendName for names without escapes, which nearly all are.
func appendPlainName(dst []byte, name string) ([]byte, bool) {
	if len(name) < 2 || len(name) > 254 || name[len(name)-1] != '.' {
		return dst, false
	}
	dst = append(dst, 0)
	at := 0 // of the length of the label
	for i := range len(name) {
		switch c := name[i]; {
		case c == '.':
			n := len(dst) - at - 1
			if n == 0 || n > 63 {
				return dst[:0], false
			}
			dst[at], at = byte(n), len(dst)
			dst = append(dst, 0)
		case c == '\\' || c < '!' || c > '~':
			return dst[:0], false
		default:
			dst = append(dst, wire.Lower(c))
		}
	}
	return dst, true
}

// seconds converts a TTL; RFC 2181 section 8 caps it.
func (b *builder) seconds(what string, d time.Duration) uint32 {
	if d < 0 || d > maxTTL {
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
	n := b.ix.nodes.get(name)
	if n != nil {
		return n
	}
	n = newNode(name, z)
	b.ix.nodes.put(n)
	if b.fresh != nil {
		b.fresh[n] = struct{}{}
	}
	if !bytes.Equal(name, z.name) {
		up := b.mine(b.node(name[1+int(name[0]):], z))
		up.children++
		if isWildcard(n.name) {
			up.wildcard = n
		}
	}
	return n
}

func isWildcard(name string) bool { return len(name) > 2 && name[:2] == "\x01*" }

// mine is a node that may be changed: n itself, or a copy in its place if it is another index's, too.
func (b *builder) mine(n *node) *node {
	if b.fresh == nil {
		return n
	}
	if _, ok := b.fresh[n]; ok {
		return n
	}
	if now := b.ix.nodes.get([]byte(n.name)); now != n {
		return b.mine(now)
	}
	made := newNode([]byte(n.name), n.zone)
	own := made.name
	*made = *n
	made.name, made.sets = own, slices.Clone(n.sets)
	b.ix.nodes.put(made)
	b.fresh[made] = struct{}{}
	if isWildcard(n.name) {
		if up := b.ix.nodes.get([]byte(n.name[2:])); up != nil {
			b.mine(up).wildcard = made
		}
	}
	return made
}

// ownedBy makes the node of a name that must lie in some zone of ours; kind and what say whose name it is. The wire form is
// valid until the next call.
func (b *builder) ownedBy(kind, what, name string) (*node, []byte) {
	w, err := appendName(b.scratch[:0], name)
	if err != nil {
		b.fail("%s%s: %w", kind, what, err)
		return nil, nil
	}
	b.scratch = w
	z := b.zoneOf(w)
	if z == nil {
		b.fail("%s%s: %s is in no zone of ours", kind, what, name)
		return nil, nil
	}
	return b.node(w, z), w
}

// addSet adds a record set to a node: one of zones behind those there are, a record's by its type behind them, so that a
// node is the same whatever the order in which it came to its sets.
func (b *builder) addSet(n *node, what string, s *rrset) {
	n = b.mine(n)
	if old := n.set(s.rrType); old != nil {
		if old != s {
			b.fail("%s: %s records are defined twice, and differently", what, dns.TypeToString[s.rrType])
		}
		b.ix.twice = b.ix.twice || !b.byZones
		return
	}
	at := len(n.sets)
	for !b.byZones && at > int(n.ofZones) && n.sets[at-1].rrType > s.rrType {
		at--
	}
	n.sets = slices.Insert(n.sets, at, s)
	n.renames = n.renames || s.rrType == dns.TypeDNAME
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
	b.ix.nodes.each(func(n *node) {
		if isWildcard(n.name) {
			if up := b.ix.nodes.get([]byte(n.name[2:])); up != nil {
				up.wildcard = n
			}
		}
	})
}

// checkNode finds what may not stand together at one name.
func (b *builder) checkNode(n *node) {
	if len(n.sets) == 0 {
		return
	}
	if n.set(dns.TypeCNAME) != nil && (len(n.sets) > 1 || n.service != 0) {
		b.fail("%s has a CNAME record and others: RFC 1034 section 3.6.2 allows nothing beside a CNAME", nameText(n.name))
	}
	s := b.ix.at(n)
	if s == nil {
		return
	}
	if n.set(typeA) != nil || n.set(typeAAAA) != nil {
		b.fail("%s is a name of service %s and has addresses of its own", nameText(n.name), s.src.Name)
	}
	if s.named {
		b.fail("a name of service %s has records of its own, so the service can answer there with addresses only, not with a name", s.src.Name)
	}
}

// nameText is a name in wire form for people.
func nameText(name string) string {
	text, _, err := dns.UnpackDomainName([]byte(name), 0)
	if err != nil {
		return fmt.Sprintf("%x", name)
	}
	return text
}

package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"steerpoint/geo"
)

// sum is a SHA-256; zero: not computed.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

// canon collects values in a form that is the same on all machines and in all versions: what a digest is taken of. Its
// fields are those of the first version that had deltas. A field added to a snapshot later must not be written here,
// or nodes of the version before could never agree: it wants a digest of its own beside this one.
type canon struct{ buf []byte }

func (c *canon) sum() sum { return sha256.Sum256(c.buf) }

func (c *canon) number(n int64) { c.buf = binary.AppendVarint(c.buf, n) }

func (c *canon) count(n int) { c.number(int64(n)) }

func (c *canon) time(d time.Duration) { c.number(int64(d)) }

func (c *canon) version(n uint64) { c.buf = binary.AppendUvarint(c.buf, n) }

func (c *canon) text(s string) {
	c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *canon) texts(list []string) {
	c.count(len(list))
	for _, s := range list {
		c.text(s)
	}
}

func (c *canon) truth(b bool) {
	if b {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
}

func (c *canon) addresses(list []netip.Addr) {
	c.count(len(list))
	for _, a := range list {
		at := len(c.buf)
		c.buf = append(c.buf, 0)
		c.buf, _ = a.AppendBinary(c.buf) // it never fails; with the zone, if there is one
		c.buf[at] = byte(len(c.buf) - at - 1)
	}
}

func (c *canon) zone(z *DNSZone) {
	c.text(z.Name)
	c.time(z.NSTTL)
	c.count(len(z.NS))
	for i := range z.NS {
		c.text(z.NS[i].Name)
		c.addresses(z.NS[i].Addresses)
	}
	c.text(z.SOA.MName)
	c.text(z.SOA.RName)
	for _, d := range [...]time.Duration{z.SOA.Refresh, z.SOA.Retry, z.SOA.Expire, z.SOA.Minimum} {
		c.time(d)
	}
	c.count(len(z.Records))
	for i := range z.Records {
		r := &z.Records[i]
		c.text(r.Name)
		c.text(r.Type)
		c.time(r.TTL)
		c.texts(r.Data)
	}
}

func (c *canon) service(s *DNSService) {
	c.text(s.Name)
	c.text(s.Zone)
	c.text(s.CNAME)
	c.texts(s.Hosted)
	c.count(s.Table)
	c.time(s.NegativeTTL)
	c.time(s.Made)
	c.version(s.Revision)
	c.count(len(s.Rules))
	for i := range s.Rules {
		c.rule(&s.Rules[i])
	}
	c.flat(s)
}

// flat writes what a later version added, and only where there is any: a service without is the same to all versions.
func (c *canon) flat(s *DNSService) {
	if len(s.Flat) == 0 {
		return
	}
	c.text("flat")
	c.texts(s.Flat)
	for i := range s.Rules {
		for j := range s.Rules[i].Choices {
			c.addresses(s.Rules[i].Choices[j].FlatA)
			c.addresses(s.Rules[i].Choices[j].FlatAAAA)
		}
	}
}

func (c *canon) rule(r *DNSRule) {
	c.text(r.Rule)
	c.text(r.Scope)
	c.version(r.Decision)
	c.truth(r.Degraded)
	c.time(r.TTL)
	c.time(r.MinTTL)
	c.time(r.Soonest)
	c.count(len(r.Choices))
	for i := range r.Choices {
		x := &r.Choices[i]
		c.text(x.Edge)
		c.count(x.Weight)
		c.text(x.Target)
		c.addresses(x.A)
		c.addresses(x.AAAA)
		c.truth(x.HasA)
		c.truth(x.HasAAAA)
	}
}

func (c *canon) task(t *ProbeTask) {
	for _, s := range [...]string{t.ID, t.Kind, t.Address, t.URL, t.Method, t.Body} {
		c.text(s)
	}
	c.count(t.Port)
	for _, d := range [...]time.Duration{t.Interval, t.Timeout, t.MaxLatency, t.SlowAbove} {
		c.time(d)
	}
	c.count(len(t.Statuses))
	for _, s := range t.Statuses {
		c.count(s.Min)
		c.count(s.Max)
	}
	c.truth(t.TLSVerify)
	c.count(t.Fall)
	c.count(t.Rise)
}

// tableSum is the content hash of a table; that of a missing one is zero.
func tableSum(t *geo.Table) sum {
	if t == nil {
		return sum{}
	}
	data, err := t.MarshalBinary()
	if err != nil { // the zero Table: nobody can send it either
		return sum{}
	}
	return sha256.Sum256(data)
}

func sumService(s *DNSService) sum {
	var c canon
	c.service(s)
	return c.sum()
}

func sumZones(zones []DNSZone) sum {
	var c canon
	for i := range zones {
		c.zone(&zones[i])
	}
	return c.sum()
}

// summed is the snapshot if it is known, or a copy of it that is and shares everything else.
func (d *DNS) summed() *DNS {
	if d.known == d {
		return d
	}
	out := new(DNS)
	*out = *d
	out.known, out.ordered = out, d.whole() && orderedServices(d.Services)
	if out.zonesSum == (sum{}) {
		out.zonesSum = sumZones(d.Zones)
	}
	if out.tableSums == nil {
		out.tableSums = make([]sum, len(d.Tables))
		for i, t := range d.Tables {
			out.tableSums[i] = tableSum(t)
		}
	}
	for i, s := range d.Services {
		if s == nil || s.sum != (sum{}) {
			continue
		}
		if &out.Services[0] == &d.Services[0] { // d is not ours to write to
			out.Services = slices.Clone(d.Services)
		}
		summed := *s
		summed.sum = sumService(s)
		out.Services[i] = &summed
	}
	return out
}

// digest is the sum over the whole snapshot; d is summed. It is taken of a quarter of a megabyte at a time: with a million services it
// would be the largest thing a change makes.
func (d *DNS) digest() sum {
	const chunk = 1 << 18
	c := canon{buf: make([]byte, 0, min(chunk, 64+(len(d.Services)+len(d.Tables)+1)*sha256.Size)+sha256.Size)}
	c.version(d.Version)
	c.number(d.Created.UnixNano())
	c.time(d.At)
	c.buf = append(c.buf, d.zonesSum[:]...)
	c.count(len(d.Tables))
	for i := range d.tableSums {
		c.buf = append(c.buf, d.tableSums[i][:]...)
	}
	c.count(len(d.Services))
	h := sha256.New()
	for _, s := range d.Services {
		if s == nil { // a map that nobody compiled
			s = &DNSService{}
		}
		if c.buf = append(c.buf, s.sum[:]...); len(c.buf) >= chunk {
			_, _ = h.Write(c.buf) // a hash takes everything
			c.buf = c.buf[:0]
			runtime.Gosched() // where there is one processor, queries wait for it meanwhile
		}
	}
	_, _ = h.Write(c.buf)
	return sum(h.Sum(nil))
}

// Digest is a hash in hex over everything the snapshot says, equal on all machines for equal snapshots.
func (d *DNS) Digest() string { return d.summed().digest().String() }

// whole reports whether no service is missing: bytes of who knows where may hold null for one.
func (d *DNS) whole() bool { return !slices.Contains(d.Services, nil) }

// Digest is a hash in hex over everything the snapshot says, equal on all machines for equal snapshots.
func (p *Probe) Digest() string {
	c := canon{buf: make([]byte, 0, 64+len(p.Tasks)*256)}
	c.version(p.Version)
	c.text(p.Point)
	c.count(len(p.Tasks))
	for i := range p.Tasks {
		c.task(&p.Tasks[i])
	}
	return c.sum().String()
}

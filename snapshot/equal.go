package snapshot

import (
	"net/netip"
	"slices"
	"time"
)

// Equal reports whether two services are the same in every field; empty lists are equal to missing ones.
func (s *DNSService) Equal(o *DNSService) bool {
	if s == nil || o == nil || s == o {
		return s == o
	}
	return s.Made == o.Made && s.Revision == o.Revision && s.Table == o.Table && s.equalNames(o) &&
		s.NegativeTTL == o.NegativeTTL && sameSlice(s.Rules, o.Rules, (*DNSRule).equal)
}

func (s *DNSService) equalNames(o *DNSService) bool {
	return s.Name == o.Name && s.Zone == o.Zone && s.CNAME == o.CNAME && slices.Equal(s.Hosted, o.Hosted) && slices.Equal(s.Flat, o.Flat)
}

// sameAnswers reports whether two compilations of a service answer alike at now and for ever after: Made and Revision
// are left out, and deadlines are compared as instants, those that are over as none.
func (s *DNSService) sameAnswers(o *DNSService, now time.Duration) bool {
	if s.Table != o.Table || !s.equalNames(o) || s.NegativeTTL != o.NegativeTTL || len(s.Rules) != len(o.Rules) {
		return false
	}
	for i := range s.Rules {
		if s.deadline(i, now) != o.deadline(i, now) || !s.Rules[i].equalBut(&o.Rules[i]) {
			return false
		}
	}
	return true
}

// deadline is the instant a rule's Soonest stands for; 0: none, or over at now.
func (s *DNSService) deadline(rule int, now time.Duration) time.Duration {
	at := s.Made + s.Rules[rule].Soonest
	if s.Rules[rule].Soonest == 0 || at <= now {
		return 0
	}
	return at
}

func (r *DNSRule) equal(o *DNSRule) bool { return r.Soonest == o.Soonest && r.equalBut(o) }

// equalBut leaves out Soonest.
func (r *DNSRule) equalBut(o *DNSRule) bool {
	return r.Rule == o.Rule && r.Scope == o.Scope && r.Decision == o.Decision && r.Degraded == o.Degraded &&
		r.TTL == o.TTL && r.MinTTL == o.MinTTL && sameSlice(r.Choices, o.Choices, (*DNSChoice).equal)
}

func (c *DNSChoice) equal(o *DNSChoice) bool {
	return c.Edge == o.Edge && c.Weight == o.Weight && c.Target == o.Target && c.HasA == o.HasA && c.HasAAAA == o.HasAAAA &&
		slices.Equal(c.A, o.A) && slices.Equal(c.AAAA, o.AAAA) && slices.Equal(c.FlatA, o.FlatA) && slices.Equal(c.FlatAAAA, o.FlatAAAA)
}

// Equal reports whether two zones are the same in every field; empty lists are equal to missing ones.
func (z *DNSZone) Equal(o *DNSZone) bool {
	return z.Name == o.Name && z.SOA == o.SOA && z.NSTTL == o.NSTTL && z.Transfer.Equal(o.Transfer) &&
		sameSlice(z.NS, o.NS, (*NameServer).equal) && sameSlice(z.Records, o.Records, (*DNSRecord).Equal)
}

// EqualZones reports whether two lists of zones are the same, in the same order.
func EqualZones(a, b []DNSZone) bool { return sameSlice(a, b, (*DNSZone).Equal) }

func (n *NameServer) equal(o *NameServer) bool {
	return n.Name == o.Name && slices.Equal[[]netip.Addr](n.Addresses, o.Addresses)
}

// Equal reports whether two record sets are the same in every field; empty lists are equal to missing ones.
func (r *DNSRecord) Equal(o *DNSRecord) bool {
	return r.Name == o.Name && r.Type == o.Type && r.TTL == o.TTL && slices.Equal(r.Data, o.Data)
}

// sameSlice compares lists, at no cost when they share their memory, as unchanged parts of snapshots do.
func sameSlice[T any](a, b []T, equal func(*T, *T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !equal(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// Equal reports whether two snapshots are the same in every field, tables by content; instants are compared as such,
// and empty lists are equal to missing ones.
func (d *DNS) Equal(o *DNS) bool {
	if d == nil || o == nil {
		return d == o
	}
	if !d.Sealed.Equal(o.Sealed) || d.Signing != o.Signing && d.Signing.digest() != o.Signing.digest() {
		return false
	}
	if d.Version != o.Version || !d.Created.Equal(o.Created) || d.At != o.At || !EqualZones(d.Zones, o.Zones) ||
		!slices.EqualFunc(d.Services, o.Services, (*DNSService).Equal) || len(d.Tables) != len(o.Tables) ||
		!slices.Equal(d.Serials, o.Serials) {
		return false
	}
	for i := range d.Tables {
		if d.Tables[i] != o.Tables[i] && tableSum(d.Tables[i]) != tableSum(o.Tables[i]) {
			return false
		}
	}
	return true
}

// Equal reports whether two snapshots are the same in every field; empty lists are equal to missing ones.
func (p *Probe) Equal(o *Probe) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Version == o.Version && p.Point == o.Point && sameSlice(p.Tasks, o.Tasks, (*ProbeTask).equal)
}

func (t *ProbeTask) equal(o *ProbeTask) bool {
	return t.ID == o.ID && t.Kind == o.Kind && t.Address == o.Address && t.Port == o.Port && t.URL == o.URL &&
		t.Method == o.Method && t.Interval == o.Interval && t.Timeout == o.Timeout && slices.Equal(t.Statuses, o.Statuses) &&
		t.Body == o.Body && t.MaxLatency == o.MaxLatency && t.Family == o.Family && t.CertDays == o.CertDays && t.TLSVerify == o.TLSVerify && t.SlowAbove == o.SlowAbove &&
		t.Fall == o.Fall && t.Rise == o.Rise
}

package wire

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/internal/pki"
)

// maxBuckets bounds the addresses a rateLimit remembers. When it is full, those whose bucket is full again are
// forgotten; when none is, a new address is let through: the limit protects from one address, not from a thousand.
const maxBuckets = 10_000

// rateLimit lets each address do something so many times a minute, in a burst or spread.
type rateLimit struct {
	perMinute int

	mu      sync.Mutex
	buckets map[netip.Prefix]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

func newRateLimit(perMinute int) *rateLimit {
	return &rateLimit{perMinute: perMinute, buckets: map[netip.Prefix]bucket{}}
}

// allow takes one from the bucket of an address, if there is one.
func (l *rateLimit) allow(addr netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	site := siteOf(addr)
	b, ok := l.buckets[site]
	if !ok {
		if len(l.buckets) >= maxBuckets {
			l.forget(now)
		}
		if len(l.buckets) >= maxBuckets {
			return true
		}
		b = bucket{left: float64(l.perMinute), at: now}
	}
	b.left = l.refilled(b, now)
	b.at = now
	allowed := b.left >= 1
	if allowed {
		b.left--
	}
	l.buckets[site] = b
	return allowed
}

func (l *rateLimit) refilled(b bucket, now time.Time) float64 {
	return min(float64(l.perMinute), b.left+max(0, now.Sub(b.at).Minutes())*float64(l.perMinute))
}

func (l *rateLimit) forget(now time.Time) {
	for site, b := range l.buckets {
		if l.refilled(b, now) >= float64(l.perMinute) {
			delete(l.buckets, site)
		}
	}
}

// siteOf is what one machine can have many of: a /64 of IPv6, one address of IPv4.
func siteOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	site, err := addr.Prefix(bits)
	if err != nil { // no address at all: all of those share one bucket
		return netip.Prefix{}
	}
	return site
}

// door counts connections and closes those beyond the limits. A connection is a stranger until a call on it showed a
// good certificate, so that whoever has none cannot take the places of nodes.
type door struct {
	net.Listener
	metrics        *metrics
	max, strangers int64
	perSite        int
	open, unproven atomic.Int64

	mu    sync.Mutex
	sites map[netip.Prefix]int // strangers by where they come from
}

// visitor is one connection.
type visitor struct {
	net.Conn
	door   *door
	site   netip.Prefix
	proven atomic.Bool
	closed atomic.Bool
	// node is whose certificate the connection showed, once its signatures were checked: what a connection showed does
	// not change, and the check costs more than all else of a call.
	node atomic.Pointer[pki.Identity]
}

func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limit := ""
		switch {
		case d.open.Load() >= d.max:
			limit = "connections"
		case d.unproven.Load() >= d.strangers:
			limit = "strangers"
		}
		site := siteOf(addressOf(c))
		if limit == "" && !d.enter(site) {
			limit = "address"
		}
		if limit == "" {
			d.open.Add(1)
			d.unproven.Add(1)
			d.metrics.connections.Inc()
			return &visitor{Conn: c, door: d, site: site}, nil
		}
		d.metrics.turnedAway.WithLabelValues(limit).Inc()
		_ = c.Close() // nobody is there to be told
	}
}

// enter takes a stranger's place at its site, if there is one.
func (d *door) enter(site netip.Prefix) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sites[site] >= d.perSite {
		return false
	}
	if d.sites == nil {
		d.sites = map[netip.Prefix]int{}
	}
	d.sites[site]++
	return true
}

func (d *door) leave(site netip.Prefix) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sites[site]--; d.sites[site] <= 0 {
		delete(d.sites, site)
	}
}

// addressOf is where a connection comes from; the zero address when that is none.
func addressOf(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

// prove takes a connection off the strangers.
func (v *visitor) prove() {
	if v.proven.CompareAndSwap(false, true) {
		v.door.unproven.Add(-1)
		v.door.leave(v.site)
	}
}

func (v *visitor) Close() error {
	if v.closed.CompareAndSwap(false, true) {
		v.prove()
		v.door.open.Add(-1)
		v.door.metrics.connections.Dec()
	}
	return v.Conn.Close()
}

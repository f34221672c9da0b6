package authdns

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/authdns/internal/transfer"
	"steerpoint/snapshot"
)

// transfers keeps what other name servers copy of the zones in step with the map that answers. It works behind the swap,
// on a goroutine of its own: no query waits for it, but a transfer waits until it has come as far as the map.
type transfers struct {
	log      *slog.Logger
	notifier *notifier

	// keys are those of the map that answers, of each zone by wire name: what is signed is never judged by older ones.
	keys atomic.Pointer[keyring]

	mu     sync.Mutex
	newest *snapshot.DNS
	anew   bool   // newest is not a later version of the one before
	taken  uint64 // maps so far

	wake  chan struct{} // 1 deep
	state atomic.Pointer[copies]
}

// copies is what there is to copy of one map. It is never changed.
type copies struct {
	taken uint64               // which of the maps it is of
	zones map[string]*zoneCopy // every zone of the map, by wire name
	next  chan struct{}        // closed when this is not the newest any more
}

// zoneCopy is one zone as others may copy it.
type zoneCopy struct {
	text    string
	allow   *snapshot.DNSTransfer // nil: nobody
	refused string                // why nobody gets it, whoever is allowed; then zone is nil
	zone    *transfer.Zone
}

func newTransfers(n *notifier, log *slog.Logger) *transfers {
	t := &transfers{log: log, notifier: n, wake: make(chan struct{}, 1)}
	t.state.Store(&copies{next: make(chan struct{})})
	t.keys.Store(&keyring{})
	return t
}

// take notes the map that answers from now on. It waits for nothing. anew: it is of a control that began anew, or from
// disk, so that its serials do not continue those before.
func (t *transfers) take(d *snapshot.DNS, anew bool) {
	t.mu.Lock()
	t.newest, t.anew = d, t.anew || anew
	t.taken++
	t.mu.Unlock()
	signal(t.wake)
}

// run follows the map until ctx ends.
func (t *transfers) run(ctx context.Context) {
	defer t.notifier.wait()
	defer t.release()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		t.mu.Lock()
		d, anew, taken := t.newest, t.anew, t.taken
		t.anew = false
		t.mu.Unlock()
		before := t.state.Load()
		now := t.follow(before, d, taken, anew)
		t.state.Store(now)
		close(before.next)
		t.announce(ctx, before, now)
	}
}

// release lets nobody wait any more: what there is to copy stays as it is.
func (t *transfers) release() {
	before := t.state.Load()
	last := *before
	last.taken, last.next = math.MaxUint64, make(chan struct{})
	t.state.Store(&last)
	close(before.next)
}

// await is what there is to copy of the map that answers now, or of an older one if that does not come by the deadline;
// ok is false then.
func (t *transfers) await(deadline time.Time) (now *copies, ok bool) {
	t.mu.Lock()
	wanted := t.taken
	t.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		if now = t.state.Load(); now.taken >= wanted {
			return now, true
		}
		select {
		case <-now.next:
		case <-timer.C:
			return now, false
		}
	}
}

// behind reports whether copies are not of the map that answers.
func (t *transfers) behind(c *copies) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return c.taken < t.taken
}

// follow makes the copies of a map. Zones whose serial is the one before are taken over, unless it may be another's.
func (t *transfers) follow(before *copies, d *snapshot.DNS, taken uint64, anew bool) *copies {
	now := &copies{taken: taken, zones: map[string]*zoneCopy{}, next: make(chan struct{})}
	var source *transfer.Source
	for i := range d.Zones {
		z := &d.Zones[i]
		name, err := transfer.Name(z.Name)
		if err != nil {
			continue // no map with such a zone is ever swapped in
		}
		c := &zoneCopy{text: z.Name, allow: z.Transfer}
		now.zones[string(name)] = c
		old := before.zones[string(name)]
		switch {
		case z.Transfer == nil:
		case d.Signing.Signs(z.Name):
			c.refused = "it is signed: signatures are made as we answer"
		case i < len(d.Serials) && d.Serials[i] == 0:
			// Only what is copied has a serial of its own.
			c.refused = "steered names in it are not transferred (transfer.steered)"
		case !anew && old != nil && old.zone != nil && old.zone.Serial == d.Serial(i):
			c.zone = old.zone
		default:
			if source == nil {
				source = transfer.NewSource(d)
			}
			t.read(c, old, source, d, i, name)
		}
	}
	return now
}

// read makes the newest version of a zone.
func (t *transfers) read(c, old *zoneCopy, source *transfer.Source, d *snapshot.DNS, zone int, name []byte) {
	if c.refused = source.Refused(zone); c.refused != "" {
		return
	}
	content, err := source.Read(zone)
	soa, soaErr := transfer.SOA(&d.Zones[zone], d.Serial(zone))
	if err := errors.Join(err, soaErr); err != nil {
		c.refused = err.Error()
		t.log.Error("a zone cannot be transferred: secondaries keep what they have", "zone", c.text, "error", err)
		return
	}
	var before *transfer.Zone
	if old != nil {
		before = old.zone
	}
	if before != nil && before.Serial == d.Serial(zone) && before.SOA == soa && slices.Equal(before.Content, content) {
		c.zone = before
		return
	}
	c.zone = transfer.Next(before, name, d.Serial(zone), soa, content)
}

// announce tells the secondaries of what changed, or is new here: after a start nobody knows what they have.
func (t *transfers) announce(ctx context.Context, before, now *copies) {
	keys := t.keys.Load()
	for name, c := range now.zones {
		if c.zone == nil {
			continue
		}
		if old := before.zones[name]; old != nil && old.zone == c.zone && slices.Equal(old.allow.To, c.allow.To) {
			continue
		}
		for _, to := range c.allow.To {
			t.notifier.tell(ctx, news{
				zone: c.text, serial: c.zone.Serial, soa: c.zone.SOA,
				to: netip.AddrPortFrom(to.Address, to.Port), keyName: to.Key, key: keys.named(name, to.Key),
			})
		}
	}
}

// allows reports whether a client may copy the zone. key is the key that its message is signed by, in wire form; nil: none.
func (z *zoneCopy) allows(client netip.Addr, key []byte) bool {
	signed := func(text string) bool {
		name, err := transfer.Name(text)
		return text == "" || err == nil && key != nil && string(name) == string(key)
	}
	for _, to := range z.allow.To {
		if to.Address == client.WithZone("") && signed(to.Key) {
			return true
		}
	}
	for _, a := range z.allow.Allow {
		if (a.Key != "" || a.Prefix.IsValid()) && (!a.Prefix.IsValid() || a.Prefix.Contains(client.WithZone(""))) && signed(a.Key) {
			return true
		}
	}
	return false
}

package agent

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

// A map is swapped in and acked; a delta leads from it to the next; a stream that comes back says what the node has.
// Covers: A2, issue3 deltas
func TestFullThenDelta(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		one, two := dnsMap(1, "a"), dnsMap(2, "a", "b")
		ends := make(chan struct{})
		r.control.dns = func(ctx context.Context, _ uint64, take func(wire.Update) error) error {
			for _, u := range []wire.Update{{Full: one}, {Delta: snapshot.DiffDNS(one, two)}} {
				u.Arrived = time.Now().Add(-3 * ms)
				if err := take(u); err != nil {
					return err
				}
				wait(ctx, time.Second, nil)
			}
			<-ends
			return wire.ErrStreamEnded
		}
		r.open()
		r.run()
		after(10 * time.Second)
		if got := r.dns.Current(); got.Version != 2 || len(got.Services) != 2 {
			t.Errorf("answering by %+v", got)
		}
		want := []report.Ack{
			{Snapshot: "dns", Version: 1, OK: true, Using: 1, Took: 3 * ms},
			{Snapshot: "dns", Version: 2, OK: true, Using: 2, Took: 3 * ms},
		}
		if !slices.Equal(r.control.heard().acks, want) {
			t.Errorf("acks %+v, want %+v", r.control.heard().acks, want)
		}
		r.control.set(func() { r.control.dns = nil })
		close(ends)
		after(time.Second)
		if got := r.control.heard().haves; got[0] != 0 || got[1] != 2 {
			t.Errorf("asked for maps beginning after %v, want 0 and then 2", got)
		}
		r.stop()
	})
}

// A delta that does not fit is refused with the reason and changes nothing; the whole map is asked for at once, once,
// and then with backoff.
// Covers: A2, issue3 gap
func TestGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		r.dns.current = dnsMap(5, "a")
		var whole atomic.Bool
		r.control.dns = func(ctx context.Context, have uint64, take func(wire.Update) error) error {
			if have == 0 && whole.Load() {
				return standing(wire.Update{Full: dnsMap(9, "a", "b")})(ctx, have, take)
			}
			return standing(wire.Update{Delta: snapshot.DiffDNS(dnsMap(8, "a"), dnsMap(9, "b"))})(ctx, have, take)
		}
		r.open()
		r.run()
		after(time.Second)
		if got := r.control.times("dns"); !slices.Equal(got, []time.Duration{0, 0, 100 * ms, 300 * ms, 700 * ms}) {
			t.Errorf("asked at %v", got)
		}
		if got := r.control.heard().haves; got[0] != 5 || got[1] != 0 || got[4] != 0 {
			t.Errorf("asked for maps after %v, want 5 and then everything", got)
		}
		if k := r.control.heard().acks[0]; k.OK || k.Version != 9 || k.Using != 5 || !strings.HasPrefix(k.Reason, "MAP_GAP: ") {
			t.Errorf("ack %+v, want a refusal of version 9 with MAP_GAP, using 5", k)
		}
		whole.Store(true)
		after(2 * time.Second)
		if got := r.dns.Current(); got.Version != 9 || len(r.agent.Trouble()) != 0 {
			t.Errorf("map %d, trouble %q", got.Version, r.agent.Trouble())
		}
		if k := r.control.heard().acks[len(r.control.heard().acks)-1]; !k.OK || k.Using != 9 {
			t.Errorf("last ack %+v", k)
		}
		r.stop()
	})
}

// A map that the name server refuses is refused with its reason; the one before answers on, the stream stands, and the
// next map is taken.
// Covers: A2, issue3 nack
func TestRefusedMap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		r.dns.bad[2] = true
		good, next := dnsMap(1, "a"), make(chan struct{})
		r.control.dns = func(ctx context.Context, have uint64, take func(wire.Update) error) error {
			if err := take(wire.Update{Full: good}); err != nil {
				return err
			}
			wait(ctx, time.Second, nil)
			if err := take(wire.Update{Full: dnsMap(2, "b")}); err != nil {
				return err
			}
			<-next
			return standing(wire.Update{Full: dnsMap(3, "c")})(ctx, have, take)
		}
		r.open()
		r.run()
		after(5 * time.Second)
		k := r.control.heard().acks[len(r.control.heard().acks)-1]
		if k.OK || k.Version != 2 || k.Using != 1 || k.Reason != "MAP_INVALID: not this one" {
			t.Errorf("ack %+v", k)
		}
		if r.dns.Current() != good {
			t.Errorf("answering by map %d", r.dns.Current().Version)
		}
		if got := r.agent.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "MAP_REFUSED: ") {
			t.Errorf("trouble %q", got)
		}
		close(next)
		after(time.Second)
		if len(r.control.times("dns")) != 1 || r.dns.Current().Version != 3 || len(r.agent.Trouble()) != 0 {
			t.Errorf("%d streams, map %d, trouble %q", len(r.control.times("dns")), r.dns.Current().Version, r.agent.Trouble())
		}
		r.stop()
	})
}

// An ack is delivered when control can be reached again; of several only the newest matters.
// Covers: A2, issue3 acks
func TestAckAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		var away atomic.Bool
		away.Store(true)
		r.control.up = func(string) error {
			if away.Load() {
				return errAway
			}
			return nil
		}
		r.control.set(func() {
			r.control.dns = standing(wire.Update{Full: dnsMap(1)}, wire.Update{Full: dnsMap(2)}, wire.Update{Full: dnsMap(3)})
		})
		r.open()
		r.run()
		after(time.Minute)
		away.Store(false)
		after(5 * time.Second)
		if len(r.control.heard().acks) != 1 || r.control.heard().acks[0].Version != 3 {
			t.Errorf("acks %+v, want that of version 3", r.control.heard().acks)
		}
		r.stop()
	})
}

// The node says every 5 s how it does, and at once when its stream stands.
// Covers: A2, issue3 status
func TestStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS, RoleProbe)
		r.member(RoleDNS, RoleProbe)
		r.cfg.Labels = map[string]string{"country": "JP"}
		r.cfg.Listeners = func() map[string]string { return map[string]string{"dns": "192.0.2.1:53"} }
		r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(4)}) })
		r.control.set(func() { r.control.probe = standingProbe(wire.ProbeUpdate{Full: tasks(6, task(1), task(2))}) })
		r.open()
		r.run()
		after(11 * time.Second)
		r.agent.spool.add(seen("a", true))
		times := r.control.times("status")
		if got := since(times, time.Second); !slices.Equal(got, []time.Duration{4 * time.Second, 9 * time.Second}) {
			t.Errorf("reports at %v", times)
		}
		s := r.control.heard().statuses[len(r.control.heard().statuses)-1]
		if s.Version != "test" || s.Uptime != 10*time.Second || s.Map.Version != 4 || s.Tasks.Version != 6 || s.Tasks.Tasks != 2 ||
			s.Labels["country"] != "JP" || s.Listeners["dns"] == "" || !s.Expires.Equal(r.agent.identity().expires) || len(s.Trouble) != 0 {
			t.Errorf("status %+v, map %+v, tasks %+v", s, s.Map, s.Tasks)
		}
		r.stop()
	})
}

// A drained node says so, also after its own restart with control away, until control says otherwise or, on a new
// stream, says nothing of it.
// Covers: A2, issue3 drain
func TestDrained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		r.control.set(func() {
			r.control.dns = standing(wire.Update{State: &wire.NodeState{Drained: true}}, wire.Update{Full: dnsMap(1)})
		})
		r.open()
		r.run()
		after(time.Second)
		if !r.agent.Drained() || r.dns.Current().Version != 1 {
			t.Errorf("drained %v, map %d: want a drained node that answers", r.agent.Drained(), r.dns.Current().Version)
		}
		r.stop()
		r.control.set(func() { r.control.dns = nil })
		r.open()
		r.run()
		after(time.Second)
		if !r.agent.Drained() {
			t.Error("not drained after a restart with control away")
		}
		r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
		after(5 * time.Second)
		if r.agent.Drained() {
			t.Error("drained, and control says nothing of it")
		}
		r.stop()
	})
}

// A map on which the name server fails is refused like any other: it does not end the node, which would get it again.
// Covers: A2, issue3 nack
func TestPoisonedMap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		r.control.dns = standing(wire.Update{Full: dnsMap(1, "a")}, wire.Update{Full: dnsMap(2, "poison")})
		r.open()
		r.run()
		after(time.Second)
		acks := r.control.heard().acks
		k := acks[len(acks)-1]
		if k.OK || k.Version != 2 || k.Using != 1 || !strings.HasPrefix(k.Reason, "NODE_FAULT: ") {
			t.Errorf("ack %+v", k)
		}
		if r.dns.Current().Version != 1 || !r.agent.stream("dns").up {
			t.Errorf("map %d, stream %v", r.dns.Current().Version, r.agent.stream("dns").up)
		}
		r.stop()
	})
}

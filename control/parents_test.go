package control

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
)

// aParent is example.net with two name servers, and a resolver that knows them.
type aParent struct {
	mu sync.Mutex
	ds map[string][]string // by server, with the TTL before each
}

func (p *aParent) set(server string, ds ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ds[server] = ds
}

func (p *aParent) exchange(_ context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	m := new(dns.Msg).SetReply(q)
	var texts []string
	switch q.Question[0].Name + dns.TypeToString[q.Question[0].Qtype] {
	case "example.net.SOA":
		texts = []string{"example.net. 60 IN SOA a. h. 1 2 3 4 5"}
	case "example.net.NS":
		texts = []string{"example.net. 60 IN NS a.ns.test.", "example.net. 60 IN NS b.ns.test."}
	case "a.ns.test.A":
		texts = []string{"a.ns.test. 60 IN A 192.0.2.11"}
	case "b.ns.test.A":
		texts = []string{"b.ns.test. 60 IN A 192.0.2.12"}
	case "gslb.example.net.DS":
		p.mu.Lock()
		list, ok := p.ds[strings.TrimSuffix(server, ":53")]
		p.mu.Unlock()
		if !ok {
			return nil, errors.New("it is down")
		}
		m.Authoritative = true
		for _, ds := range list {
			texts = append(texts, "gslb.example.net. "+ds)
		}
	}
	for _, text := range texts {
		rr, err := dns.NewRR(text)
		if err != nil {
			return nil, err
		}
		m.Answer = append(m.Answer, rr)
	}
	return m, nil
}

// TestParentIsAsked: with a resolver in the settings, a zone goes on by itself when every name server of its parent has the new
// DS, and not before; the old key stays for the longest TTL of a DS that was seen. Status says what was seen. A zone whose
// parent has only DS of other keys is alarmed of. What leaves DNSSEC goes on when no DS is left.
//
// Covers: issue5 dnssec parent, issue5 dnssec rolls
func TestParentIsAsked(t *testing.T) {
	t.Parallel()
	p := &aParent{ds: map[string][]string{"192.0.2.11": nil}}
	r := start(t, t.TempDir(), nil, quickKeys, func(cfg *Config, d *Deps) {
		cfg.ParentResolver, d.parentExchange = "192.0.2.1", p.exchange
	})
	r.apply(signedYAML, shopYAML)
	r.signing("the zone is signed", anyZone)
	ds := func() string { // of the key that the parent should have
		z := r.zone()
		return "IN DS" + strings.TrimPrefix(z.DS[0], "gslb.example.net. IN DS")
	}
	asked := func(what string, fits func(*api.ParentLook) bool) {
		t.Helper()
		r.await(what, func() bool { z := r.zone(); return z.Parent != nil && fits(z.Parent) })
	}
	asked("the parent was asked", func(l *api.ParentLook) bool {
		return l.Zone == "example.net" && len(l.Servers) == 2 && l.Servers[0].Error == "" && strings.Contains(l.Servers[1].Error, "down")
	})
	first := ds()
	p.set("192.0.2.11", "3600 "+first)
	r.clocks.pass(parentAwaited)
	asked("one of two has it", func(l *api.ParentLook) bool {
		return l.Servers[0].Wanted && l.Servers[0].TTLSeconds == 3600 && !l.Servers[1].Wanted
	})
	r.stagesAre("island ksk:ready zsk:active")
	p.set("192.0.2.12", "7200 "+first)
	r.clocks.pass(parentAwaited)
	r.await("the DS is seen", func() bool { z := r.zone(); return z.State == api.ZoneSigned })

	if _, err := r.client.RollZoneKey(t.Context(), "gslb.example.net", api.RollRequest{Key: api.RoleKSK}); err != nil {
		t.Fatal(err)
	}
	r.signingKeys("the new key is published", 3)
	r.passKeys(2 * keyWait)
	r.stagesAre("signed ksk:active zsk:active ksk:ready")
	second := ds()
	if second == first {
		t.Fatalf("the DS wanted is the old one: %s", second)
	}
	asked("the old one is not what is wanted", func(l *api.ParentLook) bool { return !l.Servers[0].Wanted && !l.Servers[1].Wanted })
	p.set("192.0.2.11", "3600 "+second, "3600 "+first)
	p.set("192.0.2.12", "7200 "+second)
	r.clocks.pass(parentAwaited)
	r.await("the new DS is seen", func() bool { z := r.zone(); return stages(&z) == "signed ksk:retired zsk:active ksk:active" })
	if wait := r.zone().Keys[0].WaitSeconds; wait > 7200+keyWait.Seconds() || wait < 7200-parentAwaited.Seconds() { // what passed before counts until the next look
		t.Errorf("the old key stays for %v s", wait)
	}
	r.passKeys(3 * time.Hour)
	r.stagesAre("signed zsk:active ksk:active")

	p.set("192.0.2.11", "3600 "+first)
	p.set("192.0.2.12", "3600 "+first)
	r.clocks.pass(parentKnown)
	r.await("the alarm", func() bool {
		a, on := r.alarm(api.AlarmZoneDS, "gslb.example.net")
		return on && strings.Contains(a.Message, "none of its DS records is of a key of this zone")
	})
	p.set("192.0.2.11", "3600 "+second)
	r.clocks.pass(parentKnown)
	r.await("the alarm is over", func() bool { _, on := r.alarm(api.AlarmZoneDS, "gslb.example.net"); return !on })

	r.apply(strings.Replace(signedYAML, "enabled: true", "enabled: false", 1))
	r.await("it is to leave", func() bool { return r.zone().State == api.ZoneLeaving })
	p.set("192.0.2.11")
	p.set("192.0.2.12")
	r.clocks.pass(parentAwaited)
	// In the audit trail: if it was seen before the clock went on, the zone is signed no more by now.
	r.await("no DS is left", func() bool {
		return strings.Contains(r.textAt("/api/v1/audit"), "no name server of example.net has any")
	})
	if want := "every name server of example.net has it, with a TTL of 2h0m0s"; !strings.Contains(r.textAt("/api/v1/audit"), want) {
		t.Errorf("the audit trail does not say %q", want)
	}
}

// signingKeys waits until name servers have so many keys of the zone.
func (r *rig) signingKeys(what string, n int) {
	r.t.Helper()
	r.await(what, func() bool {
		d, _, _ := r.out.latest()
		return d.Signing != nil && len(d.Signing.Zones) == 1 && len(d.Signing.Zones[0].Keys) == n
	})
}

// TestParentIsNotAsked: without a resolver in the settings nobody is asked.
//
// Covers: issue5 dnssec parent
func TestParentIsNotAsked(t *testing.T) {
	t.Parallel()
	p := &aParent{ds: map[string][]string{}}
	r := start(t, t.TempDir(), nil, quickKeys, func(_ *Config, d *Deps) { d.parentExchange = p.exchange })
	r.apply(signedYAML, shopYAML)
	r.signing("the zone is signed", anyZone)
	if z := r.zone(); z.Parent != nil || r.parents.asker != nil {
		t.Errorf("%+v", z.Parent)
	}
	if _, err := New(t.Context(), Config{Data: t.TempDir(), Listen: "127.0.0.1:0", ParentResolver: "no address"}, Deps{Publisher: &takes{}, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "dnssec.parentResolver") {
		t.Errorf("%v", err)
	}
}

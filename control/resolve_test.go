package control

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/control/api"
)

const aliasYAML = `apiVersion: steerpoint/v1
kind: Zone
name: static
zone: static.example
steering: false
ns: [{name: ns.elsewhere.test}]
records:
  - {name: "@", type: ALIAS, ttl: 1m, values: [www.far.test]}
  - {name: never, type: ALIAS, values: [gone.far.test]}
`

// far is a resolver that knows one name; broken, it knows nothing.
func far(broken *atomic.Bool) func(context.Context, *dns.Msg, string) (*dns.Msg, error) {
	return func(_ context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
		if broken.Load() || server != "192.0.2.9:53" {
			return nil, errors.New("no answer")
		}
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Name != "www.far.test." {
			m.Rcode = dns.RcodeNameError
		} else if q.Question[0].Qtype == dns.TypeA {
			rr, err := dns.NewRR("www.far.test. 60 A 192.0.2.77")
			if err != nil {
				return nil, err
			}
			m.Answer = append(m.Answer, rr)
		}
		return m, nil
	}
}

// The addresses of names elsewhere come into the map by themselves, an alarm tells of those that cannot be found, and a restart
// answers on with what was found, also while no resolver answers.
//
// Covers: issue5 names elsewhere, field 47
func TestNamesElsewhere(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	with := func(c *Config, d *Deps) {
		c.Resolvers = []string{"192.0.2.9"}
		d.exchange = far(&broken)
	}
	address := func(r *rig) string {
		d, _, _ := r.out.latest()
		if d == nil {
			return ""
		}
		for _, z := range d.Zones {
			for _, rec := range z.Records {
				if rec.Name == "static.example." && rec.Type == "A" {
					return strings.Join(rec.Data, " ")
				}
			}
		}
		return ""
	}
	dir := t.TempDir()
	r := start(t, dir, nil, with)
	r.apply(zoneYAML, aliasYAML)
	r.await("the address in the map", func() bool { return address(r) == "192.0.2.77" })
	r.await("the alarm of the other name", func() bool {
		return strings.Contains(r.alarmText(api.AlarmAlias), "gone.far.test.") && strings.Contains(r.alarmText(api.AlarmResource), "DNS_ALIAS_UNRESOLVED")
	})
	r.stop()

	broken.Store(true)
	r = start(t, dir, r.clocks, with)
	r.await("the address in the first map after the restart", func() bool { return address(r) == "192.0.2.77" })
	r.apply(strings.Replace(aliasYAML, "  - {name: never, type: ALIAS, values: [gone.far.test]}\n", "", 1))
	r.await("no alarm", func() bool { return r.alarmText(api.AlarmAlias) == "" && r.alarmText(api.AlarmResource) == "" })
	if got := address(r); got != "192.0.2.77" {
		t.Errorf("%q is answered", got)
	}
}

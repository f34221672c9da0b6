package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/miekg/dns"

	"steerpoint/control"
	"steerpoint/geo"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// publisher hands snapshots from control to the planes in the same process.
type publisher struct{ u *up }

func (p publisher) PublishDNS(d *snapshot.DNS) error { return p.u.dns.Swap(d) }

func (p publisher) PublishProbe(s *snapshot.Probe) error { return p.u.prober.Apply(s) }

// probeNow probes outside the schedule, for `steer probe`.
func (u *up) probeNow(ctx context.Context, point string, t snapshot.ProbeTask) (report.Observation, error) {
	if point != localPoint {
		return report.Observation{}, fmt.Errorf("there is no probe point %q; this process has %q", point, localPoint)
	}
	return u.prober.Once(ctx, t), nil
}

// answer asks the name server what it would answer, for `steer explain`.
func (u *up) answer(q control.Question) (control.Answer, error) {
	qtype, ok := dns.StringToType[strings.ToUpper(q.Type)]
	if !ok {
		return control.Answer{}, fmt.Errorf("%q is not a record type", q.Type)
	}
	e, err := u.dns.Explain(q.Name, q.Resolver, q.ECS, qtype)
	if err != nil {
		return control.Answer{}, err
	}
	return control.Answer{
		Service: e.Service, Rule: e.Rule, Scope: e.Scope, Source: e.Source, Records: e.Answer, TTL: e.TTL,
		ECSScope: e.ECSScope, MapVersion: e.Map.Version, Why: e.Why,
	}, nil
}

// place names the place of an address for explanations.
func (u *up) place(a netip.Addr) string {
	r := u.geo.DB().Lookup(a)
	if len(r.Fields) == 0 {
		return ""
	}
	return place(r)
}

// watchGeo reads the geo data files again on SIGHUP.
func (u *up) watchGeo(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			if u.reloadGeo() {
				u.control.GeoChanged()
				u.log.Info("geo data read again", "sources", names(u.geo.DB()))
			}
		}
	}
}

func names(db *geo.DB) string {
	var s []string
	for _, src := range db.Sources() {
		s = append(s, src.Name)
	}
	return strings.Join(s, ", ")
}

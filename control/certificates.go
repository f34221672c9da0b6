package control

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

const (
	// certFresh is for how many intervals what a point saw of a certificate holds: the same after which the core forgets it.
	certFresh = 3
	// certEvery is how often the certificates are judged when none of them changed. The levels are days apart.
	certEvery = time.Minute
)

// certLevels are the days before its end at which a certificate is told of: renewal by ACME is due at 30, so at 14
// something has failed for two weeks, and at 3 somebody has to do it by hand.
var certLevels = [...]int{14, 7, 3}

// certificates is what the points last saw of the certificates of edges, and what came of it. note and judge are for
// the evaluation loop; the others may run at the same time.
type certificates struct {
	seen   map[certKey]certSeen
	levels map[string]int // alarms that are on: service/edge, and the days they were last told for
	dirty  bool
	judged steering.Instant

	mu   sync.Mutex
	ends map[snapshot.TaskUse]time.Time // with no rule in it
}

// certKey is one task at one point.
type certKey struct{ point, task string }

type certSeen struct {
	end time.Time
	at  steering.Instant
}

// note keeps what an observation says of a certificate. One that failed before the handshake says nothing new: an edge
// that is down has the certificate it had.
func (s *certificates) note(at steering.Instant, o *report.Observation) {
	key := certKey{o.Point, o.Task}
	if o.CertExpiry.IsZero() {
		if old, there := s.seen[key]; there && o.Counts() {
			s.seen[key] = certSeen{old.end, at}
		}
		return
	}
	if s.seen == nil {
		s.seen = map[certKey]certSeen{}
	}
	s.dirty = s.dirty || !s.seen[key].end.Equal(o.CertExpiry)
	s.seen[key] = certSeen{o.CertExpiry, at}
}

// of is until when an address of an edge has a certificate, as the points saw it; nil if it shows none.
func (s *certificates) of(service, edge, address string) *time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.ends[snapshot.TaskUse{Service: service, Edge: edge, Address: address}]
	if !ok {
		return nil
	}
	end = end.UTC()
	return &end
}

// each calls f with the earliest end of every edge.
func (s *certificates) each(f func(service, edge string, end time.Time)) {
	for e, end := range s.byEdge() {
		f(e.Service, e.Edge, end)
	}
}

func (s *certificates) byEdge() map[snapshot.TaskUse]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[snapshot.TaskUse]time.Time{}
	for u, end := range s.ends {
		u.Address = ""
		earliest(out, u, end)
	}
	return out
}

func earliest(ends map[snapshot.TaskUse]time.Time, u snapshot.TaskUse, end time.Time) {
	if old, there := ends[u]; !there || end.Before(old) {
		ends[u] = end
	}
}

// judgeCertificates brings the ends and their alarms up to date. Days are counted by control's wall clock, not by that
// of the point: a point whose clock is wrong still reads right what a certificate says.
func (c *Control) judgeCertificates(now moment.Moment) {
	s := &c.certificates
	if len(s.seen) == 0 && len(s.levels) == 0 || !s.dirty && now.At-s.judged < certEvery {
		return
	}
	s.dirty, s.judged = false, now.At
	ends := map[snapshot.TaskUse]time.Time{}
	for key, seen := range s.seen {
		uses, interval := c.engine.UsesOf(key.point, key.task)
		if len(uses) == 0 || now.At-seen.at > certFresh*interval {
			delete(s.seen, key)
			continue
		}
		for _, u := range uses {
			u.Rule = ""
			earliest(ends, u, seen.end)
		}
	}
	s.mu.Lock()
	s.ends = ends
	s.mu.Unlock()
	c.certAlarms(now)
}

// certAlarms raises an alarm for each edge whose certificate ends soon, tells again at each level, and takes away those
// that are over.
func (c *Control) certAlarms(now moment.Moment) {
	s := &c.certificates
	if s.levels == nil {
		s.levels = map[string]int{}
	}
	on := map[string]bool{}
	s.each(func(service, edge string, end time.Time) {
		subject := service + "/" + edge
		level, soon := certLevel(end.Sub(now.Wall))
		if !soon {
			return
		}
		on[subject] = true
		text := certText(subject, end, now.Wall)
		before, was := s.levels[subject]
		s.levels[subject] = level
		c.alarms.set(api.AlarmEdgeCert, subject, true, text)
		if was && level < before {
			c.feed.Add(api.Event{Time: now.Wall.UTC(), Kind: api.EventAlarm, Code: api.AlarmEdgeCert, On: true, Service: service, Edge: edge, Message: text})
			c.log.Warn("alarm", "code", api.AlarmEdgeCert, "subject", subject, "message", text)
		}
	})
	for subject := range s.levels {
		if !on[subject] {
			delete(s.levels, subject)
			c.alarms.set(api.AlarmEdgeCert, subject, false, "")
		}
	}
}

// certLevel is the lowest level that is reached; -1 when the certificate has ended.
func certLevel(left time.Duration) (days int, soon bool) {
	if left <= 0 {
		return -1, true
	}
	for _, d := range certLevels {
		if left < time.Duration(d)*24*time.Hour {
			days, soon = d, true
		}
	}
	return days, soon
}

func certText(subject string, end, now time.Time) string {
	when := end.UTC().Format(time.RFC3339)
	left := end.Sub(now)
	if left <= 0 {
		return "edge " + subject + ": its certificate ended on " + when + ": renew it"
	}
	days := "less than a day"
	switch n := int(left / (24 * time.Hour)); {
	case n == 1:
		days = "1 day"
	case n > 1:
		days = fmt.Sprintf("%d days", n)
	}
	return "edge " + subject + ": its certificate ends on " + when + ", in " + days + ": renew it"
}

// certCollector gives the end of each edge's certificate. It is a time and no age, as is usual for such a metric: the
// age is taken where it is looked at.
type certCollector struct {
	c    *Control
	desc *prometheus.Desc
}

func newCertCollector(c *Control) certCollector {
	return certCollector{c, prometheus.NewDesc("steer_control_certificate_expiry_timestamp_seconds",
		"When the certificate of an edge ends, as probes saw it: the earliest of its addresses, in seconds of Unix time.", []string{"service", "edge"}, nil)}
}

// Describe sends the one description.
func (x certCollector) Describe(out chan<- *prometheus.Desc) { out <- x.desc }

// Collect sends one value an edge.
func (x certCollector) Collect(out chan<- prometheus.Metric) {
	x.c.certificates.each(func(service, edge string, end time.Time) {
		out <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, float64(end.Unix()), service, edge)
	})
}

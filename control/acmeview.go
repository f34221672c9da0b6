package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/control/internal/issue"
	"steerpoint/spec"
)

// failuresTold is after how many failures in a row an alarm is raised for a certificate that there is one of: some 20 minutes
// after the first, since most pass by themselves.
const failuresTold = 4

// certificateViews are all certificates as people see them.
func (c *Control) certificateViews(set *spec.Set) []api.CertificateStatus {
	out := []api.CertificateStatus{}
	wanted := c.wantedOrders(set)
	uses := certificateUses(set)
	for _, w := range set.Certificates() {
		v := api.CertificateStatus{Name: w.Name, Source: api.CertificateFiles, Names: orderedNames(w), Services: uses[w.Name], State: api.CertificateElsewhere}
		switch {
		case w.ACME != nil:
			continue
		case w.ChainFrom != nil:
			v.Source, v.State = api.CertificateSecret, api.CertificateMissing
			if end := c.certEnds.of(w.Name); !end.IsZero() {
				v.State, v.NotAfter = validity(end, c.wallNow()), timeOf(end)
			}
		}
		out = append(out, v)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		v := c.orderView(wanted[name])
		v.Services = uses[name]
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b api.CertificateStatus) int { return strings.Compare(a.Name, b.Name) })
	for i := range out {
		if out[i].Services == nil {
			out[i].Services = []string{}
		}
	}
	return out
}

// certificateUses names the services with routes that use each certificate.
func certificateUses(set *spec.Set) map[string][]string {
	uses := map[string][]string{}
	for _, s := range set.Services() {
		if len(s.Routes) == 0 {
			continue
		}
		for _, d := range s.Domains {
			name := s.Certificates[string(d)]
			if name == "auto" {
				name = spec.AutoCertificate(d)
			}
			if name != "" && !slices.Contains(uses[name], s.Name) {
				uses[name] = append(uses[name], s.Name)
			}
		}
	}
	return uses
}

func validity(end, now time.Time) string {
	if now.Before(end) {
		return api.CertificateValid
	}
	return api.CertificateEnded
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// orderView is a certificate that control orders.
func (c *Control) orderView(w *spec.Certificate) api.CertificateStatus {
	v := api.CertificateStatus{Name: w.Name, Source: api.CertificateACME, Names: orderedNames(w), State: api.CertificateMissing, Authority: authorityName(w)}
	o := &c.orders
	o.mu.Lock()
	x, window := o.kept[w.Name], o.windows[w.Name]
	v.Ordering, v.Error = o.working[w.Name], o.trouble
	o.mu.Unlock()
	if x == nil {
		return v
	}
	s := &x.state
	if s.Chain != "" {
		v.State, v.NotAfter, v.RenewAt = validity(s.NotAfter, c.wallNow()), timeOf(s.NotAfter), timeOf(x.renewAt(window, c.wallNow()))
	}
	if s.Failures > 0 {
		v.Failures, v.Reason, v.Error, v.Do, v.NextTry = s.Failures, s.Reason, s.Error, s.Do, timeOf(s.Next)
	}
	return v
}

// ends are when the certificates of Secrets end, looked at when Secrets change.
type ends struct {
	turn uint64
	set  *spec.Set
	by   map[string]time.Time
}

// endsNow are the newest, and the alarms that are on.
type endsNow struct {
	alarms map[string]bool // code and name; of the loop of orders

	mu sync.Mutex
	ends
}

// of is when a certificate ends; zero: it is not known.
func (e *endsNow) of(name string) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.by[name]
}

// readEnds reads the chains of Secrets if they may be others. A chain is public; the key is not opened for it.
func (c *Control) readEnds(set *spec.Set) {
	e := &c.certEnds
	turn := c.secrets.changed()
	e.mu.Lock()
	same := e.set == set && e.turn == turn && e.by != nil
	e.mu.Unlock()
	if same {
		return
	}
	by := map[string]time.Time{}
	for _, w := range set.Certificates() {
		if w.ChainFrom == nil {
			continue
		}
		text, err := c.secrets.value(*w.ChainFrom)
		if err != nil {
			continue // an alarm of its own
		}
		if leaf, err := issue.Leaf(text.Reveal()); err == nil {
			by[w.Name] = leaf.NotAfter
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends = ends{turn, set, by}
}

// judgeOrders raises alarms about certificates of gateways, and takes them away.
func (c *Control) judgeOrders(set *spec.Set) {
	c.readEnds(set)
	now := c.wallNow()
	on := map[string]bool{}
	say := func(code, name, text string) {
		on[code+" "+name] = true
		c.alarms.set(code, name, true, text)
	}
	for _, v := range c.certificateViews(set) {
		if v.NotAfter != nil && len(v.Services) > 0 && endsSoon(&v, now) {
			say(api.AlarmCertificate, v.Name, certificateText(&v, now))
		}
		if v.NextTry != nil && (v.State != api.CertificateValid || v.Failures >= failuresTold) {
			say(api.AlarmOrder, v.Name, fmt.Sprintf("certificate %s cannot be ordered from %s: %s; %s; next try at %s",
				printableName(v.Name), v.Authority, v.Error, v.Do, v.NextTry.Format(time.RFC3339)))
		}
	}
	e := &c.certEnds
	for key := range e.alarms {
		if !on[key] {
			code, name, _ := strings.Cut(key, " ")
			c.alarms.set(code, name, false, "")
		}
	}
	e.alarms = on
}

// endsSoon reports whether a certificate ends so soon that somebody has to look. One that control renews, and that may live for
// days only, is told of when half of the time is over that was left for its renewal.
func endsSoon(v *api.CertificateStatus, now time.Time) bool {
	left := v.NotAfter.Sub(now)
	if v.RenewAt != nil {
		return left < v.NotAfter.Sub(*v.RenewAt)/2
	}
	_, soon := certLevel(left)
	return soon
}

func certificateText(v *api.CertificateStatus, now time.Time) string {
	text := "certificate " + printableName(v.Name)
	end, left := v.NotAfter.Format(time.RFC3339), v.NotAfter.Sub(now)
	switch {
	case left <= 0:
		text += " ended on " + end + ": visitors are warned of it"
	case left < 24*time.Hour:
		text += " ends on " + end + ", in less than a day"
	default:
		text += fmt.Sprintf(" ends on %s, in %d days", end, int(left/(24*time.Hour)))
	}
	if v.Source == api.CertificateSecret {
		return text + ": write a new chain and key into its Secret"
	}
	return text + ", and could not be renewed"
}

// ordersCollector tells of certificates that control orders.
type ordersCollector struct {
	c               *Control
	end, renew, all *prometheus.Desc
}

func newOrdersCollector(c *Control) ordersCollector {
	return ordersCollector{
		c,
		prometheus.NewDesc("steer_control_acme_expiry_timestamp_seconds", "When a certificate that control orders ends, in seconds of Unix time.", []string{"certificate"}, nil),
		prometheus.NewDesc("steer_control_acme_renewal_timestamp_seconds", "When it is due to be renewed, in seconds of Unix time.", []string{"certificate"}, nil),
		prometheus.NewDesc("steer_control_acme_certificates", "Certificates that control orders, by state: valid, ended, missing, and failing, whose last try failed.", []string{"state"}, nil),
	}
}

// Describe sends the descriptions.
func (x ordersCollector) Describe(out chan<- *prometheus.Desc) {
	out <- x.end
	out <- x.renew
	out <- x.all
}

// Collect sends two values a certificate, and their numbers.
func (x ordersCollector) Collect(out chan<- prometheus.Metric) {
	o := &x.c.orders
	o.mu.Lock()
	wanted := o.wanted
	o.mu.Unlock()
	count := map[string]float64{api.CertificateValid: 0, api.CertificateEnded: 0, api.CertificateMissing: 0, "failing": 0}
	for name, w := range wanted {
		v := x.c.orderView(w)
		count[v.State]++
		if v.Failures > 0 {
			count["failing"]++
		}
		if v.NotAfter != nil {
			out <- prometheus.MustNewConstMetric(x.end, prometheus.GaugeValue, float64(v.NotAfter.Unix()), name)
			out <- prometheus.MustNewConstMetric(x.renew, prometheus.GaugeValue, float64(v.RenewAt.Unix()), name)
		}
	}
	for state, n := range count {
		out <- prometheus.MustNewConstMetric(x.all, prometheus.GaugeValue, n, state)
	}
}

// printableName is a certificate's name for people: of one that nobody wrote, its domain.
func printableName(name string) string {
	if domain, auto := strings.CutPrefix(name, "auto:"); auto {
		return domain + " (auto)"
	}
	return name
}

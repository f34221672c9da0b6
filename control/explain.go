package control

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/steering"
	"steerpoint/steering/scope"
)

// explainQuery is a question for explain, checked.
type explainQuery struct {
	host, typ        string
	client, resolver netip.Addr
}

func parseExplain(host, client, resolver, typ string) (explainQuery, error) {
	q := explainQuery{host: strings.ToLower(strings.TrimSuffix(host, ".")), typ: strings.ToUpper(typ)}
	if q.typ == "" {
		q.typ = "A"
	}
	if q.host == "" || len(q.host) > 253 {
		return q, badRequest("query.host", "host %q is not a domain name", host)
	}
	var err error
	if q.client, err = parseAddr("query.client", client); err != nil {
		return q, err
	}
	q.resolver, err = parseAddr("query.resolver", resolver)
	return q, err
}

func parseAddr(where, s string) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return a, badRequest(where, "%q is not an IP address", s)
	}
	return a.Unmap(), nil
}

// explain says why a client gets what it gets: by the rules and the geo data of control, and by the name server itself
// where one runs in this process.
func (c *Control) explain(ctx context.Context, q explainQuery) (*api.Explanation, error) {
	x, place, decider := c.question(q)
	found := false
	err := c.do(ctx, func() { found = c.explainRules(c.clock.Now(), x, place, decider) })
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound("no service has the name %s: neither as a domain nor as a service CNAME", q.host)
	}
	if err := c.explainAnswer(x, q); err != nil {
		return nil, err
	}
	x.Text = explainText(x)
	return x, nil
}

// question begins an explanation: who decides, and where that is.
func (c *Control) question(q explainQuery) (x *api.Explanation, place scope.Place, decider netip.Addr) {
	x = &api.Explanation{Host: q.host, Type: q.typ, From: "none", ECSScope: -1, Matched: []string{}, Answer: []string{}, Text: []string{}}
	decider = q.resolver
	if q.resolver.IsValid() {
		x.Resolver, x.From = q.resolver.String(), "resolver"
	}
	if q.client.IsValid() {
		decider, x.Client, x.From = q.client, q.client.String(), "ecs"
	}
	place = c.place(&decider, q, x) // may leave the decision to the resolver
	return x, place, decider
}

// place looks the client up; one that nobody knows is decided by its resolver, as the name server does.
func (c *Control) place(decider *netip.Addr, q explainQuery, x *api.Explanation) scope.Place {
	if !decider.IsValid() {
		return scope.Place{}
	}
	p := c.deps.Geo().Lookup(*decider).Place
	if p == (scope.Place{}) && x.From == "ecs" && q.resolver.IsValid() {
		*decider, x.From = q.resolver, "resolver"
		p = c.deps.Geo().Lookup(*decider).Place
	}
	x.Place = api.Place{Continent: p.Continent, Country: p.Country, Province: p.Province, City: p.City, ISP: p.ISP, ASN: p.ASN}
	return p
}

// explainRules finds the rule that matches, in the loop.
func (c *present) explainRules(now steering.Instant, x *api.Explanation, place scope.Place, decider netip.Addr) bool {
	s := c.findHost(x.Host)
	if s == nil {
		return false
	}
	x.Service = s.Name
	var best *engine.View
	var bestScope scope.Scope
	for _, v := range c.engine.Views(now, s.Name) {
		sc := v.Rule.Scope.Scope()
		if !sc.Any && (!decider.IsValid() || !sc.Matches(place, decider)) {
			continue
		}
		if best == nil || beats(sc, bestScope, decider) {
			best, bestScope = &v, sc
			x.Matched = append([]string{v.Rule.Name}, x.Matched...)
		} else {
			x.Matched = append(x.Matched, v.Rule.Name)
		}
	}
	if best == nil {
		return false
	}
	x.Rule, x.Scope, x.Status = best.Rule.Name, best.Config.Scope, c.ruleStatus(now, best)
	x.TTLSeconds = x.Status.TTLSeconds
	return true
}

// beats reports whether of two scopes that both match the address a is the more specific: of cidr scopes the one with
// the longer prefix around this very address.
func beats(a, b scope.Scope, addr netip.Addr) bool {
	if a.Level() == scope.LevelCIDR && b.Level() == scope.LevelCIDR {
		return a.MatchBits(addr) > b.MatchBits(addr)
	}
	return scope.Compare(a, b) < 0
}

// explainAnswer asks the name server.
func (c *Control) explainAnswer(x *api.Explanation, q explainQuery) error {
	st, _ := c.answers.state()
	x.MapVersion = st.Version
	if c.deps.Answer == nil {
		return nil
	}
	ask := Question{Name: x.Host, Type: q.typ, Resolver: q.resolver}
	if q.client.IsValid() {
		bits := 24 // what resolvers commonly send
		if q.client.Is6() {
			bits = 56
		}
		ask.ECS = netip.PrefixFrom(q.client, bits).Masked()
	}
	if !ask.Resolver.IsValid() {
		ask.Resolver = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if c.outside(x.Host) {
		ask.Name = c.cnameOf(x.Service) // the domain points at it
	}
	a, err := c.deps.Answer(ask)
	if err != nil {
		return badRequest("query", "the name server cannot be asked that: %v", err)
	}
	x.Answer, x.TTLSeconds, x.ECSScope, x.MapVersion = append(x.Answer, a.Records...), a.TTL.Seconds(), a.ECSScope, a.MapVersion
	if ask.Name != x.Host && ask.Name != "" {
		x.Text = append(x.Text, fmt.Sprintf("%s is not in a zone of ours: it must point at %s, which is answered here", x.Host, ask.Name))
	}
	if a.Why != "" {
		x.Text = append(x.Text, a.Why)
	}
	return nil
}

// outside reports whether name servers of ours do not answer a name themselves.
func (c *Control) outside(host string) bool {
	_, last := c.answers.state()
	if last == nil {
		return false
	}
	for i := range last.Zones {
		if z := strings.TrimSuffix(last.Zones[i].Name, "."); host == z || strings.HasSuffix(host, "."+z) {
			return false
		}
	}
	return true
}

func (c *Control) cnameOf(service string) string {
	_, last := c.answers.state()
	if last != nil {
		for i := range last.Services {
			if last.Services[i].Name == service {
				return strings.TrimSuffix(last.Services[i].CNAME, ".")
			}
		}
	}
	return ""
}

// explainText is the whole story, line by line.
func explainText(x *api.Explanation) []string {
	out := []string{fmt.Sprintf("%s belongs to service %s", x.Host, x.Service), whoDecides(x)}
	if len(x.Matched) > 1 {
		out = append(out, fmt.Sprintf("rule %s (%s) matches most specifically, before %s", x.Rule, x.Scope, strings.Join(x.Matched[1:], ", ")))
	} else {
		out = append(out, fmt.Sprintf("rule %s (%s) matches", x.Rule, x.Scope))
	}
	r := &x.Status
	out = append(out, fmt.Sprintf("mode %s answers %s since %s: %s", r.Mode, answered(r), r.Since.Format(time.RFC3339), r.Cause))
	for i := range r.Edges {
		e := &r.Edges[i]
		line := fmt.Sprintf("edge %s is %s: %s", e.Edge, e.Verdict, e.Why)
		if e.Held {
			line += " (verdict held)"
		}
		out = append(out, line)
	}
	out = append(out, guards(r)...)
	out = append(out, x.Text...)
	if len(x.Answer) > 0 {
		out = append(out, "the answer: "+strings.Join(x.Answer, "; "))
	}
	if x.ECSScope >= 0 {
		out = append(out, fmt.Sprintf("ECS scope /%d: every address in that block has this answer", x.ECSScope))
	}
	if x.At != nil {
		return out
	}
	return append(out, fmt.Sprintf("map version %d", x.MapVersion))
}

func answered(r *api.RuleStatus) string {
	switch r.WhenAllDown {
	case "empty":
		return "nothing while every edge is down, in place of " + r.Edge
	case "all":
		return "every edge while all are down, in place of " + r.Edge
	case "first":
		return "its first edge while all are down, in place of " + r.Edge
	}
	if len(r.Set) > 0 {
		return strings.Join(r.Set, ", ") + " by weight"
	}
	if r.Edge == "" {
		return "nothing yet"
	}
	return r.Edge
}

func whoDecides(x *api.Explanation) string {
	var parts []string
	for _, s := range []string{x.Place.Continent, x.Place.Country, x.Place.Province, x.Place.City, x.Place.ISP} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if x.Place.ASN != 0 {
		parts = append(parts, fmt.Sprintf("AS%d", x.Place.ASN))
	}
	where := "its place is not known"
	if len(parts) > 0 {
		where = "it is in " + strings.Join(parts, " ")
	}
	switch x.From {
	case "ecs":
		return fmt.Sprintf("the client %s decides: %s", x.Client, where)
	case "resolver":
		return fmt.Sprintf("the resolver %s decides: %s", x.Resolver, where)
	}
	return "no address was given: the catch-all decides"
}

// guards lists what holds the rule where it is.
func guards(r *api.RuleStatus) []string {
	var out []string
	if r.Forced {
		out = append(out, "forced by an operator"+until(r.ForcedUntil))
	}
	if r.Frozen {
		out = append(out, "frozen by an operator"+until(r.FrozenUntil))
		if r.Held != "" {
			out = append(out, "without the freeze: "+r.Held)
		}
	}
	if r.Locked {
		out = append(out, describeLock(r))
	}
	if r.Degraded {
		out = append(out, "degraded: the edge is down and no other one is confirmed well")
	}
	if r.Next != nil {
		out = append(out, "could change without a new result at "+r.Next.Format(time.TimeOnly)+" at the earliest")
	}
	return out
}

func until(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " until " + t.Format(time.RFC3339)
}

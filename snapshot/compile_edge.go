package snapshot

import (
	"slices"
	"strings"
	"time"

	"steerpoint/spec"
)

// CompileEdge makes the snapshot for gateways of a configuration that Set.Check found nothing wrong with. Services
// without routes are left out, and so are rule sets and certificates that nothing uses.
func CompileEdge(version uint64, created time.Time, set *spec.Set) *Edge {
	out := &Edge{Version: version, Created: created}
	sets, certs := map[string]bool{}, map[string]bool{}
	for _, s := range set.Services() {
		if len(s.Routes) == 0 {
			continue
		}
		out.Services = append(out.Services, edgeService(s))
		for i := range s.Routes {
			for _, name := range s.Routes[i].RuleSets {
				sets[name] = true
			}
		}
		for _, name := range s.Certificates {
			certs[name] = true
		}
	}
	for _, s := range set.RuleSets() {
		if sets[s.Name] {
			out.RuleSets = append(out.RuleSets, edgeRuleSet(s))
		}
	}
	out.Certificates = autoCertificates(set)
	for _, c := range set.Certificates() {
		if certs[c.Name] {
			out.Certificates = append(out.Certificates, edgeCertificate(c))
		}
	}
	return out
}

func edgeService(s *spec.Service) EdgeService {
	out := EdgeService{Name: s.Name}
	for i := range s.OriginGroups {
		out.Groups = append(out.Groups, edgeGroup(&s.OriginGroups[i]))
	}
	slices.SortFunc(out.Groups, func(a, b EdgeGroup) int { return strings.Compare(a.Name, b.Name) })
	for i := range s.Routes {
		out.Routes = append(out.Routes, edgeRoute(s, &s.Routes[i]))
	}
	edgePolicies(&out, &s.Policies)
	for domain, name := range s.Certificates {
		if out.Certificates == nil {
			out.Certificates = map[string]string{}
		}
		out.Certificates[domain] = certificateOf(domain, name)
	}
	return out
}

func edgePolicies(out *EdgeService, p *spec.Policies) {
	for _, a := range p.Access {
		e := EdgeAccess{Allow: a.Action == "allow", Countries: plain(a.Countries), Referers: a.Referers, UserAgents: a.UserAgents, Paths: a.Paths}
		for _, c := range a.CIDRs {
			e.Prefixes = append(e.Prefixes, c.Prefix)
		}
		out.Access = append(out.Access, e)
	}
	for i := range p.RateLimit {
		r := &p.RateLimit[i]
		out.Limits = append(out.Limits, EdgeLimit{
			Paths: r.Paths, Header: strings.ToLower(r.Header), Requests: r.Requests, Per: time.Duration(r.Per), Burst: r.BurstSize(),
		})
	}
	for _, h := range p.ResponseHeaders {
		out.Headers = append(out.Headers, EdgeHeaders(h))
	}
}

func plain[T ~string](list []T) []string {
	var out []string
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}

func edgeRoute(s *spec.Service, r *spec.Route) EdgeRoute {
	domains := r.Domains
	if len(domains) == 0 {
		domains = s.Domains
	}
	t := &r.Timeouts
	return EdgeRoute{
		Name: r.Name, Domains: plain(domains), Paths: r.Paths,
		HTTP: slices.Contains(r.Protocols, "http"), HTTPS: slices.Contains(r.Protocols, "https"), HTTPSRedirect: r.HTTPSRedirect,
		Group: r.OriginGroup, OriginPath: r.OriginPath, Forward: r.ForwardProtocol, RuleSets: r.RuleSets,
		Cache: r.Cache, Protocol: r.Protocol, MaxBody: int64(r.MaxBody),
		Connect: time.Duration(t.Connect), ResponseHead: time.Duration(t.ResponseHead), Idle: time.Duration(t.Idle),
		Total: time.Duration(t.Total), WebSocketIdle: time.Duration(t.WebSocketIdle), WebSocketLife: time.Duration(t.WebSocketLife),
	}
}

func edgeGroup(g *spec.OriginGroup) EdgeGroup {
	out := EdgeGroup{
		Name: g.Name, Sensitivity: time.Duration(g.LatencySensitivity), ByPriority: g.AllDown == "priority", Affinity: g.SessionAffinity,
		Ramp: time.Duration(g.RestoreRamp), Drain: time.Duration(g.DrainDeadline), Health: edgeHealth(&g.Health),
		Failures: g.Passive.Failures, Out: time.Duration(g.Passive.Out), MaxOut: time.Duration(g.Passive.MaxOut),
		Attempts: g.Retry.Attempts, BufferBody: int64(g.Retry.BufferBody), IdempotencyHeader: strings.ToLower(g.Retry.IdempotencyHeader),
		PerOrigin: g.Concurrency.PerOrigin, Queue: g.Concurrency.Queue, QueueTimeout: time.Duration(g.Concurrency.QueueTimeout),
		MaxConnections: g.Connections.Max, MaxIdle: g.Connections.Idle, IdleTimeout: time.Duration(g.Connections.IdleTimeout),
	}
	if m := out.MaxConnections; m > 0 {
		out.MaxIdle = min(out.MaxIdle, m)
	}
	for i := range g.Origins {
		o := &g.Origins[i]
		out.Origins = append(out.Origins, EdgeOrigin{
			Name: o.Name, Host: o.Host(), HTTPPort: o.Port("http"), HTTPSPort: o.Port("https"), Scheme: o.Scheme,
			HTTP2: o.Protocol == "http2", HostHeader: string(o.HostHeader), ServerName: o.ServerName(), Verify: o.TLS.Verify, Roots: o.TLS.Roots,
			Priority: o.Priority, Weight: o.Weight, Enabled: o.Enabled, Drain: o.Drain,
		})
	}
	return out
}

func edgeHealth(h *spec.Health) EdgeHealth {
	out := EdgeHealth{Enabled: h.Enabled, Samples: h.SampleSize, Successes: h.SuccessfulSamples}
	if h.Enabled {
		out.Path, out.Method, out.Scheme, out.GRPC = h.Path, h.Method, h.Scheme, h.Kind == "grpc"
		out.Interval, out.Timeout = time.Duration(h.Interval), time.Duration(h.ProbeTimeout())
	}
	return out
}

func edgeRuleSet(s *spec.RuleSet) EdgeRuleSet {
	out := EdgeRuleSet{Name: s.Name}
	for _, r := range s.Rules {
		e := EdgeRule{Name: r.Name, Stop: r.Stop}
		for _, c := range r.Conditions {
			e.Conditions = append(e.Conditions, EdgeCondition(c))
		}
		for _, a := range r.Actions {
			e.Actions = append(e.Actions, edgeAction(&a))
		}
		out.Rules = append(out.Rules, e)
	}
	return out
}

func edgeAction(a *spec.RuleAction) (out EdgeAction) {
	if h := a.RequestHeader; h != nil {
		out.RequestHeader = &EdgeHeaderAction{h.Operation, h.Name, h.Value}
	}
	if h := a.ResponseHeader; h != nil {
		out.ResponseHeader = &EdgeHeaderAction{h.Operation, h.Name, h.Value}
	}
	if r := a.Redirect; r != nil {
		out.Redirect = &EdgeRedirect{r.Status, r.Scheme, r.Host, r.Path, r.Query, r.Fragment, r.DropQuery}
	}
	if r := a.Rewrite; r != nil {
		out.Rewrite = &EdgeRewrite{r.Source, r.Destination, r.PreserveUnmatched}
	}
	if r := a.Route; r != nil {
		out.Route = &EdgeOverride{r.OriginGroup, r.ForwardProtocol, r.Cache}
	}
	if r := a.Respond; r != nil {
		out.Respond = &EdgeRespond{r.Status, r.ContentType, r.Body}
	}
	return out
}

func edgeCertificate(c *spec.Certificate) EdgeCertificate {
	out := EdgeCertificate{Name: c.Name, Domains: plain(c.Names)}
	if c.Files != nil {
		out.ChainFile, out.KeyFile = c.Files.Chain, c.Files.Key
	}
	return out
}

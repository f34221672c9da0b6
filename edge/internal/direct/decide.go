package direct

import (
	"time"

	"steerpoint/edge/internal/affinity"
	"steerpoint/edge/internal/route"
	"steerpoint/edge/internal/rules"
	"steerpoint/snapshot"
	"steerpoint/steering/selection"
)

// Reasons of answers that the gateway gives by itself, besides route.NoHost and route.NoPath.
const (
	ReasonHTTPS    = "https_redirect"
	ReasonAccess   = "access_denied"
	ReasonLimit    = "rate_limited"
	ReasonRedirect = "rule_redirect"
	ReasonRespond  = "rule_respond"
	// What the gateway does not do is answered with 501.
	ReasonProtocol = "protocol"     // the route's protocol is none of this version
	ReasonHTTP1    = "origin_http1" // gRPC, and a rule has chosen a group with an origin that speaks no HTTP/2
)

// Decision is what is to be done with a request. It is used again: what was taken out of it is not valid then. The zero value
// is ready.
type Decision struct {
	// Status, unless 0, is an answer without an origin: a redirect to Location, what Respond says, or a refusal. Reason says
	// why in one word. Wait, unless 0, is Retry-After.
	Status   int
	Reason   string
	Location []byte
	Respond  *snapshot.EdgeRespond
	Wait     time.Duration

	// Route and Match are where the request belongs; nil where it belongs nowhere.
	Route *Route
	Match route.Match
	// Group is where the origin is chosen; Forward is one of the snapshot's; Cache says whether the response may be kept.
	Group   *Group
	Forward string
	Cache   bool
	// Target is what the origin is asked for: path and query.
	Target []byte
	// Request and Response are changes of headers, in order; those of policies are behind those of rules.
	Request, Response []rules.Change
	// Fired are the rules that did their actions.
	Fired []rules.Fired

	outcome  rules.Outcome
	location []byte
	response []rules.Change
}

// Direct decides about a request: route, rules, access, rate limits. now is on the clock that never goes back. It allocates
// nothing once the decision has grown.
func (s *Site) Direct(r *rules.Request, now time.Duration, d *Decision) {
	if !s.begin(r, d) {
		return
	}
	rules.Run(d.Route.sets, r, &d.outcome)
	if ok, _ := d.Route.Service.access.Admits(r); !ok {
		d.refuse(403, ReasonAccess)
		return
	}
	if ok, _, wait := d.Route.Service.limits.Admits(r, now); !ok {
		d.refuse(429, ReasonLimit)
		d.Wait = wait
		return
	}
	d.finish(r)
}

// begin finds the route; false: there is an answer already.
func (s *Site) begin(r *rules.Request, d *Decision) bool {
	*d = Decision{Target: d.Target[:0], location: d.location[:0], response: d.response[:0], outcome: d.outcome}
	d.outcome.Reset()
	secure := r.Scheme == "https"
	d.Match = s.table.Find(r.Host, r.Path, secure)
	if d.Match.Route < 0 {
		d.refuse(400, d.Match.Why)
		return false
	}
	d.Route = s.Routes[d.Match.Route]
	d.Group = d.Route.Group
	if d.Route.Spec.HTTPSRedirect && !secure {
		d.location = append(append(append(d.location, "https://"...), r.Host...), r.Path...)
		if r.HasQuery {
			d.location = append(append(d.location, '?'), r.Query...)
		}
		d.Status, d.Reason, d.Location = 307, ReasonHTTPS, d.location
		return false
	}
	return true
}

func (d *Decision) refuse(status int, reason string) { d.Status, d.Reason = status, reason }

// finish puts what rules and policies say into the decision.
func (d *Decision) finish(r *rules.Request) {
	o, spec := &d.outcome, d.Route.Spec
	d.Fired, d.Request = o.Fired, o.Request
	d.response = append(d.response, o.Response...)
	d.response = d.Route.Service.headers.AppendTo(d.response, r)
	d.Response = d.response
	if o.Status != 0 {
		d.Status, d.Location, d.Respond, d.Reason = o.Status, o.Location, o.Respond, ReasonRedirect
		if o.Respond != nil {
			d.Reason = ReasonRespond
		}
		return
	}
	d.Forward, d.Cache = spec.Forward, spec.Cache
	if o.Override {
		d.Cache = o.Cache
		if o.Forward != "" {
			d.Forward = o.Forward
		}
		if o.Group != "" {
			d.Group = d.Route.Service.groups[o.Group] // New saw that there is one
		}
	}
	if why := d.unfit(); why != "" {
		d.refuse(501, why)
		return
	}
	d.target(r, o.Path)
}

// unfit says what a request needs that the gateway does not do; "": nothing. Of the route's own group the spec sees to it.
func (d *Decision) unfit() string {
	switch d.Route.Spec.Protocol {
	case "llm":
		return ReasonProtocol
	case "grpc":
		for i := range d.Group.Spec.Origins {
			if !d.Group.Spec.Origins[i].HTTP2 {
				return ReasonHTTP1
			}
		}
	}
	return ""
}

// target is what the origin is asked for: the path of a rule, or that of the route, or the visitor's.
func (d *Decision) target(r *rules.Request, rewritten []byte) {
	spec := d.Route.Spec
	switch {
	case rewritten != nil:
		d.Target = append(d.Target, rewritten...)
	case spec.OriginPath != "":
		d.Target = append(d.Target, spec.OriginPath...)
		if n := len(d.Match.Path); n > 0 && d.Match.Path[n-1] == '*' {
			rest := r.Path[n-1:]
			if len(rest) > 0 && d.Target[len(d.Target)-1] != '/' {
				d.Target = append(d.Target, '/')
			}
			d.Target = append(d.Target, rest...)
		}
	default:
		d.Target = append(d.Target, r.Path...)
	}
	if r.HasQuery {
		d.Target = append(append(d.Target, '?'), r.Query...)
	}
}

// Scheme is what an origin is asked by.
func (d *Decision) Scheme(r *rules.Request, o *snapshot.EdgeOrigin) string {
	switch d.Forward {
	case snapshot.ForwardMatch:
		return r.Scheme
	case snapshot.ForwardHTTP, snapshot.ForwardHTTPS:
		return d.Forward
	}
	return o.Scheme
}

// Choice is a chosen origin.
type Choice struct {
	selection.Pick
	// Cookie is what the request's session cookie said.
	Cookie affinity.Finding
	// New: the group keeps sessions and this one is new, so that a cookie is to be set if the response may.
	New bool
}

// Choose chooses an origin of the group for a request. skip are those tried for it, or without room.
func (g *Group) Choose(r *rules.Request, skip selection.Origins, now time.Duration) Choice {
	ask, found := g.ask(r, skip)
	g.mu.Lock()
	pick := g.state.Choose(now, ask)
	g.mu.Unlock()
	if pick.FailOpen {
		g.open.choices.Add(1)
	}
	return Choice{Pick: pick, Cookie: found, New: g.sessions != nil && pick.Origin != selection.None && !pick.Session}
}

func (g *Group) ask(r *rules.Request, skip selection.Origins) (selection.Ask, affinity.Finding) {
	ask := selection.Ask{Skip: skip}
	if g.sessions == nil || r.Header == nil {
		return ask, affinity.None
	}
	value := affinity.Value(r.Header)
	if value == nil {
		return ask, affinity.None
	}
	origin, found := g.sessions.Find(value)
	if found == affinity.Found {
		ask.Session = selection.Only(origin)
	}
	return ask, found
}

// Succeeded tells of a request that got its response, with a status below 500.
func (g *Group) Succeeded(origin int, now time.Duration) {
	g.mu.Lock()
	g.state.Succeeded(now, origin)
	g.mu.Unlock()
}

// Failed tells of a request that got no connection, no complete response head, or a status of 500 and above. It reports
// whether that took the origin out, and until when.
func (g *Group) Failed(origin int, now time.Duration) (until time.Duration, out bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state.Failed(now, origin)
}

// AppendCookies appends the fields that establish a session with an origin, each a line that ends in CR LF. Call it for a
// Choice that is New, on a response that affinity.MayEstablish allows.
func (d *Decision) AppendCookies(dst []byte, r *rules.Request, origin int) []byte {
	var buf [affinity.MaxValue]byte
	var old []byte
	if r.Header != nil {
		old = affinity.Value(r.Header)
	}
	value := d.Group.sessions.Append(buf[:0], old, origin)
	domain := d.Route.Service.parents[d.Match.Domain]
	dst = affinity.AppendSetCookie(append(dst, "Set-Cookie: "...), affinity.Name, value, domain)
	dst = append(dst, "\r\n"...)
	if r.Scheme == "https" {
		dst = affinity.AppendSetCookie(append(dst, "Set-Cookie: "...), affinity.NameCORS, value, domain)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

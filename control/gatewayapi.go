package control

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/roster"
	"steerpoint/report"
)

const (
	// maxGatewaysAsked is how many gateways are asked one question: a person reads what they say.
	maxGatewaysAsked = 20
	// gatewayTimeout is for one answer: some round trips on a slow line.
	gatewayTimeout = 10 * time.Second
)

func (c *Control) gatewayRoute(a huma.API) {
	register(a, operation(http.MethodPost, "/explain/request", "explainRequest", "What gateways would do with a request now, by what they measured", 0),
		func(ctx context.Context, in *withBody[api.RequestQuestion]) (*body[api.RequestAnswers], error) {
			out, err := c.explainRequest(ctx, &in.Body)
			if err != nil {
				return nil, err
			}
			return &body[api.RequestAnswers]{*out}, nil
		})
}

// explainRequest asks gateways what they would do with a request.
func (c *Control) explainRequest(ctx context.Context, q *api.RequestQuestion) (*api.RequestAnswers, error) {
	client, err := parseAddr("body.client", q.Client)
	if err != nil {
		return nil, err
	}
	nodes, err := c.gatewaysToAsk(q.Node)
	if err != nil {
		return nil, err
	}
	out := &api.RequestAnswers{Left: max(0, len(nodes)-maxGatewaysAsked)}
	nodes = nodes[:len(nodes)-out.Left]
	out.Gateways = make([]api.GatewayAnswer, len(nodes))
	ctx, cancel := context.WithTimeout(ctx, gatewayTimeout)
	defer cancel()
	question := report.EdgeQuestion{
		URL: q.URL, Method: q.Method, Headers: q.Headers, Client: client, Country: strings.ToUpper(q.Country), Session: q.Session,
	}
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() {
			got, err := c.deps.AskGateway(ctx, node, question)
			g := api.GatewayAnswer{Node: node, Time: c.wallNow()}
			if err != nil {
				g.Error = printable(err.Error(), 500)
			} else {
				shown := RequestAnswer(node, &got)
				g.Answer = &shown
			}
			out.Gateways[i] = g
		})
	}
	wg.Wait()
	return out, mayExplainRequest(ctx, out)
}

// mayExplainRequest refuses a caller of some services what gateways do for others.
func mayExplainRequest(ctx context.Context, a *api.RequestAnswers) error {
	who := callerOf(ctx)
	for i := range a.Gateways {
		if g := a.Gateways[i].Answer; g != nil && g.Service != "" && who.limited() && !who.owns(g.Service) {
			return who.notOwn("service " + g.Service)
		}
	}
	return nil
}

// gatewaysToAsk are the gateways that can be asked, by name: the one that is named, or all.
func (c *Control) gatewaysToAsk(name string) ([]string, error) {
	var here []string
	known := name == ""
	if c.deps.GatewayState != nil {
		here, known = append(here, c.cfg.Node), known || name == c.cfg.Node
	}
	for _, v := range c.roster.Views(c.clock.Moment()) {
		if v.Has(roster.RoleEdge) && v.Record.Revoked.IsZero() {
			known = known || name == v.Record.Name
			if v.Connected {
				here = append(here, v.Record.Name)
			}
		}
	}
	slices.Sort(here)
	if name != "" {
		here = slices.DeleteFunc(here, func(n string) bool { return n != name })
	}
	switch {
	case !known:
		return nil, notFound("no gateway is named %s; `steer node list` shows those with the role edge", name)
	case len(here) > 0 && c.deps.AskGateway != nil:
		return here, nil
	case name != "":
		return nil, problem(http.StatusServiceUnavailable, api.CodeNoGateway, "No gateway", "gateway "+name+" is not connected")
	}
	return nil, problem(http.StatusServiceUnavailable, api.CodeNoGateway, "No gateway", "no gateway is connected that could be asked")
}

// RequestAnswer is a gateway's answer as the API gives it.
func RequestAnswer(node string, a *report.EdgeAnswer) api.RequestAnswer {
	out := api.RequestAnswer{
		URL: a.URL, Service: a.Service, Route: a.Route, Domain: a.Domain, Path: a.Path, Status: a.Status, Reason: a.Reason, Location: a.Location,
		Access: a.Access, Group: a.Group, Session: a.Session, Origin: a.Origin, Asks: a.Asks, Host: a.Host, Request: a.Request, Response: a.Response,
		Assumed: a.Assumed, Version: a.Version,
	}
	for _, r := range a.Rules {
		out.Rules = append(out.Rules, api.RuleTrace(r))
	}
	for _, s := range a.Steps {
		step := api.ChoiceStep{Name: s.Name, Kept: s.Kept, Note: s.Note}
		if step.Kept == nil {
			step.Kept = []string{}
		}
		for _, w := range s.Without {
			step.Without = append(step.Without, api.LeftOut(w))
		}
		out.Steps = append(out.Steps, step)
	}
	for i := range a.Origins {
		o := originStatus(&a.Origins[i])
		see(&o, node, &a.Origins[i])
		o.Why = whyOrigin(&o)
		out.Origins = append(out.Origins, o)
	}
	return out
}

// originStatus is an origin of which no gateway has told yet what it knows.
func originStatus(o *report.EdgeOrigin) api.OriginStatus {
	return api.OriginStatus{Origin: o.Origin, Enabled: o.Enabled, Draining: o.Draining, Seen: []api.OriginView{}}
}

// see adds what one gateway knows.
func see(s *api.OriginStatus, node string, o *report.EdgeOrigin) {
	if o.Healthy {
		s.Healthy++
	}
	s.Seen = append(s.Seen, api.OriginView{
		Node: node, Healthy: o.Healthy, Good: o.Good, Seen: o.Seen, Samples: o.Samples, Needed: o.Needed, LatencyMs: ms(o.Latency),
		OutSeconds: o.OutFor.Seconds(), Share: o.Share, Failure: printable(o.Failure, 200),
	})
}

// whyOrigin says in one sentence what is to be known of an origin; "": nothing.
func whyOrigin(o *api.OriginStatus) string {
	if !o.Enabled {
		return "left out: disabled"
	}
	var parts []string
	// tell says what the first gateway says of which it is so, and of how many more it is.
	tell := func(so func(v *api.OriginView) bool, say func(v *api.OriginView) string) {
		text, n := "", 0
		for i := range o.Seen {
			if so(&o.Seen[i]) {
				if n++; n == 1 {
					text = say(&o.Seen[i])
				}
			}
		}
		if n > 0 && len(o.Seen) > 1 {
			text += fmt.Sprintf(" (%d of %d gateways)", n, len(o.Seen))
		}
		if n > 0 {
			parts = append(parts, text)
		}
	}
	tell(func(v *api.OriginView) bool { return !v.Healthy }, func(v *api.OriginView) string {
		text := fmt.Sprintf("not healthy: %d of its last %d probes succeeded, %d of %d are needed", v.Good, v.Seen, v.Needed, v.Samples)
		if v.Failure != "" {
			text += ": " + v.Failure
		}
		return text
	})
	tell(func(v *api.OriginView) bool { return v.OutSeconds > 0 }, func(v *api.OriginView) string {
		return fmt.Sprintf("requests failed: out for another %.0f s", v.OutSeconds)
	})
	if o.Draining {
		parts = append(parts, "draining: no new sessions")
	}
	tell(func(v *api.OriginView) bool { return v.Healthy && v.OutSeconds == 0 && v.Share < 1 }, func(v *api.OriginView) string {
		return fmt.Sprintf("returning: it has %.0f %% of its weight", 100*v.Share)
	})
	return strings.Join(parts, "; ")
}

// gatewayStatus is what gateways serve by and know of origins, of one service or all; nil: there is no gateway. It runs in the
// loop.
func (c *Control) gatewayStatus(now moment.Moment, service string) *api.EdgeStatus {
	heard := c.heardGateways(now)
	out := &api.EdgeStatus{Groups: []api.GroupStatus{}}
	var published time.Time
	if out.Version, published = c.gateways.latest(); !published.IsZero() {
		out.Published = &published
	}
	if c.deps.GatewayState != nil {
		out.Gateways++
	}
	for _, v := range c.roster.Views(now) {
		if v.Has(roster.RoleEdge) && v.Record.Revoked.IsZero() {
			out.Gateways++
		}
	}
	if out.Gateways == 0 {
		return nil
	}
	groups := map[[2]string][]api.OriginStatus{}
	for _, node := range slices.Sorted(maps.Keys(heard)) {
		e := heard[node]
		if e.Version == out.Version {
			out.Current++
		}
		out.Left = max(out.Left, e.Left)
		for i := range e.Groups {
			if g := &e.Groups[i]; service == "" || g.Service == service {
				key := [2]string{g.Service, g.Group}
				groups[key] = seeGroup(groups[key], node, g)
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		g := api.GroupStatus{Service: key[0], Group: key[1], Origins: []api.OriginStatus{}}
		for i := range groups[key] {
			o := &groups[key][i]
			o.Why = whyOrigin(o)
			g.Origins = append(g.Origins, *o)
		}
		out.Groups = append(out.Groups, g)
	}
	return out
}

// seeGroup adds what one gateway knows of a group.
func seeGroup(origins []api.OriginStatus, node string, g *report.EdgeGroup) []api.OriginStatus {
	for i := range g.Origins {
		o := &g.Origins[i]
		at := slices.IndexFunc(origins, func(s api.OriginStatus) bool { return s.Origin == o.Origin })
		if at < 0 {
			at = len(origins)
			origins = append(origins, originStatus(o))
		}
		see(&origins[at], node, o)
	}
	return origins
}

// nodeGateway is what a node with the role edge serves by.
func (c *Control) nodeGateway(v *roster.View) *api.NodeEdge {
	newest, _ := c.gateways.latest()
	out := &api.NodeEdge{
		Version: v.Edge.Using, Refused: v.Edge.Refused, Error: v.Edge.Reason, Behind: newest > 0 && v.Edge.Using != newest,
	}
	if v.Status != nil && v.Status.Edge != nil {
		e := v.Status.Edge
		out.FromDisk, out.Connections, out.Origins, out.Healthy = e.FromDisk, e.Connections, e.Origins, e.Healthy
	}
	return out
}

// ownGroups leaves the groups of the services that a caller may see.
func ownGroups(who *caller, e *api.EdgeStatus) *api.EdgeStatus {
	if e == nil {
		return nil
	}
	own := *e
	own.Groups = slices.DeleteFunc(slices.Clone(e.Groups), func(g api.GroupStatus) bool { return !who.owns(g.Service) })
	return &own
}

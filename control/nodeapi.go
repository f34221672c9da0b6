package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/roster"
	"steerpoint/control/internal/store"
	"steerpoint/internal/pki"
)

const (
	defaultTokenLife = time.Hour
	maxTokenLife     = 30 * 24 * time.Hour
	// keepTokens is how long a token that is over stays to be seen.
	keepTokens = 7 * 24 * time.Hour
)

// NodeInput names a node. It is exported for the frame of the API, as TokenInput is.
type NodeInput struct {
	Who
	Name string `path:"name" maxLength:"63" doc:"name of the node" example:"fra1"`
}

type nodeBody[T any] struct {
	NodeInput
	Body T
}

// TokenInput names a token.
type TokenInput struct {
	Who
	ID string `path:"id" maxLength:"40" doc:"ID of the token, which is no secret" example:"k3v9w2"`
}

func (c *Control) nodeRoutes(a huma.API) {
	register(a, operation(http.MethodGet, "/nodes", "nodes", "Joined nodes, by name", 0),
		c.listNodes)
	register(a, operation(http.MethodPost, "/nodes/{name}/revoke", "revokeNode", "Make the certificates of a node worthless, at once and for good", 0),
		func(ctx context.Context, in *nodeBody[api.RevokeRequest]) (*body[api.NodeView], error) {
			return c.nodeAnswer(ctx, in.Name, c.revokeNode(ctx, in.actor(), in.Name, in.Body.Reason))
		})
	register(a, operation(http.MethodPost, "/nodes/{name}/labels", "labelNode", "Change the labels of a node", 0),
		func(ctx context.Context, in *nodeBody[api.LabelsRequest]) (*body[api.NodeView], error) {
			return c.nodeAnswer(ctx, in.Name, c.labelNode(ctx, in.actor(), in.Name, &in.Body))
		})
	register(a, operation(http.MethodDelete, "/nodes/{name}", "removeNode", "Forget a node; its certificates are refused, its name is free", 0),
		func(ctx context.Context, in *NodeInput) (*struct{}, error) {
			return nil, c.removeNode(ctx, in.actor(), in.Name)
		})
	register(a, operation(http.MethodGet, "/tokens", "tokens", "Join tokens, the newest first", 0),
		c.listTokens)
	register(a, operation(http.MethodPost, "/tokens", "createToken", "Make a join token; its text is shown this once", 0),
		func(ctx context.Context, in *withBody[api.TokenRequest]) (*body[api.TokenCreated], error) {
			t, err := c.createToken(ctx, in.actor(), &in.Body)
			return &body[api.TokenCreated]{t}, err
		})
	register(a, operation(http.MethodDelete, "/tokens/{id}", "revokeToken", "Delete a token; nodes that joined by it stay", 0),
		func(ctx context.Context, in *TokenInput) (*struct{}, error) {
			return nil, c.revokeToken(ctx, in.actor(), in.ID)
		})
}

// listInput asks for a part of a list without parameters of its own.
type listInput struct {
	PageInput
	FilterInput
}

func (c *Control) listNodes(ctx context.Context, in *listInput) (*body[api.NodeList], error) {
	f, err := in.parse(nodeFields...)
	if err != nil {
		return nil, err
	}
	var all []api.NodeView
	if err := c.do(ctx, func() { all = c.nodeViews(c.clock.Moment()) }); err != nil {
		return nil, err
	}
	page, next, err := pageOf("nodes", in.PageInput, fitting(f, all, nodeValues), func(n *api.NodeView) string { return n.Name })
	return &body[api.NodeList]{api.NodeList{Nodes: page, Next: next}}, err
}

// tokenKey orders tokens: the newest first, by what is left until the last time there is.
func tokenKey(t *api.TokenView) string {
	return fmt.Sprintf("%016x %s", math.MaxInt64-t.Created.UnixNano(), t.ID)
}

func (c *Control) listTokens(_ context.Context, in *listInput) (*body[api.TokenList], error) {
	f, err := in.parse(tokenFields...)
	if err != nil {
		return nil, err
	}
	var all []api.TokenView
	for _, t := range c.roster.Tokens() {
		all = append(all, c.tokenView(t))
	}
	page, next, err := pageOf("tokens", in.PageInput, fitting(f, all, tokenValues), tokenKey)
	return &body[api.TokenList]{api.TokenList{Tokens: page, Next: next}}, err
}

// nodeAnswer gives a node as it is after a change; the points of the rules follow before that.
func (c *Control) nodeAnswer(ctx context.Context, name string, err error) (*body[api.NodeView], error) {
	if err != nil {
		return nil, err
	}
	var out api.NodeView
	err = c.do(ctx, func() {
		c.refreshPoints()
		now := c.clock.Moment()
		if v, ok := c.roster.View(name, now); ok {
			out = c.nodeView(now, &v)
		}
	})
	return &body[api.NodeView]{out}, err
}

// nodeViews lists every node. It runs in the loop.
func (c *Control) nodeViews(now moment.Moment) []api.NodeView {
	out := []api.NodeView{}
	for _, v := range c.roster.Views(now) {
		out = append(out, c.nodeView(now, &v))
	}
	return out
}

func (c *Control) nodeView(now moment.Moment, v *roster.View) api.NodeView {
	rec := &v.Record
	out := api.NodeView{
		Name: rec.Name, Roles: rec.Roles, Labels: rec.Labels, State: api.NodeConnected, Connected: v.Connected,
		Address: rec.Address, Version: rec.Version, Joined: rec.Joined, CertificateExpires: rec.Expires,
		ClockOffsetSeconds: v.Offset.Seconds(), RevokedBy: rec.RevokedBy, RevokedWhy: rec.RevokedWhy,
	}
	if v.Remote != "" {
		out.Address = v.Remote
	}
	if !v.LastHeard.IsZero() {
		out.LastSeen = &v.LastHeard
	}
	if !rec.Revoked.IsZero() {
		out.Revoked = &rec.Revoked
	}
	if c.engine.NodeDrained(now.At, rec.Name) {
		until, _ := c.engine.DrainUntil(now.At, "", rec.Name)
		out.Drained, out.DrainedUntil = true, c.wall(until)
	}
	switch {
	case out.Revoked != nil:
		out.State = api.NodeRevoked
	case out.Drained:
		out.State = api.NodeDrained
	case v.Away:
		out.State = api.NodeAway
	}
	c.said(&out, v)
	return out
}

// said adds what the node said of itself.
func (c *Control) said(out *api.NodeView, v *roster.View) {
	if v.Has(roster.RoleDNS) {
		out.Map = &api.NodeMap{
			Version: v.Map.Using, AgeSeconds: v.MapAge.Seconds(), Refused: v.Map.Refused, Error: v.Map.Reason, AckedSeconds: v.Map.After.Seconds(),
		}
	}
	if v.Has(roster.RoleProbe) {
		out.Tasks = &api.NodeTasks{
			Version: v.Tasks.Using, Error: v.Tasks.Reason, Observations: v.Counts.Evaluated, Late: v.Counts.Late, Refused: v.Counts.Refused,
			Silent: v.Silent && v.Record.Revoked.IsZero(),
		}
		if p := c.engine.Probe(v.Record.Name); p != nil {
			out.Tasks.Tasks = len(p.Tasks)
		}
	}
	if v.Has(roster.RoleEdge) {
		out.Gateway = c.nodeGateway(v)
	}
	s := v.Status
	if s == nil {
		return
	}
	out.Listeners, out.Trouble = s.Listeners, s.Trouble
	if s.Version != "" {
		out.Version = s.Version
	}
	if out.Map != nil && s.Map != nil {
		out.Map.FromDisk, out.Map.Queries = s.Map.FromDisk, s.Map.Queries
	}
	if out.Tasks != nil && s.Tasks != nil {
		out.Tasks.Spooled, out.Tasks.Dropped = s.Tasks.Spooled, s.Tasks.Dropped
	}
}

func (c *Control) tokenView(t store.Token) api.TokenView {
	out := api.TokenView{ID: t.ID, Roles: t.Roles, Name: t.Name, State: api.TokenOpen, Created: t.Created, Actor: t.Actor, Expires: t.Expires, Node: t.Node}
	switch {
	case !t.Used.IsZero():
		out.State, out.Used = api.TokenUsed, &t.Used
	case c.tokenOver(t):
		out.State = api.TokenExpired
	}
	return out
}

func (c *Control) createToken(ctx context.Context, actor string, r *api.TokenRequest) (api.TokenCreated, error) {
	life := defaultTokenLife
	if r.For != "" {
		d, err := time.ParseDuration(r.For)
		if err != nil || d < time.Minute || d > maxTokenLife {
			return api.TokenCreated{}, badRequest("body.for", "for %q is not a duration from 1m to %v", r.For, maxTokenLife)
		}
		life = d
	}
	roles := slices.Compact(slices.Sorted(slices.Values(r.Roles)))
	for _, role := range roles {
		if !slices.Contains(knownRoles(), role) {
			return api.TokenCreated{}, badRequest("body.roles", "there is no role %q: %s are", role, strings.Join(knownRoles(), ", "))
		}
	}
	if len(roles) == 0 {
		return api.TokenCreated{}, badRequest("body.roles", "a token needs a role: %s", strings.Join(knownRoles(), ", "))
	}
	if r.Name != "" {
		if err := pki.ValidName(r.Name); err != nil {
			return api.TokenCreated{}, badRequest("body.name", "node name: %v", err)
		}
	}
	t := pki.NewToken(c.authority.Hash())
	now := c.clock.Moment()
	rec := store.Token{
		ID: t.ID, Hash: t.SecretHash(), Roles: roles, Name: r.Name, Created: now.Wall.UTC(), Boot: now.Boot, BootTime: now.BootTime,
		Expires: now.Wall.Add(life).UTC(), Actor: actor,
	}
	err := c.changeEnrolled(ctx, func() (*store.Enrolment, error) {
		return &store.Enrolment{NewToken: &rec, Audit: c.nodeAudit(actor, api.ActionCreate, "Token", t.ID, "", nil, auditOf(c.tokenView(rec)))}, nil
	})
	if err != nil {
		return api.TokenCreated{}, err
	}
	return api.TokenCreated{Token: t.String(), View: c.tokenView(rec)}, nil
}

func (c *Control) revokeToken(ctx context.Context, actor, id string) error {
	return c.changeEnrolled(ctx, func() (*store.Enrolment, error) {
		t, ok := c.roster.Token(id)
		if !ok {
			return nil, notFound("no token has the ID %s; `steer token list` shows them", id)
		}
		return &store.Enrolment{DropTokens: []string{id}, Audit: c.nodeAudit(actor, api.ActionDelete, "Token", id, "", auditOf(c.tokenView(t)), nil)}, nil
	})
}

// changeEnrolled writes what f makes of the records as they are, nil for nothing; f may be asked again.
func (c *Control) changeEnrolled(ctx context.Context, f func() (*store.Enrolment, error)) error {
	_, err := retryStored(ctx, c, func() (struct{}, error) {
		change, err := f()
		if err == nil && change != nil {
			err = c.enrol(ctx, change)
		}
		return struct{}{}, err
	})
	return err
}

func (c *Control) existing(name string) (store.Node, error) {
	n, ok := c.roster.Node(name)
	if !ok {
		return n, notFound("no node is named %s; `steer node list` shows them", name)
	}
	return n, nil
}

func (c *Control) revokeNode(ctx context.Context, actor, name, reason string) error {
	err := c.changeEnrolled(ctx, func() (*store.Enrolment, error) {
		n, err := c.existing(name)
		if err != nil {
			return nil, err
		}
		before := auditOf(&n)
		if n.Revoked.IsZero() {
			n.Revoked, n.RevokedBy, n.RevokedWhy = c.wallNow(), actor, reason
		}
		return &store.Enrolment{Node: &n, Audit: c.nodeAudit(actor, "revoke", "Node", name, reason, before, auditOf(&n))}, nil
	})
	if err != nil {
		return err
	}
	c.dropNode(name)
	c.nodeEvent(name, false, fmt.Sprintf("node %s revoked by %s: %s", name, actor, reason))
	return nil
}

func (c *Control) removeNode(ctx context.Context, actor, name string) error {
	err := c.changeEnrolled(ctx, func() (*store.Enrolment, error) {
		n, err := c.existing(name)
		if err != nil {
			return nil, err
		}
		return &store.Enrolment{
			DropNode: &n, Removed: &store.Removed{Name: name, Latest: n.Latest},
			Audit: c.nodeAudit(actor, api.ActionDelete, "Node", name, "", auditOf(&n), nil),
		}, nil
	})
	if err != nil {
		return err
	}
	c.dropNode(name)
	c.nodeEvent(name, false, fmt.Sprintf("node %s removed by %s", name, actor))
	return c.do(ctx, c.refreshPoints)
}

func (c *Control) labelNode(ctx context.Context, actor, name string, r *api.LabelsRequest) error {
	var text string
	err := c.changeEnrolled(ctx, func() (*store.Enrolment, error) {
		n, err := c.existing(name)
		if err != nil {
			return nil, err
		}
		before := auditOf(&n)
		n.Labels = maps.Clone(n.Labels)
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		for _, k := range r.Remove {
			delete(n.Labels, k)
		}
		maps.Copy(n.Labels, r.Set)
		if problem := labelsProblem(n.Labels); problem != "" {
			return nil, badRequest("body.set", "%s", problem)
		}
		text = labelText(n.Labels)
		return &store.Enrolment{Node: &n, Audit: c.nodeAudit(actor, api.ActionUpdate, "Node", name, "labels", before, auditOf(&n))}, nil
	})
	if err != nil {
		return err
	}
	c.nodeEvent(name, true, fmt.Sprintf("node %s labelled by %s: %s", name, actor, text))
	return nil
}

func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return "no labels"
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ", ")
}

func (c *Control) nodeAudit(actor, action, kind, name, reason string, before, after json.RawMessage) []store.Audit {
	return []store.Audit{{Time: c.wallNow(), Actor: actor, Action: action, Kind: kind, Name: name, Reason: reason, Before: before, After: after}}
}

// auditOf is a record as the audit trail keeps it. It always encodes.
func auditOf(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// pruneEnrolled forgets tokens that have been over for a week, and removed nodes whose certificates nobody takes.
func (c *Control) pruneEnrolled(ctx context.Context) {
	wall := c.wallNow()
	err := c.changeEnrolled(ctx, func() (*store.Enrolment, error) {
		e := &store.Enrolment{}
		for _, t := range c.roster.Tokens() {
			if wall.Sub(t.Expires) > keepTokens {
				e.DropTokens = append(e.DropTokens, t.ID)
			}
		}
		for _, x := range c.roster.AllRemoved() {
			if wall.Sub(x.Latest) > pki.RenewWithin {
				e.DropRemoved = append(e.DropRemoved, x.Name)
			}
		}
		if len(e.DropTokens)+len(e.DropRemoved) == 0 {
			return nil, nil
		}
		return e, nil
	})
	if err != nil {
		c.log.Warn("old tokens not pruned", "error", err)
	}
}

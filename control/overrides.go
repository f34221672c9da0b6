package control

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"steerpoint/control/api"
	"steerpoint/spec"
	"steerpoint/steering"
)

// maxName is the longest name of a resource.
const maxName = 40

// splitRule parts service/rule (or service/edge).
func splitRule(s string) (service, name string) {
	service, name, _ = strings.Cut(s, "/")
	return service, name
}

// overrideTarget is what an override is about: service/rule, service, service/edge or a point.
func overrideTarget(v *spec.Override) string {
	switch {
	case v.Force != "":
		return v.Rule
	case v.Freeze != nil && v.Freeze.Rule != "":
		return v.Freeze.Rule
	case v.Freeze != nil:
		return v.Freeze.Service
	case v.Drain != nil && v.Drain.Edge != "":
		return v.Drain.Edge
	case v.Drain != nil && v.Drain.Point != "":
		return v.Drain.Point
	case v.Drain != nil:
		return v.Drain.Node
	}
	return ""
}

func overrideKind(v *spec.Override) string {
	switch {
	case v.Force != "":
		return "force"
	case v.Freeze != nil:
		return "freeze"
	}
	return "drain"
}

// describeOverride is one clause for people.
func describeOverride(v *spec.Override) string {
	s := overrideKind(v) + " " + overrideTarget(v)
	if v.Force != "" {
		s += " to " + v.Force
	}
	if !v.Until.IsZero() {
		s += " until " + v.Until.UTC().Format(time.RFC3339)
	}
	if v.Reason != "" {
		s += " (" + v.Reason + ")"
	}
	return s
}

// overrideName is the name of the Override a request writes. The same target gives the same name, so that a second
// force replaces the first; n > 0 gives other names for it, for when the first is taken. The sum keeps a-b/c and a/b-c apart.
func overrideName(kind, target string, n int) string {
	summed := kind + " " + target
	if n > 0 {
		summed += " " + strconv.Itoa(n) // no target has a space
	}
	sum := sha256.Sum256([]byte(summed))
	tail := fmt.Sprintf("-%x", sum[:4])
	name := kind + "-" + strings.NewReplacer("/", "-", ".", "-").Replace(target)
	return strings.TrimRight(name[:min(len(name), maxName-len(tail))], "-") + tail
}

// end works out when an override ends; zero: when it is taken back.
func (c *Control) end(forText string, until *time.Time) (time.Time, error) {
	now := c.clock.Moment().Wall
	switch {
	case forText != "" && until != nil:
		return time.Time{}, badRequest("body.until", "both for and until are set: give one of them")
	case until != nil && !until.After(now):
		return time.Time{}, badRequest("body.until", "until %s is not in the future (it is %s)", until.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case until != nil:
		return until.UTC(), nil
	case forText == "":
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(forText)
	if err != nil || d <= 0 {
		return time.Time{}, badRequest("body.for", "for %q is not a duration above zero, such as 1h or 30m", forText)
	}
	return now.Add(d).UTC(), nil
}

// freeOverrideName is the name under which an override is written: that of one about the same target, which it replaces,
// or the first that is free. Anybody can work out the first and give it to an Override of their own: that one must
// neither be replaced nor stand in the way.
func (c *Control) freeOverrideName(ctx context.Context, kind, target string) (string, error) {
	same, again := map[string]bool{}, false // by name of each that is there: whether it is about this target
	err := c.do(ctx, func() {
		for _, v := range c.resources.set().Overrides() {
			same[v.Name] = overrideKind(v) == kind && overrideTarget(v) == target
			again = again || same[v.Name]
		}
	})
	if err != nil {
		return "", err
	}
	free := ""
	// One of so many is free. The margin is for one that took a late name, when those that had the better ones are gone.
	for n := range len(same) + 256 {
		name := overrideName(kind, target, n)
		about, taken := same[name]
		switch {
		case about:
			return name, nil
		case !taken && !again:
			return name, nil
		case !taken && free == "":
			free = name
		}
	}
	return free, nil
}

// writeOverride stores an override and says what it did.
func (c *Control) writeOverride(ctx context.Context, actor string, v spec.Override) (*api.OverrideResult, error) {
	var err error
	if v.Name, err = c.freeOverrideName(ctx, overrideKind(&v), overrideTarget(&v)); err != nil {
		return nil, err
	}
	doc := spec.Resource{Kind: spec.KindOverride, Name: v.Name, Override: &v}
	b, err := doc.JSON(spec.Minimal)
	if err != nil {
		return nil, err
	}
	docs, errs := spec.Parse("", b) // the same door as a file: what a file may not say, a request may not
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	p, err := c.commit(ctx, &change{docs: docs, actor: actor, reason: v.Reason})
	if err != nil {
		return nil, overrideProblem(err)
	}
	res := &api.OverrideResult{Name: v.Name, Revision: p.plan.Revision, Answers: p.plan.Answers, Message: describeOverride(&v)}
	if !v.Until.IsZero() {
		res.Until = &v.Until
	}
	for _, w := range p.plan.Warnings {
		res.Message += "; " + w.Message
	}
	return res, nil
}

// overrideProblem makes a target that does not exist a 404 of its own: the request was well formed.
func overrideProblem(err error) error {
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeInvalid {
		return err
	}
	for _, it := range p.Errors {
		if it.Code != spec.CodeOverrideTarget {
			return err
		}
	}
	q := *p
	q.Status, q.Code, q.Title = http.StatusNotFound, api.CodeNotFound, "No such target"
	q.Detail = p.Errors[0].Message
	return &q
}

func (c *Control) force(ctx context.Context, actor string, r *api.ForceRequest) (*api.OverrideResult, error) {
	until, err := c.end(r.For, r.Until)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(r.Rule, "/") {
		return nil, badRequest("body.rule", "%q is not service/rule", r.Rule)
	}
	return c.writeOverride(ctx, actor, spec.Override{Rule: r.Rule, Force: r.Edge, Until: until, Reason: r.Reason})
}

func (c *Control) freeze(ctx context.Context, actor string, r *api.FreezeRequest) (*api.OverrideResult, error) {
	until, err := c.end(r.For, r.Until)
	if err != nil {
		return nil, err
	}
	f := &spec.Freeze{Service: r.Target}
	if strings.Contains(r.Target, "/") {
		f = &spec.Freeze{Rule: r.Target}
	}
	return c.writeOverride(ctx, actor, spec.Override{Freeze: f, Until: until, Reason: r.Reason})
}

func (c *Control) drain(ctx context.Context, actor string, r *api.DrainRequest) (*api.OverrideResult, error) {
	until, err := c.end(r.For, r.Until)
	if err != nil {
		return nil, err
	}
	d, err := drainOf(r.Edge, r.Point, r.Node)
	if err != nil {
		return nil, err
	}
	if d.Point != "" && !c.isPoint(d.Point) {
		return nil, notFound("no probe point is named %s", d.Point)
	}
	if _, joined := c.roster.Node(d.Node); d.Node != "" && !joined {
		return nil, notFound("no node is named %s", d.Node)
	}
	return c.writeOverride(ctx, actor, spec.Override{Drain: d, Until: until, Reason: r.Reason})
}

func (c *Control) isPoint(name string) bool {
	return slices.ContainsFunc(c.points(c.clock.Now()), func(p steering.Point) bool { return p.Name == name })
}

func drainOf(edge, point, node string) (*spec.Drain, error) {
	n := 0
	for _, s := range []string{edge, point, node} {
		if s != "" {
			n++
		}
	}
	switch {
	case n != 1:
		return nil, badRequest("body", "give exactly one of edge, point and node")
	case edge != "" && !strings.Contains(edge, "/"):
		return nil, badRequest("body.edge", "%q is not service/edge", edge)
	}
	return &spec.Drain{Edge: edge, Point: point, Node: node}, nil
}

// undo takes away every override of a kind that is about target.
func (c *Control) undo(ctx context.Context, actor, kind, target, reason string) (*api.OverrideResult, error) {
	if target == "" {
		return nil, badRequest("body.target", "no target: say what is to end")
	}
	var keys, clauses []string
	err := c.do(ctx, func() {
		for _, v := range c.resources.set().Overrides() {
			if overrideKind(v) == kind && overrideTarget(v) == target {
				keys, clauses = append(keys, "Override/"+v.Name), append(clauses, describeOverride(v))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, notFound("no %s of %s is in force; `steer get override` lists what is", kind, target)
	}
	p, err := c.commit(ctx, &change{remove: keys, actor: actor, reason: reason})
	if err != nil {
		return nil, err
	}
	return &api.OverrideResult{
		Name: strings.TrimPrefix(keys[0], "Override/"), Revision: p.plan.Revision, Answers: p.plan.Answers,
		Message: "ended: " + strings.Join(clauses, "; "),
	}, nil
}

// overrideEnds is who takes away an override whose time is over.
const overrideEnds = "steer"

// endOverrides takes away overrides whose time is over. What fails is tried again a second later.
func (c *Control) endOverrides(ctx context.Context, names []string) {
	for _, name := range names {
		if _, err := c.commit(ctx, &change{remove: []string{"Override/" + name}, actor: overrideEnds, reason: "its time is over"}); err != nil {
			c.log.Warn("override that is over not removed", "override", name, "error", err)
			return
		}
	}
}

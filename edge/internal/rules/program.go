// Package rules runs the rule sets of a route on a request: conditions in, changes of the request and of its response out.
//
// A set is compiled once and not changed; a run allocates nothing once its Outcome has grown. Conditions see the request
// as it came, whatever rules before them changed. The package knows no socket.
package rules

import (
	"fmt"
	"slices"

	"steerpoint/edge/internal/route"
	"steerpoint/snapshot"
)

// Set is a rule set, compiled.
type Set struct {
	name  string
	rules []rule
	body  bool
}

type rule struct {
	name       string
	conditions []condition
	actions    []action
	stop       bool
}

// action is one action, compiled: what does not belong to kind is zero.
type action struct {
	kind     actionKind
	change   Operation
	name     string
	value    template
	redirect *snapshot.EdgeRedirect
	host     template
	path     template
	query    template
	fragment template
	rewrite  *snapshot.EdgeRewrite
	override *snapshot.EdgeOverride
	respond  *snapshot.EdgeRespond
}

type actionKind uint8

const (
	changeRequest actionKind = iota
	changeResponse
	redirect
	rewrite
	override
	respond
)

// Operation is what happens to a header.
type Operation uint8

// The operations.
const (
	Replace Operation = iota // all fields of the name become one
	Append                   // to the last field of the name, with a comma between; without one: a new field
	Delete                   // all fields of the name
)

// Compile compiles a set. It fails on whatever it does not know: a request must not be served by half of its rules.
func Compile(s *snapshot.EdgeRuleSet) (*Set, error) {
	out := &Set{name: s.Name}
	for i := range s.Rules {
		r, err := newRule(&s.Rules[i])
		if err != nil {
			return nil, fmt.Errorf("rule set %s: rule %s: %w", s.Name, s.Rules[i].Name, err)
		}
		for _, c := range r.conditions {
			out.body = out.body || c.on == "body" || c.on == "postParameter"
		}
		out.rules = append(out.rules, r)
	}
	return out, nil
}

// Groups are the origin groups that rules of the set send requests to.
func (s *Set) Groups() []string {
	var out []string
	for i := range s.rules {
		for k := range s.rules[i].actions {
			if o := s.rules[i].actions[k].override; o != nil && o.Group != "" {
				out = append(out, o.Group)
			}
		}
	}
	return out
}

// Body reports whether a condition looks at bodies, so that Request.Body must be filled in.
func (s *Set) Body() bool { return s.body }

func newRule(r *snapshot.EdgeRule) (rule, error) {
	out := rule{name: r.Name, stop: r.Stop}
	for i := range r.Conditions {
		c, err := newCondition(&r.Conditions[i])
		if err != nil {
			return out, err
		}
		out.conditions = append(out.conditions, c)
	}
	for i := range r.Actions {
		a, err := newAction(&r.Actions[i])
		if err != nil {
			return out, fmt.Errorf("action %d: %w", i+1, err)
		}
		out.actions = append(out.actions, a)
	}
	return out, nil
}

func newAction(a *snapshot.EdgeAction) (action, error) {
	switch {
	case a.RequestHeader != nil:
		return headerAction(changeRequest, a.RequestHeader)
	case a.ResponseHeader != nil:
		return headerAction(changeResponse, a.ResponseHeader)
	case a.Redirect != nil:
		return redirectAction(a.Redirect)
	case a.Rewrite != nil:
		t, err := newTemplate(a.Rewrite.Destination)
		return action{kind: rewrite, rewrite: a.Rewrite, path: t}, err
	case a.Route != nil:
		return action{kind: override, override: a.Route}, nil
	case a.Respond != nil:
		return action{kind: respond, respond: a.Respond}, nil
	}
	return action{}, fmt.Errorf("nothing is known of it")
}

func headerAction(kind actionKind, h *snapshot.EdgeHeaderAction) (action, error) {
	out := action{kind: kind, name: h.Name}
	switch h.Operation {
	case "set":
		out.change = Replace
	case "append":
		out.change = Append
	case "delete":
		out.change = Delete
	default:
		return out, fmt.Errorf("operation %q is not known", h.Operation)
	}
	var err error
	out.value, err = newTemplate(h.Value)
	return out, err
}

func redirectAction(r *snapshot.EdgeRedirect) (action, error) {
	out := action{kind: redirect, redirect: r}
	for _, f := range []struct {
		text string
		into *template
	}{{r.Host, &out.host}, {r.Path, &out.path}, {r.Query, &out.query}, {r.Fragment, &out.fragment}} {
		t, err := newTemplate(f.text)
		if err != nil {
			return out, err
		}
		*f.into = t
	}
	return out, nil
}

// Change is one change of a header. Name is as it was written; Value is valid until the Outcome is used again.
type Change struct {
	Operation Operation
	Name      string
	Value     []byte
}

// Fired is a rule that did its actions.
type Fired struct{ Set, Rule string }

// Outcome is what the rules of a request make of it. It is used again for other requests: what was taken out of it is no
// longer valid then. The zero value is ready.
type Outcome struct {
	// Override: a route action was done. Group and Forward are "" where it left them; Cache replaces the route's.
	Override bool
	Group    string
	Forward  string
	Cache    bool
	// Path is what the origin is asked for, in its one form; nil: the request's own.
	Path []byte
	// Request and Response are changes of headers, in order.
	Request, Response []Change
	// Status, unless 0, is an answer without an origin: a redirect to Location, or what Respond says.
	Status   int
	Location []byte
	Respond  *snapshot.EdgeRespond
	// Fired are the rules that did their actions, in order.
	Fired []Fired

	texts   []byte    // Values, Location
	path    [3][]byte // the next one, that in its one form, and Path
	scratch scratch
}

// Reset forgets a request.
func (o *Outcome) Reset() {
	*o = Outcome{
		Request: o.Request[:0], Response: o.Response[:0], Fired: o.Fired[:0], texts: o.texts[:0], path: o.path, scratch: o.scratch,
	}
}

// Run runs sets in their order. It resets the outcome first.
func Run(sets []*Set, r *Request, o *Outcome) { run(sets, r, o, nil) }

// Trace says of each rule that was looked at whether it fired.
type Trace struct {
	Set, Rule string
	Fired     bool
	// Condition is the first condition that did not hold, counted from 1; 0: all did.
	Condition int
}

// Explain runs sets and says what it saw.
func Explain(sets []*Set, r *Request, o *Outcome) []Trace {
	var t []Trace
	run(sets, r, o, func(s *Set, u *rule, failed int) {
		t = append(t, Trace{s.name, u.name, failed == 0, failed})
	})
	return t
}

func run(sets []*Set, r *Request, o *Outcome, seen func(*Set, *rule, int)) {
	o.Reset()
	for _, s := range sets {
		for i := range s.rules {
			u := &s.rules[i]
			failed := u.failed(r, &o.scratch)
			if seen != nil {
				seen(s, u, failed)
			}
			if failed != 0 {
				continue
			}
			o.Fired = append(o.Fired, Fired{s.name, u.name})
			for k := range u.actions {
				o.do(&u.actions[k], r)
			}
			if u.stop || o.Status != 0 {
				return
			}
		}
	}
}

// failed is the first condition that does not hold, counted from 1; 0: all hold.
func (u *rule) failed(r *Request, s *scratch) int {
	for i := range u.conditions {
		if !u.conditions[i].holds(r, s) {
			return i + 1
		}
	}
	return 0
}

func (o *Outcome) do(a *action, r *Request) {
	switch a.kind {
	case changeRequest:
		o.Request = append(o.Request, o.change(a, r))
	case changeResponse:
		o.Response = append(o.Response, o.change(a, r))
	case redirect:
		o.redirect(a, r)
	case rewrite:
		o.rewrite(a, r)
	case override:
		o.Override, o.Cache = true, a.override.Cache
		if a.override.Group != "" {
			o.Group = a.override.Group
		}
		if a.override.Forward != "" {
			o.Forward = a.override.Forward
		}
	case respond:
		o.Status, o.Respond = a.respond.Status, a.respond
	}
}

func (o *Outcome) change(a *action, r *Request) Change {
	from := len(o.texts)
	if a.change != Delete {
		o.texts = a.value.appendTo(o.texts, r)
	}
	return Change{a.change, a.name, o.texts[from:len(o.texts):len(o.texts)]}
}

// redirect makes the new URL. With the scheme the port of the request stays behind, which was the old scheme's.
func (o *Outcome) redirect(a *action, r *Request) {
	from, to := len(o.texts), a.redirect
	b := o.texts
	scheme := r.Scheme
	if to.Scheme != "match" {
		scheme = to.Scheme
	}
	b = append(append(b, scheme...), "://"...)
	if a.host != nil {
		b = a.host.appendTo(b, r)
	} else {
		b = append(b, r.Host...)
		if scheme == r.Scheme {
			b = appendPort(b, r)
		}
	}
	b = o.newPath(b, a.path, r)
	switch {
	case a.query != nil:
		b = a.query.appendTo(append(b, '?'), r)
	case r.HasQuery && !to.DropQuery:
		b = append(append(b, '?'), r.Query...)
	}
	if a.fragment != nil {
		b = a.fragment.appendTo(append(b, '#'), r)
	}
	b = printable(b, from) // the request's own path and query are in it too
	o.texts = b
	o.Status, o.Location = to.Status, b[from:len(b):len(b)]
}

// newPath appends the path of a template, or the request's where there is none. It begins with a slash.
func (o *Outcome) newPath(dst []byte, t template, r *Request) []byte {
	if t == nil {
		return append(dst, r.Path...)
	}
	o.scratch.other = t.appendTo(o.scratch.other[:0], r)
	if len(o.scratch.other) == 0 || o.scratch.other[0] != '/' {
		dst = append(dst, '/')
	}
	return appendPath(dst, o.scratch.other)
}

// rewrite changes the path, from what rewrites before it made.
func (o *Outcome) rewrite(a *action, r *Request) {
	path := o.Path
	if path == nil {
		path = r.Path
	}
	source := a.rewrite.Source
	if len(path) < len(source) || string(path[:len(source)]) != source {
		return
	}
	next := o.newPath(o.path[0][:0], a.path, r)
	if a.path == nil {
		next = append(next[:0], '/')
	}
	if a.rewrite.Preserve {
		next = append(next, path[len(source):]...)
	}
	o.path[0] = next
	o.path[1] = slices.Grow(o.path[1][:0], len(next)) // dot segments are there before they are gone
	clean, err := route.Clean(o.path[1], next)
	if err != nil {
		return // a slice of a variable cut an escape in two: the path stays as it was
	}
	o.Path = append(o.path[2][:0], clean...)
	o.path[2] = o.Path
}

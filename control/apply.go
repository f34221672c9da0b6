package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/store"
	"steerpoint/internal/seal"
	"steerpoint/spec"
)

// change is a wanted change of resources.
type change struct {
	docs     []spec.Resource
	remove   []string // keys
	applySet string   // of docs; "": they belong to none
	adopt    bool     // docs come under applySet also when their content stays
	prune    bool
	base     int64
	actor    string
	reason   string
	// expect compares revisions of single resources by key; 0: must not be stored.
	expect map[string]int64
	// create is the key of what is written without a word about revisions, which nothing that is stored may be replaced by;
	// "": there is none.
	create string
	// sealed is what is stored of the values of each Secret in docs, by name.
	sealed map[string]*seal.Sealed
	// renewed are keys of Secrets that are written although they are shown as they are stored.
	renewed map[string]bool
}

// planned is a change, worked out against what is stored.
type planned struct {
	plan   api.Plan
	view   store.View
	writes []store.Write
	audit  []store.Audit
}

// parseApply reads the resources of a request. Every mistake of every file is named.
func parseApply(r *api.ApplyRequest) ([]spec.Resource, error) {
	var docs []spec.Resource
	var errs spec.Errors
	for i := range r.Sources {
		file := r.Sources[i].File
		if file == "" {
			file = fmt.Sprintf("sources[%d]", i)
		}
		d, e := spec.Parse(file, []byte(r.Sources[i].Content))
		docs, errs = append(docs, d...), append(errs, e...)
	}
	for i, raw := range r.Resources {
		d, e := spec.Parse(fmt.Sprintf("resources[%d]", i), raw)
		docs, errs = append(docs, d...), append(errs, e...)
	}
	if len(errs) > 0 {
		// What is wrong between the readable ones belongs to the same answer.
		more, _ := spec.NewSet(docs).Check(spec.Partial)
		return nil, invalid(append(errs, more...))
	}
	if len(docs) == 0 && len(r.Sources) > 0 {
		return nil, problem(http.StatusUnprocessableEntity, api.CodeBadRequest, "There are no resources in it",
			"what was given holds no document; nothing was changed. An empty file is a sign that what wrote it failed, and with prune it would delete everything")
	}
	return docs, nil
}

// plan works a change out. It changes nothing.
func (c *Control) plan(ctx context.Context, ch *change) (*planned, error) {
	view, err := c.store.Resources(ctx)
	if err != nil {
		return nil, storeProblem(err)
	}
	stored, current := c.index(view)
	if ch.base != 0 && ch.base != view.Generation {
		return nil, storeProblem(store.ErrConflict)
	}
	if err := ch.checkExpected(stored); err != nil {
		return nil, err
	}
	if err := mayGuess(ctx, ch); err != nil {
		return nil, err
	}
	if ch, err = c.sealed(ch, stored); err != nil {
		return nil, err
	}
	remove := slices.Clone(ch.remove)
	if ch.prune {
		remove = append(remove, ch.pruned(stored)...)
	}
	next := current.With(ch.docs...).Without(remove...)
	if dup, _ := spec.NewSet(ch.docs).Check(spec.Partial); len(dup) > 0 {
		return nil, invalid(dup)
	}
	errs, warns := next.Check(spec.Complete)
	for i := range ch.docs {
		errs = append(errs, next.CheckOverride(&ch.docs[i])...)
	}
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	p := &planned{view: view, plan: api.Plan{Base: view.Generation, Changes: []api.Change{}, Answers: []api.AnswerChange{}, Warnings: []api.Warning{}}}
	for _, w := range warns {
		// What updates wrote and is not served, any document may be to blame for.
		if w.Code == spec.CodeDynamicUnserved || slices.ContainsFunc(ch.docs, func(d spec.Resource) bool { return d.Kind == w.Kind && d.Name == w.Name }) {
			p.plan.Warnings = append(p.plan.Warnings, warning(&w.Finding))
		}
	}
	c.workOut(ch, p, current, next, stored)
	if err := c.mayChange(ctx, p, current, next); err != nil {
		return nil, err
	}
	return p, c.simulate(ctx, p, next, stored)
}

func warning(f *spec.Finding) api.Warning {
	it := item(f)
	return api.Warning{Code: f.Code, Message: it.Message, Where: it.Location}
}

// index parses what is stored; a resource that this version cannot read is not touched and not checked.
func (c *Control) index(view store.View) (map[string]store.Resource, *spec.Set) {
	stored := make(map[string]store.Resource, len(view.Resources))
	var docs []spec.Resource
	for _, s := range view.Resources {
		stored[keyOf(&s)] = s
		if doc, err := c.parsed.get(&s); err == nil {
			docs = append(docs, doc)
		}
	}
	return stored, spec.NewSet(docs)
}

// checkExpected compares the revisions that were asked for, in the request or in a document.
func (ch *change) checkExpected(stored map[string]store.Resource) error {
	if got := stored[ch.create].Revision; got != 0 {
		return revisionNeeded(ch.create, got)
	}
	for key, want := range ch.expect {
		if got := stored[key].Revision; got != want {
			return problem(http.StatusPreconditionFailed, api.CodePreconditionFailed, "Revision differs",
				fmt.Sprintf("%s has revision %d, not %d: read it again and repeat", key, got, want))
		}
	}
	for i := range ch.docs {
		d := &ch.docs[i]
		if got := stored[d.Key()].Revision; d.Revision != 0 && int64(d.Revision) != got {
			file, line := d.File()
			return problem(http.StatusConflict, api.CodeConflict, "Revision differs",
				fmt.Sprintf("%s is written for revision %d, but has revision %d: read it again, or leave the revision out", d.Key(), d.Revision, got),
				api.ProblemItem{Message: d.Key() + " has changed", Location: fmt.Sprintf("%s:%d", file, line), File: file, Line: line, Field: "revision"})
		}
	}
	return nil
}

// revisionNeeded refuses to replace what the writer may not know of.
func revisionNeeded(key string, revision int64) error {
	return problem(http.StatusPreconditionRequired, api.CodePreconditionNeeded, "Revision needed",
		fmt.Sprintf("%s exists: say in If-Match which revision you replace (it is %d now)", key, revision))
}

// pruned names what the apply set owns and the request lacks. Overrides are never pruned: they are what an operator
// does in the night, not what a repository says. Nor are Secrets: nobody could bring their values back. Nor are
// DynamicRecords, which are what clients wrote.
func (ch *change) pruned(stored map[string]store.Resource) []string {
	var keys []string
	for key, s := range stored {
		named := slices.ContainsFunc(ch.docs, func(d spec.Resource) bool { return d.Key() == key })
		if s.Meta.ApplySet == ch.applySet && s.Kind != string(spec.KindOverride) && s.Kind != string(spec.KindSecret) && s.Kind != string(spec.KindDynamicRecords) && !named {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// workOut lists the changes and makes the writes for them.
func (c *Control) workOut(ch *change, p *planned, current, next *spec.Set, stored map[string]store.Resource) {
	now := c.clock.Moment()
	changed := map[string]bool{}
	for _, d := range spec.Diff(current, next) {
		key := string(d.Kind) + "/" + d.Name
		changed[key] = true
		out := api.Change{Action: action(d.Action), Kind: string(d.Kind), Name: d.Name, Lines: []string{}}
		for _, f := range d.Fields {
			out.Lines = append(out.Lines, f.String())
		}
		p.plan.Changes = append(p.plan.Changes, out)
		c.write(ch, p, out.Action, next, stored[key], d.Kind, d.Name, now.Wall.UTC())
	}
	for i := range ch.docs {
		d := &ch.docs[i]
		s := stored[d.Key()]
		switch {
		case changed[d.Key()]:
		case ch.renewed[d.Key()]:
			p.plan.Changes = append(p.plan.Changes, api.Change{
				Action: api.ActionUpdate, Kind: string(d.Kind), Name: d.Name, Lines: []string{"sealed anew: what is stored does not open"},
			})
			c.write(ch, p, api.ActionUpdate, next, s, d.Kind, d.Name, now.Wall.UTC())
		case ch.adopt && s.Meta.ApplySet != ch.applySet:
			p.plan.Changes = append(p.plan.Changes, api.Change{
				Action: api.ActionUpdate, Kind: string(d.Kind), Name: d.Name,
				Lines: []string{fmt.Sprintf("apply set %q -> %q", s.Meta.ApplySet, ch.applySet)},
			})
			c.write(ch, p, api.ActionUpdate, next, s, d.Kind, d.Name, now.Wall.UTC())
		default:
			p.plan.Unchanged++
		}
	}
}

func action(a spec.Action) string {
	switch a {
	case spec.Added:
		return api.ActionCreate
	case spec.Removed:
		return api.ActionDelete
	}
	return api.ActionUpdate
}

// write adds one resource's write and its audit line.
func (c *Control) write(ch *change, p *planned, act string, next *spec.Set, s store.Resource, kind spec.Kind, name string, wall time.Time) {
	m := c.clock.Moment()
	w := store.Write{Kind: string(kind), Name: name, Revision: s.Revision, Meta: store.Meta{
		Modified: wall, Actor: ch.actor, ApplySet: s.Meta.ApplySet, Boot: m.Boot, BootTime: m.BootTime,
	}}
	if ch.adopt {
		w.Meta.ApplySet = ch.applySet
	}
	if doc, ok := next.Get(kind, name); ok {
		doc.Revision = 0
		b, err := ch.stored(&doc, &s)
		if err != nil {
			b = s.Document // no document would be a deletion
		}
		w.Document = b
	}
	p.writes = append(p.writes, w)
	p.audit = append(p.audit, store.Audit{
		Time: wall, Actor: ch.actor, Action: act, Kind: string(kind), Name: name, Reason: ch.reason,
		Before: s.Document, After: w.Document,
	})
}

// simulate adds what would answer differently.
func (c *Control) simulate(ctx context.Context, p *planned, next *spec.Set, stored map[string]store.Resource) error {
	// What updates write is in no rule's inputs.
	if !slices.ContainsFunc(p.writes, func(w store.Write) bool { return w.Kind != string(spec.KindDynamicRecords) }) {
		return nil
	}
	// What is written now counts from now, also when an older one of that name is stored.
	before := make(map[string]store.Resource, len(stored))
	for k, v := range stored {
		before[k] = v
	}
	for _, w := range p.writes {
		delete(before, w.Kind+"/"+w.Name)
	}
	var answers []engine.AnswerChange
	var warns []engine.Warning
	err := c.do(ctx, func() {
		now := c.clock.Moment()
		answers, warns = c.engine.Simulate(now.At, now.Wall, next, overridesOf(next, before, c.clock))
	})
	if err != nil {
		return err
	}
	who := callerOf(ctx)
	for _, a := range answers {
		if !who.owns(a.Service) {
			continue
		}
		p.plan.Answers = append(p.plan.Answers, api.AnswerChange{
			Service: a.Service, Rule: a.Rule, Scope: a.Scope, From: a.From, To: a.To, Cause: string(a.Cause), Reason: a.Reason,
		})
	}
	for _, w := range warns {
		if service, _ := splitRule(w.Rule); !who.owns(service) { // of all that is in use, not only of what is written
			continue
		}
		p.plan.Warnings = append(p.plan.Warnings, api.Warning{Code: w.Code, Message: w.Message, Where: w.Rule})
	}
	return nil
}

// result is a resource as the change left it, whatever others have written since.
func (p *planned) result(kind spec.Kind, name string) *store.Resource {
	for i := range p.writes {
		if w := &p.writes[i]; w.Kind == string(kind) && w.Name == name {
			return &store.Resource{Kind: w.Kind, Name: w.Name, Revision: p.plan.Revision, Meta: w.Meta, Document: w.Document}
		}
	}
	for i := range p.view.Resources { // it was as the writer wants it
		if s := &p.view.Resources[i]; s.Kind == string(kind) && s.Name == name {
			return s
		}
	}
	return &store.Resource{Kind: string(kind), Name: name}
}

// commit plans a change and writes it, or nothing. A write of somebody else in between is worked out anew, a few times.
func (c *Control) commit(ctx context.Context, ch *change) (*planned, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for try := 0; ; try++ {
		p, err := c.plan(ctx, ch)
		if err == nil {
			err = mayWrite(ctx, p)
		}
		if err != nil {
			return nil, err
		}
		if len(p.writes) > 0 {
			c.deletes.note(p.writes, ch.actor)
			rev, err := c.store.WriteResources(ctx, p.view.Generation, p.writes, p.audit)
			if errors.Is(err, store.ErrConflict) && try < 3 && ch.base == 0 {
				continue
			}
			if err != nil {
				return nil, storeProblem(err)
			}
			p.plan.Revision = rev
			c.awaitApplied(ctx, rev)
		}
		p.plan.Applied = true
		return p, nil
	}
}

// awaitApplied lets the writer see what was written: status asked for next shows it.
func (c *Control) awaitApplied(ctx context.Context, rev int64) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c.applied.wait(ctx, rev)
}

// Apply does what an apply request says, for programs in the same process. A dry run only plans.
func (c *Control) Apply(ctx context.Context, actor string, r api.ApplyRequest) (api.Plan, error) {
	docs, err := parseApply(&r)
	if err != nil {
		return api.Plan{}, err
	}
	set := r.ApplySet
	if set == "" {
		set = "default"
	}
	ch := &change{docs: docs, applySet: set, adopt: true, prune: r.Prune, base: r.Base, actor: actor}
	run := c.commit
	if r.DryRun {
		run = c.plan
	}
	p, err := run(ctx, ch)
	if err != nil {
		return api.Plan{}, err
	}
	return p.plan, nil
}

// resourceOf is a stored resource as the API gives it: the document carries its revision.
func resourceOf(s *store.Resource) (api.Resource, error) {
	out := api.Resource{
		Kind: s.Kind, Name: s.Name, Revision: s.Revision, Modified: s.Meta.Modified, Actor: s.Meta.Actor,
		ApplySet: s.Meta.ApplySet, Document: shown(s.Kind, s.Document),
	}
	doc, err := parseStored(s)
	if err != nil {
		return out, nil // shown as it is stored; the alarm says why it is not in use
	}
	b, err := doc.JSON(spec.Minimal)
	if err != nil {
		return out, fmt.Errorf("resource %s/%s: %w", s.Kind, s.Name, err)
	}
	out.Document = json.RawMessage(b)
	return out, nil
}

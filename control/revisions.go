package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/archive"
	"steerpoint/control/internal/store"
	"steerpoint/spec"
)

// errHistory: what was asked for is in the archive, which cannot be read now.
var errHistory = errors.New("history is not available")

// errHistoryBehind: it is not there, and might be if the archive could be written.
var errHistoryBehind = errors.New("it cannot be written now and does not have what was written last")

type historyInput struct {
	Kind string `path:"kind" maxLength:"63" doc:"Service, Zone, Override, Notifier, Secret, RuleSet or Certificate, in any case, singular or plural" example:"service"`
	Name string `path:"name" maxLength:"63" doc:"name of the resource" example:"shop"`
	PageInput
	FilterInput
}

type revisionInput struct {
	Kind     string `path:"kind" maxLength:"63" example:"service"`
	Name     string `path:"name" maxLength:"63" example:"shop"`
	Revision int64  `path:"revision" minimum:"1" example:"42"`
}

type auditInput struct {
	Since string `query:"since" maxLength:"50" doc:"RFC 3339 time, or a Go duration back from now, such as 24h" example:"24h"`
	Kind  string `query:"kind" maxLength:"63" doc:"only of this kind, in any case; of resources also in plural"`
	Name  string `query:"name" maxLength:"255" doc:"only of what has this name"`
	Actor string `query:"actor" maxLength:"100" doc:"only what this one wrote"`
	PageInput
	FilterInput
}

func (c *Control) historyRoutes(a huma.API) {
	register(a, operation(http.MethodGet, "/history/{kind}/{name}", "history", "Revisions of one resource, newest first, and what each changed", 0), c.listRevisions)
	register(a, operation(http.MethodGet, "/history/{kind}/{name}/{revision}", "historyRevision", "One revision of a resource, with its document", 0), c.getRevision)
	register(a, operation(http.MethodPost, "/rollback", "rollback", "Write an earlier revision of a resource again, as a new revision", 0),
		func(ctx context.Context, in *withBody[api.RollbackRequest]) (*body[api.Plan], error) {
			p, err := c.rollback(ctx, in.actor(), &in.Body)
			return &body[api.Plan]{p}, err
		})
	register(a, operation(http.MethodGet, "/audit", "audit", "The audit trail, newest first: who wrote what", 0), c.auditTrail)
}

// parseSince reads a time, or a duration back from now; "" is the zero time.
func (c *Control) parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return countable(c.clock.Moment().Wall.Add(-d)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, badRequest("query.since", "%q is neither a time (RFC 3339) nor a duration such as 24h", text)
	}
	return countable(t), nil
}

// countable bounds a time to those that IDs can have, nanoseconds since 1970 in 63 bits; before them is the zero time, which
// leaves nothing out.
func countable(t time.Time) time.Time {
	first, last := time.Unix(0, 0), time.Unix(0, math.MaxInt64)
	switch {
	case t.Before(first):
		return time.Time{}
	case t.After(last):
		return last
	}
	return t
}

// switchQuery asks for a part of the switch log: at most limit entries, older than the ID before ("": the newest), not older
// than since, of a service ("": of all).
type switchQuery struct {
	since           time.Time
	service, before string
	limit           int
}

// switchPage reads one page of the switch log out of the store and the archive, as if it were one list. The store is read
// first: what it forgets meanwhile is in the archive. An archive that cannot be read leaves what the store has.
func (c *Control) switchPage(ctx context.Context, q *switchQuery) ([]store.SwitchRecord, string, error) {
	keep := func(raw json.RawMessage) bool {
		if q.service == "" {
			return true
		}
		var s struct{ Service string }
		return json.Unmarshal(raw, &s) == nil && s.Service == q.service
	}
	page, next, err := c.store.SwitchPage(ctx, q.before, q.since, q.limit, keep)
	if err != nil {
		return nil, "", err
	}
	old, err := c.history.file.Switches(ctx, archive.SwitchQuery{Before: q.before, Since: q.since, Service: q.service, Limit: q.limit + 1})
	if err != nil {
		c.log.Warn("switches older than what the store keeps are not shown", "error", c.historyError(err))
		return page, next, nil
	}
	merged, added := mergeSwitches(page, old)
	if len(merged) > q.limit {
		merged = merged[:q.limit]
		next = merged[q.limit-1].ID
	}
	if added {
		err = c.store.AddLater(ctx, merged)
	}
	return merged, next, err
}

// mergeSwitches puts two pages in descending order of ID together; of a switch in both, the store's is the newer one.
func mergeSwitches(page []store.SwitchRecord, old []archive.SwitchRow) (merged []store.SwitchRecord, added bool) {
	have := make(map[string]int, len(page))
	for i := range page {
		have[page[i].ID] = i
	}
	merged = slices.Clone(page)
	for _, r := range old {
		if i, ok := have[r.ID]; ok {
			if merged[i].Publication == nil {
				merged[i].Publication = r.Publication
			}
			if merged[i].Undone == nil {
				merged[i].Undone = r.Undone
			}
			continue
		}
		merged, added = append(merged, store.SwitchRecord{ID: r.ID, Entry: r.Entry, Publication: r.Publication, Undone: r.Undone}), true
	}
	slices.SortFunc(merged, func(a, b store.SwitchRecord) int { return cmp.Compare(b.ID, a.ID) })
	return merged, added
}

// revisionRow is a revision with the ID that the history has for it.
type revisionRow struct {
	api.Revision
	id string
}

func (c *Control) listRevisions(ctx context.Context, in *historyInput) (*body[api.RevisionPage], error) {
	kind, err := parseKind(in.Kind)
	if err != nil {
		return nil, err
	}
	f, err := in.parse(revisionFields...)
	if err != nil {
		return nil, err
	}
	c.awaitHistory(ctx)
	now, err := c.stored(ctx, kind, in.Name)
	if err != nil {
		return nil, err
	}
	seen := false
	fits := func(r *revisionRow) bool {
		seen = true
		return f.Match(func(field, key string) []string { return revisionValues(&r.Revision, field, key) })
	}
	rows, next, err := logPage(listName("history", string(kind), in.Name), in.PageInput, fits, func(r *revisionRow) string { return r.id },
		func(before string, limit int) ([]revisionRow, string, error) {
			return c.revisionPage(ctx, now, before, limit)
		})
	if err != nil {
		return nil, err
	}
	if !seen && in.Cursor == "" {
		if c.history.failing.Load() {
			return nil, fmt.Errorf("%w: %w", errHistory, errHistoryBehind)
		}
		return nil, notFound("no %s named %s was there within the time history is kept", kind, in.Name)
	}
	page := api.RevisionPage{Revisions: make([]api.Revision, len(rows)), Next: next}
	for i := range rows {
		page.Revisions[i] = rows[i].Revision
	}
	return &body[api.RevisionPage]{page}, nil
}

// revisionPage reads revisions of a resource, the newest first, older than an ID; next is the ID to go on from.
func (c *Control) revisionPage(ctx context.Context, now *store.Resource, before string, limit int) (page []revisionRow, next string, err error) {
	var last []archive.Line // the one read last, which the next one read comes before
	// One more than asked for: a revision is shown by what it changed in the one before it.
	err = c.history.file.Revisions(ctx, now.Kind, now.Name, before, limit+1, func(l archive.Line) error {
		if len(last) > 0 {
			page = append(page, revisionRow{revisionOfLine(append(last, l), now.Revision), last[0].ID})
		}
		if len(page) == limit {
			next = last[0].ID
			return nil
		}
		last = []archive.Line{l}
		return nil
	})
	if err != nil {
		return nil, "", c.historyError(err)
	}
	if next == "" && len(last) > 0 {
		page = append(page, revisionRow{revisionOfLine(last, now.Revision), last[0].ID})
	}
	return page, next, nil
}

func (c *Control) getRevision(ctx context.Context, in *revisionInput) (*body[api.Revision], error) {
	kind, err := parseKind(in.Kind)
	if err != nil {
		return nil, err
	}
	lines, err := c.revision(ctx, kind, in.Name, in.Revision)
	if err != nil {
		return nil, err
	}
	now, err := c.stored(ctx, kind, in.Name)
	if err != nil {
		return nil, err
	}
	out := revisionOfLine(lines, now.Revision)
	out.Document = shown(lines[0].Kind, lines[0].Document)
	return &body[api.Revision]{out}, nil
}

// revision gives one revision and, if it is kept, the one before it.
func (c *Control) revision(ctx context.Context, kind spec.Kind, name string, revision int64) ([]archive.Line, error) {
	c.awaitHistory(ctx)
	lines, err := c.history.file.Revision(ctx, string(kind), name, revision)
	if err != nil {
		return nil, c.historyError(err)
	}
	if len(lines) == 0 {
		if c.history.failing.Load() {
			return nil, fmt.Errorf("%w: %w", errHistory, errHistoryBehind)
		}
		return nil, notFound("%s %s has no revision %d that is kept: `steer history %s %s` lists them", kind, name, revision, strings.ToLower(string(kind)), name)
	}
	return lines, nil
}

// revisionOfLine is the first of lines as the API gives it; the second, if any, is the revision before it.
func revisionOfLine(lines []archive.Line, current int64) api.Revision {
	l := &lines[0]
	out := api.Revision{
		Kind: l.Kind, Name: l.Name, Revision: l.Revision, Time: l.Time, Actor: l.Actor, Action: l.Action, Reason: l.Reason,
		Current: !l.Gone && l.Revision == current,
	}
	var before []byte
	if len(lines) > 1 {
		before = shown(l.Kind, lines[1].Document)
	}
	switch {
	case l.Gone:
		out.Lines = []string{"deleted"}
	case before == nil && l.Action == api.ActionUpdate:
		out.Lines = []string{"changed; what it was before is not kept"}
	case before == nil && l.Action == "":
		out.Lines = []string{"in force when history began"}
	case before == nil:
		out.Lines = []string{"created"}
	default:
		out.Lines = differences(l.Kind+"/"+l.Name, before, shown(l.Kind, l.Document))
	}
	return out
}

// differences says what changed between two documents of one resource.
func differences(key string, before, after []byte) []string {
	var sets [2]*spec.Set
	for i, document := range [][]byte{before, after} {
		docs, errs := spec.Parse("", document)
		if len(errs) > 0 || len(docs) != 1 || docs[0].Key() != key {
			return []string{"changed; this version cannot read how"}
		}
		docs[0].Revision = 0
		sets[i] = spec.NewSet(docs)
	}
	lines := []string{}
	for _, d := range spec.Diff(sets[0], sets[1]) {
		for _, f := range d.Fields {
			lines = append(lines, f.String())
		}
	}
	if len(lines) == 0 {
		lines = append(lines, "written again, or taken over by another apply set; nothing in it changed")
	}
	return lines
}

// rollback writes an earlier revision again. It goes the way of any other write: checked against everything else that is
// stored, and refused when somebody wrote since the plan that was shown.
func (c *Control) rollback(ctx context.Context, actor string, r *api.RollbackRequest) (api.Plan, error) {
	kind, err := parseKind(r.Kind)
	if err != nil {
		return api.Plan{}, err
	}
	if p := callerOf(ctx).past("rollback", r.Kind); p != nil {
		return api.Plan{}, p
	}
	if err := c.maySee(ctx, r.Kind, r.Name); err != nil {
		return api.Plan{}, err
	}
	if !r.DryRun && strings.TrimSpace(r.Reason) == "" {
		return api.Plan{}, badRequest("body.reason", "say why, for those who read the history later")
	}
	lines, err := c.revision(ctx, kind, r.Name, r.Revision)
	if err != nil {
		return api.Plan{}, err
	}
	if lines[0].Gone {
		return api.Plan{}, badRequest("body.revision", "revision %d of %s %s is its deletion: `steer delete` deletes it, and an earlier revision brings it back", r.Revision, kind, r.Name)
	}
	if !slices.Contains(openKinds, string(kind)) && kind != spec.KindSecret {
		return api.Plan{}, problem(http.StatusUnprocessableEntity, api.CodeNotSupported, "No rollback of this kind",
			fmt.Sprintf("history does not keep what a %s holds: write it again", kind))
	}
	docs, err := c.revisionDocs(&lines[0])
	if err != nil {
		return api.Plan{}, err
	}
	now, err := c.stored(ctx, kind, r.Name)
	if err != nil {
		return api.Plan{}, err
	}
	ch := &change{docs: docs, applySet: now.Meta.ApplySet, base: r.Base, actor: actor, reason: fmt.Sprintf("back to revision %d: %s", r.Revision, strings.TrimSpace(r.Reason))}
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

func (c *Control) auditTrail(ctx context.Context, in *auditInput) (*body[api.AuditPage], error) {
	since, err := c.parseSince(in.Since)
	if err != nil {
		return nil, err
	}
	if k, ok := spec.ParseKind(in.Kind); ok {
		in.Kind = string(k)
	}
	f, err := in.parse(auditFields...)
	if err != nil {
		return nil, err
	}
	f = f.Folded("kind", foldKind)
	c.awaitHistory(ctx)
	fits := func(l *api.AuditLine) bool {
		return f.Match(func(field, key string) []string { return auditValues(l, field, key) })
	}
	q := archive.AuditQuery{Since: since, Kind: cmp.Or(in.Kind, f.Exact("kind")), Name: cmp.Or(in.Name, f.Exact("name")), Actor: cmp.Or(in.Actor, f.Exact("actor"))}
	page, next, err := logPage("audit", in.PageInput, fits, func(l *api.AuditLine) string { return l.ID },
		func(before string, limit int) ([]api.AuditLine, string, error) {
			q.Before, q.Limit = before, limit+1
			return c.auditPage(ctx, q)
		})
	if err != nil {
		return nil, err
	}
	return &body[api.AuditPage]{api.AuditPage{Lines: page, Next: next}}, nil
}

// auditPage reads one page of the audit trail. Of the lines it asks for, the last only tells that there are more.
func (c *Control) auditPage(ctx context.Context, q archive.AuditQuery) (page []api.AuditLine, next string, err error) {
	lines, err := c.history.file.Audit(ctx, q)
	if err != nil {
		return nil, "", c.historyError(err)
	}
	if len(lines) == q.Limit {
		lines = lines[:q.Limit-1]
		next = lines[q.Limit-2].ID
	}
	for i := range lines {
		l := &lines[i]
		page = append(page, api.AuditLine{
			ID: l.ID, Time: l.Time, Actor: l.Actor, Action: l.Action, Kind: l.Kind, Name: l.Name, Reason: l.Reason, Revision: l.Revision,
		})
	}
	return page, next, nil
}

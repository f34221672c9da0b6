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
	Kind   string `path:"kind" doc:"Service, Zone, Override, Notifier or Secret, in any case, singular or plural"`
	Name   string `path:"name" maxLength:"63"`
	Cursor string `query:"cursor" maxLength:"16" pattern:"^([0-7][0-9a-f]{15})?$"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type revisionInput struct {
	Kind     string `path:"kind"`
	Name     string `path:"name" maxLength:"63"`
	Revision int64  `path:"revision" minimum:"1"`
}

type auditInput struct {
	Since  string `query:"since" maxLength:"50" doc:"RFC 3339 time, or a Go duration back from now, such as 24h"`
	Kind   string `query:"kind" maxLength:"63" doc:"in any case; of resources also in plural"`
	Name   string `query:"name" maxLength:"255"`
	Actor  string `query:"actor" maxLength:"100"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" maxLength:"16" pattern:"^([0-7][0-9a-f]{15})?$"`
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

// switchPage reads one page of the switch log out of the store and the archive, as if it were one list. The store is read
// first: what it forgets meanwhile is in the archive. An archive that cannot be read leaves what the store has.
func (c *Control) switchPage(ctx context.Context, since time.Time, in *switchesInput) ([]store.SwitchRecord, string, error) {
	keep := func(raw json.RawMessage) bool {
		if in.Service == "" {
			return true
		}
		var s struct{ Service string }
		return json.Unmarshal(raw, &s) == nil && s.Service == in.Service
	}
	page, next, err := c.store.SwitchPage(ctx, in.Cursor, since, in.Limit, keep)
	if err != nil {
		return nil, "", err
	}
	old, err := c.history.file.Switches(ctx, archive.SwitchQuery{Before: in.Cursor, Since: since, Service: in.Service, Limit: in.Limit + 1})
	if err != nil {
		c.log.Warn("switches older than what the store keeps are not shown", "error", c.historyError(err))
		return page, next, nil
	}
	merged, added := mergeSwitches(page, old)
	if len(merged) > in.Limit {
		merged = merged[:in.Limit]
		next = merged[in.Limit-1].ID
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

func (c *Control) listRevisions(ctx context.Context, in *historyInput) (*body[api.RevisionPage], error) {
	kind, err := parseKind(in.Kind)
	if err != nil {
		return nil, err
	}
	c.awaitHistory(ctx)
	now, err := c.stored(ctx, kind, in.Name)
	if err != nil {
		return nil, err
	}
	page := api.RevisionPage{Revisions: []api.Revision{}}
	var last []archive.Line // the one read last, which the next one read comes before
	// One more than asked for: a revision is shown by what it changed in the one before it.
	err = c.history.file.Revisions(ctx, string(kind), in.Name, in.Cursor, in.Limit+1, func(l archive.Line) error {
		if len(last) > 0 {
			page.Revisions = append(page.Revisions, revisionOfLine(append(last, l), now.Revision))
		}
		if len(page.Revisions) == in.Limit {
			page.Next = last[0].ID
			return nil
		}
		last = []archive.Line{l}
		return nil
	})
	if err != nil {
		return nil, c.historyError(err)
	}
	if page.Next == "" && len(last) > 0 {
		page.Revisions = append(page.Revisions, revisionOfLine(last, now.Revision))
	}
	if len(page.Revisions) == 0 && in.Cursor == "" {
		if c.history.failing.Load() {
			return nil, fmt.Errorf("%w: %w", errHistory, errHistoryBehind)
		}
		return nil, notFound("no %s named %s was there within the time history is kept", kind, in.Name)
	}
	return &body[api.RevisionPage]{page}, nil
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
	if err == nil {
		err = c.maySee(ctx, r.Kind, r.Name)
	}
	if err != nil {
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
	c.awaitHistory(ctx)
	lines, err := c.history.file.Audit(ctx, archive.AuditQuery{Before: in.Cursor, Since: since, Kind: in.Kind, Name: in.Name, Actor: in.Actor, Limit: in.Limit + 1})
	if err != nil {
		return nil, c.historyError(err)
	}
	out := &body[api.AuditPage]{api.AuditPage{Lines: []api.AuditLine{}}}
	if len(lines) > in.Limit {
		lines = lines[:in.Limit]
		out.Body.Next = lines[in.Limit-1].ID
	}
	for i := range lines {
		l := &lines[i]
		out.Body.Lines = append(out.Body.Lines, api.AuditLine{
			ID: l.ID, Time: l.Time, Actor: l.Actor, Action: l.Action, Kind: l.Kind, Name: l.Name, Reason: l.Reason, Revision: l.Revision,
		})
	}
	return out, nil
}

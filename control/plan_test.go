package control

import (
	"strings"
	"testing"

	"steerpoint/control/api"
)

// TestPlan proves that a plan shows changes and new answers, changes nothing, and shows nothing after the apply.
// Covers: issue2 plan
func TestPlan(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	p, err := r.client.Plan(ctx, request(zoneYAML, shopYAML))
	if err != nil || len(p.Changes) != 2 || p.Applied {
		t.Fatalf("first plan %+v, %v", p, err)
	}
	if list, err := r.client.List(ctx, "services"); err != nil || len(list) != 0 {
		t.Errorf("a plan wrote: %v, %v", list, err)
	}
	r.apply(zoneYAML, shopYAML)
	r.all()
	p, err = r.client.Plan(ctx, request(zoneYAML, shopYAML))
	if err != nil || len(p.Changes) != 0 || len(p.Answers) != 0 || p.Unchanged != 2 {
		t.Errorf("plan after apply %+v, %v", p, err)
	}
	swapped := strings.Replace(shopYAML, "edges: [east, west, south]", "edges: [west, east, south]", 1)
	p, err = r.client.Plan(ctx, request(zoneYAML, swapped))
	if err != nil || len(p.Changes) != 1 || len(p.Changes[0].Lines) == 0 || len(p.Answers) != 1 {
		t.Fatalf("plan of a swap %+v, %v", p, err)
	}
	if a := p.Answers[0]; a.Rule != "default" || a.From != "east (192.0.2.1)" || a.To != "west (192.0.2.2)" || a.Cause != "config" {
		t.Errorf("answers %+v", a)
	}
	moved := strings.Replace(shopYAML, "192.0.2.1]", "192.0.2.9]", 1)
	p, err = r.client.Plan(ctx, request(zoneYAML, moved))
	if err != nil || len(p.Answers) != 1 || p.Answers[0].To != "east (192.0.2.9)" {
		t.Errorf("plan of a new address %+v, %v", p, err)
	}
	if st := r.rule("shop", "default"); st.Edge != "east" {
		t.Errorf("a plan moved the rule: %+v", st)
	}
	r.apply(swapped)
	if st := r.rule("shop", "default"); st.Edge != "west" {
		t.Errorf("the apply did not do what the plan said: %+v", st)
	}
}

// TestBadFilesChangeNothing proves that every mistake is named with file and line, and that good files beside bad
// ones are not written.
// Covers: issue2 apply, issue2 bad input
func TestBadFilesChangeNothing(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	bad := strings.Replace(strings.Replace(shopYAML, "mode: failover", "mode: fastest", 1), "edges: [west]", "edges: [nord]", 1)
	_, err := r.client.Apply(t.Context(), request(zoneYAML, bad, "kind: Nothing\n"))
	p := wantCode(t, "bad files", err, 422, api.CodeInvalid)
	if len(p.Errors) < 3 {
		t.Errorf("%d mistakes named: %v", len(p.Errors), p)
	}
	for _, it := range p.Errors {
		if it.Code == "" || it.File == "" || it.Line == 0 || it.Message == "" {
			t.Errorf("incomplete: %+v", it)
		}
	}
	if list, err := r.client.List(t.Context(), "zone"); err != nil || len(list) != 0 {
		t.Errorf("the good file was written: %v, %v", list, err)
	}
	twice, err := r.client.Apply(t.Context(), request(zoneYAML, zoneYAML))
	wantCode(t, "one resource twice", err, 422, api.CodeInvalid)
	_ = twice
}

// TestPrune proves that prune takes what the same apply set owns and nothing else, never an Override.
func TestPrune(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	r.apply(zoneYAML, shopYAML)
	other := strings.NewReplacer("name: shop", "name: other", "shop.example.com", "other.example.com").Replace(shopYAML)
	q := request(other)
	q.ApplySet = "team-b"
	if _, err := r.client.Apply(ctx, q); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Freeze(ctx, api.FreezeRequest{Target: "other", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	q = request(zoneYAML)
	q.Prune = true
	p, err := r.client.Apply(ctx, q)
	if err != nil || len(p.Changes) != 1 || p.Changes[0].Action != api.ActionDelete || p.Changes[0].Name != "shop" {
		t.Fatalf("prune %+v, %v", p, err)
	}
	if list, _ := r.client.List(ctx, "Service"); len(list) != 1 || list[0].Name != "other" || list[0].ApplySet != "team-b" {
		t.Errorf("left: %+v", list)
	}
	if list, _ := r.client.List(ctx, "Override"); len(list) != 1 {
		t.Errorf("overrides left: %+v", list)
	}
	q = request(zoneYAML)
	q.Prune, q.ApplySet = true, "team-b"
	if p, err = r.client.Apply(ctx, q); err != nil {
		t.Fatal(err)
	}
	if list, _ := r.client.List(ctx, "Override"); len(list) != 1 {
		t.Errorf("an override was pruned: %+v", list)
	}
	_, err = r.client.Apply(ctx, api.ApplyRequest{Prune: true, ApplySet: "team-b"})
	if err != nil {
		t.Errorf("pruning everything of a set: %v", err)
	}
}

// TestCompareAndSet proves revisions on single resources, in documents and on a plan.
func TestCompareAndSet(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	plan, err := r.client.Plan(ctx, request(zoneYAML, shopYAML))
	if err != nil {
		t.Fatal(err)
	}
	r.apply(zoneYAML, shopYAML)
	got, err := r.client.Get(ctx, "service", "shop")
	if err != nil || got.Revision == 0 || got.Actor != "tester" || got.ApplySet != "default" {
		t.Fatalf("get %+v, %v", got, err)
	}
	doc := []byte(strings.Replace(string(got.Document), "192.0.2.1", "192.0.2.7", 1))
	_, err = r.client.Put(ctx, "service", "shop", 0, doc)
	wantCode(t, "create what exists", err, 412, api.CodePreconditionFailed)
	_, err = r.client.Put(ctx, "service", "shop", got.Revision-1, doc)
	wantCode(t, "old revision", err, 412, api.CodePreconditionFailed)
	put, err := r.client.Put(ctx, "service", "shop", got.Revision, doc)
	if err != nil || put.Revision <= got.Revision || put.ApplySet != "default" {
		t.Fatalf("put %+v, %v", put, err)
	}
	_, err = r.client.Put(ctx, "service", "shop", put.Revision, doc)
	wantCode(t, "a document with an old revision", err, 409, api.CodeConflict)
	q := request(shopYAML)
	q.Base = put.Revision - 1
	_, err = r.client.Apply(ctx, q)
	wantCode(t, "an apply on an old plan", err, 409, api.CodeConflict)
	_ = plan
	err = r.client.Delete(ctx, "service", "shop", got.Revision)
	wantCode(t, "delete of an old revision", err, 412, api.CodePreconditionFailed)
	err = r.client.Delete(ctx, "zone", "gslb", 0)
	wantCode(t, "delete of a zone in use", err, 422, api.CodeInvalid)
	if err := r.client.Delete(ctx, "service", "shop", put.Revision); err != nil {
		t.Fatal(err)
	}
	_, err = r.client.Get(ctx, "service", "shop")
	wantCode(t, "get of what is gone", err, 404, api.CodeNotFound)
	trail, err := r.store.AuditTrail(ctx, 10)
	if err != nil || len(trail) != 4 || trail[0].Action != "delete" || trail[0].Actor != "tester" || trail[0].Before == nil || trail[1].After == nil {
		t.Errorf("audit %+v, %v", trail, err)
	}
}

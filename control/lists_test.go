package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
)

func zoneNamed(name, labels string) string {
	s := strings.Replace(strings.Replace(zoneYAML, "steering: true\n", "steering: false\n", 1), "name: gslb\n", "name: "+name+"\nlabels: {"+labels+"}\n", 1)
	return strings.ReplaceAll(s, "gslb.example.net", name+".example.net")
}

// TestPagesAreStable proves that pages go on after the entry they ended with, whatever is written between two of them:
// nothing is shown twice, and nothing that was there throughout is left out.
// Covers: issue4 cursors
func TestPagesAreStable(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	for _, name := range []string{"b", "d", "f", "h"} {
		r.apply(zoneNamed(name, ""))
	}
	var got []string
	for p := (api.ListResourcesParams{Limit: 2}); ; {
		page, _, err := r.client.ListResources(t.Context(), "zone", p)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Resources {
			got = append(got, x.Name)
		}
		if len(got) == 2 { // one before, one right after, and the one the page ended with goes
			r.apply(zoneNamed("a", ""), zoneNamed("e", ""))
			if err := r.client.Delete(t.Context(), "zone", "d", 0); err != nil {
				t.Fatal(err)
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[b d e f h]" {
		t.Errorf("read %v", got)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		r.join(name, map[string]string{"region": name}, roster.RoleDNS)
	}
	nodes, err := r.client.Nodes(t.Context(), api.NodesParams{Limit: 2})
	if err != nil || len(nodes.Nodes) != 2 || nodes.Next == "" {
		t.Fatalf("%+v %v", nodes, err)
	}
	nodes, err = r.client.Nodes(t.Context(), api.NodesParams{Limit: 2, Cursor: nodes.Next})
	if err != nil || len(nodes.Nodes) != 1 || nodes.Nodes[0].Name != "n3" || nodes.Next != "" {
		t.Errorf("second page of nodes: %+v %v", nodes, err)
	}
	newest := r.token(api.TokenRequest{Roles: []string{"probe"}})
	tokens, err := r.client.Tokens(t.Context(), api.TokensParams{Limit: 1})
	if err != nil || len(tokens.Tokens) != 1 || tokens.Next == "" {
		t.Fatalf("%+v %v", tokens, err)
	}
	all, err := r.client.AllTokens(t.Context())
	if err != nil || len(all) != 4 {
		t.Errorf("%d tokens: %v; one for each node and %s are there", len(all), err, newest)
	}
	seen := map[string]bool{}
	for p := (api.TokensParams{Limit: 1}); ; {
		page, err := r.client.Tokens(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Tokens {
			seen[x.ID] = true
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	if len(seen) != 4 {
		t.Errorf("one by one, %d tokens", len(seen))
	}
}

// TestDamagedCursors proves that a cursor that was cut, changed or made for another list is refused as what it is.
// Covers: issue4 cursors
func TestDamagedCursors(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneNamed("a", ""), zoneNamed("b", ""), shopYAML, zoneYAML)
	page, _, err := r.client.ListResources(t.Context(), "zone", api.ListResourcesParams{Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	good := page.Next
	for _, bad := range []string{good[1:], good[:len(good)-1], good + "A", good + "=", " " + good, strings.ToUpper(good), "x", "a", strings.Repeat("A", 200), "名"} {
		_, _, err := r.client.ListResources(t.Context(), "zone", api.ListResourcesParams{Cursor: bad})
		if p := wantCode(t, bad, err, 422, api.CodeBadRequest); len(p.Errors) != 1 || p.Errors[0].Location != "query.cursor" {
			t.Errorf("%s: %+v", bad, p)
		}
	}
	for what, call := range map[string]func() error{
		"another kind": func() error {
			_, _, err := r.client.ListResources(t.Context(), "service", api.ListResourcesParams{Cursor: good})
			return err
		},
		"nodes":    func() error { _, err := r.client.Nodes(t.Context(), api.NodesParams{Cursor: good}); return err },
		"tokens":   func() error { _, err := r.client.Tokens(t.Context(), api.TokensParams{Cursor: good}); return err },
		"switches": func() error { _, err := r.client.Switches(t.Context(), api.SwitchesParams{Cursor: good}); return err },
		"audit":    func() error { _, err := r.client.Audit(t.Context(), api.AuditParams{Cursor: good}); return err },
		"history": func() error {
			_, err := r.client.History(t.Context(), "zone", "a", api.HistoryParams{Cursor: good})
			return err
		},
	} {
		wantCode(t, what, call(), 422, api.CodeBadRequest)
	}
}

// TestFilters proves that each list is narrowed by its fields, and that a filter holds across pages.
// Covers: issue4 filter
func TestFilters(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneNamed("web-a", "team: edge"), zoneNamed("web-b", "team: shop"), zoneNamed("api", "team: edge"), zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "west", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	r.await("the switch", func() bool { return len(r.switches()) == 1 })
	if _, err := r.client.Freeze(t.Context(), api.FreezeRequest{Target: "shop", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Drain(t.Context(), api.DrainRequest{Point: "local", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	r.join("n1", map[string]string{"region": "eu"}, roster.RoleDNS)
	r.join("n2", map[string]string{"region": "us"}, roster.RoleDNS, roster.RoleProbe)
	if err := r.client.Delete(t.Context(), "zone", "api", 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, filter string
		want         int
	}{
		{"resources/zone", "", 3},
		{"resources/zone", "name=web-*", 2},
		{"resources/zone", "name!=web-*", 1},
		{"resources/zone", "label.team=edge", 1},
		{"resources/zone", "label.team=*", 2},
		{"resources/zone", "name=web-* label.team=shop", 1},
		{"resources/zone", "applySet=default actor=tester", 3},
		{"resources/zone", "actor=nobody", 0},
		{"resources/service", "service=shop", 1},
		{"resources/override", "service=shop", 2},
		{"resources/override", "service!=shop", 1},
		{"nodes", "role=probe", 1},
		{"nodes", "label.region=eu", 1},
		{"nodes", "name=n* state=away", 2},
		{"tokens", "state=used", 2},
		{"tokens", "node=n1", 1},
		{"tokens", "role=probe", 1},
		{"switches", "service=shop", 1},
		{"switches", "cause=forced rule=default from=east to=west actor=tester", 1},
		{"switches", "cause=down", 0},
		{"audit", "action=delete", 1},
		{"audit", "kind=Zone action=create", 4},
		{"audit", `kind=Zone name="api"`, 2},
		{"audit", "actor!=tester kind=Zone", 0},
		{"audit", "kind=zone action=create", 4},
		{"audit", `kind="ZONES" action=create`, 4},
		{"audit", "kind=zo* action=create", 4},
		{"audit", "kind=zone kind!=ZONE", 0},
		{"audit", "kind=NODE action=join", 2},
		{"history/zone/api", "", 2},
		{"history/zone/api", "action=delete", 1},
		{"history/zone/api", "actor=nobody", 0},
	} {
		found := 0
		for cursor, pages := "", 0; ; pages++ {
			target := fmt.Sprintf("/api/v1/%s?limit=1&cursor=%s&filter=%s", c.path, cursor, strings.ReplaceAll(strings.ReplaceAll(c.filter, " ", "%20"), `"`, "%22"))
			status, _, b := r.raw("GET", target, "", "")
			var page struct {
				Next                                                 string
				Resources, Nodes, Tokens, Switches, Lines, Revisions []json.RawMessage
			}
			if err := json.Unmarshal(b, &page); status != 200 || err != nil {
				t.Fatalf("%s: %d %s", target, status, b)
			}
			found += len(page.Resources) + len(page.Nodes) + len(page.Tokens) + len(page.Switches) + len(page.Lines) + len(page.Revisions)
			if cursor = page.Next; cursor == "" || pages > 20 {
				break
			}
		}
		if found != c.want {
			t.Errorf("%s, filter %q: %d entries, want %d", c.path, c.filter, found, c.want)
		}
	}
}

// TestBadFilters proves that a filter that is none is refused with the place of the mistake and what may stand there.
// Covers: issue4 filter
func TestBadFilters(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	for path, field := range map[string]string{"resources/zone": "label.KEY", "nodes": "state", "tokens": "node", "switches": "cause", "audit": "action", "history/zone/gslb": "actor"} {
		status, _, b := r.raw("GET", "/api/v1/"+path+"?filter=name=x%20potato=1", "", "")
		var p api.Problem
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		at := 8
		if path == "switches" || path == "history/zone/gslb" { // which have no names
			at = 1
		}
		if status != http.StatusUnprocessableEntity || p.Code != api.CodeBadRequest || len(p.Errors) != 1 || p.Errors[0].Column != at ||
			p.Errors[0].Location != "query.filter" || !strings.Contains(p.Errors[0].Allowed, field) {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
}

// TestShortPages proves that a filter that fits little does not read a whole log for one request: the page is short, and
// its cursor goes on where the reading ended.
// Covers: issue4 filter, issue4 cursors
func TestShortPages(t *testing.T) {
	t.Parallel()
	type entry struct{ id string }
	var log []entry // newest first
	for i := range 3 * maxFiltered {
		log = append(log, entry{fmt.Sprintf("%08d", 3*maxFiltered-i)})
	}
	reads := 0
	read := func(before string, limit int) ([]entry, string, error) {
		reads++
		from := 0
		for before != "" && from < len(log) && log[from].id >= before {
			from++
		}
		part := log[from:min(len(log), from+limit)]
		if from+limit >= len(log) {
			return part, "", nil
		}
		return part, part[len(part)-1].id, nil
	}
	id := func(e *entry) string { return e.id }
	last := func(e *entry) bool { return e.id == "00000001" }
	in := PageInput{Limit: 1000}
	var pages, found int
	for {
		page, next, err := logPage("log", in, last, id, read)
		if err != nil {
			t.Fatal(err)
		}
		pages, found = pages+1, found+len(page)
		if in.Cursor = next; next == "" {
			break
		}
	}
	if found != 1 || pages != 3 || reads != 15 {
		t.Errorf("found %d in %d pages and %d reads", found, pages, reads)
	}
	broken := errors.New("broken")
	if _, _, err := logPage("log", PageInput{Limit: 1}, last, id, func(string, int) ([]entry, string, error) { return nil, "", broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

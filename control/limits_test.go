package control

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"steerpoint/control/api"
)

// teamOf is a client with a token for one service.
func (r *rig) teamOf(service string) *api.Client {
	r.t.Helper()
	return api.NewClient("http://"+r.Addr().String(), r.apiToken(service+"-team", "operator", "", service))
}

// withDomains is shopYAML with more domains.
func withDomains(more ...string) string {
	return strings.Replace(shopYAML, "shop.example.com]", `shop.example.com, "`+strings.Join(more, `", "`)+`"]`, 1)
}

// TestLimitedTokenTakesNoNames proves that a token for one service adds no domain by which visitors of others would come to
// it, neither of a zone of ours nor of another service, and that it keeps what an admin gave it.
// Covers: issue4 roles
func TestLimitedTokenTakesNoNames(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML, blogYAML(), strings.NewReplacer("name: shop", "name: wild", "shop.example.com]", `"*.wild.example"]`).Replace(shopYAML))
	shop, ctx := r.teamOf("shop"), t.Context()
	for _, domain := range []string{
		"gslb.example.net", "*.gslb.example.net", "www.gslb.example.net", "blog.gslb.example.net", "*.example.net", // a zone, in it, over it
		"*.blog.example.com", "www.blog.example.com", "*.example.com", // the other service's, below and over it
		"wild.example", "www.wild.example", "*.a.wild.example", // at and below its wildcard
	} {
		for what, err := range map[string]error{
			"plan of ":  second(shop.Plan(ctx, request(withDomains("good.example.org", domain)))),
			"apply of ": second(shop.Apply(ctx, request(withDomains("good.example.org", domain)))),
		} {
			if domain == "blog.gslb.example.net" { // the other's service CNAME is taken for everybody
				wantCode(t, what+domain, err, http.StatusUnprocessableEntity, api.CodeInvalid)
				continue
			}
			p := wantCode(t, what+domain, err, http.StatusForbidden, api.CodeForbiddenService)
			if !strings.Contains(p.Detail, "domain "+domain+" ") || strings.Contains(p.Detail, "blog ") || !strings.Contains(p.Detail, "an admin") {
				t.Errorf("%s%s: %s", what, domain, p.Detail)
			}
		}
	}
	if _, err := shop.Apply(ctx, request(withDomains("shop.gslb.example.net", "example.com", "www.shop.example.com", "*.example.org"))); err != nil {
		t.Errorf("names that are nobody else's: %v", err)
	}
	given := withDomains("www.gslb.example.net", "*.blog.example.com")
	r.apply(given)
	if _, err := shop.Apply(ctx, request(slower(given))); err != nil {
		t.Errorf("a change that keeps what an admin gave: %v", err)
	}
	if _, err := shop.Apply(ctx, request(shopYAML)); err != nil {
		t.Errorf("giving it back: %v", err)
	}
	wantCode(t, "taking it again", second(shop.Apply(ctx, request(given))), http.StatusForbidden, api.CodeForbiddenService)
}

// TestOverrideNamesStandInNoWay proves that an Override written by hand under the name that a request of somebody else would
// give its own neither blocks that request nor is replaced by it; and that a repeated request still replaces the first,
// also when the better name has become free.
// Covers: issue4 roles, issue2 overrides
func TestOverrideNamesStandInNoWay(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML, blogYAML())
	shop, blog, ctx := r.teamOf("shop"), r.teamOf("blog"), t.Context()
	names := []string{overrideName("freeze", "blog/default", 0), overrideName("freeze", "blog/default", 1)}
	for _, name := range names {
		if _, err := shop.Apply(ctx, request("apiVersion: steerpoint/v1\nkind: Override\nname: "+name+"\nfreeze: {service: shop}\nreason: x\n")); err != nil {
			t.Fatal(err)
		}
	}
	first, err := blog.Freeze(ctx, api.FreezeRequest{Target: "blog/default", Reason: "x"})
	if err != nil || first.Name != overrideName("freeze", "blog/default", 2) {
		t.Fatalf("freeze: %+v, %v", first, err)
	}
	for _, name := range names {
		if x, err := shop.Get(ctx, "Override", name); err != nil || !strings.Contains(string(x.Document), `"shop"`) {
			t.Errorf("%s is not what it was: %s %v", name, x.Document, err)
		}
		if err := shop.Delete(ctx, "Override", name, 0); err != nil {
			t.Fatal(err)
		}
		again, err := r.client.Freeze(ctx, api.FreezeRequest{Target: "blog/default", Reason: "after " + name})
		if err != nil || again.Name != first.Name {
			t.Errorf("second freeze: %+v, %v; want it in the place of %s", again, err, first.Name)
		}
	}
	if _, err := blog.Unfreeze(ctx, api.UndoRequest{Target: "blog/default"}); err != nil {
		t.Error(err)
	}
	if list, err := r.client.List(ctx, "override"); err != nil || len(list) != 0 {
		t.Errorf("overrides left: %+v %v", list, err)
	}
}

// TestLimitedTokenReadsNoPastOverrides proves that the history of an Override tells a token for some services nothing: not
// what it was, and not whether there ever was one.
// Covers: issue4 roles, issue4 history
func TestLimitedTokenReadsNoPastOverrides(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML, blogYAML())
	ctx := t.Context()
	gone, err := r.client.Freeze(ctx, api.FreezeRequest{Target: "blog/default", Reason: "their secret"})
	if err == nil {
		_, err = r.client.Unfreeze(ctx, api.UndoRequest{Target: "blog/default"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.client.History(ctx, "override", gone.Name, api.HistoryParams{}); err != nil || len(p.Revisions) != 2 {
		t.Errorf("an admin reads it: %+v %v", p, err)
	}
	shop := r.teamOf("shop")
	for _, kind := range []string{"override", "Overrides"} {
		for _, name := range []string{gone.Name, "never"} {
			for what, err := range map[string]error{
				"history of ":      second(shop.History(ctx, kind, name, api.HistoryParams{})),
				"a revision of ":   second(shop.HistoryRevision(ctx, kind, name, gone.Revision)),
				"a rollback to ":   second(shop.Rollback(ctx, api.RollbackRequest{Kind: kind, Name: name, Revision: gone.Revision, Reason: "x"})),
				"a plan to go to ": second(shop.Rollback(ctx, api.RollbackRequest{Kind: kind, Name: name, Revision: gone.Revision, DryRun: true})),
			} {
				wantCode(t, what+kind+" "+name, err, http.StatusForbidden, api.CodeForbiddenService)
			}
		}
	}
	if p, err := shop.History(ctx, "service", "shop", api.HistoryParams{}); err != nil || len(p.Revisions) != 1 {
		t.Errorf("the history of its service: %+v %v", p, err)
	}
}

// TestLimitedListsHideOthers proves that pages and filters of a list know nothing of what a token for some services does not
// see: a cursor names its own entries, and there is one only if more of them come.
// Covers: issue4 roles, issue4 cursors, issue4 filter
func TestLimitedListsHideOthers(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML, blogYAML(), strings.NewReplacer("name: shop", "name: tool", "shop.example.com]", "tool.example.com]").Replace(shopYAML))
	r.imposed("blog")
	r.imposed("shop")
	shop, ctx := r.teamOf("shop"), t.Context()
	for _, c := range []struct {
		kind, filter string
		want         int
	}{{"service", "", 1}, {"service", "actor=tester", 1}, {"service", "name=blog", 0}, {"override", "", 3}, {"override", "service=blog", 0}, {"override", "service!=shop", 0}} {
		found := 0
		for p := (api.ListResourcesParams{Limit: 1, Filter: c.filter}); ; {
			page, _, err := shop.ListResources(ctx, c.kind, p)
			if err != nil {
				t.Fatal(err)
			}
			found += len(page.Resources)
			if (page.Next != "") != (found < c.want) {
				t.Errorf("%s, filter %q: next %q after %d of %d", c.kind, c.filter, page.Next, found, c.want)
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		if found != c.want {
			t.Errorf("%s, filter %q: %d entries, want %d", c.kind, c.filter, found, c.want)
		}
	}
}

// TestLimitedWatchHidesSecrets proves that a watch for one service is told of that service and of zones, and neither of
// Secrets and Notifiers nor of the key that opens Secrets.
// Covers: issue4 roles
func TestLimitedWatchHidesSecrets(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	from := r.feed.Last()
	r.apply("apiVersion: steerpoint/v1\nkind: Secret\nname: pager\ndata: {token: x}\n")
	r.apply("apiVersion: steerpoint/v1\nkind: Notifier\nname: pager\ntype: webhook\nurl: https://hooks.example.com/steer\non: [mass]\n")
	r.alarms.set(api.AlarmSealKey, "", true, "Secret pager does not open")
	r.apply(strings.Replace(zoneYAML, "192.0.2.53", "192.0.2.54", 1))
	r.apply(slower(shopYAML))
	heard := func(c *api.Client) (texts []string) {
		end := errors.New("enough")
		if _, err := c.Watch(t.Context(), "shop", from, func(e api.Event) error {
			texts = append(texts, e.Kind+" "+e.Message)
			if e.Kind == api.EventConfig && e.Service == "shop" {
				return end
			}
			return nil
		}); !errors.Is(err, end) {
			t.Fatalf("watch: %v, heard %v", err, texts)
		}
		return texts
	}
	all, own := strings.Join(heard(r.client), "\n"), strings.Join(heard(r.teamOf("shop")), "\n")
	for _, text := range []string{"Secret pager created", "Notifier pager created", "Secret pager does not open", "Zone gslb updated", "Service shop updated"} {
		if !strings.Contains(all, text) {
			t.Errorf("an admin does not hear %q:\n%s", text, all)
		}
		if want := !strings.Contains(text, "pager"); strings.Contains(own, text) != want {
			t.Errorf("a token for shop hears %q: %v, want %v:\n%s", text, !want, want, own)
		}
	}
}

// TestLimitedPlanWarnsOfItsOwn proves that a plan, an apply and a force tell a token for one service no warnings of others.
// Covers: issue4 roles
func TestLimitedPlanWarnsOfItsOwn(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	lost := func(yaml string) string {
		return strings.ReplaceAll(yaml, "timeout: 2s}", "timeout: 2s, points: {names: [lost]}}")
	}
	r.apply(zoneYAML, lost(shopYAML), lost(blogYAML()))
	services := func(c *api.Client) (of string) {
		p, err := c.Plan(t.Context(), request(slower(lost(shopYAML))))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range p.Warnings {
			of += " " + w.Where
		}
		return of
	}
	shop := r.teamOf("shop")
	if all := services(r.client); !strings.Contains(all, "shop") || !strings.Contains(all, "blog") {
		t.Errorf("an admin is warned of%s", all)
	}
	if own := services(shop); !strings.Contains(own, "shop") || strings.Contains(own, "blog") {
		t.Errorf("a token for shop is warned of%s", own)
	}
	res, err := shop.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "west", Reason: "x"})
	if err != nil || strings.Count(res.Message, "lost") != 2 { // of the two rules of shop
		t.Errorf("force: %+v %v", res, err)
	}
}

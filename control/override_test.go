package control

import (
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/geo"
	"steerpoint/steering"
)

// TestForceFreezeDrain proves what each override does, what it says it does, that it is audited, and that it is undone.
// Covers: issue2 overrides
func TestForceFreezeDrain(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	r.apply(zoneYAML, shopYAML)
	r.all()
	res, err := r.client.Force(ctx, api.ForceRequest{Rule: "shop/default", Edge: "west", For: "1h", Reason: "east is being moved"})
	if err != nil || len(res.Answers) != 1 || res.Answers[0].To != "west (192.0.2.2)" || res.Until == nil || !strings.Contains(res.Message, "west") {
		t.Fatalf("force %+v, %v", res, err)
	}
	if st := r.rule("shop", "default"); st.Edge != "west" || !st.Forced || st.ForcedUntil == nil || st.Cause != "forced" {
		t.Errorf("forced: %+v", st)
	}
	r.await("the switch names who forced it", func() bool {
		l := r.switches()
		return len(l) == 1 && l[0].Actor == "tester" && l[0].Override == res.Name
	})
	again, err := r.client.Force(ctx, api.ForceRequest{Rule: "shop/default", Edge: "south", Reason: "better"})
	if err != nil || again.Name != res.Name {
		t.Errorf("a second force %+v, %v: want it in the place of the first", again, err)
	}
	if _, err := r.client.Unforce(ctx, api.UndoRequest{Target: "shop/default", Reason: "moved"}); err != nil {
		t.Fatal(err)
	}
	if st := r.rule("shop", "default"); st.Forced || st.Edge != "south" {
		t.Errorf("after the force the rules go on from the forced edge: %+v", st)
	}
	drained, err := r.client.Drain(ctx, api.DrainRequest{Edge: "shop/south", Reason: "works"})
	if err != nil || len(drained.Answers) != 1 {
		t.Fatalf("drain %+v, %v", drained, err)
	}
	st := r.rule("shop", "default")
	if st.Edge != "east" || !st.Edges[2].Drained || st.Edges[2].Why != "left out: drained" {
		t.Errorf("drained: %+v", st)
	}
	if _, err := r.client.Undrain(ctx, api.UndoRequest{Edge: "shop/south"}); err != nil {
		t.Fatal(err)
	}
	if list, _ := r.client.List(ctx, "override"); len(list) != 0 {
		t.Errorf("overrides left: %+v", list)
	}
	trail, err := r.store.AuditTrail(ctx, 3)
	if err != nil || len(trail) != 3 || trail[2].Reason != "moved" || trail[2].Action != "delete" || trail[1].Reason != "works" || trail[0].Actor != "tester" {
		t.Errorf("audit %+v, %v", trail, err)
	}
}

// TestOverridesEndByThemselves proves that force, freeze and drain end when their time is over, and that what a
// request wrote is then taken away.
// Covers: issue2 overrides
func TestOverridesEndByThemselves(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	r.apply(zoneYAML, shopYAML)
	r.all()
	for _, err := range []error{
		second(r.client.Force(ctx, api.ForceRequest{Rule: "shop/fixed", Edge: "east", For: "10m", Reason: "x"})),
		second(r.client.Freeze(ctx, api.FreezeRequest{Target: "shop/default", For: "10m", Reason: "x"})),
		second(r.client.Drain(ctx, api.DrainRequest{Edge: "shop/south", For: "10m", Reason: "x"})),
		second(r.client.Drain(ctx, api.DrainRequest{Point: "local", For: "10m", Reason: "x"})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.pass(9 * time.Minute)
	s, err := r.client.Status(ctx, api.StatusParams{})
	if err != nil || len(s.Overrides) != 4 || !s.Overrides[0].Active || !s.Points[0].Drained || s.Points[0].Tasks != 0 {
		t.Errorf("one minute before: %+v %+v, %v", s.Overrides, s.Points, err)
	}
	if st := r.rule("shop", "default"); !st.Frozen || len(st.Points) != 0 || !st.Edges[2].Drained {
		t.Errorf("one minute before: %+v", st)
	}
	r.pass(time.Minute)
	if st := r.rule("shop", "default"); st.Frozen || len(st.Points) != 1 || st.Edges[2].Drained {
		t.Errorf("after: %+v", st)
	}
	if st := r.rule("shop", "fixed"); st.Forced || st.Edge != "west" {
		t.Errorf("after: %+v", st)
	}
	r.await("the overrides are taken away", func() bool { l, err := r.client.List(ctx, "override"); return err == nil && len(l) == 0 })
}

func second[T any](_ T, err error) error { return err }

// TestOverrideNames proves that names are valid, stable and apart.
func TestOverrideNames(t *testing.T) {
	seen := map[string]string{}
	for _, target := range []string{"a-b/c", "a/b-c", "a-b-c/d", strings.Repeat("s", 40) + "/" + strings.Repeat("r", 40), strings.Repeat("s", 39) + "-/x"} {
		for _, kind := range []string{"force", "freeze", "drain"} {
			n := overrideName(kind, target, 0)
			if len(n) > maxName || strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || seen[n] != "" || n != overrideName(kind, target, 0) {
				t.Errorf("%s %s: name %q (also of %s)", kind, target, n, seen[n])
			}
			seen[n] = kind + " " + target
		}
	}
}

// TestRepeatedApplyWritesNothing proves that stable content means no write.
// Covers: field 23
func TestRepeatedApplyWritesNothing(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	before, err := r.store.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reordered := strings.Replace(shopYAML, "domains: [shop.example.com]\n", "", 1) + "domains: [shop.example.com]\n"
	for _, text := range []string{shopYAML, reordered} {
		if p := r.apply(zoneYAML, text); p.Revision != 0 || len(p.Changes) != 0 || !p.Applied {
			t.Errorf("apply of the same again: %+v", p)
		}
	}
	after, err := r.store.Resources(t.Context())
	if err != nil || after.Generation != before.Generation {
		t.Errorf("generation %d became %d, %v", before.Generation, after.Generation, err)
	}
}

// TestMassSwitchNamesWhatIsShared proves that one alarm names what many switched rules have in common.
// Covers: decisions 4
func TestMassSwitchNamesWhatIsShared(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	texts := []string{zoneYAML}
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		texts = append(texts, strings.NewReplacer("name: shop", "name: "+name, "shop.example.com]", name+".example.com]").Replace(shopYAML))
	}
	r.apply(texts...)
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmMassSwitch) })
	s, err := r.client.Status(t.Context(), api.StatusParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range s.Alarms {
		if a.Code == api.AlarmMassSwitch && !strings.Contains(a.Message, "address 192.0.2.1 (5 rules)") {
			t.Errorf("alarm %+v", a)
		}
	}
	r.pass(2 * time.Minute)
	r.await("the alarm over", func() bool { return !r.alarmed(api.AlarmMassSwitch) })
}

// TestExplain proves that a client's rule, place and answer are told, by domain and by service CNAME.
// Covers: E1, field 9, field 20, field 36
func TestExplain(t *testing.T) {
	t.Parallel()
	list, err := geo.ParseList("test", []byte("203.0.113.0/24 country=CN\n"))
	if err != nil {
		t.Fatal(err)
	}
	db := geo.New(list)
	r := start(t, t.TempDir(), nil, func(_ *Config, d *Deps) {
		d.Geo = func() *geo.DB { return db }
		d.Answer = func(q Question) (Answer, error) {
			return Answer{Records: []string{q.Name + ". 30 IN A 192.0.2.1"}, TTL: 30 * time.Second, ECSScope: 24, MapVersion: 7, Why: "asked for " + q.ECS.String()}, nil
		}
	})
	cn := strings.Replace(shopYAML, "{cidr: [198.51.100.0/24]}", "{country: CN}", 1)
	r.apply(zoneYAML, cn)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	for _, c := range []struct {
		host, client, resolver   string
		rule, from, country, ask string
	}{
		{"shop.gslb.example.net", "203.0.113.9", "", "fixed", "ecs", "CN", "shop.gslb.example.net. 30"},
		{"SHOP.example.com.", "203.0.113.9", "", "fixed", "ecs", "CN", "shop.gslb.example.net. 30"},
		{"shop.example.com", "", "203.0.113.9", "fixed", "resolver", "CN", ""},
		{"shop.example.com", "10.0.0.1", "203.0.113.9", "fixed", "resolver", "CN", ""},
		{"shop.example.com", "192.0.2.200", "", "default", "ecs", "", ""},
		{"shop.example.com", "", "", "default", "none", "", ""},
	} {
		x, err := r.client.Explain(t.Context(), c.host, api.ExplainParams{Client: c.client, Resolver: c.resolver})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if x.Service != "shop" || x.Rule != c.rule || x.From != c.from || x.Place.Country != c.country || !strings.Contains(strings.Join(x.Answer, "\n"), c.ask) {
			t.Errorf("%+v: %+v", c, x)
		}
		text := strings.Join(x.Text, "\n")
		for _, want := range []string{"service shop", "rule " + c.rule, "edge west is", "ECS scope /24", "map version 7"} {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: the text does not say %q:\n%s", c, want, text)
			}
		}
	}
}

// TestWhy proves that every edge of a rule says in words why it is answered or not.
// Covers: field 36
func TestWhy(t *testing.T) {
	v := &engine.View{}
	v.Config.Edges = []string{"a", "b"}
	for _, c := range []struct {
		e    api.EdgeView
		d    steering.Decision
		want string
	}{
		{api.EdgeView{Edge: "a", Current: true}, steering.Decision{Forced: true}, "answered: forced"},
		{api.EdgeView{Edge: "a", Current: true}, steering.Decision{Degraded: true}, "answered although down: no other edge is confirmed well"},
		{api.EdgeView{Edge: "a", Current: true, Verdict: "down"}, steering.Decision{Frozen: true}, "answered although down: the rule is frozen"},
		{api.EdgeView{Edge: "a", Current: true, Verdict: "down"}, steering.Decision{Frozen: true, AllDead: true, Degraded: true}, "answered although down: the rule is frozen"},
		{api.EdgeView{Edge: "a", Current: true}, steering.Decision{Cause: "recovered"}, "answered, moved to with cause recovered"},
		{api.EdgeView{Edge: "b", Enabled: true, Drained: true}, steering.Decision{}, "left out: drained"},
		{api.EdgeView{Edge: "b"}, steering.Decision{}, "left out: disabled"},
		{api.EdgeView{Edge: "c", Enabled: true}, steering.Decision{}, "not in the rule now"},
		{api.EdgeView{Edge: "b", Enabled: true, Verdict: "down"}, steering.Decision{}, "left out: down"},
		{api.EdgeView{Edge: "b", Enabled: true, Verdict: "unknown"}, steering.Decision{}, "stands by: nothing is known of it, so nothing moves there"},
		{api.EdgeView{Edge: "b", Enabled: true, Verdict: "up", Held: true}, steering.Decision{}, "stands by: too few points have a fresh result"},
		{api.EdgeView{Edge: "b", Enabled: true, Verdict: "up", Damped: true}, steering.Decision{}, "stands by: put last because it failed too often"},
		{api.EdgeView{Edge: "b", Enabled: true, Verdict: "up"}, steering.Decision{}, "stands by: up"},
	} {
		v.Decision = c.d
		if got := why(&c.e, v); got != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}

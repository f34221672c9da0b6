package control

import (
	"encoding/json"
	"strings"
	"testing"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
)

// TestUnreadableServiceKeepsItsAnswers proves that a stored service that this version cannot read, as after a step back
// from a newer one, is answered as before, also after a restart, and that its decisions are still there for the version
// that can read it.
//
// Covers: field 12, issue2 restart
func TestUnreadableServiceKeepsItsAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML, strings.NewReplacer("name: shop", "name: other", "shop.example.com]", "o.example.com]").Replace(shopYAML))
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	view, err := r.store.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var good store.Write
	for _, s := range view.Resources {
		if s.Kind != "Service" || s.Name != "shop" {
			continue
		}
		good = store.Write(s)
		newer := good
		newer.Document = json.RawMessage(strings.Replace(string(s.Document), `{`, `{"ofNextVersion":1,`, 1))
		if good.Revision, err = r.store.WriteResources(t.Context(), view.Generation, []store.Write{newer}, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmResource) })
	r.awaitAnswer("shop", "default", "192.0.2.2")
	last, _, _ := r.out.latest()
	r.stop()

	again := start(t, dir, r.clocks, func(_ *Config, d *Deps) { d.Previous = last })
	again.awaitAnswer("other", "default", "192.0.2.2")
	again.awaitAnswer("shop", "default", "192.0.2.2")
	if !again.alarmed(api.AlarmResource) {
		t.Error("nobody is told")
	}
	last, _, _ = again.out.latest()
	if _, err := again.store.WriteResources(t.Context(), good.Revision, []store.Write{good}, nil); err != nil {
		t.Fatal(err)
	}
	again.await("it is read", func() bool { return !again.alarmed(api.AlarmResource) })
	if st := again.rule("shop", "default"); st.Edge != "west" || st.Cause != "down" || st.Sequence != 2 {
		t.Errorf("its decision is lost when it can be read again: %+v", st)
	}
	again.awaitAnswer("shop", "default", "192.0.2.2")
	again.stop()
	readable := start(t, dir, r.clocks, func(_ *Config, d *Deps) { d.Previous = last })
	if st := readable.rule("shop", "default"); st.Edge != "west" || st.Cause != "down" || st.Sequence != 2 {
		t.Errorf("its decision is lost with the next start: %+v", st)
	}
}

// TestUnreadableServiceThatIsDeleted proves that a service that comes under the name of one that could not be read, and
// was deleted, is another one: nothing of the old decisions is in it.
//
// Covers: field 12, issue2 restart
func TestUnreadableServiceThatIsDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	view, err := r.store.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	generation, revision := view.Generation, int64(0)
	for _, s := range view.Resources {
		if s.Kind != "Service" {
			continue
		}
		newer := store.Write(s)
		newer.Document = json.RawMessage(strings.Replace(string(s.Document), `{`, `{"ofNextVersion":1,`, 1))
		if revision, err = r.store.WriteResources(t.Context(), generation, []store.Write{newer}, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmResource) })
	r.stop()
	again := start(t, dir, r.clocks)
	if view, err = again.store.Resources(t.Context()); err != nil {
		t.Fatal(err)
	}
	generation = view.Generation
	waiting := 0
	if err := again.do(t.Context(), func() { waiting = len(again.engine.Kept()) }); err != nil || waiting != 2 {
		t.Fatalf("%d rules wait for their service, want 2 (%v)", waiting, err)
	}
	if _, err := again.store.WriteResources(t.Context(), generation, []store.Write{{Kind: "Service", Name: "shop", Revision: revision}}, nil); err != nil {
		t.Fatal(err)
	}
	again.await("it is gone", func() bool { return !again.alarmed(api.AlarmResource) })
	again.apply(shopYAML)
	if st := again.rule("shop", "default"); st.Edge != "east" || st.Cause != "initial" {
		t.Errorf("another service goes on from the old one's decision: %+v", st)
	}
}

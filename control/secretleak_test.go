package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/internal/hidden/leaktest"
	"steerpoint/spec"
)

// noLeak fails when a text holds one of the planted values in any form.
func noLeak(t *testing.T, what string, text []byte) {
	t.Helper()
	for n, v := range []string{plantedKey, plantedNasty, plantedOld} {
		for _, form := range leaktest.Scan(text, v) {
			t.Errorf("%s holds value %d: %s", what, n+1, form)
		}
	}
}

// badBodies are requests that hold a value where it does not belong, or in a Secret that is refused.
func badBodies() map[string][3]string {
	doc := strings.ReplaceAll(secretYAML("hooks", "signing", plantedKey), "\n", "\\n")
	object := fmt.Sprintf(`{"apiVersion":"steerpoint/v1","kind":"Secret","name":"hooks","data":{"signing":%q}}`, plantedKey)
	return map[string][3]string{
		"a document instead of a text":  {"POST", "/api/v1/apply", `{"sources":[{"file":"a","content":` + object + `}]}`},
		"a text instead of sources":     {"POST", "/api/v1/apply", fmt.Sprintf(`{"sources":%q}`, plantedKey)},
		"a list of texts":               {"POST", "/api/v1/apply", fmt.Sprintf(`{"sources":[%q]}`, plantedKey)},
		"the document as the body":      {"POST", "/api/v1/apply", object},
		"a text as the body":            {"POST", "/api/v1/plan", fmt.Sprintf("%q", plantedKey)},
		"no JSON":                       {"POST", "/api/v1/plan", plantedKey},
		"a text among resources":        {"POST", "/api/v1/apply", fmt.Sprintf(`{"resources":[%q]}`, plantedKey)},
		"resources that are no list":    {"POST", "/api/v1/apply", `{"resources":` + object + `}`},
		"an unknown field of a Secret":  {"POST", "/api/v1/apply", `{"resources":[` + strings.Replace(object, `"data"`, `"stringData"`, 1) + `]}`},
		"a set that is an object":       {"POST", "/api/v1/apply", `{"applySet":` + object + `}`},
		"a document with a bad line":    {"POST", "/api/v1/plan", `{"sources":[{"file":"a.yaml","content":"` + strings.ReplaceAll(doc, `"`, `\"`) + `  x: *` + plantedKey + `\n"}]}`},
		"another name than in the path": {"PUT", "/api/v1/resources/secret/other", object},
		"not a Secret":                  {"PUT", "/api/v1/resources/service/hooks", object},
		"broken off":                    {"PUT", "/api/v1/resources/secret/hooks", object[:len(object)-4]},
		"a wrong type in it":            {"PUT", "/api/v1/resources/secret/hooks", strings.Replace(object, `{"signing":`, `{"signing":[`, 1)[:len(object)-1] + `]}}`},
		"a body for rotate":             {"POST", "/api/v1/secrets/rotate", object},
		"a key in a notifier":           {"PUT", "/api/v1/resources/notifier/n", fmt.Sprintf(`{"apiVersion":"steerpoint/v1","kind":"Notifier","name":"n","type":"slack","urlFrom":%q}`, plantedKey)},
	}
}

// TestNoSecretLeaks plants values, uses them in every way there is, well and wrongly, and looks through everything that was
// written and answered: the data folder with store, logs of the store, history and tape, the log, every answer, event, error,
// plan, export and metric, in plain, escaped, base64, hex and inside gzip. That the search finds what is there is proved by
// planting.
//
// Covers: issue4 secret leaks, issue4 secrets sealed, issue4 history
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	l := &logs{}
	r := start(t, dir, nil, quickNews, l.use)
	ctx := t.Context()
	said := func(what string, v any, err error) {
		t.Helper()
		b, jsonErr := json.Marshal(v)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		noLeak(t, what, fmt.Appendf(b, " %+v %v", v, err))
	}
	secret := func(signing, nasty string) string {
		return fmt.Sprintf("apiVersion: steerpoint/v1\nkind: Secret\nname: hooks\ndata:\n  signing: %q\n  nasty: %q\n", signing, nasty)
	}
	for n, text := range []string{secret(plantedOld, "nothing planted here"), secret(plantedKey, plantedNasty), secret(plantedKey, plantedNasty)} {
		plan, err := r.client.Plan(ctx, request(zoneYAML, shopYAML, text, h.withSecret("pager", "on: [switch, verdict]\n")))
		said(fmt.Sprint("plan ", n), plan, err)
		plan, err = r.client.Apply(ctx, request(zoneYAML, shopYAML, text, h.withSecret("pager", "on: [switch, verdict]\n")))
		said(fmt.Sprint("apply ", n), plan, err)
		if err != nil {
			t.Fatal(err)
		}
	}
	r.all()
	r.down("192.0.2.1", "192.0.2.2")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	r.await("the switch is told", func() bool { return len(h.events("")) > 0 })
	test, err := r.client.TestNotifier(ctx, "pager")
	said("test of the notifier", test, err)
	first := r.revisions("secret", "hooks")
	rolled, err := r.client.Rollback(ctx, api.RollbackRequest{Kind: "secret", Name: "hooks", Revision: first[len(first)-1].Revision, Reason: "test"})
	said("rollback", rolled, err)
	rotation, err := r.client.RotateSecrets(ctx, api.RotateRequest{NewKey: true})
	said("rotation", rotation, err)
	for what, b := range badBodies() {
		status, _, answer := r.raw(b[0], b[1], "application/json", b[2], "If-None-Match", "*")
		if status < 400 || status >= 500 {
			t.Errorf("%s: %d %s", what, status, answer)
		}
		noLeak(t, what, answer)
	}
	for _, path := range []string{
		"/", "/metrics", "/api/v1/openapi.json", "/api/v1/status", "/api/v1/switches", "/api/v1/audit", "/api/v1/resources/secrets", "/api/v1/resources/secrets/hooks",
		"/api/v1/resources/notifiers", "/api/v1/history/secret/hooks", "/api/v1/history/notifier/pager", "/api/v1/tape/shop", "/api/v1/explain?host=shop.example.com",
		fmt.Sprintf("/api/v1/history/secret/hooks/%d", first[0].Revision),
	} {
		noLeak(t, path, []byte(r.textAt(path)))
	}
	events, _, _ := r.feed.After(0, 100_000)
	said("events", events, nil)
	if len(events) < 5 {
		t.Errorf("%d events", len(events))
	}
	r.caughtUp()

	// Without its key, and with a value that cannot be a key, the same values are in more words.
	if err := os.Rename(filepath.Join(dir, "seal.key"), filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmSealKey) })
	status, _, answer := r.raw(http.MethodPost, "/api/v1/apply", "application/json", string(ok[[]byte](t)(json.Marshal(request(secret(plantedNasty, plantedKey))))))
	if status != http.StatusServiceUnavailable {
		t.Errorf("without a key: %d", status)
	}
	noLeak(t, "refusal", answer)
	noLeak(t, "status with the alarm", []byte(r.textAt("/api/v1/status")))
	r.stop()
	noLeak(t, "log", []byte(l.String()))
	if len(l.String()) < 1000 {
		t.Error("nothing was logged")
	}
	found, files, err := leaktest.Folder(dir, plantedKey, plantedNasty, plantedOld)
	if err != nil || len(found) > 0 || files < 8 {
		t.Errorf("%d files, %v: %v", files, err, found)
	}
	for _, name := range []string{"history.db", "etcd", "tape", "notify", "core.state"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("not looked through: %v", err)
		}
	}
	// The search sees what is in these files: what was written openly beside the values.
	if seen, _, err := leaktest.Folder(filepath.Join(dir, "etcd"), "shop.example.com"); err != nil || len(seen) == 0 {
		t.Errorf("the store is not searched: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tape", "planted"), []byte("x"+plantedKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, _, err := leaktest.Folder(dir, plantedKey); err != nil || len(found) == 0 {
		t.Errorf("a planted value is not found: %v", err)
	}
}

// TestSecretOfAnotherDay: sealed texts of one Secret put into another by who can write to the store do not open, and the alarm
// names the Secret.
//
// Covers: issue4 secrets sealed
func TestSecretOfAnotherDay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(secretYAML("hooks", "a", plantedKey), secretYAML("other", "a", plantedOld))
	view, err := r.store.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var from, to int
	for i := range view.Resources {
		switch view.Resources[i].Name {
		case "hooks":
			to = i
		case "other":
			from = i
		}
	}
	sealed, err := sealedOf(view.Resources[from].Document)
	if err != nil {
		t.Fatal(err)
	}
	// It is written as control itself would write it.
	p := &planned{view: view}
	doc, err := parseStored(&view.Resources[to])
	if err != nil {
		t.Fatal(err)
	}
	b, err := doc.JSON(spec.Minimal)
	if err != nil {
		t.Fatal(err)
	}
	document, err := withSealed(b, sealed)
	if err != nil {
		t.Fatal(err)
	}
	r.write(&change{actor: "x"}, p, api.ActionUpdate, spec.NewSet([]spec.Resource{doc}), view.Resources[to], doc.Kind, doc.Name, time.Now())
	p.writes[0].Document = document
	if _, err := r.store.WriteResources(t.Context(), view.Generation, p.writes, nil); err != nil {
		t.Fatal(err)
	}
	r.await("the alarm", func() bool {
		m := r.alarmText(api.AlarmSealKey)
		return strings.Contains(m, "hooks (used by nobody)") && strings.Contains(m, "belongs to another place")
	})
	if v, err := r.secrets.open("hooks", "a"); err == nil {
		t.Errorf("it opens as %q", v.Reveal())
	}
	r.apply(secretYAML("hooks", "a", plantedKey)) // written anew it is well again
	r.await("the alarm over", func() bool { return r.alarmText(api.AlarmSealKey) == "" })
}

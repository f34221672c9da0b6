package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/notify"
)

const hookKey = "hook-key-0123456789"

// told is one message a hook received.
type told struct {
	ID, Kind, Title, Text string
	Count                 int
	Events                []notify.Event
}

// hook is a webhook's receiver that can be out of order.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	broken bool
	all    []told
	tries  int
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries++
	var m told
	if err != nil || h.broken || json.Unmarshal(body, &m) != nil || !strings.HasPrefix(r.Header.Get("Steer-Signature"), "t=") {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	h.all = append(h.all, m)
	fmt.Fprint(w, "thanks")
}

func (h *hook) set(broken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = broken
}

func (h *hook) tried() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries
}

// events gives those told so far, of a kind or of all for "".
func (h *hook) events(kind string) (out []notify.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.all {
		for _, e := range m.Events {
			if kind == "" || e.Kind == kind {
				out = append(out, e)
			}
		}
	}
	return out
}

func (h *hook) notifier(name, more string) string {
	return fmt.Sprintf("apiVersion: steerpoint/v1\nkind: Notifier\nname: %s\ntype: webhook\nurl: %s/steer\nsecretFile: hook.key\n%s", name, h.URL, more)
}

// quickNews lets notifiers post to the test, and without the waits meant for people.
func quickNews(cfg *Config, deps *Deps) {
	cfg.NotifyLocal = true
	deps.notifyTiming = notify.Timing{
		Gather: time.Millisecond, Publication: 10 * time.Second, Fold: 10 * time.Millisecond, Storm: 10 * time.Millisecond,
		FirstRetry: time.Millisecond, LastRetry: 5 * time.Millisecond,
	}
}

func keyFile(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "hook.key"), []byte(hookKey), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) notifier(name string) api.NotifierStatus {
	r.t.Helper()
	s, err := r.client.Status(r.t.Context(), api.StatusParams{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range s.Notifiers {
		if n.Name == name {
			return n
		}
	}
	return api.NotifierStatus{}
}

// TestNotify: an edge fails; the verdict and the switch are told with cause and times, to those who asked for them.
// Status, metrics and the test message say how the notifier is, and its key is in nothing the API gives.
//
// Covers: issue4 notifications, B8
func TestNotify(t *testing.T) {
	t.Parallel()
	h, other := newHook(t), newHook(t)
	dir := t.TempDir()
	keyFile(t, dir)
	r := start(t, dir, nil, quickNews)
	r.apply(zoneYAML, shopYAML, h.notifier("pager", "on: [switch, verdict, alarm]\n"), other.notifier("other", "services: [other]\n"))
	r.all()
	r.down("192.0.2.1", "192.0.2.2")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	r.await("the switch is told", func() bool { return len(h.events(notify.KindSwitch)) == 1 })
	r.await("nothing waits", func() bool { n := r.notifier("pager"); return n.Queue == 0 && n.LastSuccess != nil })
	e := h.events(notify.KindSwitch)[0]
	s := r.switches()[0]
	if e.ID != "switch-"+s.ID || e.From != "east" || e.To != "west" || e.Cause != "down" || e.DetectionSeconds != s.DetectionSeconds ||
		e.Publication == nil || e.Publication.Acked != 1 || e.Message != s.Reason {
		t.Errorf("told %+v\nlogged %+v", e, s)
	}
	verdicts := h.events(notify.KindVerdict)
	if len(verdicts) == 0 || verdicts[0].Edge != "east" || verdicts[0].To != "down" || slices.ContainsFunc(verdicts, func(e notify.Event) bool { return e.To == "up" }) {
		t.Errorf("verdicts %+v", verdicts)
	}
	if got := other.events(""); len(got) != 0 {
		t.Errorf("told to those who did not ask: %+v", got)
	}
	res, err := r.client.TestNotifier(t.Context(), "pager")
	if err != nil || !res.OK || res.Status != 200 || res.Answer != "thanks" || !strings.HasPrefix(res.ID, "test-") {
		t.Errorf("test: %+v, %v", res, err)
	}
	_, err = r.client.TestNotifier(t.Context(), "nobody")
	wantCode(t, "test of nobody", err, http.StatusNotFound, api.CodeNotFound)
	metrics := r.textAt("/metrics")
	if !strings.Contains(metrics, `steer_control_notify_queue_events{notifier="pager"} 0`) || !strings.Contains(metrics, `steer_control_notify_failures_total{notifier="other"} 0`) {
		t.Error("metrics of notifiers are missing")
	}
	for _, path := range []string{"/metrics", "/api/v1/status", "/api/v1/resources/notifiers", "/api/v1/resources/notifiers/pager", "/api/v1/openapi.json"} {
		if strings.Contains(r.textAt(path), hookKey) {
			t.Errorf("%s holds the key", path)
		}
	}
}

// textAt reads a path of the listener.
func (r *rig) textAt(path string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.Addr().String()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.Token())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
	}
	return string(b)
}

// TestNotifierFails: a notifier that does not deliver raises an alarm, which the other one tells; mended, it tells what
// waited, and the alarm is over.
//
// Covers: issue4 notifications
func TestNotifierFails(t *testing.T) {
	t.Parallel()
	h, good := newHook(t), newHook(t)
	h.set(true)
	dir := t.TempDir()
	keyFile(t, dir)
	r := start(t, dir, nil, quickNews)
	r.apply(zoneYAML, shopYAML, h.notifier("pager", ""), good.notifier("good", "on: [alarm]\n"))
	r.all()
	if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "south", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	failing := func(e notify.Event) bool { return e.Code == api.AlarmNotify && e.Subject == "pager" }
	r.await("the other one tells", func() bool { return slices.ContainsFunc(good.events(""), failing) })
	n := r.notifier("pager")
	if n.Queue == 0 || n.Failures < 3 || n.NextTry == nil || !strings.Contains(n.LastError, "502") {
		t.Errorf("status %+v", n)
	}
	res, err := r.client.TestNotifier(t.Context(), "pager")
	if err != nil || res.OK || res.Status != 502 || res.Error == "" {
		t.Errorf("test: %+v, %v", res, err)
	}
	h.set(false)
	r.await("what waited is told", func() bool { return len(h.events(notify.KindSwitch)) == 1 })
	r.await("it is over", func() bool {
		return slices.ContainsFunc(good.events(""), func(e notify.Event) bool { return failing(e) && !e.On })
	})
	if slices.ContainsFunc(h.events(""), failing) {
		t.Error("a notifier told its own failure")
	}
	if err := r.client.Delete(t.Context(), "Notifier", "pager", 0); err != nil {
		t.Fatal(err)
	}
	r.await("it is gone", func() bool { return r.notifier("pager").Name == "" })
}

// TestNotifyRestart: what waited when control stopped is told by the next one under the same ID, and so is a switch
// that was decided and logged, and never came to an outbox.
//
// Covers: issue4 notifications, issue4 kill9
func TestNotifyRestart(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	keyFile(t, dir)
	r := start(t, dir, nil, quickNews)
	r.apply(zoneYAML, shopYAML, h.notifier("pager", "on: [switch]\n"))
	r.all()
	force := func(edge string) {
		t.Helper()
		if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: edge, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	force("south")
	r.await("the first is told", func() bool { return len(h.events("")) == 1 })
	h.set(true)
	tried := h.tried()
	force("west")
	r.await("the second is tried", func() bool { return h.tried() > tried })
	r.stop()
	outbox := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(dir, "notify", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if outbox[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	r = start(t, dir, r.clocks, quickNews)
	force("east")
	r.await("the third is logged", func() bool { return len(r.switches()) == 3 })
	r.stop()
	for f, b := range outbox { // as if this process had been killed between its log and the outbox
		if err := os.WriteFile(f, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.set(false)
	r = start(t, dir, r.clocks, quickNews)
	r.await("all are told", func() bool { return len(h.events("")) == 3 })
	var want []string
	for _, s := range slices.Backward(r.switches()) {
		want = append(want, "switch-"+s.ID)
	}
	var ids []string
	for _, e := range h.events("") {
		ids = append(ids, e.ID)
	}
	if !slices.Equal(ids, want) {
		t.Errorf("told %v, logged %v", ids, want)
	}
}

// TestNotifyKinds: which alarms are told under which word, to whom, and that an override that ends is told.
//
// Covers: issue4 notifications
func TestNotifyKinds(t *testing.T) {
	t.Parallel()
	h, shop := newHook(t), newHook(t)
	dir := t.TempDir()
	keyFile(t, dir)
	r := start(t, dir, nil, quickNews)
	r.apply(zoneYAML, shopYAML, h.notifier("all", "on: [mass, expiry, alarm]\n"), shop.notifier("shop", "on: [alarm]\nservices: [shop]\n"))
	r.all()
	if _, err := r.client.Force(t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "south", For: "10s", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	r.pass(11 * time.Second)
	for _, a := range [][2]string{{api.AlarmMassSwitch, ""}, {api.AlarmCertEnding, "ns1"}, {api.AlarmResource, "Service/shop"}, {api.AlarmDegraded, "other/default"}} {
		r.alarms.set(a[0], a[1], true, "raised")
	}
	want := []string{"alarm ALARM_DEGRADED other", "alarm ALARM_RESOURCE_UNUSABLE shop", "expiry  shop", "expiry ALARM_CERT_EXPIRING ", "mass ALARM_MASS_SWITCH "}
	var got []string
	r.await("all are told", func() bool {
		got = nil
		for _, e := range h.events("") {
			if e.On || e.Kind == notify.KindExpiry {
				got = append(got, e.Kind+" "+e.Code+" "+e.Service)
			}
		}
		slices.Sort(got)
		return slices.Equal(slices.Compact(got), want)
	})
	r.await("shop hears its own", func() bool { return len(shop.events("")) > 0 })
	for _, e := range shop.events("") {
		if e.Service != "shop" {
			t.Errorf("shop hears %+v", e)
		}
	}
}

package control

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
	"steerpoint/report"
	"steerpoint/snapshot"
)

const spareYAML = `apiVersion: steerpoint/v1
kind: Zone
name: spare
zone: spare.example.net
steering: false
ns: [{name: ns1.spare.example.net, addresses: [192.0.2.54]}]
soa: {mname: ns1.spare.example.net, rname: hostmaster.spare.example.net}
`

// reply is a response that a handler writes to memory. A stream is over with its first flush.
type reply struct {
	status int
	header http.Header
	body   bytes.Buffer
	hangUp context.CancelFunc
}

// Header implements http.ResponseWriter.
func (a *reply) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *reply) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *reply) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// Flush implements http.Flusher.
func (a *reply) Flush() { a.hangUp() }

// SetReadDeadline is asked for by http.ResponseController.
func (a *reply) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is asked for by http.ResponseController.
func (a *reply) SetWriteDeadline(time.Time) error { return nil }

// fuzzed is a control under the fuzz.
type fuzzed struct {
	*rig
	handler http.Handler
	hook    *hook
	faults  int
}

func startFuzzed(t *testing.T) *fuzzed {
	h, dir := newHook(t), t.TempDir()
	keyFile(t, dir)
	r := start(t, dir, nil, quickNews, withHub(&hub{}), withSeries(&kept{}), withGateway, func(cfg *Config, d *Deps) {
		cfg.Rate = 1e9
		d.Probe = func(_ context.Context, point string, _ snapshot.ProbeTask) (report.Observation, error) {
			return report.Observation{Point: point, OK: true, Latency: time.Millisecond}, nil
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return &fuzzed{rig: r, handler: r.Control.handler(ctx), hook: h}
}

// send answers one request without a network.
func (f *fuzzed) send(m made) *reply {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// What is no URL at all never comes as far as a handler.
	req := httptest.NewRequestWithContext(ctx, "GET", "/", strings.NewReader(m.body))
	target, err := req.URL.Parse("http://localhost" + m.target)
	if err != nil {
		return nil
	}
	req.Method, req.URL, req.RequestURI, req.Host = m.method, target, m.target, "localhost"
	if !m.anonymous {
		req.Header.Set("Authorization", "Bearer "+f.Token())
	}
	for _, h := range m.header {
		if h[0] == "Host" {
			req.Host = h[1]
		} else {
			req.Header.Add(h[0], h[1])
		}
	}
	out := &reply{header: http.Header{}, hangUp: cancel}
	f.handler.ServeHTTP(out, req)
	if out.status == 0 {
		out.status = http.StatusOK
	}
	if m.method == http.MethodHead {
		out.body.Reset() // as the server does
	}
	return out
}

// prepare makes what the requests are about, wherever they have taken it away.
func (f *fuzzed) prepare(m *maker) {
	f.t.Helper()
	for _, o := range f.overrides() {
		if err := f.client.Delete(f.t.Context(), "override", o, 0); err != nil {
			f.t.Fatal(err)
		}
	}
	f.apply(signedYAML, shopYAML, spareYAML, f.hook.notifier("pager", "on: [switch]\n"), unreachedYAML)
	for _, name := range []string{"fra1", "ams1"} {
		if n, ok := f.roster.Node(name); ok && !n.Revoked.IsZero() {
			if err := f.client.RemoveNode(f.t.Context(), name); err != nil {
				f.t.Fatal(err)
			}
		}
		if _, ok := f.roster.Node(name); !ok {
			f.join(name, map[string]string{"region": "eu"}, roster.RoleDNS, roster.RoleProbe)
		}
	}
	f.connect("fra1", "ams1")
	f.await("the zone has its keys", func() bool { return len(f.signedView().Zones) > 0 })
	_, err := f.client.Force(f.t.Context(), api.ForceRequest{Rule: "shop/default", Edge: "west", Reason: "fuzz"})
	if err == nil {
		_, err = f.client.Freeze(f.t.Context(), api.FreezeRequest{Target: "shop", Reason: "fuzz"})
	}
	if err == nil {
		_, err = f.client.Drain(f.t.Context(), api.DrainRequest{Edge: "shop/south", Reason: "fuzz"})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.client.CreateAPIToken(f.t.Context(), api.APITokenRequest{Name: "fuzz", Role: api.RoleViewer}); err != nil && api.CodeOf(err) != api.CodeBadRequest { // it is still there
		f.t.Fatal(err)
	}
	token := f.token(api.TokenRequest{Roles: []string{"dns"}})
	shop, err := f.client.Get(f.t.Context(), "service", "shop")
	if err != nil {
		f.t.Fatal(err)
	}
	history := f.revisions("service", "shop")
	m.d.op("rollback").example.(map[string]any)["revision"] = shop.Revision
	m.pool["id"] = []string{strings.SplitN(token, ".", 2)[0], "nope"}
	m.pool["revision"] = []string{fmt.Sprint(shop.Revision), fmt.Sprint(history[len(history)-1].Revision), "1"}
	m.pool["name"] = []string{"shop", "gslb", "spare", "fra1", "ams1", "pager", "nope"}
	m.pool["pair"] = []string{"service/shop", "zone/spare", "zone/spare"}
	for _, name := range f.overrides() {
		m.pool["pair"] = append(m.pool["pair"], "override/"+name)
	}
	m.pool["If-Match"] = []string{api.ETag(shop.Revision), "*", "*", `W/"1", "2"`}
	m.pool["If-None-Match"] = []string{api.ETag(shop.Revision), "*", `"1"`, `W/"` + fmt.Sprint(shop.Revision) + `"`}
}

// op gives an operation by its ID.
func (d *apiDoc) op(id string) *apiOp {
	return d.ops[slices.IndexFunc(d.ops, func(op *apiOp) bool { return op.id == id })]
}

func (f *fuzzed) overrides() (names []string) {
	f.t.Helper()
	list, err := f.client.List(f.t.Context(), "override")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range list {
		names = append(names, r.Name)
	}
	return names
}

func newMaker(seed uint64, d *apiDoc) *maker {
	return &maker{Rand: rand.New(rand.NewPCG(seed, 1)), d: d, pool: map[string][]string{
		"kind":    {"service", "zone", "zones", "Override", "notifier", "service", "potato"},
		"service": {"shop", "shop", "nope"},
		"host":    {"shop.example.com", "shop.gslb.example.net", "nope.example"}, "client": {"192.0.2.7", "2001:db8::1", "198.51.100.9"},
		"resolver": {"198.51.100.53"}, "type": {"A", "AAAA", "TXT", "HTTPS", "potato"},
		"since": {"24h", "2026-01-01T00:00:00Z", "1ns"}, "at": {"2026-01-02T03:04:05Z"}, "from": {"2026-01-02T03:04:05Z"}, "to": {"2026-01-02T03:04:05Z"},
		"filter": {"name=shop", "name=s*", "label.region=eu", "service=shop", "actor!=tester", "kind=Zone name=spare", "state=open", "role=dns", "potato=1", "name", `name="x`},
		"rule":   {"shop/default", "shop/fixed", "shop/nope"}, "edge": {"west", "east", "shop/south", "shop/east"},
		"target": {"shop", "shop/default", "nope"}, "point": {"local", "fra1", "nope"}, "node": {"fra1", "ams1", "nope"},
		"for": {"1h", "30m", "0s", "-1h", "x"}, "timeout": {"1s", "1h"}, "url": {"http://192.0.2.1/", "https://shop.example.com/x", "ftp://x"},
		"Steer-Actor": {"anna", "bob"}, "Last-Event-ID": {"1", "99999"}, "last": {"1", "x"}, "step": {"1m", "10s", "x"}, "reason": {"why not"}, "roles": {"dns", "probe", "potato"},
		"cursor": {"", "AAAAAA", "potato"}, "apiVersion": {"steerpoint/v1"},
		"zone": {"gslb.example.net", "gslb.example.net", "nope.example"}, "key": {"zsk", "ksk"}, "ds": {"seen", "gone"},
	}}
}

// TestEveryRequestIsAnswered walks the description and sends requests made from it, right ones and broken ones, to every
// operation. No answer is a 5xx, every answer is described with its status, type, headers and schema, every operation
// succeeds at least once, and nothing is left running.
// Covers: issue4 api fuzz, issue4 openapi, issue4 problems
func TestEveryRequestIsAnswered(t *testing.T) {
	before := goleak.IgnoreCurrent()
	count, seed := 3000, uint64(1)
	if os.Getenv("STEER_LONG") != "" {
		seed = 2
	}
	t.Logf("seed %d", seed)
	_, d := ownDoc(t)
	f := startFuzzed(t)
	m := newMaker(seed, d)
	for i := range count {
		if i%250 == 0 {
			f.prepare(m)
		}
		op := d.ops[i%len(d.ops)]
		if op.id == "tape" && !m.chance(5) { // it reads all that was ever done, so it would come to cost most of the time
			op = d.ops[m.IntN(len(d.ops))]
		}
		f.ask(m, op)
	}
	for _, op := range d.ops {
		for more := 0; more < 300 && op.succeeded() == 0; more++ { // luck is no proof, and bad luck no fault
			if more%50 == 0 {
				f.prepare(m)
			}
			f.ask(m, op)
		}
		t.Logf("%-16s %5d of %v", op.id, op.succeeded(), op.answers)
		if op.succeeded() == 0 {
			t.Errorf("%s never succeeded: requests that mean something need values in newMaker, or something made by prepare", op.id)
		}
	}
	f.stop()
	f.hook.Close()
	nothingLeft(t, before)
}

func (op *apiOp) succeeded() int { return op.answers[http.StatusOK] + op.answers[http.StatusNoContent] }

// ask sends one request of an operation and judges the answer.
func (f *fuzzed) ask(m *maker, op *apiOp) {
	f.t.Helper()
	req := m.request(op)
	res := f.send(req)
	if res == nil {
		return
	}
	if err := judge(m.d, op, &req, res); err != nil {
		f.t.Errorf("%s %.300q %v\n%.600q\n%v", req.method, req.target, req.header, req.body, err)
		if f.faults++; f.faults == 20 {
			f.t.Fatal("and so on")
		}
	}
	m.learn(res)
}

// judge holds an answer against the description.
func judge(d *apiDoc, op *apiOp, req *made, res *reply) error {
	body := res.body.Bytes()
	if res.status >= 500 {
		return fmt.Errorf("answered with %d: %.1000s", res.status, body)
	}
	if req.method == http.MethodHead {
		return nil // the same as GET, without what could be held against a schema
	}
	if res.status >= 400 && (res.header.Get("Content-Type") != problemType || problemCode(body) == "") {
		return fmt.Errorf("%d is no problem document: %s %.300s", res.status, res.header.Get("Content-Type"), body)
	}
	if problemCode(body) == api.CodeMethodNotAllowed {
		if allow := res.header.Get("Allow"); res.status != 405 || allow == "" || slices.Contains(strings.Split(allow, ", "), req.method) {
			return fmt.Errorf("%d with Allow %q", res.status, allow)
		}
		return nil
	}
	path, _, _ := strings.Cut(req.target, "?")
	if req.method != op.method || strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..") {
		return nil // it went to another operation, or to none
	}
	op.answers[res.status]++
	return d.check(op, res.status, res.header, body)
}

// learn keeps cursors, for requests to come.
func (m *maker) learn(res *reply) {
	if next := field(res.body.String(), "next", ""); next != "" && len(m.pool["cursor"]) < 50 {
		m.pool["cursor"] = append(m.pool["cursor"], next)
	}
}

// TestEmptyAnswersAreAsDescribed proves that a control that has nothing yet answers with empty lists and no null.
// Covers: issue4 openapi
func TestEmptyAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	_, d := ownDoc(t)
	r := start(t, t.TempDir(), nil)
	asked := 0
	for _, op := range d.ops {
		path := strings.Replace(op.path, "{kind}", "zone", 1)
		if op.method != http.MethodGet || strings.Contains(path, "{") || op.id == "watch" || op.id == "explain" || op.id == "series" { // what they are about must be named
			continue
		}
		asked++
		status, h, b := r.raw(http.MethodGet, path, "", "")
		if err := d.check(op, status, h, b); status != http.StatusOK || err != nil {
			t.Errorf("%s: %d %v", op.id, status, err)
		}
	}
	if asked < 6 {
		t.Errorf("only %d lists were asked for", asked)
	}
}

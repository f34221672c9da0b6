package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"steerpoint/control/api"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// blogYAML is a second service, beside shopYAML.
func blogYAML() string {
	return strings.NewReplacer("shop", "blog", "192.0.2.", "203.0.113.").Replace(shopYAML)
}

// call is one request by a token; the answer's body is not read to its end, since some have none.
func (r *rig) call(token, method, path, body string, header ...string) (int, api.Problem) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	var p api.Problem
	if res.StatusCode >= 400 {
		if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
			r.t.Errorf("%s %s: %d without a problem: %v", method, path, res.StatusCode, err)
		}
	}
	return res.StatusCode, p
}

// apiToken makes a token of the API and gives its text.
func (r *rig) apiToken(name, role, life string, services ...string) string {
	r.t.Helper()
	made, err := r.client.CreateAPIToken(r.t.Context(), api.APITokenRequest{Name: name, Role: role, For: life, Services: services})
	if err != nil {
		r.t.Fatal(err)
	}
	return made.Token
}

// sample is what the test of roles sends for one operation. SVC stands for the name of a service, N for a number that
// was not sent before.
type sample struct {
	role  string // that it needs
	reach string // what a token for some services gets: own, shared, all
	path  string
	body  string
}

// samples has a line for every operation of the API.
func samples() map[string]sample {
	apply := `{"sources":[{"file":"a.yaml","content":"YAML"}]}`
	return map[string]sample{
		"listResources":   {"viewer", "shared", "/resources/service", ""}, // others' are left out
		"getResource":     {"viewer", "own", "/resources/service/SVC", ""},
		"history":         {"viewer", "own", "/history/service/SVC", ""},
		"historyRevision": {"viewer", "own", "/history/service/SVC/1", ""},
		"status":          {"viewer", "shared", "/status", ""}, // others' are left out
		"explain":         {"viewer", "own", "/explain?host=SVC.example.com", ""},
		"explainRequest":  {"viewer", "own", "/explain/request", `{"url":"http://SVC.example.com/"}`},
		"switches":        {"viewer", "own", "/switches?service=SVC", ""},
		"series":          {"viewer", "own", "/series?service=SVC", ""},
		"watch":           {"viewer", "own", "/watch?service=SVC", ""},
		"tape":            {"viewer", "own", "/tape/SVC", ""},
		"nodes":           {"viewer", "shared", "/nodes", ""},
		"version":         {"viewer", "shared", "/version", ""},
		"audit":           {"viewer", "all", "/audit", ""},
		"plan":            {"viewer", "own", "/plan", apply},
		"putResource":     {"operator", "own", "/resources/service/SVC", `{}`},
		"deleteResource":  {"operator", "own", "/resources/service/SVC", ""},
		"apply":           {"operator", "own", "/apply", apply},
		"rollback":        {"operator", "own", "/rollback", `{"kind":"Service","name":"SVC","revision":1,"reason":"x"}`},
		"force":           {"operator", "own", "/force", `{"rule":"SVC/default","edge":"west","reason":"x N"}`},
		"unforce":         {"operator", "own", "/unforce", `{"target":"SVC/default"}`},
		"freeze":          {"operator", "own", "/freeze", `{"target":"SVC","reason":"x N"}`},
		"unfreeze":        {"operator", "own", "/unfreeze", `{"target":"SVC"}`},
		"drain":           {"operator", "own", "/drain", `{"edge":"SVC/south","reason":"x N"}`},
		"undrain":         {"operator", "own", "/undrain", `{"edge":"SVC/south"}`},
		"probe":           {"operator", "own", "/probe", `{"edge":"SVC/east"}`},
		"testNotifier":    {"operator", "all", "/notifiers/none/test", ""},
		"labelNode":       {"admin", "all", "/nodes/none/labels", `{"set":{"a":"b"}}`},
		"revokeNode":      {"admin", "all", "/nodes/none/revoke", `{"reason":"x"}`},
		"removeNode":      {"admin", "all", "/nodes/none", ""},
		"tokens":          {"admin", "all", "/tokens", ""},
		"createToken":     {"admin", "all", "/tokens", `{"roles":["dns"]}`},
		"revokeToken":     {"admin", "all", "/tokens/none", ""},
		"apiTokens":       {"admin", "all", "/api-tokens", ""},
		"createAPIToken":  {"admin", "all", "/api-tokens", `{"name":"made-N","role":"viewer"}`},
		"revokeAPIToken":  {"admin", "all", "/api-tokens/none", ""},
		"backup":          {"admin", "all", "/backup", ""},
		"rotateSecrets":   {"admin", "all", "/secrets/rotate", `{}`},
		"signedZones":     {"viewer", "shared", "/dnssec", ""},
		"rollZoneKey":     {"admin", "all", "/dnssec/none/roll", `{"key":"zsk"}`},
		"noteParent":      {"admin", "all", "/dnssec/none/parent", `{"ds":"seen"}`},

		"orderCertificate": {"operator", "all", "/certificates/order", `{"name":"nobody"}`},
	}
}

// described are the operations of the API as it describes itself, by ID.
func (r *rig) described() map[string]describedOperation {
	r.t.Helper()
	_, _, b := r.raw("GET", "/api/v1/openapi.json", "", "")
	var doc struct {
		Paths map[string]map[string]describedOperation `json:"paths"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]describedOperation{}
	for _, methods := range doc.Paths {
		for method, op := range methods {
			op.Method = strings.ToUpper(method)
			out[op.ID] = op
		}
	}
	return out
}

type describedOperation struct {
	ID     string `json:"operationId"`
	Role   string `json:"x-steer-role"`
	Reach  string `json:"x-steer-services"`
	Method string
}

// TestEveryOperationHasARole proves that every operation of the API says in its description which role it needs, that it
// is the one this test expects, and that nothing is described that is not there.
// Covers: issue4 roles
func TestEveryOperationHasARole(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	want, have := samples(), r.described()
	if len(have) < len(want) {
		t.Errorf("%d operations are described, %d are expected", len(have), len(want))
	}
	for id, op := range have {
		s, ok := want[id]
		if _, listed := accessTable()[id]; !listed || !ok {
			t.Errorf("operation %s: decide who may call it: a line in accessTable (control/roles.go), and one in samples here", id)
			continue
		}
		if op.Role != s.role || roleOf(op.Role) == roleNone || op.Reach == "" {
			t.Errorf("operation %s: role %q, services %q, want role %q", id, op.Role, op.Reach, s.role)
		}
	}
	for id := range accessTable() {
		if _, ok := have[id]; !ok {
			t.Errorf("accessTable names %s, which is no operation", id)
		}
	}
}

// TestRoles proves of every operation who gets through it: each role, with and without a limit to one service, asking for
// that service and for another, and nobody's token.
// Covers: issue4 roles
func TestRoles(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, withSeries(&kept{}), withGateway, func(_ *Config, d *Deps) {
		d.Probe = func(context.Context, string, snapshot.ProbeTask) (report.Observation, error) {
			return report.Observation{OK: true}, nil
		}
	})
	r.apply(zoneYAML, shopYAML, blogYAML())
	type who struct {
		name, token, role string
		limited           bool
	}
	callers := []who{{"nobody", "", "", false}, {"a wrong token", "api.0123456789.x.y", "", false}, {"the admin token", r.Token(), "admin", false}}
	for _, role := range []string{"viewer", "operator", "admin"} {
		callers = append(callers, who{role, r.apiToken("all-"+role, role, ""), role, false})
		if role != "admin" {
			callers = append(callers, who{role + " of shop", r.apiToken("shop-"+role, role, "1h", "shop"), role, true})
		}
	}
	number := 0
	for id, op := range r.described() {
		s := samples()[id]
		for _, c := range callers {
			for _, service := range []string{"shop", "blog"} {
				number++
				if strings.HasPrefix(id, "un") { // it ends something, and there must be something to end
					r.imposed(service)
				}
				path, body := s.filled(service, number)
				status, p := r.call(c.token, op.Method, api.Prefix+path, body, s.header()...)
				want := ""
				switch {
				case c.role == "":
					want = api.CodeUnauthorized
				case roleOf(c.role) < roleOf(s.role):
					want = api.CodeForbiddenRole
				case c.limited && (s.reach == "all" || s.reach == "own" && service != "shop"):
					want = api.CodeForbiddenService
				}
				refused := ""
				if status == http.StatusUnauthorized || status == http.StatusForbidden {
					refused = p.Code
				}
				if refused != want || status >= 500 {
					t.Errorf("%s by %s for %s: %d %s %s; want %q", id, c.name, service, status, p.Code, p.Detail, want)
				}
			}
		}
	}
}

// header keeps what may be written from being written: the test goes on with it.
func (s *sample) header() []string {
	if s.path == "/resources/service/SVC" && s.role == "operator" {
		return []string{"If-Match", `"999999999"`}
	}
	return nil
}

func (s *sample) filled(service string, number int) (path, body string) {
	yaml := map[string]string{"shop": shopYAML, "blog": blogYAML()}[service]
	yaml = strings.Replace(yaml, "domains:", fmt.Sprintf("dns: {ttl: %ds}\ndomains:", 60+number), 1)
	quoted, _ := json.Marshal(yaml) // text always encodes
	fill := strings.NewReplacer("YAML", strings.Trim(string(quoted), `"`), "SVC", service, " N", fmt.Sprint(" ", number), "-N", fmt.Sprint("-", number))
	return fill.Replace(s.path), fill.Replace(s.body)
}

// imposed makes sure that there is something to end.
func (r *rig) imposed(service string) {
	r.t.Helper()
	ctx := r.t.Context()
	s, err := r.client.Status(ctx, api.StatusParams{})
	if err != nil {
		r.t.Fatal(err)
	}
	has := func(kind string) bool {
		return slices.ContainsFunc(s.Overrides, func(o api.OverrideStatus) bool { return o.Kind == kind && strings.HasPrefix(o.Target, service) })
	}
	if !has("force") {
		_, err = r.client.Force(ctx, api.ForceRequest{Rule: service + "/default", Edge: "west", Reason: "x"})
	}
	if err == nil && !has("freeze") {
		_, err = r.client.Freeze(ctx, api.FreezeRequest{Target: service, Reason: "x"})
	}
	if err == nil && !has("drain") {
		_, err = r.client.Drain(ctx, api.DrainRequest{Edge: service + "/south", Reason: "x"})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestLimitedTokenSeesItsOwn proves what a token for one service is shown of lists that hold more: its services and what
// is imposed on them, and nothing of others; and that it moves nothing that others share.
// Covers: issue4 roles
func TestLimitedTokenSeesItsOwn(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML, blogYAML())
	r.imposed("shop")
	r.imposed("blog")
	c := api.NewClient("http://"+r.Addr().String(), r.apiToken("team", "operator", "", "shop"))
	ctx := t.Context()
	s, err := c.Status(ctx, api.StatusParams{})
	if err != nil || len(s.Services) != 1 || s.Services[0].Name != "shop" || len(s.Overrides) != 3 || len(s.Points) != 1 {
		t.Errorf("status: %+v, %v", s, err)
	}
	for kind, want := range map[string]int{"Service": 1, "Override": 3, "Zone": 1, "Notifier": 0} {
		if list, err := c.List(ctx, kind); err != nil || len(list) != want {
			t.Errorf("%s: %d, want %d (%v)", kind, len(list), want, err)
		}
	}
	b, err := json.Marshal(s)
	if err != nil || strings.Contains(string(b), "blog") {
		t.Errorf("the status tells of the other service: %s %v", b, err)
	}
	if v, err := c.Version(ctx); err != nil || v.Actor != "team" || v.Role != "operator" || !slices.Equal(v.Services, []string{"shop"}) {
		t.Errorf("version: %+v, %v", v, err)
	}
	if p, err := c.Switches(ctx, api.SwitchesParams{}); err != nil || p.Switches == nil {
		t.Errorf("switches without a service are those of its own: %v", err)
	}
	for what, err := range map[string]error{
		"drain of a point":       second(c.Drain(ctx, api.DrainRequest{Point: "local", Reason: "x"})),
		"probe of any URL":       second(c.Probe(ctx, api.ProbeRequest{URL: "http://192.0.2.1/"})),
		"a zone":                 second(c.Apply(ctx, request(strings.Replace(zoneYAML, "192.0.2.53", "192.0.2.54", 1)))),
		"deletion of the other":  c.Delete(ctx, "Service", "blog", 0),
		"apply of both":          second(c.Apply(ctx, request(slower(shopYAML), slower(blogYAML())))),
		"plan of the other":      second(c.Plan(ctx, request(slower(blogYAML())))),
		"an override of another": second(c.Get(ctx, "Override", overrideName("force", "blog/default", 0))),
		"explanation":            second(c.Explain(ctx, "blog.example.com", api.ExplainParams{})),
	} {
		if what == "probe of any URL" && api.CodeOf(err) == api.CodeProberUnavailable {
			continue
		}
		wantCode(t, what, err, http.StatusForbidden, api.CodeForbiddenService)
	}
	// What others wrote may lie in the same folder, as it is.
	if p, err := c.Apply(ctx, request(zoneYAML, slower(shopYAML), blogYAML())); err != nil || len(p.Changes) != 1 {
		t.Errorf("apply of its own beside others as they are: %+v, %v", p, err)
	}
	for _, path := range []string{"/", "/metrics"} {
		if status, p := r.call(r.apiToken("other"+strings.Trim(path, "/"), "viewer", "", "shop"), "GET", path+"?x", ""); status != http.StatusOK && p.Code != api.CodeForbiddenService {
			t.Errorf("%s: %d %s", path, status, p.Code) // open on loopback, whoever asks
		}
	}
}

// slower is a service as it would be after a change.
func slower(yaml string) string {
	return strings.Replace(yaml, "interval: 10s", "interval: 20s", 1)
}

// TestOperatorWritesServicesOnly proves that zones and notifiers are for admins, also where an operator has no limit, and
// that the refusal says which role it takes and who gives it.
// Covers: issue4 roles
func TestOperatorWritesServicesOnly(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML)
	c := api.NewClient("http://"+r.Addr().String(), r.apiToken("op", "operator", ""))
	if _, err := c.Apply(t.Context(), request(shopYAML)); err != nil {
		t.Errorf("a service: %v", err)
	}
	other := strings.Replace(zoneYAML, "192.0.2.53", "192.0.2.54", 1)
	p := wantCode(t, "a zone", second(c.Apply(t.Context(), request(other))), http.StatusForbidden, api.CodeForbiddenRole)
	for _, part := range []string{"Zone gslb", "admin", "steer token create --api"} {
		if !strings.Contains(p.Detail, part) {
			t.Errorf("the refusal does not name %q: %s", part, p.Detail)
		}
	}
	if _, err := c.Plan(t.Context(), request(other)); err != nil {
		t.Errorf("a plan of it changes nothing: %v", err)
	}
	const guess = "apiVersion: steerpoint/v1\nkind: Secret\nname: pager\ndata: {token: %s}\n"
	r.apply(fmt.Sprintf(guess, "right"))
	for _, word := range []string{"right", "wrong"} { // a plan would say which of them changes nothing
		_, err := c.Plan(t.Context(), request(fmt.Sprintf(guess, word)))
		wantCode(t, "a guess at a secret", err, http.StatusForbidden, api.CodeForbiddenRole)
	}
}

package direct

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/edge/internal/affinity"
	"steerpoint/edge/internal/headtest"
	"steerpoint/edge/internal/route"
	"steerpoint/edge/internal/rules"
	"steerpoint/internal/hidden"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering/selection"
)

// head is a head as a test writes it.
type head = headtest.Lines

// get is a request for a URL with header lines.
func get(url string, lines ...string) *rules.Request {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, query, has := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")
	return &rules.Request{
		Method: []byte("GET"), Scheme: scheme, Version: "1.1", Host: []byte(host), Path: []byte("/" + path), Query: []byte(query), HasQuery: has,
		Client: netip.MustParseAddrPort("198.51.100.7:1234"), Country: "DE", Header: head(lines),
	}
}

var testSecrets = &snapshot.EdgeSecrets{Affinity: []snapshot.EdgeAffinityKey{{ID: 1, Secret: snapshot.Carried{Text: hidden.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))}}}}

// compile makes the snapshot of YAML that has no mistake.
func compile(t testing.TB, yaml string) *snapshot.Edge {
	t.Helper()
	docs, errs := spec.Parse("", []byte(yaml))
	more, _ := spec.NewSet(docs).Check(spec.Partial)
	if len(errs)+len(more) > 0 {
		t.Fatal(errs, more)
	}
	return snapshot.CompileEdge(1, time.Time{}, spec.NewSet(docs))
}

func site(t testing.TB, yaml string, before *Site) *Site {
	t.Helper()
	s, err := New(Input{Snapshot: compile(t, yaml), Secrets: testSecrets, Before: before})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// probe records n results at every endpoint of an origin's host.
func probe(t testing.TB, s *Site, host string, n int, ok bool, now time.Duration) {
	t.Helper()
	hit := false
	for _, e := range s.Endpoints {
		if e.Host == host {
			hit = true
			for range n {
				e.Record(ok, 20*time.Millisecond, now)
			}
		}
	}
	if !hit {
		t.Fatalf("no endpoint is at %s", host)
	}
}

// counts sends n requests and says which origin got how many.
func counts(t testing.TB, s *Site, n int, now time.Duration, r *rules.Request) string {
	t.Helper()
	got := map[string]int{}
	var d Decision
	for range n {
		s.Direct(r, now, &d)
		if d.Status != 0 {
			t.Fatalf("%d %s", d.Status, d.Reason)
		}
		c := d.Group.Choose(r, 0, now)
		if c.Origin == selection.None {
			t.Fatal(c.Why)
		}
		got[d.Group.Spec.Name+"/"+d.Group.Spec.Origins[c.Origin].Name]++
	}
	var parts []string
	for k, v := range got {
		parts = append(parts, fmt.Sprintf("%s %d", k, v))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// The example of the documents decides as its comments say, from YAML to the decision.
//
// Covers: C7, C1-C10, gateway T47, issue6 snapshot
func TestExample(t *testing.T) {
	s := site(t, readFile(t, "../../../docs/examples/gateway.yaml"), nil)
	office := get("https://store.example.com/admin/x")
	office.Client = netip.MustParseAddrPort("192.0.2.9:1")
	canary := get("https://store.example.com/x?y=1", "X-Canary: yes")
	canary.Client = office.Client
	for _, tt := range []struct {
		name string
		r    *rules.Request
		want string
	}{
		{"a page", get("https://store.example.com/x?y=1"), "web /x?y=1"},
		{"below the wildcard", get("https://a.b.store.example.com/x"), "web /x"},
		{"http is redirected", get("http://store.example.com/x?y"), "307 https_redirect https://store.example.com/x?y"},
		{"images", get("https://store.example.com/img/a/b.png?v=2"), "web /assets/img/a/b.png?v=2"},
		{"images of another domain", get("https://a.store.example.com/img/a.png"), "web /img/a.png"},
		{"no such host", get("https://www.example.com/"), "400 no_route_for_host "},
		{"the canary, from the office", canary, "next /x?y=1"},
		{"the canary, from elsewhere", get("https://store.example.com/x", "X-Canary: yes"), "web /x"},
		{"old paths", get("https://store.example.com/SHOP/item/7?a=b"), "301 rule_redirect https://store.example.com/item/7?a=b"},
		{"admin from elsewhere", get("https://store.example.com/admin/x"), "403 access_denied "},
		{"admin from the office", office, "web /admin/x"},
	} {
		var d Decision
		for range 2 {
			s.Direct(tt.r, time.Second, &d)
			got := fmt.Sprintf("%d %s %s", d.Status, d.Reason, d.Location)
			if d.Status == 0 {
				got = d.Group.Spec.Name + " " + string(d.Target)
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
		}
	}
	var d Decision
	s.Direct(get("https://store.example.com/x"), 0, &d)
	if len(d.Request) != 1 || string(d.Request[0].Value) != "DE" || len(d.Response) != 2 || d.Response[0].Name != "Server" {
		t.Errorf("headers %+v %+v", d.Request, d.Response)
	}
	login := get("https://store.example.com/login")
	for i := range 4 {
		if s.Direct(login, time.Hour, &d); (d.Status == 429) != (i == 3) {
			t.Errorf("login %d: %d", i, d.Status)
		}
	}
	if d.Wait != 6*time.Second || d.Reason != ReasonLimit {
		t.Errorf("%+v", d.Wait)
	}
}

// The worked examples of docs/edge.md behave as the page says.
//
// Covers: C10, issue6 snapshot
func TestWorkedExamples(t *testing.T) {
	blocks := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readFile(t, "../../../docs/edge.md"), -1) {
		if name := regexp.MustCompile(`(?m)^name: (.+)$`).FindStringSubmatch(m[1]); name != nil {
			blocks[name[1]] = m[1]
		}
	}
	up := func(s *Site, now time.Duration, hosts ...string) {
		for _, h := range hosts {
			probe(t, s, h, 4, true, now)
		}
	}
	t.Run("rollout", func(t *testing.T) {
		yaml := blocks["rollout"]
		s := site(t, yaml, nil)
		up(s, 0, "203.0.113.10", "203.0.113.20")
		r := get("https://rollout.example.com/")
		if got := counts(t, s, 1000, 0, r); got != "web/new 100, web/old 900" {
			t.Errorf("one in ten: %s", got)
		}
		s = site(t, strings.Replace(strings.Replace(yaml, "weight: 90", "weight: 50", 1), "weight: 10", "weight: 50", 1), s)
		if got := counts(t, s, 1000, 0, r); got != "web/new 500, web/old 500" {
			t.Errorf("half: %s", got)
		}
		var d Decision
		s.Direct(r, 0, &d)
		cookie := "Cookie: ASLBSA=" + cookieOf(t, d.AppendCookies(nil, r, 0))
		s = site(t, strings.Replace(yaml, "weight: 90", "weight: 90, drain: true", 1), s)
		if got := counts(t, s, 10, time.Second, r); got != "web/new 10" {
			t.Errorf("new sessions while the old one drains: %s", got)
		}
		if got := counts(t, s, 10, time.Second, get("https://rollout.example.com/", cookie)); got != "web/old 10" {
			t.Errorf("sessions of the old one: %s", got)
		}
	})
	t.Run("migration", func(t *testing.T) {
		s := site(t, blocks["migration"], nil)
		up(s, 0, "203.0.113.10", "203.0.113.11", "203.0.113.20")
		if got := counts(t, s, 10, 0, get("https://migration.example.com/basket")); got != "old/dc1 5, old/dc2 5" {
			t.Errorf("not moved: %s", got)
		}
		if got := counts(t, s, 10, 0, get("https://migration.example.com/search?q")); got != "new/cloud 10" {
			t.Errorf("moved: %s", got)
		}
		probe(t, s, "203.0.113.20", 2, false, 0)
		if got := counts(t, s, 10, 0, get("https://migration.example.com/catalogue/1")); got != "new/dc1 10" {
			t.Errorf("moved, and the new set is down: %s", got)
		}
	})
	t.Run("bursting", func(t *testing.T) {
		s := site(t, blocks["bursting"], nil)
		r := get("https://bursting.example.com/")
		up(s, 0, "203.0.113.10", "203.0.113.11", "burst.example.net")
		if got := counts(t, s, 10, 0, r); got != "web/own1 5, web/own2 5" {
			t.Errorf("all well: %s", got)
		}
		probe(t, s, "203.0.113.10", 4, false, 0)
		if got := counts(t, s, 10, 0, r); got != "web/own2 10" {
			t.Errorf("one gone: %s", got)
		}
		probe(t, s, "203.0.113.11", 4, false, 0)
		if got := counts(t, s, 10, 0, r); got != "web/rented 10" {
			t.Errorf("both gone: %s", got)
		}
		probe(t, s, "203.0.113.10", 2, true, time.Minute)
		if got := counts(t, s, 10, time.Minute, r); got != "web/rented 10" {
			t.Errorf("two good probes: %s", got)
		}
		probe(t, s, "203.0.113.10", 1, true, time.Minute)
		if got := counts(t, s, 10, time.Minute, r); got != "web/own1 10" {
			t.Errorf("three good probes: %s", got)
		}
		probe(t, s, "203.0.113.11", 3, true, 3*time.Minute)
		if got := counts(t, s, 300, 4*time.Minute, r); got != "web/own1 200, web/own2 100" {
			t.Errorf("half of the ramp: %s", got)
		}
	})
}

// cookieOf is the value of the first Set-Cookie line.
func cookieOf(t testing.TB, lines []byte) string {
	t.Helper()
	v, ok := affinity.Pair(bytes.TrimPrefix(bytes.SplitN(lines, []byte("\r\n"), 2)[0], []byte("Set-Cookie: ")), affinity.Name)
	if !ok {
		t.Fatalf("no cookie in %q", lines)
	}
	return string(v)
}

const two = `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [www.example.com, "*.example.com", "*.eu.example.com", example.org]
edges: [{name: g, addresses: ["198.51.100.60"]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [g]}]
originGroups:
  - name: a
    sessionAffinity: true
    health: {interval: 30s, sampleSize: 4, successfulSamples: 3}
    origins: [{name: one, address: "203.0.113.1:443", hostHeader: o.example.com}, {name: two, address: "203.0.113.2:443", hostHeader: o.example.com}]
  - name: b
    sessionAffinity: true
    health: {interval: 5s, timeout: 2s, sampleSize: 1, successfulSamples: 1}
    origins: [{name: uno, address: "203.0.113.1:443", hostHeader: o.example.com}, {name: due, address: "203.0.113.3:443", hostHeader: o.example.com}]
routes:
  - {name: a, originGroup: a}
  - {name: b, originGroup: b, paths: [/b]}
`

// One endpoint in two groups is probed once, as often as the more eager group wants, and each judges by its own numbers.
//
// Covers: C8, C9, gateway T24
func TestEndpointsAreShared(t *testing.T) {
	s := site(t, two, nil)
	if len(s.Endpoints) != 3 {
		t.Fatalf("%d endpoints", len(s.Endpoints))
	}
	i := slices.IndexFunc(s.Endpoints, func(e *Endpoint) bool { return e.Host == "203.0.113.1" })
	e := s.Endpoints[i]
	if e.Interval != 5*time.Second || e.Timeout != 2*time.Second || len(e.uses) != 2 {
		t.Errorf("%+v", e)
	}
	if changed := e.Record(true, time.Millisecond, 0); changed != 1 {
		t.Errorf("one success changes %d origins", changed)
	}
	if got := counts(t, s, 4, 0, get("https://www.example.com/b")); got != "b/uno 4" {
		t.Errorf("one of one: %s", got)
	}
	if got := counts(t, s, 4, 0, get("https://www.example.com/")); got != "a/one 2, a/two 2" {
		t.Errorf("one of three: %s", got)
	}
	e.Record(true, time.Millisecond, 0)
	e.Record(true, time.Millisecond, 0)
	if got := counts(t, s, 4, 0, get("https://www.example.com/")); got != "a/one 4" {
		t.Errorf("three of three: %s", got)
	}
	next := site(t, strings.Replace(two, "sampleSize: 4", "sampleSize: 5", 1), s)
	if got := counts(t, next, 4, 0, get("https://www.example.com/")); got != "a/one 4" {
		t.Errorf("after a change: %s", got)
	}
	gone := site(t, strings.Replace(two, `{name: one, address: "203.0.113.1:443", hostHeader: o.example.com}, `, "", 1), next)
	if i := slices.IndexFunc(gone.Endpoints, func(e *Endpoint) bool { return e.Host == "203.0.113.1" }); gone.Endpoints[i].Interval != 5*time.Second || len(gone.Endpoints[i].uses) != 1 {
		t.Errorf("after its origin went: %+v", gone.Endpoints[i])
	}
}

// Sessions by cookie: one is set for the widest wildcard, keeps its origin, holds for its group alone, and is set anew when the
// origin went.
//
// Covers: C6, gateway T26, gateway T28, gateway T36
func TestSessionsByCookie(t *testing.T) {
	s := site(t, two, nil)
	r := get("https://www.example.com/")
	var d Decision
	s.Direct(r, 0, &d)
	c := d.Group.Choose(r, 0, 0)
	if !c.New || c.Session {
		t.Fatalf("%+v", c)
	}
	lines := string(d.AppendCookies(nil, r, c.Origin))
	if strings.Count(lines, "\r\n") != 2 || strings.Count(lines, "Domain=example.com;") != 2 || !strings.Contains(lines, "ASLBSACORS=") {
		t.Errorf("%q", lines)
	}
	with := func(path string) *rules.Request {
		return get("https://a.b.eu.example.com"+path, "Cookie: ASLBSA="+cookieOf(t, []byte(lines)))
	}
	for range 4 {
		s.Direct(with("/"), 0, &d)
		if again := d.Group.Choose(with("/"), 0, 0); again.Origin != c.Origin || !again.Session || again.New {
			t.Errorf("%+v", again)
		}
	}
	s.Direct(with("/b"), 0, &d)
	other := d.Group.Choose(with("/b"), 0, 0)
	if other.Session || !other.New || other.Cookie != affinity.None {
		t.Errorf("the other group: %+v", other)
	}
	both := cookieOf(t, d.AppendCookies(nil, with("/b"), other.Origin))
	for _, path := range []string{"/", "/b"} {
		r := get("https://www.example.com"+path, "Cookie: x=y; ASLBSA="+both)
		s.Direct(r, 0, &d)
		if c := d.Group.Choose(r, 0, 0); !c.Session {
			t.Errorf("%s with both sessions: %+v", path, c)
		}
	}
	name := s.services["shop"].groups["a"].Spec.Origins[c.Origin].Name
	gone := site(t, strings.Replace(two, "{name: "+name+",", "{name: renamed,", 1), s)
	gone.Direct(with("/"), 0, &d)
	if c := d.Group.Choose(with("/"), 0, 0); c.Session || !c.New || c.Cookie != affinity.Unknown {
		t.Errorf("an origin that is gone: %+v", c)
	}
	s.Direct(get("https://example.org/"), 0, &d)
	if lines := d.AppendCookies(nil, get("http://example.org/"), 0); bytes.Contains(lines, []byte("Domain")) || bytes.Contains(lines, []byte("CORS")) {
		t.Errorf("%q", lines)
	}
}

// A snapshot that cannot be served is refused as a whole, with the place.
func TestRefusesSnapshots(t *testing.T) {
	for _, tt := range []struct {
		change func(e *snapshot.Edge)
		want   string
	}{
		{func(e *snapshot.Edge) { e.Services[0].Routes[0].Group = "x" }, "no origin group x"},
		{func(e *snapshot.Edge) { e.Services[0].Routes[0].RuleSets = []string{"x"} }, "no rule set x"},
		{func(e *snapshot.Edge) { e.Services[0].Routes[0].Forward = "" }, "forward"},
		{func(e *snapshot.Edge) { e.Services[0].Routes[0].Paths = []string{"x"} }, "no path"},
		{func(e *snapshot.Edge) { e.Services[0].Groups[0].Origins[0].Weight = 0 }, "weight 0"},
		{func(e *snapshot.Edge) {
			e.RuleSets = []snapshot.EdgeRuleSet{{Name: "r", Rules: []snapshot.EdgeRule{{Name: "u", Actions: []snapshot.EdgeAction{{}}}}}}
		}, "rule u"},
	} {
		e := compile(t, two)
		tt.change(e)
		if _, err := New(Input{Snapshot: e, Secrets: testSecrets}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	if _, err := New(Input{Snapshot: compile(t, two)}); err == nil || !strings.Contains(err.Error(), "session") {
		t.Errorf("sessions without keys: %v", err)
	}
}

// What spec accepts of conditions and actions, the gateway runs: each thing looked at, with each operator and transform.
//
// Covers: C7, issue6 snapshot
func TestRunsWhatSpecAccepts(t *testing.T) {
	values := []string{"GET", "https", "1.1", "TLSv1.3", "example", "443", "/a", "192.0.2.0/24", "DE", "mobile", "09:00-17:00"}
	service, errs := spec.Parse("", []byte(strings.Replace(two, "originGroup: a}", "originGroup: a, ruleSets: [r]}", 1)))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	accepted := 0
	for on := range strings.FieldsSeq("method scheme httpVersion tlsVersion host serverPort url path fileName fileExtension query queryParameter header cookie clientAddress socketAddress clientPort country device bodySize body postParameter time") {
		works := false
		for op := range strings.FieldsSeq("equals any beginsWith endsWith contains regex wildcard cidr geo lessThan lessOrEqual greaterThan greaterOrEqual within") {
		next:
			for _, v := range append(slices.Clone(values), "") {
				for _, name := range []string{"", "name: X, "} {
					if (name != "") != slices.Contains([]string{"header", "cookie", "queryParameter", "postParameter"}, on) {
						continue
					}
					list := fmt.Sprintf(`values: [%q], `, v)
					if v == "" {
						list = ""
					}
					yaml := fmt.Sprintf("apiVersion: steerpoint/v1\nkind: RuleSet\nname: r\nrules: [{name: a, conditions: [{on: %s, operator: %s, %s%stransforms: []}], actions: [{respond: {}}]}]\n", on, op, name, list)
					docs, errs := spec.Parse("", []byte(yaml))
					if strings.Contains(errs.Error(), ".operator: ") {
						break next // no value helps
					}
					if len(errs) > 0 {
						continue
					}
					accepted++
					works = true
					e := snapshot.CompileEdge(1, time.Time{}, spec.NewSet(append(docs, service...)))
					s, err := New(Input{Snapshot: e, Secrets: testSecrets})
					if err != nil {
						t.Errorf("%s: %v", yaml, err)
						continue
					}
					var d Decision
					s.Direct(get("https://www.example.com/x?X=1"), 0, &d)
					break next
				}
			}
		}
		if !works {
			t.Errorf("nothing can be asked of %s", on)
		}
	}
	if accepted < 120 {
		t.Errorf("%d conditions were accepted", accepted)
	}
}

// Explain tells what Direct would do and takes no turn.
//
// Covers: E1, C2
func TestExplain(t *testing.T) {
	s := site(t, readFile(t, "../../../docs/examples/gateway.yaml"), nil)
	for _, r := range []*rules.Request{
		get("https://store.example.com/x"), get("http://store.example.com/x"), get("https://nobody/x"), get("https://store.example.com/admin/x"),
		get("https://store.example.com/shop/x"), get("https://store.example.com/x", "X-Canary: 1"),
	} {
		var d Decision
		first, again := s.Explain(r, 0), s.Explain(r, 0)
		s.Direct(r, 0, &d)
		if first.Decision.Status != d.Status || first.Decision.Reason != d.Reason || string(first.Decision.Target) != string(d.Target) || first.Decision.Group != d.Group {
			t.Errorf("%s: told %d %s, done %d %s", r.Path, first.Decision.Status, first.Decision.Reason, d.Status, d.Reason)
		}
		if d.Status != 0 {
			continue
		}
		if c := d.Group.Choose(r, 0, 0); first.Choice.Pick != again.Choice.Pick || first.Choice.Pick != c.Pick || len(first.Choice.Steps) == 0 {
			t.Errorf("%s: told %+v, %+v, done %+v", r.Path, first.Choice.Pick, again.Choice.Pick, c.Pick)
		}
	}
	e := s.Explain(get("https://store.example.com/shop/x"), 0)
	if want := []rules.Trace{{Set: "store-front", Rule: "canary", Condition: 1}, {Set: "store-front", Rule: "old-shop", Fired: true}}; !slices.Equal(e.Rules, want) {
		t.Errorf("%+v", e.Rules)
	}
	if s.Explain(get("https://store.example.com/admin/x"), 0).Access != 1 {
		t.Error("which policy decided")
	}
	if m := s.Explain(get("https://a.store.example.com/events"), 0).Decision.Match; m != (route.Match{Route: 2, Domain: "*.store.example.com", Path: "/events"}) {
		t.Errorf("%+v", m)
	}
}

// Deciding and choosing allocate nothing.
//
// Covers: C1-C10
func TestDirectAllocatesNothing(t *testing.T) {
	s := site(t, two, nil)
	r := get("https://www.example.com/b?x=1")
	r.Header = nil
	var d Decision
	s.Direct(r, 0, &d)
	if n := testing.AllocsPerRun(100, func() {
		s.Direct(r, 0, &d)
		c := d.Group.Choose(r, 0, 0)
		d.Group.Succeeded(c.Origin, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// By which protocol and at which port an origin is asked.
//
// Covers: issue6 snapshot
func TestForward(t *testing.T) {
	o := &snapshot.EdgeOrigin{Scheme: "https", HTTPPort: 80, HTTPSPort: 8443}
	for _, tt := range []struct{ forward, scheme, want string }{
		{"origin", "http", "https 8443"},
		{"match", "http", "http 80"},
		{"match", "https", "https 8443"},
		{"http", "https", "http 80"},
		{"https", "http", "https 8443"},
	} {
		d := Decision{Forward: tt.forward}
		scheme := d.Scheme(&rules.Request{Scheme: tt.scheme}, o)
		if got := fmt.Sprint(scheme, " ", o.Port(scheme)); got != tt.want {
			t.Errorf("%s from %s: %s", tt.forward, tt.scheme, got)
		}
	}
}

// BenchmarkDirect is a request through route, rules, policies and the choice of an origin.
func BenchmarkDirect(b *testing.B) {
	s := site(b, readFile(b, "../../../docs/examples/gateway.yaml"), nil)
	for _, e := range s.Endpoints {
		for range 4 {
			e.Record(true, 20*time.Millisecond, 0)
		}
	}
	for name, url := range map[string]string{"rules": "https://store.example.com/x?y=1", "plain": "https://store.example.com/img/a.png"} {
		b.Run(name, func(b *testing.B) {
			r := get(url)
			r.Header = nil
			var d Decision
			b.ReportAllocs()
			for b.Loop() {
				s.Direct(r, 0, &d)
				c := d.Group.Choose(r, 0, 0)
				d.Group.Succeeded(c.Origin, 0)
			}
		})
	}
}

package direct

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/edge/internal/rules"
)

// oneGroup is a service with one group: fields of the group, and the fields of each origin, which are a, b, c ... in turn.
func oneGroup(fields string, origins ...string) string {
	var list []string
	for i, o := range origins {
		if o != "" {
			o = ", " + o
		}
		list = append(list, fmt.Sprintf(`{name: %c, address: "203.0.113.%d:443"%s}`, 'a'+i, i+1, o))
	}
	return `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [www.example.com]
edges: [{name: g, addresses: ["198.51.100.60"]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [g]}]
originGroups:
  - name: web
    ` + fields + `
    origins: [` + strings.Join(list, ", ") + `]
routes: [{name: all, originGroup: web}]
`
}

const visit = "https://www.example.com/"

// The best priority gives way when all of it is down, and takes over again after as many good probes as the group wants, not
// one earlier.
//
// Covers: C2, gateway T14, gateway R4, gateway R7
func TestPriorityGivesBack(t *testing.T) {
	s := site(t, oneGroup("latencySensitivity: 1s", "", "", "priority: 2"), nil)
	up := func(host string, n int, ok bool) { probe(t, s, "203.0.113."+host, n, ok, 0) }
	for _, h := range []string{"1", "2", "3"} {
		up(h, 4, true)
	}
	if got := counts(t, s, 10, 0, get(visit)); got != "web/a 5, web/b 5" {
		t.Errorf("all well: %s", got)
	}
	up("1", 2, false)
	up("2", 2, false)
	if got := counts(t, s, 10, 0, get(visit)); got != "web/c 10" {
		t.Errorf("the first priority is down: %s", got)
	}
	// The last four of a are 1 1 0 0; two good ones make 0 0 1 1, and the third 0 1 1 1.
	for i, want := range []string{"web/c 10", "web/c 10", "web/a 10"} {
		up("1", 1, true)
		if got := counts(t, s, 10, 0, get(visit)); got != want {
			t.Errorf("after %d good probes: %s, want %s", i+1, got, want)
		}
	}
}

// At start a group is not healthy by two successes where three are wanted: all take turns until there is a verdict.
//
// Covers: C9, gateway T21, gateway R6
func TestStartIsFailOpen(t *testing.T) {
	s := site(t, oneGroup("latencySensitivity: 1s", "weight: 1", "weight: 1000"), nil)
	probe(t, s, "203.0.113.1", 2, true, 0)
	if got := counts(t, s, 10, 0, get(visit)); got != "web/a 5, web/b 5" {
		t.Errorf("two of three: %s", got)
	}
	probe(t, s, "203.0.113.1", 1, true, 0)
	if got := counts(t, s, 10, 0, get(visit)); got != "web/a 10" {
		t.Errorf("three of three: %s", got)
	}
	if n := s.Groups()[0].FailOpens(); n != 10 {
		t.Errorf("%d choices were made with nobody healthy, want 10", n)
	}
}

// A group of which no origin is healthy is told once, when that is known, and once more when it is over; what counts it goes
// on over changes of the configuration.
//
// Covers: gateway fault 54, gateway T16, gateway T38
func TestFailOpenIsTold(t *testing.T) {
	yaml := oneGroup("health: {sampleSize: 2, successfulSamples: 2}", "", "priority: 2")
	s := site(t, yaml, nil)
	endpoint := func(host string) *Endpoint {
		return s.Endpoints[slices.IndexFunc(s.Endpoints, func(e *Endpoint) bool { return e.Host == host })]
	}
	told := func(host string, ok bool) (said string) {
		e := endpoint("203.0.113." + host)
		e.Record(ok, time.Millisecond, 0)
		for _, c := range e.FailOpenChanges() {
			said += fmt.Sprintf("%s %t ", c.Group.Spec.Name, c.Open)
		}
		return said
	}
	for i, step := range []struct {
		host string
		ok   bool
		want string
	}{
		{"1", false, ""},
		{"1", false, ""}, // of b nothing is known
		{"2", false, ""},
		{"2", false, "web true "},
		{"1", false, ""},
		{"2", true, ""},
		{"2", true, "web false "},
		{"2", true, ""},
		{"2", false, "web true "},
	} {
		if got := told(step.host, step.ok); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if got := counts(t, s, 10, 0, get(visit)); got != "web/a 5, web/b 5" {
		t.Errorf("nobody healthy: %s", got)
	}
	s = site(t, strings.Replace(yaml, "priority: 2", "priority: 3", 1), s)
	counts(t, s, 10, 0, get(visit))
	if n := s.Groups()[0].FailOpens(); n != 20 {
		t.Errorf("%d choices are counted, want 20", n)
	}
	probe(t, s, "203.0.113.2", 1, true, 0)
	probe(t, s, "203.0.113.2", 1, true, 0)
	if got := counts(t, s, 10, 0, get(visit)); got != "web/b 10" {
		t.Errorf("one is healthy, and alone at once: %s", got)
	}
	alone := site(t, oneGroup("health: {sampleSize: 1, successfulSamples: 1}", "", "enabled: false"), nil)
	e := alone.Endpoints[0]
	e.Record(false, 0, 0)
	if changes := e.FailOpenChanges(); len(changes) > 0 {
		t.Errorf("one enabled origin is asked in any case, and that is told as %+v", changes)
	}
}

// established makes a session with origin i of the group web, as a cookie line.
func established(t *testing.T, s *Site, i int) string {
	t.Helper()
	var d Decision
	r := get(visit)
	s.Direct(r, 0, &d)
	return "Cookie: ASLBSA=" + cookieOf(t, d.AppendCookies(nil, r, i))
}

// chosen says who is chosen for a request with a cookie, and whether a new session is to be set.
func chosen(s *Site, r *rules.Request) (name string, fresh bool) {
	var d Decision
	s.Direct(r, 0, &d)
	c := d.Group.Choose(r, 0, 0)
	return d.Group.Spec.Origins[c.Origin].Name, c.New
}

// A session ends, with a cookie for a new one and no error, when its origin gets a worse priority, is disabled or removed; it
// outlives the latency window.
//
// Covers: C6, gateway T25, gateway T26, gateway T28, gateway R8
func TestWhatEndsSessions(t *testing.T) {
	const sticky = "sessionAffinity: true"
	s := site(t, oneGroup(sticky, "", ""), nil)
	for _, e := range s.Endpoints {
		for range 4 {
			latency := 500 * time.Millisecond // a is far outside of the window
			if e.Host != "203.0.113.1" {
				latency = time.Millisecond
			}
			e.Record(true, latency, 0)
		}
	}
	cookie := established(t, s, 0)
	if name, fresh := chosen(s, get(visit, cookie)); name != "a" || fresh {
		t.Errorf("T25: %s, new %t", name, fresh)
	}
	if name, _ := chosen(s, get(visit)); name != "b" {
		t.Errorf("without a session: %s", name)
	}
	for what, yaml := range map[string]string{
		"T26 priority 2": oneGroup(sticky, "priority: 2", ""),
		"T28 disabled":   oneGroup(sticky, "enabled: false", ""),
		"T28 removed":    strings.Replace(oneGroup(sticky, "", ""), `{name: a, address: "203.0.113.1:443"}, `, "", 1),
	} {
		next := site(t, yaml, s)
		r := get(visit, cookie)
		name, fresh := chosen(next, r)
		if name != "b" || !fresh {
			t.Errorf("%s: %s, new %t: want b and a new cookie", what, name, fresh)
		}
		var d Decision
		next.Direct(r, 0, &d)
		i := d.Group.Choose(r, 0, 0).Origin
		renewed := "Cookie: ASLBSA=" + cookieOf(t, d.AppendCookies(nil, r, i))
		if name, fresh := chosen(next, get(visit, renewed)); name != "b" || fresh {
			t.Errorf("%s, by the new cookie: %s, new %t", what, name, fresh)
		}
	}
}

// A thousand clients that come for the first time are divided by weight, and do not all begin with the first origin; two
// behind one address are two.
//
// Covers: C5, C6, gateway T35, gateway fault 51, gateway R10
func TestFirstVisits(t *testing.T) {
	s := site(t, oneGroup("sessionAffinity: true\n    latencySensitivity: 1s", "weight: 30", "weight: 70"), nil)
	probe(t, s, "203.0.113.1", 4, true, 0)
	probe(t, s, "203.0.113.2", 4, true, 0)
	got, cookies := map[string]int{}, map[string]string{}
	for range 1000 { // all from one address
		r := get(visit)
		var d Decision
		s.Direct(r, 0, &d)
		c := d.Group.Choose(r, 0, 0)
		if !c.New {
			t.Fatal("no session is to be set for a first visit")
		}
		name := d.Group.Spec.Origins[c.Origin].Name
		got[name]++
		cookies[name] = "Cookie: ASLBSA=" + cookieOf(t, d.AppendCookies(nil, r, c.Origin))
	}
	if fmt.Sprint(got) != "map[a:300 b:700]" {
		t.Errorf("first visits: %v", got)
	}
	for want, cookie := range cookies {
		for range 5 {
			if name, _ := chosen(s, get(visit, cookie)); name != want {
				t.Errorf("the session of %s goes to %s", want, name)
			}
		}
	}
}

// When one of ten origins goes, its sessions move and no others do.
//
// Covers: C6, gateway fault 29
func TestOnlySessionsOfTheLostMove(t *testing.T) {
	origins := make([]string, 10)
	yaml := oneGroup("sessionAffinity: true\n    latencySensitivity: 1s", origins...)
	s := site(t, yaml, nil)
	for _, e := range s.Endpoints {
		for range 4 {
			e.Record(true, time.Millisecond, 0)
		}
	}
	home := map[string]string{} // by cookie
	for i := range 10 {
		home[established(t, s, i)] = string(rune('a' + i))
	}
	next := site(t, strings.Replace(yaml, `, {name: d, address: "203.0.113.4:443"}`, "", 1), s)
	down := site(t, yaml, s)
	probe(t, down, "203.0.113.4", 4, false, 0)
	for what, s := range map[string]*Site{"removed": next, "down": down} {
		moved := ""
		for range 100 {
			for cookie, was := range home {
				if name, fresh := chosen(s, get(visit, cookie)); name != was || fresh {
					if was != "d" || !fresh {
						t.Fatalf("%s: the session of %s went to %s, new %t", what, was, name, fresh)
					}
					moved = was
				}
			}
		}
		if moved != "d" {
			t.Errorf("%s: no session of d moved", what)
		}
	}
}

// Whatever stands in a cookie is a session of this group or nothing: it never chooses an origin, and never names one.
//
// Covers: C6, gateway T34, gateway fault 53, gateway R14
func TestCookiesOfOthers(t *testing.T) {
	s := site(t, oneGroup("sessionAffinity: true", "", ""), nil)
	good := strings.TrimPrefix(established(t, s, 1), "Cookie: ASLBSA=")
	encoded := base64.RawURLEncoding.EncodeToString
	for _, value := range []string{
		encoded([]byte("10.0.0.1:80")), "10.0.0.1:80", "b", encoded([]byte("b")), good[:len(good)-2], good + "A", strings.Repeat("A", 10<<10), "%", `"`,
	} {
		first := get(visit, "Cookie: ASLBSA="+value)
		seen := map[string]bool{}
		for range 4 {
			name, fresh := chosen(s, first)
			if !fresh {
				t.Errorf("%.20q is a session", value)
			}
			seen[name] = true
		}
		if len(seen) != 2 {
			t.Errorf("%.20q: only %v are chosen", value, seen)
		}
	}
}

// The rules of the report in their order, each with a group in which it alone decides.
//
// Covers: decisions 6, gateway R1, gateway R2, gateway R3, gateway R5, gateway R6, gateway R7, gateway R9, gateway R10
func TestRulesOfChoice(t *testing.T) {
	for _, tt := range []struct {
		rule, yaml string
		latency    []time.Duration // of each origin; 0: its probes fail
		want       string
	}{
		{"R3: disabled origins are not even asked when all are down", oneGroup("", "", "enabled: false", ""), []time.Duration{0, 0, 0}, "web/a 30, web/c 30"},
		{"R5: one enabled origin, whatever its health", oneGroup("", "", "enabled: false"), []time.Duration{0, 0}, "web/a 60"},
		{"R6: none healthy: in turn, without priority and weight", oneGroup("", "weight: 1000", "priority: 2"), []time.Duration{0, 0}, "web/a 30, web/b 30"},
		{"R6: or by priority, where that is said", oneGroup("allDown: priority", "weight: 1000", "priority: 2"), []time.Duration{0, 0}, "web/a 60"},
		{"R7: the best priority of the healthy", oneGroup("", "priority: 2", "priority: 3", "priority: 1"), []time.Duration{9 * time.Millisecond, time.Millisecond, 0}, "web/a 60"},
		{"R9: the window is of those left, inclusive", oneGroup("latencySensitivity: 30ms", "", "", "", "priority: 2"), []time.Duration{15, 45, 46, 1}, "web/a 30, web/b 30"},
		{"R10: weights within it", oneGroup("latencySensitivity: 30ms", "weight: 10", "weight: 20", "weight: 1000"), []time.Duration{15, 45, 46}, "web/a 20, web/b 40"},
	} {
		s := site(t, tt.yaml, nil)
		for i, l := range tt.latency {
			if l > 0 && l < time.Millisecond {
				l *= time.Millisecond
			}
			for _, e := range s.Endpoints {
				if e.Host == fmt.Sprintf("203.0.113.%d", i+1) {
					for range 4 {
						e.Record(l > 0, l, 0)
					}
				}
			}
		}
		if got := counts(t, s, 60, 0, get(visit)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rule, got, tt.want)
		}
	}
	// R1: no route is an answer of its own. R2: in the group that a rule names, the same steps are gone again.
	s := site(t, two, nil)
	var d Decision
	if s.Direct(get("https://nobody.example.net/"), 0, &d); d.Status != 400 {
		t.Errorf("R1: %d", d.Status)
	}
	ruled := strings.Replace(two, "originGroup: a}", "originGroup: a, ruleSets: [r]}", 1) + `---
apiVersion: steerpoint/v1
kind: RuleSet
name: r
rules: [{name: x, conditions: [{on: path, values: [/x]}], actions: [{route: {originGroup: b}}]}]
`
	s = site(t, ruled, nil)
	probe(t, s, "203.0.113.3", 1, true, 0)
	if got := counts(t, s, 6, 0, get("https://www.example.com/x")); got != "b/due 6" {
		t.Errorf("R2: %s", got)
	}
	if got := counts(t, s, 6, 0, get("https://www.example.com/y")); got != "a/one 3, a/two 3" {
		t.Errorf("R2, without the rule: %s", got)
	}
}

// An overload takes an origin out for a time, and when that is over it is asked again: no restart is needed.
//
// Covers: gateway passive health, gateway fault 59
func TestOverloadPasses(t *testing.T) {
	s := site(t, oneGroup("latencySensitivity: 1s\n    passive: {failures: 3, out: 30s}", "", ""), nil)
	probe(t, s, "203.0.113.1", 4, true, 0)
	probe(t, s, "203.0.113.2", 4, true, 0)
	g := s.Groups()[0]
	var until time.Duration
	for now := time.Duration(0); now < time.Minute; now += time.Second {
		if end, out := g.Failed(0, now); out {
			until = end
		}
	}
	if got := counts(t, s, 10, until-1, get(visit)); got != "web/b 10" {
		t.Errorf("while it is out: %s", got)
	}
	if got := counts(t, s, 10, until, get(visit)); got != "web/a 5, web/b 5" {
		t.Errorf("after that: %s", got)
	}
	// A second failure in a row does not shorten a time out that runs.
	for range 3 {
		g.Failed(1, until)
	}
	if end, out := g.Failed(1, until+time.Second); out {
		t.Errorf("a failure while it is out changes the end to %s", end)
	}
	r := get(visit)
	if c := g.Choose(r, 0, until+29*time.Second); c.Origin != 0 {
		t.Errorf("%+v", c)
	}
}

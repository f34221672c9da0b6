package edge

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/internal/hidden"
	"steerpoint/snapshot"
	"steerpoint/spec"

	"github.com/prometheus/client_golang/prometheus"
)

// compiled makes the snapshot of YAML that has no mistake.
func compiled(t *testing.T, yaml string) *snapshot.Edge {
	t.Helper()
	docs, errs := spec.Parse("", []byte(yaml))
	more, _ := spec.NewSet(docs).Check(spec.Partial)
	if len(errs)+len(more) > 0 {
		t.Fatal(errs, more)
	}
	return snapshot.CompileEdge(1, time.Time{}, spec.NewSet(docs))
}

var sessionKeys = &snapshot.EdgeSecrets{Affinity: []snapshot.EdgeAffinityKey{{
	ID: 1, Secret: snapshot.Carried{Text: hidden.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))},
}}}

// served runs a gateway that serves YAML.
func served(t *testing.T, yaml string) (*bench, *Snapshots) {
	t.Helper()
	b := start(t, Config{}, paths{})
	s := NewSnapshots(b.Gateway, nil, nil)
	if err := s.Apply(compiled(t, yaml), sessionKeys); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b, s
}

// named is an origin that says its name, and whether it is well.
func named(t *testing.T, name string, well *atomic.Bool) string {
	return origin(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz" && !well.Load():
			w.WriteHeader(503)
		case r.URL.Path == "/broken":
			w.WriteHeader(500)
		default:
			w.Header().Set("Cache-Control", r.URL.Query().Get("cache"))
			_, _ = io.WriteString(w, name+" "+r.RequestURI+" "+r.Header.Get("X-Added"))
		}
	})
}

func service(groups string) string {
	return `apiVersion: steerpoint/v1
kind: Service
name: shop
domains: [a.example]
edges: [{name: gateways, addresses: ["198.51.100.60"]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [gateways]}]
` + groups
}

// kick lets all probes be due at once.
func kick(s *Snapshots) {
	s.probes.mu.Lock()
	for _, t := range s.probes.tasks {
		t.next = time.Now()
	}
	s.probes.mu.Unlock()
	select {
	case s.probes.wake <- struct{}{}:
	default:
	}
}

// shares probes all origins and says who answers n requests.
func shares(s *Snapshots, k *talk, n int) string {
	kick(s)
	got := map[string]int{}
	for range n {
		k.send("GET /x?y=1 HTTP/1.1", "Host: a.example", "", "")
		_, body := k.get("GET")
		got[strings.Fields(body)[0]]++
	}
	return fmt.Sprint(got)
}

// From YAML to responses: weights, a rule that changes group and headers, an origin that falls ill and returns, sessions.
//
// Covers: issue6 proxy, C1-C10, gateway T05, gateway T14, gateway T30, gateway T42
func TestSnapshotsAreServed(t *testing.T) {
	var wellA, wellB atomic.Bool
	wellA.Store(true)
	wellB.Store(true)
	a, c := named(t, "a", &wellA), named(t, "c", &wellB)
	b := named(t, "b", &wellB)
	yaml := service(fmt.Sprintf(`originGroups:
  - name: web
    latencySensitivity: 1s
    health: {path: /healthz, interval: 10s, timeout: 10s, scheme: http, sampleSize: 2, successfulSamples: 1}
    origins:
      - {name: a, address: "%s", scheme: http, weight: 30}
      - {name: b, address: "%s", scheme: http, weight: 70}
  - name: next
    health: {enabled: false}
    origins: [{name: c, address: "%s", scheme: http}]
routes:
  - {name: all, originGroup: web, ruleSets: [front]}
---
apiVersion: steerpoint/v1
kind: RuleSet
name: front
rules:
  - name: canary
    conditions: [{on: header, name: X-Canary, operator: equals, values: ["yes"]}]
    actions:
      - route: {originGroup: next}
      - requestHeader: {operation: set, name: X-Added, value: "by {http_method}"}
`, a, b, c))
	gw, s := served(t, yaml)
	k := dial(t, gw.addr)
	// Both are well as soon as both are probed; until then, they take turns.
	eventually(t, "shares of 3 and 7", func() bool { return shares(s, k, 10) == "map[a:3 b:7]" })
	eventually(t, "shares of 30 and 70", func() bool { return shares(s, k, 100) == "map[a:30 b:70]" })
	k.send("GET /a/../x%41 HTTP/1.1", "Host: a.example", "X-Canary: yes", "", "")
	if _, body := k.get("GET"); body != "c /xA by GET" {
		t.Errorf("by the rule: %q", body)
	}
	for _, c := range []struct {
		host, path string
		status     int
	}{{"b.example", "/", 400}, {"a.example", "/%zz", 400}} {
		k.send("GET "+c.path+" HTTP/1.1", "Host: "+c.host, "", "")
		if r, body := k.get("GET"); r.StatusCode != c.status {
			t.Errorf("%s%s: %d %q", c.host, c.path, r.StatusCode, body)
		}
	}
	wellB.Store(false)
	eventually(t, "a alone", func() bool { return shares(s, k, 10) == "map[a:10]" })
	wellB.Store(true)
	eventually(t, "both again", func() bool { return shares(s, k, 10) == "map[a:3 b:7]" })
}

// A session is established by a response that no cache gives to others, and lasts.
//
// Covers: issue6 proxy, C6, gateway T29, gateway T30
func TestSessionsAreKept(t *testing.T) {
	var well atomic.Bool
	well.Store(true)
	gw, s := served(t, service(fmt.Sprintf(`originGroups:
  - name: sticky
    sessionAffinity: true
    latencySensitivity: 1s
    health: {path: /healthz, interval: 10s, timeout: 10s, scheme: http, sampleSize: 2, successfulSamples: 1}
    origins:
      - {name: a, address: "%s", scheme: http, weight: 30}
      - {name: b, address: "%s", scheme: http, weight: 70}
routes: [{name: cart, originGroup: sticky}]
`, named(t, "a", &well), named(t, "b", &well))))
	k := dial(t, gw.addr)
	eventually(t, "both probed", func() bool { return shares(s, k, 10) == "map[a:3 b:7]" })
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	visitor := &http.Client{Jar: jar, Transport: &http.Transport{}}
	t.Cleanup(visitor.CloseIdleConnections)
	visit := func(path string) (string, bool) {
		q, err := http.NewRequest("GET", "http://"+gw.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = "a.example"
		r, err := visitor.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(body))[0], r.Header.Get("Set-Cookie") != ""
	}
	if _, set := visit("/cart/?cache=max-age%3D60"); set {
		t.Error("a response that caches may keep established a session")
	}
	first, set := visit("/cart/?cache=no-store")
	if !set {
		t.Error("no session was established")
	}
	for range 5 {
		if again, set := visit("/cart/?cache=no-store"); again != first || set {
			t.Errorf("session with %s went to %s, new cookie %t", first, again, set)
		}
	}
}

// A snapshot that cannot be served changes nothing; the next one that can takes its place without a request lost, and keeps
// connections and what was learnt.
//
// Covers: issue6 reload
func TestSnapshotsFollowOneAnother(t *testing.T) {
	var well atomic.Bool
	well.Store(true)
	addr := named(t, "a", &well)
	yaml := func(path string) string {
		return service(fmt.Sprintf(`originGroups:
  - name: web
    health: {enabled: false}
    origins: [{name: a, address: "%s", scheme: http}]
routes: [{name: all, originGroup: web, originPath: %s}]
`, addr, path))
	}
	gw, s := served(t, yaml("/0/"))
	k := dial(t, gw.addr)
	for i := range 50 {
		k.send("GET /x HTTP/1.1", "Host: a.example", "", "")
		if _, body := k.get("GET"); body != fmt.Sprintf("a /%d/x ", i) {
			t.Fatalf("request %d: %q", i, body)
		}
		if err := s.Apply(compiled(t, yaml(fmt.Sprintf("/%d/", i+1))), sessionKeys); err != nil {
			t.Fatal(err)
		}
		bad := compiled(t, yaml("/bad/"))
		bad.Services[0].Routes[0].Group = "nobody"
		if err := s.Apply(bad, sessionKeys); err == nil {
			t.Fatal("a route to no group was taken")
		}
	}
	gw.wants(t, `steer_edge_origin_connects_total{group="web",origin="a",service="shop"} 1`)
}

// A request from a snapshot allocates nothing either.
//
// Covers: issue6 allocations
func TestSnapshotsAllocateNothing(t *testing.T) {
	g, err := New(Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s := NewSnapshots(g, nil, nil)
	if err := s.Apply(compiled(t, service(`originGroups:
  - name: web
    health: {enabled: false}
    origins: [{name: a, address: "127.0.0.1:1", scheme: http}]
routes: [{name: all, originGroup: web}]
policies: {responseHeaders: [{set: {X-A: b}, remove: [Server]}]}
`)), sessionKeys); err != nil {
		t.Fatal(err)
	}
	d := g.site.Load().Director
	asked := Asked{Method: []byte("GET"), Scheme: "http", Version: "1.1", Host: []byte("a.example"), Path: []byte("/x"), Header: noFields{}}
	var p Plan
	once := func() {
		p = Plan{Memory: p.Memory}
		d.Direct(&asked, &p)
		o, why := p.Group.Choose(&asked, &p, 0, 0)
		if o == nil {
			t.Fatal(why)
		}
		p.Group.Report(o, 0, Answers)
	}
	once()
	if n := testing.AllocsPerRun(1000, once); n > 0 {
		t.Errorf("%v allocations a decision", n)
	}
}

type noFields struct{}

func (noFields) Field(string, int) ([]byte, bool) { return nil, false }

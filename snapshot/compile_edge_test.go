package snapshot

import (
	"encoding/json"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/spec"
)

func edgeSet(t testing.TB, files ...string) *spec.Set {
	t.Helper()
	var all []spec.Resource
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		docs, errs := spec.Parse(f, data)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		all = append(all, docs...)
	}
	return spec.NewSet(all)
}

func edgeJSON(t testing.TB, set *spec.Set) string {
	t.Helper()
	text, err := json.Marshal(CompileEdge(7, time.Unix(1, 0).UTC(), set))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The snapshot has every default filled in, leaves out what serves nothing, and comes back from its JSON as it was.
//
// Covers: issue6 snapshot
func TestCompileEdge(t *testing.T) {
	set := edgeSet(t, "../docs/examples/gateway.yaml", "../docs/examples/quality.yaml")
	e := CompileEdge(7, time.Unix(1, 0).UTC(), set)
	if len(e.Services) != 1 || e.Services[0].Name != "store" || len(e.RuleSets) != 1 || len(e.Certificates) != 1 {
		t.Fatalf("%d services, %d rule sets, %d certificates", len(e.Services), len(e.RuleSets), len(e.Certificates))
	}
	s := e.Services[0]
	if s.Groups[0].Name != "next" || s.Groups[0].Health.Enabled || s.Groups[0].Health.Interval != 0 {
		t.Errorf("%+v", s.Groups[0].Health)
	}
	burst := s.Groups[1].Origins[2]
	want := EdgeOrigin{
		Name: "burst", Host: "burst.example.net", HTTPPort: 80, HTTPSPort: 443, Scheme: "https", ServerName: "burst.example.net", Verify: true,
		Priority: 2, Weight: 50, Enabled: true,
	}
	if diff := cmp.Diff(want, burst); diff != "" {
		t.Error(diff)
	}
	r := s.Routes[0]
	if !r.HTTP || !r.HTTPS || !r.HTTPSRedirect || len(r.Domains) != 2 || r.Forward != ForwardOrigin || r.MaxBody != 2<<30 || r.ResponseHead != 30*time.Second {
		t.Errorf("%+v", r)
	}
	if l := s.Limits[0]; l.Burst != 3 || l.Per != time.Minute {
		t.Errorf("%+v", l)
	}
	var back Edge
	if err := json.Unmarshal([]byte(edgeJSON(t, set)), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*e, back, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// elsewhere are fields that no gateway needs: words that others decide (a rate limit by header has one), and what comes with
// the cache.
const elsewhere = " RateLimit.Key RateLimit.Action CachePolicy.Paths CachePolicy.TTL CachePolicy.Query CachePolicy.BypassCookies "

// Every field of the gateway that is written comes into the snapshot: changed alone, it makes another one.
//
// Covers: issue6 snapshot, issue6 gateway yaml
func TestEveryFieldCounts(t *testing.T) {
	fresh := func() *spec.Set { return edgeSet(t, "../spec/testdata/reference.yaml") }
	before := edgeJSON(t, fresh())
	roots := func(set *spec.Set) []reflect.Value {
		s, _ := set.Get(spec.KindService, "shop")
		rules, _ := set.Get(spec.KindRuleSet, "front")
		return []reflect.Value{
			reflect.ValueOf(&s.Service.OriginGroups).Elem(), reflect.ValueOf(&s.Service.Routes).Elem(), reflect.ValueOf(&s.Service.Policies).Elem(), reflect.ValueOf(&rules.RuleSet.Rules).Elem(),
		}
	}
	names := leaves(roots(fresh()))
	if len(names) < 80 {
		t.Fatalf("%d fields", len(names))
	}
	counts := map[string]bool{} // by field: of several of one name one is enough, as a port of one origin may not matter
	for i, name := range names {
		if counts[name] || strings.Contains(elsewhere, " "+name+" ") {
			continue
		}
		set := fresh()
		n := 0
		for _, r := range roots(set) {
			walk(r, "", func(_ string, v reflect.Value) {
				if n == i {
					change(t, name, v)
				}
				n++
			})
		}
		counts[name] = edgeJSON(t, set) != before
	}
	for name, yes := range counts {
		if !yes {
			t.Errorf("%s is not in the snapshot", name)
		}
	}
}

func leaves(roots []reflect.Value) (names []string) {
	for _, r := range roots {
		walk(r, "", func(name string, _ reflect.Value) { names = append(names, name) })
	}
	return names
}

// walk visits every field below v: lists of plain values and maps as a whole, of lists of structs the entries.
func walk(v reflect.Value, name string, f func(name string, v reflect.Value)) {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer && !v.IsNil():
		walk(v.Elem(), name, f)
	case t.Kind() == reflect.Pointer:
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && t.Elem() != reflect.TypeFor[spec.Prefix]():
		for i := range v.Len() {
			walk(v.Index(i), name, f)
		}
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			walk(v.Field(i), t.Name()+"."+t.Field(i).Name, f)
		}
	default:
		f(name, v)
	}
}

// change gives a field another value that its kind allows.
func change(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch {
	case name == "Origin.Address":
		v.SetString("other.example.com:444")
	case name == "Origin.Scheme" || name == "OriginGroup.AllDown" || name == "Origin.Protocol" || name == "Route.ForwardProtocol" || name == "AccessPolicy.Action" || name == "Health.Kind":
		words := map[string][2]string{
			"Origin.Scheme": {"http", "https"}, "OriginGroup.AllDown": {"roundRobin", "priority"}, "Origin.Protocol": {"http1", "http2"},
			"Route.ForwardProtocol": {"origin", "http"}, "AccessPolicy.Action": {"deny", "allow"}, "Health.Kind": {"http", "grpc"},
		}[name]
		if v.String() == words[0] {
			words[0] = words[1]
		}
		v.SetString(words[0])
	case name == "Route.Protocols":
		v.Set(reflect.ValueOf([]string{"http"}))
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.Kind() == reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"Other": "value"}))
	case v.Kind() == reflect.Slice:
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.String {
			e.SetString("/other")
		}
		v.Set(reflect.Append(v, e))
	default:
		t.Fatalf("%s: a %s", name, v.Type())
	}
}

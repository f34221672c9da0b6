package snapshot_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

var probePoints = []steering.Point{{Name: "local"}, {Name: "far"}}

// compileProbe compiles services written in YAML for a point.
func compileProbe(t *testing.T, point, yaml string) (*snapshot.Probe, snapshot.TaskUses) {
	t.Helper()
	return snapshot.CompileProbe(7, point, probeRules(t, yaml), nil)
}

func probeRules(t *testing.T, yaml string) []snapshot.ProbeRule {
	t.Helper()
	docs, errs := spec.Parse("test.yaml", []byte(yaml))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var services []*spec.Service
	var configs []steering.RuleConfig
	for _, d := range docs {
		services = append(services, d.Service)
		cs, _ := d.Service.RuleConfigs(probePoints)
		configs = append(configs, cs...)
	}
	return snapshot.ProbeRules(services, configs)
}

const probeHead = `
apiVersion: steerpoint/v1
kind: Service
name: %s
domains: [www.%s.example]
edges:
  - {name: a, addresses: [192.0.2.1, "2001:db8::1"]}
  - {name: b, target: shop.cdn-vendor.example}
  - {name: off, addresses: [192.0.2.9], enabled: false}
  - {name: night, addresses: [192.0.2.3]}
rules:
`

func probeService(name, rules string) string { return fmt.Sprintf(probeHead, name, name) + rules }

// describeTasks gives one line a task, so that tests read.
func describeTasks(p *snapshot.Probe) []string {
	var out []string
	for _, t := range p.Tasks {
		out = append(out, fmt.Sprintf("%s %s %s:%d %s every %v within %v, fall %d rise %d", t.Method, t.URL, t.Address, t.Port, t.Kind, t.Interval, t.Timeout, t.Fall, t.Rise))
	}
	slices.Sort(out)
	return out
}

// TestCompileProbeTasks: every address of every enabled edge of a rule is one task: standby edges and those a
// schedule brings in too, disabled ones not.
//
// Covers: A6, field 29, field 34, decisions 1
func TestCompileProbeTasks(t *testing.T) {
	yaml := probeService("shop", `
  - {name: default, scope: "*", mode: failover, edges: [a, b, off], schedule: [{from: "01:00", to: "05:00", edges: [night, a]}]}
`)
	got, uses := compileProbe(t, "local", yaml)
	want := []string{
		"HEAD https://www.shop.example/ 192.0.2.1:443 https every 30s within 5s, fall 3 rise 2",
		"HEAD https://www.shop.example/ 192.0.2.3:443 https every 30s within 5s, fall 3 rise 2",
		"HEAD https://www.shop.example/ 2001:db8::1:443 https every 30s within 5s, fall 3 rise 2",
		"HEAD https://www.shop.example/ shop.cdn-vendor.example:443 https every 30s within 5s, fall 3 rise 2",
	}
	if d := cmp.Diff(want, describeTasks(got)); d != "" {
		t.Error(d)
	}
	if got.Version != 7 || got.Point != "local" || len(uses) != 4 {
		t.Errorf("version %d, point %q, %d tasks with uses", got.Version, got.Point, len(uses))
	}
	for _, tk := range got.Tasks {
		if !tk.TLSVerify || len(tk.Statuses) != 1 || tk.Statuses[0] != (snapshot.StatusRange{Min: 200, Max: 399}) {
			t.Errorf("expectations of %+v", tk)
		}
	}
}

// TestCompileProbeShares: twenty rules and two services on one target are one task, and every rule gets its result;
// the closest interval, the longest timeout, the largest fall and the smallest rise hold.
//
// Covers: field 14, field 15, field 22
func TestCompileProbeShares(t *testing.T) {
	rules := "  - {name: default, scope: \"*\", mode: failover, edges: [night], probe: {url: \"https://www.same.example/\", rise: 4}}\n"
	for i := range 19 {
		rules += fmt.Sprintf("  - {name: r%d, scope: {asn: %d}, mode: failover, edges: [night], probe: {url: \"https://www.same.example/\", interval: %ds, timeout: %ds, fall: %d, points: {names: [local]}}}\n",
			i, 100+i, 20+i, 2+i, 1+i%5)
	}
	got, uses := compileProbe(t, "local", probeService("one", rules)+"\n---"+probeService("two", rules))
	want := []string{"HEAD https://www.same.example/ 192.0.2.3:443 https every 20s within 20s, fall 5 rise 2"}
	if d := cmp.Diff(want, describeTasks(got)); d != "" {
		t.Fatal(d)
	}
	us := uses[got.Tasks[0].ID]
	if len(us) != 40 {
		t.Fatalf("%d uses, want 40", len(us))
	}
	first := snapshot.TaskUse{Service: "one", Rule: "default", Edge: "night", Address: "192.0.2.3"}
	if us[0] != first || us[20].Service != "two" {
		t.Errorf("uses are not in order: %+v", us)
	}
}

// TestCompileProbeWhere: a point probes for the rules it is assigned to, and for those whose probing is on; a fixed
// rule may probe for the view only.
//
// Covers: A5, field 13, field 28
func TestCompileProbeWhere(t *testing.T) {
	for _, row := range []struct {
		name, rules string
		local, far  int
	}{
		{"all points", `  - {name: default, scope: "*", mode: failover, edges: [a]}`, 2, 2},
		{"one point", `  - {name: default, scope: "*", mode: failover, edges: [a], probe: {points: {names: [far]}}}`, 0, 2},
		{"fixed, probed", `  - {name: default, scope: "*", mode: fixed, edges: [night]}`, 1, 1},
		{"fixed, not probed", `  - {name: default, scope: "*", mode: fixed, edges: [night], probe: {enabled: false}}`, 0, 0},
	} {
		for point, want := range map[string]int{"local": row.local, "far": row.far, "unknown": 0} {
			if got, uses := compileProbe(t, point, probeService("shop", row.rules)); len(got.Tasks) != want || len(uses) != want {
				t.Errorf("%s: point %s has %d tasks, want %d", row.name, point, len(got.Tasks), want)
			}
		}
	}
	if got, uses := compileProbe(t, "local", ""); got.Tasks == nil || len(got.Tasks) != 0 || len(uses) != 0 {
		t.Errorf("without services: %+v", got)
	}
}

// TestCompileProbeKinds: tasks hold what matters to their kind, so that what does not makes no second task.
func TestCompileProbeKinds(t *testing.T) {
	yaml := probeService("shop", `
  - {name: default, scope: "*", mode: failover, edges: [night], probe: {url: "tcp://www.shop.example:25", kind: tcp}}
  - {name: r1, scope: {asn: 1}, mode: failover, edges: [night], probe: {url: "tcp://other.example:25", expect: {status: "200"}}}
  - {name: r2, scope: {asn: 2}, mode: failover, edges: [night], probe: {url: "http://www.shop.example:8080/x?y", method: GET, expect: {status: "200,204", body: well, maxLatency: 1s}}}
  - {name: r3, scope: {asn: 3}, mode: failover, edges: [night], probe: {url: "http://www.shop.example:8080/x?y", method: GET, expect: {status: "200,204", body: well, maxLatency: 1s, tlsVerify: false}}}
`)
	got, _ := compileProbe(t, "local", yaml)
	want := []string{
		"  192.0.2.3:25 tcp every 30s within 5s, fall 3 rise 2",
		"GET http://www.shop.example:8080/x?y 192.0.2.3:8080 http every 30s within 5s, fall 3 rise 2",
	}
	if d := cmp.Diff(want, describeTasks(got)); d != "" {
		t.Error(d)
	}
	for _, tk := range got.Tasks {
		if tk.Kind == "http" && (tk.Body != "well" || tk.MaxLatency != time.Second || len(tk.Statuses) != 2 || tk.TLSVerify) {
			t.Errorf("got %+v", tk)
		}
	}
}

// TestCompileProbeSlow: a task is slow above the lowest limit its rules have now; the limit is not part of its ID.
//
// Covers: decisions 1
func TestCompileProbeSlow(t *testing.T) {
	rules := probeRules(t, probeService("shop", `
  - {name: default, scope: "*", mode: failover, edges: [night]}
  - {name: r1, scope: {asn: 1}, mode: failover, edges: [night], slowFactor: 3}
  - {name: r2, scope: {asn: 2}, mode: failover, edges: [night], slowFactor: 2}
`))
	limits := map[string]time.Duration{"r1": 300 * time.Millisecond, "r2": 200 * time.Millisecond}
	with, _ := snapshot.CompileProbe(1, "local", rules, func(u snapshot.TaskUse) time.Duration { return limits[u.Rule] })
	without, _ := snapshot.CompileProbe(1, "local", rules, nil)
	if got := with.Tasks[0].SlowAbove; got != 200*time.Millisecond {
		t.Errorf("slow above %v", got)
	}
	if with.Tasks[0].ID != without.Tasks[0].ID || without.Tasks[0].SlowAbove != 0 {
		t.Errorf("the limit changed the ID, or there is one without a baseline: %+v", without.Tasks[0])
	}
}

// TestCompileProbeOrder: the order of rules changes nothing, and a snapshot survives the wire.
//
// Covers: field 23
func TestCompileProbeOrder(t *testing.T) {
	var yaml []string
	for i := range 10 {
		yaml = append(yaml, probeService(fmt.Sprint("s", i), `
  - {name: default, scope: "*", mode: failover, edges: [a, b]}
  - {name: r1, scope: {asn: 1}, mode: quality, edges: [b, night], probe: {url: "https://same.example/", interval: 10s}}`))
	}
	rules := probeRules(t, strings.Join(yaml, "\n---"))
	want, wantUses := snapshot.CompileProbe(1, "local", rules, nil)
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		got, uses := snapshot.CompileProbe(1, "local", rules, nil)
		if d := cmp.Diff(want, got) + cmp.Diff(wantUses, uses); d != "" {
			t.Fatal(d)
		}
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var back snapshot.Probe
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, &back); d != "" {
		t.Error(d)
	}
}

// TestTaskID: equal keys have equal IDs, any other key has another, and what is not part of the key does not matter.
func TestTaskID(t *testing.T) {
	base := snapshot.ProbeTask{
		Kind: "https", Address: "192.0.2.1", Port: 443, URL: "https://a.example/", Method: "GET", Body: "x",
		Statuses: []snapshot.StatusRange{{Min: 200, Max: 299}}, TLSVerify: true, MaxLatency: time.Second,
	}
	id := snapshot.TaskID(&base)
	same := base
	same.ID, same.Interval, same.Timeout, same.SlowAbove, same.Fall, same.Rise = "x", 1, 2, 3, 4, 5
	if snapshot.TaskID(&same) != id {
		t.Error("the ID depends on what is not part of the key")
	}
	seen := map[string]int{id: -1}
	for i, change := range []func(*snapshot.ProbeTask){
		func(t *snapshot.ProbeTask) { t.Kind = "http" },
		func(t *snapshot.ProbeTask) { t.Address = "192.0.2.2" },
		func(t *snapshot.ProbeTask) { t.Port = 444 },
		func(t *snapshot.ProbeTask) { t.URL = "https://a.example/G" },
		func(t *snapshot.ProbeTask) { t.Method = "HEAD" },
		func(t *snapshot.ProbeTask) { t.Body = "" },
		func(t *snapshot.ProbeTask) { t.Statuses = nil },
		func(t *snapshot.ProbeTask) { t.Statuses = []snapshot.StatusRange{{Min: 200, Max: 300}} },
		func(t *snapshot.ProbeTask) { t.TLSVerify = false },
		func(t *snapshot.ProbeTask) { t.MaxLatency = 0 },
		func(t *snapshot.ProbeTask) { t.URL, t.Method = "https://a.example/GE", "T" },
		func(t *snapshot.ProbeTask) { t.Family = "ipv4" },
		func(t *snapshot.ProbeTask) { t.Family = "ipv6" },
		func(t *snapshot.ProbeTask) { t.CertDays = 7 },
		func(t *snapshot.ProbeTask) { t.Family, t.CertDays = "ipv4", 7 },
	} {
		other := base
		change(&other)
		got := snapshot.TaskID(&other)
		if was, there := seen[got]; there {
			t.Errorf("changes %d and %d have one ID", was, i)
		}
		seen[got] = i
	}
}

// TestTaskIDOfBefore: the IDs of tasks are those of the first version, or every point would begin anew, and a node one
// version older would refuse them all.
//
// Covers: issue4 version skew of kinds
func TestTaskIDOfBefore(t *testing.T) {
	for want, tk := range map[string]snapshot.ProbeTask{
		"f20643bf4d83a43527b2": {Kind: "https", Address: "192.0.2.1", Port: 443, URL: "https://www.example.com/", Method: "HEAD", Statuses: []snapshot.StatusRange{{Min: 200, Max: 399}}, TLSVerify: true},
		"2adc1f86349e0b62f834": {
			Kind: "http", Address: "shop.cdn-vendor.example", Port: 8080, URL: "http://www.example.com:8080/x", Method: "GET", Body: "well",
			Statuses: []snapshot.StatusRange{{Min: 200, Max: 200}, {Min: 204, Max: 204}}, MaxLatency: time.Second,
		},
		"699ad851e2072d08a373": {Kind: "tcp", Address: "2001:db8::1", Port: 25},
	} {
		if got := snapshot.TaskID(&tk); got != want {
			t.Errorf("%s %s: %s, was %s", tk.Kind, tk.Address, got, want)
		}
	}
}

// TestCompileProbeNewKinds: tasks of the kinds beyond HTTP and TCP hold what matters to them and nothing else.
//
// Covers: issue4 probe udp16, issue4 probe dns, issue4 probe icmp, issue4 probe grpc, issue4 certificate expiry
func TestCompileProbeNewKinds(t *testing.T) {
	got, _ := compileProbe(t, "local", probeService("shop", `
  - {name: default, scope: "*", mode: failover, edges: [night], probe: {kind: udp16}}
  - {name: r1, scope: {asn: 1}, mode: failover, edges: [night], probe: {kind: icmp}}
  - {name: r2, scope: {asn: 2}, mode: failover, edges: [night], probe: {url: "DNS://NS1.example/WWW.shop.example.", expect: {body: x}}}
  - {name: r3, scope: {asn: 3}, mode: failover, edges: [night], probe: {url: "grpc://www.shop.example:50051"}}
  - {name: r4, scope: {asn: 4}, mode: failover, edges: [night], probe: {kind: grpcs, expect: {certDays: 7}}}
  - {name: r5, scope: {asn: 5}, mode: failover, edges: [night], probe: {expect: {certDays: 7, tlsVerify: false}}}
`))
	byKind := map[string]snapshot.ProbeTask{}
	for _, tk := range got.Tasks {
		tk.ID = ""
		byKind[tk.Kind] = tk
	}
	task := func(tk snapshot.ProbeTask) snapshot.ProbeTask {
		tk.Address, tk.Interval, tk.Timeout, tk.Fall, tk.Rise = "192.0.2.3", 30*time.Second, 5*time.Second, 3, 2
		return tk
	}
	want := map[string]snapshot.ProbeTask{
		"udp16": task(snapshot.ProbeTask{Kind: "udp16", Port: 7077}),
		"icmp":  task(snapshot.ProbeTask{Kind: "icmp"}),
		"dns":   task(snapshot.ProbeTask{Kind: "dns", Port: 53, URL: "dns://ns1.example/www.shop.example?type=A&rcode=NOERROR", Body: "x"}),
		"grpc":  task(snapshot.ProbeTask{Kind: "grpc", Port: 50051, URL: "grpc://www.shop.example:50051/"}),
		"grpcs": task(snapshot.ProbeTask{Kind: "grpcs", Port: 443, URL: "grpcs://www.shop.example/", TLSVerify: true, CertDays: 7}),
		"https": task(snapshot.ProbeTask{
			Kind: "https", Port: 443, URL: "https://www.shop.example/", Method: "HEAD", CertDays: 7, Statuses: []snapshot.StatusRange{{Min: 200, Max: 399}},
		}),
	}
	if d := cmp.Diff(want, byKind); d != "" {
		t.Error(d)
	}
}

// TestCompileProbeFamilies: families choose among addresses, and make two tasks of a name that are judged apart; a rule
// that does not choose has the tasks it always had.
//
// Covers: issue4 families apart
func TestCompileProbeFamilies(t *testing.T) {
	got, uses := compileProbe(t, "local", probeService("shop", `
  - {name: default, scope: "*", mode: failover, edges: [a, b], probe: {url: "tcp://www.shop.example:25"}}
  - {name: both, scope: {asn: 1}, mode: failover, edges: [a, b], probe: {url: "tcp://www.shop.example:25", families: [ipv4, ipv6]}}
  - {name: four, scope: {asn: 2}, mode: failover, edges: [a, b], probe: {url: "tcp://www.shop.example:25", families: [ipv4]}}
`))
	var lines []string
	for _, tk := range got.Tasks {
		var rules []string
		for _, u := range uses[tk.ID] {
			rules = append(rules, u.Rule+" "+u.Address)
		}
		lines = append(lines, strings.TrimSpace(tk.Address+" "+tk.Family)+": "+strings.Join(rules, ", "))
	}
	slices.Sort(lines)
	want := []string{
		"192.0.2.1: both 192.0.2.1, default 192.0.2.1, four 192.0.2.1",
		"2001:db8::1: both 2001:db8::1, default 2001:db8::1",
		"shop.cdn-vendor.example ipv4: both shop.cdn-vendor.example/ipv4, four shop.cdn-vendor.example/ipv4",
		"shop.cdn-vendor.example ipv6: both shop.cdn-vendor.example/ipv6",
		"shop.cdn-vendor.example: default shop.cdn-vendor.example",
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
}

// BenchmarkCompileProbe compiles 10,000 rules of two edges each.
func BenchmarkCompileProbe(b *testing.B) {
	var rules []snapshot.ProbeRule
	for i := range 10_000 {
		rules = append(rules, snapshot.ProbeRule{
			Config: &steering.RuleConfig{
				Service: fmt.Sprint("s", i), Name: "default", Edges: []string{"a", "b"}, Points: []string{"local"},
				Interval: 30 * time.Second, Timeout: 5 * time.Second, Fall: 3, Rise: 2,
				ServiceEdges: []steering.EdgeConfig{
					{Name: "a", Enabled: true, Addresses: []string{"192.0.2.1"}},
					{Name: "b", Enabled: true, Addresses: []string{"192.0.2.2"}},
				},
			},
			Service: &spec.Service{},
			Rule:    &spec.Rule{Probe: spec.Probe{Enabled: true, URL: spec.ProbeURL(fmt.Sprintf("https://s%d.example/", i)), Method: "HEAD"}},
		})
	}
	for b.Loop() {
		snapshot.CompileProbe(1, "local", rules, nil)
	}
}

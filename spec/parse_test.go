package spec

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Defaults are those of resources.md.
//
// Covers: A5, A6, field 18
func TestDefaults(t *testing.T) {
	s := must(t, service(nil))[0].Service
	r := &s.Rules[0]
	got := map[string]any{
		"ttl": s.RuleTTL(r).String(), "minTTL": s.RuleMinTTL(r).String(), "negativeTTL": s.DNS.NegativeTTL.String(),
		"provider": s.DNS.Provider, "enabled": s.Edges[0].Enabled, "weight": s.Edges[0].Weight,
		"whenAllDown": r.WhenAllDown.String(), "lock": r.Lock.String(), "cooldown": r.Cooldown.String(),
		"dwell": r.DwellTime().String(), "slowFactor": int(r.SlowFactor), "probe": r.Probe.Enabled, "url": string(s.ProbeURL(r)),
		"method": r.Probe.Method, "interval": r.Probe.Interval.String(), "timeout": r.ProbeTimeout().String(),
		"fall": r.Probe.Fall, "rise": r.Probe.Rise, "points": r.Probe.Points.Selector().Count,
		"near": r.Probe.Points.Selector().Near, "minPoints": r.Probe.MinPoints, "status": r.Probe.Expect.Status.String(),
		"maxLatency": r.Probe.Expect.MaxLatency.String(), "tlsVerify": r.Probe.Expect.TLSVerify, "kind": s.ProbeKind(r),
	}
	want := map[string]any{
		"ttl": "30s", "minTTL": "5s", "negativeTTL": "30s", "provider": "builtin", "enabled": true, "weight": 50,
		"whenAllDown": "hold", "lock": "1m", "cooldown": "2m", "dwell": "1m30s", "slowFactor": 0, "probe": true,
		"url": "https://www.example.com/", "method": "HEAD", "interval": "30s", "timeout": "5s", "fall": 3, "rise": 2,
		"points": 3, "near": true, "minPoints": 0, "status": "200-399", "maxLatency": "0s", "tlsVerify": true, "kind": "https",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Defaults that depend on other fields follow them.
func TestDependentDefaults(t *testing.T) {
	tests := []struct{ name, rule, dns, want string }{
		{"timeout is at most the interval", "probe: {interval: 2s}", "", "ttl 30s min 5s timeout 2s dwell 6s https https://www.example.com/"},
		{"a rule's ttl wins", "ttl: 10s", "{ttl: 1m}", "ttl 10s min 5s timeout 5s dwell 1m30s https https://www.example.com/"},
		{"minTTL is at most the ttl", "ttl: 3s", "", "ttl 3s min 3s timeout 5s dwell 1m30s https https://www.example.com/"},
		{"kind gives the scheme", "probe: {kind: http}", "", "ttl 30s min 5s timeout 5s dwell 1m30s http http://www.example.com/"},
		{"kind tcp", "probe: {kind: tcp}", "", "ttl 30s min 5s timeout 5s dwell 1m30s tcp tcp://www.example.com:443"},
		{"tcp as the first version kept it", `probe: {url: "tcp://www.example.com:25?"}`, "", "ttl 30s min 5s timeout 5s dwell 1m30s tcp tcp://www.example.com:25"},
		{"the url gives the kind", `probe: {url: "http://other.example.com:8080/x?y=1"}`, "", "ttl 30s min 5s timeout 5s dwell 1m30s http http://other.example.com:8080/x?y=1"},
		{"kind http with an https url", `probe: {kind: http, url: "https://www.example.com/"}`, "", "ttl 30s min 5s timeout 5s dwell 1m30s https https://www.example.com/"},
		{"kind tcp with an https url", `probe: {kind: tcp, url: "https://www.example.com/"}`, "", "ttl 30s min 5s timeout 5s dwell 1m30s tcp https://www.example.com/"},
		{"dwell as written", "dwell: 10s", "", "ttl 30s min 5s timeout 5s dwell 10s https https://www.example.com/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields := map[string]string{"rules": `[{name: default, scope: "*", mode: failover, edges: [a, b], ` + tt.rule + `}]`, "dns": tt.dns}
			s := must(t, service(fields))[0].Service
			r := &s.Rules[0]
			got := strings.Join([]string{
				"ttl", s.RuleTTL(r).String(), "min", s.RuleMinTTL(r).String(), "timeout", r.ProbeTimeout().String(),
				"dwell", r.DwellTime().String(), s.ProbeKind(r), string(s.ProbeURL(r)),
			}, " ")
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Names and addresses have one form, however they are written; a probe URL with an IDN host is asked for as A-labels.
//
// Covers: field 31
func TestCanonicalForms(t *testing.T) {
	s := must(t, service(map[string]string{
		"domains": `[WWW.Example.COM., bücher.example, "*.Straße.example", 例子。中国, r3---sn-x.example.com, _x.example.com]`,
		"edges":   `[{name: a, target: CDN.Bücher.example.}, {name: b, addresses: ["2001:DB8:0:0::1", 192.0.2.1]}]`,
		"rules": `
  - {name: nordic, scope: {country: [no, Se]}, mode: failover, edges: [a, b], whenAllDown: "fallback:Büro.example.", probe: {url: "HTTPS://Bücher.example:8443"}}
  - {name: telecom, scope: {asn: [AS4134, 4837]}, mode: failover, edges: [a, b], whenAllDown: "fallback:[2001:DB8::2]"}
  - {name: default, scope: "*", mode: failover, edges: [a, b]}`,
	}))[0].Service
	got := map[string]string{
		"domains": strings.Join(texts(s.Domains), " "), "target": string(s.Edges[0].Target), "address": s.Edges[1].Addresses[0].String(),
		"country": s.Rules[0].Scope.String(), "fallback": s.Rules[0].WhenAllDown.String(), "url": string(s.Rules[0].Probe.URL),
		"asn": s.Rules[1].Scope.String(), "fallback6": s.Rules[1].WhenAllDown.String(),
	}
	want := map[string]string{
		"domains": "www.example.com xn--bcher-kva.example *.xn--strae-oqa.example xn--fsqu00a.xn--fiqs8s r3---sn-x.example.com _x.example.com",
		"target":  "cdn.xn--bcher-kva.example", "address": "2001:db8::1",
		"country": "country=NO,SE", "fallback": "fallback:xn--bro-hoa.example", "url": "https://xn--bcher-kva.example:8443/",
		"asn": "asn=4134,4837", "fallback6": "fallback:2001:db8::2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Text that YAML 1.1 took for booleans, numbers of base 60 and the like stays what it looks like.
func TestYAMLTraps(t *testing.T) {
	good := map[string]string{
		"Norway":          service(map[string]string{"rules": `[{name: no, scope: {country: NO}, mode: fixed, edges: [a]}, {name: yes, scope: "*", mode: fixed, edges: [b]}]`}),
		"clock unquoted":  rule(`schedule: [{from: 01:00, to: 05:00, edges: [b]}]`),
		"byte order mark": "\ufeff" + service(nil),
		"windows lines":   strings.ReplaceAll(service(nil), "\n", "\r\n"),
		"document marks":  "---\n# first\n---\n" + service(nil) + "...\n---\n",
		"directive":       "%YAML 1.2\n---\n" + service(nil),
		"marker in text":  service(map[string]string{"labels": `{a: "--- not a marker"}`}),
		"JSON":            `{"apiVersion":"steerpoint/v1","kind":"Zone","name":"main","zone":"gslb.example.net","labels":{"emoji":"\ud83d\ude00\/"},"ns":[{"name":"ns1.example.org"}]}`,
		"JSON with tabs":  "{\n\t\"apiVersion\":\"steerpoint/v1\",\n\t\"kind\":\"Zone\",\"name\":\"main\",\"zone\":\"gslb.example.net\",\"ns\":[{\"name\":\"ns1.example.org\"}]}\n",
		"flow YAML":       "{apiVersion: steerpoint/v1, kind: Zone, name: main, zone: gslb.example.net, ns: [{name: ns1.example.org}]}",
	}
	for name, text := range good {
		t.Run(name, func(t *testing.T) {
			if docs := must(t, text); len(docs) != 1 {
				t.Errorf("%d documents", len(docs))
			}
		})
	}
	if docs := must(t, good["JSON"]); docs[0].Labels["emoji"] != "😀/" {
		t.Errorf("label %q", docs[0].Labels["emoji"])
	}
	if docs := must(t, `{"apiVersion":"steerpoint/v1","kind":"Override","name":"x","freeze":{"service":"shop"}}
{"apiVersion":"steerpoint/v1","kind":"Override","name":"y","freeze":{"service":"shop"}}`); len(docs) != 2 {
		t.Errorf("%d documents of two JSON values", len(docs))
	}
}

// Bombs cost little and give an error: aliases, depth, breadth, one huge text, a huge file, many errors.
//
// Covers: issue2 bad input
func TestHostileFiles(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	tests := []struct{ name, text, code string }{
		{"alias bomb", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n", CodeAlias},
		{"self reference", "a: &a [*a]\n", CodeAlias},
		{"deep lists", strings.Repeat("[", 100000), CodeTooDeep},
		{"deep maps", strings.Repeat("{a: ", 100000), CodeTooDeep},
		{"deep dashes", strings.Repeat("- ", 100000), CodeTooDeep},
		{"deep JSON", strings.Repeat(`{"a":`, 100000), CodeTooDeep},
		{"deep closed JSON", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), CodeTooDeep},
		{"one long text", "kind: Service\nname: " + long, CodeLongText},
		{"one long key", long + ": x", CodeSyntax},
		{"one long line of a block", "kind: |\n  " + strings.Repeat(long, 3), CodeLongText},
		{"too many bytes", strings.Repeat("# a comment that is long\n", 800000), CodeTooLarge},
		{"too many values", "a: [" + strings.Repeat("1,", 1100000) + "]", CodeTooLarge},
		{"many values", "kind: Service\ndomains: [" + strings.Repeat("1,", 200000) + "]", CodeOutOfRange},
		{"many fields", "kind: Service\n" + strings.Repeat("a: 1\n", 30000), CodeTooMany},
		{"many rules", service(map[string]string{"rules": "[" + strings.Repeat("{name: x, scope: {country: CN}, mode: fixed, edges: [a]},", 10000) + "]"}), CodeOutOfRange},
		{"overlapping rules", service(map[string]string{"rules": "[" + strings.Repeat("{name: x, scope: {country: CN}, mode: fixed, edges: [a]},", 1000) + "]"}), CodeRepeated},
		{"many documents", strings.Repeat("---\na: 1\n", 1000), CodeMissing},
		{"control character", "name: \x1b[31m", CodeControl},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			docs, errs := Parse("hostile.yaml", []byte(tt.text))
			runtime.ReadMemStats(&after)
			if len(docs) > 0 || len(errs) == 0 {
				t.Fatalf("%d documents, errors %v", len(docs), errs)
			}
			found := false
			for _, c := range codes(errs) {
				found = found || c == tt.code
			}
			if !found {
				t.Errorf("no %s in %d errors, first %v", tt.code, len(errs), errs[0])
			}
			if len(errs.Error()) > 1<<20 {
				t.Errorf("%d bytes of errors", len(errs.Error()))
			}
			// A bound on work, not on time: a bomb that unfolded would allocate gigabytes.
			if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 1024 {
				t.Errorf("%d MB allocated", mb)
			}
		})
	}
}

// Times of overrides are RFC 3339 with or without quotes.
func TestOverrideUntil(t *testing.T) {
	for _, until := range []string{"2030-06-01T04:00:00Z", `"2030-06-01T06:00:00+02:00"`} {
		o := must(t, "apiVersion: steerpoint/v1\nkind: Override\nname: x\nfreeze: {service: shop}\nuntil: "+until+"\n")[0].Override
		if want := time.Date(2030, 6, 1, 4, 0, 0, 0, time.UTC); !o.Until.Equal(want) {
			t.Errorf("%s: %v", until, o.Until)
		}
	}
}

// One mistake gives one error: what rests on a value that could not be read is not judged.
func TestNoConsequentialErrors(t *testing.T) {
	tests := []struct{ name, text, code string }{
		{"scope of the only rule", service(map[string]string{"rules": `[{name: default, scope: {contry: CN}, mode: failover, edges: [a, b]}]`}), CodeUnknownField},
		{"name of an edge", service(map[string]string{"edges": `[{name: A, target: a.example.net}, {name: b, target: b.example.net}]`}), CodeBadName},
		{"interval", rule("probe: {interval: 30, timeout: 10s}"), CodeBadValue},
		{"target", service(map[string]string{"edges": `[{name: a, target: 192.0.2.1}, {name: b, target: b.example.net}]`}), CodeAddressAsName},
		{"ttl", service(map[string]string{"dns": "{ttl: 0s, minTTL: 10s}"}), CodeOutOfRange},
		{"edges", service(map[string]string{"edges": "none"}), CodeWrongType},
		{"rules", service(map[string]string{"rules": "{}"}), CodeWrongType},
		{"domains", service(map[string]string{"domains": "www.example.com"}), CodeWrongType},
		{"kind", "apiVersion: steerpoint/v1\nkind: Thing\nname: x\nfoo: 1\n", CodeUnknownKind},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, errs := Parse("x.yaml", []byte(tt.text))
			if len(errs) != 1 || errs[0].Code != tt.code {
				t.Errorf("want one %s, got\n%v", tt.code, errs)
			}
		})
	}
}

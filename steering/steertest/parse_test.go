package steertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steerpoint/steering"
)

const someService = `-- shop.yaml --
kind: Service
name: shop
edges:
  - {name: a, target: a.example.net}
  - {name: b, addresses: [192.0.2.1, "2001:db8::1"]}
rules:
  - {name: default, scope: "*", mode: failover, edges: [a, b], probe: {interval: 10s}}
`

// TestParseNamesEveryMistake gives a file in which every line is wrong, and wants each named with its line at once.
//
// Covers: decisions 8
func TestParseNamesEveryMistake(t *testing.T) {
	rows := []struct{ line, want string }{
		{"points", "at least one name"},
		{"points p1", "a second points line"},
		{"epoch yesterday", "is no RFC 3339 time"},
		{"epoch 2026-01-01T00:00:00Z", "a second epoch line"},
		{"wait 3s", `"wait" begins no line; allowed: points, epoch, force`},
		{"3s * *", `write "TIME POINTS EDGES ok LATENCY"`},
		{"3x * * ok 3ms", `time "3x" is no duration`},
		{"-3s * * ok 3ms", `time "-3s" is no duration from 0s`},
		{"99999999h * * ok 3ms", "is no duration from 0s"},
		{"0s..9s * * ok 3ms", "a range needs a step"},
		{"9s..0s/1s * * ok 3ms", "ends before it begins"},
		{"0s..9s/0s * * ok 3ms", "the step must be above 0"},
		{"0s..9s/-1s * * ok 3ms", "is no duration"},
		{"3s p9 * ok 3ms", `point "p9" is not on the points line; there are: none`},
		{"3s *,p1 * ok 3ms", "* stands alone"},
		{"3s * a,* ok 3ms", "* stands alone"},
		{"3s * a,a ok 3ms", `edge "a" is named twice`},
		{"3s * a@ ok 3ms", "write edge, service/edge"},
		{"3s * s/*@x ok 3ms", "write edge, service/edge"},
		{"3s * * ok 0s", "latency"},
		{"3s * * ok 3h", "latency"},
		{"3s * * fail a/b", `cause "a/b": one word`},
		{"3s * * maybe 3ms", `outcome "maybe"; allowed: ok LATENCY, fail CAUSE`},
		{"force 3s shop/default", `write "force TIME SERVICE/RULE EDGE [for DURATION]"`},
		{"force 3s shop/default a until 9s", "with a duration above 0"},
		{"force 3s shop/default a for 0s", "with a duration above 0"},
		{"force 3s shop a", `rule "shop": write SERVICE/RULE`},
		{"force 0s..9s/1s shop/default a", "only observations take a range"},
		{"force 3s shop/default a,b", `edge "a,b" is no edge name`},
		{"freeze 3s", `write "freeze TIME SERVICE[/RULE] [for DURATION]"`},
		{"freeze 3s shop/default for -1s", "with a duration above 0"},
		{"apply 3s other.yaml", `section "other.yaml" is not in this file; there are: shop.yaml`},
		{"restart", `write "restart TIME"`},
		{"expect 3s shop/default", `write "expect TIME SERVICE/RULE EDGE [key=value ...]"`},
		{"expect 3s shop/default cause=down", "stands where the edge does"},
		{"expect 3s shop/default a cause=mood", "allowed: initial, down, slow"},
		{"expect 3s shop/default a since=x", `since "x" is no time`},
		{"expect 3s shop/default a locked=maybe", "allowed: true, false"},
		{"expect 3s shop/default a color=red", "allowed: cause=, since=, degraded=, locked="},
		{"expect 3s shop/default a cause=down cause=slow", "given twice"},
		{"expect-switches shop/default many", `count "many" is no number`},
		{"expect-switches shop/default 1 3s", "write FROM..TO"},
		{"expect-switches shop/default 1 9s..3s", "ends before it begins"},
		{"expect-verdict 3s shop/default a sideways", "allowed: up, down, unknown"},
		{"expect-verdict 3s shop/default * up", "write edge or edge@address"},
	}
	var text strings.Builder
	for _, r := range rows {
		text.WriteString(r.line + "\n")
	}
	_, err := Parse("bad.txtar", []byte(text.String()+someService))
	if err == nil {
		t.Fatal("a file full of mistakes was taken")
	}
	byLine := map[int][]string{}
	for _, e := range err.(Errors) {
		byLine[e.Line] = append(byLine[e.Line], e.Error())
	}
	for i, r := range rows {
		if got := strings.Join(byLine[i+1], "\n"); !strings.Contains(got, r.want) {
			t.Errorf("line %d %q: got %q, want it to say %q", i+1, r.line, got, r.want)
		}
	}
}

// TestParseWholeFile: mistakes that only the whole file shows.
//
// Covers: decisions 8
func TestParseWholeFile(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "no resources"},
		{"no points", someService, "no points"},
		{"late points", "restart 0s\npoints p\n" + someService, "line comes after an event"},
		{"same section twice", "points p\n" + someService + someService, `two sections are called "shop.yaml"`},
		{"too many", "points p\n0s..87600h/1ns * * ok 1ms\n" + someService, "TIMELINE_LIMIT"},
		{"too many in sum", "points p q\n" + strings.Repeat("0s..3000000s/1s * a ok 1ms\n", 2) + someService, "TIMELINE_LIMIT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse("x.txtar", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
}

// TestRunRefusesUnknownNames: names are checked against the resources before anything runs, so that a mistyped edge is
// an error and not a probe that never happens.
//
// Covers: decisions 8, field 38
func TestRunRefusesUnknownNames(t *testing.T) {
	tl := mustParse(t, `points p
3s * typo ok 1ms
3s * other/a ok 1ms
3s * b@192.0.2.9 ok 1ms
3s * b@2001:db8::1 ok 1ms
force 3s shop/default typo
force 3s shop/other a
freeze 3s nobody
freeze 3s shop/nobody
expect 3s shop/nobody a
expect-verdict 3s shop/default typo up
expect-verdict 3s shop/default b@192.0.2.1 unknown
`+someService)
	_, err := tl.Run(loadYAML, Options{})
	var lines []int
	if errs, ok := err.(Errors); ok {
		for _, e := range errs {
			if e.Code != CodeUnknown {
				t.Errorf("%v: want code %s", e, CodeUnknown)
			}
			lines = append(lines, e.Line)
		}
	}
	if want := []int{2, 3, 4, 6, 7, 8, 9, 10, 11}; !cmp.Equal(lines, want) {
		t.Errorf("mistakes on lines %v, want %v:\n%v", lines, want, err)
	}
}

// TestRunRefusesTooMany: edges and addresses multiply the events, and count.
//
// Covers: decisions 8
func TestRunRefusesTooMany(t *testing.T) {
	tl := mustParse(t, "points p\n0s..4000000s/1s * * ok 1ms\n"+someService)
	if _, err := tl.Run(loadYAML, Options{}); err == nil || !strings.Contains(err.Error(), "x.txtar:2: TIMELINE_LIMIT") {
		t.Errorf("got %v, want the line and TIMELINE_LIMIT", err)
	}
}

// TestRunReportsLoader: a section that does not load is named.
//
// Covers: decisions 8
func TestRunReportsLoader(t *testing.T) {
	tl := mustParse(t, "points p\n-- a.yaml --\nrules: [{mode: dice}]\n-- b.yaml --\n]\n")
	_, err := tl.Run(loadYAML, Options{})
	if err == nil || !strings.Contains(err.Error(), "section a.yaml") || !strings.Contains(err.Error(), "section b.yaml") {
		t.Errorf("got %v, want both sections named", err)
	}
}

func mustParse(t *testing.T, text string) *Timeline {
	t.Helper()
	tl, err := Parse("x.txtar", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// sameTimeline compares but for line numbers: a timeline that was written anew has its statements on other lines.
func sameTimeline(a, b *Timeline) string {
	return cmp.Diff(a, b, cmpopts.IgnoreFields(Statement{}, "Line"), cmpopts.EquateEmpty())
}

// TestFormatRoundTrip: what Format writes, Parse reads back equal, for the scenarios and for random timelines.
//
// Covers: decisions 8
func TestFormatRoundTrip(t *testing.T) {
	var all []*Timeline
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		all = append(all, parseFile(t, file))
	}
	for seed := range uint64(50) {
		all = append(all, generate(seed))
	}
	for _, tl := range all {
		again, err := Parse(tl.Name, tl.Format())
		if err != nil {
			t.Errorf("%s: what Format wrote is refused: %v", tl.Name, err)
			continue
		}
		if diff := sameTimeline(tl, again); diff != "" {
			t.Errorf("%s: %s", tl.Name, diff)
		}
	}
}

// FuzzTimeline: no input makes the parser or a run panic or hang, and what parses survives a round trip.
//
// Covers: decisions 8, issue2 fuzz-timeline
func FuzzTimeline(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("# x\npoints p\nepoch 2026-03-29T00:30:00+08:00\n1.5s..1m/1ms p a@::1,s/*,s/b ok 1µs\nfreeze 0s s for 3s\n-- x --\n"))
	f.Add([]byte("points p\nbegin 9s\nhalt 9s\nstate 9s s.json\n10s p * ok 1ms only s/r,s/q\ntick 10s s/r\nunforce 11s s/r\nunfreeze 11s s\n" +
		"drain 12s s/e\nundrain 13s s/e\n-- x --\n-- s.json --\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tl, err := Parse("fuzz.txtar", data)
		if err != nil {
			return
		}
		text := tl.Format()
		again, err := Parse("fuzz.txtar", text)
		if err != nil {
			t.Fatalf("what Format wrote is refused: %v\n%s", err, text)
		}
		if diff := sameTimeline(tl, again); diff != "" {
			t.Fatal(diff)
		}
		// Enough to reach every statement; a fuzzer's endless ranges are cut to a moment.
		budget := int64(300)
		for i := range tl.Statements {
			at := &tl.Statements[i].At
			if n := at.times(); n > 20 {
				at.To = at.From + 20*at.Step
			}
			if budget -= at.times() * int64(len(tl.Points)); budget < 0 || at.To > 24*time.Hour {
				return
			}
		}
		if _, err := tl.Run(loadFuzz, Options{}); err != nil && !strings.Contains(err.Error(), "TIMELINE_") {
			t.Fatalf("run: %v", err)
		}
	})
}

// loadFuzz loads fixed resources whatever the section holds: YAML that nobody validated is not what is fuzzed here.
func loadFuzz(name string, _ []byte, points []string) ([]steering.RuleConfig, error) {
	_, data, _ := strings.Cut(someService, "\n")
	return loadYAML(name, []byte(data), points)
}

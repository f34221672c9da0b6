package octodns

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
)

const samplePath = "testdata/shop.example.yaml"

// render is a result as people see it: the resources, then the list of losses.
func render(t *testing.T, r *importer.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("--- losses\n")
	for _, n := range r.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

// TestSample imports a zone file with pools, fallbacks, places, subnets and checks, and compares all of the result.
// Covers: issue4 import octodns
func TestSample(t *testing.T) {
	r, err := Import(samplePath, nil, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := render(t, r)
	const golden = "testdata/golden.txt"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("differs from %s (UPDATE=1 writes it anew):\n%s", golden, d)
	}
}

// leaves counts the values of a YAML document without the code under test.
func leaves(n *yaml.Node) int {
	count := 0
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			count += leaves(c)
		}
	}
	return max(count, 1)
}

func maps(n *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	if n.Kind == yaml.MappingNode {
		out = append(out, n)
	}
	for _, c := range n.Content {
		out = append(out, maps(c)...)
	}
	return out
}

// TestNothingIsSkipped counts the values of the input by other means: each is translated or listed. Then an unknown key
// goes into every map: it is never taken for translated.
// Covers: issue4 import complete
func TestNothingIsSkipped(t *testing.T) {
	data, err := os.ReadFile(samplePath)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	total := leaves(&doc)
	base, err := Import(samplePath, nil, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if base.Translated+base.Listed != total {
		t.Fatalf("%d values translated and %d listed of %d", base.Translated, base.Listed, total)
	}
	path := filepath.Join(t.TempDir(), "shop.example.yaml")
	try := func(line, added int) {
		t.Helper()
		changed, err := yaml.Marshal(&doc)
		if err := errors.Join(err, os.WriteFile(path, changed, 0o644)); err != nil {
			t.Fatal(err)
		}
		r, err := Import(path, nil, importer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Translated > base.Translated || r.Translated+r.Listed != total+added {
			t.Errorf("map in line %d: %d unknown keys give %d translated, %d listed; before %d, %d (STEER_LONG=1 names the maps)", line, added, r.Translated, r.Listed, base.Translated, base.Listed)
		}
	}
	all := maps(&doc)
	unknown := []*yaml.Node{{Kind: yaml.ScalarNode, Value: "unknown"}, {Kind: yaml.ScalarNode, Value: "new"}}
	if os.Getenv("STEER_LONG") != "" {
		for _, m := range all {
			before := m.Content
			m.Content = slices.Concat(before, unknown)
			try(m.Line, 1)
			m.Content = before
		}
	}
	for _, m := range all {
		m.Content = append(m.Content, unknown...)
	}
	try(0, len(all))
}

func parse(t *testing.T, text string) (*importer.Result, error) {
	t.Helper()
	return Import("-", strings.NewReader(text), importer.Options{Zone: "a.example."})
}

// What octoDNS would refuse, and what meets no place of ours, still gives a valid result and a note.
// Covers: issue4 import octodns
func TestOddRecords(t *testing.T) {
	for name, tt := range map[string]struct{ in, note string }{
		"fallback in a circle": {"w: {type: A, value: 192.0.2.9, dynamic: {pools: {a: {fallback: b, values: [{value: 192.0.2.1}]}, b: {fallback: a, values: [{value: 192.0.2.2}]}}, rules: [{pool: a}]}}", "falls back to itself"},
		"no catch-all":         {"w: {type: A, value: 192.0.2.9, dynamic: {pools: {a: {values: [{value: 192.0.2.1}]}}, rules: [{pool: a, geos: [EU]}]}}", "no rule for everybody"},
		"unknown pool":         {"w: {type: A, value: 192.0.2.9, dynamic: {pools: {}, rules: [{pool: a}]}}", "not defined"},
		"a place twice":        {"w: {type: A, value: 192.0.2.9, dynamic: {pools: {a: {values: [{value: 192.0.2.1}]}}, rules: [{pool: a, geos: [EU, EU]}, {pool: a}]}}", "an earlier rule has it"},
		"everything down":      {"w: {type: A, value: 192.0.2.9, dynamic: {pools: {a: {values: [{value: 192.0.2.1, status: down}, {value: 192.0.2.2, status: down}]}}, rules: [{pool: a}]}}", "one must be"},
		"both families":        {"w: [{type: A, value: 192.0.2.9, dynamic: {pools: {a: {values: [{value: 192.0.2.1}]}}, rules: [{pool: a}]}}, {type: AAAA, value: '2001:db8::9', dynamic: {pools: {a: {values: [{value: '2001:db8::1'}]}}, rules: [{pool: a}]}}]", "of either family"},
		"steered TXT":          {"w: {type: TXT, value: x, dynamic: {pools: {}, rules: []}}", "only addresses and names are steered"},
		"a list of nothing":    {"w: []\nv: {type: A}", "without values"},
		"a custom tag":         {"w: !include other.yaml", "without a type"},
		"an alias":             {"w: &x {type: A, value: 192.0.2.1, ttl: 0}\nv: *x", "ttl: 0s"},
		"a merge":              {"w: &x {type: A, value: 192.0.2.1}\nv: {<<: *x, ttl: 90000}", "ttl: 25h"},
		"escape codes":         {"w: {type: \"A\\e[2J\"}", "?"},
		"long TXT":             {"w: {type: TXT, value: " + strings.Repeat("x", 70000) + "}", "xxx...; instead: left out: it "},
	} {
		r, err := parse(t, tt.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := render(t, r); !strings.Contains(got, tt.note) || strings.Contains(got, "\x1b") {
			t.Errorf("%s: lacks %q:\n%s", name, tt.note, got)
		}
	}
}

// Hostile YAML is refused with the place and the reason, before it grows.
// Covers: issue4 import hostile
func TestRefused(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'j'; i++ {
		bomb += string(i) + ": &" + string(i) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(i-1)+", ", 10), ", ") + "]\n"
	}
	for name, tt := range map[string]struct{ in, want string }{
		"a bomb of aliases": {bomb, "with its aliases written out"},
		"too deep":          {"a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "levels deep"},
		"far too deep":      {"a: " + strings.Repeat("[", 100000), "depth"},
		"not UTF-8":         {"a: \xff", "not UTF-8"},
		"two documents":     {"a: {}\n---\nb: {}", "more than one YAML document"},
		"a key twice":       {"a: {}\na: {}", "twice"},
		"a list":            {"[a]", "no map of names"},
		"no YAML":           {"a: [", "line"},
		"a key of a map":    {"? {a: b}\n: c", "no plain text"},
	} {
		_, err := parse(t, tt.in)
		var p *tree.Problem
		if !errors.As(err, &p) || !strings.Contains(p.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Import("-", strings.NewReader("a: {}"), importer.Options{}); err == nil || !strings.Contains(err.Error(), "--zone") {
		t.Error(err)
	}
}

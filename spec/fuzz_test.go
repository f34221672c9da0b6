package spec

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"steerpoint/steering"
)

// Whatever the bytes: no panic; findings have a known code and a place inside the file; a resource that comes out
// round-trips in every form, fits its schema, compiles, and has no error that Parse left for later.
//
// Covers: issue2 fuzz, issue2 bad input
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/bad/*.json", "testdata/good/*", "testdata/reference.yaml", "../docs/examples/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if len(data) < 8<<10 { // the fuzzer spends its time on shrinking larger ones
				f.Add(data)
			}
		}
	}
	known := knownCodes()
	schemas := compiledSchemas(f)
	f.Fuzz(func(t *testing.T, data []byte) { checkParse(t, known, schemas, data) })
}

// Any text in the place of any value of a good resource: the same promises hold.
//
// Covers: issue2 fuzz, issue2 bad input
func FuzzValue(f *testing.F) {
	for _, s := range []string{"", "*", "NO", "1", "30s", "-1s", "1.5", "a.example.", "xn--a", "::1", "fallback:::", "200-", "24:01", "tcp://a.b:1", "https://a.b/\u00e9?q=%zz", "é", "null", "{", "a/b", "0"} {
		f.Add(uint16(7), true, s)
		f.Add(uint16(40), false, s)
	}
	known, schemas := knownCodes(), compiledSchemas(f)
	text, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		f.Fatal(err)
	}
	docs, errs := Parse("", text)
	if len(errs) > 0 {
		f.Fatal(errs)
	}
	f.Fuzz(func(t *testing.T, n uint16, quote bool, text string) {
		r := docs[int(n)%len(docs)]
		root := r.node(Full)
		at := int(n)/len(docs)%150 + 1 // the longest has about so many values
		replaceScalar(root, &at, quote, text)
		out, err := yaml.Marshal(root)
		if err != nil {
			return // no YAML can hold the text
		}
		checkParse(t, known, schemas, out)
	})
}

// replaceScalar puts text in the place of the value number at of a tree.
func replaceScalar(n *yaml.Node, at *int, quote bool, text string) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		if c.Kind != yaml.ScalarNode {
			replaceScalar(c, at, quote, text)
			continue
		}
		if *at--; *at == 0 {
			c.Value, c.Tag, c.Style = text, "", 0
			if quote {
				c.Tag, c.Style = "!!str", yaml.DoubleQuotedStyle
			}
		}
	}
}

func knownCodes() map[string]bool {
	known := map[string]bool{}
	for _, c := range Codes() {
		known[c.Code] = true
	}
	return known
}

func checkParse(t *testing.T, known map[string]bool, schemas map[Kind]*jsonschema.Schema, data []byte) {
	docs, errs := Parse("f.yaml", data)
	lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + strings.Count(string(data), "\u0085") +
		strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029") + 2
	for _, e := range errs {
		if !known[e.Code] || e.Line < 0 || e.Line > lines || strings.ContainsAny(e.Error(), "\n\x1b\x00") {
			t.Errorf("finding %q at line %d of %d", e.Error(), e.Line, lines)
		}
	}
	if !slices.IsSortedFunc(errs, func(a, b Error) int { return byPlace(a.Finding, b.Finding) }) {
		t.Error("errors are not in order")
	}
	for _, r := range docs {
		if r.Secret == nil || len(r.Secret.Data) == 0 { // values are not written, so they do not come back
			roundTrip(t, r)
		}
		if err := schemas[r.Kind].Validate(plainJSON(t, r)); err != nil {
			t.Errorf("the schema refuses what Parse accepts: %v", err)
		}
		if r.Service != nil {
			r.Service.RuleConfigs([]steering.Point{{Name: "local"}})
		}
		again, _ := NewSet([]Resource{r}).Check(Partial)
		for _, e := range again {
			// The last two: of the records of a zone, which only Check holds against one another.
			if !slices.Contains([]string{CodeLoop, CodeDomainTaken, CodeBadRecord, CodeNeedsGlue}, e.Code) {
				t.Errorf("Parse accepts what Check refuses: %v", e)
			}
		}
	}
	s := NewSet(docs)
	s.Check(Complete)
	if d := Diff(s, s); len(d) > 0 {
		t.Errorf("a set differs from itself: %v", d)
	}
	Diff(NewSet(nil), s)
}

func BenchmarkParse(b *testing.B) {
	data, err := os.ReadFile("testdata/good/scenarios.yaml")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if docs, errs := Parse("b.yaml", data); len(errs) > 0 || len(docs) == 0 {
			b.Fatal(errs)
		}
	}
}

package spec

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func compiledSchema(t testing.TB, kind Kind) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(kind)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kind.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("kind.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compiledSchemas(t testing.TB) map[Kind]*jsonschema.Schema {
	t.Helper()
	schemas := map[Kind]*jsonschema.Schema{}
	for _, k := range Kinds() {
		schemas[k] = compiledSchema(t, k)
	}
	return schemas
}

// Each kind's schema is a valid JSON Schema 2020-12 and accepts the examples, as they are written and in both forms.
//
// Covers: issue2 schema
func TestSchemaAcceptsExamples(t *testing.T) {
	schemas := compiledSchemas(t)
	files, err := filepath.Glob("../docs/examples/*")
	if err != nil || len(files) < 5 {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range yamlDocuments(t, data) {
			kind := Kind(doc["kind"].(string))
			if err := schemas[kind].Validate(plainJSON(t, doc)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
	for _, r := range goodResources(t) {
		for _, form := range []Form{Minimal, Full} {
			text, err := r.JSON(form)
			if err != nil {
				t.Fatal(err)
			}
			if err := schemas[r.Kind].Validate(plainJSON(t, json.RawMessage(text))); err != nil {
				t.Errorf("%s: %v\n%s", r.Key(), err, text)
			}
		}
	}
}

func yamlDocuments(t *testing.T, data []byte) (docs []map[string]any) {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc map[string]any
		if err := dec.Decode(&doc); err != nil {
			return docs
		}
		docs = append(docs, doc)
	}
}

func plainJSON(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The schema refuses what a single field shows to be wrong, so an editor marks it before Parse does.
func TestSchemaRefuses(t *testing.T) {
	s := compiledSchema(t, KindService)
	for _, change := range []map[string]string{
		{"domian": "[x]"},
		{"name": "My_Shop"},
		{"name": ""},
		{"domains": "[]"},
		{"domains": "www.example.com"},
		{"kind": "Zone"},
		{"apiVersion": "steerpoint/v2"},
		{"edges": "[{name: a, weight: 1001}]"},
		{"edges": "[{name: a, enabled: \"yes\"}]"},
		{"dns": "{ttl: 30}"},
		{"dns": "{ttl: 1d}"},
		{"dns": "{minttl: 5s}"},
		{"revision": "-1"},
		{"rules": `[{name: default, scope: all, mode: fixed, edges: [a]}]`},
		{"rules": `[{name: default, scope: {country: China}, mode: fixed, edges: [a]}]`},
		{"rules": `[{name: default, scope: "*", mode: best, edges: [a]}]`},
		{"rules": `[{name: default, scope: "*", mode: fixed, edges: [a], whenAllDown: panic}]`},
		{"rules": `[{name: default, scope: "*", mode: fixed, edges: [a], probe: {fall: 11}}]`},
	} {
		text := service(change)
		doc := yamlDocuments(t, []byte(text))[0]
		if err := s.Validate(plainJSON(t, doc)); err == nil {
			t.Errorf("the schema accepts\n%s", text)
		}
		if _, errs := Parse("", []byte(text)); len(errs) == 0 {
			t.Errorf("Parse accepts\n%s", text)
		}
	}
	if Schema("Thing") != nil {
		t.Error("a schema for an unknown kind")
	}
	for _, k := range Kinds() {
		if got, ok := ParseKind(strings.ToLower(string(k)) + "s"); !ok || got != k {
			t.Errorf("%s: %s, %v", k, got, ok)
		}
	}
	if _, ok := ParseKind("things"); ok {
		t.Error("things are a kind")
	}
}

// Schemas are kept as golden files, so that a change of the format shows in review.
func TestSchemaGolden(t *testing.T) {
	for _, k := range Kinds() {
		golden(t, "testdata/schema/"+strings.ToLower(string(k))+".json", Schema(k))
	}
}

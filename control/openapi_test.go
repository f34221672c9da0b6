package control

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"steerpoint/control/api"
)

// TestDescriptionIsCurrent proves that the description that is checked in is the one that a server gives, to anybody.
// Covers: issue4 openapi
func TestDescriptionIsCurrent(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	status, h, served := r.raw("GET", "/api/v1/openapi.json", "", "")
	if status != 200 || !strings.HasPrefix(h.Get("Content-Type"), "application/openapi+json") {
		t.Fatalf("%d %s", status, h.Get("Content-Type"))
	}
	var want bytes.Buffer
	if err := json.Indent(&want, bytes.TrimSpace(served), "", "  "); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(got), want.Bytes()) {
		t.Errorf("control/api/openapi.json is not what the server gives (%s); run: make api", firstDifference(got, want.Bytes()))
	}
}

func firstDifference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "line " + strings.TrimSpace(x[i]) + " is now " + strings.TrimSpace(y[i])
		}
	}
	return "one is longer"
}

func ownDoc(t *testing.T) ([]byte, *apiDoc) {
	t.Helper()
	b, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	return b, readDoc(t, b)
}

// TestDescriptionIsOpenAPI proves that the description is an OpenAPI 3.1 document, by our own reading of the specification
// (testdata/openapi31.json) and, where it was fetched, by the schema that is published with it.
// Covers: issue4 openapi
func TestDescriptionIsOpenAPI(t *testing.T) {
	b, _ := ownDoc(t)
	for _, file := range []string{"testdata/openapi31.json", os.Getenv("STEER_OPENAPI_SCHEMA")} {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("meta.json", meta); err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile("meta.json")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, broken := range []string{`{"openapi":"3.1.0"}`, strings.Replace(string(b), `"in": "query"`, `"in": "potato"`, 1), strings.Replace(string(b), `"type": "string"`, `"type": "text"`, 1)} {
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(broken))
			if err != nil {
				t.Fatal(err)
			}
			if file == "testdata/openapi31.json" && s.Validate(doc) == nil {
				t.Errorf("a broken document passes: %.80s", broken)
			}
		}
	}
}

// TestSchemasAndExamples proves that every schema in the description compiles, that every example is as its schema says,
// and that every operation with a body shows one.
// Covers: issue4 openapi
func TestSchemasAndExamples(t *testing.T) {
	_, d := ownDoc(t)
	shown := 0
	for _, op := range d.ops {
		if op.body != nil && op.example == nil {
			t.Errorf("%s has no example of a request: add one to control/examples.json", op.id)
		}
		here := pointer("paths", op.path, strings.ToLower(op.method))
		places := []string{}
		if op.body != nil {
			places = append(places, here+"/requestBody")
		}
		for status := range op.responses {
			places = append(places, here+pointer("responses", status))
		}
		for _, place := range places {
			v := d.at(place)
			if ref, ok := v["$ref"].(string); ok {
				place = strings.TrimPrefix(ref, "#")
				v = d.at(place)
			}
			content, _ := v["content"].(map[string]any)
			for mediaType, m := range content {
				s, err := d.schema(place + pointer("content", mediaType, "schema"))
				if err != nil {
					t.Errorf("%s: %v", place, err)
					continue
				}
				if ex := m.(map[string]any)["example"]; ex != nil {
					shown++
					if err := s.Validate(ex); err != nil {
						t.Errorf("example of %s: %v", place, err)
					}
				}
			}
		}
	}
	var ours map[string]example
	if err := json.Unmarshal(examplesJSON, &ours); err != nil {
		t.Fatal(err)
	}
	for id := range ours {
		if !slices.ContainsFunc(d.ops, func(op *apiOp) bool { return op.id == id }) {
			t.Errorf("examples.json has %s, which is no operation", id)
		}
	}
	if shown < len(ours) {
		t.Errorf("%d examples are shown of %d operations", shown, len(ours))
	}
}

// TestDescriptionIsWhole proves that everything has its words: operations, parameters, fields, codes, ETags.
// Covers: issue4 openapi, issue2 codes
func TestDescriptionIsWhole(t *testing.T) {
	_, d := ownDoc(t)
	ids := map[string]bool{}
	for _, op := range d.ops {
		v := d.at(pointer("paths", op.path, strings.ToLower(op.method)))
		if ids[op.id] || v["summary"] == nil || v["tags"] == nil {
			t.Errorf("%s is there twice, or has no summary or tag", op.id)
		}
		ids[op.id] = true
		for _, status := range []string{"401", "403", "422", "429", "500", "503"} {
			if op.responses[status] == nil {
				t.Errorf("%s does not say what it answers with %s", op.id, status)
			}
		}
		for _, p := range op.params {
			if p["description"] == nil && p["name"] != "kind" && p["name"] != "name" && p["name"] != "revision" {
				t.Errorf("%s: parameter %s has no description", op.id, p["name"])
			}
		}
		if strings.HasPrefix(op.path, "/api/v1/resources/{kind}") && op.method != "DELETE" && op.responses["200"].(map[string]any)["headers"].(map[string]any)["ETag"] == nil {
			t.Errorf("%s does not say that it gives an ETag", op.id)
		}
	}
	source, err := os.ReadFile("api/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	enum := d.at("/components/schemas/Problem/properties/code")["enum"].([]any)
	codes := regexp.MustCompile(`(?m)^\tCode\w+ += "([A-Z_]+)"`).FindAllSubmatch(source, -1)
	for _, m := range codes {
		code := string(m[1])
		if code != api.CodeWatchGap && (!slices.Contains(enum, any(code)) || !bytes.Contains(page, m[1])) {
			t.Errorf("%s is not in the description (meanings, in control/openapi.go) or not in docs/api.md", code)
		}
	}
	if len(codes) < 20 || len(enum) < 20 {
		t.Errorf("only %d codes in the source and %d in the description: the search is broken", len(codes), len(enum))
	}
	for name, s := range d.at("/components/schemas") {
		if s.(map[string]any)["description"] == nil {
			t.Errorf("schema %s has no description", name)
		}
	}
}

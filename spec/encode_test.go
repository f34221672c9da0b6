package spec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// goodResources are those of the examples, the reference and the scenarios.
func goodResources(t testing.TB) []Resource {
	t.Helper()
	var out []Resource
	for _, pattern := range []string{"../docs/examples/*", "testdata/reference.yaml", "testdata/good/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			docs, errs := Parse(f, data)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			out = append(out, docs...)
		}
	}
	return out
}

// Writing a resource in any form and reading it back gives the same, and the same text again.
func TestRoundTrip(t *testing.T) {
	for _, r := range goodResources(t) {
		r.Revision = 42
		roundTrip(t, r)
	}
}

func roundTrip(t testing.TB, r Resource) {
	t.Helper()
	effective := r.Effective()
	for _, form := range []struct {
		name  string
		write func(*Resource) ([]byte, error)
		want  *Resource
	}{
		{"minimal YAML", func(r *Resource) ([]byte, error) { return r.YAML(Minimal) }, &r},
		{"full YAML", func(r *Resource) ([]byte, error) { return r.YAML(Full) }, &effective},
		{"minimal JSON", func(r *Resource) ([]byte, error) { return r.JSON(Minimal) }, &r},
		{"full JSON", func(r *Resource) ([]byte, error) { return r.JSON(Full) }, &effective},
		{"json.Marshal", func(r *Resource) ([]byte, error) { return json.Marshal(r) }, &r},
		{"yaml.Marshal", func(r *Resource) ([]byte, error) { return yaml.Marshal(r) }, &r},
	} {
		text, err := form.write(&r)
		if err != nil {
			t.Fatalf("%s of %s: %v", form.name, r.Key(), err)
		}
		docs, errs := Parse("", text)
		if len(errs) > 0 || len(docs) != 1 {
			t.Fatalf("%s of %s does not parse: %v\n%s", form.name, r.Key(), errs, text)
		}
		got := docs[0]
		if !got.Equal(*form.want) || got.Revision != r.Revision {
			t.Errorf("%s of %s reads back as another resource: %s", form.name, r.Key(), cmp.Diff(form.want.String(), got.String()))
		}
		again, err := form.write(&got)
		if err != nil || string(again) != string(text) {
			t.Errorf("%s of %s is not stable: %v %s", form.name, r.Key(), err, cmp.Diff(string(text), string(again)))
		}
	}
}

// A resource inside another document or message is read and written like one by itself.
func TestMarshalInside(t *testing.T) {
	type message struct {
		Resource Resource `json:"resource" yaml:"resource"`
	}
	in := message{must(t, service(nil))[0]}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out message
	if err := json.Unmarshal(text, &out); err != nil || !out.Resource.Equal(in.Resource) {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = yaml.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out = message{}
	if err := yaml.Unmarshal(text, &out); err != nil || !out.Resource.Equal(in.Resource) {
		t.Errorf("%v\n%s", err, text)
	}
	if err := json.Unmarshal([]byte(`{"resource": {"kind": "Service", "name": "x", "foo": 1}}`), &out); err == nil || !strings.Contains(err.Error(), CodeUnknownField) {
		t.Errorf("error %v", err)
	}
}

// Text that another reader of YAML could take for something else is quoted.
func TestQuoting(t *testing.T) {
	for _, s := range []string{"NO", "no", "Yes", "on", "~", "null", "true", "", "1", "1.5", "0x1", "1e3", "12:30", "2030-01-01", "-", "- a", "a: b", "a #b", "*", "&a", "!t", "@x", "%x", "`x", "'", `"`, "{", "[", "a\nb", " a", "a ", "é", "=", "<<", ".", "..", "---", ".inf", ".nan", "_1", "+1", "30s", "1_000", "/x"} {
		text, err := yaml.Marshal(textNode(s))
		if err != nil {
			t.Fatal(err)
		}
		var back any
		if err := yaml.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%q is written as %s and read as %v (%v)", s, text, back, err)
		}
		old := strings.ToLower(strings.TrimSpace(string(text)))
		if strings.Contains(oldWords, " "+old+" ") {
			t.Errorf("%q is written as %s", s, text)
		}
	}
}

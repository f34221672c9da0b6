package doctree

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// places writes every value of a tree with its line and column.
func places(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return fmt.Sprintf("%s@%d:%d", n.Value, n.Line, n.Column)
	}
	var parts []string
	for _, c := range n.Content {
		parts = append(parts, places(c))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// Lines are those of the file, also in later documents and in JSON.
func TestPlaces(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"one", "a: 1\nb: [x, y]\n", "(a@1:1 1@1:4 b@2:1 (x@2:5 y@2:8))"},
		{"two", "a: 1\n---\n\nb: 2\n", "(a@1:1 1@1:4) (b@4:1 2@4:4)"},
		{"value on the marker's line", "--- {a: 1}\n---\n- 2\n", "(a@1:6 1@1:9) (2@3:3)"},
		{"comments and empty documents", "# x\n---\n---\n# y\n---\na: 1\n...\n---\n", "(a@6:1 1@6:4)"},
		{"marker inside a block text", "a: |\n  ---\n  b\nc: 1\n", "(a@1:1 ---\nb\n@1:4 c@4:1 1@4:4)"},
		{"longer dashes are no marker", "----: 1\n", "(----@1:1 1@1:7)"},
		{"mark", "\ufeffa: 1\n", "(a@1:1 1@1:4)"},
		{"windows", "a: 1\r\n---\r\nb: 2\r\n", "(a@1:1 1@1:4) (b@3:1 2@3:4)"},
		{"version", "%YAML 1.2\n---\na: 1\n", "(a@3:1 1@3:4)"},
		{"JSON", "{\"a\": 1,\n  \"é\": [true, \"x\"],\t\"n\": null}\n{}", "(a@1:2 1@1:7 é@2:3 (true@2:9 x@2:15) n@2:21 null@2:26) ()"},
		{"nothing", "", ""},
		{"comments only", "# a\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, problems := Read([]byte(tt.in))
			var got []string
			for _, d := range docs {
				got = append(got, places(d))
			}
			if s := strings.Join(got, " "); s != tt.want || len(problems) > 0 {
				t.Errorf("got  %s\nwant %s\n%v", s, tt.want, problems)
			}
		})
	}
}

// What JSON says is what the tree says: the same text read by encoding/json gives equal values.
func TestJSONValues(t *testing.T) {
	in := `{"s":"a\u00e9\ud83d\ude00\n\/","i":-12,"f":1.5e3,"b":[true,false,null],"o":{"x":{}},"e":[]}`
	docs, problems := Read([]byte(in))
	if len(docs) != 1 || len(problems) > 0 {
		t.Fatal(docs, problems)
	}
	var got, want any
	if err := docs[0].Decode(&got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(in), &want); err != nil {
		t.Fatal(err)
	}
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("%s\n%s", a, b)
	}
}

// A mistake in one document hides nothing of the others.
func TestProblemsStayInTheirDocument(t *testing.T) {
	docs, problems := Read([]byte("a: [1\n---\nb: 2\n---\nc: *x\n---\nd: 4\n"))
	if len(docs) != 2 || len(problems) != 2 || problems[0].Code != CodeSyntax || problems[1].Code != CodeAlias || problems[1].Line != 5 {
		t.Errorf("%d documents, %+v", len(docs), problems)
	}
}

// No bytes make it panic, and every problem has a code, a text and a line of the file.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"a: 1\n---\nb: [x, {y: z}]\n", "{\"a\": [1, \"x\"]}", "a: |\n  x\n", "&a x", "? [a]\n: b", "%YAML 1.2\n---\nx", "a:\n\t- b", "\ufeff{\"a\":1}{}", "--- |\n...\n---\n"} {
		f.Add([]byte(s))
	}
	if data, err := os.ReadFile("../../testdata/reference.yaml"); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, problems := Read(data)
		for _, p := range problems {
			if p.Code == "" || p.Text == "" || p.Line < 0 || p.Line > len(data)+2 {
				t.Errorf("%+v", p)
			}
		}
		for _, d := range docs {
			if d.Line < 1 || d.Kind == yaml.AliasNode {
				t.Errorf("document at line %d", d.Line)
			}
		}
	})
}

// TestCutShort: JSON that ends inside a value is an error wherever it ends, never an empty file.
//
// Covers: issue2 bad input
func TestCutShort(t *testing.T) {
	const whole = `{"a": {"b": [1, "x", {}], "c": null}, "d": true}`
	for n := 1; n < len(whole); n++ {
		if docs, problems, ok := readJSON([]byte(whole[:n])); ok || len(problems) == 0 {
			t.Errorf("%q is read as %d documents without a problem", whole[:n], len(docs))
		}
	}
	if docs, problems, ok := readJSON([]byte(whole + "\n" + whole)); !ok || len(docs) != 2 || len(problems) != 0 {
		t.Errorf("two whole values: %d documents, %v", len(docs), problems)
	}
}

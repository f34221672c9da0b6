package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"steerpoint/control/api"
)

// apiDoc is the description of the API, read by a test as a program of somebody else would.
type apiDoc struct {
	root     map[string]any
	compiler *jsonschema.Compiler
	ops      []*apiOp
	compiled map[string]*jsonschema.Schema
}

type apiOp struct {
	id, method, path string
	params           []map[string]any
	body             map[string]any // schema; nil: none
	example          any            // of the body
	responses        map[string]any
	answers          map[int]int // status: how often
}

const docURL = "openapi.json"

func readDoc(t *testing.T, data []byte) *apiDoc {
	t.Helper()
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	d := &apiDoc{root: root.(map[string]any), compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(docURL, root); err != nil {
		t.Fatal(err)
	}
	for path, item := range d.root["paths"].(map[string]any) {
		for method, v := range item.(map[string]any) {
			d.ops = append(d.ops, d.operation(t, strings.ToUpper(method), path, v.(map[string]any)))
		}
	}
	slices.SortFunc(d.ops, func(a, b *apiOp) int { return strings.Compare(a.id, b.id) })
	return d
}

func (d *apiDoc) operation(t *testing.T, method, path string, v map[string]any) *apiOp {
	t.Helper()
	op := &apiOp{id: v["operationId"].(string), method: method, path: path, answers: map[int]int{}}
	if list, ok := v["parameters"].([]any); ok {
		for _, p := range list {
			op.params = append(op.params, p.(map[string]any))
		}
	}
	if body, ok := v["requestBody"].(map[string]any); ok {
		media := body["content"].(map[string]any)[jsonType].(map[string]any)
		op.body, op.example = d.deref(media["schema"].(map[string]any)), media["example"]
	}
	op.responses = v["responses"].(map[string]any)
	return op
}

// deref follows references into the components.
func (d *apiDoc) deref(v map[string]any) map[string]any {
	for {
		ref, ok := v["$ref"].(string)
		if !ok {
			return v
		}
		v = d.at(strings.TrimPrefix(ref, "#"))
	}
}

func (d *apiDoc) at(pointer string) map[string]any {
	var v any = d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		v = v.(map[string]any)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return v.(map[string]any)
}

func pointer(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(p))
	}
	return b.String()
}

// schema compiles what is at a place of the description.
func (d *apiDoc) schema(pointer string) (*jsonschema.Schema, error) {
	if s := d.compiled[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(docURL + "#" + (&url.URL{Fragment: pointer}).EscapedFragment())
	if err == nil {
		d.compiled[pointer] = s
	}
	return s, err
}

// check says what an answer has that the description does not.
func (d *apiDoc) check(op *apiOp, status int, h http.Header, body []byte) error {
	declared, ok := op.responses[fmt.Sprint(status)].(map[string]any)
	if !ok {
		return fmt.Errorf("status %d is not described; what an operation answers beyond its form is listed in ownFailures (control/openapi.go)", status)
	}
	place := pointer("paths", op.path, strings.ToLower(op.method), "responses", fmt.Sprint(status))
	if ref, ok := declared["$ref"].(string); ok {
		place = strings.TrimPrefix(ref, "#")
		declared = d.at(place)
	}
	if headers, ok := declared["headers"].(map[string]any); ok {
		for name := range headers {
			if h.Get(name) == "" {
				return fmt.Errorf("the header %s is described for %d, and is not there", name, status)
			}
		}
	}
	content, _ := declared["content"].(map[string]any)
	if len(content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%d has a body, and none is described: %.200s", status, body)
		}
		return nil
	}
	mediaType, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if content[mediaType] == nil {
		return fmt.Errorf("%d is of type %q, described are %v", status, mediaType, slices.Sorted(maps.Keys(content)))
	}
	if !strings.HasSuffix(mediaType, "json") {
		return nil
	}
	s, err := d.schema(place + pointer("content", mediaType, "schema"))
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%d is not JSON: %w: %.200s", status, err, body)
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%d is not as described: %w\n%.1000s", status, err, body)
	}
	return nil
}

// problemCode is the code of a problem document; "" if it is none.
func problemCode(body []byte) string {
	var p api.Problem
	if json.Unmarshal(body, &p) != nil {
		return ""
	}
	return p.Code
}

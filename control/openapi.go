package control

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
)

// documentVersion is the version of the description, not of the program: it is the same for all that serve /api/v1.
const documentVersion = "1"

const (
	problemType   = "application/problem+json"
	problemSchema = "#/components/schemas/Problem"
)

// examplesJSON has, by operation, an example of the request and one of the answer.
//
//go:embed examples.json
var examplesJSON []byte

// fieldsJSON has what types and fields of package api mean: their comments, taken out by make api.
//
//go:embed fields.json
var fieldsJSON []byte

type example struct {
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
}

// meanings are the codes of problems, each in a few words.
var meanings = map[string]string{
	api.CodeBadRequest:         "the request is malformed; errors says where",
	api.CodeUnauthorized:       "no token, or another server's",
	api.CodeTokenExpired:       "the token's time is over",
	api.CodeForbiddenRole:      "the token's role does not allow it; detail says which does",
	api.CodeForbiddenService:   "the token is for other services",
	api.CodeNoSeries:           "series cannot be read now",
	api.CodeSealKey:            "values of Secrets cannot be sealed or opened: the sealing key is missing",
	api.CodeZoneState:          "the keys of the zone are not at the stage that it takes; nothing was changed",
	api.CodeForbiddenHost:      "the Host header is not a name of this server",
	api.CodeNotFound:           "no such resource, service, rule, edge, point or path",
	api.CodeMethodNotAllowed:   "Allow says which methods there are",
	api.CodeNotAcceptable:      "Accept allows no type that the answer has",
	api.CodeConflict:           "somebody wrote in between; nothing was changed",
	api.CodePreconditionFailed: "If-Match or If-None-Match does not hold; nothing was changed",
	api.CodePreconditionNeeded: "a resource that exists is replaced only with If-Match",
	api.CodeTooLarge:           "the body, or what would come of it, is above the limit",
	api.CodeMediaType:          "the body is of a type that is not read here",
	api.CodeInvalid:            "resources that do not pass validation; errors lists every mistake, nothing was changed",
	api.CodeNotSupported:       "well formed, but not in this version",
	api.CodeTooMany:            "too many requests from one address, or too many watchers",
	api.CodeInternal:           "a mistake of ours; the log has it",
	api.CodeStoreUnavailable:   "the store takes no writes; name servers answer on",
	api.CodeStoreFull:          "the store's quota is reached; nothing was changed",
	api.CodeNotReady:           "the server starts or stops",
	api.CodeNoHistory:          "history cannot be read now; everything else goes on",
	api.CodeProberUnavailable:  "no probe point can be asked",
	api.CodeNoGateway:          "no gateway can be asked",
	api.CodeBeforeTape:         "nothing was recorded at that time",
}

// failure is one way in which an operation says no.
type failure struct {
	status int
	code   string
}

// ownFailures are those that an operation has beyond what follows from its form (see failuresOf).
var ownFailures = map[string][]failure{
	"putResource":     {{503, api.CodeSealKey}, {428, api.CodePreconditionNeeded}, {422, api.CodeInvalid}, {413, api.CodeTooLarge}},
	"deleteResource":  {{422, api.CodeInvalid}},
	"plan":            {{503, api.CodeSealKey}, {422, api.CodeInvalid}, {409, api.CodeConflict}},
	"apply":           {{503, api.CodeSealKey}, {422, api.CodeInvalid}},
	"rollback":        {{503, api.CodeSealKey}, {404, api.CodeNotFound}, {422, api.CodeInvalid}, {422, api.CodeNotSupported}, {503, api.CodeNoHistory}},
	"rotateSecrets":   {{503, api.CodeSealKey}},
	"rollZoneKey":     {{404, api.CodeNotFound}, {409, api.CodeZoneState}, {503, api.CodeSealKey}},
	"noteParent":      {{404, api.CodeNotFound}, {409, api.CodeZoneState}, {503, api.CodeSealKey}},
	"series":          {{503, api.CodeNoSeries}, {404, api.CodeNotFound}},
	"createAPIToken":  {{422, api.CodeInvalid}},
	"backup":          {{503, api.CodeNoHistory}},
	"history":         {{503, api.CodeNoHistory}},
	"historyRevision": {{503, api.CodeNoHistory}},
	"audit":           {{503, api.CodeNoHistory}},
	"status":          {{404, api.CodeNotFound}},
	"explain":         {{404, api.CodeNotFound}, {404, api.CodeBeforeTape}},
	"explainRequest":  {{404, api.CodeNotFound}, {503, api.CodeNoGateway}},
	"tape":            {{404, api.CodeBeforeTape}, {422, api.CodeTooLarge}},
	"probe":           {{404, api.CodeNotFound}, {503, api.CodeProberUnavailable}},
	"watch":           {{503, api.CodeTooMany}},
	"force":           {{404, api.CodeNotFound}, {422, api.CodeInvalid}},
	"unforce":         {{404, api.CodeNotFound}, {422, api.CodeInvalid}},
	"freeze":          {{404, api.CodeNotFound}, {422, api.CodeInvalid}},
	"unfreeze":        {{404, api.CodeNotFound}, {422, api.CodeInvalid}},
	"drain":           {{404, api.CodeNotFound}, {422, api.CodeInvalid}},
	"undrain":         {{404, api.CodeNotFound}, {422, api.CodeInvalid}},

	"orderCertificate": {{404, api.CodeNotFound}},
}

// tags group the operations by the first part of their path.
var tags = map[string]string{
	"resources": "resources", "plan": "resources", "apply": "resources",
	"history": "history", "rollback": "history", "audit": "history", "switches": "history", "tape": "history",
	"force": "overrides", "unforce": "overrides", "freeze": "overrides", "unfreeze": "overrides", "drain": "overrides", "undrain": "overrides",
	"nodes": "nodes", "tokens": "nodes", "secrets": "resources", "dnssec": "dnssec", "api-tokens": "access", "backup": "state", "series": "history",
	"status": "state", "explain": "state", "version": "state", "watch": "state", "probe": "state", "notifiers": "state",
}

// describe completes what the frame makes of the Go types: which problems an operation answers with, by status and code,
// what conditional requests give, what fields mean, tags and examples.
func describe(doc *huma.OpenAPI) {
	registry := doc.Components.Schemas
	registry.Schema(typeOfProblem, true, "Problem")
	schemas := registry.Map()
	delete(schemas, "ErrorModel") // the frame's own; nothing is answered with it
	delete(schemas, "ErrorDetail")
	for _, code := range slices.Sorted(maps.Keys(meanings)) {
		schemas["Problem"].Properties["code"].Enum = append(schemas["Problem"].Properties["code"].Enum, code)
	}
	describeFields(schemas)
	var examples map[string]example
	mustRead("examples.json", examplesJSON, &examples)
	doc.Components.Responses = map[string]*huma.Response{}
	groups := map[string]bool{}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op != nil {
				describeOperation(doc, op, examples[op.OperationID])
				groups[op.Tags[0]] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: name})
	}
}

// mustRead reads a file that is built in. One that cannot be read is a mistake of the build.
func mustRead(name string, data []byte, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		panic(fmt.Sprintf("built-in %s: %v", name, err))
	}
}

// describeFields gives types and fields the words of their comments. A list is never null: it is empty, or absent.
func describeFields(schemas map[string]*huma.Schema) {
	var words map[string]string
	mustRead("fields.json", fieldsJSON, &words)
	for name, s := range schemas {
		if s.Description == "" {
			s.Description = words[name]
		}
		for field, p := range s.Properties {
			if p.Description == "" {
				p.Description = words[name+"."+field]
			}
			if p.Type == huma.TypeArray {
				p.Nullable = false
			}
		}
	}
}

func describeOperation(doc *huma.OpenAPI, op *huma.Operation, ex example) {
	if len(op.Tags) == 0 {
		first, _, _ := strings.Cut(strings.TrimPrefix(op.Path, api.Prefix+"/"), "/")
		op.Tags = []string{cmp.Or(tags[first], first)}
	}
	if op.OperationID == "putResource" { // the frame knows only that it is bytes
		op.RequestBody.Content[jsonType].Schema = anyResource()
	}
	delete(op.Responses, "default")
	failures := failuresOf(op)
	for status := range failures {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: problemResponse(doc, status, failures[status])}
	}
	answer := op.Responses["200"]
	if tag := headerOf(answer, "ETag"); tag != nil {
		tag.Description = tag.Schema.Description
	}
	if tag := headerOf(answer, "ETag"); tag != nil && op.Method == http.MethodGet {
		op.Responses["304"] = &huma.Response{Description: "Not Modified: the reader has what is stored", Headers: map[string]*huma.Param{"ETag": tag}}
	}
	if op.RequestBody != nil && ex.Request != nil {
		op.RequestBody.Content[jsonType].Example = ex.Request
	}
	if answer != nil && answer.Content[jsonType] != nil && ex.Response != nil {
		answer.Content[jsonType].Example = ex.Response
	}
}

func headerOf(res *huma.Response, name string) *huma.Param {
	if res == nil {
		return nil
	}
	return res.Headers[name]
}

// anyResource is the schema of a resource of any kind, as in a file.
func anyResource() *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"apiVersion", "kind", "name"}, AdditionalProperties: true,
		Description: "A resource as in a file; `steer schema KIND` gives the schema of its kind",
		Properties: map[string]*huma.Schema{
			"apiVersion": {Type: huma.TypeString, Enum: []any{"steerpoint/v1"}}, "kind": {Type: huma.TypeString}, "name": {Type: huma.TypeString},
		},
	}
}

// failuresOf gives the codes of an operation's problems by status: those that follow from its form, and its own.
func failuresOf(op *huma.Operation) map[int][]string {
	out := map[int][]string{}
	add := func(status int, codes ...string) {
		for _, code := range codes {
			if !slices.Contains(out[status], code) {
				out[status] = append(out[status], code)
			}
		}
	}
	add(http.StatusUnauthorized, api.CodeUnauthorized, api.CodeTokenExpired)
	add(http.StatusForbidden, api.CodeForbiddenHost, api.CodeForbiddenRole, api.CodeForbiddenService)
	add(http.StatusUnprocessableEntity, api.CodeBadRequest)
	add(http.StatusTooManyRequests, api.CodeTooMany)
	add(http.StatusInternalServerError, api.CodeInternal)
	add(http.StatusServiceUnavailable, api.CodeNotReady, api.CodeStoreUnavailable)
	if len(offered(op)) > 0 {
		add(http.StatusNotAcceptable, api.CodeNotAcceptable)
	}
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			add(http.StatusNotFound, api.CodeNotFound)
		case p.Name == "If-Match":
			add(http.StatusPreconditionFailed, api.CodePreconditionFailed)
		}
	}
	if op.RequestBody != nil {
		add(http.StatusBadRequest, api.CodeBadRequest)
		add(http.StatusRequestTimeout, api.CodeBadRequest)
		add(http.StatusRequestEntityTooLarge, api.CodeTooLarge)
		add(http.StatusUnsupportedMediaType, api.CodeMediaType)
	}
	if op.Method != http.MethodGet && !slices.Contains(writesNothing, op.OperationID) {
		add(http.StatusConflict, api.CodeConflict)
		add(http.StatusInsufficientStorage, api.CodeStoreFull)
	}
	for _, f := range ownFailures[op.OperationID] {
		add(f.status, f.code)
	}
	for status := range out {
		slices.Sort(out[status])
	}
	return out
}

// writesNothing are the operations that are no GET and store nothing.
var writesNothing = []string{"plan", "probe", "testNotifier", "explainRequest"}

// problemResponse gives the reference to an answer of a status with one of some codes, and makes it when it is new.
func problemResponse(doc *huma.OpenAPI, status int, codes []string) string {
	name := strconv.Itoa(status) + "-" + strings.Join(codes, "-")
	ref := "#/components/responses/" + name
	if doc.Components.Responses[name] != nil {
		return ref
	}
	lines := []string{http.StatusText(status)}
	enum := make([]any, len(codes))
	for i, code := range codes {
		lines = append(lines, "- "+code+": "+meanings[code])
		enum[i] = code
	}
	res := &huma.Response{Description: strings.Join(lines, "\n"), Content: map[string]*huma.MediaType{problemType: {
		Schema: &huma.Schema{AllOf: []*huma.Schema{{Ref: problemSchema}}, Properties: map[string]*huma.Schema{
			"status": {Type: huma.TypeInteger, Enum: []any{status}}, "code": {Type: huma.TypeString, Enum: enum},
		}},
		Example: problem(status, codes[0], http.StatusText(status), meanings[codes[0]]),
	}}}
	header := func(name, description string) {
		res.Headers = map[string]*huma.Param{name: {Description: description, Schema: &huma.Schema{Type: huma.TypeString}}}
	}
	switch status {
	case http.StatusUnauthorized:
		header("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		header("Retry-After", "seconds to wait")
	}
	doc.Components.Responses[name] = res
	return ref
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// document is what the client is made from of an OpenAPI 3.1 description.
type document struct {
	Paths      map[string]map[string]*operation `json:"paths"`
	Components struct {
		Responses map[string]*response `json:"responses"`
	} `json:"components"`
}

type operation struct {
	ID          string       `json:"operationId"`
	Summary     string       `json:"summary"`
	Tags        []string     `json:"tags"`
	Parameters  []*parameter `json:"parameters"`
	RequestBody *struct {
		Content map[string]*media `json:"content"`
	} `json:"requestBody"`
	Responses map[string]*response `json:"responses"`

	method, path string
	own          []string // codes that not every operation has
}

type parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description"`
	Required    bool    `json:"required"`
	Schema      *schema `json:"schema"`
}

type media struct {
	Schema *schema `json:"schema"`
}

type response struct {
	Ref     string            `json:"$ref"`
	Headers map[string]any    `json:"headers"`
	Content map[string]*media `json:"content"`
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Format     string             `json:"format"`
	Enum       []any              `json:"enum"`
	Properties map[string]*schema `json:"properties"`
}

// prefix is what the paths of all operations begin with; the client knows it.
const prefix = "/api/v1"

// actorHeader is of the client as a whole, not of a call.
const actorHeader = "Steer-Actor"

// neverMet are codes that a call of the client does not meet: it says which types it sends and takes.
var neverMet = []string{"NOT_ACCEPTABLE", "MEDIA_TYPE"}

// operations reads the description; they are in order of their IDs.
func operations(data []byte) ([]*operation, error) {
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	var all []*operation
	for path, item := range doc.Paths {
		for method, op := range item {
			rest, ours := strings.CutPrefix(path, prefix)
			if !ours || op.ID == "" || len(op.Tags) == 0 {
				return nil, fmt.Errorf("%s %s: not under %s, or without an operationId or a tag", method, path, prefix)
			}
			op.method, op.path = strings.ToUpper(method), rest
			op.Parameters = slices.DeleteFunc(op.Parameters, func(p *parameter) bool { return p.Name == actorHeader })
			op.own = doc.codes(op)
			all = append(all, op)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no operations")
	}
	slices.SortFunc(all, func(a, b *operation) int { return strings.Compare(a.ID, b.ID) })
	common := map[string]int{}
	for _, op := range all {
		for _, code := range op.own {
			common[code]++
		}
	}
	for _, op := range all {
		op.own = slices.DeleteFunc(op.own, func(code string) bool { return common[code] == len(all) || slices.Contains(neverMet, code) })
	}
	return all, nil
}

// codes are the codes of an operation's problems, each once.
func (d *document) codes(op *operation) []string {
	found := map[string]bool{}
	for _, r := range op.Responses {
		if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok && d.Components.Responses[name] != nil {
			r = d.Components.Responses[name]
		}
		for _, m := range r.Content {
			if m.Schema == nil || m.Schema.Properties["code"] == nil {
				continue
			}
			for _, code := range m.Schema.Properties["code"].Enum {
				found[fmt.Sprint(code)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// answer is the response of success: its media type, "" without a body, and its schema.
func (op *operation) answer() (mediaType string, s *schema, etag bool, err error) {
	for status, r := range op.Responses {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		if len(r.Content) > 1 {
			return "", nil, false, fmt.Errorf("%s answers with several types", op.ID)
		}
		for t, m := range r.Content {
			mediaType, s = t, m.Schema
		}
		_, etag = r.Headers["ETag"]
		return mediaType, s, etag, nil
	}
	return "", nil, false, fmt.Errorf("%s has no answer of success", op.ID)
}

// body is the request's: its media type, "" without one, and its schema.
func (op *operation) body() (mediaType string, s *schema) {
	if op.RequestBody == nil {
		return "", nil
	}
	for _, t := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
		return t, op.RequestBody.Content[t].Schema
	}
	return "", nil
}

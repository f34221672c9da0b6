package spec

import (
	"errors"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"steerpoint/spec/internal/doctree"
	"steerpoint/spec/internal/names"
)

// Parse reads the documents of one YAML or JSON file. file is only for findings; "" keeps no places in the resources.
//
// It returns the resources that have no error, defaults filled in, and every error of the others, by line. What needs
// other resources to judge is left to Set.Check; warnings are given there too.
func Parse(file string, data []byte) (docs []Resource, errs Errors) {
	trees, problems := doctree.Read(data)
	for _, p := range problems {
		errs = append(errs, Error{Finding{
			Code: p.Code, File: file, Line: p.Line, Column: p.Column, Problem: p.Text, Allowed: p.Hint,
		}})
	}
	for _, n := range trees {
		r, found := decodeResource(file, n)
		if len(found) > 0 {
			errs = append(errs, found...)
			continue
		}
		docs = append(docs, r)
	}
	errs.sort()
	return docs, errs
}

// decodeResource reads one document and checks it by itself.
func decodeResource(file string, n *yaml.Node) (Resource, Errors) {
	d := &decoder{src: &source{file: file, pos: map[string]position{"": {n.Line, n.Column}}}, failed: map[string]bool{}}
	if n.Kind != yaml.MappingNode {
		d.fail(&yaml.Node{Line: n.Line, Column: n.Column}, "", &valueError{
			CodeNotAResource, "the document is " + nodeWords(n) + ", not a resource",
			"fields that start with apiVersion, kind and name; several documents are separated by ---", "",
		})
		return Resource{}, d.errs
	}
	r := Resource{Name: peek(n, "name"), src: d.src}
	d.name = shorten(r.Name)
	if !d.peekKind(n, &r) {
		return Resource{}, d.errs
	}
	body := reflect.ValueOf(r.setBody()).Elem()
	setDefaults(body)
	var env envelope
	d.fields(n, "", reflect.ValueOf(&env).Elem(), body)
	r.Labels, r.Revision = env.Labels, env.Revision
	if len(d.errs) > maxErrors {
		return r, d.errs
	}
	c := checker{r: &r, src: d.src, failed: d.failed}
	c.resource()
	errs := append(d.errs, c.errs...)
	if file == "" {
		r.src = nil
	}
	return r, errs
}

// peekKind finds the document's kind, or says what is wrong with it. Without a kind no field can be judged.
func (d *decoder) peekKind(n *yaml.Node, r *Resource) bool {
	word := peek(n, "kind")
	for _, k := range Kinds() {
		if word == string(k) {
			r.Kind, d.kind = k, k
			return true
		}
	}
	at := n
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "kind" {
			at = n.Content[i+1]
		}
	}
	allowed := "Service, Zone, Override, Notifier, Secret, RuleSet, Certificate, DynamicRecords"
	switch {
	case at == n:
		d.fail(&yaml.Node{Line: n.Line, Column: n.Column}, "kind", &valueError{CodeMissing, "is missing", allowed, ""})
	case word != "" && strings.Contains(laterKinds, " "+word+" "):
		d.fail(at, "kind", &valueError{CodeNotYet, "comes with a later version", allowed, ""})
	default:
		d.fail(at, "kind", &valueError{CodeUnknownKind, "is no kind of resource", allowed, nearestKind(word)})
	}
	return false
}

func nearestKind(word string) string {
	all := make([]string, 0, len(Kinds()))
	for _, k := range Kinds() {
		all = append(all, string(k))
	}
	return names.Nearest(word, all)
}

// peek gives the text of a field before the document is decoded.
func peek(n *yaml.Node, name string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name && n.Content[i+1].Kind == yaml.ScalarNode && n.Content[i+1].Tag == "!!str" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// UnmarshalYAML reads a resource from one document of a larger one.
func (r *Resource) UnmarshalYAML(n *yaml.Node) error {
	out, errs := decodeResource("", n)
	if len(errs) > 0 {
		return errs
	}
	*r = out
	return nil
}

// UnmarshalJSON reads a resource. The error is Errors.
func (r *Resource) UnmarshalJSON(data []byte) error {
	docs, errs := Parse("", data)
	switch {
	case len(errs) > 0:
		return errs
	case len(docs) != 1:
		return errors.New("a resource must be one document")
	}
	*r = docs[0]
	return nil
}

package control

import (
	"errors"
	"slices"
	"strings"

	"steerpoint/control/api"
	"steerpoint/control/internal/filter"
	"steerpoint/control/internal/store"
	"steerpoint/spec"
)

// FilterInput narrows a list. It is exported for the frame of the API.
type FilterInput struct {
	Filter string `query:"filter" maxLength:"1000" doc:"terms such as name=web-* label.region=eu actor!=ci; all must hold" example:"name=web-*"`
}

// parse reads the filter of a list with these fields.
func (in FilterInput) parse(fields ...string) (filter.Filter, error) {
	f, err := filter.Parse(in.Filter, fields...)
	var e *filter.Error
	if errors.As(err, &e) {
		p := badRequest("query.filter", "%s", e.Error())
		it := &p.Errors[0]
		it.Column, it.Value, it.Allowed = e.Column, e.Value, e.Allowed
		return f, p
	}
	return f, err
}

// fitting keeps the entries that fit a filter.
func fitting[T any](f filter.Filter, all []T, values func(v *T, field, key string) []string) []T {
	if f.Empty() {
		return all
	}
	return slices.DeleteFunc(all, func(v T) bool {
		return !f.Match(func(field, key string) []string { return values(&v, field, key) })
	})
}

// label gives the value of a label as a filter sees it: none if it is not there.
func label(labels map[string]string, key string) []string {
	if v, ok := labels[key]; ok {
		return []string{v}
	}
	return nil
}

// resourceFields are the fields of a filter on resources.
var resourceFields = []string{"name", "service", "applySet", "actor", filter.Label}

// resourceValues are those of a stored resource. What this version cannot read has no service and no labels.
func (c *Control) resourceValues(s *store.Resource, field, key string) []string {
	switch field {
	case "name":
		return []string{s.Name}
	case "applySet":
		return []string{s.Meta.ApplySet}
	case "actor":
		return []string{s.Meta.Actor}
	}
	doc, err := c.parsed.get(s)
	switch {
	case err != nil:
		return nil
	case field == filter.Label:
		return label(doc.Labels, key)
	case doc.Kind == spec.KindService:
		return []string{doc.Name}
	case doc.Override != nil && (doc.Override.Drain == nil || doc.Override.Drain.Edge != ""):
		service, _ := splitRule(overrideTarget(doc.Override))
		return []string{service}
	}
	return nil
}

// nodeFields are the fields of a filter on nodes.
var nodeFields = []string{"name", "role", "state", "version", filter.Label}

func nodeValues(n *api.NodeView, field, key string) []string {
	switch field {
	case "name":
		return []string{n.Name}
	case "role":
		return n.Roles
	case "state":
		return []string{n.State}
	case "version":
		return []string{n.Version}
	}
	return label(n.Labels, key)
}

// tokenFields are the fields of a filter on join tokens.
var tokenFields = []string{"id", "name", "role", "state", "actor", "node"}

func tokenValues(t *api.TokenView, field, _ string) []string {
	switch field {
	case "id":
		return []string{t.ID}
	case "name":
		return []string{t.Name}
	case "role":
		return t.Roles
	case "state":
		return []string{t.State}
	case "actor":
		return []string{t.Actor}
	}
	return []string{t.Node}
}

// switchFields are the fields of a filter on the switch log.
var switchFields = []string{"service", "rule", "from", "to", "cause", "actor"}

func switchValues(s *api.Switch, field, _ string) []string {
	switch field {
	case "service":
		return []string{s.Service}
	case "rule":
		return []string{s.Rule}
	case "from":
		return []string{s.From}
	case "to":
		return []string{s.To}
	case "cause":
		return []string{s.Cause}
	}
	return []string{s.Actor}
}

// revisionFields are the fields of a filter on the revisions of a resource.
var revisionFields = []string{"actor", "action"}

func revisionValues(r *api.Revision, field, _ string) []string {
	if field == "actor" {
		return []string{r.Actor}
	}
	return []string{r.Action}
}

// foldKind makes kinds equal that are written in other case; those of resources also in plural, as in paths.
func foldKind(kind string) string {
	if k, ok := spec.ParseKind(kind); ok {
		kind = string(k)
	}
	return strings.ToLower(kind)
}

// auditFields are the fields of a filter on the audit trail.
var auditFields = []string{"kind", "name", "actor", "action"}

func auditValues(l *api.AuditLine, field, _ string) []string {
	switch field {
	case "kind":
		return []string{foldKind(l.Kind)}
	case "name":
		return []string{l.Name}
	case "actor":
		return []string{l.Actor}
	}
	return []string{l.Action}
}

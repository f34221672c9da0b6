package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/spec"
)

// routes registers every operation.
func (c *Control) routes(ctx context.Context, a huma.API) {
	c.resourceRoutes(a)
	c.stateRoutes(a)
	c.overrideRoutes(a)
	c.nodeRoutes(a)
	c.historyRoutes(a)
	c.secretRoutes(a)
	c.certificateRoutes(a)
	c.dnssecRoutes(a)
	c.tapeRoute(a)
	c.gatewayRoute(a)
	c.apiTokenRoutes(a)
	c.backupRoute(a)
	c.seriesRoute(a)
	c.watchRoute(ctx, a)
	describe(a.OpenAPI())
}

// Who says who writes.
type Who struct {
	Actor string `header:"Steer-Actor" maxLength:"100" doc:"who writes, for the audit trail; default admin"`
}

func (w Who) actor() string {
	if w.Actor == "" {
		return "admin"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, w.Actor)
}

type body[T any] struct{ Body T }

type withBody[T any] struct {
	Who
	Body T
}

// operation describes one operation; summaries become the OpenAPI text.
func operation(method, path, id, summary string, maxBody int64) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: api.Prefix + path, Summary: summary, MaxBodyBytes: maxBody, BodyReadTimeout: readTimeout,
		Extensions: accessOf(id).extensions(),
	}
}

// register adds an operation whose errors become problems.
func register[I, O any](a huma.API, op huma.Operation, f func(context.Context, *I) (*O, error)) {
	huma.Register(a, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, asProblem(err)
		}
		return out, nil
	})
}

type kindInput struct {
	Kind string `path:"kind" maxLength:"63" doc:"Service, Zone, Override, Notifier, Secret, RuleSet or Certificate, in any case, singular or plural" example:"service"`
	PageInput
	FilterInput
	IfNoneMatch
}

type NameInput struct {
	Who
	Conditions
	Kind string `path:"kind" maxLength:"63" doc:"Service, Zone, Override, Notifier, Secret, RuleSet or Certificate, in any case, singular or plural" example:"service"`
	Name string `path:"name" maxLength:"63" doc:"name of the resource" example:"shop"`
}

type putInput struct {
	NameInput
	RawBody []byte `contentType:"application/json"`
}

type tagged[T any] struct {
	Status int
	ETag   string `header:"ETag" doc:"give it back in If-Match or If-None-Match" example:"\"42\""`
	Body   T
}

type resourceOutput = tagged[api.Resource]

func (c *Control) resourceRoutes(a huma.API) {
	register(a, operation(http.MethodGet, "/resources/{kind}", "listResources", "Resources of a kind, by name", 0), c.listResources)
	register(a, operation(http.MethodGet, "/resources/{kind}/{name}", "getResource", "One resource", 0), c.getResource)
	put := operation(http.MethodPut, "/resources/{kind}/{name}", "putResource", "Write one resource; compare-and-set by If-Match", maxResourceBytes)
	put.SkipValidateBody = true // spec says better what is wrong with a resource
	put.RequestBody = &huma.RequestBody{Required: true, Description: "the resource, as in a file", Content: map[string]*huma.MediaType{
		"application/json": {Schema: &huma.Schema{Type: huma.TypeObject}},
	}}
	register(a, put, c.putResource)
	register(a, operation(http.MethodDelete, "/resources/{kind}/{name}", "deleteResource", "Delete one resource", 0),
		func(ctx context.Context, in *NameInput) (*struct{}, error) { return nil, c.deleteResource(ctx, in) })
	register(a, operation(http.MethodPost, "/plan", "plan", "What an apply would change, and which rules would answer differently", maxApplyBytes),
		func(ctx context.Context, in *withBody[api.ApplyRequest]) (*body[api.Plan], error) {
			in.Body.DryRun = true
			p, err := c.Apply(ctx, in.actor(), in.Body)
			return &body[api.Plan]{p}, err
		})
	register(a, operation(http.MethodPost, "/apply", "apply", "Write resources: all of them, or nothing", maxApplyBytes),
		func(ctx context.Context, in *withBody[api.ApplyRequest]) (*body[api.Plan], error) {
			p, err := c.Apply(ctx, in.actor(), in.Body)
			return &body[api.Plan]{p}, err
		})
}

func parseKind(s string) (spec.Kind, error) {
	k, ok := spec.ParseKind(s)
	if !ok {
		return "", notFound("there is no kind %q: Service, Zone, Override, Notifier, Secret, RuleSet, Certificate and DynamicRecords are", s)
	}
	return k, nil
}

func (c *Control) listResources(ctx context.Context, in *kindInput) (*tagged[api.ResourceList], error) {
	kind, err := parseKind(in.Kind)
	if err != nil {
		return nil, err
	}
	f, err := in.parse(resourceFields...)
	if err != nil {
		return nil, err
	}
	view, err := c.store.Resources(ctx)
	if err != nil {
		return nil, err
	}
	out := &tagged[api.ResourceList]{Status: http.StatusOK, ETag: api.ETag(view.Generation)}
	out.Body.Resources = []api.Resource{}
	switch same, err := in.unchanged(view.Generation); {
	case err != nil:
		return nil, err
	case same:
		out.Status = http.StatusNotModified
		return out, nil
	}
	all := slices.DeleteFunc(view.Resources, func(s store.Resource) bool { return s.Kind != string(kind) })
	if who := callerOf(ctx); who.limited() { // before filter and page: both would tell of what is left out later
		all = slices.DeleteFunc(all, func(s store.Resource) bool { return !c.ownStored(who, &s) })
	}
	all = fitting(f, all, func(s *store.Resource, field, key string) []string { return c.resourceValues(s, field, key) })
	page, next, err := pageOf(listName("resources", string(kind)), in.PageInput, all, func(s *store.Resource) string { return s.Name })
	if err != nil {
		return nil, err
	}
	for i := range page {
		r, err := resourceOf(&page[i])
		if err != nil {
			return nil, err
		}
		out.Body.Resources = append(out.Body.Resources, r)
	}
	out.Body.Next = next
	return out, nil
}

func (c *Control) getResource(ctx context.Context, in *NameInput) (*resourceOutput, error) {
	kind, err := parseKind(in.Kind)
	if err != nil {
		return nil, err
	}
	s, err := c.stored(ctx, kind, in.Name)
	if err != nil {
		return nil, err
	}
	if s.Revision == 0 {
		return nil, notFound("no %s is named %s", kind, in.Name)
	}
	if err := (&Conditions{IfMatch: in.IfMatch}).check(string(kind)+" "+in.Name, s.Revision); err != nil {
		return nil, err
	}
	switch same, err := in.unchanged(s.Revision); {
	case err != nil:
		return nil, err
	case same:
		return &resourceOutput{Status: http.StatusNotModified, ETag: api.ETag(s.Revision)}, nil
	}
	return output(s)
}

func output(s *store.Resource) (*resourceOutput, error) {
	r, err := resourceOf(s)
	if err != nil {
		return nil, err
	}
	return &resourceOutput{Status: http.StatusOK, ETag: api.ETag(r.Revision), Body: r}, nil
}

func (c *Control) stored(ctx context.Context, kind spec.Kind, name string) (*store.Resource, error) {
	view, err := c.store.Resources(ctx)
	if err != nil {
		return nil, err
	}
	for i := range view.Resources {
		if s := &view.Resources[i]; s.Kind == string(kind) && s.Name == name {
			return s, nil
		}
	}
	return &store.Resource{Kind: string(kind), Name: name}, nil
}

func (c *Control) putResource(ctx context.Context, in *putInput) (*resourceOutput, error) {
	kind, err := parseKind(in.Kind)
	if err != nil {
		return nil, err
	}
	docs, errs := spec.Parse("body", in.RawBody)
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	if len(docs) != 1 || docs[0].Kind != kind || docs[0].Name != in.Name {
		return nil, badRequest("body", "the body must be one document, %s %s, as the path says", kind, in.Name)
	}
	s, err := c.stored(ctx, kind, in.Name)
	if err != nil {
		return nil, err
	}
	if err := in.check(string(kind)+" "+in.Name, s.Revision); err != nil {
		return nil, err
	}
	ch := &change{docs: docs, applySet: s.Meta.ApplySet, actor: in.actor()}
	switch {
	case in.given(): // what was compared is what is replaced
		ch.expect = map[string]int64{docs[0].Key(): s.Revision}
	case docs[0].Revision == 0: // looked at where it is written: two may come at once
		ch.create = docs[0].Key()
	}
	p, err := c.commit(ctx, ch)
	if err != nil {
		return nil, err
	}
	return output(p.result(kind, in.Name))
}

func (c *Control) deleteResource(ctx context.Context, in *NameInput) error {
	kind, err := parseKind(in.Kind)
	if err != nil {
		return err
	}
	s, err := c.stored(ctx, kind, in.Name)
	if err != nil {
		return err
	}
	if s.Revision == 0 {
		return notFound("no %s is named %s", kind, in.Name)
	}
	if err := in.check(string(kind)+" "+in.Name, s.Revision); err != nil {
		return err
	}
	key := keyOf(s)
	ch := &change{remove: []string{key}, actor: in.actor()}
	if in.given() {
		ch.expect = map[string]int64{key: s.Revision}
	}
	_, err = c.commit(ctx, ch)
	return err
}

type statusInput struct {
	Service string `query:"service" maxLength:"63" doc:"only this service" example:"shop"`
}

type explainInput struct {
	Host     string `query:"host" required:"true" minLength:"1" maxLength:"255" doc:"name that a visitor asks for" example:"shop.example.com"`
	Client   string `query:"client" maxLength:"50" doc:"address of the client, as ECS would carry it" example:"192.0.2.7"`
	Resolver string `query:"resolver" maxLength:"50" doc:"address of the client's resolver" example:"198.51.100.53"`
	Type     string `query:"type" maxLength:"10" doc:"DNS type; default A"`
	At       string `query:"at" maxLength:"50" format:"date-time" doc:"RFC 3339 time in the past, of which the tape tells; default now"`
}

type switchesInput struct {
	Since   string `query:"since" maxLength:"50" doc:"RFC 3339 time, or a Go duration back from now, such as 24h" example:"24h"`
	Service string `query:"service" maxLength:"63" doc:"only of this service"`
	PageInput
	FilterInput
}

func (c *Control) stateRoutes(a huma.API) {
	register(a, operation(http.MethodGet, "/status", "status", "Rules, what they answer and why, points, alarms", 0),
		func(ctx context.Context, in *statusInput) (*body[api.Status], error) {
			s, err := c.status(ctx, in.Service)
			if err != nil {
				return nil, err
			}
			return &body[api.Status]{*s}, nil
		})
	register(a, operation(http.MethodGet, "/explain", "explain", "Why a client gets the answer it gets", 0),
		func(ctx context.Context, in *explainInput) (*body[api.Explanation], error) {
			q, err := parseExplain(in.Host, in.Client, in.Resolver, in.Type)
			if err != nil {
				return nil, err
			}
			x, err := c.explainWhen(ctx, q, in.At)
			if err == nil {
				err = mayExplain(ctx, x)
			}
			if err != nil {
				return nil, err
			}
			return &body[api.Explanation]{*x}, nil
		})
	register(a, operation(http.MethodGet, "/switches", "switches", "The switch log, newest first", 0), c.switchLog)
	register(a, operation(http.MethodPost, "/probe", "probe", "Probe now", 0),
		func(ctx context.Context, in *withBody[api.ProbeRequest]) (*body[api.ProbeResults], error) {
			r, err := c.probeNow(ctx, &in.Body)
			if err != nil {
				return nil, err
			}
			return &body[api.ProbeResults]{*r}, nil
		})
	register(a, operation(http.MethodPost, "/notifiers/{name}/test", "testNotifier", "Send a test message by a notifier", 0),
		func(ctx context.Context, in *notifierInput) (*body[api.NotifyTest], error) {
			r, err := c.testNotifier(ctx, in.Name)
			if err != nil {
				return nil, err
			}
			return &body[api.NotifyTest]{*r}, nil
		})
	register(a, operation(http.MethodGet, "/version", "version", "Version of the server, and who the caller is", 0),
		func(ctx context.Context, in *Who) (*body[api.Version], error) {
			who := callerOf(ctx)
			return &body[api.Version]{api.Version{
				Version: c.cfg.Version, Go: runtime.Version(), Started: c.started, Node: c.cfg.Node, Actor: in.actor(), Role: who.role.String(), Services: who.services,
			}}, nil
		})
}

func (c *Control) switchLog(ctx context.Context, in *switchesInput) (*body[api.SwitchPage], error) {
	since, err := c.parseSince(in.Since)
	if err != nil {
		return nil, err
	}
	f, err := in.parse(switchFields...)
	if err != nil {
		return nil, err
	}
	service := cmp.Or(in.Service, f.Exact("service"))
	fits := func(s *api.Switch) bool {
		return f.Match(func(field, key string) []string { return switchValues(s, field, key) })
	}
	read := func(before string, limit int) ([]api.Switch, string, error) {
		page, next, err := c.switchPage(ctx, &switchQuery{since: since, service: service, before: before, limit: limit})
		if err != nil {
			return nil, "", err
		}
		out := make([]api.Switch, len(page))
		for i := range page {
			if err := readSwitch(&page[i], &out[i]); err != nil {
				return nil, "", err
			}
		}
		return out, next, nil
	}
	page, next, err := logPage("switches", in.PageInput, fits, func(s *api.Switch) string { return s.ID }, read)
	if err != nil {
		return nil, err
	}
	return &body[api.SwitchPage]{api.SwitchPage{Switches: page, Next: next}}, nil
}

// readSwitch puts the records of a switch together.
func readSwitch(r *store.SwitchRecord, s *api.Switch) error {
	if err := json.Unmarshal(r.Entry, s); err != nil {
		return fmt.Errorf("switch-log entry %s: %w", r.ID, err)
	}
	if r.Publication != nil {
		if err := json.Unmarshal(r.Publication, &s.Publication); err != nil {
			return fmt.Errorf("publication of switch %s: %w", r.ID, err)
		}
	}
	if r.Undone != nil {
		if err := json.Unmarshal(r.Undone, &s.Undone); err != nil {
			return fmt.Errorf("end of switch %s: %w", r.ID, err)
		}
	}
	return nil
}

func (c *Control) overrideRoutes(a huma.API) {
	type result = body[api.OverrideResult]
	wrap := func(r *api.OverrideResult, err error) (*result, error) {
		if err != nil {
			return nil, err
		}
		r.Answers = append([]api.AnswerChange{}, r.Answers...) // never null
		return &result{*r}, nil
	}
	register(a, operation(http.MethodPost, "/force", "force", "Make a rule answer with one edge until it ends", 0),
		func(ctx context.Context, in *withBody[api.ForceRequest]) (*result, error) {
			return wrap(c.force(ctx, in.actor(), &in.Body))
		})
	register(a, operation(http.MethodPost, "/freeze", "freeze", "Stop automatic moves of a service or rule until it ends", 0),
		func(ctx context.Context, in *withBody[api.FreezeRequest]) (*result, error) {
			return wrap(c.freeze(ctx, in.actor(), &in.Body))
		})
	register(a, operation(http.MethodPost, "/drain", "drain", "Take an edge, a probe point or a node out until it ends", 0),
		func(ctx context.Context, in *withBody[api.DrainRequest]) (*result, error) {
			return wrap(c.drain(ctx, in.actor(), &in.Body))
		})
	for _, kind := range []string{"force", "freeze"} {
		register(a, operation(http.MethodPost, "/un"+kind, "un"+kind, "End a "+kind, 0),
			func(ctx context.Context, in *withBody[api.UndoRequest]) (*result, error) {
				return wrap(c.undo(ctx, in.actor(), kind, in.Body.Target, in.Body.Reason))
			})
	}
	register(a, operation(http.MethodPost, "/undrain", "undrain", "End a drain", 0),
		func(ctx context.Context, in *withBody[api.UndoRequest]) (*result, error) {
			d, err := drainOf(in.Body.Edge, in.Body.Point, in.Body.Node)
			if err != nil {
				return nil, err
			}
			return wrap(c.undo(ctx, in.actor(), "drain", d.Edge+d.Point+d.Node, in.Body.Reason))
		})
}

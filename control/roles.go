package control

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/control/internal/web"
	"steerpoint/spec"
)

// role is what a caller of the API may do. Each includes those before it.
type role int

const (
	roleNone role = iota
	roleViewer
	roleOperator
	roleAdmin
)

func (r role) String() string {
	return [...]string{roleNone: "", roleViewer: api.RoleViewer, roleOperator: api.RoleOperator, roleAdmin: api.RoleAdmin}[r]
}

// roleOf is the role of that name; roleNone for any other.
func roleOf(name string) role {
	for r := roleViewer; r <= roleAdmin; r++ {
		if r.String() == name {
			return r
		}
	}
	return roleNone
}

// reach says what a token that is for some services gets of an operation.
type reach string

const (
	// reachAll: it concerns everybody's services, or the system itself, so such a token is refused. It is what an operation
	// has that says nothing.
	reachAll reach = "all"
	// reachShared: what it gives is of no service, and the same for all: nodes and points, by which rules judge.
	reachShared reach = "shared"
	// reachNamed: the parameter service says whose it is about. A token for one service may leave it out.
	reachNamed reach = "named"
	// reachResource: kind and name in the path say it.
	reachResource reach = "resource"
	// reachOwn: it names services in its body, or in what it finds; the handler refuses others, or leaves them out.
	reachOwn reach = "own"
)

// access is the role that an operation needs and what a token for some services gets of it.
type access struct {
	role  role
	reach reach
}

// accessTable says who may call each operation, by its ID. An operation that is not here is for admins, and
// TestEveryOperationHasARole fails: write a line for it.
func accessTable() map[string]access {
	return map[string]access{
		"listResources":   {roleViewer, reachOwn},
		"getResource":     {roleViewer, reachResource},
		"history":         {roleViewer, reachResource},
		"historyRevision": {roleViewer, reachResource},
		"status":          {roleViewer, reachOwn},
		"explain":         {roleViewer, reachOwn},
		"explainRequest":  {roleViewer, reachOwn},
		"switches":        {roleViewer, reachNamed},
		"series":          {roleViewer, reachNamed},
		"watch":           {roleViewer, reachNamed},
		"tape":            {roleViewer, reachNamed},
		"nodes":           {roleViewer, reachShared},
		"version":         {roleViewer, reachShared},
		"signedZones":     {roleViewer, reachShared}, // zones are everybody's
		"audit":           {roleViewer, reachAll},
		"plan":            {roleViewer, reachOwn}, // it changes nothing: a pipeline that reviews may plan

		"putResource":    {roleOperator, reachResource},
		"deleteResource": {roleOperator, reachResource},
		"apply":          {roleOperator, reachOwn},
		"rollback":       {roleOperator, reachOwn},
		"force":          {roleOperator, reachOwn},
		"unforce":        {roleOperator, reachOwn},
		"freeze":         {roleOperator, reachOwn},
		"unfreeze":       {roleOperator, reachOwn},
		"drain":          {roleOperator, reachOwn},
		"undrain":        {roleOperator, reachOwn},
		"probe":          {roleOperator, reachOwn},
		"testNotifier":   {roleOperator, reachAll},

		"orderCertificate": {roleOperator, reachAll},

		"labelNode":      {roleAdmin, reachAll},
		"revokeNode":     {roleAdmin, reachAll},
		"removeNode":     {roleAdmin, reachAll},
		"tokens":         {roleAdmin, reachAll},
		"createToken":    {roleAdmin, reachAll},
		"revokeToken":    {roleAdmin, reachAll},
		"apiTokens":      {roleAdmin, reachAll},
		"createAPIToken": {roleAdmin, reachAll},
		"revokeAPIToken": {roleAdmin, reachAll},
		"backup":         {roleAdmin, reachAll},
		"rotateSecrets":  {roleAdmin, reachAll},
		"rollZoneKey":    {roleAdmin, reachAll},
		"noteParent":     {roleAdmin, reachAll},
	}
}

// accessOf is what an operation is registered with.
func accessOf(operation string) access {
	if a, ok := accessTable()[operation]; ok {
		return a
	}
	return access{roleAdmin, reachAll}
}

// What the description of the API says of an operation: the role it needs, and what a token for some services gets.
const (
	extensionRole  = "x-steer-role"
	extensionReach = "x-steer-services"
)

// declared is what an operation says of itself; one that says nothing is for admins.
func declared(op *huma.Operation) access {
	name, _ := op.Extensions[extensionRole].(string)
	gets, _ := op.Extensions[extensionReach].(string)
	if r := roleOf(name); r != roleNone {
		return access{r, reach(gets)}
	}
	return access{roleAdmin, reachAll}
}

func (a access) extensions() map[string]any {
	return map[string]any{extensionRole: a.role.String(), extensionReach: string(a.reach)}
}

// caller is who sends a request.
type caller struct {
	name     string // of the token; "": the token of the folder, whose bearers say their names themselves
	role     role
	services []string // all it is for; none: it is for every service
}

type callerKey struct{}

// callerOf is who sent the request that ctx belongs to; nil: it is no request, but this process itself.
func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// tokenName is the name of the caller's token of the API; "" for the token of the folder, and for this process itself.
func (c *caller) tokenName() string {
	if c == nil {
		return ""
	}
	return c.name
}

// limited reports whether the caller is for some services only.
func (c *caller) limited() bool { return c != nil && len(c.services) > 0 }

// owns reports whether a service is among those the caller is for.
func (c *caller) owns(service string) bool {
	return !c.limited() || slices.Contains(c.services, service)
}

// outside refuses a token for some services what is not of the API: the status page and the metrics tell of all.
func (c *caller) outside(path string) *api.Problem {
	if !c.limited() || strings.HasPrefix(path, api.Prefix+"/") {
		return nil
	}
	return c.notForAll(path)
}

func (c *caller) notForAll(what string) *api.Problem {
	return problem(http.StatusForbidden, api.CodeForbiddenService, "Not for a token of some services",
		fmt.Sprintf("%s concerns more than the services of token %s (%s): an admin makes a token without --service with `steer token create --api`",
			what, c.name, strings.Join(c.services, ", ")))
}

func (c *caller) notOwn(what string) *api.Problem {
	return problem(http.StatusForbidden, api.CodeForbiddenService, "Token is for other services",
		fmt.Sprintf("%s is not among what token %s is for (%s): an admin makes a token for it with `steer token create --api --service`",
			what, c.name, strings.Join(c.services, ", ")))
}

func (c *caller) lacks(need role, what string) *api.Problem {
	return problem(http.StatusForbidden, api.CodeForbiddenRole, "Role does not allow this",
		fmt.Sprintf("%s needs the role %s, and token %s has %s: an admin makes one that may with `steer token create --api --role %s`",
			what, need, c.name, c.role, need))
}

// authorize stands before every operation.
func (c *Control) authorize(ctx huma.Context, next func(huma.Context)) {
	who := callerOf(ctx.Context())
	if who == nil { // the guard lets none in; without it nobody is somebody
		who = &caller{name: "of nobody"}
	}
	if p := c.refuses(ctx, who); p != nil {
		_, w := humago.Unwrap(ctx)
		web.WriteProblem(w, p)
		return
	}
	next(ctx)
}

// maySee refuses a limited caller a resource that is not its own.
func (c *Control) maySee(ctx context.Context, kind, name string) error {
	if who := callerOf(ctx); who.limited() {
		if p := c.sees(ctx, who, kind, name); p != nil {
			return p
		}
	}
	return nil
}

// refuses says why a caller may not call an operation; nil if it may.
func (c *Control) refuses(ctx huma.Context, who *caller) *api.Problem {
	op := ctx.Operation()
	a := declared(op)
	if who.role < a.role {
		return who.lacks(a.role, op.OperationID)
	}
	if !who.limited() {
		return nil
	}
	switch a.reach {
	case reachNamed:
		return who.named(ctx)
	case reachResource:
		if p := who.past(op.OperationID, ctx.Param("kind")); p != nil {
			return p
		}
		return c.sees(ctx.Context(), who, ctx.Param("kind"), ctx.Param("name"))
	case reachOwn, reachShared:
		return nil
	case reachAll:
	}
	return who.notForAll(op.OperationID)
}

// named looks at the service that a request names. For a caller of one service that one is filled in.
func (c *caller) named(ctx huma.Context) *api.Problem {
	service := ctx.Param("service")
	if service == "" {
		service = ctx.Query("service")
	}
	switch {
	case service != "" && c.owns(service):
		return nil
	case service != "":
		return c.notOwn("service " + service)
	case len(c.services) > 1:
		return badRequest("query.service", "token %s is for several services: say which with service, one of %s", c.name, strings.Join(c.services, ", "))
	}
	r, _ := humago.Unwrap(ctx)
	q := r.URL.Query()
	q.Set("service", c.services[0])
	r.URL.RawQuery = q.Encode()
	return nil
}

// sees says why a limited caller may not read a resource; nil if it may: its services, what is imposed on them, and the
// zones that everybody's names are in.
func (c *Control) sees(ctx context.Context, who *caller, kindText, name string) *api.Problem {
	kind, ok := spec.ParseKind(kindText)
	switch {
	case !ok: // the handler says it better
		return nil
	case kind == spec.KindZone, kind == spec.KindService && who.owns(name):
		return nil
	case kind == spec.KindOverride:
		if own, p := c.ownOverride(ctx, who, name); p != nil || own {
			return p
		}
	}
	return who.notOwn(string(kind) + " " + name)
}

// past refuses a limited caller what reads the history of Overrides. One that is gone does not say any more whose it was,
// and its name can be guessed: it is made from its target.
func (c *caller) past(operation, kindText string) *api.Problem {
	if kind, ok := spec.ParseKind(kindText); !c.limited() || !ok || kind != spec.KindOverride {
		return nil
	}
	switch operation {
	case "history", "historyRevision", "rollback":
		return c.notForAll(operation + " of Overrides")
	}
	return nil
}

// ownOverride reports whether an override is about a service of the caller. One that is not stored is: who reads it is told
// so, and who writes it is asked what it is about.
func (c *Control) ownOverride(ctx context.Context, who *caller, name string) (own bool, p *api.Problem) {
	own = true
	err := c.do(ctx, func() {
		for _, v := range c.resources.set().Overrides() {
			if v.Name == name {
				own = who.owns(overrideService(v))
			}
		}
	})
	if err != nil {
		return false, asProblem(err)
	}
	return own, nil
}

// overrideService is the service an override is about; "": a node or a point, which is everybody's.
func overrideService(v *spec.Override) string {
	if v.Drain != nil && v.Drain.Edge == "" {
		return ""
	}
	service, _ := splitRule(overrideTarget(v))
	return service
}

// mayChange refuses a limited caller a change of what is not its own. It looks at what would really change, so that a
// folder of resources may hold others' as they are. Both of an override count, the one that is there and the one that
// takes its place.
func (c *Control) mayChange(ctx context.Context, p *planned, current, next *spec.Set) error {
	who := callerOf(ctx)
	if !who.limited() {
		return nil
	}
	for i := range p.plan.Changes {
		ch := &p.plan.Changes[i]
		if !ownChange(who, spec.Kind(ch.Kind), ch.Name, current, next) {
			return who.notOwn(ch.Kind + " " + ch.Name)
		}
		if ch.Kind != string(spec.KindService) {
			continue
		}
		if p := mayTake(who, ch.Name, current, next); p != nil {
			return p
		}
	}
	return nil
}

func ownChange(who *caller, kind spec.Kind, name string, sets ...*spec.Set) bool {
	switch kind {
	case spec.KindService:
		return who.owns(name)
	case spec.KindOverride:
		for _, s := range sets {
			if doc, ok := s.Get(kind, name); ok && (doc.Override == nil || !who.owns(overrideService(doc.Override))) {
				return false
			}
		}
		return true
	}
	return false
}

// mayWrite refuses an operator what only admins write: zones, and where news and keys go. It is asked before a write,
// and not by a plan: that says what an admin would change.
func mayWrite(ctx context.Context, p *planned) error {
	who := callerOf(ctx)
	if who == nil || who.role >= roleAdmin {
		return nil
	}
	for i := range p.plan.Changes {
		ch := &p.plan.Changes[i]
		if kind := spec.Kind(ch.Kind); kind != spec.KindService && kind != spec.KindOverride {
			return who.lacks(roleAdmin, "to write "+ch.Kind+" "+ch.Name)
		}
	}
	return nil
}

// mayGuess refuses the values of a Secret to all but admins, in a plan too: it says whether a value is the stored one.
func mayGuess(ctx context.Context, ch *change) error {
	who := callerOf(ctx)
	if who == nil || who.role >= roleAdmin {
		return nil
	}
	for i := range ch.docs {
		if s := ch.docs[i].Secret; s != nil && len(s.Data) > 0 {
			return who.lacks(roleAdmin, "to give values to Secret "+ch.docs[i].Name)
		}
	}
	return nil
}

// mayProbe lets a limited caller probe its own edges only: with a free URL it would probe others' by another name.
func mayProbe(ctx context.Context, r *api.ProbeRequest) error {
	who := callerOf(ctx)
	if service, _ := splitRule(r.Edge); !who.owns(service) {
		what := "edge " + r.Edge
		if r.Edge == "" {
			what = "a URL without an edge"
		}
		return who.notOwn(what)
	}
	return nil
}

// mayExplain refuses a limited caller the names of others' services.
func mayExplain(ctx context.Context, x *api.Explanation) error {
	if who := callerOf(ctx); !who.owns(x.Service) {
		return who.notOwn("service " + x.Service + ", which has the name " + x.Host + ",")
	}
	return nil
}

// narrow leaves out of an answer what a limited caller may not see. Everything else was refused before, or left out where
// it is cut into pages: the cursor of a page names an entry.
func narrow(ctx huma.Context, _ string, v any) (any, error) {
	who := callerOf(ctx.Context())
	if !who.limited() {
		return v, nil
	}
	switch a := v.(type) {
	case api.Status:
		return narrowStatus(who, a), nil
	}
	return v, nil
}

// ownStored reports whether a caller may see a stored resource.
func (c *Control) ownStored(who *caller, s *store.Resource) bool {
	switch spec.Kind(s.Kind) {
	case spec.KindZone:
		return true
	case spec.KindService:
		return who.owns(s.Name)
	case spec.KindOverride:
		doc, err := c.parsed.get(s)
		return err == nil && doc.Override != nil && who.owns(overrideService(doc.Override))
	}
	return false
}

// narrowStatus keeps the caller's services, what is imposed on them or on all, and the alarms of them and of the system.
func narrowStatus(who *caller, s api.Status) api.Status {
	s.Services = slices.DeleteFunc(slices.Clone(s.Services), func(x api.ServiceStatus) bool { return !who.owns(x.Name) })
	s.Overrides = slices.DeleteFunc(slices.Clone(s.Overrides), func(o api.OverrideStatus) bool {
		service, inside := splitRule(o.Target)
		return (inside != "" || o.Kind != "drain") && !who.owns(service)
	})
	s.Alarms = slices.DeleteFunc(slices.Clone(s.Alarms), func(a api.Alarm) bool { return !ownAlarm(who, &a) })
	s.Notifiers = []api.NotifierStatus{}
	s.Gateway = ownGroups(who, s.Gateway)
	return s
}

// hears reports whether a caller is told of an event: of those about no service, but not of alarms that name others', nor
// of writes of what it may not read.
func (c *caller) hears(e *api.Event) bool {
	if !c.limited() {
		return true
	}
	switch e.Kind {
	case api.EventAlarm:
		return ownAlarm(c, &api.Alarm{Code: e.Code, Subject: e.Subject})
	case api.EventConfig:
		kind, _ := splitRule(e.Subject)
		return kind == string(spec.KindZone) || c.owns(e.Service)
	case api.EventOverride:
		return c.owns(e.Service)
	}
	return e.Service == "" || c.owns(e.Service)
}

func ownAlarm(who *caller, a *api.Alarm) bool {
	switch a.Code {
	case api.AlarmDegraded, api.AlarmAllDown, api.AlarmFrozen, api.AlarmFewPoints, api.AlarmEdgeCert:
		service, _ := splitRule(a.Subject)
		return who.owns(service)
	case api.AlarmResource:
		kind, name := splitRule(a.Subject)
		return kind == string(spec.KindService) && who.owns(name)
	case api.AlarmNotify, api.AlarmMassSwitch, api.AlarmSealKey: // which name targets, rules of all, and Secrets
		return false
	}
	return true
}

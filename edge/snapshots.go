package edge

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/edge/internal/affinity"
	"steerpoint/edge/internal/direct"
	"steerpoint/edge/internal/route"
	"steerpoint/edge/internal/rules"
	"steerpoint/snapshot"
	"steerpoint/steering/selection"
)

// Snapshots makes sites of the snapshots of control, for a gateway. Make it with NewSnapshots.
type Snapshots struct {
	g       *Gateway
	keys    keyring
	tickets ticketKeys
	country func(netip.Addr) string
	seed    uint64

	mu     sync.Mutex // of Apply
	site   *direct.Site
	probes *prober
	// serving is site with its snapshot, for those who must not wait for Apply; nil: there is none yet.
	serving atomic.Pointer[inForce]
	// tls are the settings of TLS to origins, by what they say: an origin whose settings are the same is the same origin.
	tls map[tlsKey]*tls.Config
}

type tlsKey struct {
	name, roots string
	verify      bool
}

// NewSnapshots makes one for a gateway whose Config.Certificate is certificates.Get (nil: it has no TLS). country names the
// country of an address, ISO 3166-1 in upper case; nil: nobody's is known.
func NewSnapshots(g *Gateway, certificates *Certificates, country func(netip.Addr) string) *Snapshots {
	if country == nil {
		country = func(netip.Addr) string { return "" }
	}
	return &Snapshots{
		g: g, keys: keyring{certs: certificates}, tickets: ticketKeys{config: g.tls}, country: country, seed: rand.Uint64(), tls: map[tlsKey]*tls.Config{}, probes: newProber(g),
	}
}

// Apply makes a snapshot the one that serves, from the next request on. On an error, which says what is wrong, the one
// before goes on. What was learnt of origins is kept. A certificate that cannot be read holds up nothing: its domains keep
// the one before, or have none, and the log says so.
func (s *Snapshots) Apply(e *snapshot.Edge, secrets *snapshot.EdgeSecrets) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	site, err := direct.New(direct.Input{Snapshot: e, Secrets: secrets, Before: s.site, Seed: s.seed, Now: time.Duration(s.g.clock.Now())})
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	d, out, err := s.compile(site)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	d.places, d.challenges = asksPlace(e), challengesOf(e)
	out.Director = d
	if err := s.tickets.set(secrets); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	if err := s.g.Swap(out); err != nil {
		return err
	}
	s.site = site
	s.serving.Store(&inForce{e, site})
	s.keys.set(e, secrets, s.g.log)
	s.probes.set(site.Endpoints)
	return nil
}

// director directs by a compiled site.
type director struct {
	g       *Gateway
	site    *direct.Site
	routes  []*Route // those of the site
	groups  map[*direct.Group]*originGroup
	country func(netip.Addr) string
	places  bool // a rule or a policy asks for the visitor's country

	challenges challenges
}

// compile makes the gateway's view of a site.
func (s *Snapshots) compile(site *direct.Site) (*director, *Site, error) {
	d := &director{g: s.g, site: site, groups: map[*direct.Group]*originGroup{}, country: s.country}
	out := &Site{}
	for _, g := range site.Groups() {
		group := &originGroup{g: g}
		for i := range g.Spec.Origins {
			for secure, scheme := range []string{"http", "https"} {
				o, err := s.origin(g, i, scheme)
				if err != nil {
					return nil, nil, err
				}
				group.origins[secure] = append(group.origins[secure], o)
				out.Origins = append(out.Origins, o)
			}
		}
		d.groups[g] = group
	}
	for _, r := range site.Routes {
		spec := r.Spec
		d.routes = append(d.routes, &Route{
			Service: r.Service.Name, Name: spec.Name, ConnectTimeout: spec.Connect, ResponseTimeout: spec.ResponseHead, IdleTimeout: spec.Idle,
			TotalTimeout: spec.Total, TunnelTimeout: spec.WebSocketIdle, TunnelLife: spec.WebSocketLife, MaxBody: spec.MaxBody, Drain: r.Group.Spec.Drain,
			GRPC: spec.Protocol == "grpc",
		})
	}
	out.Routes = d.routes
	return d, out, nil
}

// origin is the i-th origin of a group, asked by a scheme.
func (s *Snapshots) origin(g *direct.Group, i int, scheme string) (*Origin, error) {
	spec, o := g.Spec, &g.Spec.Origins[i]
	out := &Origin{
		Service: g.Service, Group: spec.Name, Name: o.Name, Index: i, HostHeader: o.HostHeader,
		Address: net.JoinHostPort(o.Host, strconv.Itoa(o.Port(scheme))),
		MaxIdle: or(spec.MaxIdle, -1), IdleTimeout: spec.IdleTimeout,
		MaxActive: spec.PerOrigin, MaxWaiting: spec.Queue, WaitTimeout: spec.QueueTimeout,
	}
	if out.HTTP2 = o.HTTP2; out.HTTP2 {
		out.MaxConns = spec.MaxConnections
	} else if most := spec.MaxConnections; most > 0 && (out.MaxActive == 0 || most < out.MaxActive) {
		out.MaxActive = most // a request has a connection to itself
	}
	if scheme == "http" {
		return out, nil
	}
	var err error
	out.TLS, err = s.tlsOf(o)
	return out, err
}

func (s *Snapshots) tlsOf(o *snapshot.EdgeOrigin) (*tls.Config, error) {
	k := tlsKey{o.ServerName, o.Roots, o.Verify}
	if k.name == "" {
		k.name = o.Host
	}
	if c := s.tls[k]; c != nil {
		return c, nil
	}
	c := &tls.Config{
		ServerName: k.name, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, InsecureSkipVerify: !k.verify,
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}
	if k.roots != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(k.roots)) {
			return nil, errors.New("origin " + o.Name + ": its root certificates are not in PEM form")
		}
	}
	s.tls[k] = c
	return c, nil
}

// memory is what a connection keeps of its requests, to be used again.
type memory struct {
	request  rules.Request
	decision direct.Decision
	choice   direct.Choice
	path     []byte
	up, down []HeaderOp
}

// Direct decides about a request.
func (d *director) Direct(a *Asked, p *Plan) {
	if d.challenges.answer(a, p) {
		return
	}
	m, ok := p.Memory.(*memory)
	if !ok {
		m = new(memory)
		p.Memory = m
	}
	path, err := route.Clean(m.path, a.Path)
	if err != nil {
		p.Status, p.Reason = 400, "path"
		return
	}
	if len(path) > 0 && &path[0] != &a.Path[0] {
		m.path = path[:0]
	}
	m.request = rules.Request{
		Method: a.Method, Scheme: a.Scheme, Version: a.Version, Host: a.Host, Port: a.HostPort, Path: path, Query: a.Query, HasQuery: a.HasQuery,
		Header: a.Header, Socket: a.Socket, Client: a.Client, ServerPort: a.Port, TLS: a.TLS,
		BodySize: a.BodySize, Body: a.Body, Now: a.Now,
	}
	if d.places {
		m.request.Country = d.country(a.Client.Addr())
	}
	dec := &m.decision
	d.site.Direct(&m.request, time.Duration(d.g.clock.Now()), dec)
	m.request.Body = nil // nothing looks at it any more, and the connection may be idle for long
	m.up, m.down = appendChanges(m.up[:0], dec.Request), appendChanges(m.down[:0], dec.Response)
	p.Request, p.Response = m.up, m.down
	if dec.Status != 0 {
		p.Status, p.Reason, p.Location, p.Retry = dec.Status, dec.Reason, dec.Location, dec.Wait
		if dec.Respond != nil {
			p.Body, p.ContentType = []byte(dec.Respond.Body), dec.Respond.ContentType
		}
		if dec.Route != nil {
			p.Route = d.routes[dec.Match.Route]
		}
		return
	}
	group := d.groups[dec.Group]
	p.Route, p.Group, p.Target = d.routes[dec.Match.Route], group, dec.Target
	p.BufferBody = dec.Group.Spec.BufferBody
	p.Tries, p.IdempotencyField = 1+dec.Group.Spec.Attempts, group.idempotency()
}

// asksPlace reports whether a rule or a policy asks for the visitor's country, which takes a look-up.
func asksPlace(e *snapshot.Edge) bool {
	for i := range e.Services {
		if slices.ContainsFunc(e.Services[i].Access, func(a snapshot.EdgeAccess) bool { return len(a.Countries) > 0 }) {
			return true
		}
	}
	for i := range e.RuleSets {
		for _, r := range e.RuleSets[i].Rules {
			if slices.ContainsFunc(r.Conditions, func(c snapshot.EdgeCondition) bool { return c.On == "country" || c.Operator == "geo" }) ||
				slices.ContainsFunc(r.Actions, showsPlace) {
				return true
			}
		}
	}
	return false
}

// showsPlace reports whether a template of an action has the visitor's country.
func showsPlace(a snapshot.EdgeAction) bool {
	var texts []string
	switch {
	case a.RequestHeader != nil:
		texts = []string{a.RequestHeader.Value}
	case a.ResponseHeader != nil:
		texts = []string{a.ResponseHeader.Value}
	case a.Redirect != nil:
		texts = []string{a.Redirect.Host, a.Redirect.Path, a.Redirect.Query, a.Redirect.Fragment}
	case a.Rewrite != nil:
		texts = []string{a.Rewrite.Destination}
	}
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, "geo_country") })
}

// appendChanges puts changes into the gateway's form.
func appendChanges(dst []HeaderOp, changes []rules.Change) []HeaderOp {
	for i := range changes {
		c := &changes[i]
		op := HeaderOp{Name: c.Name, Value: c.Value}
		switch c.Operation {
		case rules.Replace:
		case rules.Append:
			op.Action = AppendHeader
		case rules.Delete:
			op.Action = DeleteHeader
		}
		dst = append(dst, op)
	}
	return dst
}

// originGroup is a group whose origins are chosen as a direct.Group says.
type originGroup struct {
	g       *direct.Group
	origins [2][]*Origin // asked by http, and by https
}

func (g *originGroup) idempotency() string { return g.g.Spec.IdempotencyHeader }

// Choose chooses an origin.
func (g *originGroup) Choose(_ *Asked, p *Plan, now time.Duration, tried uint64) (*Origin, string) {
	m, ok := p.Memory.(*memory)
	if !ok {
		return nil, "no_origin"
	}
	m.choice = g.g.Choose(&m.request, selection.Origins(tried), now)
	if m.choice.Origin == selection.None {
		return nil, m.choice.Why
	}
	secure := 0
	if m.decision.Scheme(&m.request, &g.g.Spec.Origins[m.choice.Origin]) == "https" {
		secure = 1
	}
	return g.origins[secure][m.choice.Origin], ""
}

// Report is passive health: what fails often is left out for a while.
func (g *originGroup) Report(o *Origin, now time.Duration, r Result) {
	if r == Answers {
		g.g.Succeeded(o.Index, now)
		return
	}
	g.g.Failed(o.Index, now)
}

// Fields appends the cookies of a new session.
func (g *originGroup) Fields(dst []byte, a *Answered, p *Plan, o *Origin) []byte {
	m, ok := p.Memory.(*memory)
	if !ok || !m.choice.New {
		return dst
	}
	_, asked := a.Asked.Field("authorization", 0)
	_, answered := a.Header.Field("authorization", 0)
	if !affinity.MayEstablish(affinity.Response{Method: m.request.Method, Status: a.Status, Authorization: asked || answered, Head: a.Header}) {
		return dst
	}
	return m.decision.AppendCookies(dst, &m.request, o.Index)
}

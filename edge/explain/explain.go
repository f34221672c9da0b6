// Package explain says how the gateway would decide about a request, step by step, from a snapshot alone: without a gateway,
// a connection or a measurement. What probes would have found is assumed, and said so. It runs the code that gateways run.
package explain

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/idna"

	"steerpoint/edge/internal/direct"
	"steerpoint/edge/internal/route"
	"steerpoint/edge/internal/rules"
	"steerpoint/internal/hidden"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering/selection"
)

// Question is a request, and what is assumed of origins.
type Question struct {
	URL     string
	Method  string   // "": GET
	Headers []string // "Name: value"
	Client  netip.Addr
	Country string // of Client; "": not known
	// Down are origins that are not healthy, each group/origin or origin; all others are.
	Down []string
	// Latency is that of origins, named likewise; that of others is not known.
	Latency map[string]time.Duration
	// Session is the origin, named likewise, that the visitor's cookie names; "": there is no cookie.
	Session string
	Now     time.Time // wall clock, for conditions on the time
}

// ErrQuestion says that a question cannot be asked: its URL is none, or it names what is not there.
var ErrQuestion = errors.New("question")

// Explain answers a question by a snapshot.
func Explain(e *snapshot.Edge, q *Question) (*report.EdgeAnswer, error) {
	r, err := q.request()
	if err != nil {
		return nil, err
	}
	s, err := direct.New(direct.Input{Snapshot: e, Secrets: assumedSecrets()})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	x := s.Explain(r, 0)
	a := &answer{EdgeAnswer: report.EdgeAnswer{URL: q.URL}}
	if g := x.Decision.Group; g != nil && x.Decision.Status == 0 {
		if err := q.assume(g, a); err != nil {
			return nil, err
		}
		if err := q.session(x, r); err != nil {
			return nil, err
		}
		x = s.Explain(r, 0)
	}
	a.fill(e, x, r)
	return &a.EdgeAnswer, nil
}

// answer is an answer in the making.
type answer struct{ report.EdgeAnswer }

// assumedSecrets are keys of sessions that hold for this question alone.
func assumedSecrets() *snapshot.EdgeSecrets {
	zero := base64.StdEncoding.EncodeToString(make([]byte, 32))
	return &snapshot.EdgeSecrets{Affinity: []snapshot.EdgeAffinityKey{{ID: 1, Secret: snapshot.Carried{Text: hidden.New(zero)}}}}
}

// Check says what is wrong with a question by itself, and matches ErrQuestion; nil: it can be asked.
func (q *Question) Check() error {
	_, err := q.request()
	return err
}

func (q *Question) request() (*rules.Request, error) {
	u, err := url.Parse(q.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" || u.User != nil {
		return nil, fmt.Errorf("%w: %q is no http or https URL", ErrQuestion, q.URL)
	}
	host, err := hostOf(u)
	if err != nil {
		return nil, err
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	clean, err := route.Clean(nil, []byte(path))
	if err != nil {
		return nil, fmt.Errorf("%w: the path %q would be answered with 400", ErrQuestion, path)
	}
	r := &rules.Request{
		Method: []byte("GET"), Scheme: u.Scheme, Version: "1.1", Host: []byte(host), Path: clean,
		Query: []byte(u.RawQuery), HasQuery: u.RawQuery != "" || u.ForceQuery, ServerPort: 80, Country: q.Country, Now: q.Now,
	}
	if q.Method != "" {
		r.Method = []byte(q.Method)
	}
	if !token(string(r.Method)) {
		return nil, fmt.Errorf("%w: %q is no method", ErrQuestion, q.Method)
	}
	if u.Scheme == "https" {
		r.ServerPort, r.TLS = 443, "TLSv1.3"
	}
	if u.Port() != "" {
		p, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil || p == 0 {
			return nil, fmt.Errorf("%w: %s is no port", ErrQuestion, u.Port())
		}
		r.Port, r.ServerPort = uint16(p), uint16(p)
	}
	if q.Client.IsValid() {
		r.Client = netip.AddrPortFrom(q.Client, 0)
		r.Socket = r.Client
	}
	var h header
	for _, line := range q.Headers {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || !token(name) || strings.ContainsFunc(strings.TrimSpace(value), unicode.IsControl) {
			return nil, fmt.Errorf("%w: header %q is not \"Name: value\"", ErrQuestion, line)
		}
		h = append(h, [2]string{strings.ToLower(name), strings.TrimSpace(value)})
	}
	r.Header = h
	return r, nil
}

// hostOf is the host of a URL as a client sends it: of an internationalised name the A-labels (RFC 5891).
func hostOf(u *url.URL) (string, error) {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if strings.IndexFunc(host, func(r rune) bool { return r >= 0x80 }) < 0 {
		return host, nil
	}
	name, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return "", fmt.Errorf("%w: the host %q is no internationalised name", ErrQuestion, host)
	}
	return name, nil
}

// token reports whether a text is a method or the name of a field (RFC 9110 section 5.6.2).
func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// header is the fields of a question, names in lower case.
type header [][2]string

// Field gives the value of the n-th field of a name.
func (h header) Field(name string, n int) ([]byte, bool) {
	for _, f := range h {
		if f[0] == name {
			if n == 0 {
				return []byte(f[1]), true
			}
			n--
		}
	}
	return nil, false
}

// assume tells the group what probes are taken to have found, and the answer that it was so taken.
func (q *Question) assume(g *direct.Group, a *answer) error {
	for name := range q.Latency {
		if _, err := find(g, name); err != nil && !elsewhere(g, name) {
			return err
		}
	}
	down := selection.Origins(0)
	for _, name := range q.Down {
		if elsewhere(g, name) {
			continue
		}
		i, err := find(g, name)
		if err != nil {
			return err
		}
		down |= selection.Only(i)
	}
	for i, o := range g.Spec.Origins {
		h := selection.Health{Seen: g.Spec.Health.Samples}
		if !down.Has(i) {
			h.Good, h.Healthy = h.Seen, true
		}
		for _, name := range []string{o.Name, g.Spec.Name + "/" + o.Name} {
			if l, ok := q.Latency[name]; ok {
				h.Latency, h.Known = l, true
			}
		}
		g.Assume(i, h)
	}
	if len(q.Down) == 0 {
		a.Assumed = append(a.Assumed, "every enabled origin is healthy")
	}
	if len(q.Latency) == 0 {
		a.Assumed = append(a.Assumed, "no origin's latency is known")
	}
	a.Assumed = append(a.Assumed, "rate limits are not reached", "weights begin with their first turn")
	return nil
}

// find gives an origin of a group by "group/origin" or "origin".
func find(g *direct.Group, name string) (int, error) {
	var have []string
	for i, o := range g.Spec.Origins {
		if name == o.Name || name == g.Spec.Name+"/"+o.Name {
			return i, nil
		}
		have = append(have, o.Name)
	}
	return 0, fmt.Errorf("%w: origin group %s, where the request goes, has no origin %q; it has %s", ErrQuestion, g.Spec.Name, name, strings.Join(have, ", "))
}

// elsewhere reports whether an origin is one of another group, of which nothing is asked.
func elsewhere(g *direct.Group, name string) bool {
	group, _, qualified := strings.Cut(name, "/")
	return qualified && group != g.Spec.Name
}

// session puts a cookie that names an origin into the request.
func (q *Question) session(x *direct.Explanation, r *rules.Request) error {
	if q.Session == "" {
		return nil
	}
	g := x.Decision.Group
	i, err := find(g, q.Session)
	if err != nil {
		return err
	}
	if !g.Spec.Affinity {
		return fmt.Errorf("%w: origin group %s keeps no sessions (sessionAffinity: false)", ErrQuestion, g.Spec.Name)
	}
	line := string(x.Decision.AppendCookies(nil, r, i))
	cookie, _, _ := strings.Cut(strings.TrimPrefix(line, "Set-Cookie: "), ";")
	h, _ := r.Header.(header) // request made it
	r.Header = append(header{{"cookie", cookie}}, h...)
	return nil
}

func (a *answer) fill(e *snapshot.Edge, x *direct.Explanation, r *rules.Request) {
	d := &x.Decision
	a.Status, a.Reason, a.Location = d.Status, d.Reason, string(d.Location)
	a.Domain, a.Path = d.Match.Domain, d.Match.Path
	if d.Route == nil {
		return
	}
	a.Service, a.Route = d.Route.Service.Name, d.Route.Spec.Name
	for _, t := range x.Rules {
		u := report.EdgeRule{Set: t.Set, Rule: t.Rule, Fired: t.Fired}
		if !t.Fired {
			u.Why = condition(e, &t)
		}
		a.Rules = append(a.Rules, u)
	}
	if x.Access >= 0 {
		verb := "admits"
		if d.Reason == direct.ReasonAccess {
			verb = "denies"
		}
		a.Access = fmt.Sprintf("access policy %d %s it", x.Access+1, verb)
	}
	a.Request, a.Response = changes(d.Request), changes(d.Response)
	if d.Status != 0 {
		return
	}
	a.Group, a.Session = d.Group.Spec.Name, session(d.Group, x)
	a.steps(d.Group.Spec, &x.Choice)
	i := x.Choice.Pick.Origin
	if i == selection.None {
		a.Status, a.Reason = 503, x.Choice.Pick.Why
		return
	}
	o := &d.Group.Spec.Origins[i]
	scheme := d.Scheme(r, o)
	a.Origin, a.Host = o.Name, o.HostHeader
	if a.Host == "" {
		a.Host = string(r.Host)
	}
	host := o.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	a.Asks = fmt.Sprintf("%s %s://%s:%d%s", r.Method, scheme, host, o.Port(scheme), d.Target)
}

func (a *answer) steps(g *snapshot.EdgeGroup, t *selection.Trace) {
	for _, st := range t.Steps {
		s := report.EdgeStep{Name: st.Name, Kept: []string{}, Note: st.Note}
		for i, o := range g.Origins {
			if st.Kept.Has(i) {
				s.Kept = append(s.Kept, o.Name)
			}
		}
		for _, drop := range st.Dropped {
			s.Without = append(s.Without, report.EdgeWithout{Origin: g.Origins[drop.Origin].Name, Why: drop.Why})
		}
		a.Steps = append(a.Steps, s)
	}
}

// condition says which condition of a rule did not hold.
func condition(e *snapshot.Edge, t *rules.Trace) string {
	set := slices.IndexFunc(e.RuleSets, func(s snapshot.EdgeRuleSet) bool { return s.Name == t.Set })
	rule := slices.IndexFunc(e.RuleSets[set].Rules, func(u snapshot.EdgeRule) bool { return u.Name == t.Rule })
	c := &e.RuleSets[set].Rules[rule].Conditions[t.Condition-1]
	words := []string{c.On}
	if c.Name != "" {
		words = append(words, c.Name)
	}
	if c.Negate {
		words = append(words, "not")
	}
	words = append(words, c.Operator)
	if len(c.Values) > 0 {
		words = append(words, "["+strings.Join(c.Values, ", ")+"]")
	}
	return fmt.Sprintf("condition %d does not hold: %s", t.Condition, strings.Join(words, " "))
}

func changes(list []rules.Change) (out []string) {
	for _, c := range list {
		switch c.Operation {
		case rules.Delete:
			out = append(out, "delete "+c.Name)
		case rules.Append:
			out = append(out, "append "+c.Name+": "+string(c.Value))
		default:
			out = append(out, "set "+c.Name+": "+string(c.Value))
		}
	}
	return out
}

package control

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

const (
	maxProbeTimeout  = 30 * time.Second
	maxProbesAtOnce  = 16
	maxProbesRequest = 100
)

// probeNow runs probes outside of any schedule. Their results go to the caller, not to the rules.
func (c *Control) probeNow(ctx context.Context, r *api.ProbeRequest) (*api.ProbeResults, error) {
	if c.deps.Probe == nil {
		return nil, problem(http.StatusServiceUnavailable, api.CodeProberUnavailable, "No probe point", "no probe point is connected that could be asked")
	}
	if err := mayProbe(ctx, r); err != nil {
		return nil, err
	}
	timeout := 5 * time.Second
	if r.Timeout != "" {
		d, err := time.ParseDuration(r.Timeout)
		if err != nil || d <= 0 || d > maxProbeTimeout {
			return nil, badRequest("body.timeout", "timeout %q is not a duration up to %v", r.Timeout, maxProbeTimeout)
		}
		timeout = d
	}
	points, err := c.probePoints(r.Point)
	if err != nil {
		return nil, err
	}
	tasks, err := c.probeTasks(ctx, r)
	if err == nil {
		tasks, err = ofFamilies(tasks, r.Families)
	}
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		tasks[i].Timeout, tasks[i].Interval = timeout, timeout
		tasks[i].ID = snapshot.TaskID(&tasks[i])
	}
	if n := len(tasks) * len(points); n > maxProbesRequest {
		return nil, badRequest("body", "that is %d probes at once: name one point, or one edge with fewer addresses", n)
	}
	return c.runProbes(ctx, r.Edge, points, tasks), nil
}

// probePoints are the points to ask: the one that is named, or every one that is connected.
func (c *Control) probePoints(name string) ([]string, error) {
	if name != "" && !c.isPoint(name) {
		return nil, notFound("no probe point is named %s", name)
	}
	var here []string
	for _, p := range c.points(c.clock.Now()) {
		v, joined := c.roster.View(p.Name, c.clock.Moment())
		if (name == "" || name == p.Name) && (c.ownPoint(p.Name) || joined && v.Connected) {
			here = append(here, p.Name)
		}
	}
	if len(here) == 0 {
		what := "no probe point is connected that could be asked"
		if name != "" {
			what = "probe point " + name + " is not connected"
		}
		return nil, problem(http.StatusServiceUnavailable, api.CodeProberUnavailable, "No probe point", what)
	}
	return here, nil
}

// probeTasks are the probes a request asks for: an edge as its rules probe it, maybe with another URL, or just a URL.
func (c *Control) probeTasks(ctx context.Context, r *api.ProbeRequest) ([]snapshot.ProbeTask, error) {
	var own *snapshot.ProbeTask
	if r.URL != "" {
		t, err := urlTask(r)
		if err != nil {
			return nil, err
		}
		own = &t
	}
	if r.Edge == "" {
		if own == nil {
			return nil, badRequest("body", "give a url, an edge (service/edge), or both")
		}
		return []snapshot.ProbeTask{*own}, nil
	}
	service, edge := splitRule(r.Edge)
	var tasks []snapshot.ProbeTask
	found := false
	if err := c.do(ctx, func() { tasks, found = c.engine.TasksOf(service, edge) }); err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound("no edge is %s (service/edge)", r.Edge)
	}
	for i := range tasks {
		if own != nil {
			address, family := tasks[i].Address, tasks[i].Family
			tasks[i] = *own
			tasks[i].Address, tasks[i].Family = address, family
		} else if r.Method != "" && tasks[i].Method != "" {
			tasks[i].Method = r.Method
		}
	}
	return tasks, nil
}

func urlTask(r *api.ProbeRequest) (snapshot.ProbeTask, error) {
	var u spec.ProbeURL
	if err := u.UnmarshalText([]byte(r.URL)); err != nil {
		return snapshot.ProbeTask{}, badRequest("body.url", "url %q: %v", r.URL, err)
	}
	parsed, err := url.Parse(string(u))
	if err != nil {
		return snapshot.ProbeTask{}, badRequest("body.url", "url %q: %v", r.URL, err)
	}
	t := snapshot.ProbeTask{Kind: u.Scheme(), Address: parsed.Hostname(), Port: u.Port()}
	web := t.Kind == snapshot.KindHTTP || t.Kind == snapshot.KindHTTPS
	switch t.Kind {
	case snapshot.KindTCP, snapshot.KindUDP16, snapshot.KindICMP:
	default:
		t.URL, t.TLSVerify = string(u), t.Kind == snapshot.KindHTTPS || t.Kind == snapshot.KindGRPCS
	}
	switch {
	case web:
		t.Method = cmp.Or(r.Method, http.MethodHead)
	case r.Method != "":
		return snapshot.ProbeTask{}, badRequest("body.method", "method %s is one of HTTP, and the url is of kind %s: leave it out", r.Method, t.Kind)
	}
	return t, nil
}

// ofFamilies leaves the probes of the wanted families, and makes one for each of a name. None wanted: all stay as they are.
func ofFamilies(tasks []snapshot.ProbeTask, families []string) ([]snapshot.ProbeTask, error) {
	if len(families) == 0 {
		return tasks, nil
	}
	var out []snapshot.ProbeTask
	for i, f := range families {
		if f != snapshot.FamilyIPv4 && f != snapshot.FamilyIPv6 || slices.Contains(families[:i], f) {
			return nil, badRequest("body.families", "families %v are not ipv4, ipv6, or each of them once", families)
		}
		for _, t := range tasks {
			addr, err := netip.ParseAddr(t.Address)
			switch {
			case err == nil && addr.Unmap().Is4() == (f == snapshot.FamilyIPv4):
			case err != nil && (t.Family == "" || t.Family == f):
				t.Family = f
			default:
				continue
			}
			if !slices.ContainsFunc(out, func(o snapshot.ProbeTask) bool { return snapshot.TaskID(&o) == snapshot.TaskID(&t) }) {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return nil, badRequest("body.families", "there is no %s address to probe", strings.Join(families, " or "))
	}
	return out, nil
}

// taskURL is what a task without a URL of its own asks for.
func taskURL(t *snapshot.ProbeTask) string {
	if t.Port == 0 {
		u := url.URL{Scheme: t.Kind, Host: t.Address}
		if strings.Contains(t.Address, ":") {
			u.Host = "[" + t.Address + "]"
		}
		return u.String()
	}
	return t.Kind + "://" + net.JoinHostPort(t.Address, strconv.Itoa(t.Port))
}

func (c *Control) runProbes(ctx context.Context, edge string, points []string, tasks []snapshot.ProbeTask) *api.ProbeResults {
	out := &api.ProbeResults{Results: []api.ProbeResult{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxProbesAtOnce)
	for _, point := range points {
		for _, t := range tasks {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				res := c.probeOne(ctx, point, t)
				res.Edge = edge
				mu.Lock()
				defer mu.Unlock()
				out.Results = append(out.Results, res)
			})
		}
	}
	wg.Wait()
	slices.SortFunc(out.Results, func(a, b api.ProbeResult) int {
		return cmp.Or(strings.Compare(a.Address, b.Address), strings.Compare(a.Family, b.Family), strings.Compare(a.Point, b.Point))
	})
	return out
}

func (c *Control) probeOne(ctx context.Context, point string, t snapshot.ProbeTask) api.ProbeResult {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout+2*time.Second)
	defer cancel()
	res := api.ProbeResult{Point: point, Address: t.Address, URL: cmp.Or(t.URL, taskURL(&t)), Family: t.Family}
	o, err := c.deps.Probe(ctx, point, t)
	if err != nil {
		res.Cause, res.Detail = "local", err.Error()
		return res
	}
	if a := o.Address.Addr(); t.Family != "" && a.IsValid() && a.Unmap().Is4() != (t.Family == snapshot.FamilyIPv4) {
		res.Cause, res.Detail = "local", "point "+point+" is of an older version that knows no families: it probed "+a.String()
		return res
	}
	switch {
	case !o.Address.IsValid():
	case o.Address.Port() == 0: // ICMP has none
		res.Address = o.Address.Addr().String()
	default:
		res.Address = o.Address.String()
	}
	if !o.CertExpiry.IsZero() {
		end := o.CertExpiry.UTC()
		res.CertificateExpires = &end
	}
	res.OK, res.Status, res.Cause, res.Detail, res.LatencyMs = o.OK, o.Status, string(o.Cause), o.Detail, ms(o.Latency)
	res.Phases = api.Phases{
		DNSMs: ms(o.Phases.DNS), ConnectMs: ms(o.Phases.Connect), TLSMs: ms(o.Phases.TLS),
		FirstByteMs: ms(o.Phases.FirstByte), TotalMs: ms(o.Phases.Total),
	}
	return res
}

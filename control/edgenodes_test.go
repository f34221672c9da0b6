package control

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/internal/envelope"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// packs is what goes to gateways elsewhere.
type packs struct {
	mu   sync.Mutex
	last *snapshot.EdgePack
}

func (p *packs) take(e *snapshot.EdgePack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = e
}

func (p *packs) latest() *snapshot.EdgePack {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// secrets opens what a machine can open of the newest pack.
func (p *packs) secrets(t *testing.T, m *machine) (*snapshot.EdgeSecrets, error) {
	t.Helper()
	o, err := envelope.NewOpener(m.key)
	if err != nil {
		t.Fatal(err)
	}
	last := p.latest()
	if last == nil {
		return nil, errors.New("nothing was published")
	}
	text, err := o.Open(snapshot.EdgeSecretsUse, last.Sealed.Envelope)
	if err != nil {
		return nil, err
	}
	return snapshot.UnmarshalEdgeSecrets(text)
}

func toNodes(p *packs) func(*Config, *Deps) {
	return func(_ *Config, d *Deps) { d.EdgeNodes = p.take }
}

// withGateway has a gateway in the process, for which the first label of a host is the service.
func withGateway(_ *Config, d *Deps) {
	d.GatewayState = func() report.NodeEdge { return *edgeState(1, true).Edge }
	d.AskGateway = func(_ context.Context, _ string, q report.EdgeQuestion) (report.EdgeAnswer, error) {
		_, host, _ := strings.Cut(q.URL, "//")
		service, _, _ := strings.Cut(host, ".")
		return report.EdgeAnswer{URL: q.URL, Service: service}, nil
	}
}

// Secrets go to each gateway that joined, sealed to its key, and to nobody else: one that joins later gets the next snapshot, one
// that is revoked does not.
//
// Covers: A7, issue6 node
func TestGatewayNodesGetSecrets(t *testing.T) {
	t.Parallel()
	p := &packs{}
	r := start(t, t.TempDir(), nil, alone, toNodes(p))
	r.apply(zoneYAML, gatewayYAML)
	first := r.join("g1", nil, "edge", "dns")
	has := func(m *machine) bool {
		s, err := p.secrets(t, m)
		return err == nil && len(s.Certificates) == 1 && s.Certificates[0].Key.Reveal() == "the key" && len(s.Affinity) == 1
	}
	r.await("secrets for g1", func() bool { return has(first) })
	version := p.latest().Version()
	other, prober := r.join("g2", nil, "edge"), r.join("p1", nil, "probe")
	r.await("secrets for g2", func() bool { return has(first) && has(other) })
	if p.latest().Version() <= version {
		t.Errorf("version %d after %d: a gateway that has the number would not be sent it", p.latest().Version(), version)
	}
	if _, err := p.secrets(t, prober); !errors.Is(err, envelope.ErrNotAddressed) {
		t.Errorf("a probe point can open them: %v", err)
	}
	if _, err := r.client.RevokeNode(t.Context(), "g2", api.RevokeRequest{Reason: "stolen"}); err != nil {
		t.Fatal(err)
	}
	r.await("nothing for g2", func() bool {
		_, err := p.secrets(t, other)
		return has(first) && errors.Is(err, envelope.ErrNotAddressed)
	})
	if text := string(p.latest().Sealed.Envelope); strings.Contains(text, "the key") {
		t.Error("the envelope can be read")
	}
}

// edgeState is what a gateway says of one group, whose origins are healthy or not.
func edgeState(version uint64, healthy ...bool) report.NodeStatus {
	e := &report.NodeEdge{Version: version, Groups: []report.EdgeGroup{{Service: "store", Group: "web"}}}
	for i, ok := range healthy {
		o := report.EdgeOrigin{
			Origin: string(rune('a' + i)), Enabled: true, Probed: true, Healthy: ok, Seen: 4, Samples: 4, Needed: 3, Share: 1,
			Latency: time.Duration(i+1) * time.Millisecond, Failure: "status 503",
		}
		if ok {
			o.Good, o.Failure = 4, ""
			e.Healthy++
		}
		e.Origins++
		e.Groups[0].Origins = append(e.Groups[0].Origins, o)
	}
	return report.NodeStatus{Version: "1.2.3", Edge: e}
}

// Status shows which gateways serve by the newest snapshot and what they know of origins together; a gateway that lags, one that
// refuses and a group without a healthy origin have alarms, which end with their cause.
//
// Covers: issue6 gateway status, issue6 node
func TestGatewayStatus(t *testing.T) {
	t.Parallel()
	p := &packs{}
	r := start(t, t.TempDir(), nil, alone, toNodes(p))
	status := func() api.Status {
		t.Helper()
		s, err := r.client.Status(t.Context(), api.StatusParams{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := status(); s.Gateway != nil {
		t.Errorf("without a gateway: %+v", s.Gateway)
	}
	r.apply(zoneYAML, gatewayYAML)
	nodes := []string{"g1", "g2"}
	for _, n := range nodes {
		r.join(n, nil, "edge")
		r.Connected(n, report.SnapshotEdge, "192.0.2.9")
	}
	var newest uint64
	r.await("a snapshot for both", func() bool {
		r.look()
		newest, _ = r.gateways.latest()
		return newest > 0 && !r.otherGateways()
	})
	for i, n := range nodes {
		if r.gatewaysUse(newest) {
			t.Errorf("%s has not taken it, and a proof would not wait for it", n)
		}
		r.Reported(n, edgeState(newest, true, i == 0))
		r.Acked(n, report.Ack{Snapshot: report.SnapshotEdge, Version: newest, OK: true, Using: newest})
	}
	r.await("both use it", func() bool { return r.gatewaysUse(newest) })
	g := status().Gateway
	if g == nil || g.Gateways != 2 || g.Current != 2 || g.Version != newest || len(g.Groups) != 1 || len(g.Groups[0].Origins) != 2 {
		t.Fatalf("%+v", g)
	}
	if o := g.Groups[0].Origins[0]; o.Healthy != 2 || o.Why != "" || len(o.Seen) != 2 || o.Seen[0].LatencyMs != 1 {
		t.Errorf("a: %+v", o)
	}
	want := "not healthy: 0 of its last 4 probes succeeded, 3 of 4 are needed: status 503 (1 of 2 gateways)"
	if o := g.Groups[0].Origins[1]; o.Healthy != 1 || o.Why != want {
		t.Errorf("b: %+v", o)
	}
	if n := r.node("g2"); n.Gateway == nil || n.Gateway.Version != newest || n.Gateway.Behind || n.Gateway.Healthy != 1 {
		t.Errorf("%+v", n.Gateway)
	}
	if _, _, b := r.raw("GET", "/metrics", "", ""); !strings.Contains(string(b), `steer_control_node_snapshot_version{node="g2"}`) {
		t.Error("the metric of the version is missing")
	}

	r.Reported("g2", edgeState(newest, false, false))
	r.look()
	if a, on := r.alarm(api.AlarmOriginsDown, "store/web"); !on || !strings.Contains(a.Message, "for gateway g2 (1 of 2)") {
		t.Errorf("%+v", a)
	}
	r.Reported("g2", edgeState(newest, false, true))
	r.look()
	if _, on := r.alarm(api.AlarmOriginsDown, "store/web"); on {
		t.Error("the alarm does not end")
	}

	r.Acked("g2", report.Ack{Snapshot: report.SnapshotEdge, Version: newest, Using: newest - 1, Reason: "SNAPSHOT_REFUSED: x"})
	r.look()
	if a, on := r.alarm(api.AlarmNodeNack, "g2 edge"); !on || !strings.Contains(a.Message, "SNAPSHOT_REFUSED") {
		t.Errorf("%+v", a)
	}
	r.clocks.pass(behindAfter - time.Second)
	r.look()
	if _, on := r.alarm(api.AlarmGatewayBehind, "g2"); on {
		t.Error("the alarm comes too early")
	}
	r.clocks.pass(time.Second)
	r.look()
	if a, on := r.alarm(api.AlarmGatewayBehind, "g2"); !on || !strings.Contains(a.Message, "goes on by the older one") {
		t.Errorf("%+v", a)
	}
	r.Acked("g2", report.Ack{Snapshot: report.SnapshotEdge, Version: newest, OK: true, Using: newest})
	r.look()
	if _, on := r.alarm(api.AlarmGatewayBehind, "g2"); on {
		t.Error("the alarm does not end")
	}
	r.Gone("g2", report.SnapshotEdge)
	r.clocks.pass(time.Hour)
	r.look()
	if _, on := r.alarm(api.AlarmNodeAway, "g2"); !on {
		t.Error("one that fell silent is not told of")
	}
}

// Gateways are asked at the same time, those that are connected; what each says is told with its time, and so is why one did not.
//
// Covers: issue6 explain live
func TestExplainRequest(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, func(_ *Config, d *Deps) {
		d.GatewayState = func() report.NodeEdge { return report.NodeEdge{Version: 1} }
		d.AskGateway = func(_ context.Context, node string, q report.EdgeQuestion) (report.EdgeAnswer, error) {
			if node == "g1" {
				return report.EdgeAnswer{}, errors.New("it is busy")
			}
			return report.EdgeAnswer{
				URL: q.URL, Service: "store", Origin: q.Client.String(), Rules: []report.EdgeRule{{Set: "s", Rule: "r", Fired: true, Why: "w"}},
				Steps:   []report.EdgeStep{{Name: "healthy", Without: []report.EdgeWithout{{Origin: "b", Why: "w"}}}},
				Origins: []report.EdgeOrigin{{Origin: "a", Enabled: true, Healthy: true, Share: 0.25}},
			}, nil
		}
	})
	r.join("g1", nil, "edge")
	r.Connected("g1", report.SnapshotEdge, "192.0.2.9")
	r.join("g2", nil, "edge")
	ask := func(q api.RequestQuestion) (api.RequestAnswers, error) {
		q.URL = "http://store.example.com/"
		return r.client.ExplainRequest(t.Context(), q)
	}
	x, err := ask(api.RequestQuestion{Client: "192.0.2.1"})
	if err != nil || len(x.Gateways) != 2 || x.Gateways[0].Node != "g1" || x.Gateways[0].Error != "it is busy" || x.Gateways[1].Answer == nil {
		t.Fatalf("%+v, %v", x, err)
	}
	a := x.Gateways[1].Answer
	if a.Origin != "192.0.2.1" || len(a.Rules) != 1 || a.Steps[0].Kept == nil || a.Steps[0].Without[0].Why != "w" || x.Gateways[1].Time.IsZero() {
		t.Errorf("%+v", a)
	}
	if o := a.Origins[0]; o.Why != "returning: it has 25 % of its weight" || o.Healthy != 1 || o.Seen[0].Node != "local" {
		t.Errorf("%+v", o)
	}
	if x, err := ask(api.RequestQuestion{Node: "local"}); err != nil || len(x.Gateways) != 1 || x.Gateways[0].Node != "local" {
		t.Errorf("%+v, %v", x, err)
	}
	_, err = ask(api.RequestQuestion{Node: "g2"})
	wantCode(t, "one that is not connected", err, 503, api.CodeNoGateway)
	_, err = ask(api.RequestQuestion{Node: "g3"})
	wantCode(t, "one that there is not", err, 404, api.CodeNotFound)
	_, err = ask(api.RequestQuestion{Client: "x"})
	wantCode(t, "no address", err, 422, api.CodeBadRequest)
}

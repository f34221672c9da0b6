package control

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"steerpoint/control/api"
	"steerpoint/snapshot"
)

// gateways takes what is published to gateways.
type gateways struct {
	mu      sync.Mutex
	edge    *snapshot.Edge
	secrets *snapshot.EdgeSecrets
	count   int
	err     error
}

func (g *gateways) PublishEdge(e *snapshot.Edge, s *snapshot.EdgeSecrets) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	if g.err == nil {
		g.edge, g.secrets = e, s
	}
	return g.err
}

func (g *gateways) now() (e snapshot.Edge, s snapshot.EdgeSecrets, count int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.edge != nil {
		e, s = *g.edge, *g.secrets
	}
	return e, s, g.count
}

func (g *gateways) refuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gateways) join(_ *Config, d *Deps) { d.Gateways = g }

const gatewayYAML = `apiVersion: steerpoint/v1
kind: Service
name: store
domains: [store.example.com, more.example.com]
edges: [{name: here, addresses: [192.0.2.1]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [here]}]
originGroups: [{name: web, sessionAffinity: true, health: {enabled: false}, origins: [{name: a, address: "192.0.2.9:443"}]}]
routes: [{name: all, originGroup: web}]
certificates: {store.example.com: given, more.example.com: ordered}
---
apiVersion: steerpoint/v1
kind: Certificate
name: given
names: [store.example.com]
chainFrom: {secret: tls, key: chain}
keyFrom: {secret: tls, key: key}
---
apiVersion: steerpoint/v1
kind: Certificate
name: ordered
names: [more.example.com]
acme: {directory: "https://127.0.0.1:1/dir"}
---
apiVersion: steerpoint/v1
kind: Secret
name: tls
data: {chain: the chain, key: the key}
`

// Gateways get what is applied, with the values of Secrets, at each change of either and not otherwise; what they refuse is
// offered again and said; after a restart the keys of sessions are the same and versions go on.
//
// Covers: C1-C10, issue6 up
func TestGatewaysArePublishedTo(t *testing.T) {
	t.Parallel()
	g, dir := &gateways{}, t.TempDir()
	r := start(t, dir, nil, g.join)
	r.apply(zoneYAML, gatewayYAML)
	published := func(r *rig, what string, so func(e snapshot.Edge, s snapshot.EdgeSecrets) bool) (e snapshot.Edge, s snapshot.EdgeSecrets) {
		t.Helper()
		r.await(what, func() bool { e, s, _ = g.now(); return so(e, s) })
		return e, s
	}
	first, secrets := published(r, "what was applied", func(e snapshot.Edge, s snapshot.EdgeSecrets) bool {
		return len(e.Services) == 1 && len(s.Certificates) == 1
	})
	if c := secrets.Certificates[0]; c.Name != "given" || c.Chain != "the chain" || c.Key.Reveal() != "the key" || len(secrets.Affinity) != 1 || len(secrets.Tickets) != 3 {
		t.Errorf("%+v", secrets)
	}
	r.await("the alarm of a certificate that cannot be had", func() bool {
		return strings.Contains(r.alarmText(api.AlarmOrder), "certificate ordered cannot be ordered from 127.0.0.1:1")
	})
	r.await("the alarm of a pair that cannot be served", func() bool {
		return strings.Contains(r.alarmText(api.AlarmResource), "Certificate given: its chain and key cannot be served")
	})
	if strings.Contains(r.alarmText(api.AlarmResource), "ordered") {
		t.Error("what is ordered is an alarm about resources too")
	}
	r.apply(strings.Replace(secretYAML("tls", "key", "another key"), "data:", "data:\n  chain: the chain", 1))
	published(r, "another value", func(_ snapshot.Edge, s snapshot.EdgeSecrets) bool {
		return len(s.Certificates) == 1 && s.Certificates[0].Key.Reveal() == "another key"
	})
	g.refuse(errors.New("no room"))
	r.apply(strings.Replace(gatewayYAML, "192.0.2.9:443", "192.0.2.10:443", 1))
	r.await("the alarm", func() bool { return strings.Contains(r.alarmText(api.AlarmPublish), "no room") })
	g.refuse(nil)
	last, _ := published(r, "the next try", func(e snapshot.Edge, _ snapshot.EdgeSecrets) bool {
		return e.Services[0].Groups[0].Origins[0].Host == "192.0.2.10"
	})
	r.await("the alarm over", func() bool { return !r.alarmed(api.AlarmPublish) })
	if last.Version <= first.Version {
		t.Errorf("version %d after %d", last.Version, first.Version)
	}
	r.stop()

	g = &gateways{}
	again := start(t, dir, r.clocks, g.join)
	e, s := published(again, "what is stored", func(e snapshot.Edge, s snapshot.EdgeSecrets) bool {
		return len(e.Services) == 1 && len(s.Affinity) == 1 && len(s.Tickets) == 3
	})
	if e.Version <= last.Version || s.Affinity[0].Secret.Reveal() != secrets.Affinity[0].Secret.Reveal() {
		t.Errorf("after a restart: version %d after %d, session keys alike: %t", e.Version, last.Version, s.Affinity[0].Secret.Reveal() == secrets.Affinity[0].Secret.Reveal())
	}
}

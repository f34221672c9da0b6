package control

import (
	"crypto"
	"crypto/x509"
	"slices"
	"sync"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
	"steerpoint/internal/pki"
	"steerpoint/report"
)

// hub is a NodeHub that keeps what it is told.
type hub struct {
	mu           sync.Mutex
	disconnected []string
	drained      map[string]bool
}

func (h *hub) Disconnect(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disconnected = append(h.disconnected, node)
}

func (h *hub) SetDrained(node string, drained bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drained == nil {
		h.drained = map[string]bool{}
	}
	h.drained[node] = drained
}

func (h *hub) told(node string) (drained, told bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	drained, told = h.drained[node]
	return drained, told
}

func (h *hub) ended(node string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.disconnected, node)
}

func withHub(h *hub) func(*Config, *Deps) { return func(_ *Config, d *Deps) { d.Nodes = h } }

// machine is a machine that wants to be a node: its key, and what it got.
type machine struct {
	key     crypto.Signer
	request []byte
	cred    pki.Credential
	cert    *x509.Certificate
	id      pki.Identity
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{key: key}
	if m.request, err = pki.Request(key, "whatever"); err != nil {
		t.Fatal(err)
	}
	return m
}

// take reads a credential as a node would.
func (m *machine) take(t *testing.T, cred pki.Credential) {
	t.Helper()
	pair, err := pki.Pair(cred.Certificate, m.key)
	if err != nil {
		t.Fatal(err)
	}
	m.cred, m.cert = cred, pair.Leaf
	if m.id, err = pki.Identify(pair.Leaf); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) token(q api.TokenRequest) string {
	r.t.Helper()
	c, err := r.client.CreateToken(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return c.Token
}

// join makes a node with a token of its own.
func (r *rig) join(name string, labels map[string]string, roles ...string) *machine {
	r.t.Helper()
	m := newMachine(r.t)
	cred, err := r.Join(r.t.Context(), pki.Application{
		Token: r.token(api.TokenRequest{Roles: roles}), Name: name, Labels: labels, Request: m.request, Version: "1.2.3", Address: "192.0.2.77",
	})
	if err != nil {
		r.t.Fatalf("join of %s: %v", name, err)
	}
	m.take(r.t, cred)
	return m
}

// connect opens the stream of a role.
func (r *rig) connect(names ...string) {
	r.t.Helper()
	for _, name := range names {
		n, ok := r.roster.Node(name)
		if !ok {
			r.t.Fatalf("no node %s", name)
		}
		if slices.Contains(n.Roles, roster.RoleDNS) {
			r.Connected(name, report.SnapshotDNS, "192.0.2.99")
		}
		if slices.Contains(n.Roles, roster.RoleProbe) {
			r.Connected(name, report.SnapshotProbe, "192.0.2.99")
		}
	}
	r.points()
}

// points makes the loop look at the points now.
func (r *rig) points() {
	r.t.Helper()
	if err := r.do(r.t.Context(), r.refreshPoints); err != nil {
		r.t.Fatal(err)
	}
}

// look makes the loop do what it does every second.
func (r *rig) look() {
	r.t.Helper()
	r.everySecond(r.t.Context())
}

// tell ships what a node sees of an address, of every task that probes it.
func (r *rig) tell(node, address string, ok bool, age time.Duration) {
	r.t.Helper()
	var list []report.Observation
	for _, task := range r.out.tasks(node).Tasks {
		if task.Address != address {
			continue
		}
		o := report.Observation{Task: task.ID, Point: node, OK: ok, Latency: 20 * time.Millisecond, Age: age}
		if !ok {
			o.Cause = report.CauseTimeout
		}
		list = append(list, o)
	}
	if len(list) == 0 {
		r.t.Fatalf("%s has no task for %s", node, address)
	}
	r.Observe(node, list)
	r.settle()
}

func (r *rig) node(name string) api.NodeView {
	r.t.Helper()
	list, err := r.client.AllNodes(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, n := range list {
		if n.Name == name {
			return n
		}
	}
	r.t.Fatalf("no node %s in %+v", name, list)
	return api.NodeView{}
}

// alarm gives an alarm that is on.
func (r *rig) alarm(code, subject string) (api.Alarm, bool) {
	for _, a := range r.alarms.list() {
		if a.Code == code && a.Subject == subject {
			return a, true
		}
	}
	return api.Alarm{}, false
}

func wantRefusal(t *testing.T, what string, err error, code string) {
	t.Helper()
	if got := pki.CodeOf(err); got != code {
		t.Errorf("%s: %v; want %s", what, err, code)
	}
}

package control

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/internal/acmetest"
	"steerpoint/snapshot"
)

// answering is a gateway that answers what it is told to answer an authority, and nothing else.
type answering struct {
	gateways
	server *httptest.Server
}

func newAnswering(t *testing.T) *answering {
	g := &answering{}
	g.server = httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(g.server.Close)
	return g
}

func (g *answering) serve(w http.ResponseWriter, r *http.Request) {
	e, _, _ := g.now()
	for _, c := range e.Challenges {
		host, _, _ := strings.Cut(r.Host, ":")
		if c.Host == host && r.URL.Path == "/.well-known/acme-challenge/"+c.Token {
			_, _ = fmt.Fprint(w, c.Value)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (g *answering) dial(string) string { return g.server.Listener.Addr().String() }

// pair is the certificate that gateways have; empty: none.
func (g *answering) pair(name string) (p snapshot.EdgeKeyPair) {
	_, s, _ := g.now()
	for _, x := range s.Certificates {
		if x.Name == name {
			p = x
		}
	}
	return p
}

// has reports whether gateways have just this certificate named web.
func (g *answering) has(p snapshot.EdgeKeyPair) bool {
	now := g.pair("web")
	return now.Chain == p.Chain && now.Key.Equal(p.Key.Text)
}

// forget has it know nothing, as a gateway that was started anew.
func (g *answering) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.edge, g.secrets = nil, nil
}

// ordering is a control with a gateway and an authority.
type ordering struct {
	*rig
	g  *answering
	ca *acmetest.CA
}

// authority runs one whose TXT look-ups see what control published last.
func authority(t *testing.T, cfg acmetest.Config) *acmetest.CA {
	t.Helper()
	ca, err := acmetest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ca.Close)
	return ca
}

func startOrdering(t *testing.T, change func(*acmetest.Config)) *ordering {
	t.Helper()
	o := &ordering{g: newAnswering(t)}
	ck := &clocks{}
	ck.m.Wall, ck.m.BootTime = time.Now().UTC(), time.Hour // the authority's own certificate is judged by the machine's clock
	cfg := acmetest.Config{
		Dial: o.g.dial, Now: func() time.Time { return ck.read().Wall },
		TXT: func(name string) ([]string, error) {
			var out []string
			for _, text := range o.published(name+".", "TXT") {
				s, err := strconv.Unquote(text)
				if err != nil {
					return nil, err
				}
				out = append(out, s)
			}
			return out, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	o.ca = authority(t, cfg)
	o.rig = start(t, t.TempDir(), ck, o.g.join, o.settings)
	return o
}

// settings has domains that say auto ordered from the same authority.
func (o *ordering) settings(cfg *Config, d *Deps) {
	cfg.ACME = ACMEConfig{Directory: o.ca.Directory(), Roots: o.ca.Roots()}
	d.updateWait = time.Minute
}

// again starts control anew on the same folder.
func (o *ordering) again() {
	o.t.Helper()
	o.stop()
	o.g.forget()
	o.rig = start(o.t, o.dir, o.clocks, o.g.join, o.settings)
}

// orderedYAML is a service whose domains are names, with a Certificate named web for them.
func (o *ordering) orderedYAML(names, more string) string {
	return orderedYAML(o.ca, names, more)
}

func orderedYAML(ca *acmetest.CA, names, more string) string {
	list := strings.Split(names, ", ")
	var uses []string
	for _, n := range list {
		uses = append(uses, fmt.Sprintf("%q: web", n))
	}
	return fmt.Sprintf(`apiVersion: steerpoint/v1
kind: Service
name: store
domains: [%[1]s]
edges: [{name: here, addresses: [192.0.2.1]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [here]}]
originGroups: [{name: web, health: {enabled: false}, origins: [{name: a, address: "192.0.2.9:443"}]}]
routes: [{name: all, originGroup: web}]
certificates: {%[2]s}
---
apiVersion: steerpoint/v1
kind: Certificate
name: web
names: [%[1]s]
acme:
  directory: %[3]s
  email: hostmaster@example.com
  roots: %[4]q
%[5]s`, `"`+strings.Join(list, `", "`)+`"`, strings.Join(uses, ", "), ca.Directory(), ca.Roots(), more)
}

// certificate is the state of a certificate.
func (o *ordering) certificate(name string) (v api.CertificateStatus) {
	o.t.Helper()
	s, err := o.client.Status(o.t.Context(), api.StatusParams{})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, c := range s.Certificates {
		if c.Name == name {
			v = c
		}
	}
	return v
}

// issued waits for another certificate than before, and gives it.
func (o *ordering) issued(before snapshot.EdgeKeyPair) (p snapshot.EdgeKeyPair) {
	o.t.Helper()
	o.await("a certificate", func() bool { p = o.g.pair("web"); return p.Chain != "" && p.Chain != before.Chain })
	return p
}

// fails waits until a try failed for a reason.
func (o *ordering) fails(n int, reason string) (v api.CertificateStatus) {
	o.t.Helper()
	o.await(fmt.Sprintf("failure %d: %s", n, reason), func() bool { v = o.certificate("web"); return v.Failures == n && v.Reason == reason })
	return v
}

// childOrder holds what the process to be killed applies.
const childOrder = "STEER_CONTROL_CHILD_ORDERS"

// childOrders runs control with a gateway and applies a text; it says where the gateway is.
func childOrders(ctx context.Context, dir, text string) error {
	g := &answering{}
	g.server = httptest.NewServer(http.HandlerFunc(g.serve))
	defer g.server.Close()
	c, err := New(ctx, Config{Data: dir, Listen: "127.0.0.1:0"}, Deps{
		Publisher: says{}, Gateways: g, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	fmt.Printf("gateway %s\n", g.dial(""))
	if _, err := c.Apply(ctx, "child", request(zoneYAML, text)); err != nil {
		return err
	}
	return <-ended
}

// firstWord reads lines until one begins with a word, and gives the rest of it.
func firstWord(t *testing.T, r *bufio.Scanner, word string) string {
	t.Helper()
	for r.Scan() {
		if rest, ok := strings.CutPrefix(r.Text(), word+" "); ok {
			return rest
		}
	}
	t.Fatalf("no line begins with %q: %v", word, r.Err())
	return ""
}

// unreachedYAML is a Certificate whose authority nobody reaches.
const unreachedYAML = `apiVersion: steerpoint/v1
kind: Certificate
name: web
names: [www.example.com]
acme: {directory: "https://127.0.0.1:1/dir"}
`

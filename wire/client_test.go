package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

// A machine joins by its token alone, gets a certificate, works with it, and renews it, also after its end.
//
// Covers: A7, issue3 join, issue3 renewal after expiry
func TestJoinAndRenew(t *testing.T) {
	var ahead atomic.Int64
	r := newRig(t, func(c *HubConfig) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	token := pki.NewToken(r.authority.Hash())
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(key, "n1")
	if err != nil {
		t.Fatal(err)
	}
	machine := r.client(t, nil, func(c *ClientConfig) { c.Authority, c.AuthorityHash = nil, token.Authority })
	cred, err := machine.Join(t.Context(), pki.Application{
		Token: token.String(), Name: "n1", Roles: []string{RoleProbe}, Request: request, Address: "203.0.113.9",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.control.applied[0].Address; got != "127.0.0.1" {
		t.Errorf("control was told the address %s, which is only what the machine says", got)
	}
	cert, err := pki.Pair(cred.Certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	node := r.client(t, cert, func(c *ClientConfig) { c.Authority = cred.Authority })
	if err := node.Report(t.Context(), report.NodeStatus{Version: "1.3.0"}); err != nil {
		t.Error(err)
	}
	ahead.Store(int64(30 * 24 * time.Hour))
	wantCode(t, node.Report(t.Context(), report.NodeStatus{}), pki.CertExpired)
	again, err := node.Renew(t.Context(), request)
	if err != nil || again.Name != "n1" {
		t.Errorf("the renewal gives %+v, error %v", again, err)
	}
}

// What pretends to be control is not believed, by a node that has the authority or by a machine that has its hash.
//
// Covers: A7, issue3 a wrong CA
func TestServerIsControl(t *testing.T) {
	r := newRig(t, nil)
	other := newRig(t, nil)
	pose := func(cert *tls.Certificate) string { return serveTLS(t, cert) }
	ours := func() *tls.Certificate {
		return pair(t, r.authority, "n1", []string{RoleDNS}, time.Now(), time.Hour)
	}
	withAuthority := ours()
	withAuthority.Certificate = append(withAuthority.Certificate, mustServer(t, r.authority, time.Now()).Certificate[1])
	for _, row := range []struct {
		name, url string
		ok        bool
	}{
		{"control", r.url(), true},
		{"control whose certificate ended long ago, or starts far ahead: the node's clock is not asked", pose(mustServer(t, r.authority, time.Now().AddDate(-3, 0, 0))), true},
		{"control whose certificate starts in a year", pose(mustServer(t, r.authority, time.Now().AddDate(1, 0, 0))), true},
		{"control of another cluster", other.url(), false},
		{"a node of this cluster", pose(ours()), false},
		{"a node that shows the authority with it", pose(withAuthority), false},
		{"anybody", pose(selfSigned(t, r)), false},
	} {
		for kind, how := range map[string]func(*ClientConfig){
			"authority": func(*ClientConfig) {},
			"hash":      func(c *ClientConfig) { c.Authority, c.AuthorityHash = nil, r.authority.Hash() },
		} {
			c := r.client(t, nil, how, func(c *ClientConfig) { c.Servers = []string{row.url} })
			err := c.Report(t.Context(), report.NodeStatus{})
			code := pki.CodeOf(err)
			if trusted := code != pki.CertUntrusted; trusted != row.ok {
				t.Errorf("%s, by %s: %v", row.name, kind, err)
			}
			if !row.ok && !errors.Is(err, ErrUnreached) {
				t.Errorf("%s, by %s: %v, want that the next server is tried", row.name, kind, err)
			}
		}
	}
}

func mustServer(t *testing.T, a *pki.Authority, now time.Time) *tls.Certificate {
	t.Helper()
	c, err := a.ServerCertificate(now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serveTLS is a server with a certificate that answers every call as control does: with a refusal.
func serveTLS(t *testing.T, cert *tls.Certificate) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"code":"CERT_MISSING","what":"who are you"}`))
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS13}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// Servers are tried in turn, beginning with the one that worked last; a refusal counts, whatever the others would say.
//
// Covers: issue3 several servers
func TestServersInTurn(t *testing.T) {
	r := newRig(t, nil)
	const deadURL = "https://127.0.0.1:1" // a port that nobody is given by chance: a free one of now may be taken soon
	var mu sync.Mutex                     // guards dialed
	dialed := map[string]int{}
	dialer := func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialed[address]++
		mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	cert := pair(t, r.authority, "n1", []string{RoleDNS}, time.Now(), time.Hour)
	c := r.client(t, cert, func(c *ClientConfig) { c.Servers, c.Dial = []string{deadURL, r.url() + "/"}, dialer })
	for range 3 {
		if err := c.Report(t.Context(), report.NodeStatus{}); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	n := dialed[strings.TrimPrefix(deadURL, "https://")]
	mu.Unlock()
	if n != 1 {
		t.Errorf("the dead server was tried %d times by three calls, want once", n)
	}
	r.control.revoke("n1")
	wantCode(t, c.Report(t.Context(), report.NodeStatus{}), pki.NodeRevoked)

	none := r.client(t, cert, func(c *ClientConfig) { c.Servers = []string{deadURL, deadURL} })
	err := none.Report(t.Context(), report.NodeStatus{})
	if !errors.Is(err, ErrUnreached) || strings.Count(err.Error(), deadURL) != 2 {
		t.Errorf("nobody there: %v, want each server with its reason", err)
	}
	if err := none.FollowDNS(t.Context(), 0, nil); !errors.Is(err, ErrUnreached) {
		t.Errorf("nobody there: %v", err)
	}
}

// Something that answers and is not control is passed over with a clear word.
//
// Covers: issue3 several servers
func TestServerThatIsSomethingElse(t *testing.T) {
	r := newRig(t, nil)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*mustServer(t, r.authority, time.Now())}}
	s.StartTLS()
	defer s.Close()
	c := r.client(t, nil, func(c *ClientConfig) { c.Servers = []string{s.URL} })
	err := c.Report(t.Context(), report.NodeStatus{})
	if !errors.Is(err, ErrUnreached) || !strings.Contains(err.Error(), "not control") {
		t.Errorf("error %v", err)
	}
}

// Calls are made with the certificate the node has now, as soon as it has it.
//
// Covers: A7, issue3 renewal
func TestCertificateIsReplaced(t *testing.T) {
	r := newRig(t, nil)
	var cert atomic.Pointer[tls.Certificate]
	cert.Store(pair(t, r.authority, "n1", []string{RoleDNS}, time.Now(), time.Hour))
	c := r.client(t, nil, func(c *ClientConfig) { c.Certificate = cert.Load })
	f := followDNS(t, c, 0)
	r.control.await(t, "connected n1 dns", 1)
	wantCode(t, c.Observe(t.Context(), nil), pki.RoleRefused)
	cert.Store(pair(t, r.authority, "n1", []string{RoleDNS, RoleProbe}, time.Now(), time.Hour))
	if err := c.Observe(t.Context(), nil); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}
	r.hub.PublishDNS(dnsMap(1, 1))
	if u := f.next(t); u.Full == nil {
		t.Errorf("the stream of before got %+v", u)
	}
}

// take's error ends a stream and is what comes out; so does the end of the caller's context, and Close.
//
// Covers: issue3 nodes
func TestFollowEnds(t *testing.T) {
	r := newRig(t, nil)
	r.hub.PublishDNS(dnsMap(1, 1))
	enough := errors.New("enough")
	if err := r.node(t, "n1", RoleDNS).FollowDNS(t.Context(), 0, func(Update) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("error %v, want take's", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := r.node(t, "n2", RoleDNS).FollowDNS(ctx, 0, func(Update) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrStreamEnded) {
		t.Errorf("error %v, want that the context ended", err)
	}
	c := r.node(t, "n3", RoleDNS)
	err = c.FollowDNS(t.Context(), 0, func(Update) error { c.Close(); return nil })
	if !errors.Is(err, ErrStreamEnded) {
		t.Errorf("error %v, want that the stream ended", err)
	}
	if err := c.Report(t.Context(), report.NodeStatus{}); err == nil {
		t.Error("a closed client calls")
	}
	waitMetric(t, r, "steer_wire_connections", 2) // those of n1 and n2, whose clients are open
}

// A batch whose answer was lost comes again and counts once; what a point says of itself is its own word only.
//
// Covers: A2, issue3 observations
func TestObservations(t *testing.T) {
	r := newRig(t, nil)
	c := r.node(t, "p1", RoleProbe)
	list := []report.Observation{{Task: "t1", Point: "p2", OK: true, Age: -time.Hour, Detail: "x" + strings.Repeat("é", maxDetail)}, {Task: "t2", Cause: report.CauseTimeout, Age: time.Second}}
	for range 3 {
		if err := c.ObserveBatch(t.Context(), "once", list); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.node(t, "p3", RoleProbe).ObserveBatch(t.Context(), "once", list[:1]); err != nil {
		t.Fatal(err)
	}
	got := r.control.observed
	if len(got) != 3 {
		t.Fatalf("%d observations counted, want p1's two once and p3's one", len(got))
	}
	if got[0].Point != "p1" || got[0].Age != 0 || len(got[0].Detail) > maxDetail || strings.Contains(got[0].Detail, "\uFFFD") {
		t.Errorf("the first became %+v", got[0])
	}
	if got[1].Point != "p1" || got[1].Age != time.Second || got[1].Cause != report.CauseTimeout || got[2].Point != "p3" {
		t.Errorf("the others became %+v", got[1:])
	}
	if n := r.metric(t, "steer_wire_repeated_batches_total"); n != 2 {
		t.Errorf("%v repetitions counted, want 2", n)
	}
	wantCode(t, c.Observe(t.Context(), make([]report.Observation, maxBatch+1)), pki.BadRequest)
}

// A mistake in the configuration is what every call says.
//
// Covers: issue3 join
func TestClientConfig(t *testing.T) {
	a := newAuthority(t)
	for name, cfg := range map[string]ClientConfig{
		"no server":            {Authority: a.PEM()},
		"not https":            {Authority: a.PEM(), Servers: []string{"http://127.0.0.1:1"}},
		"no authority":         {Servers: []string{"https://127.0.0.1:1"}},
		"authority is not one": {Authority: []byte("x"), Servers: []string{"https://127.0.0.1:1"}},
	} {
		c := NewClient(cfg)
		if err := c.Report(t.Context(), report.NodeStatus{}); err == nil || errors.Is(err, ErrUnreached) {
			t.Errorf("%s: error %v", name, err)
		}
		if err := c.FollowProbe(t.Context(), 0, nil); err == nil || errors.Is(err, ErrUnreached) {
			t.Errorf("%s: error %v", name, err)
		}
		c.Close()
	}
}

// Every refusal that control makes comes out of the client as it went in.
//
// Covers: A7, issue3 refusals
func TestRefusalsTravel(t *testing.T) {
	r := newRig(t, nil)
	c := r.node(t, "n1", RoleDNS)
	for _, code := range []string{
		pki.NodeExists, pki.NodeUnknown, pki.NodeRevoked, pki.TokenUnknown, pki.TokenExpired, pki.CertTooOld, "OF_A_LATER_VERSION",
	} {
		sent := pki.Refuse(code, "what "+code, "do something")
		r.control.admitted = func(pki.Identity) error { return sent }
		var got *pki.Refusal
		if err := c.Report(t.Context(), report.NodeStatus{}); !errors.As(err, &got) || *got != *sent {
			t.Errorf("%+v came out as %v", sent, err)
		}
	}
	r.control.admitted = func(pki.Identity) error { return errors.New("the store is away: secret details") }
	err := c.FollowProbe(t.Context(), 0, func(ProbeUpdate) error { return nil })
	wantCode(t, err, pki.Busy)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a node is told %v", err)
	}
}

// What cannot be written is refused, as control would refuse it: a node drops it and goes on, and is not held up for ever.
//
// Covers: A6, issue3 observations
func TestWhatCannotBeWritten(t *testing.T) {
	r := newRig(t, nil)
	node := r.node(t, "p1", RoleProbe)
	beyond := report.Observation{Task: "t", Point: "p1", CertExpiry: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	wantCode(t, node.Observe(t.Context(), []report.Observation{beyond}), pki.BadRequest)
	if err := node.Observe(t.Context(), []report.Observation{{Task: "t", Point: "p1", OK: true}}); err != nil {
		t.Errorf("the next batch: %v", err)
	}
}

package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

// caller is somebody who tries every call of the service definition.
type caller struct {
	name string
	cert func(t *testing.T, r *rig) *tls.Certificate // nil: none
	// identity is what the certificate is good for: "" is nothing, and code says why.
	roles   []string
	expired bool
	code    string
	// renewCode is the code at a call that takes expired certificates, where it differs.
	renewCode string
}

func nodeOf(name string, roles ...string) func(*testing.T, *rig) *tls.Certificate {
	return func(t *testing.T, r *rig) *tls.Certificate {
		return pair(t, r.authority, name, roles, time.Now(), time.Hour)
	}
}

func endedAgo(d time.Duration) func(*testing.T, *rig) *tls.Certificate {
	return func(t *testing.T, r *rig) *tls.Certificate {
		return pair(t, r.authority, "late", []string{RoleDNS, RoleProbe}, time.Now().Add(-d-time.Hour), time.Hour)
	}
}

func callers() []caller {
	const day = 24 * time.Hour
	both := []string{RoleDNS, RoleProbe}
	return []caller{
		{name: "role dns", cert: nodeOf("ns1", RoleDNS), roles: []string{RoleDNS}},
		{name: "role probe", cert: nodeOf("p1", RoleProbe), roles: []string{RoleProbe}},
		{name: "both roles", cert: nodeOf("b1", RoleDNS, RoleProbe), roles: both},
		{name: "role edge", cert: nodeOf("g1", RoleEdge), roles: []string{RoleEdge}},
		{name: "role of a later version", cert: nodeOf("e1", "relay"), roles: []string{"relay"}},
		{name: "no certificate", code: pki.CertMissing},
		{name: "wrong authority", code: pki.CertUntrusted, cert: func(t *testing.T, _ *rig) *tls.Certificate {
			return pair(t, newAuthority(t), "ns1", both, time.Now(), time.Hour)
		}},
		{name: "expired", cert: endedAgo(time.Minute), roles: both, expired: true, code: pki.CertExpired},
		{name: "expired 89 days ago", cert: endedAgo(89 * day), roles: both, expired: true, code: pki.CertExpired},
		{name: "expired 91 days ago", cert: endedAgo(91 * day), code: pki.CertExpired, renewCode: pki.CertTooOld},
		{name: "revoked", cert: nodeOf("gone", RoleDNS, RoleProbe), code: pki.NodeRevoked},
		{name: "server certificate", code: pki.CertUntrusted, cert: func(t *testing.T, r *rig) *tls.Certificate {
			c, err := r.authority.ServerCertificate(time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}},
		{name: "certificate of hosts", code: pki.CertUntrusted, cert: func(t *testing.T, r *rig) *tls.Certificate {
			c, err := r.authority.HostCertificate([]string{"control.example"}, nil, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}},
		{name: "self-signed", code: pki.CertUntrusted, cert: selfSigned},
	}
}

// want is what the service definition says of a caller and a call: "" is allowed.
func (c *caller) want(call *Call) string {
	if call.Auth == Token {
		return ""
	}
	if call.Auth == CertificateMaybeExpired && c.renewCode != "" {
		return c.renewCode
	}
	if c.code != "" && (!c.expired || call.Auth != CertificateMaybeExpired) {
		return c.code
	}
	if len(call.Roles) > 0 && !slices.ContainsFunc(call.Roles, func(r string) bool { return slices.Contains(c.roles, r) }) {
		return pki.RoleRefused
	}
	return ""
}

// bodyFor is a good body of a call. acks says what of: a node may only ack what it follows.
func bodyFor(t *testing.T, r *rig, call string, acks string) []byte {
	t.Helper()
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(key, "x")
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]any{
		"join": pki.Application{
			Token: pki.NewToken(r.authority.Hash()).String(), Name: "new", Roles: []string{RoleDNS}, Request: request,
		},
		"renew":        renewal{Request: request},
		"ack":          report.Ack{Snapshot: acks, Version: 1, OK: true},
		"observations": batch{ID: NewBatchID(), Observations: []report.Observation{{Task: "t", OK: true}}},
		"result":       answer{ID: "nobody waits", Failure: "none"},
		"status":       report.NodeStatus{Version: "1.3.0"},
		"update":       report.Update{ID: "1", Zone: "example.net.", Key: "k."},
		"dns":          nil, "probe": nil, "edge": nil,
	}
	value, ok := bodies[call]
	if !ok {
		t.Fatalf("the test has no body for the call %s: add one", call)
	}
	if value == nil {
		return nil
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rawClient speaks HTTP to the hub without Client's help. It trusts every server: that is not what is tested.
func rawClient(t *testing.T, cert *tls.Certificate) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	tr := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if cert == nil {
				return &tls.Certificate{}, nil
			}
			return cert, nil
		},
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// tryCall makes a call and gives the code of its refusal, "" if it was answered, and the HTTP status.
func tryCall(t *testing.T, c *http.Client, method, url string, body []byte) (code string, status int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // ends a stream
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		return "", resp.StatusCode
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var refusal pki.Refusal
	if err := json.Unmarshal(raw, &refusal); err != nil {
		t.Fatalf("%s %s answered %s with %q, which is no refusal", method, url, resp.Status, raw)
	}
	if refusal.What == "" || refusal.Status != resp.StatusCode {
		t.Errorf("refusal %+v came with HTTP status %d", refusal, resp.StatusCode)
	}
	return refusal.Code, resp.StatusCode
}

// Every call is refused or allowed as its entry in Calls says, to everybody who could try.
//
// Covers: A7, issue3 certificates against every call, issue3 a probe node asking for dns snapshots
func TestCallsAuthorization(t *testing.T) {
	r := newRig(t, nil)
	r.control.revoke("gone")
	for _, who := range callers() {
		t.Run(who.name, func(t *testing.T) {
			var cert *tls.Certificate
			if who.cert != nil {
				cert = who.cert(t, r)
			}
			c := rawClient(t, cert)
			for i := range Calls {
				call := &Calls[i]
				acks := report.SnapshotDNS
				if !slices.Contains(who.roles, RoleDNS) {
					acks = report.SnapshotProbe
				}
				if slices.Contains(who.roles, RoleEdge) {
					acks = report.SnapshotEdge
				}
				got, status := tryCall(t, c, call.Method, r.url()+call.Path, bodyFor(t, r, call.Name, acks))
				if want := who.want(call); got != want {
					t.Errorf("%s: %q (HTTP %d), want %q", call.Name, got, status, want)
				}
			}
		})
	}
}

// What the table above derives is written out here once for the calls that matter most, so that a mistake in the
// service definition itself is seen.
//
// Covers: A7, issue3 roles checked on every call
func TestCallsDefinition(t *testing.T) {
	var got []string
	for i := range Calls {
		c := &Calls[i]
		got = append(got, fmt.Sprintf("%s %s %s: %s, roles %v, body %d, stream %v", c.Name, c.Method, c.Path, c.Auth, c.Roles, c.MaxBody, c.Stream))
		if c.serve == nil {
			t.Errorf("%s has no handler", c.Name)
		}
	}
	want := `join POST /v1/join: token, roles [], body 16384, stream false
renew POST /v1/renew: certificate, also expired, roles [], body 16384, stream false
dns GET /v1/dns: certificate, roles [dns], body 0, stream true
probe GET /v1/probe: certificate, roles [probe], body 0, stream true
edge GET /v1/edge: certificate, roles [edge], body 0, stream true
ack POST /v1/ack: certificate, roles [dns probe edge], body 16384, stream false
observations POST /v1/observations: certificate, roles [probe], body 2097152, stream false
result POST /v1/result: certificate, roles [probe edge], body 65536, stream false
update POST /v1/update: certificate, roles [dns], body 65536, stream false
status POST /v1/status: certificate, roles [], body 262144, stream false`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("the service definition is now\n%s\nwant\n%s", text, want)
	}
}

// Nothing but what Calls names is answered: neither other paths, nor other methods of the same path, nor spellings of it.
//
// Covers: A7, issue3 routes come from the service definition
func TestCallsAreAllThereIs(t *testing.T) {
	r := newRig(t, nil)
	if len(r.hub.routes) != len(Calls) {
		t.Errorf("%d routes for %d calls: two share method and path", len(r.hub.routes), len(Calls))
	}
	c := rawClient(t, pair(t, r.authority, "n1", []string{RoleDNS, RoleProbe}, time.Now(), time.Hour))
	try := func(method, path string) {
		if code, _ := tryCall(t, c, method, r.url()+path, nil); code != pki.CallUnknown {
			t.Errorf("%s %s: code %q, want %s", method, path, code, pki.CallUnknown)
		}
	}
	for _, path := range []string{"/", "/v1", "/v1/", "/v2/dns", "/metrics", "/debug/pprof/", "/healthz"} {
		try(http.MethodGet, path)
	}
	for i := range Calls {
		call := &Calls[i]
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			if method != call.Method {
				try(method, call.Path)
			}
		}
		try(call.Method, call.Path+"/")
		try(call.Method, "/"+call.Path)
		try(call.Method, call.Path+"/../"+call.Name)
		try(call.Method, strings.ToUpper(call.Path))
	}
}

// A token makes one node; whoever comes with it again is told so.
//
// Covers: A7, issue3 a token used twice
func TestTokenOnce(t *testing.T) {
	r := newRig(t, nil)
	body := bodyFor(t, r, "join", "")
	c := rawClient(t, nil)
	if code, _ := tryCall(t, c, http.MethodPost, r.url()+"/v1/join", body); code != "" {
		t.Fatalf("the first join: %s", code)
	}
	if code, status := tryCall(t, c, http.MethodPost, r.url()+"/v1/join", body); code != pki.TokenUsed || status != http.StatusForbidden {
		t.Errorf("the second join: %q with HTTP %d, want %s with 403", code, status, pki.TokenUsed)
	}
	bad := bytes.Replace(bodyFor(t, r, "join", ""), []byte(`"token":"`), []byte(`"token":"x`), 1)
	if code, _ := tryCall(t, c, http.MethodPost, r.url()+"/v1/join", bad); code != pki.TokenMalformed {
		t.Errorf("a malformed token: %q, want %s", code, pki.TokenMalformed)
	}
}

// A node acks only what its roles let it follow.
//
// Covers: A7, issue3 roles checked on every call
func TestAckOfAnotherRole(t *testing.T) {
	r := newRig(t, nil)
	err := r.node(t, "p1", RoleProbe).Ack(t.Context(), report.Ack{Snapshot: report.SnapshotDNS, Version: 1, OK: true})
	wantCode(t, err, pki.RoleRefused)
	err = r.node(t, "ns1", RoleDNS).Ack(t.Context(), report.Ack{Snapshot: "everything", Version: 1})
	wantCode(t, err, pki.BadRequest)
	if len(r.control.acks) > 0 {
		t.Errorf("control was told of %v", r.control.acks)
	}
}

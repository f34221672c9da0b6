package control

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/internal/pki"
)

// TestJoin proves that a token makes one node: with the roles of the token, a certificate of the cluster, a record, an
// audit line and a secret that is nowhere at rest; and that the same machine may ask again, and no other.
// Covers: issue3 join, issue3 token used twice
func TestJoin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	ctx := t.Context()
	created, err := r.client.CreateToken(ctx, api.TokenRequest{Roles: []string{"probe", "dns", "probe"}})
	if err != nil {
		t.Fatal(err)
	}
	if v := created.View; v.State != api.TokenOpen || !slices.Equal(v.Roles, []string{"dns", "probe"}) || v.Expires.Sub(v.Created) != time.Hour || v.Actor != "tester" {
		t.Errorf("token %+v", v)
	}
	m := newMachine(t)
	a := pki.Application{Token: created.Token, Name: "fra1", Labels: map[string]string{"country": "DE"}, Request: m.request, Version: "1.2.3", Address: "192.0.2.77"}
	cred, err := r.Join(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	m.take(t, cred)
	if cred.Name != "fra1" || cred.Cluster != "steer" || cred.Lifetime != 24*time.Hour || !slices.Equal(cred.Roles, []string{"dns", "probe"}) ||
		!bytes.Equal(cred.Authority, r.Authority().PEM()) {
		t.Errorf("credential %+v", cred)
	}
	if id, err := pki.JudgeNode(r.Authority().Pool(), []*x509.Certificate{m.cert}, r.Wall(), false); err != nil || r.Admit(id) != nil {
		t.Errorf("the certificate: %v, admitted %v", err, r.Admit(id))
	}
	n := r.node("fra1")
	if n.State != api.NodeAway || n.Connected || n.Labels["country"] != "DE" || n.Address != "192.0.2.77" || n.Version != "1.2.3" || !n.CertificateExpires.Equal(m.id.NotAfter) {
		t.Errorf("node %+v", n)
	}
	again, err := r.Join(ctx, a)
	if err != nil {
		t.Fatalf("the answer was lost and the machine asks again: %v", err)
	}
	if m.take(t, again); r.Admit(m.id) != nil {
		t.Errorf("its second certificate: %v", r.Admit(m.id))
	}
	b := a
	b.Request = newMachine(t).request
	_, err = r.Join(ctx, b)
	wantRefusal(t, "another key by the same token", err, pki.TokenUsed)
	list, err := r.client.AllTokens(ctx)
	if err != nil || len(list) != 1 || list[0].State != api.TokenUsed || list[0].Node != "fra1" || list[0].Used == nil {
		t.Errorf("tokens %+v, %v", list, err)
	}
	trail, err := r.store.AuditTrail(ctx, 10)
	if err != nil || len(trail) != 2 || trail[0].Action != "join" || trail[0].Name != "fra1" || trail[1].Kind != "Token" || trail[1].Actor != "tester" {
		t.Errorf("audit %+v, %v", trail, err)
	}
	r.clocks.pass(2 * time.Hour)
	_, err = r.Join(ctx, a)
	wantRefusal(t, "the same machine after the token's life", err, pki.TokenExpired)
	r.stop()
	secret := strings.Split(created.Token, ".")[1]
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s holds the secret of the token", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestJoinRefused proves every reason why a machine does not become a node; nothing is written and the token stays.
// Covers: issue3 join, issue3 wrong CA
func TestJoinRefused(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	r.join("taken", nil, "dns")
	good := r.token(api.TokenRequest{Roles: []string{"probe"}})
	named := r.token(api.TokenRequest{Roles: []string{"probe"}, Name: "only", For: "10m"})
	other := pki.NewToken(strings.Repeat("ab", 32))
	parts := strings.Split(good, ".")
	m := newMachine(t)
	ok := func() pki.Application { return pki.Application{Token: good, Name: "n1", Request: m.request} }
	for what, c := range map[string]struct {
		change func(*pki.Application)
		code   string
	}{
		"no token":                {func(a *pki.Application) { a.Token = "" }, pki.TokenMalformed},
		"no such token":           {func(a *pki.Application) { a.Token = pki.NewToken(r.Authority().Hash()).String() }, pki.TokenUnknown},
		"a token of another CA":   {func(a *pki.Application) { a.Token = other.String() }, pki.TokenUnknown},
		"this token, another CA":  {func(a *pki.Application) { a.Token = parts[0] + "." + parts[1] + "." + strings.Repeat("ab", 32) }, pki.TokenUnknown},
		"a wrong secret":          {func(a *pki.Application) { a.Token = parts[0] + "." + other.Secret + "." + parts[2] }, pki.TokenUnknown},
		"a name that is taken":    {func(a *pki.Application) { a.Name = "taken" }, pki.NodeExists},
		"control's own name":      {func(a *pki.Application) { a.Name = "local" }, pki.NodeExists},
		"no name":                 {func(a *pki.Application) { a.Name = "" }, pki.BadRequest},
		"a name that is none":     {func(a *pki.Application) { a.Name = "../x" }, pki.BadRequest},
		"a role too many":         {func(a *pki.Application) { a.Roles = []string{"probe", "dns"} }, pki.RoleRefused},
		"not the token's name":    {func(a *pki.Application) { a.Token = named }, pki.BadRequest},
		"a label without a name":  {func(a *pki.Application) { a.Labels = map[string]string{"": "x"} }, pki.BadRequest},
		"a label of control code": {func(a *pki.Application) { a.Labels = map[string]string{"x": "a\x1b[0m"} }, pki.BadRequest},
		"no request":              {func(a *pki.Application) { a.Request = nil }, pki.BadRequest},
		"a request that is none":  {func(a *pki.Application) { a.Request = []byte("x") }, pki.BadRequest},
	} {
		a := ok()
		c.change(&a)
		_, err := r.Join(ctx, a)
		wantRefusal(t, what, err, c.code)
	}
	if nodes, err := r.client.AllNodes(ctx); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	a := ok()
	a.Token, a.Name = named, ""
	if cred, err := r.Join(ctx, a); err != nil || cred.Name != "only" {
		t.Errorf("a token with a name names the node: %+v, %v", cred.Name, err)
	}
	r.clocks.pass(time.Hour)
	_, err := r.Join(ctx, ok())
	wantRefusal(t, "after an hour", err, pki.TokenExpired)
}

// TestTokenLifeAndWallClock proves that the life of a token does not depend on a wall clock that is set meanwhile.
// Covers: issue3 join, issue3 clocks
func TestTokenLifeAndWallClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	token := r.token(api.TokenRequest{Roles: []string{"dns"}})
	r.stop()
	r.clocks.mu.Lock()
	r.clocks.m.Wall = r.clocks.m.Wall.Add(-48 * time.Hour) // and no time passed
	r.clocks.mu.Unlock()
	again := start(t, dir, r.clocks)
	again.clocks.pass(61 * time.Minute)
	_, err := again.Join(t.Context(), pki.Application{Token: token, Name: "n", Request: newMachine(t).request})
	wantRefusal(t, "61 minutes later, by a clock two days back", err, pki.TokenExpired)
}

// TestRenewal proves that a certificate lives for a day and is renewed by itself, also with another key and also after
// its end, and that a restart of control changes nothing.
// Covers: issue3 renewal
func TestRenewal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	m := r.join("n1", nil, "dns")
	first := m.id.Serial
	r.clocks.pass(16 * time.Hour)
	next := newMachine(t)
	cred, err := r.Renew(t.Context(), m.id, next.request)
	if err != nil {
		t.Fatal(err)
	}
	next.take(t, cred)
	if next.id.Serial == first || !next.id.NotAfter.After(m.id.NotAfter) || next.id.Name != "n1" || r.Admit(next.id) != nil || r.Admit(m.id) != nil {
		t.Errorf("renewed: %+v; admitted %v, the old one %v", next.id, r.Admit(next.id), r.Admit(m.id))
	}
	r.stop()
	r.clocks.pass(30 * 24 * time.Hour)
	again := start(t, dir, r.clocks)
	if _, err := pki.JudgeNode(again.Authority().Pool(), []*x509.Certificate{next.cert}, again.Wall(), false); pki.CodeOf(err) != pki.CertExpired {
		t.Errorf("a month later: %v", err)
	}
	id, err := pki.JudgeNode(again.Authority().Pool(), []*x509.Certificate{next.cert}, again.Wall(), true)
	if err != nil {
		t.Fatal(err)
	}
	if cred, err = again.Renew(t.Context(), id, next.request); err != nil || cred.Lifetime != 24*time.Hour {
		t.Errorf("renewal after the end: %v, %v", cred.Lifetime, err)
	}
	_, err = again.Renew(t.Context(), id, []byte("x"))
	wantRefusal(t, "a request that is none", err, pki.BadRequest)
}

// TestRevocation proves that a revoked node is refused everything at once, loses its streams and its votes, stays
// revoked over a restart, and cannot come back by its token or under its name.
// Covers: issue3 revocation
func TestRevocation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var h hub
	r := start(t, dir, nil, withHub(&h))
	ctx := t.Context()
	m := newMachine(t)
	token := r.token(api.TokenRequest{Roles: []string{"probe", "dns"}})
	a := pki.Application{Token: token, Name: "n1", Request: m.request}
	cred, err := r.Join(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	m.take(t, cred)
	r.apply(zoneYAML, strings.ReplaceAll(shopYAML, "timeout: 2s}", "timeout: 2s, points: {names: [n1]}}"))
	r.connect("n1")
	r.tell("n1", "192.0.2.1", true, 0)
	if n := r.node("n1"); n.State != api.NodeConnected || n.Tasks.Observations != 1 || n.Tasks.Tasks != 4 {
		t.Errorf("before: %+v, tasks %+v", n, n.Tasks)
	}
	tasks := r.out.tasks("n1")
	n, err := r.client.RevokeNode(ctx, "n1", api.RevokeRequest{Reason: "lost laptop"})
	if err != nil || n.State != api.NodeRevoked || n.RevokedBy != "tester" || n.RevokedWhy != "lost laptop" || n.Revoked == nil {
		t.Fatalf("revoke: %+v, %v", n, err)
	}
	if !h.ended("n1") {
		t.Error("its streams go on")
	}
	refused := func(c *rig) {
		t.Helper()
		wantRefusal(t, "any call", c.Admit(m.id), pki.NodeRevoked)
		_, err := c.Renew(ctx, m.id, m.request)
		wantRefusal(t, "renewal", err, pki.NodeRevoked)
		_, err = c.Join(ctx, a)
		wantRefusal(t, "the token again", err, pki.NodeRevoked)
		b := pki.Application{Token: c.token(api.TokenRequest{Roles: []string{"dns"}}), Name: "n1", Request: newMachine(t).request}
		_, err = c.Join(ctx, b)
		wantRefusal(t, "its name", err, pki.NodeExists)
	}
	refused(r)
	before := r.rule("shop", "default")
	r.out.mu.Lock()
	r.out.probe["n1"] = tasks
	r.out.mu.Unlock()
	r.tell("n1", "192.0.2.1", false, 0)
	if after := r.rule("shop", "default"); len(after.Points) != 0 || after.Sequence != before.Sequence {
		t.Errorf("a revoked node has a say: %+v", after)
	}
	r.stop()
	again := start(t, dir, r.clocks, withHub(&h))
	refused(again)
	if n := again.node("n1"); n.State != api.NodeRevoked || n.RevokedWhy != "lost laptop" {
		t.Errorf("after a restart: %+v", n)
	}
	trail, err := again.store.AuditTrail(ctx, 20)
	if err != nil || !slices.ContainsFunc(trail, func(a store.Audit) bool {
		return a.Action == "revoke" && a.Kind == "Node" && a.Name == "n1" && a.Reason == "lost laptop" && a.Actor == "tester"
	}) {
		t.Errorf("audit %+v, %v", trail, err)
	}
}

// TestRemovedNode proves that a removed node is unknown, that its name is free, and that its old certificate does not
// pass for that of the node which has the name now.
// Covers: issue3 revocation
func TestRemovedNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil, func(c *Config, _ *Deps) { c.CertLife = 10 * 24 * time.Hour })
	ctx := t.Context()
	old := r.join("n1", nil, "dns")
	wantCode(t, "remove what is not there", r.client.RemoveNode(ctx, "n2"), 404, api.CodeNotFound)
	if err := r.client.RemoveNode(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, "the removed node", r.Admit(old.id), pki.NodeUnknown)
	r.stop()
	again := start(t, dir, r.clocks) // with certificates of a day, so that the old one ends later
	wantRefusal(t, "the removed node after a restart", again.Admit(old.id), pki.NodeUnknown)
	fresh := again.join("n1", nil, "dns")
	if err := again.Admit(fresh.id); err != nil {
		t.Errorf("the new node: %v", err)
	}
	wantRefusal(t, "the old certificate under the new node's name", again.Admit(old.id), pki.NodeUnknown)
	again.clocks.pass(time.Hour)
	cred, err := again.Renew(ctx, fresh.id, fresh.request)
	if err != nil {
		t.Fatal(err)
	}
	if fresh.take(t, cred); again.Admit(fresh.id) != nil {
		t.Errorf("the new node after a renewal: %v", again.Admit(fresh.id))
	}
}

// TestTokensOfTheAPI proves what a token request may say, that tokens are listed without their secrets, and that one
// that is deleted is worthless while its node stays.
// Covers: issue3 join
func TestTokensOfTheAPI(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	for what, q := range map[string]api.TokenRequest{
		"no role":             {Roles: []string{}},
		"a role that is none": {Roles: []string{"root"}},
		"too short a life":    {Roles: []string{"dns"}, For: "1s"},
		"too long a life":     {Roles: []string{"dns"}, For: "721h"},
		"no life":             {Roles: []string{"dns"}, For: "for ever"},
		"a name that is none": {Roles: []string{"dns"}, Name: "a b"},
	} {
		_, err := r.client.CreateToken(ctx, q)
		wantCode(t, what, err, 422, api.CodeBadRequest)
	}
	token := r.token(api.TokenRequest{Roles: []string{"dns"}, Name: "ns1"})
	id, _, _ := strings.Cut(token, ".")
	status, _, body := r.raw("GET", "/api/v1/tokens", "", "")
	if status != 200 || !strings.Contains(string(body), id) || strings.Contains(string(body), strings.Split(token, ".")[1]) || strings.Contains(string(body), "hash") {
		t.Errorf("tokens: %d %s", status, body)
	}
	m := newMachine(t)
	cred, err := r.Join(ctx, pki.Application{Token: token, Request: m.request})
	if err != nil {
		t.Fatal(err)
	}
	m.take(t, cred)
	if err := r.client.RevokeToken(ctx, id); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "delete it again", r.client.RevokeToken(ctx, id), 404, api.CodeNotFound)
	_, err = r.Join(ctx, pki.Application{Token: token, Request: m.request})
	wantRefusal(t, "a deleted token", err, pki.TokenUnknown)
	if err := r.Admit(m.id); err != nil {
		t.Errorf("its node: %v", err)
	}
}

// TestOldTokensGo proves that what is over for a week is forgotten, and what is not is kept.
func TestOldTokensGo(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	r.token(api.TokenRequest{Roles: []string{"dns"}})
	r.clocks.pass(keepTokens + 2*time.Hour)
	r.token(api.TokenRequest{Roles: []string{"probe"}})
	m := r.join("n1", nil, "dns")
	if err := r.client.RemoveNode(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	r.pruneEnrolled(ctx)
	list, err := r.client.AllTokens(ctx)
	if err != nil || len(list) != 2 {
		t.Errorf("tokens %+v, %v", list, err)
	}
	if _, kept := r.roster.Removed("n1"); !kept {
		t.Error("a removed node is forgotten while its certificate lives")
	}
	r.clocks.pass(pki.RenewWithin + 25*time.Hour)
	r.pruneEnrolled(ctx)
	if _, kept := r.roster.Removed("n1"); kept {
		t.Error("a removed node is kept although nobody takes its certificate")
	}
	wantRefusal(t, "its certificate", r.Admit(m.id), pki.NodeUnknown)
}

// TestEnrolmentAfterAnUnknownWrite proves that a change which was written although its writer heard of no success is
// found out, and that two writers of one record are not both right.
// Covers: issue3 kill
func TestEnrolmentAfterAnUnknownWrite(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	ctx := t.Context()
	token := r.token(api.TokenRequest{Roles: []string{"dns"}})
	m := newMachine(t)
	a := pki.Application{Token: token, Name: "n1", Request: m.request}
	before, err := r.store.Enrolled(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Join(ctx, a); err != nil {
		t.Fatal(err)
	}
	r.roster.Load(before) // as if the writer had timed out
	cred, err := r.Join(ctx, a)
	if err != nil {
		t.Fatalf("the machine asks again: %v", err)
	}
	if m.take(t, cred); r.Admit(m.id) != nil {
		t.Errorf("its certificate: %v", r.Admit(m.id))
	}
	r.roster.Load(before)
	_, err = r.Join(ctx, pki.Application{Token: token, Name: "n2", Request: newMachine(t).request})
	wantRefusal(t, "another machine by the token that was used", err, pki.TokenUsed)
}

// TestJoinWhileTheStoreIsBusy proves that a join waits no longer than the one who asks, and is told that it passes.
// Covers: issue3 join
func TestJoinWhileTheStoreIsBusy(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	token := r.token(api.TokenRequest{Roles: []string{"dns"}})
	if err := r.enrolling.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Join(ctx, pki.Application{Token: token, Name: "n1", Request: newMachine(t).request})
	wantRefusal(t, "while another change hangs", err, pki.Busy)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.enrolling.leave()
	if _, err := r.Join(t.Context(), pki.Application{Token: token, Name: "n1", Request: newMachine(t).request}); err != nil {
		t.Error(err)
	}
}

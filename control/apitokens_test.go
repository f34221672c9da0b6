package control

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
)

// TestAPITokens proves the life of a token of the API: made once, hashed at rest, named as who writes, listed with its
// last use, kept over a restart, over when its time is, and gone at once when it is revoked.
// Covers: issue4 roles
func TestAPITokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	ctx := t.Context()
	r.apply(zoneYAML)
	text := r.apiToken("ci", "operator", "")
	short := r.apiToken("guest", "viewer", "1h")
	base := "http://" + r.Addr().String()
	c := api.NewClient(base, text).WithActor("mallory")
	if _, err := c.Apply(ctx, request(shopYAML)); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(ctx, "Service", "shop"); err != nil || got.Actor != "ci" {
		t.Errorf("written by %q, want the token's name: %v", got.Actor, err)
	}
	if _, err := api.NewClient(base, r.apiToken("root", "admin", "")).WithActor("alice").Apply(ctx, request(slower(shopYAML))); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(ctx, "Service", "shop"); err != nil || got.Actor != "alice" {
		t.Errorf("an admin says who writes: %q, %v", got.Actor, err)
	}
	changed := []byte(text)
	if i := len(changed) - 70; changed[i] == 'x' {
		changed[i] = 'y'
	} else {
		changed[i] = 'x'
	}
	for _, bad := range []string{string(changed), "api." + strings.Split(text, ".")[1] + "..", "x" + text} {
		_, err := api.NewClient(base, bad).Version(ctx)
		wantCode(t, "a changed token", err, http.StatusUnauthorized, api.CodeUnauthorized)
	}
	r.stop()

	again := start(t, dir, r.clocks)
	base = "http://" + again.Addr().String()
	tokens, err := again.client.APITokens(ctx)
	list := tokens.Tokens
	if err != nil || len(list) != 3 || list[0].Name != "ci" || list[0].LastUsed == nil || list[0].Actor != "tester" || list[1].Expires == nil {
		t.Errorf("after a restart: %+v, %v", list, err)
	}
	if v, err := api.NewClient(base, text).Version(ctx); err != nil || v.Actor != "ci" || v.Role != "operator" {
		t.Errorf("after a restart: %+v, %v", v, err)
	}
	again.clocks.pass(time.Hour)
	_, err = api.NewClient(base, short).Version(ctx)
	wantCode(t, "a token whose time is over", err, http.StatusUnauthorized, api.CodeTokenExpired)
	if err := again.client.RevokeAPIToken(ctx, "ci"); err != nil {
		t.Fatal(err)
	}
	_, err = api.NewClient(base, text).Version(ctx)
	wantCode(t, "a revoked token", err, http.StatusUnauthorized, api.CodeUnauthorized)
	wantCode(t, "revoked again", again.client.RevokeAPIToken(ctx, "ci"), http.StatusNotFound, api.CodeNotFound)
	page, err := again.client.Audit(ctx, api.AuditParams{Kind: "APIToken"})
	if err != nil || len(page.Lines) != 4 {
		t.Errorf("audit trail of tokens: %+v, %v", page, err)
	}
	again.stop()
	absent(t, dir, strings.Split(text, ".")[2])
}

// absent fails when a text is in any file of a folder.
func absent(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			t.Errorf("%s holds it", path)
		}
		files++
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files searched: %v", files, err)
	}
}

// TestRevokedTokenEndsItsWatch proves that a stream that came in by a token ends with it, and not only at the next call.
// Covers: issue4 roles
func TestRevokedTokenEndsItsWatch(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	c := api.NewClient("http://"+r.Addr().String(), r.apiToken("screen", "viewer", "24h"))
	ended := make(chan error, 1)
	seen := make(chan struct{}, 100)
	go func() {
		_, err := c.Watch(t.Context(), "", 1, func(api.Event) error { seen <- struct{}{}; return nil })
		ended <- err
	}()
	r.apply(zoneYAML)
	<-seen
	if err := r.client.RevokeAPIToken(t.Context(), "screen"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on")
	}
	r.await("nothing of it is left", func() bool {
		n := 0
		r.apiTokens.mu.Lock()
		n = len(r.apiTokens.byID)
		r.apiTokens.mu.Unlock()
		return n == 0
	})
}

// TestBadAPITokenRequests proves that what cannot be a token is refused with the field, and makes none.
// Covers: issue4 roles
func TestBadAPITokenRequests(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apiToken("taken", "viewer", "")
	for what, q := range map[string]api.APITokenRequest{
		"no name":                   {Role: "viewer"},
		"a name of another":         {Name: "taken", Role: "viewer"},
		"a name that is none":       {Name: "a b", Role: "viewer"},
		"the name of an admin":      {Name: "admin", Role: "viewer"},
		"no role":                   {Name: "x"},
		"a role that is none":       {Name: "x", Role: "root"},
		"too short":                 {Name: "x", Role: "viewer", For: "1s"},
		"too long":                  {Name: "x", Role: "viewer", For: "1000000h"},
		"no duration":               {Name: "x", Role: "viewer", For: "soon"},
		"an admin of services":      {Name: "x", Role: "admin", Services: []string{"shop"}},
		"a service that is no name": {Name: "x", Role: "viewer", Services: []string{"a/b"}},
	} {
		_, err := r.client.CreateAPIToken(t.Context(), q)
		var p *api.Problem
		if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity || p.Code != api.CodeBadRequest {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := r.client.APITokens(t.Context()); err != nil || len(list.Tokens) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

package control

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steerpoint/snapshot"
)

// secrets waits for a map whose cookie secrets are as wanted.
func (r *rig) cookieSecrets(want func(*snapshot.CookieSecrets) bool) (got *snapshot.CookieSecrets) {
	r.t.Helper()
	r.await("a map with the cookie secrets", func() bool {
		d, _, _ := r.out.latest()
		s := openSecretsOf(r.t, ZoneKeyFile(r.dir), d)
		if s == nil || s.Cookies == nil || !want(s.Cookies) {
			return false
		}
		got = s.Cookies
		return true
	})
	return got
}

// TestCookieSecrets: maps bring secrets that are the same after a restart, and turn with the day so that those of one day
// are accepted on the next.
//
// Covers: field 55, issue5 cookies
func TestCookieSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	whatever := func(*snapshot.CookieSecrets) bool { return true }
	first := r.cookieSecrets(whatever)
	r.lookAtCookies(t.Context())
	if r.cookies.due(r.clock.Moment().Wall) {
		t.Error("other secrets are due on the same day")
	}
	r.stop()
	r = start(t, dir, r.clocks)
	if again := r.cookieSecrets(whatever); !again.Equal(first) {
		t.Error("a restart changed the secrets")
	}
	r.clocks.pass(snapshot.CookiePeriod)
	r.lookAtCookies(t.Context())
	next := r.cookieSecrets(func(c *snapshot.CookieSecrets) bool { return !c.Equal(first) })
	if next.Accept[0] != first.Sign || next.Sign != first.Accept[1] {
		t.Error("the secret of yesterday is not accepted today, or that of today was not yesterday")
	}
}

// TestCookieSecretsDoNotShow: name servers get them sealed, and no page of the API, backup or print of a map has them.
//
// Covers: issue5 cookies
func TestCookieSecretsDoNotShow(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	s := r.cookieSecrets(func(*snapshot.CookieSecrets) bool { return true })
	text := base64.StdEncoding.EncodeToString(s.Sign[:])
	d, _, _ := r.out.latest()
	if b, err := json.Marshal(d); err != nil || strings.Contains(string(b), text) {
		t.Errorf("the map shows the secret: %v", err)
	}
	r.cookies.mu.Lock()
	master := r.cookies.master
	r.cookies.mu.Unlock()
	hidden := []string{text, base64.StdEncoding.EncodeToString(master), string(s.Sign[:]), fmt.Sprintf("%x", s.Sign[:]), fmt.Sprint([16]byte(s.Sign))}
	_, _, b := r.raw(http.MethodGet, "/api/v1/openapi.json", "", "")
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for path, methods := range doc.Paths {
		if methods["get"] == nil || strings.Contains(path, "{") || strings.HasSuffix(path, "/watch") { // a watch does not end
			continue
		}
		asked++
		_, _, body := r.raw(http.MethodGet, path, "", "")
		for _, h := range hidden {
			if strings.Contains(string(body), h) {
				t.Errorf("%s shows a secret of cookies", path)
			}
		}
	}
	if asked < 5 {
		t.Errorf("only %d pages were looked at", asked)
	}
	printed := fmt.Sprintf("%v %+v %#v %x %d", *s, *s, *s, *s, s.Sign)
	for _, h := range hidden {
		if strings.Contains(printed, h) {
			t.Errorf("a print shows it: %s", printed)
		}
	}
}

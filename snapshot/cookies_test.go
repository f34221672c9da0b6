package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/hidden"
)

func cookiesAt(t *testing.T, master string, at time.Time) *CookieSecrets {
	t.Helper()
	c, err := CookiesAt([]byte(master), at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCookiesOfDays: secrets follow from master and day alone, those of a day are accepted on the day before and the day
// after, and no two days share one.
//
// Covers: issue5 cookies, rfc 9018
func TestCookiesOfDays(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	today := cookiesAt(t, "a master of a cluster", noon)
	for _, same := range []time.Time{noon, noon.Add(11 * time.Hour), noon.Add(-12 * time.Hour), noon.In(time.FixedZone("", 9*3600))} {
		if !cookiesAt(t, "a master of a cluster", same).Equal(today) {
			t.Errorf("%s has other secrets", same)
		}
	}
	if got := NextCookies(noon); !got.Equal(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the next come at %s", got)
	}
	tomorrow := cookiesAt(t, "a master of a cluster", NextCookies(noon))
	if tomorrow.Accept[0] != today.Sign || today.Accept[1] != tomorrow.Sign {
		t.Error("today and tomorrow do not accept each other's")
	}
	if cookiesAt(t, "another master", noon).Sign == today.Sign {
		t.Error("two masters make one secret")
	}
	seen := map[CookieSecret]bool{}
	for day := range 400 {
		seen[cookiesAt(t, "a master of a cluster", noon.Add(time.Duration(day)*CookiePeriod)).Sign] = true
	}
	if len(seen) != 400 {
		t.Errorf("%d secrets in 400 days", len(seen))
	}
}

// TestCookiesTravel: they go with a whole snapshot and with deltas, to nodes that have none, have others, and back to none,
// without a change of the digest, which nodes of the version before compute too.
//
// Covers: issue5 cookies, issue3 deltas
func TestCookiesTravel(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	made := func(version uint64, c *CookieSecrets) *DNS {
		return &DNS{Version: version, Created: now, Cookies: c}
	}
	a, b := cookiesAt(t, "a master of a cluster", now), cookiesAt(t, "a master of a cluster", now.Add(CookiePeriod))
	if made(1, a).Digest() != made(1, nil).Digest() {
		t.Error("the digest follows the cookies")
	}
	var node *DNS
	for version, c := range []*CookieSecrets{a, a, b, nil, b} {
		next := made(uint64(version+1), c)
		wire, err := json.Marshal(DiffDNS(node, next))
		if err != nil {
			t.Fatal(err)
		}
		var d DNSDelta
		if err := json.Unmarshal(wire, &d); err != nil {
			t.Fatal(err)
		}
		if node, err = d.Apply(node); err != nil || !node.Equal(next) || !node.Cookies.Equal(c) {
			t.Errorf("version %d: %+v, %v", version+1, node, err)
		}
	}
	if made(1, a).Equal(made(1, b)) || made(1, nil).Equal(made(1, b)) {
		t.Error("snapshots with other secrets are equal")
	}
}

// TestCookiesDoNotShow: no print, log or error has one; only JSON.
//
// Covers: issue5 cookies
func TestCookiesDoNotShow(t *testing.T) {
	c := cookiesAt(t, "a master of a cluster", time.Now())
	c.Sign = CookieSecret([]byte("pl4nted--secret!"))
	d := &DNS{Version: 1, Cookies: c}
	var all bytes.Buffer
	for _, v := range []any{d, *d, c, *c, c.Sign, &c.Sign, DiffDNS(nil, d)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&all, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&all, nil)).Info("said", "value", v)
	}
	err := new(CookieSecret).UnmarshalText([]byte("cGw0bnRlZC0tc2VjcmV0"))
	fmt.Fprintln(&all, err)
	for _, bad := range []string{"pl4nted", fmt.Sprintf("%x", "pl4nted"), fmt.Sprint([]byte("pl4nted"))[1:20], "cGw0bnRlZC0"} {
		if strings.Contains(all.String(), bad) {
			t.Errorf("it shows as %q:\n%s", bad, all.String())
		}
	}
	if err == nil || !strings.Contains(all.String(), hidden.Mark) {
		t.Errorf("%v, and nothing says that something is hidden", err)
	}
}

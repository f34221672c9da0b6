package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
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
// Covers: issue5 cookies, rfc 9018 secrets
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

// TestSealedTravels: an envelope goes with a whole snapshot and with deltas, to nodes that have none, have another, and back to
// none, without a change of the digest, which nodes of the version before compute too; damage is noticed.
//
// Covers: issue5 cookies, issue5 tsig, issue3 deltas
func TestSealedTravels(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	made := func(version uint64, s *Sealed) *DNS {
		return &DNS{Version: version, Created: now, Sealed: s}
	}
	a, b := &Sealed{Envelope: []byte("one")}, &Sealed{Envelope: []byte("two")}
	if made(1, a).Digest() != made(1, nil).Digest() {
		t.Error("the digest follows the envelope")
	}
	var node *DNS
	for version, s := range []*Sealed{a, a, b, nil, b} {
		next := made(uint64(version+1), s)
		wire, err := json.Marshal(DiffDNS(node, next))
		if err != nil {
			t.Fatal(err)
		}
		var d DNSDelta
		if err := json.Unmarshal(wire, &d); err != nil {
			t.Fatal(err)
		}
		carried := d.Sealed != nil || d.Whole != nil && d.Whole.Sealed != nil
		if want := s != nil && (node == nil || !s.Equal(node.Sealed)); carried != want {
			t.Errorf("version %d: the envelope travels: %t, want %t", version+1, carried, want)
		}
		if d.Sealed != nil {
			wrong := d
			wrong.Sealed = &Sealed{Envelope: []byte("damaged")}
			if _, err := wrong.Apply(node); !errors.Is(err, ErrDigest) {
				t.Errorf("version %d damaged: %v", version+1, err)
			}
		}
		if node, err = d.Apply(node); err != nil || !node.Equal(next) || !node.Sealed.Equal(s) {
			t.Errorf("version %d: %+v, %v", version+1, node, err)
		}
	}
	if made(1, a).Equal(made(1, b)) || made(1, nil).Equal(made(1, b)) {
		t.Error("snapshots with other envelopes are equal")
	}
	c := cookiesAt(t, "a master of a cluster", now)
	text, err := (&ServerSecrets{Cookies: c}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := UnmarshalSecrets(text); err != nil || !back.Equal(&ServerSecrets{Cookies: c}) || back.Empty() {
		t.Errorf("%v, %v", back, err)
	}
	if _, err := UnmarshalSecrets(text[1:]); err == nil || strings.Contains(err.Error(), string(text[5:15])) {
		t.Errorf("damaged: %v", err)
	}
}

// TestCookiesDoNotShow: no print, log or error has one; only JSON.
//
// Covers: issue5 cookies
func TestCookiesDoNotShow(t *testing.T) {
	c := cookiesAt(t, "a master of a cluster", time.Now())
	c.Sign = CookieSecret([]byte("pl4nted--secret!"))
	d := &ServerSecrets{Cookies: c}
	var all bytes.Buffer
	for _, v := range []any{d, *d, c, *c, c.Sign, &c.Sign} {
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

package control

import (
	"errors"
	"testing"
	"time"

	"steerpoint/control/internal/issue"
	"steerpoint/spec"
)

// TestRenewalOutlivesAClock: a certificate is used for 12 hours at least, whatever its authority wants; one that was issued by a
// clock months ahead, which was set right since, is renewed in time all the same.
//
// Covers: issue6 acme renewal
func TestRenewalOutlivesAClock(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		what         string
		issued, want time.Time // by our clock
		wanted       time.Time // by the authority
	}{
		{"as written", now.Add(-70 * day), now.Add(-10 * day), time.Time{}},
		{"earlier, as the authority wants", now.Add(-70 * day), now.Add(-20 * day), now.Add(-20 * day)},
		{"not at once", now.Add(-time.Hour), now.Add(11 * time.Hour), now.Add(-20 * day)},
		{"by a clock that was a year ahead", now.Add(365 * day), now.Add(-10 * day), time.Time{}},
	} {
		x := &order{state: orderState{NotBefore: now.Add(-70 * day), NotAfter: now.Add(20 * day), Renew: now.Add(-10 * day), Issued: tt.issued}}
		if got := x.renewAt(issue.Window{At: tt.wanted}, now); !got.Equal(tt.want) {
			t.Errorf("%s: renewed at %s, want %s", tt.what, got, tt.want)
		}
	}
}

// TestProofsAreOfOrderedNames: an authority gets no proof of a name that was not ordered, whatever it wants.
//
// Covers: issue6 acme client
func TestProofsAreOfOrderedNames(t *testing.T) {
	p := &prover{w: &spec.Certificate{Names: []spec.Domain{"www.example.com", "*.shop.example.com"}}}
	for name, want := range map[string]bool{
		"www.example.com": true, "shop.example.com": true, "example.com": true, "a.shop.example.com": false, "example.org": false, "ww.example.com": false, "xexample.com": false,
	} {
		if got := p.asked(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	err := p.Show(t.Context(), []issue.Proof{{Name: "victim.example.org", Kind: spec.HTTP01, Token: "t", Value: "v"}})
	if _, dead := errors.AsType[*issue.DeadOrder](err); !dead {
		t.Errorf("%v", err)
	}
}

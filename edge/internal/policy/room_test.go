package policy

import (
	"net/netip"
	"testing"
	"time"

	"steerpoint/edge/internal/rules"
	"steerpoint/snapshot"
)

// The widest limits that can be written admit: a burst whose room is more than a clock holds is one that nobody uses up.
//
// Covers: C1-C10 rate limit
func TestWideLimitsAdmit(t *testing.T) {
	for _, e := range []snapshot.EdgeLimit{
		{Requests: 1, Per: 24 * time.Hour, Burst: 1_000_000_000},
		{Requests: 1, Per: time.Minute, Burst: 1_000_000_000},
		{Requests: 1_000_000_000, Per: time.Second, Burst: 1_000_000_000},
		{Requests: 1, Per: 24 * time.Hour, Burst: 107_000},
	} {
		l := NewLimits([]snapshot.EdgeLimit{e}, nil)
		r := &rules.Request{Path: []byte("/"), Client: netip.MustParseAddrPort("192.0.2.1:1")}
		for n := range 1000 {
			if ok, _, wait := l.Admits(r, time.Duration(n)); !ok {
				t.Errorf("%+v: request %d of a burst waits %s", e, n+1, wait)
				break
			}
		}
	}
}

// A limit goes on counting wherever it stands in the next snapshot, and counts of another are not taken for its own.
//
// Covers: C1-C10 rate limit
func TestLimitsGoOnInAnotherPlace(t *testing.T) {
	login := snapshot.EdgeLimit{Paths: []string{"/login"}, Requests: 1, Per: time.Minute, Burst: 1}
	api := login
	api.Paths = []string{"/api/*"}
	admitted := func(l *Limits, path string) bool {
		ok, _, _ := l.Admits(&rules.Request{Path: []byte(path), Client: netip.MustParseAddrPort("192.0.2.1:1")}, 0)
		return ok
	}
	before := NewLimits([]snapshot.EdgeLimit{login}, nil)
	if !admitted(before, "/login") || admitted(before, "/login") {
		t.Fatal("one of two is to be admitted")
	}
	for what, list := range map[string][]snapshot.EdgeLimit{"behind another": {api, login}, "before another": {login, api}} {
		l := NewLimits(list, before)
		if admitted(l, "/login") {
			t.Errorf("%s: it begins anew", what)
		}
	}
	l := NewLimits([]snapshot.EdgeLimit{api, login}, NewLimits([]snapshot.EdgeLimit{login, api}, before))
	if admitted(l, "/login") || !admitted(l, "/api/x") {
		t.Error("the counts of one are those of another")
	}
}

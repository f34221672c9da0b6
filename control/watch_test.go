package control

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"steerpoint/control/api"
)

// TestWatchPlaces proves who gets a place among the watchers: no token takes more than its part, all tokens together leave
// some to admins, and what is given back can be had again.
// Covers: issue4 roles
func TestWatchPlaces(t *testing.T) {
	w := watchers{byToken: map[string]int{}}
	refused := func(what string, who *caller, status int) {
		t.Helper()
		if p := w.enter(who); p == nil || p.Status != status || p.Code != api.CodeTooMany {
			t.Errorf("%s: %+v; want %d", what, p, status)
		}
	}
	let := func(what string, who *caller) {
		t.Helper()
		if p := w.enter(who); p != nil {
			t.Fatalf("%s: %+v", what, p)
		}
	}
	root, chief := &caller{role: roleAdmin}, &caller{name: "chief", role: roleAdmin}
	var all []*caller
	for n := range (maxWatchers - watchesForAdmins) / watchesPerToken {
		who := &caller{name: fmt.Sprintf("screen%d", n), role: roleViewer, services: []string{"shop"}}
		for range watchesPerToken {
			let(who.name, who)
			all = append(all, who)
		}
		refused(who.name+" once more", who, http.StatusTooManyRequests)
	}
	other := &caller{name: "other", role: roleOperator}
	refused("no admin", other, http.StatusServiceUnavailable)
	for range watchesPerToken {
		let("an admin's token", chief)
		all = append(all, chief)
	}
	refused("the admin's token once more", chief, http.StatusTooManyRequests)
	for range maxWatchers - len(all) {
		let("the token of the folder", root)
		all = append(all, root)
	}
	refused("all places are taken", root, http.StatusServiceUnavailable)
	for _, who := range all {
		w.leave(who)
	}
	if w.all != 0 || len(w.byToken) != 0 {
		t.Errorf("nobody watches, and %d places of %v are taken", w.all, w.byToken)
	}
	let("after all", other)
}

// TestWatchesOfOneToken proves that a token which opens all watches it can keeps nobody else from watching, and that a
// closed one makes room.
// Covers: issue4 roles
func TestWatchesOfOneToken(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML)
	c := api.NewClient("http://"+r.Addr().String(), r.apiToken("screen", "viewer", ""))
	ctx, cancel := context.WithCancel(t.Context())
	var open sync.WaitGroup
	var came atomic.Int32
	for range watchesPerToken {
		open.Go(func() {
			first := sync.OnceFunc(func() { came.Add(1) })
			_, _ = c.Watch(ctx, "", 0, func(api.Event) error { first(); return nil }) // it ends by cancel
		})
	}
	r.await("all watch", func() bool {
		r.feed.Add(api.Event{Kind: api.EventConfig, Message: "news"})
		return came.Load() == watchesPerToken
	})
	_, err := c.Watch(t.Context(), "", 1, func(api.Event) error { return nil })
	wantCode(t, "one more", err, http.StatusTooManyRequests, api.CodeTooMany)
	enough := fmt.Errorf("enough")
	if _, err := r.client.Watch(t.Context(), "", 1, func(api.Event) error { return enough }); err != enough {
		t.Errorf("somebody else: %v", err)
	}
	cancel()
	open.Wait()
	r.await("there is room again", func() bool {
		_, err := c.Watch(t.Context(), "", 1, func(api.Event) error { return enough })
		return err == enough
	})
}

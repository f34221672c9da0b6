package control

import (
	"testing"

	"go.uber.org/goleak"

	"steerpoint/control/api"
)

// TestRunLeavesNothing proves that Run returns only when everything it started has stopped, watchers included.
func TestRunLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = r.client.Watch(t.Context(), "", 1, func(api.Event) error { return nil })
	}()
	r.await("a watcher", func() bool { return r.rule("shop", "default").Edge == "east" })
	r.stop()
	<-ended
	goleak.VerifyNone(t, before,
		// Connections the test's own client keeps.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

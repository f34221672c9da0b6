package control

import (
	"testing"
	"time"

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
	nothingLeft(t, before)
}

// nothingLeft fails the test when a goroutine stays that was not there before. What ends by itself has time to.
func nothingLeft(t *testing.T, before goleak.Option) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		err = goleak.Find(before,
			// Connections the test's own client keeps.
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
		if err == nil {
			return
		}
	}
	t.Error(err)
}

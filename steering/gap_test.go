package steering

import (
	"testing"
	"time"
)

// TestATieWaitsItsCooldownAfterARestart: the time nobody listened does not count towards the cool-down after which a tie
// from the start counts as down.
//
// Covers: decisions 3, issue2 restart
func TestATieWaitsItsCooldownAfterARestart(t *testing.T) {
	cfg := configOf(ModeFailover, []string{"p", "q"}, "a", "b")
	r := NewRule(cfg)
	feed(r, 0, 30*sec, 30*time.Millisecond, "q:a")
	s := r.State()
	const gap = 1000 * sec
	r, err := RestoreRule(cfg, s, s.At+gap)
	if err != nil {
		t.Fatal(err)
	}
	wantDecisions(t, feed(r, s.At+gap, s.At+gap+200*sec, 30*time.Millisecond, "q:a"), "18m40s a->b down")
}

package selection

import (
	"testing"
	"time"
)

// What is known of an origin is told as the choice uses it, and telling changes nothing.
//
// Covers: issue6 gateway status
func TestView(t *testing.T) {
	s := group(t, func(g *Group) {
		g.Ramp, g.Passive = 100*time.Second, Passive{Failures: 1, Out: 30 * time.Second, MaxOut: time.Minute}
	}, origin{name: "A", latency: 15 * ms}, origin{name: "B", draining: true}, origin{name: "C", disabled: true})
	if v := s.View(0, 0); !v.Enabled || v.Draining || !v.Healthy || v.Latency != 15*ms || v.OutFor != 0 || v.Share != 1 {
		t.Errorf("A: %+v", v)
	}
	if v := s.View(0, 1); !v.Draining || s.View(0, 2).Enabled {
		t.Errorf("B: %+v, C: %+v", v, s.View(0, 2))
	}
	now := time.Hour
	s.Failed(now, 0)
	for _, tt := range []struct {
		after, out time.Duration
		share      float64
	}{{0, 30 * time.Second, 0}, {10 * time.Second, 20 * time.Second, 0}, {30 * time.Second, 0, 0}, {80 * time.Second, 0, 0.5}, {130 * time.Second, 0, 1}, {time.Hour, 0, 1}} {
		if v := s.View(now+tt.after, 0); v.OutFor != tt.out || v.Share != tt.share {
			t.Errorf("after %s: out for %s with %v of its weight, want %s and %v", tt.after, v.OutFor, v.Share, tt.out, tt.share)
		}
	}
}

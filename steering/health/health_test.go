package health

import (
	"testing"
	"time"
)

// play runs a word of results against a machine: o is an ok, f a failure, s a slow one, x an expiry; one a second.
func play(word string, fall, rise int) (m Machine) {
	for i, c := range word {
		now := time.Duration(i) * time.Second
		switch c {
		case 'o':
			m.Step(now, true, false, fall, rise)
		case 'f', 's':
			m.Step(now, false, c == 's', fall, rise)
		case 'x':
			m.Expire()
		}
	}
	return m
}

// Covers: A7, decisions 1, field 17, field 16
func TestRunsFlipTheState(t *testing.T) {
	for _, tt := range []struct {
		name, word string
		want       State
	}{
		{"nothing seen is unknown", "", Unknown},
		{"an ok from unknown is up at once", "o", Up},
		{"failures from unknown count", "ff", Unknown},
		{"fall in a row from unknown", "fff", Down},
		{"two failures are not three", "off", Up},
		{"three are", "offf", Down},
		{"an ok between resets", "offoff", Up},
		{"lone failures never add up", "ofofofofofofofofof", Up},
		{"one ok does not raise", "offfo", Down},
		{"two do", "offfoo", Up},
		{"a failure between resets the rise", "offfofo", Down},
		{"expiry makes unknown", "offfx", Unknown},
		{"expiry resets the count", "offxf", Unknown},
		{"an ok after expiry is up at once", "offfxo", Up},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m := play(tt.word, 3, 2); m.State != tt.want {
				t.Errorf("after %q: %s, want %s", tt.word, m.State, tt.want)
			}
		})
	}
}

// A point that is down and has had an ok since counts with the start of the run that took it down.
//
// Covers: decisions 3
func TestRunStartIsOfTheRunThatTookItDown(t *testing.T) {
	for _, tt := range []struct {
		word string
		open bool
		want time.Duration
	}{
		{"of", true, 1 * time.Second},
		{"ofo", false, 0},
		{"ofofff", true, 3 * time.Second},
		{"offfoff", true, 1 * time.Second},
		{"offfoo", false, 0},
		{"offfoof", true, 6 * time.Second},
	} {
		m := play(tt.word, 3, 2)
		if m.RunOpen != tt.open || m.RunOpen && m.RunStart != tt.want {
			t.Errorf("after %q: open %v start %s, want %v %s", tt.word, m.RunOpen, m.RunStart, tt.open, tt.want)
		}
	}
}

// Covers: B5
func TestAllSlowNeedsEveryFailure(t *testing.T) {
	for word, want := range map[string]bool{"osss": true, "ossf": false, "ofss": false, "osssof": false, "osssos": true} {
		if m := play(word, 3, 2); m.AllSlow != want {
			t.Errorf("after %q: AllSlow %v, want %v", word, m.AllSlow, want)
		}
	}
}

func TestExpiresAt(t *testing.T) {
	for word, want := range map[string]time.Duration{"": 0, "x": 0, "o": 90 * time.Second, "of": 91 * time.Second, "f": 90 * time.Second, "ox": 0} {
		m := play(word, 3, 2)
		if got := m.ExpiresAt(90 * time.Second); got != want {
			t.Errorf("after %q: expires at %s, want %s", word, got, want)
		}
	}
}

func TestStateNames(t *testing.T) {
	for s, want := range map[State]string{Unknown: "unknown", Up: "up", Down: "down"} {
		if s.String() != want {
			t.Errorf("state %d is %q, want %q", s, s, want)
		}
	}
}

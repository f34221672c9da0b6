package text

import (
	"strings"
	"testing"
	"time"
)

// Columns line up whatever the words and their colours, and no line ends in blanks.
func TestTableAligns(t *testing.T) {
	var tb Table
	tb.Row("RULE", "EDGE", "WHY")
	tb.Row("default", Cell{Text: "east", Color: Bad}, "")
	tb.Row("规则", 7, "long last column, never cut")
	for _, tt := range []struct {
		paint Painter
		want  string
	}{
		{Painter{}, "  RULE     EDGE  WHY\n  default  east\n  规则     7     long last column, never cut\n"},
		{Painter{On: true}, "  RULE     EDGE  WHY\n  default  \x1b[31meast\x1b[0m\n  规则     7     long last column, never cut\n"},
	} {
		var b strings.Builder
		tb.Write(&b, tt.paint, "  ")
		if b.String() != tt.want {
			t.Errorf("colour %v:\n%q\nwant\n%q", tt.paint.On, b.String(), tt.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                   "0s",
		730 * time.Nanosecond:               "1µs",
		850 * time.Millisecond:              "850ms",
		3141 * time.Millisecond:             "3.1s",
		192 * time.Second:                   "3m12s",
		3*time.Hour + 29*time.Minute:        "3h29m",
		52*time.Hour + 10*time.Minute:       "2d4h",
		-90 * time.Second:                   "-1m30s",
		time.Hour - 100*time.Millisecond:    "1h0m0s",
		48*time.Hour - 100*time.Millisecond: "48h0m",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		at   time.Time
		want string
	}{
		{time.Time{}, "-"},
		{now, "now"},
		{now.Add(400 * time.Millisecond), "now"},
		{now.Add(-192 * time.Second), "3m12s ago"},
		{now.Add(-4300 * time.Millisecond), "4s ago"},
		{now.Add(5 * time.Minute), "in 5m0s"},
	} {
		if got := Ago(now, tt.at); got != tt.want {
			t.Errorf("Ago(%v) = %q, want %q", tt.at, got, tt.want)
		}
	}
}

package render

import (
	"strings"
	"testing"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func figure(v float64) *float64 { return &v }

// TestSeriesLines draws one series: full where all is well, low where it is not, blank where nothing was measured.
// Covers: A12
func TestSeriesLines(t *testing.T) {
	from := time.Unix(1_772_445_600, 0)
	step := 36*time.Minute + 10*time.Second
	first := time.Unix(from.Unix()-from.Unix()%int64(step.Seconds()), 0)
	point := func(n int, availability, ms float64) api.SeriesPoint {
		p := api.SeriesPoint{Time: first.Add(time.Duration(n) * step), SeriesFigures: api.SeriesFigures{Probes: 10, Availability: figure(availability)}}
		if ms > 0 {
			p.LatencyMs = figure(ms)
		}
		return p
	}
	a := &api.SeriesAnswer{
		Service: "shop", From: from, To: from.Add(3 * step), StepSeconds: step.Seconds(),
		Series: []api.Series{
			{Rule: "default", Steered: true, SeriesFigures: api.SeriesFigures{Probes: 30, Availability: figure(0.99995), LatencyMs: figure(20), P95Ms: figure(150)}, Points: []api.SeriesPoint{point(0, 1, 10), point(1, 0.98, 20)}},
			{Rule: "default", Edge: "east", SeriesFigures: api.SeriesFigures{Probes: 30, Availability: figure(0.4)}, Points: []api.SeriesPoint{point(0, 0.4, 0), point(2, 0, 0)}},
		},
	}
	var b strings.Builder
	Series(&b, text.Painter{}, a)
	lines := strings.Split(b.String(), "\n")
	for i, want := range map[int]string{
		2: "default  as steered  30      99.99%     20.0ms   150ms  █▆                  ▅█",
		3: "default  east        30      40.00%     -        -      ▁ ▁",
	} {
		if lines[i] != want {
			t.Errorf("line %d:\n%q\nwant\n%q", i, lines[i], want)
		}
	}
	a.Series = nil
	b.Reset()
	if Series(&b, text.Painter{}, a); !strings.Contains(b.String(), "nothing was measured") {
		t.Errorf("nothing: %s", &b)
	}
	if got := TrendStep(24 * time.Hour); got != 36*time.Minute {
		t.Errorf("a day has a step of %v", got)
	}
	if got := TrendStep(time.Second); got != 10*time.Second {
		t.Errorf("a second has a step of %v", got)
	}
}

func topSample() *TopView {
	now := time.Date(2026, 3, 2, 14, 3, 5, 0, time.UTC)
	s := sample(now)
	rules := []api.RuleStatus{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r := s.Services[0].Rules[0]
		r.Rule = name
		rules = append(rules, r)
	}
	rules[2].Availability24h, rules[2].Latency24hMs = figure(0.5), figure(10)
	rules[1].Availability24h, rules[1].Latency24hMs = figure(0.999), figure(99)
	rules[4].Since = now
	s.Services[0].Rules = rules
	return &TopView{Status: s, Switches: []api.Switch{
		{Time: now.Add(-time.Minute), Service: "shop", Rule: "a", From: "east", To: "west", Cause: "down", Reason: "east\x1b[2J is \u009bdown"},
	}}
}

// TestTopFitsTheTerminal draws frames for terminals of all sizes: no line is too long, none too many, what scrolls in is what
// was below, and nothing that a name or a message holds moves the cursor.
// Covers: A12, issue4 top
func TestTopFitsTheTerminal(t *testing.T) {
	v := topSample()
	all, _ := Top(text.Painter{}, v)
	whole := strings.Join(all, "\n")
	for _, want := range []string{"shop/a", "  * west", "LAST SWITCHES", "east -> west", "50.00%", "ALARM_FROZEN"} {
		if !strings.Contains(whole, want) {
			t.Errorf("%q is missing in\n%s", want, whole)
		}
	}
	if strings.ContainsAny(whole, "\x1b\u009b") {
		t.Error("an escape sequence of a message is drawn")
	}
	for _, size := range [][2]int{{1, 1}, {10, 3}, {40, 12}, {80, 24}, {200, 100}} {
		v.Width, v.Height, v.Keys = size[0], size[1], true
		for scroll := -1; scroll < 40; scroll += 3 {
			v.Scroll = scroll
			lines, most := Top(text.Painter{}, v)
			if len(lines) > v.Height || most < 0 {
				t.Fatalf("%v: %d lines, scrolls %d", size, len(lines), most)
			}
			for _, l := range lines {
				if text.Width(l) > v.Width {
					t.Fatalf("%v: too long: %q", size, l)
				}
			}
		}
	}
	v.Width, v.Height, v.Scroll = 80, 16, 0
	top, most := Top(text.Painter{}, v)
	v.Scroll = most
	end, _ := Top(text.Painter{}, v)
	if most == 0 || !strings.Contains(strings.Join(top, "\n"), "\nshop/a") || strings.Contains(strings.Join(end, "\n"), "\nshop/a") || !strings.Contains(strings.Join(end, "\n"), "RULE / EDGE") {
		t.Errorf("scrolled by %d:\n%s", most, strings.Join(end, "\n"))
	}
}

// TestTopSorts puts first what needs a look, and last what nothing is known of.
// Covers: A12, issue4 top
func TestTopSorts(t *testing.T) {
	v := topSample()
	for sort, want := range map[TopSort]string{ByName: "abcde", ByAvailability: "cbade", ByLatency: "bcade", BySwitch: "eabcd"} {
		v.Sort = sort
		lines, _ := Top(text.Painter{}, v)
		got := ""
		for _, l := range lines {
			if name, ok := strings.CutPrefix(l, "shop/"); ok {
				got += name[:1]
			}
		}
		if got != want {
			t.Errorf("by %v: %s, want %s", sort, got, want)
		}
	}
	if s := ByName.Next().Next().Next().Next(); s != ByName {
		t.Errorf("four keys lead to %v", s)
	}
}

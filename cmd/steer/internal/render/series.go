package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// trendColumns is the width of a trend.
const trendColumns = 40

// TrendStep is the step of the points that a trend over a time is drawn from: a multiple of 10 s.
func TrendStep(window time.Duration) time.Duration {
	const cell = 10 * time.Second
	return max((window/trendColumns+cell-1)/cell*cell, cell)
}

// Series writes one line a series, with its trends.
func Series(w io.Writer, p text.Painter, a *api.SeriesAnswer) {
	fmt.Fprintf(w, "%s from %s to %s, %s a column\n", a.Service, a.From.Local().Format("2006-01-02 15:04:05"), a.To.Local().Format("2006-01-02 15:04:05"),
		text.Span(time.Duration(a.StepSeconds*float64(time.Second))))
	if len(a.Series) == 0 {
		fmt.Fprintln(w, "nothing was measured in that time")
		return
	}
	var t text.Table
	t.Row("RULE", "EDGE", "PROBES", "AVAILABLE", "LATENCY", "P95", "AVAILABILITY TREND", "LATENCY TREND")
	for i := range a.Series {
		s := &a.Series[i]
		edge := s.Edge
		if s.Steered {
			edge = "as steered"
		}
		t.Row(s.Rule, edge, fmt.Sprintf("%.0f", s.Probes), available(s.Availability), optionalMillis(s.LatencyMs), optionalMillis(s.P95Ms),
			trend(a, s, availabilityBlock), trend(a, s, latencyBlock(s)))
	}
	t.Write(w, p, "")
}

// available is a part in percent: red below 99, as no visitor is served well then.
func available(v *float64) text.Cell {
	if v == nil {
		return text.Cell{Text: "-"}
	}
	c := text.Cell{Text: percent(*v)}
	switch {
	case *v < 0.99:
		c.Color = text.Bad
	case *v < 0.999:
		c.Color = text.Warn
	}
	return c
}

// percent never rounds up to a whole that it is not.
func percent(v float64) string {
	if v < 1 && v > 0.9999 {
		v = 0.9999
	}
	return fmt.Sprintf("%.2f%%", 100*v)
}

func optionalMillis(v *float64) string {
	if v == nil {
		return "-"
	}
	return millis(*v)
}

// blocks are the eight heights of a trend; heights is how many.
const (
	blocks  = "▁▂▃▄▅▆▇█"
	heights = 8
)

// trend draws one block a step; a step without an observation is blank.
func trend(a *api.SeriesAnswer, s *api.Series, block func(*api.SeriesPoint) int) string {
	step := int64(a.StepSeconds * 1000)
	if step <= 0 {
		return ""
	}
	first := a.From.UnixMilli() - a.From.UnixMilli()%step // points begin at multiples of the step since 1970
	n := (a.To.UnixMilli() - first + step - 1) / step
	if n <= 0 || n > 1000 {
		return ""
	}
	line, drawn := []rune(strings.Repeat(" ", int(n))), []rune(blocks)
	for i := range s.Points {
		if at := (s.Points[i].Time.UnixMilli() - first) / step; at >= 0 && at < n {
			if b := block(&s.Points[i]); b >= 0 {
				line[at] = drawn[b]
			}
		}
	}
	return string(line)
}

// availabilityBlock tells small losses apart: what matters lies in the last percent.
func availabilityBlock(p *api.SeriesPoint) int {
	if p.Availability == nil {
		return -1
	}
	for i, least := range []float64{0.999, 0.99, 0.97, 0.95, 0.9, 0.75, 0.5} {
		if *p.Availability >= least {
			return heights - 1 - i
		}
	}
	return 0
}

// latencyBlock is linear from 0 to the slowest step of the line.
func latencyBlock(s *api.Series) func(*api.SeriesPoint) int {
	slowest := 0.0
	for i := range s.Points {
		if v := s.Points[i].LatencyMs; v != nil {
			slowest = max(slowest, *v)
		}
	}
	return func(p *api.SeriesPoint) int {
		if p.LatencyMs == nil || slowest == 0 {
			return -1
		}
		return min(int(*p.LatencyMs/slowest*heights), heights-1)
	}
}

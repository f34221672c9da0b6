package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) seriesCommand() *cobra.Command {
	var since, until string
	var q api.SeriesParams
	var step time.Duration
	c := &cobra.Command{
		Use:   "series SERVICE",
		Short: "Show availability and latency over time: of each edge, and of each rule as it steered its visitors",
		Long: `Show availability and latency over time: of each edge in each rule, and of each rule as it steered its visitors, across
switches. Everything is kept for 90 days. Trends are drawn from left to right; of availability a full block is 99.9 % and
more, of latency the highest block is the slowest of the line. With -o json there are up to 1,000 points a series.`,
		Example: "  steer series shop --since 24h\n" +
			"  steer series shop --rule default --edge east --since 2160h -o json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			now := a.now()
			from, err := text.ParseSince(now, since)
			if err != nil {
				return fault.Usage("--since "+err.Error(), "")
			}
			end := now
			if until != "" {
				if end, err = text.ParseSince(now, until); err != nil {
					return fault.Usage("--until "+err.Error(), "")
				}
				q.To = api.TimeParam(end)
			}
			if !from.Before(end) {
				return fault.Usage("--since must lie before --until", "")
			}
			if a.output == "" && step == 0 {
				step = render.TrendStep(end.Sub(from))
			}
			if q.From = api.TimeParam(from); step > 0 {
				q.Step = step.String()
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			answer, err := c.Series(cmd.Context(), args[0], q)
			if err != nil {
				return err
			}
			return a.show(answer, func(w io.Writer, p text.Painter) { render.Series(w, p, &answer) })
		},
	}
	f := c.Flags()
	f.StringVar(&q.Rule, "rule", "", "only this rule")
	f.StringVar(&q.Edge, "edge", "", "only this edge")
	f.StringVar(&q.Metric, "metric", "", "availability, latency or steered (default all)")
	f.StringVar(&since, "since", "24h", "from when on: a duration back, or a time")
	f.StringVar(&until, "until", "", "to when: a duration back, or a time (default now)")
	f.DurationVar(&step, "step", time.Duration(0), "length of a point, a multiple of 10s (default by the time asked for)")
	return c
}

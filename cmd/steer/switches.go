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

func (a *app) switchesCommand() *cobra.Command {
	var since string
	var q api.SwitchesParams
	var limit int
	c := &cobra.Command{
		Use:   "switches",
		Short: "Show the switch log, newest first: when, from, to, cause, detection and publication time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := text.ParseSince(a.now(), since)
			if err != nil {
				return fault.Usage("--since "+err.Error(), "")
			}
			q.Since = api.TimeParam(from)
			if limit < 1 {
				return fault.Usage("--limit must be at least 1", "")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := collect(limit, func(cursor string, n int) ([]api.Switch, string, error) {
				q.Cursor, q.Limit = cursor, n
				page, err := c.Switches(cmd.Context(), q)
				return page.Switches, page.Next, err
			})
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer, p text.Painter) { render.Switches(w, p, time.Now(), list) })
		},
	}
	c.Flags().StringVar(&since, "since", "24h", "how far back: a duration, or a time")
	c.Flags().StringVar(&q.Service, "service", "", "only this service")
	c.Flags().StringVar(&q.Filter, "filter", "", "only entries that fit, such as 'cause=down from!=east'")
	c.Flags().IntVar(&limit, "limit", 1000, "at most so many entries")
	return c
}

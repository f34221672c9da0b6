package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) probeCommand() *cobra.Command {
	var r api.ProbeRequest
	c := &cobra.Command{
		Use:   "probe [URL]",
		Short: "Probe now, from the probe points, with the time of each phase",
		Example: "  steer probe https://www.example.com/\n" +
			"  steer probe --edge shop/east            # as its rules probe it\n" +
			"  steer probe https://www.example.com/ --edge shop/east",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				r.URL = args[0]
			}
			if r.URL == "" && r.Edge == "" {
				return fault.Usage("nothing to probe was given", "give a URL, --edge SERVICE/EDGE, or both")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			res, err := c.Probe(cmd.Context(), r)
			if err != nil {
				return err
			}
			if err := a.show(res, func(w io.Writer, p text.Painter) { render.Probes(w, p, res) }); err != nil {
				return err
			}
			if slices.ContainsFunc(res.Results, func(x api.ProbeResult) bool { return !x.OK }) {
				return fault.NotSo()
			}
			return nil
		},
	}
	c.Flags().StringVar(&r.Edge, "edge", "", "SERVICE/EDGE: connect to this edge's addresses")
	c.Flags().StringVar(&r.Point, "point", "", "only from this probe point")
	c.Flags().StringVar(&r.Method, "method", "", "HEAD or GET")
	c.Flags().StringVar(&r.Timeout, "timeout", "", "at most this long (default 5s)")
	return c
}

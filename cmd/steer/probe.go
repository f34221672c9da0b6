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
	var four, six bool
	c := &cobra.Command{
		Use:   "probe [URL]",
		Short: "Probe now, from the probe points, with the time of each phase",
		Long: `Probe a target now and show the time of each phase, a line for each point, address and family. URL is one of

  https://HOST/PATH, http://HOST/PATH                  status, and until when the certificate is good
  tcp://HOST:PORT                                      the port opens
  udp16://HOST:PORT                                    16 bytes come back (--listen nearest=ADDR:PORT on the other side)
  dns://HOST/NAME?type=A&rcode=NOERROR                 the answer to a question
  icmp://HOST                                          echo
  grpc://HOST:PORT/SERVICE, grpcs://HOST/SERVICE       grpc.health.v1.Health/Check

For udp16, dns and icmp FIRST BYTE is the round trip. Nothing of it is counted by any rule.`,
		Example: "  steer probe https://www.example.com/\n" +
			"  steer probe --edge shop/east            # as its rules probe it\n" +
			"  steer probe https://www.example.com/ --edge shop/east\n" +
			"  steer probe -4 -6 https://www.example.com/   # IPv4 and IPv6 apart\n" +
			"  steer probe 'dns://ns1.example.com/www.example.com?type=AAAA' --point tokyo",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				r.URL = args[0]
			}
			if r.URL == "" && r.Edge == "" {
				return fault.Usage("nothing to probe was given", "give a URL, --edge SERVICE/EDGE, or both")
			}
			if four {
				r.Families = append(r.Families, "ipv4")
			}
			if six {
				r.Families = append(r.Families, "ipv6")
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
	c.Flags().BoolVarP(&four, "ipv4", "4", false, "only IPv4 addresses; with -6: both, each of a name by itself")
	c.Flags().BoolVarP(&six, "ipv6", "6", false, "only IPv6 addresses")
	return c
}

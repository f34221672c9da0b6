package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) explainCommand() *cobra.Command {
	var q api.ExplainParams
	var at string
	var g gatewayQuestion
	c := &cobra.Command{
		Use:   "explain {HOST | URL}",
		Short: "Say word for word why a visitor gets the answer they get",
		Long: `Say word for word why a visitor gets the answer they get.

Of a host: what the name servers answer, and why. Of a URL: what a gateway would do with the request, step by step:
route, rules, policies, origin group, which origins each step leaves, and the choice. The gateways that run are asked, with
what they measured just now: health, latency, origins that are out, drain or return, sessions. With -f, --offline, --down or
--latency, or where no gateway is connected, it is worked out here from resources, and the health of origins is assumed.`,
		Example: "  steer explain shop.gslb.example.net --client 203.0.113.7\n" +
			"  steer explain shop.gslb.example.net --resolver 192.0.2.53 --type AAAA\n" +
			"  steer explain shop.gslb.example.net --client 203.0.113.7 --at 2026-01-02T03:04:05Z\n" +
			"  steer explain https://www.example.com/img/a.png --header 'Cookie: ASLBSA=...' --node fra1\n" +
			"  steer explain https://www.example.com/img/a.png -f gateway.yaml --header 'X-Canary: yes' --down tokyo",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isURL := strings.Contains(args[0], "://"); isURL || g.given(cmd) {
				if err := g.fits(cmd, isURL); err != nil {
					return err
				}
				return a.explainURL(cmd, &g, args[0], q.Client)
			}
			var err error
			if q.At, err = a.pastTime("--at", at); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			x, err := c.Explain(cmd.Context(), args[0], q)
			if err != nil {
				return err
			}
			return a.show(x, func(w io.Writer, _ text.Painter) { render.Explanation(w, x) })
		},
	}
	c.Flags().StringVar(&q.Client, "client", "", "address of the visitor, as a resolver would send it in the client-subnet option")
	c.Flags().StringVar(&q.Resolver, "resolver", "", "address of the visitor's resolver")
	c.Flags().StringVar(&at, "at", "", "a time in the past (RFC 3339, or a duration ago such as 2h), from the tape")
	c.Flags().StringVar(&q.Type, "type", "", "record type (default A)")
	g.flags(c)
	return c
}

package main

import (
	"io"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) explainCommand() *cobra.Command {
	var q api.ExplainParams
	var at string
	c := &cobra.Command{
		Use:   "explain HOST",
		Short: "Say word for word why a visitor gets the answer they get",
		Example: "  steer explain shop.gslb.example.net --client 203.0.113.7\n" +
			"  steer explain shop.gslb.example.net --resolver 192.0.2.53 --type AAAA\n" +
			"  steer explain shop.gslb.example.net --client 203.0.113.7 --at 2026-01-02T03:04:05Z",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	return c
}

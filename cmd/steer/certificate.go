package main

import (
	"io"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) certificateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "certificate",
		Short: "Order a certificate of gateways now",
		Long: `Certificates are resources: ` + "`steer get certificates`" + ` lists them, with when each ends and what is wrong. Those that control orders
are ordered and renewed by themselves; docs/certificates.md says how.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.certificateOrderCommand())
	return c
}

func (a *app) certificateOrderCommand() *cobra.Command {
	var r api.OrderRequest
	c := &cobra.Command{
		Use:   "order NAME",
		Short: "Try now to order a certificate, after what kept it from it was mended",
		Long: "Try now to order a certificate whose last try failed, instead of when the next one is due. With --renew one that is valid is\n" +
			"renewed; authorities count orders, and refuse too many.",
		Example: "  steer certificate order web\n  steer certificate order auto:www.example.com\n  steer certificate order web --renew --reason 'the key may be known'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			r.Name = args[0]
			v, err := c.OrderCertificate(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.show(v, func(w io.Writer, p text.Painter) { render.Certificates(w, p, a.now(), []api.CertificateStatus{v}) })
		},
	}
	c.Flags().BoolVar(&r.Renew, "renew", false, "also when it is valid and not due")
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the audit trail")
	return c
}

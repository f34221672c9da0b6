package main

import (
	"io"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [SERVICE]",
		Short: "Show what every rule answers and why; with SERVICE every edge, address and point too",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			service := ""
			if len(args) == 1 {
				service = args[0]
			}
			s, err := c.Status(cmd.Context(), api.StatusParams{Service: service})
			if err != nil {
				return err
			}
			return a.show(s, func(w io.Writer, p text.Painter) {
				if service != "" {
					render.Service(w, p, s)
				} else {
					render.Status(w, p, s)
				}
			})
		},
	}
}

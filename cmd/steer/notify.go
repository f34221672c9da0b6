package main

import (
	"io"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
)

func (a *app) notifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "notify",
		Short: "Try a notifier",
		Long: `Notifiers are resources: ` + "`steer get notifiers`" + ` lists them, ` + "`steer status`" + ` says how they are. docs/notifications.md
says what they tell, and how a receiver checks the signature. Their keys are in Secrets, or in files.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.notifyTestCommand())
	return c
}

func (a *app) notifyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "test NAME",
		Short:   "Send a test message now, and show what came back",
		Long:    "Send a test message past everything that waits, and show what came back. Exit code 1: it was not delivered.",
		Example: "  steer notify test pager",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			res, err := c.TestNotifier(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.show(res, func(w io.Writer, p text.Painter) { render.NotifyTest(w, p, res) }); err != nil {
				return err
			}
			if !res.OK {
				return fault.NotSo()
			}
			return nil
		},
	}
}

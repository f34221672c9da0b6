package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/codes"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/text"
)

// helpCommand explains commands, and every code an error, a warning or an alarm can carry.
func (a *app) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|CODE|codes]",
		Short: "Explain a command, or the code of an error, a warning or an alarm",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			if args[0] == "codes" {
				return a.listCodes()
			}
			if page, ok := codes.Find(args[0]); ok {
				return a.show(page, func(w io.Writer, _ text.Painter) {
					fmt.Fprintf(w, "%s (%s)\n\n%s\n\n%s\n", page.Code, page.Kind, page.English, page.Chinese)
				})
			}
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 || cmd == root {
				return fault.Usage(fmt.Sprintf("there is no command and no code %q", strings.Join(args, " ")), "see `steer help` and `steer help codes`")
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func (a *app) listCodes() error {
	all := codes.All()
	return a.show(all, func(w io.Writer, p text.Painter) {
		var t text.Table
		for _, c := range all {
			first, _, _ := strings.Cut(c.English, ". ")
			t.Row(c.Code, c.Kind, strings.TrimSuffix(first, "."))
		}
		t.Write(w, p, "")
	})
}

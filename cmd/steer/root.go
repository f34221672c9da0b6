package main

import (
	"slices"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
)

// Groups of commands in `steer help`, in the order a newcomer needs them.
const (
	groupRun       = "run"
	groupResources = "resources"
	groupSee       = "see"
	groupAct       = "act"
	groupOffline   = "offline"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "steer",
		Short: "Steer visitors to the edge that measures best, and say why",
		Long: `steer probes edges, decides which one each part of the world is sent to, and answers DNS accordingly.

Start with ` + "`steer up --demo`" + `: it runs everything on this machine and prints what to try.

Exit codes: 0 done; 1 the thing asked about is not so; 2 bad usage or bad input; 3 the server refused;
4 no server was reached.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.started = true
			if !slices.Contains([]string{"", "json", "yaml"}, a.output) {
				return fault.Usage("-o "+a.output+" is not an output format", "use -o json or -o yaml, or leave it out")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.server, "server", "", "URL of the server (or STEER_SERVER)")
	f.StringVar(&a.token, "token", "", "token for the server (or STEER_TOKEN)")
	f.StringVar(&a.ca, "ca", "", "file with the authority that vouches for an https server (or STEER_CA; default those of the system)")
	f.StringVar(&a.data, "data", "", "data folder (or STEER_DATA; default $XDG_DATA_HOME/steerpoint)")
	f.StringVarP(&a.output, "output", "o", "", "output for programs: json or yaml")
	f.BoolVar(&a.noColor, "no-color", false, "no colour (or NO_COLOR)")
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupResources, Title: "Resources:"},
		&cobra.Group{ID: groupSee, Title: "See:"},
		&cobra.Group{ID: groupAct, Title: "Act:"},
		&cobra.Group{ID: groupOffline, Title: "Without a server:"},
	)
	a.addCommands(root)
	root.SetHelpCommand(a.helpCommand(root))
	a.complete(root)
	return root
}

func (a *app) addCommands(root *cobra.Command) {
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupRun, a.upCommand(), a.controlCommand(), a.nodeCommand(), a.tokenCommand(), a.doctorCommand())
	add(groupRun, a.loginCommand(), a.logoutCommand(), a.backupCommand(), a.restoreCommand())
	add(groupResources, a.applyCommand(), a.planCommand(), a.getCommand(), a.deleteCommand(), a.historyCommand(), a.rollbackCommand())
	add(groupResources, a.secretCommand())
	add(groupSee, a.statusCommand(), a.explainCommand(), a.switchesCommand(), a.watchCommand(), a.probeCommand(), a.auditCommand(), a.notifyCommand(), a.certificateCommand())
	add(groupAct, a.forceCommand(), a.unforceCommand(), a.freezeCommand(), a.unfreezeCommand(), a.drainCommand(), a.undrainCommand())
	add(groupOffline, a.replayCommand(), a.geoCommand(), a.schemaCommand())
	add(groupOffline, a.importCommand())
	add(groupSee, a.seriesCommand(), a.topCommand())
	add(groupResources, a.dnssecCommand())
	root.AddCommand(a.demoCommand(), a.versionCommand(), a.manCommand(root))
	root.AddCommand(a.completionCommand(root))
}

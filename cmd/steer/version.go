package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/text"
)

// version of the program; CHANGELOG.md says what is in it.
const version = "0.1.0"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "commit": commit()}
			return a.show(v, func(w io.Writer, _ text.Painter) {
				fmt.Fprintf(w, "steer %s (%s, commit %s)\n", v["version"], v["go"], v["commit"])
			})
		},
	}
}

// commit is the commit the program was built from, with "-dirty" after it when the tree had changes.
func commit() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	rev, dirty := "unknown", ""
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	return rev + dirty
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand prints the manual page of the whole program, for packages. It is made from the same texts as --help.
func (a *app) manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page, steer(1)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			w := bufio.NewWriter(a.out)
			manual(w, root)
			if err := w.Flush(); err != nil {
				return fmt.Errorf("output: %w", err)
			}
			return nil
		},
	}
}

// manual writes roff by the man macros (groff_man(7)): man and mandoc read it.
func manual(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, ".TH STEER 1 \"\" \"steer %s\" \"User Commands\"\n", version)
	fmt.Fprintf(w, ".SH NAME\nsteer \\- %s\n", roff(strings.ToLower(root.Short[:1])+root.Short[1:]))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B steer\n.I command\n[options]\n.SH DESCRIPTION\n")
	paragraphs(w, root.Long)
	fmt.Fprint(w, ".SH OPTIONS OF EVERY COMMAND\n")
	options(w, root.PersistentFlags())
	fmt.Fprint(w, ".SH COMMANDS\n")
	commands(w, root)
	fmt.Fprint(w, ".SH FILES\n")
	for _, f := range []struct{ path, what string }{
		{"/etc/steerpoint", "of the package: node.env and control.env (options of the services), node.yaml and control.yaml (settings)"},
		{"/var/lib/steerpoint", "of the package: the data folders of the services, node and control"},
		{"DATA/steer.yaml", "settings of the process on a data folder"},
		{"DATA/admin.token", "the token that commands on the same machine find"},
	} {
		fmt.Fprintf(w, ".TP\n.I %s\n%s\n", roff(f.path), roff(f.what))
	}
	fmt.Fprint(w, ".SH SIGNALS\n")
	for _, s := range []struct{ name, what string }{
		{"TERM, INT", "stop; a second one does not wait"},
		{"USR2", "upgrade in place: run the program now on disk, in the same process and on the same sockets"},
		{"HUP", "read the geo data files again"},
	} {
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", s.name, s.what)
	}
}

func commands(w io.Writer, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "completion" { // the package installs what that prints
			continue
		}
		if c.Runnable() {
			fmt.Fprintf(w, ".SS %s\n", roff(c.UseLine()))
			long := c.Long
			if long == "" {
				long = c.Short + "."
			}
			paragraphs(w, long)
			if c.HasExample() {
				fmt.Fprintf(w, ".PP\nExamples:\n.PP\n.nf\n%s\n.fi\n", roff(c.Example))
			}
			options(w, c.NonInheritedFlags())
		}
		commands(w, c)
	}
}

func paragraphs(w io.Writer, text string) {
	for p := range strings.SplitSeq(text, "\n\n") {
		fmt.Fprintf(w, ".PP\n%s\n", roff(p))
	}
}

func options(w io.Writer, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(w, ".TP\n\\fB%s\\fR", roff(name))
		if kind != "" {
			fmt.Fprintf(w, " \\fI%s\\fR", roff(kind))
		}
		fmt.Fprintf(w, "\n%s\n", roff(usage))
	})
}

// roff writes text so that it is taken as it stands: no escapes, no requests at the beginning of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

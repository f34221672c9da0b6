package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// holding is how long an override holds and why: asked for on every one, since an override that nobody remembers is the
// outage of the month after.
type holding struct {
	hold, reason string
	forever      bool
}

func (t *holding) register(c *cobra.Command) {
	c.Flags().StringVar(&t.hold, "for", "", "how long it holds, such as 1h")
	c.Flags().BoolVar(&t.forever, "until-ended", false, "it holds until it is ended by hand")
	c.Flags().StringVar(&t.reason, "reason", "", "why: shown in status, kept in the log")
}

func (t *holding) check() error {
	switch {
	case t.reason == "":
		return fault.Usage("no reason was given", "add --reason TEXT: it is shown to whoever meets the override")
	case t.hold == "" && !t.forever:
		return fault.Usage("no end was given", "add --for DURATION, or --until-ended")
	case t.hold != "" && t.forever:
		return fault.Usage("--for and --until-ended exclude each other", "")
	}
	return nil
}

// overrule runs one override request and shows what it did.
func (a *app) overrule(call func(*api.Client) (api.OverrideResult, error)) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := call(c)
	if err != nil {
		return err
	}
	return a.show(r, func(w io.Writer, p text.Painter) { render.Override(w, p, r) })
}

func (a *app) forceCommand() *cobra.Command {
	var t holding
	var end bool
	c := &cobra.Command{
		Use:     "force SERVICE/RULE EDGE --for DURATION --reason TEXT",
		Short:   "Make a rule answer with one edge, whatever is measured",
		Example: "  steer force shop/default west --for 1h --reason 'maintenance of east'\n  steer force --end shop/default",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if end && len(args) == 1 {
				return a.overrule(func(c *api.Client) (api.OverrideResult, error) {
					return c.Unforce(cmd.Context(), api.UndoRequest{Target: args[0], Reason: t.reason})
				})
			}
			if end || len(args) != 2 {
				return fault.Usage("force wants SERVICE/RULE and EDGE, or --end and SERVICE/RULE", "see `steer help force`")
			}
			if err := t.check(); err != nil {
				return err
			}
			return a.overrule(func(c *api.Client) (api.OverrideResult, error) {
				return c.Force(cmd.Context(), api.ForceRequest{Rule: args[0], Edge: args[1], For: t.hold, Reason: t.reason})
			})
		},
	}
	t.register(c)
	c.Flags().BoolVar(&end, "end", false, "end the force of SERVICE/RULE")
	return c
}

func (a *app) unforceCommand() *cobra.Command {
	return a.undo("unforce SERVICE/RULE", "End a force", func(c *api.Client, cmd *cobra.Command, target, reason string) (api.OverrideResult, error) {
		return c.Unforce(cmd.Context(), api.UndoRequest{Target: target, Reason: reason})
	})
}

func (a *app) freezeCommand() *cobra.Command {
	var t holding
	c := &cobra.Command{
		Use:   "freeze SERVICE[/RULE] --for DURATION --reason TEXT",
		Short: "Stop every automatic move, also for failure",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return a.overrule(func(c *api.Client) (api.OverrideResult, error) {
				return c.Freeze(cmd.Context(), api.FreezeRequest{Target: args[0], For: t.hold, Reason: t.reason})
			})
		},
	}
	t.register(c)
	return c
}

func (a *app) unfreezeCommand() *cobra.Command {
	return a.undo("unfreeze SERVICE[/RULE]", "End a freeze", func(c *api.Client, cmd *cobra.Command, target, reason string) (api.OverrideResult, error) {
		return c.Unfreeze(cmd.Context(), api.UndoRequest{Target: target, Reason: reason})
	})
}

func (a *app) drainCommand() *cobra.Command {
	var t holding
	c := &cobra.Command{
		Use:   "drain SERVICE/EDGE|NODE|POINT --for DURATION --reason TEXT",
		Short: "Take an edge out of every rule, or a node or probe point out of use",
		Long: `Take an edge out of every rule, or a node out of use: a drained probe point has no vote, and rules that choose
points by near or labels choose others; a drained name server is told so and answers on, so that whoever sends
resolvers to it can stop first.`,
		Example: "  steer drain shop/east --for 2h --reason 'new kernel'\n  steer drain tokyo --until-ended --reason 'its uplink is broken'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return a.overrule(func(c *api.Client) (api.OverrideResult, error) {
				d, err := drained(cmd.Context(), c, args[0])
				if err != nil {
					return api.OverrideResult{}, err
				}
				return c.Drain(cmd.Context(), api.DrainRequest{Edge: d.edge, Node: d.node, Point: d.point, For: t.hold, Reason: t.reason})
			})
		},
	}
	t.register(c)
	return c
}

func (a *app) undrainCommand() *cobra.Command {
	return a.undo("undrain SERVICE/EDGE|NODE|POINT", "End a drain", func(c *api.Client, cmd *cobra.Command, target, reason string) (api.OverrideResult, error) {
		d, err := drained(cmd.Context(), c, target)
		if err != nil {
			return api.OverrideResult{}, err
		}
		return c.Undrain(cmd.Context(), api.UndoRequest{Edge: d.edge, Node: d.node, Point: d.point, Reason: reason})
	})
}

// drainTarget is what a drain is about: one of the fields is set.
type drainTarget struct{ edge, node, point string }

// drained tells edges, nodes and points apart: only an edge has its service's name before it, and a point that is no
// node is one of the control process itself.
func drained(ctx context.Context, c *api.Client, target string) (drainTarget, error) {
	if strings.Contains(target, "/") {
		return drainTarget{edge: target}, nil
	}
	nodes, err := c.AllNodes(ctx)
	if err != nil {
		return drainTarget{}, err
	}
	if slices.ContainsFunc(nodes, func(n api.NodeView) bool { return n.Name == target }) {
		return drainTarget{node: target}, nil
	}
	return drainTarget{point: target}, nil
}

// undo is the shape of the commands that end an override.
func (a *app) undo(use, short string, end func(c *api.Client, cmd *cobra.Command, target, reason string) (api.OverrideResult, error)) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.overrule(func(c *api.Client) (api.OverrideResult, error) { return end(c, cmd, args[0], reason) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return c
}

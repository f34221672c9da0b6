package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// nodeSubcommands are the commands of an operator about nodes; `steer node` itself runs one.
func nodeSubcommands(a *app) []*cobra.Command {
	return []*cobra.Command{a.nodeListCommand(), a.nodeRevokeCommand(), a.nodeRemoveCommand(), a.nodeLabelCommand()}
}

func (a *app) nodeListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the nodes: roles, state, labels, map, tasks, certificate, clock",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			s, err := c.Status(cmd.Context(), api.StatusParams{})
			if err != nil {
				return err
			}
			if s.Nodes == nil { // a control of the version before
				s.Nodes = []api.NodeView{}
			}
			return a.show(s.Nodes, func(w io.Writer, p text.Painter) { render.Nodes(w, p, s.Now, s.Map.Version, s.Nodes) })
		},
	}
}

func (a *app) nodeRevokeCommand() *cobra.Command {
	var r api.RevokeRequest
	c := &cobra.Command{
		Use:   "revoke NAME --reason TEXT",
		Short: "Refuse a node's certificates from now on, for good",
		Long: `Refuse a node's certificates from now on, for good: what it is connected with is cut at once, and its observations
count no more. A revoked name server still answers by its last map: stop it. ` + "`steer node remove`" + ` frees its name.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Reason == "" {
				return fault.Usage("no reason was given", "add --reason TEXT: it is kept with the node")
			}
			return a.onNode(func(c *api.Client) (api.NodeView, error) { return c.RevokeNode(cmd.Context(), args[0], r) })
		},
	}
	c.Flags().StringVar(&r.Reason, "reason", "", "why: shown with the node, kept in the log")
	return c
}

func (a *app) nodeRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a node: its certificates are refused and its name is free",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveNode(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.show(struct {
				Removed string `json:"removed"`
			}{args[0]}, func(w io.Writer, _ text.Painter) { fmt.Fprintf(w, "node %s is removed\n", args[0]) })
		},
	}
}

func (a *app) nodeLabelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "label NAME KEY=VALUE... KEY-...",
		Short: "Change the labels of a node: set some, take some away",
		Long: `Change the labels that say where a node is. Rules choose probe points by them, with near or labels; the choice is
made anew at once. The labels are continent, country, province, city, isp, region, and any of your own.`,
		Example: "  steer node label tokyo-1 country=JP isp=ntt\n  steer node label tokyo-1 isp-",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := labelChange(args[1:])
			if err != nil {
				return err
			}
			return a.onNode(func(c *api.Client) (api.NodeView, error) { return c.LabelNode(cmd.Context(), args[0], r) })
		},
	}
}

// labelChange reads "k=v" as a label to set and "k-" as one to take away.
func labelChange(args []string) (api.LabelsRequest, error) {
	r := api.LabelsRequest{Set: map[string]string{}}
	for _, arg := range args {
		key, value, set := strings.Cut(arg, "=")
		gone, takes := strings.CutSuffix(arg, "-")
		switch {
		case set && key != "" && value != "":
			r.Set[key] = value
		case !set && takes && gone != "":
			r.Remove = append(r.Remove, gone)
		default:
			return r, fault.Usage(fmt.Sprintf("%q is neither KEY=VALUE nor KEY-", arg), "write city=Tokyo to set a label, city- to take it away")
		}
	}
	return r, nil
}

// onNode runs one request about a node and shows the node as it is then.
func (a *app) onNode(call func(*api.Client) (api.NodeView, error)) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	n, err := call(c)
	if err != nil {
		return err
	}
	return a.show(n, func(w io.Writer, _ text.Painter) { render.Node(w, n) })
}

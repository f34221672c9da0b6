package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

func (a *app) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke tokens: for machines that join as nodes, and with --api for who uses the API",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var r api.TokenRequest
	var forAPI apiTokenFlags
	c := &cobra.Command{
		Use:   "create --role ROLES",
		Short: "Make a token with which one machine may join, once",
		Long: `Make a join token. It is the only thing on standard output, so that it can go into a file; only a hash of it is
kept here, and it is shown this once. Whoever has it can join as a node with these roles until it is used or its
time is over.

With --api it is a token for people and programs that use the API: --role viewer reads; operator also forces, freezes,
drains, probes and writes services; admin does everything. --service limits it to services, --name says who it is for, and
--for how long it lives (by default until it is revoked).`,
		Example: "  steer token create --role dns,probe > token\n" +
			"  steer token create --role probe --name tokyo-1 --for 10m\n" +
			"  steer token create --api --role operator --service shop --name shop-team --for 720h > token",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if forAPI.api {
				return a.createAPIToken(cmd.Context(), &forAPI, &r)
			}
			if len(forAPI.services) > 0 {
				return fault.Usage("--service goes with --api", "a node is for every service; leave --service out")
			}
			if len(r.Roles) == 0 {
				return fault.Usage("no role was given", "say what the node may do: --role dns, --role edge, --role probe, or several: --role dns,probe")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := c.CreateToken(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.showToken(made, made.Token, func() { a.tokenHint(cmd.Context(), c, made.View) })
		},
	}
	c.Flags().StringSliceVar(&r.Roles, "role", nil, "what the node may do: dns, edge, probe (comma list, or repeated); with --api: viewer, operator or admin")
	c.Flags().StringVar(&r.Name, "name", "", "the only name the node may have (default: the node says its own); with --api: who it is for")
	c.Flags().StringVar(&r.For, "for", "", "how long it can be used (default 1h, at most 720h; with --api until it is revoked)")
	forAPI.create(c)
	return c
}

// showToken shows a token that was made: all that is known of it to a program, its text to a person, who then gets the hint.
func (a *app) showToken(made any, token string, hint func()) error {
	if a.output != "" {
		return a.encode(made)
	}
	if _, err := fmt.Fprintln(a.out, token); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	hint()
	return nil
}

// tokenHint says on stderr what the token is for and how it is used.
func (a *app) tokenHint(ctx context.Context, c *api.Client, v api.TokenView) {
	a.progress("join token %s for one node with %s; it can be used once, until %s (%s)", v.ID, rolesText(v.Roles),
		v.Expires.Local().Format("2006-01-02 15:04:05"), text.Ago(a.now(), v.Expires))
	where := "HOST:7072"
	switch s, err := c.Status(ctx, api.StatusParams{}); {
	case err != nil: // only a hint: the token is made either way
	case s.Listeners[settings.RoleNodes] == "":
		a.progress("this control takes no nodes yet: start it with --listen nodes=ADDR:7072")
	default:
		where = joinAddress(s.Listeners[settings.RoleNodes])
	}
	name := ""
	if v.Name != "" {
		name = " --name " + v.Name
	}
	a.progress("on the node: steer node --roles %s --join https://%s --token FILE%s", strings.Join(v.Roles, ","), where, name)
}

func rolesText(roles []string) string {
	if len(roles) == 1 {
		return "the role " + roles[0]
	}
	return "the roles " + strings.Join(roles, ", ")
}

// joinAddress is the listener of nodes as a node would name it: HOST stands for a name that only the operator knows.
func joinAddress(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return listener
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return "HOST:" + port
	}
	return listener
}

func (a *app) tokenListCommand() *cobra.Command {
	var forAPI apiTokenFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tokens: for what, until when, used by which node",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if forAPI.api {
				return a.listAPITokens(cmd.Context())
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := c.AllTokens(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer, p text.Painter) { render.Tokens(w, p, time.Now(), list) })
		},
	}
	forAPI.list(c)
	return c
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	var forAPI apiTokenFlags
	c := &cobra.Command{
		Use:   "revoke ID",
		Short: "Delete a token; a node that joined with it stays",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if forAPI.api || strings.HasPrefix(args[0], "api.") {
				return a.revokeAPIToken(cmd.Context(), args[0])
			}
			id, _, whole := strings.Cut(args[0], ".") // the whole token is taken too: it is what the operator has
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RevokeToken(cmd.Context(), id); err != nil {
				return err
			}
			if whole {
				a.progress("only the first part of a token is its ID: do not leave the rest in shell histories")
			}
			return a.show(struct {
				Revoked string `json:"revoked"`
			}{id}, func(w io.Writer, _ text.Painter) { fmt.Fprintf(w, "token %s is revoked\n", id) })
		},
	}
	forAPI.list(c)
	return c
}

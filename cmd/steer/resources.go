package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
	"steerpoint/spec"
)

// kindOf is the name of a kind from what people type: any case, singular or plural.
func kindOf(s string) (string, error) {
	k, ok := spec.ParseKind(s)
	if !ok {
		return "", fault.BadInput("UNKNOWN_KIND", fmt.Sprintf("there is no kind %q", s), "", "the kinds are service, zone, override, notifier, secret, ruleset and certificate")
	}
	return string(k), nil
}

func (a *app) getCommand() *cobra.Command {
	var filter string
	c := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Show resources, or one as it was written",
		Example: "  steer get services\n" +
			"  steer get services --filter 'name=web-* label.team=edge'\n" +
			"  steer get service shop > shop.yaml",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if len(args) == 1 && kind == string(spec.KindCertificate) && a.output == "" && filter == "" { // with how each is
				s, err := c.Status(cmd.Context(), api.StatusParams{})
				if err != nil {
					return err
				}
				return a.show(s.Certificates, func(w io.Writer, p text.Painter) { render.Certificates(w, p, s.Now, s.Certificates) })
			}
			if len(args) == 1 {
				rs, err := collect(math.MaxInt, func(cursor string, n int) ([]api.Resource, string, error) {
					page, _, err := c.ListResources(cmd.Context(), kind, api.ListResourcesParams{Cursor: cursor, Limit: n, Filter: filter})
					return page.Resources, page.Next, err
				})
				if err != nil {
					return err
				}
				return a.show(rs, func(w io.Writer, p text.Painter) { render.Resources(w, p, a.now(), rs) })
			}
			if filter != "" {
				return fault.Usage("--filter chooses from a list, and "+args[1]+" is one resource", "leave one of them out")
			}
			r, err := c.Get(cmd.Context(), kind, args[1])
			if err != nil {
				return err
			}
			if a.output != "" {
				return a.encode(r)
			}
			y, err := yamlOf(r.Document)
			if err != nil {
				return fmt.Errorf("document of %s %s: %w", kind, args[1], err)
			}
			_, err = a.out.Write(y)
			return err
		},
	}
	c.Flags().StringVar(&filter, "filter", "", "only resources that fit, such as 'name=web-* label.team=edge'")
	return c
}

func (a *app) deleteCommand() *cobra.Command {
	var revision int64
	c := &cobra.Command{
		Use:   "delete KIND NAME",
		Short: "Delete a resource",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if revision == 0 { // what is deleted is what is there now, and not what somebody writes meanwhile
				r, err := c.Get(cmd.Context(), kind, args[1])
				if err != nil {
					return err
				}
				revision = r.Revision
			}
			if err := c.Delete(cmd.Context(), kind, args[1], revision); err != nil {
				return err
			}
			done := map[string]any{"kind": kind, "name": args[1], "deleted": true}
			return a.show(done, func(w io.Writer, _ text.Painter) {
				fmt.Fprintf(w, "%s %s deleted\n", strings.ToLower(kind), args[1])
			})
		},
	}
	c.Flags().Int64Var(&revision, "revision", 0, "delete only this revision (0: whatever is there)")
	return c
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON Schema of a kind",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			b := spec.Schema(spec.Kind(kind))
			if a.output == "yaml" {
				if b, err = yamlOf(b); err != nil {
					return fmt.Errorf("schema of %s: %w", kind, err)
				}
			}
			_, err = fmt.Fprintln(a.out, strings.TrimRight(string(b), "\n"))
			return err
		},
	}
}

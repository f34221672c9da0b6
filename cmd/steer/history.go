package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
	"steerpoint/spec"
)

func (a *app) historyCommand() *cobra.Command {
	var revision int64
	var limit int
	c := &cobra.Command{
		Use:   "history KIND NAME",
		Short: "Show the revisions of a resource, newest first: when, by whom, and what each changed",
		Example: "  steer history service shop\n" +
			"  steer history service shop --show 42 > shop.yaml",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			if limit < 1 {
				return fault.Usage("--limit must be at least 1", "")
			}
			if cmd.Flags().Changed("show") {
				return a.showRevision(cmd, kind, args[1], revision)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := collect(limit, func(cursor string, n int) ([]api.Revision, string, error) {
				page, err := c.History(cmd.Context(), kind, args[1], api.HistoryParams{Cursor: cursor, Limit: n})
				return page.Revisions, page.Next, err
			})
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer, p text.Painter) { render.History(w, p, a.now(), list) })
		},
	}
	c.Flags().Int64Var(&revision, "show", 0, "print the resource as it was at this revision")
	c.Flags().IntVar(&limit, "limit", 1000, "at most so many revisions")
	return c
}

// showRevision prints one revision as it was written.
func (a *app) showRevision(cmd *cobra.Command, kind, name string, revision int64) error {
	if revision < 1 {
		return fault.Usage("--show takes a revision, a number from 1 up", "`steer history` lists them")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.HistoryRevision(cmd.Context(), kind, name, revision)
	if err != nil {
		return err
	}
	if a.output != "" {
		return a.encode(r)
	}
	if r.Document == nil {
		return &fault.Error{
			Exit: fault.ExitNotSo, Code: api.CodeNotFound, What: fmt.Sprintf("revision %d of %s %s is its deletion", revision, strings.ToLower(kind), name),
			Why: "there is nothing to show", Do: "show the revision before it; `steer history` lists them",
		}
	}
	y, err := yamlOf(r.Document)
	if err != nil {
		return fmt.Errorf("document of %s %s: %w", kind, name, err)
	}
	_, err = a.out.Write(y)
	return err
}

// collect reads pages until there are limit entries or no more. An empty list is [] in JSON, not null.
func collect[T any](limit int, page func(cursor string, n int) ([]T, string, error)) ([]T, error) {
	list, cursor := []T{}, ""
	for len(list) < limit {
		part, next, err := page(cursor, min(limit-len(list), 100))
		if err != nil {
			return nil, err
		}
		list = append(list, part...)
		if cursor = next; cursor == "" {
			break
		}
	}
	return list, nil
}

func (a *app) rollbackCommand() *cobra.Command {
	var dry bool
	var reason string
	c := &cobra.Command{
		Use:   "rollback KIND NAME REVISION --reason TEXT",
		Short: "Write an earlier revision of a resource again, also of a deleted one",
		Example: "  steer history service shop\n" +
			"  steer rollback service shop 42 --reason 'the new rule was wrong'",
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			revision, err := strconv.ParseInt(args[2], 10, 64)
			if err != nil || revision < 1 {
				return fault.Usage(args[2]+" is not a revision", "`steer history "+args[0]+" "+args[1]+"` lists them")
			}
			if !dry && strings.TrimSpace(reason) == "" {
				return fault.Usage("no reason was given", "add --reason TEXT: it is kept in the history")
			}
			return a.rollback(cmd, api.RollbackRequest{Kind: kind, Name: args[1], Revision: revision, Reason: reason}, dry)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show the plan")
	c.Flags().StringVar(&reason, "reason", "", "why: kept in history and audit trail")
	return c
}

// rollback shows the plan and then does what was shown.
func (a *app) rollback(cmd *cobra.Command, req api.RollbackRequest, dry bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	req.DryRun = true
	plan, err := c.Rollback(cmd.Context(), req)
	if err != nil {
		return err
	}
	write := func() (api.Plan, error) {
		req.DryRun, req.Base = false, plan.Base // what is written is what was shown
		return c.Rollback(cmd.Context(), req)
	}
	return a.showAndWrite(plan, dry, write, func(w io.Writer, written api.Plan) {
		fmt.Fprintf(w, "revision %d is written again as revision %d\n", req.Revision, written.Revision)
	})
}

func (a *app) auditCommand() *cobra.Command {
	var since string
	var q api.AuditParams
	var limit int
	c := &cobra.Command{
		Use:   "audit",
		Short: "Show the audit trail, newest first: who wrote what, and why",
		Example: "  steer audit --since 24h\n" +
			"  steer audit --kind service --name shop --actor anna --since 720h",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := text.ParseSince(a.now(), since)
			if err != nil {
				return fault.Usage("--since "+err.Error(), "")
			}
			q.Since = api.TimeParam(from)
			if limit < 1 {
				return fault.Usage("--limit must be at least 1", "")
			}
			if k, ok := spec.ParseKind(q.Kind); ok {
				q.Kind = string(k)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := collect(limit, func(cursor string, n int) ([]api.AuditLine, string, error) {
				q.Cursor, q.Limit = cursor, n
				page, err := c.Audit(cmd.Context(), q)
				return page.Lines, page.Next, err
			})
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer, p text.Painter) { render.Audit(w, p, a.now(), list) })
		},
	}
	c.Flags().StringVar(&since, "since", "24h", "how far back: a duration, or a time")
	c.Flags().StringVar(&q.Kind, "kind", "", "only this kind: service, zone, override, node, token")
	c.Flags().StringVar(&q.Name, "name", "", "only what has this name")
	c.Flags().StringVar(&q.Actor, "actor", "", "only what this one wrote")
	c.Flags().StringVar(&q.Filter, "filter", "", "only lines that fit, such as 'action=delete actor!=ci'")
	c.Flags().IntVar(&limit, "limit", 1000, "at most so many lines")
	return c
}

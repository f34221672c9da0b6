package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/input"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// applyFlags are what apply and plan have in common.
type applyFlags struct {
	files []string
	set   string
	prune bool
}

func (f *applyFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.files, "file", "f", nil, "file, folder, or - for standard input (repeatable)")
	c.Flags().StringVar(&f.set, "set", "", `apply set these resources belong to (default "default")`)
	c.Flags().BoolVar(&f.prune, "prune", false, "delete what the same set owns and these files do not name (never overrides and secrets)")
}

func (f *applyFlags) request(ctx context.Context, in io.Reader) (api.ApplyRequest, error) {
	src, err := input.Read(ctx, f.files, in)
	return api.ApplyRequest{Sources: src, ApplySet: f.set, Prune: f.prune}, err
}

// planOf reads what the flags name and works out what it would change.
func (a *app) planOf(ctx context.Context, f *applyFlags) (api.ApplyRequest, api.Plan, error) {
	req, err := f.request(ctx, a.in)
	if err != nil {
		return req, api.Plan{}, err
	}
	plan, err := a.plan(ctx, req)
	return req, plan, err
}

func (a *app) planCommand() *cobra.Command {
	var f applyFlags
	var detailed bool
	c := &cobra.Command{
		Use:   "plan -f FILE|DIR|-",
		Short: "Show what apply would change, and which rules would answer differently",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, plan, err := a.planOf(cmd.Context(), &f)
			if err != nil {
				return err
			}
			if err := a.showPlan(plan); err != nil {
				return err
			}
			if detailed && len(plan.Changes) > 0 {
				return fault.NotSo()
			}
			return nil
		},
	}
	f.register(c)
	c.Flags().BoolVar(&detailed, "detailed", false, "exit 1 when there is something to do")
	return c
}

func (a *app) applyCommand() *cobra.Command {
	var f applyFlags
	var dry bool
	c := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Validate resources, show the plan and write them: all, or nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, plan, err := a.planOf(cmd.Context(), &f)
			if err != nil {
				return err
			}
			write := func() (api.Plan, error) {
				req.Base = plan.Base // what is written is what was shown
				c, err := a.client()
				if err != nil {
					return api.Plan{}, err
				}
				return c.Apply(cmd.Context(), req)
			}
			return a.showAndWrite(plan, dry, write, func(w io.Writer, written api.Plan) {
				fmt.Fprintf(w, "applied at revision %d\n", written.Revision)
			})
		},
	}
	f.register(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "only show the plan")
	return c
}

// showAndWrite shows a plan and then, unless dry, has it written and says what came of it. A program is given one of the
// two: what was written, or with dry the plan.
func (a *app) showAndWrite(plan api.Plan, dry bool, write func() (api.Plan, error), say func(io.Writer, api.Plan)) error {
	if dry {
		return a.showPlan(plan)
	}
	if a.output == "" {
		if err := a.showPlan(plan); err != nil || len(plan.Changes) == 0 {
			return err
		}
	}
	written, err := write()
	if err != nil {
		return err
	}
	return a.show(written, func(w io.Writer, _ text.Painter) { say(w, written) })
}

func (a *app) showPlan(plan api.Plan) error {
	return a.show(plan, func(w io.Writer, p text.Painter) { render.Plan(w, p, plan) })
}

// plan asks the server. Without one, the files are still checked by themselves: a mistake in them is said first, and
// only then that there is nothing to compare with.
func (a *app) plan(ctx context.Context, req api.ApplyRequest) (api.Plan, error) {
	c, err := a.client()
	if err == nil {
		var plan api.Plan
		if plan, err = c.Plan(ctx, req); err == nil {
			return plan, nil
		}
	}
	if !noServer(err) {
		return api.Plan{}, invalid(req, err)
	}
	if bad := checkAlone(req.Sources); bad != nil {
		return api.Plan{}, bad
	}
	f := *faultOf(err)
	f.What = "the resources are well formed, but " + f.What + " to compare them with"
	return api.Plan{}, &f
}

// invalid counts the mistakes of a refused request and says that nothing was changed.
func invalid(req api.ApplyRequest, err error) error {
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeInvalid {
		return err
	}
	e := problem(p)
	var lines []string
	for _, it := range p.Errors {
		lines = append(lines, mistake(it))
	}
	e.Why = strings.Join(lines, "\n")
	e.What = mistakes(len(p.Errors), len(req.Sources)) + "; nothing was changed"
	return e
}

func noServer(err error) bool { return faultOf(err).Exit == fault.ExitNoServer }

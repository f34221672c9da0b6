package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/render"
	"steerpoint/control/api"
)

// rewatch is the pause before a lost stream is opened again: short enough to miss little, long enough not to spin.
const rewatch = time.Second

func (a *app) watchCommand() *cobra.Command {
	var service string
	c := &cobra.Command{
		Use:   "watch",
		Short: "Show what happens as it happens, one line an event, until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			c, err := a.client()
			if err != nil {
				return err
			}
			if _, err := c.Version(ctx); err != nil { // the first failure is told; later ones are waited out
				return err
			}
			return a.follow(ctx, c, service)
		},
	}
	c.Flags().StringVar(&service, "service", "", "only this service")
	return c
}

// follow shows events until ctx ends. A lost server is said once and waited for: whoever watches a restart wants to
// see what comes after it.
func (a *app) follow(ctx context.Context, c *api.Client, service string) error {
	var last uint64
	lost := false
	for {
		next, err := c.Watch(ctx, service, last, func(e api.Event) error {
			lost = false
			return a.event(e)
		})
		var refused *api.Problem
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl-C is how watching ends
		case errors.As(err, &refused) && refused.Code != api.CodeNotReady:
			return err
		case err != nil && !errors.Is(err, api.ErrUnreachable) && !errors.As(err, &refused):
			return err
		}
		last = next
		if !lost {
			a.progress("the server went away; waiting for it")
			lost = true
		}
		select {
		case <-time.After(rewatch):
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *app) event(e api.Event) error {
	if a.output == "" {
		render.Event(a.out, a.painter(), e)
		return nil
	}
	if a.output == "yaml" {
		if _, err := fmt.Fprintln(a.out, "---"); err != nil {
			return err
		}
		return a.encode(e)
	}
	return json.NewEncoder(a.out).Encode(e) // one event a line
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// apiTokenFlags are the options by which a token command is about the API.
type apiTokenFlags struct {
	api      bool
	services []string
}

func (f *apiTokenFlags) create(c *cobra.Command) {
	c.Flags().BoolVar(&f.api, "api", false, "make a token of the API for a person or a program, not one for a node")
	c.Flags().StringSliceVar(&f.services, "service", nil, "with --api: the only services it is for (comma list, or repeated; default all)")
}

func (f *apiTokenFlags) list(c *cobra.Command) {
	c.Flags().BoolVar(&f.api, "api", false, "the tokens of the API, not those for nodes")
}

// createAPIToken makes a token of the API from what `steer token create` was given.
func (a *app) createAPIToken(ctx context.Context, f *apiTokenFlags, r *api.TokenRequest) error {
	switch {
	case len(r.Roles) != 1:
		return fault.Usage("a token of the API has one role", "say which: --role viewer (reads), operator (also acts on services), or admin")
	case r.Name == "":
		return fault.Usage("no name was given", "say who it is for with --name: the audit trail names it")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	made, err := c.CreateAPIToken(ctx, api.APITokenRequest{Name: r.Name, Role: r.Roles[0], Services: f.services, For: r.For})
	if err != nil {
		return err
	}
	return a.showToken(made, made.Token, func() { a.apiTokenHint(&made.View) })
}

// apiTokenHint says on stderr what the token is for and how it is used.
func (a *app) apiTokenHint(v *api.APITokenView) {
	until := "until it is revoked"
	if v.Expires != nil {
		until = "until " + v.Expires.Local().Format("2006-01-02 15:04:05") + " (" + text.Ago(a.now(), *v.Expires) + ")"
	}
	of := "every service"
	if len(v.Services) > 0 {
		of = strings.Join(v.Services, ", ")
	}
	a.progress("API token %s for %s: %s of %s, %s; it is shown this once", v.ID, v.Name, v.Role, of, until)
	a.progress("to use it: steer login --server URL --token-file FILE")
}

// listAPITokens shows the tokens of the API.
func (a *app) listAPITokens(ctx context.Context) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	list, err := c.APITokens(ctx)
	if err != nil {
		return err
	}
	return a.show(list.Tokens, func(w io.Writer, p text.Painter) { render.APITokens(w, p, time.Now(), list.Tokens) })
}

// revokeAPIToken deletes a token of the API by ID, name, or its whole text.
func (a *app) revokeAPIToken(ctx context.Context, word string) error {
	parts := strings.Split(word, ".")
	whole := len(parts) == 4 && parts[0] == "api" // what the operator has
	if whole {
		word = parts[1]
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := c.RevokeAPIToken(ctx, word); err != nil {
		return err
	}
	if whole {
		a.progress("only the second part of a token is its ID: do not leave the rest in shell histories")
	}
	return a.show(struct {
		Revoked string `json:"revoked"`
	}{word}, func(w io.Writer, _ text.Painter) { fmt.Fprintf(w, "token %s of the API is revoked\n", word) })
}

package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/codes"
	"steerpoint/cmd/steer/internal/geoimport"
	"steerpoint/control/api"
	"steerpoint/spec"
)

// completionWait bounds what a press of the tab key waits for: longer than a server nearby takes, and not yet a pause
// that makes people wonder.
const completionWait = time.Second

func (a *app) completionCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: `Print the completion script of a shell. With it the tab key completes commands, options, and the names of services,
rules, edges, nodes and probe points, which it asks the running server for.`,
		Example: "  steer completion bash > /etc/bash_completion.d/steer\n" +
			"  steer completion zsh > \"${fpath[1]}/_steer\"\n" +
			"  steer completion fish > ~/.config/fish/completions/steer.fish",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			}
			return root.GenBashCompletionV2(a.out, true)
		},
	}
}

// words gives what may stand at one place of a command line.
type words func(ctx context.Context, c *api.Client) []string

// complete teaches the commands of the program what their arguments may be. It is called once all of them are there.
func (a *app) complete(root *cobra.Command) {
	root.InitDefaultHelpCmd() // else it is added later, and not found here
	for path, places := range map[string][]words{
		"get":          {kinds, nil},
		"delete":       {kinds, nil},
		"history":      {kinds, nil},
		"rollback":     {kinds, nil},
		"geo import":   {datasets},
		"schema":       {kinds},
		"status":       {services},
		"series":       {services},
		"explain":      {domains},
		"force":        {rules, nil},
		"unforce":      {rules},
		"freeze":       {both(services, rules)},
		"unfreeze":     {both(services, rules)},
		"drain":        {both(edges, nodes, pointNames)},
		"undrain":      {both(edges, nodes, pointNames)},
		"help":         {helpWords(root)},
		"node revoke":  {nodes},
		"node remove":  {nodes},
		"node label":   {nodes},
		"token revoke": {tokens},
		"secret set":   {resources("secret")},
		"secret unset": {resources("secret")},
	} {
		if c, rest, err := root.Find(strings.Fields(path)); err == nil && len(rest) == 0 {
			c.ValidArgsFunction = a.arguments(path, places)
		}
	}
	for _, f := range []struct {
		command, flag string
		words         words
	}{{"probe", "edge", edges}, {"probe", "point", pointNames}, {"switches", "service", services}, {"watch", "service", services}} {
		c, _, err := root.Find([]string{f.command})
		if err != nil || c.Flags().Lookup(f.flag) == nil {
			continue
		}
		// It fails only for a flag that is not there, or is taught twice.
		_ = c.RegisterFlagCompletionFunc(f.flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.ask(cmd.Context(), f.words), cobra.ShellCompDirectiveNoFileComp
		})
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// arguments completes by place; nil stands for what depends on the argument before it.
func (a *app) arguments(path string, places []words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		switch {
		case len(args) >= len(places):
			return nil, none
		case places[len(args)] != nil:
			return a.ask(cmd.Context(), places[len(args)]), none
		case path == "force":
			return a.ask(cmd.Context(), edgesOf(args[0])), none
		}
		return a.ask(cmd.Context(), resources(args[0])), none
	}
}

// ask gets words from the running server. Without one there are none that need it, and nothing is said: nobody wants an
// error message in the middle of a command line.
func (a *app) ask(ctx context.Context, w words) []string {
	ctx, cancel := context.WithTimeout(ctx, completionWait)
	defer cancel()
	c, err := a.client()
	if err != nil {
		c = nil
	}
	out := w(ctx, c)
	slices.Sort(out)
	return slices.Compact(out)
}

func both(all ...words) words {
	return func(ctx context.Context, c *api.Client) []string {
		var out []string
		for _, w := range all {
			out = append(out, w(ctx, c)...)
		}
		return out
	}
}

func kinds(context.Context, *api.Client) []string {
	var out []string
	for _, k := range spec.Kinds() {
		out = append(out, strings.ToLower(string(k)))
	}
	return out
}

func datasets(context.Context, *api.Client) []string {
	var out []string
	for _, d := range geoimport.Datasets() {
		out = append(out, d.Name)
	}
	return out
}

// helpWords are the commands and the codes that `steer help` explains.
func helpWords(root *cobra.Command) words {
	return func(context.Context, *api.Client) []string {
		var out []string
		for _, c := range root.Commands() {
			if c.IsAvailableCommand() {
				out = append(out, c.Name())
			}
		}
		for _, p := range codes.All() {
			out = append(out, p.Code)
		}
		return out
	}
}

// resources gives the names of the resources of a kind.
func resources(kind string) words {
	return func(ctx context.Context, c *api.Client) []string {
		k, ok := spec.ParseKind(kind)
		if !ok || c == nil {
			return nil
		}
		list, err := c.List(ctx, string(k))
		if err != nil {
			return nil
		}
		out := make([]string, len(list))
		for i := range list {
			out[i] = list[i].Name
		}
		return out
	}
}

func services(ctx context.Context, c *api.Client) []string {
	return resources(string(spec.KindService))(ctx, c)
}

// parts is what completion needs of a service.
type parts struct {
	Name         string
	Domains      []string
	Edges, Rules []struct{ Name string }
}

// documents gives the services with their parts.
func documents(ctx context.Context, c *api.Client) []parts {
	if c == nil {
		return nil
	}
	list, err := c.List(ctx, string(spec.KindService))
	if err != nil {
		return nil
	}
	var out []parts
	for i := range list {
		var p parts
		if json.Unmarshal(list[i].Document, &p) == nil {
			out = append(out, p)
		}
	}
	return out
}

func domains(ctx context.Context, c *api.Client) []string {
	var out []string
	for _, p := range documents(ctx, c) {
		out = append(out, p.Domains...)
	}
	return out
}

func rules(ctx context.Context, c *api.Client) []string {
	var out []string
	for _, p := range documents(ctx, c) {
		for _, r := range p.Rules {
			out = append(out, p.Name+"/"+r.Name)
		}
	}
	return out
}

func edges(ctx context.Context, c *api.Client) []string {
	var out []string
	for _, p := range documents(ctx, c) {
		for _, e := range p.Edges {
			out = append(out, p.Name+"/"+e.Name)
		}
	}
	return out
}

// edgesOf gives the edges of the service of a rule, by their own names.
func edgesOf(rule string) words {
	return func(ctx context.Context, c *api.Client) []string {
		service, _, _ := strings.Cut(rule, "/")
		var out []string
		for _, p := range documents(ctx, c) {
			for _, e := range p.Edges {
				if p.Name == service {
					out = append(out, e.Name)
				}
			}
		}
		return out
	}
}

func nodes(ctx context.Context, c *api.Client) []string {
	return namesOf(c, func() ([]api.NodeView, error) { return c.AllNodes(ctx) }, func(n *api.NodeView) string { return n.Name })
}

func pointNames(ctx context.Context, c *api.Client) []string {
	points := func() ([]api.PointStatus, error) {
		s, err := c.Status(ctx, api.StatusParams{})
		return s.Points, err
	}
	return namesOf(c, points, func(p *api.PointStatus) string { return p.Name })
}

func tokens(ctx context.Context, c *api.Client) []string {
	return namesOf(c, func() ([]api.TokenView, error) { return c.AllTokens(ctx) }, func(t *api.TokenView) string { return t.ID })
}

// namesOf gives the name of each thing the server lists; nothing without a server, or when it does not say.
func namesOf[T any](c *api.Client, list func() ([]T, error), name func(*T) string) []string {
	if c == nil {
		return nil
	}
	all, err := list()
	if err != nil {
		return nil
	}
	out := make([]string, len(all))
	for i := range all {
		out[i] = name(&all[i])
	}
	return out
}

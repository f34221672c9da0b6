package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/term"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// app is what every command shares: where it reads and writes, and the flags all commands have.
type app struct {
	in        io.Reader
	out, errs io.Writer

	server, token, data, ca string
	output                  string // "", json or yaml
	noColor                 bool

	started bool // the command line was understood and the command itself has begun
}

// execute parses args and runs the command they name. Every error it returns is a *fault.Error.
func (a *app) execute(ctx context.Context, args []string) error {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errs)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return nil
	case !a.started:
		return fault.Usage(err.Error(), "see `steer help`")
	}
	return faultOf(err)
}

// faultOf turns an error of the API client, or any other, into one with an exit code.
func faultOf(err error) *fault.Error {
	var p *api.Problem
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &p):
		return problem(p)
	case untrusted(err):
		return &fault.Error{
			Exit: fault.ExitNoServer, Code: "SERVER_UNTRUSTED", What: "the server's certificate is not vouched for", Why: err.Error(),
			Do: "give the authority of its cluster with --ca FILE or STEER_CA: it is <data>/ca/ca.crt on that machine", Err: err,
		}
	case errors.Is(err, api.ErrUnreachable):
		return &fault.Error{
			Exit: fault.ExitNoServer, Code: "SERVER_UNREACHABLE", What: "no server was reached", Why: err.Error(),
			Do: "start one with `steer up`, or name one with --server URL or --data DIR", Err: err,
		}
	case errors.Is(err, context.Canceled):
		return &fault.Error{Exit: fault.ExitNotSo, Code: "INTERRUPTED", What: "interrupted", Err: err}
	}
	return &fault.Error{Exit: fault.ExitNotSo, Code: "FAILED", What: err.Error(), Err: err}
}

// problem gives a refusal of the server its exit code: what the operator wrote is wrong (2), what they asked about
// does not exist (1), or the server does not want to (3).
func problem(p *api.Problem) *fault.Error {
	e := &fault.Error{Exit: fault.ExitRefused, Code: p.Code, What: p.Title, Err: p}
	switch p.Code {
	case api.CodeInvalid, api.CodeBadRequest, api.CodeNotSupported, api.CodeTooLarge:
		e.Exit = fault.ExitBadInput
	case api.CodeNotFound, api.CodeBeforeTape:
		e.Exit = fault.ExitNotSo
	case api.CodeUnauthorized:
		e.Do = "give the token with --token or STEER_TOKEN, or log in with `steer login`; on the server's machine it is in <data>/admin.token"
	case api.CodeConflict, api.CodePreconditionFailed:
		e.Do = "look again with `steer plan` and repeat"
	}
	var lines []string
	for _, it := range p.Errors {
		lines = append(lines, mistake(it))
	}
	if p.Detail != "" && !strings.Contains(strings.Join(lines, "\n"), p.Detail) { // a single mistake is often both
		lines = slices.Insert(lines, 0, p.Detail)
	}
	e.Why = strings.Join(lines, "\n")
	return e
}

// mistake is one item of a problem on one line: where, field, what, and its code.
func mistake(it api.ProblemItem) string {
	s := it.Message
	if it.Location != "" {
		s = it.Location + ": " + s
	}
	if it.Code != "" {
		s += " [" + it.Code + "]"
	}
	return s
}

// client finds the server: --server, STEER_SERVER, the login, or the process that uses the data folder.
func (a *app) client() (*api.Client, error) {
	s, err := a.place().Find()
	if err != nil {
		return nil, err
	}
	c, err := clientOf(s)
	if err != nil {
		return nil, err
	}
	if u, err := user.Current(); err == nil { // without a name the server records the token's
		c = c.WithActor(u.Username)
	}
	return c, nil
}

// clientOf is a client of a server that was found.
func clientOf(s locate.Server) (*api.Client, error) {
	c := api.NewClient(s.URL, s.Token)
	var h *http.Client
	var err error
	switch {
	case s.CA != "":
		h, err = trusting(s.CA)
	case s.Authority != "":
		h, err = trustingText([]byte(s.Authority), "the login")
	default:
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	return c.WithHTTP(h), nil
}

func (a *app) place() locate.Options {
	return locate.Options{Server: a.server, Token: a.token, Data: a.data, CA: a.ca, Env: os.Getenv}
}

// dataDir is the data folder: --data, STEER_DATA, or the default.
func (a *app) dataDir() (string, error) {
	return a.place().DataDir()
}

// show writes v for programs with -o, and calls people otherwise.
func (a *app) show(v any, people func(w io.Writer, p text.Painter)) error {
	if a.output == "" {
		people(a.out, a.painter())
		return nil
	}
	return a.encode(v)
}

// encode writes v as -o asks. YAML has the field names and the order of the JSON.
func (a *app) encode(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if a.output == "yaml" {
		if b, err = yamlOf(b); err != nil {
			return fmt.Errorf("output: %w", err)
		}
		_, err = a.out.Write(b)
		return err
	}
	_, err = fmt.Fprintln(a.out, string(b))
	return err
}

// yamlOf rewrites JSON as block-style YAML: JSON is YAML, so only the style changes.
func yamlOf(b []byte) ([]byte, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		return nil, err
	}
	plain(&n)
	return yaml.Marshal(&n)
}

func plain(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle
	// Older readers of YAML take these words for booleans: they keep their quotes.
	if !slices.Contains([]string{"y", "n", "yes", "no", "on", "off"}, strings.ToLower(n.Value)) {
		n.Style &^= yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		plain(c)
	}
}

// painter colours on a terminal only, and never with --no-color or NO_COLOR.
func (a *app) painter() text.Painter {
	f, ok := a.out.(*os.File)
	return text.Painter{On: ok && !a.noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))}
}

// progress writes one line a step of long work, to stderr, so that stdout stays for the result.
func (a *app) progress(format string, args ...any) {
	fmt.Fprintf(a.errs, format+"\n", args...)
}

// now is the wall clock that ages are shown against when the server did not send its own.
func (a *app) now() time.Time { return time.Now() }

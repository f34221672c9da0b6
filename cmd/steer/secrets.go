package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
	"steerpoint/spec"
)

func (a *app) secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Write single values of Secrets, and seal all of them anew",
		Long: `Secrets are resources: ` + "`steer apply`" + ` writes them, ` + "`steer get secrets`" + ` lists them. Their values are never shown
again, only a fingerprint that is the same as long as the value is. docs/secrets.md says who can use them and how they
are kept.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.secretSetCommand(), a.secretUnsetCommand(), a.secretRotateCommand())
	return c
}

func (a *app) secretSetCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "set NAME KEY",
		Short: "Write one value of a Secret; its other values stay",
		Long: `Write one value of a Secret, which is made if it is not there. The value is read from standard input or from a file,
never from the command line, where others could see it. On a terminal it is asked for and not shown. One line end at the
end is left out.`,
		Example: "  steer secret set pager token < token.txt\n" +
			"  pass show hooks/pager | steer secret set pager token",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := a.readValue(cmd.Context(), file, args[0], args[1])
			if err != nil {
				return err
			}
			return a.editSecret(cmd.Context(), args[0], func(d *secretDocument) error {
				d.Data = map[string]string{args[1]: value}
				return nil
			})
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "-", "file that holds the value; - is standard input")
	return c
}

func (a *app) secretUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "unset NAME KEY",
		Short:   "Take one value out of a Secret; the last one goes with `steer delete secret NAME`",
		Example: "  steer secret unset pager old-token",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.editSecret(cmd.Context(), args[0], func(d *secretDocument) error {
				for i, k := range d.Keys {
					if k.Name == args[1] {
						d.Keys = append(d.Keys[:i], d.Keys[i+1:]...)
						return nil
					}
				}
				return &fault.Error{
					Exit: fault.ExitNotSo, Code: api.CodeNotFound, What: fmt.Sprintf("Secret %s has no key %s", args[0], args[1]),
					Do: "`steer get secret " + args[0] + "` shows its keys",
				}
			})
		},
	}
}

// secretDocument is a Secret as it is read and written. What is in neither keys nor data is gone when it is written.
type secretDocument struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty"`
	Keys       []spec.SecretKey  `json:"keys,omitempty"`
	Data       map[string]string `json:"data,omitempty"`
}

// editSecret reads a Secret, changes it and writes it, if nobody wrote it in between.
func (a *app) editSecret(ctx context.Context, name string, change func(*secretDocument) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	kind := string(spec.KindSecret)
	d := secretDocument{APIVersion: spec.APIVersion, Kind: kind, Name: name}
	var revision int64
	switch now, err := c.Get(ctx, kind, name); {
	case err == nil:
		if err := json.Unmarshal(now.Document, &d); err != nil {
			return fmt.Errorf("document of %s %s: %w", kind, name, err)
		}
		revision = now.Revision
	case api.CodeOf(err) != api.CodeNotFound:
		return err
	}
	if err := change(&d); err != nil {
		return err
	}
	body, err := json.Marshal(d)
	if err != nil {
		return errors.New("the Secret cannot be written as JSON") // the error itself may hold a part of it
	}
	written, err := c.Put(ctx, kind, name, revision, body)
	if err != nil {
		return err
	}
	return a.show(written, func(w io.Writer, _ text.Painter) {
		fmt.Fprintf(w, "secret %s is written at revision %d\n", name, written.Revision)
	})
}

// maxValue is far above what a Secret takes, so that the server says what is too long, and a device given by mistake ends.
const maxValue = 1 << 20

// readValue reads a value without its last line end.
func (a *app) readValue(ctx context.Context, file, name, key string) (string, error) {
	in := a.in
	if f, ok := in.(*os.File); ok && file == "-" && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(a.errs, "value of %s/%s (not shown): ", name, key)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(a.errs)
		if err != nil {
			return "", fmt.Errorf("value: %w", err)
		}
		return string(b), nil
	}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fault.BadInput("FILE_UNREADABLE", "cannot read "+file, err.Error(), "")
		}
		defer f.Close()
		in = f
	}
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(in, maxValue))
		done <- result{b, err}
	}()
	select {
	case <-ctx.Done(): // nothing comes, and somebody is tired of it
		return "", context.Cause(ctx)
	case r := <-done:
		if r.err != nil {
			return "", fault.BadInput("FILE_UNREADABLE", "cannot read the value", r.err.Error(), "")
		}
		value := strings.TrimSuffix(strings.TrimSuffix(string(r.b), "\n"), "\r")
		switch {
		case value == "":
			return "", fault.Usage("the value is empty", "give it on standard input or with --file")
		case !utf8.ValidString(value): // JSON would quietly make another value of it
			return "", fault.BadInput("FILE_UNREADABLE", "the value is not UTF-8 text", "", "encode it first, for example with base64")
		}
		return value, nil
	}
}

func (a *app) secretRotateCommand() *cobra.Command {
	var r api.RotateRequest
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Seal everything anew that is sealed, under fresh keys; values stay",
		Long: `Seal everything anew that is sealed: Secrets, the keys of signed zones, and what name servers share, each under a fresh data
key. What cannot be opened is named before anything is changed. With --new-key the data keys are sealed by a new sealing
key too; the file of the sealing key then holds it before the older ones, which only earlier revisions of Secrets need.
Copy that file to where you keep it. A rotation that breaks off is finished by itself.`,
		Example: "  steer secret rotate --reason 'every year'\n" +
			"  steer secret rotate --new-key --reason 'a backup with seal.key was lost'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			done, err := c.RotateSecrets(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.show(done, func(w io.Writer, _ text.Painter) {
				what := fmt.Sprint(done.Secrets, " secrets are")
				if done.Secrets == 1 {
					what = "1 secret is"
				}
				fmt.Fprintf(w, "%s sealed anew by key %s\n", what, done.Key)
				if done.Zones > 0 {
					fmt.Fprintf(w, "so are the keys of signed zones: %d\n", done.Zones)
				}
				if done.NewKey {
					fmt.Fprintln(w, "the file of the sealing key has changed: copy it to where you keep it, apart from backups")
				}
			})
		},
	}
	c.Flags().BoolVar(&r.NewKey, "new-key", false, "also make a new sealing key")
	c.Flags().StringVar(&r.Reason, "reason", "", "why: kept in history and audit trail")
	return c
}

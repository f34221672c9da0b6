package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control"
	"steerpoint/control/backup"
	"steerpoint/internal/folder"
)

func (a *app) restoreCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "restore FILE --data DIR",
		Short: "Fill an empty data folder from a backup, for a control that goes on from there",
		Long: `Fill a data folder that is absent or empty from a backup. It needs no server. The whole file is checked before anything
is written; what cannot be finished leaves nothing behind, and a folder whose restore was killed is refused by ` + "`steer\ncontrol`" + ` and taken by the next restore.

The restored control answers as on the day of the backup, learns the rest, and publishes maps under versions that the old
one cannot have given. Never let both run. --check only says whether a backup is whole, and what is in it.`,
		Example: "  steer restore steer-2026-01-02.tar.gz --check\n" +
			"  steer restore steer-2026-01-02.tar.gz --data /var/lib/steerpoint/control",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if check {
				return a.checkBackup(args[0])
			}
			return a.restore(cmd.Context(), args[0])
		},
	}
	c.Flags().BoolVar(&check, "check", false, "only check the file and say what is in it")
	return c
}

func (a *app) checkBackup(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return restoreFault(path, "", err)
	}
	defer f.Close()
	m, err := backup.Verify(f)
	if err != nil {
		return restoreFault(path, "", err)
	}
	return a.show(m, func(w io.Writer, _ text.Painter) {
		fmt.Fprintf(w, "%s is whole: made %s by steer %s on %s; %s\n", path, a.madeAt(&m), m.Program, m.Node, inside(&m))
		for _, l := range m.LeftOut {
			fmt.Fprintf(w, "  not in it: %s: %s\n", l.What, l.Why)
		}
	})
}

func (a *app) restore(ctx context.Context, path string) error {
	dir, err := a.dataDir()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	a.progress("checking %s, then filling %s", path, dir)
	done, err := control.Restore(ctx, control.Restoring{File: path, Data: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return restoreFault(path, dir, err)
	}
	return a.show(struct {
		Data       string            `json:"data"`
		MapVersion uint64            `json:"mapVersion"`
		Settings   string            `json:"settings,omitempty"` // where those of the backup are, beside a link
		GoodAgain  control.GoodAgain `json:"goodAgain"`
		Manifest   *backup.Manifest  `json:"manifest"`
	}{dir, done.MapVersion, done.Settings, done.GoodAgain, &done.Manifest}, func(w io.Writer, _ text.Painter) { a.sayRestored(w, dir, &done) })
}

// madeAt is when a backup was made: the time, and how long that is ago.
func (a *app) madeAt(m *backup.Manifest) string {
	return "at " + m.Created.Local().Format("2006-01-02 15:04:05") + " (" + text.Ago(a.now(), m.Created) + ")"
}

// sayRestored says what is in the folder, and what is left to do by hand.
func (a *app) sayRestored(w io.Writer, dir string, r *control.Restored) {
	fmt.Fprintf(w, "%s is restored as it was %s, by steer %s on %s: %s\n", dir, a.madeAt(&r.Manifest), r.Program, r.Node, inside(&r.Manifest))
	fmt.Fprintf(w, "  maps go on with version %d; revisions of resources are what they were\n", r.MapVersion)
	fmt.Fprintf(w, "  admin token: a new one is made at the first start, in %s\n", filepath.Join(dir, "admin.token"))
	switch {
	case r.AuthorityKey:
		fmt.Fprintln(w, "  authority: it is in place, so nodes come back by themselves when they reach control under its old address")
	case len(r.Nodes) > 0:
		fmt.Fprintf(w, "  authority: it was not in the backup, a new one is made; join anew, each after `steer node remove NAME`: %s\n", strings.Join(r.Nodes, ", "))
	default:
		fmt.Fprintln(w, "  authority: it was not in the backup, a new one is made; clients that pin the old one log in again")
	}
	if again := goodAgain(&r.GoodAgain); again != "" {
		fmt.Fprintf(w, "  revoke again what was revoked or removed since the backup, which lets in: %s\n", again)
	}
	if r.Settings != "" {
		fmt.Fprintf(w, "  settings: %s is a link and stays; those of the backup are in %s: compare them\n", filepath.Join(dir, backup.Settings), r.Settings)
	}
	if len(r.Secrets) > 0 {
		fmt.Fprintf(w, "  secrets: %s can only be opened with the sealing key of the old machine: put seal.key into %s (0600) before the first start; without it they are lost, and an alarm names each and who uses it\n",
			strings.Join(r.Secrets, ", "), dir)
	}
	fmt.Fprintf(w, "  sealing key: it also opens the keys of signed zones, which cannot be handed to this machine without it, and what DNS cookies are made of, which is then made anew; it belongs into %s (0600) before the first start\n",
		filepath.Join(dir, "seal.key"))
	for _, g := range r.Geo {
		fmt.Fprintf(w, "  geo data: put back %s (sha256 %.16s)\n", g.Path, g.SHA256+g.Error)
	}
	fmt.Fprintf(w, "  next: see that the old control is off for good and that steer.yaml fits this machine, then steer control --data %s\n", dir)
}

// goodAgain names what is let in by a restored control; "" for nothing.
func goodAgain(g *control.GoodAgain) string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"API tokens", g.APITokens}, {"join tokens", g.JoinTokens}, {"nodes", g.Nodes}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+" "+strings.Join(p.names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// restoreFault says why nothing was restored.
func restoreFault(file, dir string, err error) error {
	e := &fault.Error{Exit: fault.ExitBadInput, Why: err.Error(), Err: err, What: "nothing was restored from " + file}
	var path *os.PathError
	switch {
	case errors.Is(err, backup.ErrNewer):
		e.Code, e.Do = "BACKUP_NEWER", "restore with the version that wrote it, or a newer one"
	case errors.Is(err, backup.ErrDamaged):
		e.Code, e.Do = "BACKUP_DAMAGED", "take another backup: of this one nothing can be trusted"
	case errors.Is(err, folder.ErrNotEmpty):
		e.Code, e.Do = "RESTORE_NOT_EMPTY", "give an absent or an empty folder with --data DIR; move what is there away first"
	case errors.Is(err, folder.ErrLocked):
		e.Code, e.Do = "DATA_IN_USE", "stop the other process, or give another folder with --data DIR"
	case errors.As(err, &path) && path.Path == file:
		e.Code = "FILE_UNREADABLE"
	default:
		e.Exit, e.Code, e.Do = fault.ExitNotSo, "RESTORE_FAILED", "see to room and rights of "+dir+", and run it again"
	}
	return e
}

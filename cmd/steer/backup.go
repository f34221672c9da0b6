package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
	"steerpoint/control/backup"
)

func (a *app) backupCommand() *cobra.Command {
	var o api.BackupParams
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything that a new machine needs to go on into one file",
		Long: `Write a backup of the running control into one file (0600), as all of it is at one moment: resources, decisions, the
switch log, nodes and tokens, history, what rules know, and the settings. Nothing is held up meanwhile. The file is read
back and checked, and is complete or not there.

The key of the authority is only in it with --with-authority: who has it can make nodes. Without it every node has to
join anew after a restore. The key that opens Secrets (seal.key) is never in it: keep a copy of it elsewhere.`,
		Example: "  steer backup /srv/backup/steer-$(date +%F).tar.gz --with-authority",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.backup(cmd.Context(), args[0], o) },
	}
	c.Flags().BoolVar(&o.Authority, "with-authority", false, "with the authority that signs certificates of nodes, and its key")
	c.Flags().BoolVar(&o.Tape, "with-tape", false, "with the tape, for replays and explanations of the past")
	c.Flags().BoolVar(&o.NoHistory, "without-history", false, "without history.db: the last hour of it is in the backup anyway")
	return c
}

// backedUp is what programs are told of a backup.
type backedUp struct {
	File     string           `json:"file"`
	Bytes    int64            `json:"bytes"`
	Manifest *backup.Manifest `json:"manifest"`
}

func (a *app) backup(ctx context.Context, path string, o api.BackupParams) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	done := backedUp{File: path}
	if done.Manifest, done.Bytes, err = takeBackup(ctx, c, path, o); err != nil {
		return backupFault(path, err)
	}
	return a.show(done, func(w io.Writer, _ text.Painter) {
		m := done.Manifest
		fmt.Fprintf(w, "%s: %d bytes, checked; %s\n", path, done.Bytes, inside(m))
		for _, l := range m.LeftOut {
			fmt.Fprintf(w, "  not in it: %s: %s\n", l.What, l.Why)
		}
	})
}

// inside says in a line what a backup holds.
func inside(m *backup.Manifest) string {
	parts := []string{fmt.Sprintf("%d keys of the store at revision %d", m.Keys, m.Revision)}
	tape := 0
	for _, x := range m.Members {
		switch {
		case backup.InTape(x.Name):
			tape++
		case !backup.InStore(x.Name):
			parts = append(parts, x.Name)
		}
	}
	if tape > 0 {
		parts = append(parts, fmt.Sprintf("%d segments of the tape", tape))
	}
	return strings.Join(parts, ", ")
}

// takeBackup writes a backup beside its place, reads it back, and puts it there when it is whole.
func takeBackup(ctx context.Context, c *api.Client, path string, o api.BackupParams) (m *backup.Manifest, size int64, err error) {
	// A name of its own, mode 0600: with one name for all, one backup would put another that is under way in its place.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, 0, err
	}
	temp := f.Name()
	defer func() {
		if err != nil {
			_ = os.Remove(temp) // what is left of it is worth nothing
		}
	}()
	b := bufio.NewWriterSize(f, 256<<10)
	err = c.Backup(ctx, o, b)
	if err == nil {
		err = errors.Join(b.Flush(), f.Sync())
	}
	var got backup.Manifest
	if err == nil {
		size, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			got, err = backup.Verify(f)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, 0, err
	}
	if err = os.Rename(temp, path); err != nil {
		return nil, 0, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	return &got, size, err
}

// backupFault says why there is no backup. What the server said is said as always.
func backupFault(path string, err error) error {
	var p *api.Problem
	if errors.As(err, &p) || errors.Is(err, api.ErrUnreachable) || untrusted(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return &fault.Error{
		Exit: fault.ExitNotSo, Code: "BACKUP_FAILED", What: "no backup was written to " + path, Why: err.Error(),
		Do: "see to room and rights there, and look at the server's log; an older file of that name is as it was", Err: err,
	}
}

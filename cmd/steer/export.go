package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/control/api"
)

// exportOptions are the flags of steer replay --export.
type exportOptions struct {
	service, since, from, to, file string
}

func (x *exportOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&x.service, "export", "", "write what was recorded of this service as a timeline")
	f.StringVar(&x.since, "since", "", "with --export: the time before now (such as 24h); default 1h")
	f.StringVar(&x.from, "from", "", "with --export: the beginning, instead of --since (RFC 3339)")
	f.StringVar(&x.to, "to", "", "with --export: the end (RFC 3339); default now")
	// It stands in the place of the -o of other commands, which says a format: a timeline has one.
	f.StringVarP(&x.file, "output", "o", "", "with --export: the file to write, instead of standard output")
}

// args takes a file, or none with --export.
func (x *exportOptions) args(c *cobra.Command, args []string) error {
	switch {
	case x.service != "" && c.Flags().Changed("with"):
		return fault.Usage("--with goes with a FILE, not with --export", "export to a file first: steer replay --export SERVICE -o FILE")
	case x.since != "" && x.from != "":
		return fault.Usage("--since and --from both say where to begin", "give one of them")
	case x.service != "":
		return cobra.NoArgs(c, args)
	}
	for _, name := range []string{"since", "from", "to", "output"} {
		if c.Flags().Changed(name) {
			return fault.Usage("--"+name+" goes with --export", "name the service: steer replay --export SERVICE")
		}
	}
	return cobra.ExactArgs(1)(c, args)
}

// pastTime reads a time: RFC 3339, or a duration back from now. "" is no time.
func (a *app) pastTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return a.now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fault.BadInput("USAGE", flag+" "+text+" is no time", "write one such as 2026-01-02T15:04:05Z, or a duration ago such as 2h", "")
	}
	return t, nil
}

// exportTape writes the recorded timeline of a service. A file is complete, or not there.
func (a *app) exportTape(cmd *cobra.Command, x *exportOptions) error {
	if x.since == "" && x.from == "" {
		x.since = "1h"
	}
	from, err := a.pastTime("--since", x.since)
	if x.from != "" {
		from, err = a.pastTime("--from", x.from)
	}
	if err != nil {
		return err
	}
	to, err := a.pastTime("--to", x.to)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if x.file == "" {
		return c.Tape(cmd.Context(), x.service, api.TapeParams{From: from, To: to}, a.out)
	}
	return writeWhole(x.file, func(w io.Writer) error {
		return c.Tape(cmd.Context(), x.service, api.TapeParams{From: from, To: to}, w)
	})
}

// writeWhole writes a file beside its place and puts it there when it is complete.
func writeWhole(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // mode 0600; two at once do not meet
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	temp := f.Name()
	b := bufio.NewWriter(f)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp) // what is left of it is worth nothing
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
)

// logFlags are the log options of commands that run on.
type logFlags struct{ level, format string }

func (l *logFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&l.level, "log", "", "debug, info, warn or error")
	c.Flags().StringVar(&l.format, "log-format", "text", "text or json")
}

// logger writes to w; usual is the level when the option is not given.
func (l *logFlags) logger(w io.Writer, usual slog.Level) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: usual}
	if l.level != "" {
		var level slog.Level
		if err := level.UnmarshalText([]byte(l.level)); err != nil {
			return nil, fault.Usage(fmt.Sprintf("--log %s is not a level", l.level), "use debug, info, warn or error")
		}
		o.Level = level
	}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, fault.Usage(fmt.Sprintf("--log-format %s is not a format", l.format), "use text or json")
}

// startFault says why a role cannot listen, and the option that changes it.
func startFault(role, addr string, err error) error {
	e := &fault.Error{Exit: fault.ExitBadInput, Code: "START_FAILED", What: "the " + role + " role cannot start", Why: err.Error(), Err: err}
	choose := fmt.Sprintf("choose another with --listen %s=ADDR:PORT (port 0: any free one)", role)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Code, e.What, e.Why = "PORT_TAKEN", addr+" is taken by another program", "the "+role+" role cannot listen there"
		e.Do = "stop that program, or " + choose
	case errors.Is(err, syscall.EACCES):
		e.Code, e.What, e.Why = "PORT_FORBIDDEN", "there is no right to listen on "+addr, "ports below 1024 need CAP_NET_BIND_SERVICE or root"
		e.Do = choose
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Do = choose
	}
	return e
}

// runner is what a command that runs on runs.
type runner interface {
	open(ctx context.Context) error
	run() error   // until it is told to stop, or a part fails; everything has stopped then
	close() error // gives back what open took, when it will not be run
}

// start opens a runner and runs it in its process.
func (a *app) start(ctx context.Context, p *process, r runner) error {
	if err := r.open(ctx); err != nil {
		err = errors.Join(err, r.close(), p.abandon())
		if ctx.Err() != nil { // a stop was asked for while starting; what that broke is no news
			a.progress("stopped before it was up")
			return nil
		}
		return err
	}
	return stopped(r.run())
}

// stopped is how a process that runs on ends: cleanly, or because a part of it failed.
func stopped(err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Exit: fault.ExitNotSo, Code: "STOPPED", What: "a part failed, and everything was stopped", Why: err.Error(), Err: err}
}

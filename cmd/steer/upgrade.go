package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"steerpoint/internal/inherit"
	"steerpoint/internal/supervise"
)

// checkTime bounds the first run of a new program. It does nothing but print its version.
const checkTime = 20 * time.Second

// process is a command that runs on: its parts, and the way from one program to the next. SIGUSR2 asks for an upgrade:
// the program now at the path this one was started from is tried out, the parts stop, and it is executed over this
// process with the same arguments and the same listening sockets. Queries that come meanwhile wait in the sockets.
type process struct {
	log *slog.Logger
	// sockets are for every listener that is to survive an upgrade.
	sockets *inherit.Sockets

	path      string // of the program, from before a new one took its place
	signals   chan os.Signal
	upgrading atomic.Bool

	working   *supervise.Group
	answering *supervise.Group
	ended     context.CancelFunc // of answering
}

// newProcess takes over the sockets of the program before, if there was one. Call wait or abandon.
func newProcess(ctx context.Context, log *slog.Logger) *process {
	sockets, err := inherit.FromEnvironment(os.Getenv, os.Unsetenv)
	if err != nil {
		log.WarnContext(ctx, "not every socket that was handed over can be used", "error", err)
	}
	path, err := os.Executable()
	if err != nil { // no /proc: an upgrade will say so
		path = os.Args[0]
	}
	p := &process{log: log, sockets: sockets, path: path, signals: make(chan os.Signal, 1)}
	signal.Notify(p.signals, syscall.SIGUSR2)
	// What answers goes on while the rest stops, and so outlives ctx.
	answering, ended := context.WithCancel(context.WithoutCancel(ctx))
	p.working, p.answering, p.ended = supervise.New(ctx), supervise.New(answering), ended
	return p
}

// inherited reports whether the program before handed over sockets of a role, that now wait to be served.
func (p *process) inherited(role string) bool { return p.sockets.Has(role) }

// listen is net.Listen for a role whose listener survives an upgrade.
func (p *process) listen(role string) func(network, address string) (net.Listener, error) {
	return func(network, address string) (net.Listener, error) {
		return p.sockets.Listen(context.Background(), role, network, address)
	}
}

// work starts a part that stops first.
func (p *process) work(name string, part func(context.Context) error) { p.working.Go(name, part) }

// answer starts a part that others wait for: it stops when every working part has. It may be started before they are.
func (p *process) answer(name string, part func(context.Context) error) {
	p.answering.Go(name, func(ctx context.Context) error {
		defer p.working.Stop()
		return part(ctx)
	})
}

// wait returns when every part has stopped, with the first failure. It does not return when an upgrade was asked for
// and the new program could be executed.
func (p *process) wait() error {
	for _, s := range p.sockets.Finish() {
		p.log.Warn("a socket that was handed over is no longer listened on, and closed", "socket", s)
	}
	p.work("upgrade", p.watch)
	p.tell("READY=1\nSTATUS=steer " + version)
	err := p.working.Wait()
	p.ended()
	err = errors.Join(err, p.answering.Wait())
	if p.upgrading.Load() {
		if err != nil { // not to go on would be worse: nothing answers now
			p.log.Error("a part did not stop cleanly before the upgrade", "error", err)
		}
		err = p.replace()
	}
	return errors.Join(err, p.sockets.Close())
}

// abandon stops what was started when the rest could not be, and gives the sockets back.
func (p *process) abandon() error {
	signal.Stop(p.signals)
	p.working.Stop()
	p.ended()
	return errors.Join(p.working.Wait(), p.answering.Wait(), p.sockets.Close())
}

// watch waits for the signal, tries the new program, and stops the working parts when it is one.
func (p *process) watch(ctx context.Context) error {
	defer signal.Stop(p.signals)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.signals:
		}
		next, err := tryOut(ctx, p.path)
		if err != nil {
			p.tell("STATUS=steer " + version + "; an upgrade was refused, see the log")
			p.log.ErrorContext(ctx, "UPGRADE_REFUSED: the new program does not run; this one goes on", "program", p.path, "running", version, "error", err)
			continue
		}
		p.log.InfoContext(ctx, "upgrade: stopping to run the new program", "program", p.path, "running", version, "next", next)
		p.tell("STATUS=upgrading to " + next)
		p.upgrading.Store(true)
		p.working.Stop()
		return nil
	}
}

// tell gives the process manager news, if it wants any (sd_notify(3)). It is no part of the work: what it does not take
// is lost.
func (p *process) tell(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	// A name that begins with @ is abstract, and net knows it so.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		p.log.Warn("the process manager does not take news", "socket", name, "error", err)
	}
}

// tryOut runs a program for its version: one that is cut short, made for another machine or missing fails here, while
// the old one still answers.
func tryOut(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Stdin = nil
	cmd.WaitDelay = time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w %s", path, err, firstLine(errs.String()))
	}
	line := firstLine(string(out))
	if !strings.HasPrefix(line, "steer ") {
		return "", fmt.Errorf("%s version prints %q: it is not steer", path, line)
	}
	return line, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line[:min(len(line), 200)]
}

// replace executes the new program, or, when it vanished since it was tried out, the one that runs: /proc/self/exe is
// there as long as the process is.
func (p *process) replace() error {
	// Until the next program catches signals they would end the process; ignored ones stay ignored over an exec.
	signal.Ignore(syscall.SIGUSR2, syscall.SIGHUP)
	err := p.sockets.Exec(p.path, os.Args, os.Environ())
	p.log.Error("the new program cannot be executed; the old one starts again", "program", p.path, "error", err)
	return errors.Join(err, p.sockets.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// Command steer measures edges, decides which one each part of the world is sent to, answers DNS accordingly, and
// says why. One binary holds every role: see `steer help`.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"steerpoint/cmd/steer/internal/fault"
)

func main() {
	// The first signal asks the command to stop; after it the default is back, so that a second one ends a process
	// that does not.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{in: in, out: out, errs: errs}
	err := a.execute(ctx, args)
	fault.Print(errs, err)
	return fault.Exit(err)
}

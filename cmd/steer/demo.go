package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/internal/demo"
)

// demoCommand is hidden from `steer help`: it does nothing to a real deployment, and `steer up --demo` prints it.
func (a *app) demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:    "demo",
		Short:  "Break and heal the edges of `steer up --demo`",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(
		a.demoList(),
		a.demoSet("break EDGE[/ADDRESS]", "Stop an edge, or one of its addresses, as a crash would", 1, func([]string) (demo.Behaviour, error) {
			return demo.Behaviour{Down: true}, nil
		}),
		a.demoSet("heal EDGE[/ADDRESS]", "Make an edge, or one of its addresses, healthy again", 1, func([]string) (demo.Behaviour, error) {
			return demo.Behaviour{}, nil
		}),
		a.demoSet("slow EDGE[/ADDRESS] DURATION", "Make every response of an edge later", 2, func(args []string) (demo.Behaviour, error) {
			d, err := time.ParseDuration(args[1])
			return demo.Behaviour{Delay: d}, err
		}),
		a.demoSet("lose EDGE[/ADDRESS] PERCENT", "Make an edge answer only some requests", 2, func(args []string) (demo.Behaviour, error) {
			n, err := strconv.Atoi(strings.TrimSuffix(args[1], "%"))
			return demo.Behaviour{Lose: n}, err
		}),
		a.demoSet("status EDGE[/ADDRESS] CODE", "Make an edge answer with an HTTP status, such as 503", 2, func(args []string) (demo.Behaviour, error) {
			n, err := strconv.Atoi(args[1])
			return demo.Behaviour{Status: n}, err
		}),
	)
	return c
}

func (a *app) demoList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the demo edges",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.remoteDemo()
			if err != nil {
				return err
			}
			state, err := r.State(cmd.Context())
			if err != nil {
				return demoFault(err)
			}
			return a.showDemo(state)
		},
	}
}

// demoSet is a command that gives an edge a behaviour; args[0] names the edge.
func (a *app) demoSet(use, short string, n int, parse func(args []string) (demo.Behaviour, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(n),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := parse(args)
			if err == nil {
				err = b.Validate()
			}
			if err != nil {
				return fault.Usage(err.Error(), "see `steer help demo`")
			}
			edge, address, one := strings.Cut(args[0], "/")
			var addr netip.Addr
			if one {
				if addr, err = netip.ParseAddr(address); err != nil {
					return fault.Usage(fmt.Sprintf("%q is not an address", address), "name one as `steer demo list` shows it")
				}
			}
			return a.setDemo(cmd.Context(), edge, addr, b)
		},
	}
}

func (a *app) setDemo(ctx context.Context, edge string, addr netip.Addr, b demo.Behaviour) error {
	r, err := a.remoteDemo()
	if err != nil {
		return err
	}
	state, err := r.Set(ctx, edge, addr, b)
	if err != nil {
		return demoFault(err)
	}
	return a.showDemo(state)
}

func demoFault(err error) error {
	if errors.Is(err, demo.ErrRefused) {
		return &fault.Error{Exit: fault.ExitBadInput, Code: "DEMO_REFUSED", What: err.Error(), Do: "see `steer demo list`", Err: err}
	}
	return &fault.Error{
		Exit: fault.ExitNoServer, Code: "DEMO_UNREACHABLE", What: "the demo was not reached", Why: err.Error(),
		Do: "start it with `steer up --demo`", Err: err,
	}
}

// remoteDemo finds the demo that runs on the data folder.
func (a *app) remoteDemo() (demo.Remote, error) {
	var r demo.Remote
	dir, err := a.dataDir()
	if err != nil {
		return r, err
	}
	running, err := locate.ReadRunning(dir)
	if err != nil {
		return r, demoFault(err)
	}
	if len(running.Demo) == 0 {
		return r, demoFault(errors.New("the process on " + dir + " runs without --demo"))
	}
	if err := json.Unmarshal(running.Demo, &r); err != nil {
		return r, demoFault(err)
	}
	return r, nil
}

func (a *app) showDemo(state []demo.EdgeState) error {
	return a.show(state, func(w io.Writer, p text.Painter) {
		var t text.Table
		t.Row("EDGE", "ADDRESS", "IS", "REQUESTS")
		for _, e := range state {
			for _, x := range e.Addresses {
				c := text.Cell{Text: x.Text, Color: text.Good}
				if x.Behaviour != (demo.Behaviour{}) {
					c.Color = text.Bad
				}
				t.Row(e.Edge, netip.AddrPortFrom(x.Address, uint16(x.Port)), c, x.Requests)
			}
		}
		t.Write(w, p, "")
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control/api"
	"steerpoint/internal/demo"
	"steerpoint/spec"
)

// demoAddr stands for all demo edges in listeners: they share a port.
func demoAddr(port int) string {
	return net.JoinHostPort("127.0.0.11", strconv.Itoa(port))
}

// openDemo binds the demo edges: on the port asked for, or the one the data folder's demo had before, since its
// resources name that port, or the usual one.
func (u *up) openDemo() error {
	var cfg demo.Config
	cfg.Port = portOf(u.settings.Listen[settings.RoleDemo])
	if r, err := locate.ReadRunning(u.dir); err == nil { // the port that the stored service probes
		cfg.Prefer = portOf(r.Listeners[settings.RoleDemo])
	}
	var err error
	if u.demo, err = demo.New(cfg); err != nil {
		return startFault(settings.RoleDemo, u.settings.Listen[settings.RoleDemo], err)
	}
	if u.desk, err = demo.NewDesk(u.demo); err != nil {
		return startFault(settings.RoleDemo, "a loopback port", err)
	}
	return nil
}

// demoGateway is where the demo's gateway listens, unless it is told otherwise or the port is taken.
const demoGateway = "127.0.0.1:8080"

// openDemoGateway binds the gateway. The demo has one although nobody said where.
func (u *up) openDemoGateway() error {
	l := u.settings.Listen
	if !u.withDemo || l[settings.RoleHTTP] != "" || l[settings.RoleHTTPS] != "" {
		return u.openGateway()
	}
	var err error
	for _, addr := range []string{demoGateway, "127.0.0.1:0"} {
		l[settings.RoleHTTP] = addr
		if err = u.openGateway(); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return err
}

// portOf is the port of ADDR:PORT, 0 when there is none.
func portOf(addr string) int {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

// greet fills an empty store with the demo's resources, waits until answers come from this process, and says what it
// offers.
func (u *up) greet(ctx context.Context) error {
	c, err := u.client("steer up")
	if err != nil {
		return err
	}
	if err := waitReady(ctx, c); err != nil {
		return err
	}
	banner(u.out, &u.center)
	if u.demo == nil {
		return nil
	}
	if err := u.fill(ctx, c); err != nil {
		return fmt.Errorf("resources of the demo: %w", err)
	}
	demoBanner(u.out, u.listeners(), u.dir)
	return nil
}

// waitReady asks until control takes requests.
func waitReady(ctx context.Context, c *api.Client) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		_, err := c.Status(ctx, api.StatusParams{})
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if code := api.CodeOf(err); code != api.CodeNotReady && !errors.Is(err, api.ErrUnreachable) {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fill applies the demo's resources, as an operator would, if there are none at all.
func (u *up) fill(ctx context.Context, c *api.Client) error {
	for _, k := range spec.Kinds() {
		rs, err := c.List(ctx, string(k))
		if err != nil {
			return err
		}
		if len(rs) > 0 {
			return nil
		}
	}
	_, err := c.Apply(ctx, api.ApplyRequest{ApplySet: "demo", Sources: []api.Source{{File: "demo.yaml", Content: string(u.demo.Resources())}}})
	return err
}

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/follow"
	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
	"steerpoint/geo"
	"steerpoint/internal/demo"
	"steerpoint/internal/supervise"
	"steerpoint/probe"
	"steerpoint/steering"
)

// localPoint is the name of the one probe point of `steer up`.
const localPoint = "local"

func (a *app) upCommand() *cobra.Command {
	var listen []string
	var log logFlags
	var withDemo bool
	c := &cobra.Command{
		Use:   "up [--demo]",
		Short: "Run everything on this machine: control, name server, probe point, API",
		Long: `Run control, name server, probe point and API in one process. Everything listens on loopback unless --listen or
<data>/steer.yaml say otherwise. SIGHUP reads the geo data files again. Ctrl-C or SIGTERM stops; a second one does
not wait.`,
		Example: "  steer up --demo\n" +
			"  steer up --data /var/lib/steer --listen dns=192.0.2.53:53 --listen api=127.0.0.1:7070",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.dataDir()
			if err == nil {
				dir, err = filepath.Abs(dir)
			}
			if err != nil {
				return err
			}
			s, err := settings.Load(dir, listen)
			if err != nil {
				return err
			}
			usual := slog.LevelInfo
			if withDemo {
				usual = slog.LevelError // the demo is for reading what it prints; status shows the alarms
			}
			logger, err := log.logger(a.errs, usual)
			if err != nil {
				return err
			}
			u := &up{settings: s, dir: dir, log: logger, out: a.out, reg: prometheus.NewRegistry()}
			if err := u.open(cmd.Context(), withDemo); err != nil {
				if cmd.Context().Err() != nil { // a stop was asked for while starting; what that broke is no news
					a.progress("stopped before it was up")
					return stopped(u.close())
				}
				return errors.Join(err, u.close())
			}
			return stopped(u.run(cmd.Context()))
		},
	}
	c.Flags().BoolVar(&withDemo, "demo", false, "add three local demo edges and a service, and print what to try")
	c.Flags().StringArrayVar(&listen, "listen", nil, "ROLE=ADDR:PORT for dns, api, demo (repeatable; port 0: any free one)")
	log.register(c)
	return c
}

// up is one process with every plane in it. Fields are nil until opened.
type up struct {
	settings settings.Settings
	dir      string
	log      *slog.Logger
	out      io.Writer
	reg      *prometheus.Registry

	geo     *geo.Store
	control *control.Control
	dns     *authdns.Server
	prober  *probe.Prober
	demo    *demo.Demo
	desk    *demo.Desk
}

// open binds and loads everything, in the order in which a failure is cheapest: the data folder's lock comes with
// control and before all that writes.
func (u *up) open(ctx context.Context, withDemo bool) error {
	u.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	bind, err := u.settings.Bind(settings.RoleDNS)
	if err != nil {
		return err
	}
	if err := u.openGeo(); err != nil {
		return err
	}
	if withDemo {
		if err := u.openDemo(); err != nil {
			return err
		}
	}
	u.control, err = control.New(ctx, control.Config{
		Data: u.dir, Version: version, Listen: u.settings.Listen[settings.RoleAPI], Hosts: u.settings.API.Hosts,
		Points: []steering.Point{{Name: localPoint, Labels: u.settings.Probe.Labels}},
	}, control.Deps{
		Publisher: publisher{u}, Probe: u.probeNow, Answer: u.answer, Geo: u.geo.DB, Log: u.log.With("plane", "control"),
		Metrics: u.reg, Gatherer: u.reg, Listeners: u.listeners,
	})
	if err != nil {
		return controlFault(u.settings.Listen[settings.RoleAPI], u.dir, err)
	}
	u.dns, err = authdns.New(authdns.Config{
		Listen: bind, StateFile: filepath.Join(u.dir, follow.FileName), Place: u.place,
	}, u.reg, u.log.With("plane", "authdns"))
	if err != nil {
		return startFault(settings.RoleDNS, u.settings.Listen[settings.RoleDNS], err)
	}
	u.prober, err = probe.New(probe.Config{
		Point: localPoint, Version: version, AllowLocal: withDemo || u.settings.Probe.AllowLoopback,
	}, u.control.Observe, u.reg, u.log.With("plane", "probe"))
	if err != nil {
		return startFault("probe", "", err)
	}
	return u.record(os.Getpid())
}

// openGeo loads the geo data. Files that cannot be read leave the built-in table: visitors are answered less exactly,
// and not at all is worse.
func (u *up) openGeo() error {
	var err error
	u.geo, err = geo.NewStore(geo.Config{Lists: u.settings.Geo.Lists, Databases: u.settings.Geo.Databases})
	if err != nil {
		return startFault("geo", "", err)
	}
	u.reloadGeo()
	return nil
}

// reloadGeo reads the files again and reports whether anything changed.
func (u *up) reloadGeo() bool {
	changed, err := u.geo.Reload()
	if err != nil {
		u.log.Error("geo data cannot be read; what was there before stays in use", "error", err)
	}
	return changed
}

// listeners are the bound addresses by role.
func (u *up) listeners() map[string]string {
	l := map[string]string{}
	if u.dns != nil {
		l[settings.RoleDNS] = u.dns.Addrs()[0].String()
	}
	if u.control != nil {
		l[settings.RoleAPI] = u.control.Addr().String()
	}
	if u.demo != nil {
		l[settings.RoleDemo] = demoAddr(u.demo.Port())
	}
	return l
}

// record tells later commands on this machine where this process listens; pid 0: it has stopped.
func (u *up) record(pid int) error {
	r := locate.Running{PID: pid, Started: time.Now(), Listeners: u.listeners()}
	if u.desk != nil {
		if err := r.SetDemo(u.desk.Remote()); err != nil {
			return err
		}
	}
	if err := locate.WriteRunning(u.dir, r); err != nil {
		return startFault("data", u.dir, err)
	}
	return nil
}

// close gives back what open took, when run will not be called.
func (u *up) close() error {
	var errs []error
	if u.desk != nil {
		errs = append(errs, u.desk.Close())
	}
	if u.demo != nil {
		u.demo.Close()
	}
	if u.dns != nil {
		errs = append(errs, u.dns.Close())
	}
	if u.control != nil {
		errs = append(errs, u.control.Close())
	}
	return errors.Join(errs...)
}

// run works until ctx ends or a part fails, and returns when every part has stopped.
func (u *up) run(ctx context.Context) error {
	g := supervise.New(ctx)
	g.Go("control", u.control.Run)
	g.Go("name server", u.dns.Run)
	g.Go("probe point", u.prober.Run)
	g.Go("geo data", u.watchGeo)
	if u.demo != nil {
		g.Go("demo edges", u.demo.Run)
		g.Go("demo control", u.desk.Run)
	}
	g.Go("greeting", u.greet)
	err := g.Wait()
	// Clients are told that nothing runs here now; that they cannot be told is no reason to fail a clean stop.
	if recordErr := u.record(0); recordErr != nil {
		u.log.Warn("the run file still names this process", "error", recordErr)
	}
	return err
}

// controlFault says why control does not start.
func controlFault(listen, dir string, err error) error {
	e := &fault.Error{Exit: fault.ExitBadInput, What: "the data folder " + dir + " cannot be used", Why: err.Error(), Err: err}
	var path *os.PathError // of a file; a listener's is a *net.OpError
	switch {
	case errors.Is(err, control.ErrLocked):
		e.Code, e.Do = "DATA_IN_USE", "stop the other process, or choose another folder with --data DIR"
	case errors.As(err, &path):
		e.Code, e.Do = "DATA_UNUSABLE", "run as its owner, or choose another folder with --data DIR"
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EADDRNOTAVAIL):
		return startFault(settings.RoleAPI, listen, err)
	default:
		e.Code, e.What = "START_FAILED", "control cannot start on the data folder "+dir
	}
	return e
}

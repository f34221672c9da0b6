package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/follow"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
	"steerpoint/internal/demo"
	"steerpoint/internal/folder"
	"steerpoint/probe"
	"steerpoint/steering"
)

// localPoint is the name of the one probe point of `steer up`.
const localPoint = "local"

func (a *app) upCommand() *cobra.Command {
	var listen []string
	var log logFlags
	var resolvers []string
	var withDemo bool
	var named dnsFlags
	c := &cobra.Command{
		Use:   "up [--demo]",
		Short: "Run everything on this machine: control, name server, gateway, probe point, API",
		Long: `Run control, name server, probe point, API and, where --listen says http or https, the gateway in one process. Everything listens on loopback unless --listen or
<data>/steer.yaml say otherwise; an API that does not is TLS. With --listen nodes=ADDR:PORT other machines may join,
as with ` + "`steer control`" + `. SIGHUP reads the geo data files again and opens the
gateway's access log anew. Ctrl-C or SIGTERM stops; a second one does not wait.`,
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
			if err == nil {
				err = takeResolvers(&s, resolvers)
			}
			if err != nil {
				return err
			}
			if err := named.over(&s); err != nil {
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
			p := newProcess(cmd.Context(), logger)
			return a.start(cmd.Context(), p, &up{
				center:  center{settings: s, dir: dir, log: logger, reg: prometheus.NewRegistry()},
				process: p, out: a.out, withDemo: withDemo,
			})
		},
	}
	c.Flags().BoolVar(&withDemo, "demo", false, "add local demo edges, origins and two services, and print what to try")
	c.Flags().StringArrayVar(&listen, "listen", nil, "ROLE=ADDR:PORT for dns, dot, doh, http, https, api, nodes, nearest, demo (repeatable; all but api, nodes, nearest and demo take several addresses; port 0: any free one)")
	resolverFlag(c, &resolvers)
	named.register(c)
	log.register(c)
	return c
}

// up is one process with every plane in it. Fields are nil until opened.
type up struct {
	center
	process  *process
	out      io.Writer
	withDemo bool

	demo *demo.Demo
	desk *demo.Desk
}

// open binds and loads everything, in the order in which a failure is cheapest.
func (u *up) open(ctx context.Context) error {
	if _, err := dnsConfig(&u.settings, authdns.Config{}); err != nil {
		return err
	}
	var err error
	if u.withDemo {
		if err := u.openDemo(); err != nil {
			return err
		}
	}
	if u.nearest, err = openNearest(u.process, &u.settings, u.reg, u.log); err != nil {
		return err
	}
	if u.process.inherited(settings.RoleDNS) {
		// After an upgrade queries wait already, and control takes a second to open: the map on disk answers meanwhile.
		if err := u.openDNS(); err != nil {
			return err
		}
	}
	if err := u.openDemoGateway(); err != nil {
		return err
	}
	local := steering.Point{Name: localPoint, Labels: u.settings.Probe.Labels}
	if err := u.center.open(ctx, control.Config{Points: []steering.Point{local}}, true); err != nil {
		return err
	}
	if u.dns == nil {
		if err := u.openDNS(); err != nil {
			return err
		}
	}
	u.prober, err = probe.New(probe.Config{
		Point: localPoint, Version: version, AllowLocal: u.withDemo || u.settings.Probe.AllowLoopback,
	}, u.control.ObserveLocal, u.reg, u.log.With("plane", "probe"))
	if err != nil {
		return startFault("probe", "", err)
	}
	return u.record(os.Getpid())
}

// openDNS starts to answer, by the map on disk until there is another. What answers others stops last.
func (u *up) openDNS() error {
	cfg, err := dnsConfig(&u.settings, authdns.Config{
		StateFile: filepath.Join(u.dir, follow.FileName), Place: u.place, Inherited: u.process.sockets,
		OpenKeys: openZoneKeys(control.ZoneKeyFile(u.dir)), Updates: u.update,
	})
	if err != nil {
		return err
	}
	if u.dns, err = authdns.New(cfg, u.reg, u.log.With("plane", "authdns")); err != nil {
		return dnsFault(&u.settings, err)
	}
	u.process.answer("name server", u.dns.Run)
	return nil
}

// record tells later commands on this machine where this process listens; pid 0: it has stopped.
func (u *up) record(pid int) error {
	r := u.running(pid)
	if u.demo != nil {
		r.Listeners[settings.RoleDemo] = demoAddr(u.demo.Port())
	}
	if u.desk != nil {
		if err := r.SetDemo(u.desk.Remote()); err != nil {
			return err
		}
	}
	return u.write(r)
}

// close gives back what open took, when run will not be called.
func (u *up) close() error {
	var err error
	if u.desk != nil {
		err = u.desk.Close()
	}
	if u.demo != nil {
		u.demo.Close()
	}
	return errors.Join(err, u.center.close())
}

// run works until the process is told to stop or a part fails, and returns when every part has stopped.
func (u *up) run() error {
	u.startParts(u.process)
	if u.demo != nil {
		u.process.work("demo edges", u.demo.Run)
		u.process.work("demo control", u.desk.Run)
	}
	u.process.work("greeting", u.greet)
	err := u.process.wait()
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
	case errors.Is(err, folder.ErrUnfinished):
		e.Code, e.Do = "RESTORE_UNFINISHED", "run the restore again, or choose another folder with --data DIR"
	case errors.As(err, &path):
		e.Code, e.Do = "DATA_UNUSABLE", "run as its owner, or choose another folder with --data DIR"
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EADDRNOTAVAIL):
		return startFault(settings.RoleAPI, listen, err)
	default:
		e.Code, e.What = "START_FAILED", "control cannot start on the data folder "+dir
	}
	return e
}

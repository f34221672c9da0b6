package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
	"steerpoint/steering"
)

func (a *app) controlCommand() *cobra.Command {
	var listen []string
	var log logFlags
	var resolvers []string
	c := &cobra.Command{
		Use:   "control",
		Short: "Run control alone: it decides, and nodes on other machines probe and answer",
		Long: `Run control without a name server and a probe point of its own. Nodes join it: make a token here with
` + "`steer token create`" + ` and give it to ` + "`steer node`" + ` there. Control is not on the way of any query: while it is away, name
servers answer by their last map and probe points keep what they measure.

Nodes are taken on every address, port 7072, unless --listen nodes=ADDR:PORT says otherwise; every call there needs a
certificate of this control, or a token. The API is on 127.0.0.1:7070; on another address it is TLS. SIGHUP reads the
geo data files again.`,
		Example: "  steer control --data /var/lib/steer\n" +
			"  steer control --listen nodes=10.0.0.1:7072 --listen api=10.0.0.1:7070",
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
			if s.Listen[settings.RoleNodes] == "" {
				s.Listen[settings.RoleNodes] = settings.NodesListen
			}
			logger, err := log.logger(a.errs, slog.LevelInfo)
			if err != nil {
				return err
			}
			p := newProcess(cmd.Context(), logger)
			return a.start(cmd.Context(), p, &head{
				center: center{settings: s, dir: dir, log: logger, reg: prometheus.NewRegistry()}, process: p, out: a.out,
			})
		},
	}
	c.Flags().StringArrayVar(&listen, "listen", nil, "ROLE=ADDR:PORT for api, nodes (repeatable; port 0: any free one)")
	resolverFlag(c, &resolvers)
	log.register(c)
	return c
}

// head is a control without planes of its own.
type head struct {
	center
	process *process
	out     io.Writer
}

func (h *head) open(ctx context.Context) error {
	if err := h.center.open(ctx, control.Config{Points: []steering.Point{}}, false); err != nil {
		return err
	}
	var err error
	if h.book, err = authdns.NewBook(authdns.Config{Place: h.place}, h.log.With("plane", "control")); err != nil {
		return startFault(settings.RoleDNS, "", err)
	}
	return h.write(h.running(os.Getpid()))
}

func (h *head) run() error {
	h.startParts(h.process)
	h.process.work("greeting", h.greet)
	err := h.process.wait()
	// Clients are told that nothing runs here now; that they cannot be told is no reason to fail a clean stop.
	if writeErr := h.write(h.running(0)); writeErr != nil {
		h.log.Warn("the run file still names this process", "error", writeErr)
	}
	return err
}

// greet says what is served as soon as it is.
func (h *head) greet(ctx context.Context) error {
	c, err := h.client("steer control")
	if err != nil {
		return err
	}
	if err := waitReady(ctx, c); err != nil {
		return err
	}
	banner(h.out, &h.center)
	return nil
}

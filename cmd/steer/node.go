package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/follow"
	"steerpoint/cmd/steer/internal/health"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/internal/supervise"
)

func (a *app) nodeCommand() *cobra.Command {
	var roles, from string
	var listen []string
	var log logFlags
	c := &cobra.Command{
		Use:   "node --roles dns [--from FILE|DIR]",
		Short: "Run a name server alone, from the map another process keeps on disk",
		Long: `Run a name server of its own process. It answers by the map that ` + "`steer up`" + ` keeps in its data folder, takes
every new one within a quarter second, and answers on by the last when that process is gone, for ever.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if roles != "dns" {
				return fault.Usage(fmt.Sprintf("--roles %q is not a role this version can run alone", roles), "use --roles dns")
			}
			dir, err := a.dataDir()
			if err != nil {
				return err
			}
			s, err := settings.Load(dir, listen)
			if err != nil {
				return err
			}
			logger, err := log.logger(a.errs, slog.LevelInfo)
			if err != nil {
				return err
			}
			if from == "" {
				from = dir
			}
			return a.runNode(cmd.Context(), &s, follow.Path(from), logger)
		},
	}
	c.Flags().StringVar(&roles, "roles", "dns", "roles of this node; dns is the only one that runs alone")
	c.Flags().StringVar(&from, "from", "", "map file, or the data folder it is in (default: the data folder)")
	c.Flags().StringArrayVar(&listen, "listen", nil, "ROLE=ADDR:PORT, for dns and health (repeatable)")
	log.register(c)
	return c
}

func (a *app) runNode(ctx context.Context, s *settings.Settings, path string, log *slog.Logger) error {
	bind, err := s.Bind(settings.RoleDNS)
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	dns, err := authdns.New(authdns.Config{Listen: bind}, reg, log)
	if err != nil {
		return startFault(settings.RoleDNS, s.Listen[settings.RoleDNS], err)
	}
	f := &follow.Follower{Path: path, Swap: dns, Log: log}
	m, err := f.Load()
	if err != nil {
		return errors.Join(noMap(path, err), dns.Close())
	}
	ready := func() error {
		if dns.Map().Version == 0 {
			return errors.New("no map")
		}
		return nil
	}
	h, err := health.Listen(s.Listen[settings.RoleHealth], ready, reg)
	if err != nil {
		return errors.Join(startFault(settings.RoleHealth, s.Listen[settings.RoleHealth], err), dns.Close())
	}
	a.progress("name server on %s, health and metrics on http://%s; map %d from %s", addrs(dns.Addrs()), h.Addr(), m.Version, path)
	g := supervise.New(ctx)
	g.Go("name server", dns.Run)
	g.Go("map file", f.Run)
	g.Go("health", h.Run)
	return stopped(g.Wait())
}

func noMap(path string, err error) error {
	e := &fault.Error{Exit: fault.ExitBadInput, Code: "NO_MAP", What: "there is no map to answer by", Why: err.Error(), Err: err}
	if errors.Is(err, fs.ErrNotExist) {
		e.Do = "start `steer up` on that data folder once, or name another with --from (looked for " + path + ")"
	}
	return e
}

func addrs(list []netip.AddrPort) string {
	s := make([]string, 0, len(list))
	for _, x := range list {
		s = append(s, x.String())
	}
	slices.Sort(s)
	return strings.Join(slices.Compact(s), ", ")
}

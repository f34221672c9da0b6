package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
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
			path, own := follow.Path(from), filepath.Join(dir, follow.FileName)
			if same(path, own) {
				own = "" // the process that writes it keeps it
			}
			return a.runNode(cmd.Context(), &s, path, own, logger)
		},
	}
	c.Flags().StringVar(&roles, "roles", "dns", "roles of this node; dns is the only one that runs alone")
	c.Flags().StringVar(&from, "from", "", "map file, or the data folder it is in (default: the data folder)")
	c.Flags().StringArrayVar(&listen, "listen", nil, "ROLE=ADDR:PORT, for dns and health (repeatable)")
	log.register(c)
	return c
}

// same reports whether both paths name one file, whether it exists or not.
func same(a, b string) bool {
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	if errX == nil && errY == nil && x == y {
		return true
	}
	sa, errA := os.Stat(a)
	sb, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(sa, sb)
}

// runNode answers by the map in path. own is where this node keeps a copy of its last good map, so that it starts with
// the other file damaged or gone; "" keeps none.
func (a *app) runNode(ctx context.Context, s *settings.Settings, path, own string, log *slog.Logger) error {
	bind, err := s.Bind(settings.RoleDNS)
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	if own != "" {
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			return startFault("data", filepath.Dir(own), err)
		}
	}
	dns, err := authdns.New(authdns.Config{Listen: bind, StateFile: own}, reg, log)
	if err != nil {
		return startFault(settings.RoleDNS, s.Listen[settings.RoleDNS], err)
	}
	f := &follow.Follower{Path: path, Swap: dns, Log: log}
	if _, err := f.Load(); err != nil {
		if dns.Map().Version == 0 {
			return errors.Join(noMap(path, err), dns.Close())
		}
		log.Error("the map cannot be used; answering by this node's own copy of the last good one", "file", path, "error", err)
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
	a.progress("name server on %s, health and metrics on http://%s; map %d from %s", addrs(dns.Addrs()), h.Addr(), dns.Map().Version, path)
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

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

	"steerpoint/agent"
	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/follow"
	"steerpoint/cmd/steer/internal/health"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/control"
	"steerpoint/internal/folder"
	"steerpoint/snapshot"
)

// nodeFlags are the options of `steer node`.
type nodeFlags struct {
	roles, from, token, name string
	join, labels, listen     []string
	log                      logFlags
	dns                      dnsFlags
}

func (a *app) nodeCommand() *cobra.Command {
	var f nodeFlags
	c := &cobra.Command{
		Use:   "node --roles dns,probe --join URL --token FILE",
		Short: "Run a name server, a gateway or a probe point of a cluster on this machine",
		Long: `Run the planes of a node on this machine: a name server (dns), a gateway (edge), a probe point (probe), or several of them.

With --join it becomes a node of the control at URL: it joins once with a token, gets a certificate, renews that by
itself, follows what control decides and reports what it measures. The token is in a file, on standard input (--token -)
or in $STEER_JOIN_TOKEN; after the join it is never needed again. While control is away the node answers, serves and probes
on by what it has, also after a restart. A gateway is told where to listen: --listen http=ADDR:80, --listen https=ADDR:443. On a folder that has joined, ` + "`steer node`" + ` alone starts it again.

With --from, or on the data folder of ` + "`steer up`" + `, it is a name server without a control: it answers by the map in that
folder, takes every new one within a quarter second, and answers on by the last when the other process is gone.`,
		Example: "  steer node --roles dns,probe --join https://control.example.net:7072 --token token --label country=JP --label isp=ntt\n" +
			"  steer node --roles edge --join https://control.example.net:7072 --token token --listen http=:80 --listen https=:443\n" +
			"  steer node --roles dns --from /var/lib/steer",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.node(cmd.Context(), &f) },
	}
	c.Flags().StringVar(&f.roles, "roles", "", "roles of this node: dns, edge, probe (default: those it joined with; dns with --from)")
	c.Flags().StringArrayVar(&f.join, "join", nil, "URL of control's node port, such as https://HOST:7072 (repeatable: tried in turn)")
	c.Flags().StringVar(&f.token, "token", "", "file with the join token, or - for standard input (default: $"+tokenVariable+")")
	c.Flags().StringVar(&f.name, "name", "", "name of this node (default: the name of the machine)")
	c.Flags().StringArrayVar(&f.labels, "label", nil, "KEY=VALUE that says where it is: continent, country, province, city, isp, region (repeatable)")
	c.Flags().StringVar(&f.from, "from", "", "map file, or the data folder it is in: answer by it, without a control")
	c.Flags().StringArrayVar(&f.listen, "listen", nil, "ROLE=ADDR:PORT, for dns, dot, doh, http, https, health and nearest (repeatable; all but health and nearest take several addresses)")
	f.dns.register(c)
	f.log.register(c)
	c.AddCommand(nodeSubcommands(a)...)
	return c
}

// node tells which kind of node is asked for: one of a control, or a name server that follows a file.
func (a *app) node(ctx context.Context, f *nodeFlags) error {
	roles, err := nodeRoles(f.roles)
	if err != nil {
		return err
	}
	dir, err := a.dataDir()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return err
	}
	s, err := settings.Load(dir, f.listen)
	if err != nil {
		return err
	}
	if err := f.dns.over(&s); err != nil {
		return err
	}
	logger, err := f.log.logger(a.errs, slog.LevelInfo)
	if err != nil {
		return err
	}
	if len(f.join) > 0 && f.from != "" {
		return fault.Usage("--join and --from exclude each other", "a node follows a control, or a file")
	}
	if len(f.join) > 0 || f.from == "" && agent.Joined(dir) {
		return a.runMember(ctx, f, &s, dir, roles, logger)
	}
	if f.token != "" || f.name != "" || len(f.labels) > 0 {
		return fault.Usage("no control was given to join", "add --join https://HOST:7072")
	}
	if len(roles) > 0 && !slices.Equal(roles, []string{agent.RoleDNS}) {
		return fault.Usage(fmt.Sprintf("--roles %s needs a control", f.roles), "add --join https://HOST:7072 and --token FILE; without a control there is --roles dns --from DIR")
	}
	from := f.from
	if from == "" {
		from = dir
	}
	path, own := follow.Path(from), filepath.Join(dir, follow.FileName)
	if same(path, own) {
		own = "" // the process that writes it keeps it
	}
	return a.runFollower(ctx, &s, path, own, logger)
}

// nodeRoles reads --roles; none without it.
func nodeRoles(list string) ([]string, error) {
	var roles []string
	for _, r := range strings.Split(list, ",") {
		r = strings.TrimSpace(r)
		switch {
		case r == "":
		case r != agent.RoleDNS && r != agent.RoleProbe && r != agent.RoleEdge:
			return nil, fault.Usage(fmt.Sprintf("--roles: %q is not a role this version can run alone", r), "use dns, edge and probe, divided by commas")
		case !slices.Contains(roles, r):
			roles = append(roles, r)
		}
	}
	slices.Sort(roles)
	return roles, nil
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

// runFollower answers by the map in path. own is where this node keeps a copy of its last good map, so that it starts
// with the other file damaged or gone; "" keeps none.
func (a *app) runFollower(ctx context.Context, s *settings.Settings, path, own string, log *slog.Logger) error {
	cfg, err := dnsConfig(s, authdns.Config{})
	if err != nil {
		return err
	}
	if own != "" {
		dir, err := folder.Open(filepath.Dir(own))
		switch {
		case errors.Is(err, folder.ErrLocked): // its owner keeps a map of its own there
			log.Warn("no copy of the map is kept: the data folder is another process's; give a folder with --data", "error", err)
			own = ""
		case err != nil:
			return folderFault(filepath.Dir(own), err)
		default:
			defer dir.Close()
		}
	}
	p, reg := newProcess(ctx, log), prometheus.NewRegistry()
	cfg.StateFile, cfg.Inherited = own, p.sockets
	cfg.OpenKeys = openZoneKeys(control.ZoneKeyFile(filepath.Dir(path)))
	dns, err := authdns.New(cfg, reg, log)
	if err != nil {
		return errors.Join(dnsFault(s, err), p.abandon())
	}
	f := &follow.Follower{Path: path, Swap: adopter{dns}, Log: log}
	if _, err := f.Load(); err != nil {
		if dns.Map().Version == 0 {
			return errors.Join(noMap(path, err), dns.Close(), p.abandon())
		}
		log.Error("the map cannot be used; answering by this node's own copy of the last good one", "file", path, "error", err)
	}
	if _, err := openNearest(p, s, reg, log); err != nil {
		return errors.Join(err, dns.Close(), p.abandon())
	}
	ready := func() error {
		if dns.Map().Version == 0 {
			return errors.New("no map")
		}
		return nil
	}
	h, err := health.Listen(p.listen(settings.RoleHealth), s.Listen[settings.RoleHealth], ready, reg)
	if err != nil {
		return errors.Join(startFault(settings.RoleHealth, s.Listen[settings.RoleHealth], err), dns.Close(), p.abandon())
	}
	a.progress("name server on %s%s, health and metrics on http://%s; map %d from %s", addrs(dns.Addrs()), encrypted(dns), h.Addr(), dns.Map().Version, path)
	p.answer("name server", dns.Run)
	p.work("map file", f.Run)
	p.work("health", h.Run)
	return stopped(p.wait())
}

// adopter takes every map of the file: the process that writes it may have begun anew.
type adopter struct{ dns *authdns.Server }

func (a adopter) Swap(d *snapshot.DNS) error { return a.dns.Adopt(d) }

func noMap(path string, err error) error {
	e := &fault.Error{Exit: fault.ExitBadInput, Code: "NO_MAP", What: "there is no map to answer by", Why: err.Error(), Err: err}
	if errors.Is(err, fs.ErrNotExist) {
		e.Do = "start `steer up` on that data folder once, or name another with --from, or a control with --join (looked for " + path + ")"
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

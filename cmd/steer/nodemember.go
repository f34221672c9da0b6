package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"steerpoint/agent"
	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/follow"
	"steerpoint/cmd/steer/internal/health"
	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/internal/echo16"
	"steerpoint/internal/folder"
	"steerpoint/internal/pki"
	"steerpoint/probe"
)

const (
	// tokenVariable has the join token where a file is unhandy. An orchestrator that sets it may leave it set.
	tokenVariable = "STEER_JOIN_TOKEN"
	// nodePort is control's port for nodes, when --join does not name one.
	nodePort = "7072"
	// maxToken bounds what is read of a token file: a token has 119 characters.
	maxToken = 4 << 10
)

// member is the process of a node of some control. Fields are nil until opened, and stay so for roles it has not.
type member struct {
	settings *settings.Settings
	dir      string
	log      *slog.Logger
	reg      *prometheus.Registry
	process  *process

	folder  *folder.Folder
	agent   *agent.Agent
	dns     *authdns.Server
	prober  *probe.Prober
	gateway *edgePlane
	places  *places // where there is a gateway
	health  *health.Server
	// nearest answers probes of others.
	nearest *echo16.Responder
}

// runMember runs a node of the control at f.join, or of the one it joined before.
func (a *app) runMember(ctx context.Context, f *nodeFlags, s *settings.Settings, dir string, roles []string, log *slog.Logger) error {
	cfg, err := a.agentConfig(f, s, dir, roles)
	if err != nil {
		return err
	}
	m := &member{settings: s, dir: dir, log: log, reg: prometheus.NewRegistry(), process: newProcess(ctx, log)}
	if err := m.open(cfg); err != nil {
		return errors.Join(err, m.close(), m.process.abandon())
	}
	a.progress("%s", m.greeting(cfg.Servers))
	return m.run()
}

// agentConfig turns the command line into what the agent needs.
func (a *app) agentConfig(f *nodeFlags, s *settings.Settings, dir string, roles []string) (agent.Config, error) {
	cfg := agent.Config{Dir: dir, Name: f.name, Roles: roles, Program: version, Labels: map[string]string{}}
	for _, u := range f.join {
		server, err := joinURL(u)
		if err != nil {
			return cfg, err
		}
		cfg.Servers = append(cfg.Servers, server)
	}
	maps.Copy(cfg.Labels, s.Probe.Labels)
	for _, l := range f.labels {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" || v == "" {
			return cfg, fault.Usage(fmt.Sprintf("--label %s is not KEY=VALUE", l), "write it like --label country=JP")
		}
		cfg.Labels[k] = v
	}
	if f.token != "" || os.Getenv(tokenVariable) != "" {
		cfg.Token = sync.OnceValues(func() (string, error) { return a.joinToken(f.token) })
	}
	if agent.Joined(dir) {
		return cfg, nil
	}
	if cfg.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return cfg, fault.Usage("this machine does not tell its name", "give the node one with --name")
		}
		cfg.Name = strings.ToLower(host)
	}
	if len(roles) == 0 {
		return cfg, fault.Usage("no roles were given to join with", "add --roles dns, --roles edge, --roles probe, or several: --roles dns,probe")
	}
	return cfg, nil
}

// joinURL fills in what people leave out: the scheme, and the port for nodes.
func joinURL(s string) (string, error) {
	text := s
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" {
		return "", fault.BadInput("SERVER_URL", fmt.Sprintf("--join %s is not the URL of control's node port", s), "", "give it like https://control.example.net:"+nodePort)
	}
	port := u.Port()
	if port == "" {
		port = nodePort
	}
	join := url.URL{Scheme: "https", Host: net.JoinHostPort(u.Hostname(), port)} // String escapes the zone of an address again
	return join.String(), nil
}

// joinToken reads the token: from the file named, from standard input for "-", or else from the environment.
func (a *app) joinToken(file string) (string, error) {
	if file == "" {
		return os.Getenv(tokenVariable), nil
	}
	in, from := a.in, "standard input"
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", fault.BadInput("TOKEN_UNREADABLE", "the join token cannot be read", err.Error(), "write what `steer token create` prints into that file, or give it on standard input with --token -")
		}
		defer opened.Close()
		in, from = opened, file
	}
	b, err := io.ReadAll(io.LimitReader(in, maxToken))
	if err != nil {
		return "", fault.BadInput("TOKEN_UNREADABLE", "the join token cannot be read from "+from, err.Error(), "")
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fault.BadInput("TOKEN_EMPTY", "there is no join token in "+from, "it is empty", "on control's machine: steer token create --role ROLES > FILE")
	}
	return text, nil
}

// open binds and loads everything. Nothing of it asks control.
func (m *member) open(cfg agent.Config) error {
	m.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var err error
	if m.folder, err = folder.Open(m.dir); err != nil {
		return folderFault(m.dir, err)
	}
	cfg.Listeners = m.listeners
	if m.agent, err = agent.New(cfg, m.reg, m.log.With("plane", "agent")); err != nil {
		return agentFault(err)
	}
	for _, role := range m.agent.Roles() {
		switch role {
		case agent.RoleDNS:
			err = m.openDNS()
		case agent.RoleProbe:
			err = m.openProbe()
		case agent.RoleEdge:
			err = m.openEdge()
		}
		if err != nil {
			return err
		}
	}
	if m.nearest, err = openNearest(m.process, m.settings, m.reg, m.log); err != nil {
		return err
	}
	addr := m.settings.Listen[settings.RoleHealth]
	if m.health, err = health.Listen(m.process.listen(settings.RoleHealth), addr, m.ready, m.reg); err != nil {
		return startFault(settings.RoleHealth, addr, err)
	}
	if err := m.record(os.Getpid()); err != nil {
		// On a full disk a name server still has its map, and answers by it; the file is for commands on this machine.
		m.log.Warn("where this process listens cannot be written for other commands; it works all the same", "code", "NODE_DISK", "error", err)
	}
	return nil
}

func (m *member) openDNS() error {
	cfg, err := dnsConfig(m.settings, authdns.Config{
		StateFile: filepath.Join(m.dir, follow.FileName), Inherited: m.process.sockets, SilentAfter: silentAfter,
		OpenKeys: openZoneKeys(agent.KeyFile(m.dir)), Updates: m.agent.Update,
	})
	if err != nil {
		return err
	}
	if m.dns, err = authdns.New(cfg, m.reg, m.log.With("plane", "authdns")); err != nil {
		return dnsFault(m.settings, err)
	}
	m.process.answer("name server", m.dns.Run) // at once: after an upgrade queries wait already
	return nil
}

func (m *member) openProbe() error {
	var err error
	m.prober, err = probe.New(probe.Config{
		Point: m.agent.Name(), Version: version, AllowLocal: m.settings.Probe.AllowLoopback,
	}, m.agent.Observe, m.reg, m.log.With("plane", "probe"))
	if err != nil {
		return startFault("probe", "", err)
	}
	return nil
}

// listeners are the bound addresses by role.
func (m *member) listeners() map[string]string {
	l := map[string]string{}
	if m.dns != nil {
		l[settings.RoleDNS] = m.dns.Addrs()[0].String()
		dnsListeners(l, m.dns)
	}
	if m.health != nil {
		l[settings.RoleHealth] = m.health.Addr()
	}
	if m.nearest != nil {
		l[settings.RoleNearest] = m.nearest.Addrs()[0].String()
	}
	if m.gateway != nil {
		gatewayListeners(l, m.gateway.gateway)
	}
	return l
}

// ready says why this node should get no queries. A node that is drained goes on answering those it gets.
func (m *member) ready() error {
	switch {
	case m.agent.Drained():
		return errors.New("drained")
	case m.dns != nil && m.dns.Map().Version == 0:
		return errors.New("no map")
	case m.gateway != nil && m.gateway.State().Version == 0:
		return errors.New("no snapshot")
	case m.dns == nil && m.gateway == nil && !m.agent.Joined():
		return errors.New("not joined")
	}
	return nil
}

// record tells later commands on this machine where this process listens; pid 0: it has stopped.
func (m *member) record(pid int) error {
	if err := locate.WriteRunning(m.dir, locate.Running{PID: pid, Started: time.Now(), Listeners: m.listeners()}); err != nil {
		return startFault("data", m.dir, err)
	}
	return nil
}

// close gives back what open took, when run will not be called.
func (m *member) close() error {
	var errs []error
	if m.dns != nil {
		errs = append(errs, m.dns.Close())
	}
	if m.gateway != nil {
		errs = append(errs, m.gateway.close())
	}
	if m.folder != nil {
		errs = append(errs, m.folder.Close())
	}
	return errors.Join(errs...)
}

func (m *member) greeting(servers []string) string {
	var does []string
	if m.dns != nil {
		does = append(does, fmt.Sprintf("name server on %s%s, map %d", addrs(m.dns.Addrs()), encrypted(m.dns), m.dns.Map().Version))
	}
	if m.prober != nil {
		does = append(does, "probe point")
	}
	if m.gateway != nil {
		does = append(does, fmt.Sprintf("gateway on %s, snapshot %d", addrs(m.gateway.Addrs()), m.gateway.State().Version))
	}
	how := "joins"
	if m.agent.Joined() {
		how = "follows"
	}
	where := strings.Join(servers, ", ")
	if where == "" {
		where = "the control of its last start"
	}
	return fmt.Sprintf("node %s (%s) %s %s; health and metrics on http://%s", m.agent.Name(), strings.Join(does, "; "), how, where, m.health.Addr())
}

// run works until the process is told to stop, or a part fails. The name server answers since it was opened,
// and stops last.
func (m *member) run() error {
	var planes agent.Planes
	if m.dns != nil {
		m.process.work("word from control", m.confirm)
		planes.DNS = dnsPlane{m.dns}
	}
	if m.prober != nil {
		m.process.work("probe point", m.prober.Run)
		planes.Probe = m.prober
	}
	if m.gateway != nil {
		m.gateway.start(m.process)
		m.process.work("geo data", m.places.watch)
		planes.Edge = m.gateway
	}
	m.process.work("health", m.health.Run)
	m.process.work("agent", func(ctx context.Context) error { return m.agent.Run(ctx, planes) })
	err := m.process.wait()
	if recordErr := m.record(0); recordErr != nil {
		m.log.Warn("the run file still names this process", "error", recordErr)
	}
	return errors.Join(agentFault(err), m.folder.Close())
}

func folderFault(dir string, err error) error {
	e := &fault.Error{Exit: fault.ExitBadInput, Code: "DATA_UNUSABLE", What: "the data folder " + dir + " cannot be used", Why: err.Error(), Err: err}
	if errors.Is(err, folder.ErrLocked) {
		e.Code, e.Do = "DATA_IN_USE", "stop the other process, or choose another folder with --data DIR"
	}
	return e
}

// agentFault says why a node cannot join or start.
func agentFault(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*fault.Error](err); ok { // of the token file
		return known
	}
	if r, ok := errors.AsType[*pki.Refusal](err); ok {
		return &fault.Error{Exit: fault.ExitRefused, Code: r.Code, What: "this node was refused", Why: r.What, Do: r.Do, Err: err}
	}
	if errors.Is(err, agent.ErrNoToken) {
		return &fault.Error{
			Exit: fault.ExitBadInput, Code: "NODE_NOT_JOINED", What: "this node has not joined, and no join token was given",
			Do: "on control's machine: steer token create --role ROLES; then give it with --token FILE or $" + tokenVariable, Err: err,
		}
	}
	return stopped(err)
}

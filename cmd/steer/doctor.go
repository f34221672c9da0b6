package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/agent"
	"steerpoint/cmd/steer/internal/doctor"
	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/settings"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
	"steerpoint/geo"
	"steerpoint/spec"
)

// Where Linux keeps what doctor reads.
const (
	rmemMax    = "/proc/sys/net/core/rmem_max"
	resolvConf = "/etc/resolv.conf"
)

func (a *app) doctorCommand() *cobra.Command {
	var listen []string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, the server or the node on it, and the DNS around it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.dataDir()
			if err != nil {
				return err
			}
			s, err := settings.Load(dir, listen)
			if err != nil {
				return err
			}
			results := a.diagnose(cmd.Context(), dir, s)
			if err := a.show(results, func(w io.Writer, p text.Painter) { diagnosis(w, p, results) }); err != nil {
				return err
			}
			if doctor.Worst(results) == doctor.Fail {
				return fault.NotSo()
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&listen, "listen", nil, "ROLE=ADDR, as it would be given to up")
	return c
}

// diagnose checks this machine, and what its data folder makes it: a node of some control, or control itself.
func (a *app) diagnose(ctx context.Context, dir string, s settings.Settings) []doctor.Result {
	var held locate.Running
	if r, err := locate.ReadRunning(dir); err == nil && r.Alive() {
		held = r
	}
	if agent.Joined(dir) && a.server == "" {
		return doctor.Run(ctx, nodeChecks(dir, s, held))
	}
	return append(doctor.Run(ctx, machineChecks(dir, s, held)), a.serverChecks(ctx)...)
}

// nodeChecks are those of a machine that joined: its identity, its control, and what the running node does.
func nodeChecks(dir string, s settings.Settings, held locate.Running) []doctor.Check {
	checks := []doctor.Check{doctor.Clock, doctor.Files, doctor.Buffers(rmemMax), doctor.Folder(dir)}
	m, err := agent.Inspect(dir)
	if err != nil {
		return append(checks, func(context.Context) []doctor.Result {
			return []doctor.Result{{Check: "identity", Level: doctor.Fail, Detail: err.Error(), Do: "join again with a new token"}}
		})
	}
	checks = append(checks, func(context.Context) []doctor.Result {
		return []doctor.Result{{Check: "identity", Level: doctor.OK, Detail: fmt.Sprintf("node %s with %s", m.Name, rolesText(m.Roles))}}
	}, doctor.Certificate(m.Expires, m.Lifetime, time.Now()))
	if slices.Contains(m.Roles, agent.RoleDNS) {
		checks = append(checks, dnsPorts(s, held)...)
	}
	if slices.Contains(m.Roles, agent.RoleEdge) {
		checks = append(checks, gatewayChecks(s, held)...)
	}
	for _, url := range m.Servers {
		checks = append(checks, doctor.Control(url, m.Authority, m.Certificate))
	}
	return append(checks, doctor.Following(held.Listeners[settings.RoleHealth], m.Roles))
}

func dnsPorts(s settings.Settings, held locate.Running) []doctor.Check {
	return ports(s, held, settings.RoleDNS, settings.RoleDoT, settings.RoleDoH)
}

// gatewayChecks look at the ports of a gateway, where it has any, and at the files that its connections need.
func gatewayChecks(s settings.Settings, held locate.Running) []doctor.Check {
	checks := ports(s, held, settings.RoleHTTP, settings.RoleHTTPS)
	if len(checks) > 0 {
		checks = append(checks, doctor.GatewayFiles(cmp.Or(s.Edge.Connections, doctor.GatewayConnections)))
	}
	return checks
}

// ports looks at the listeners of roles that take several.
func ports(s settings.Settings, held locate.Running, roles ...string) []doctor.Check {
	var checks []doctor.Check
	for _, role := range roles {
		in := held.Listeners[role]
		if s.Listen[role] == "" && in == "" {
			continue
		}
		for _, addr := range s.Addresses(role) {
			if role == settings.RoleDNS {
				checks = append(checks, doctor.Port(role, "udp", addr, in))
			}
			checks = append(checks, doctor.Port(role, "tcp", addr, in))
			if in != "" {
				break // the running steer has them all
			}
		}
	}
	return checks
}

func machineChecks(dir string, s settings.Settings, held locate.Running) []doctor.Check {
	checks := []doctor.Check{doctor.Clock, doctor.Files, doctor.Buffers(rmemMax), doctor.Folder(dir)}
	onlyControl := held.PID != 0 && held.Listeners[settings.RoleDNS] == ""
	if !onlyControl { // `steer control` has no name server
		checks = append(checks, dnsPorts(s, held)...)
	}
	checks = append(checks, gatewayChecks(s, held)...)
	checks = append(checks, doctor.Port(settings.RoleAPI, "tcp", s.Listen[settings.RoleAPI], held.Listeners[settings.RoleAPI]))
	if addr, in := s.Listen[settings.RoleNodes], held.Listeners[settings.RoleNodes]; addr != "" || in != "" {
		checks = append(checks, doctor.Port(settings.RoleNodes, "tcp", addr, in))
	}
	db, err := geo.Open(geo.Config{Lists: s.Geo.Lists, Databases: s.Geo.Databases})
	if err != nil {
		return append(checks, func(context.Context) []doctor.Result {
			return []doctor.Result{{Check: "geo data", Level: doctor.Fail, Detail: err.Error(), Do: "name good files in " + settings.File}}
		})
	}
	for _, src := range db.Sources() {
		checks = append(checks, doctor.Geo(src.Name, src.Built, time.Now()))
	}
	return checks
}

// serverChecks asks the server for its alarms, its zones and its services, and the system's resolver about those.
func (a *app) serverChecks(ctx context.Context) []doctor.Result {
	ctx, cancel := context.WithTimeout(ctx, 3*doctor.Timeout)
	defer cancel()
	c, err := a.client()
	var s api.Status
	if err == nil {
		s, err = c.Status(ctx, api.StatusParams{})
	}
	if err != nil {
		level := doctor.Fail
		// Nothing was started or named: what is said of the machine stands alone.
		if faultOf(err).Code == "SERVER_UNKNOWN" && !errors.Is(err, locate.ErrGone) {
			level = doctor.Unknown
		}
		return []doctor.Result{{Check: "server", Level: level, Detail: faultOf(err).Error(), Do: faultOf(err).Do}}
	}
	results := []doctor.Result{{Check: "server", Level: doctor.OK, Detail: "steer " + s.Version + " on " + s.Node}}
	for _, al := range s.Alarms {
		results = append(results, doctor.Result{Check: "alarm", Level: doctor.Warn, Detail: al.Code + " " + render.Alarm(al), Do: "steer help " + al.Code})
	}
	results = append(results, nodesResult(s)...)
	zones, err := zonesOf(ctx, c)
	if err != nil {
		return append(results, doctor.Result{Check: "zones", Level: doctor.Fail, Detail: err.Error()})
	}
	r, err := doctor.SystemResolver(resolvConf)
	if err != nil {
		return append(results, doctor.Result{Check: "resolver", Level: doctor.Unknown, Detail: err.Error()})
	}
	return append(results, doctor.Run(ctx, dnsChecks(r, zones, s))...)
}

// nodesResult says how many nodes are as they should be; those that are not have an alarm each.
func nodesResult(s api.Status) []doctor.Result {
	good, all := 0, 0
	for _, n := range s.Nodes {
		if n.State == api.NodeRevoked {
			continue
		}
		all++
		if n.Connected && (n.Map == nil || n.Map.Error == "") && (n.Tasks == nil || n.Tasks.Error == "") && (n.Gateway == nil || n.Gateway.Error == "") {
			good++
		}
	}
	if all == 0 {
		return nil
	}
	r := doctor.Result{Check: "nodes", Level: doctor.OK, Detail: fmt.Sprintf("%d of %d are connected and take what they are sent", good, all)}
	if good < all {
		r.Level, r.Do = doctor.Warn, "steer node list"
	}
	return []doctor.Result{r}
}

func zonesOf(ctx context.Context, c *api.Client) ([]doctor.Zone, error) {
	rs, err := c.List(ctx, string(spec.KindZone))
	if err != nil {
		return nil, err
	}
	var out []doctor.Zone
	for _, r := range rs {
		var z struct {
			Zone string
			NS   []struct{ Name string }
		}
		if err := json.Unmarshal(r.Document, &z); err != nil {
			return nil, err
		}
		d := doctor.Zone{Name: z.Zone}
		for _, ns := range z.NS {
			d.NS = append(d.NS, ns.Name)
		}
		out = append(out, d)
	}
	return out, nil
}

// dnsChecks are one check a zone, and one a domain that lies outside our zones; wildcards have no name to ask for.
func dnsChecks(r doctor.Resolver, zones []doctor.Zone, s api.Status) []doctor.Check {
	var checks []doctor.Check
	for _, z := range zones {
		checks = append(checks, doctor.Delegation(r, z))
	}
	for _, sv := range s.Services {
		for _, d := range sv.Domains {
			if !strings.HasPrefix(d, "*.") && sv.CNAME != "" && !inZone(d, zones) {
				checks = append(checks, doctor.Domain(r, d, sv.CNAME))
			}
		}
	}
	return checks
}

func inZone(name string, zones []doctor.Zone) bool {
	for _, z := range zones {
		if zone := strings.TrimSuffix(z.Name, "."); name == zone || strings.HasSuffix(name, "."+zone) {
			return true
		}
	}
	return false
}

func diagnosis(w io.Writer, p text.Painter, results []doctor.Result) {
	var t text.Table
	for _, r := range results {
		c := text.Cell{Text: string(r.Level)}
		switch r.Level {
		case doctor.OK:
			c.Color = text.Good
		case doctor.Fail:
			c.Color = text.Bad
		case doctor.Warn:
			c.Color = text.Warn
		}
		detail := r.Detail
		if r.Do != "" && r.Level != doctor.OK {
			detail += "; do: " + r.Do
		}
		t.Row(c, r.Check, detail)
	}
	t.Write(w, p, "")
}

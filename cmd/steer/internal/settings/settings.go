// Package settings reads what a process of steer is told: <data>/steer.yaml, and over it the options of the command
// line.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"steerpoint/cmd/steer/internal/fault"
)

// File is the name of the settings file in the data folder.
const File = "steer.yaml"

// Roles that listen, and where they do by default: loopback, so that nothing is offered to a network unasked.
const (
	RoleDNS    = "dns"    // name server, UDP and TCP
	RoleAPI    = "api"    // HTTP API, status page, metrics
	RoleHealth = "health" // health and metrics of a node without an API
	RoleDemo   = "demo"   // the demo edges; only the port counts
	RoleNodes  = "nodes"  // where nodes join and follow; unset: no nodes
	// RoleNearest answers probes of kind udp16; unset: it does not. 7077 is the usual port.
	RoleNearest = "nearest"
)

// NodesListen is where `steer control` takes nodes unless it is told otherwise: nodes are elsewhere, so every address.
const NodesListen = ":7072"

func roles() []string {
	return []string{RoleDNS, RoleAPI, RoleHealth, RoleNodes, RoleNearest, RoleDemo, RoleDoT, RoleDoH, RoleHTTP, RoleHTTPS}
}

func defaults() map[string]string {
	return map[string]string{
		RoleDNS: "127.0.0.1:5300", RoleAPI: "127.0.0.1:7070", RoleHealth: "127.0.0.1:7079", RoleNodes: "", RoleNearest: "", RoleDemo: "",
		RoleDoT: "", RoleDoH: "", RoleHTTP: "", RoleHTTPS: "",
	}
}

// Settings of one process. The zero value of each field means the default.
type Settings struct {
	// Listen is ADDR:PORT by role. Port 0 takes a free one. A port alone is on 127.0.0.1, ":port" on every address.
	// The roles of the name server and the gateway (dns, dot, doh, http, https) take several, divided by commas or, in the file, as a list.
	Listen Listen `yaml:"listen"`
	// Geo names data files, the most preferred first; the built-in country table comes after them.
	Geo Geo `yaml:"geo"`
	// Probe says what the probe point of this process may do.
	Probe Probe `yaml:"probe"`
	// API says under which further names the API may be asked (Host header), such as that of a proxy before it.
	API API `yaml:"api"`
	// Notify says where notifiers may post to.
	Notify Notify `yaml:"notify"`
	// Seal says where the key is by which Secrets are kept.
	Seal Seal `yaml:"seal"`
	// Resolvers, ADDR or ADDR:PORT, find the addresses of names elsewhere; empty: those of /etc/resolv.conf.
	Resolvers []string `yaml:"resolvers"`
	// DNS says how the name server of this process behaves.
	DNS DNS `yaml:"dns"`
	// Edge says how the gateway of this process behaves.
	Edge Edge `yaml:"edge"`
	// DNSSEC says how control learns what the parents of signed zones have.
	DNSSEC DNSSEC `yaml:"dnssec"`
	// ACME says how control orders certificates for domains that say auto.
	ACME ACME `yaml:"acme"`
}

// Geo names data files. A relative path is in the data folder.
type Geo struct {
	Databases []string `yaml:"databases"` // of any format that package geo reads
	Lists     []string `yaml:"lists"`     // prefix lists: they beat every database
}

// in puts relative paths into the data folder.
func (g *Geo) in(dir string) {
	for _, list := range [][]string{g.Databases, g.Lists} {
		for i, path := range list {
			if !filepath.IsAbs(path) {
				list[i] = filepath.Join(dir, path)
			}
		}
	}
}

// Probe is the local probe point.
type Probe struct {
	// AllowLoopback lets it probe loopback and link-local addresses. Default false; --demo sets it.
	AllowLoopback bool `yaml:"allowLoopback"`
	// Labels say where it is: continent, country, province, city, isp, region.
	Labels map[string]string `yaml:"labels"`
}

// Notify is what notifiers may do.
type Notify struct {
	// AllowLoopback lets them post to loopback, link-local and metadata addresses. Default false.
	AllowLoopback bool `yaml:"allowLoopback"`
}

// Seal is how Secrets are kept.
type Seal struct {
	// KeyFile holds the sealing key. A relative path is in the data folder. "": seal.key there.
	KeyFile string `yaml:"keyFile"`
}

// API of the control role.
type API struct {
	Hosts []string `yaml:"hosts"`
}

// Load reads <dir>/steer.yaml, if it is there, and puts the --listen options over it.
func Load(dir string, listen []string) (Settings, error) {
	var s Settings
	path := filepath.Join(dir, File)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		e := fault.BadInput("DATA_UNUSABLE", dir+" is not a folder", "", "give a folder with --data DIR")
		e.Err = err
		return s, e
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return s, bad(path, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, bad(path, err)
	}
	s.Geo.in(dir)
	s.DNS.in(dir)
	if s.Edge.AccessLog != "" && !filepath.IsAbs(s.Edge.AccessLog) {
		s.Edge.AccessLog = filepath.Join(dir, s.Edge.AccessLog)
	}
	if s.ACME.Roots != "" && !filepath.IsAbs(s.ACME.Roots) {
		s.ACME.Roots = filepath.Join(dir, s.ACME.Roots)
	}
	if s.Seal.KeyFile != "" && !filepath.IsAbs(s.Seal.KeyFile) {
		s.Seal.KeyFile = filepath.Join(dir, s.Seal.KeyFile)
	}
	all := defaults()
	for role, addr := range s.Listen {
		if all[role], err = address(role, addr); err != nil {
			return s, bad(path, err)
		}
	}
	given := map[string]bool{}
	for _, o := range listen {
		role, addr, ok := strings.Cut(o, "=")
		if !ok {
			return s, fault.Usage(fmt.Sprintf("--listen %s is not ROLE=ADDR:PORT", o), "write it like --listen dns=127.0.0.1:5353")
		}
		if addr, err = address(role, addr); err != nil {
			return s, fault.Usage("--listen "+o+": "+err.Error(), "write it like --listen dns=127.0.0.1:5353")
		}
		if given[role] && several(role) {
			addr = all[role] + "," + addr
		}
		given[role], all[role] = true, addr
	}
	s.Listen = all
	return s, nil
}

// address checks a role's listen addresses.
func address(role, s string) (string, error) {
	if !slices.Contains(roles(), role) {
		return "", fmt.Errorf("there is no role %q that listens; the roles are %s", role, strings.Join(roles(), ", "))
	}
	if !several(role) {
		return oneAddress(s)
	}
	parts := strings.Split(s, ",")
	for i, part := range parts {
		var err error
		if parts[i], err = oneAddress(strings.TrimSpace(part)); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, ","), nil
}

// oneAddress checks a listen address and fills in the loopback host of a port alone.
func oneAddress(s string) (string, error) {
	if _, err := strconv.ParseUint(s, 10, 16); err == nil {
		return "127.0.0.1:" + s, nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("%q is not ADDR:PORT", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q has no port from 0 to 65535", s)
	}
	return s, nil
}

// Bind gives the listen addresses of a role as the name server takes them. An empty host is every address of both
// families.
func (s *Settings) Bind(role string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for _, addr := range s.Addresses(role) {
		list, err := bind(role, addr)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func bind(role, text string) ([]netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return nil, fault.Usage(fmt.Sprintf("%q is not ADDR:PORT", text), "")
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fault.Usage(fmt.Sprintf("%q is not a port", portText), "")
	}
	if host == "" {
		return []netip.AddrPort{
			netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)),
			netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)),
		}, nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fault.Usage(fmt.Sprintf("the %s role listens on addresses, and %q is none", role, host), "write an address such as 0.0.0.0, not a name")
	}
	return []netip.AddrPort{netip.AddrPortFrom(addr, uint16(port))}, nil
}

func bad(path string, err error) error {
	e := fault.BadInput("SETTINGS", "the settings in "+path+" cannot be used", err.Error(), "")
	e.Err = err
	return e
}

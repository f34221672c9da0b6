package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"steerpoint/cmd/steer/internal/locate"
	"steerpoint/cmd/steer/internal/settings"
)

// banner is what a process with control in it prints when it serves.
func banner(w io.Writer, c *center) {
	l := c.listeners()
	var serves []string
	if c.dns != nil {
		serves = append(serves, "name server on "+addrs(c.dns.Addrs())+encrypted(c.dns))
	}
	if l[settings.RoleHTTP] != "" {
		serves = append(serves, "the gateway on http://"+l[settings.RoleHTTP])
	}
	if l[settings.RoleHTTPS] != "" {
		serves = append(serves, "the gateway on https://"+l[settings.RoleHTTPS])
	}
	scheme := "http"
	if c.control.Secure() {
		scheme = "https"
	}
	serves = append(serves, fmt.Sprintf("API and status page on %s://%s/", scheme, l[settings.RoleAPI]))
	if l[settings.RoleNodes] != "" {
		serves = append(serves, "nodes on "+l[settings.RoleNodes])
	}
	fmt.Fprintf(w, "steer is up: %s, data in %s\n", strings.Join(serves, ", "), c.dir)
}

// demoBanner says what to try, with the addresses as they are: each line can be copied.
func demoBanner(w io.Writer, listeners map[string]string, dir string) {
	host, port, err := net.SplitHostPort(listeners[settings.RoleDNS])
	if err != nil {
		host, port = listeners[settings.RoleDNS], "53" // never: it was bound
	}
	steer := program()
	env := ""
	if !isDefault(dir) {
		env = "\n    export STEER_DATA=" + dir + "   # the data folder of this demo\n"
	}
	dig := fmt.Sprintf("dig @%s -p %s shop.gslb.example.net", host, port)
	fmt.Fprintf(w, `
The demo runs: service shop on three edges, service web behind the gateway. Leave it running and try this in a second terminal.
%[1]s
  Who is answered what (the client subnet decides; the answer says how wide it is good for):
    %[2]s +subnet=192.0.2.0/24      # everybody: east, while it is up
    %[2]s +subnet=1.1.1.0/24         # Australia: south, which has two addresses
    %[2]s +subnet=198.51.100.0/24   # the office: west, whatever is measured
  And why:
    %[3]s explain shop.gslb.example.net --client 192.0.2.7
    %[3]s status shop
  Break an edge; within seconds the answer moves:
    %[3]s demo break east
    %[3]s switches
  Heal it; it returns when it has stayed well for its cool-down, 10s here:
    %[3]s demo heal east
    %[3]s watch                     # what happens, as it happens
  One address of two, slow, lossy:
    %[3]s demo break south/127.0.0.14
    %[3]s demo slow west 300ms
    %[3]s demo lose west 50%%
  The gateway: one service, four ways to choose among the origins near, middle and far:
    curl http://%[5]s/latency      # the fastest
    curl http://%[5]s/priority     # near, while it works
    curl http://%[5]s/weight       # near nine times of ten
    curl -c jar -b jar http://%[5]s/affinity   # always the same, by a cookie
  Break one, and see why it is left out:
    %[3]s demo break near
    %[3]s explain http://%[5]s/priority
    %[3]s status web
  Status page: http://%[4]s/
  Stop: Ctrl-C

`, env, dig, steer, listeners[settings.RoleAPI], demoHost(listeners[settings.RoleHTTP]))
}

// demoHost is the demo's service as a URL names it: the port is where the gateway listens.
func demoHost(gateway string) string {
	_, port, err := net.SplitHostPort(gateway)
	if err != nil || port == "80" {
		return "web.localhost"
	}
	return "web.localhost:" + port
}

// isDefault reports whether a command in another terminal finds dir by itself.
func isDefault(dir string) bool {
	usual, err := locate.Options{Env: func(k string) string {
		if k == "STEER_DATA" { // set here, but maybe not there
			return ""
		}
		return os.Getenv(k)
	}}.DataDir()
	return err == nil && usual == dir
}

// program is how this program was called, so that printed commands work where it is not in the path.
func program() string {
	if strings.Contains(os.Args[0], "/") {
		return os.Args[0]
	}
	return "steer"
}

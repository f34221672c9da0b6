package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// peer is a name server and how it is made to answer our zone with one worker.
type peer struct {
	name, program, packages string
	ours, geo               bool
	// prepare writes the configuration into dir and gives the command line. Data, of n hosts, is in work.
	prepare func(dir, work string, port, n int) ([]string, error)
	env     []string
	// byItself: it is our name server alone, which takes the next map at a signal.
	byItself bool
}

// peers are those of a phase. With a million names what is ours is the name server by itself, as on a node, with a service a
// name and forty rules each; PowerDNS with a file of geoip data is not made for that many.
func peers(steer, nameserver string, p phase) []peer {
	one := []string{"GOMAXPROCS=1"}
	file := "zone"
	if p.signed {
		file = signedFile
	}
	gdnsd := peer{name: "gdnsd", program: "gdnsd", packages: "gdnsd", geo: true, prepare: prepareGdnsd}
	all := []peer{
		{name: "knot", program: "knotd", packages: "knot", prepare: prepareKnot(file)},
		{name: "nsd", program: "nsd", packages: "nsd", prepare: prepareNSD(file)},
	}
	if p.signed { // the others of the list have no DNSSEC, or none for a zone that is signed already
		return append([]peer{{name: "steer", program: steer, ours: true, prepare: prepareSteer(steer, true), env: one}}, all...)
	}
	all = append([]peer{gdnsd}, all...)
	if p.names > few {
		return append([]peer{{name: "steer", program: nameserver, ours: true, byItself: true, prepare: prepareNameServer(nameserver), env: one}}, all...)
	}
	return append([]peer{{name: "steer", program: steer, ours: true, geo: true, prepare: prepareSteer(steer, false), env: one}}, append(all,
		peer{name: "pdns-geoip", program: "pdns_server", packages: "pdns-server pdns-backend-geoip", geo: true, prepare: preparePowerDNS})...)
}

// prepareNameServer makes a map of n services, and the deltas to the next ones.
func prepareNameServer(program string) func(dir, work string, port, n int) ([]string, error) {
	return func(dir, _ string, port, n int) ([]string, error) {
		state := filepath.Join(dir, "dns.map")
		out, err := exec.Command(program, "-make", "-state", state, "-names", strconv.Itoa(n)).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		fmt.Printf("map of ours: %s", out)
		return []string{program, "-state", state, "-listen", fmt.Sprintf("127.0.0.1:%d", port), "-sockets", "1"}, nil
	}
}

func put(dir, file, format string, args ...any) error {
	return os.WriteFile(filepath.Join(dir, file), fmt.Appendf(nil, format, args...), 0o644)
}

// prepareSteer writes the zone, a service whose domains are the hosts, and one for the steered name. What answers is all of `steer up`: control and
// its store run beside the name server, as they do for a user with one machine.
func prepareSteer(steer string, signed bool) func(dir, work string, port, n int) ([]string, error) {
	return func(dir, work string, port, n int) ([]string, error) {
		data := filepath.Join(dir, "data")
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, err
		}
		if err := put(data, "steer.yaml", "geo: {databases: [%q]}\n", filepath.Join(work, "geo.mmdb")); err != nil {
			return nil, err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "apiVersion: steerpoint/v1\nkind: Zone\nname: bench\nzone: %s\nsteering: true\nns: [{name: ns1.%s, addresses: [127.0.0.1]}]\n", zoneName, zoneName)
		if signed {
			b.WriteString("dnssec: {enabled: true}\n")
		}
		fmt.Fprintf(&b, "---\napiVersion: steerpoint/v1\nkind: Service\nname: hosts\ndomains:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - %s\n", host(i))
		}
		fmt.Fprintf(&b, "edges: [{name: one, addresses: [%s]}]\nrules: [{name: all, scope: \"*\", mode: fixed, edges: [one]}]\n", hostAddress)
		fmt.Fprintf(&b, "---\napiVersion: steerpoint/v1\nkind: Service\nname: geo\ndomains: [www.example.com]\nedges:\n")
		for _, p := range places {
			fmt.Fprintf(&b, "  - {name: %s, addresses: [%s]}\n", strings.ToLower(p.country), p.edge)
		}
		b.WriteString("rules:\n")
		for _, p := range places {
			fmt.Fprintf(&b, "  - {name: %s, scope: {country: [%s]}, mode: fixed, edges: [%s]}\n", strings.ToLower(p.country), p.country, strings.ToLower(p.country))
		}
		b.WriteString("  - {name: rest, scope: \"*\", mode: fixed, edges: [cn]}\n")
		// What moves each second where maps are swapped.
		b.WriteString("---\napiVersion: steerpoint/v1\nkind: Service\nname: flip\ndomains: [flip.example.com]\n" +
			"edges: [{name: a, addresses: [192.0.2.1]}, {name: b, addresses: [192.0.2.2]}]\nrules: [{name: all, scope: \"*\", mode: fixed, edges: [a, b]}]\n")
		if err := put(dir, "site.yaml", "%s", b.String()); err != nil {
			return nil, err
		}
		return []string{
			steer, "up", "--data", data, "--listen", fmt.Sprintf("dns=127.0.0.1:%d", port), "--listen", fmt.Sprintf("api=127.0.0.1:%d", port+1000),
		}, nil
	}
}

func prepareGdnsd(dir, work string, port, _ int) ([]string, error) {
	zone, err := os.ReadFile(filepath.Join(work, "zone"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "zones"), 0o755); err != nil {
		return nil, err
	}
	_, records, _ := strings.Cut(string(zone), "\n") // its origin is the file's name
	if err := put(filepath.Join(dir, "zones"), zoneName, "%sgeo 30 IN DYNA geoip!geo\n", records); err != nil {
		return nil, err
	}
	var centers, coordinates, addresses []string
	for _, p := range places {
		name := strings.ToLower(p.country)
		centers = append(centers, name)
		coordinates = append(coordinates, fmt.Sprintf("%s => [%g, %g]", name, p.lat, p.lon))
		addresses = append(addresses, name+" => "+p.edge)
	}
	return []string{"gdnsd", "-c", dir, "start"}, put(dir, "config", `options => {
  listen => 127.0.0.1:%d
  run_dir => %s/run
  state_dir => %s/state
  udp_threads => 1
  tcp_threads => 1
}
service_types => { none => { plugin => null } }
plugins => { geoip => {
  maps => { m => {
    geoip2_db => %s/geo.mmdb
    datacenters => [%s]
    auto_dc_coords => { %s }
  } }
  resources => { geo => { map => m, dcmap => { %s } } }
} }
`, port, dir, dir, work, strings.Join(centers, ", "), strings.Join(coordinates, ", "), strings.Join(addresses, ", "))
}

func prepareKnot(file string) func(dir, work string, port, n int) ([]string, error) {
	return func(dir, work string, port, _ int) ([]string, error) {
		return []string{"knotd", "-c", filepath.Join(dir, "knot.conf")}, put(dir, "knot.conf", knotConf, dir, port, dir, zoneName, work, file)
	}
}

const knotConf = `server:
    rundir: "%s"
    listen: 127.0.0.1@%d
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: error
database:
    storage: "%s"
zone:
  - domain: %s
    storage: "%s"
    file: "%s"
    zonefile-sync: -1
    journal-content: none
`

func prepareNSD(file string) func(dir, work string, port, n int) ([]string, error) {
	return func(dir, work string, port, _ int) ([]string, error) {
		return []string{"nsd", "-d", "-c", filepath.Join(dir, "nsd.conf")},
			put(dir, "nsd.conf", nsdConf, port, work, dir, dir, dir, dir, dir, zoneName, file)
	}
}

const nsdConf = `server:
    ip-address: 127.0.0.1@%d
    server-count: 1
    username: ""
    zonesdir: "%s"
    database: ""
    pidfile: "%s/nsd.pid"
    xfrdfile: "%s/xfrd.state"
    xfrdir: "%s"
    zonelistfile: "%s/zone.list"
    logfile: "%s/nsd.log"
    rrl-ratelimit: 0
    minimal-responses: yes
remote-control:
    control-enable: no
zone:
    name: %s
    zonefile: %s
`

func preparePowerDNS(dir, work string, port, n int) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "domains:\n- domain: %[1]s\n  ttl: 30\n  records:\n    %[1]s:\n      - soa: ns1.%[1]s hostmaster.%[1]s 1 7200 3600 86400 60\n      - ns: ns1.%[1]s\n", zoneName)
	for i := range n {
		fmt.Fprintf(&b, "    %s:\n      - a: %s\n", host(i), hostAddress)
	}
	for _, p := range places {
		fmt.Fprintf(&b, "    %s.at.%s:\n      - a: %s\n", strings.ToLower(p.country), zoneName, p.edge)
	}
	fmt.Fprintf(&b, "  services:\n    geo.%[1]s: [ '%%cc.at.%[1]s' ]\n", zoneName)
	if err := put(dir, "zones.yaml", "%s", b.String()); err != nil {
		return nil, err
	}
	return []string{"pdns_server", "--config-dir=" + dir}, put(dir, "pdns.conf", `local-address=127.0.0.1
local-port=%d
socket-dir=%s
launch=geoip
geoip-zones-file=%s/zones.yaml
geoip-database-files=mmdb:%s/geo.mmdb
edns-subnet-processing=yes
receiver-threads=1
distributor-threads=1
guardian=no
daemon=no
loglevel=3
webserver=no
security-poll-suffix=
reuseport=no
`, port, dir, dir, work)
}

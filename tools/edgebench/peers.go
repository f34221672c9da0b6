package main

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// confs are the configurations of all peers. @PLAIN@ and @TLS@ are its ports, @ORIGIN@ the origin's address, @DIR@ a folder of
// its own, @WORK@ that of the certificate, @HOST@ the name that clients ask for.
//
//go:embed conf
var confs embed.FS

// hostName is what clients ask for, and what the certificate is of.
const hostName = "bench.example.com"

// peer is a proxy and how it is made to forward everything to one origin with one worker: with an access log, checks of the
// origin, X-Forwarded-For and kept connections.
type peer struct {
	name, program string
	from          string // how to get it
	ours          bool
	files         map[string]string // of conf/, by the name they get
	args          func(program, dir string, p ports) []string
	env           []string
}

// ports are where a peer listens.
type ports struct{ plain, tls, more int }

func peers(steer, gateway string) []peer {
	one := []string{"GOMAXPROCS=1"}
	return []peer{
		{
			name: "steer", program: steer, ours: true, env: one, files: map[string]string{"data/steer.yaml": "steer.yaml", "site.yaml": "site.yaml"},
			args: func(program, dir string, p ports) []string {
				return []string{
					program, "up", "--data", filepath.Join(dir, "data"), "--listen", loopback("http", p.plain), "--listen", loopback("https", p.tls),
					"--listen", loopback("api", p.more), "--listen", loopback("dns", p.more+1),
				}
			},
		},
		{
			name: "plane", program: gateway, env: one, // for those who look where the time goes; it is not measured unless it is asked for
			args: func(program, dir string, p ports) []string {
				return []string{
					program, "-listen", fmt.Sprintf("127.0.0.1:%d", p.plain), "-tls", fmt.Sprintf("127.0.0.1:%d", p.tls), "-cert", filepath.Dir(dir),
					"-to", originAddr, "-log", filepath.Join(dir, "access.log"),
				}
			},
		},
		{
			name: "haproxy", program: "haproxy", from: "apt-get install haproxy", files: map[string]string{"haproxy.cfg": "haproxy.cfg"},
			args: func(program, dir string, _ ports) []string {
				return []string{program, "-db", "-f", filepath.Join(dir, "haproxy.cfg")}
			},
		},
		{
			name: "nginx", program: "nginx", from: "apt-get install nginx-light", files: map[string]string{"nginx.conf": "nginx.conf"},
			args: func(program, dir string, _ ports) []string {
				return []string{program, "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log")}
			},
		},
		{
			name: "caddy", program: "caddy", from: "apt-get install caddy", env: one, files: map[string]string{"Caddyfile": "Caddyfile"},
			args: func(program, dir string, _ ports) []string {
				return []string{program, "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile"}
			},
		},
		{
			name: "traefik", program: "traefik", from: "Debian has no package of it; a built one must be in the PATH", env: one, files: map[string]string{"traefik.yml": "traefik.yml", "dynamic.yml": "traefik-dynamic.yml"},
			args: func(program, dir string, _ ports) []string {
				return []string{program, "--configFile=" + filepath.Join(dir, "traefik.yml")}
			},
		},
	}
}

func loopback(role string, port int) string { return fmt.Sprintf("%s=127.0.0.1:%d", role, port) }

// write writes the configuration of a peer into its folder.
func (x *peer) write(dir, work string, p ports) error {
	fill := strings.NewReplacer("@PLAIN@", strconv.Itoa(p.plain), "@TLS@", strconv.Itoa(p.tls), "@ORIGIN@", originAddr, "@DIR@", dir, "@WORK@", work, "@HOST@", hostName)
	for name, from := range x.files {
		text, err := confs.ReadFile("conf/" + from)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(fill.Replace(string(text))), 0o600); err != nil {
			return err
		}
	}
	return nil
}

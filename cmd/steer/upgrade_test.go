package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns"
	"steerpoint/cmd/steer/internal/follow"
	"steerpoint/packaging/dnsload"
	"steerpoint/snapshot"
)

// upgradeName is answered alike to everyone, by the old program and the new one.
const upgradeName, upgradeAddr = "www.example.com.", "192.0.2.80"

// TestUpgradeLosesNoQuery replaces the program of a name server that is asked 2,000 times a second over UDP, and over
// TCP one connection after another: it is the same process on the same ports, every query is answered, and rightly.
// Programs that cannot run are refused before, and the one that runs goes on.
// Covers: A2, issue3 upgrade
func TestUpgradeLosesNoQuery(t *testing.T) {
	t.Parallel()
	data, program := t.TempDir(), filepath.Join(t.TempDir(), "steer")
	keepMap(t, data)
	install(t, program, self(t))
	node := startProcess(t, program, "node", "--roles", "dns", "--data", data, "--listen", "dns=127.0.0.1:0", "--listen", "health=127.0.0.1:0")
	load, err := dnsload.Start(node.dns, upgradeName, upgradeAddr, startWait)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []string{"#!/bin/sh\nexit 3\n", "#!/bin/sh\necho another program\n", "\x7fELF cut short"} {
		before := node.log.count("UPGRADE_REFUSED")
		install(t, program, writeProgram(t, broken))
		node.signal(t, syscall.SIGUSR2)
		node.log.await(t, "UPGRADE_REFUSED", before+1)
	}
	for n := 2; n <= 3; n++ {
		install(t, program, self(t))
		answers(t, load, 1000)
		node.signal(t, syscall.SIGUSR2)
		node.log.await(t, serving, n)
		if !sameFile(t, program, fmt.Sprintf("/proc/%d/exe", node.cmd.Process.Pid)) {
			t.Error("the process does not run the new program")
		}
		answers(t, load, 1000)
	}
	result, err := load.Stop()
	if err != nil {
		t.Error(err)
	}
	t.Logf("%+v; log:\n%s", result, node.log)
}

// TestUpgradeOfEverything does so with `steer up`: its name server answers while control, which takes longer, starts anew.
// Covers: A2, issue3 upgrade
func TestUpgradeOfEverything(t *testing.T) {
	t.Parallel()
	data, program := t.TempDir(), filepath.Join(t.TempDir(), "steer")
	install(t, program, self(t))
	up := startProcess(t, program, "up", "--data", data, "--listen", "dns=127.0.0.1:0", "--listen", "api=127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "site.yaml")
	if err := os.WriteFile(file, []byte(upgradeSite), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "apply", "--data", data, "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	client := dns.Client{Timeout: time.Second}
	for end := time.Now().Add(startWait); ; time.Sleep(poll) {
		m, _, err := client.Exchange(new(dns.Msg).SetQuestion(upgradeName, dns.TypeA), up.dns)
		if err == nil && len(m.Answer) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the service is not answered: %v, %v", m, err)
		}
	}
	load, err := dnsload.Start(up.dns, upgradeName, upgradeAddr, startWait)
	if err != nil {
		t.Fatal(err)
	}
	install(t, program, self(t))
	answers(t, load, 1000)
	up.signal(t, syscall.SIGUSR2)
	up.log.await(t, serving, 2)
	answers(t, load, 1000)
	result, err := load.Stop()
	if err != nil {
		t.Error(err)
	}
	if !sameFile(t, program, fmt.Sprintf("/proc/%d/exe", up.cmd.Process.Pid)) {
		t.Error("the process does not run the new program")
	}
	t.Logf("%+v; log:\n%s", result, up.log)
}

// upgradeSite gives everybody one address for upgradeName.
const upgradeSite = `
apiVersion: steerpoint/v1
kind: Zone
name: hosted
zone: example.com
steering: true
ns: [{name: ns.example.net}]
soa: {mname: ns.example.net, rname: hostmaster.example.com, minimum: 1m}
---
apiVersion: steerpoint/v1
kind: Service
name: web
domains: [www.example.com]
dns: {provider: builtin, zone: example.com}
edges: [{name: only, addresses: [` + upgradeAddr + `]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [only]}]
`

// keepMap puts a map into a data folder, as a name server keeps it.
func keepMap(t *testing.T, dir string) {
	t.Helper()
	s, err := authdns.New(authdns.Config{
		Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, StateFile: filepath.Join(dir, follow.FileName),
	}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ns := snapshot.NameServer{Name: "ns.example.net."}
	err = s.Swap(&snapshot.DNS{
		Version: 1, Created: time.Now(),
		Zones: []snapshot.DNSZone{{
			Name: "example.com.", NS: []snapshot.NameServer{ns}, NSTTL: time.Minute,
			SOA:     snapshot.SOA{MName: ns.Name, RName: "hostmaster.example.com.", Minimum: time.Minute},
			Records: []snapshot.DNSRecord{{Name: upgradeName, Type: "A", TTL: time.Minute, Data: []string{upgradeAddr}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what was given is kept at the end
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func writeProgram(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// install puts a program in the place of another as a package manager does: beside it, then renamed.
func install(t *testing.T, path, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if err := errors.Join(errX, errY); err != nil {
		t.Fatal(err)
	}
	return os.SameFile(x, y)
}

// answers waits for n more right answers.
func answers(t *testing.T, l *dnsload.Load, n int64) {
	t.Helper()
	want := l.Answered() + n
	for end := time.Now().Add(startWait); l.Answered() < want; time.Sleep(poll) {
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("answers do not come: %d of %d", l.Answered(), want)
		}
	}
}

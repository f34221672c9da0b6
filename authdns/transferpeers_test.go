package authdns

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
)

// peerPatience bounds the wait for programs that have their own timers.
const peerPatience = 2 * time.Minute

// What the configurations of a server have alike.
const (
	bindOptions = `
options {
	directory "%[1]s"; pid-file "%[1]s/named.pid"; session-keyfile "%[1]s/session.key"; managed-keys-directory "%[1]s";
	listen-on port %[2]d { 127.0.0.1; }; listen-on-v6 { none; };
	recursion no; dnssec-validation no; allow-query { any; }; minimal-responses yes; zero-no-soa-ttl no;
`
	bindKey = `};
controls { };
key "xfer.example." { algorithm hmac-sha256; secret "%[4]s"; };
`
	knotServer = `
server:
    rundir: "%[1]s"
    listen: 127.0.0.1@%[2]d
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: info
database:
    storage: "%[1]s"
key:
  - id: xfer.example.
    algorithm: hmac-sha256
    secret: %[4]s
remote:
  - id: steer
    address: 127.0.0.1@%[3]d
    key: xfer.example.
acl:
  - id: told
    action: notify
    key: xfer.example.
`
)

// peer is another name server that copies child.example.com from ours. %[1]s is its folder, %[2]d its port, %[3]d ours, %[4]s
// the secret.
type peer struct {
	name, program, config string
	args                  []string // before the file with the configuration
}

var peers = []peer{
	{"BIND", "named", bindOptions + bindKey + `zone "child.example.com" { type secondary; primaries { 127.0.0.1 port %[3]d key "xfer.example."; }; file "child.db"; };
`, []string{"-g", "-n", "1", "-c"}},
	{"Knot", "knotd", knotServer + `zone:
  - domain: child.example.com
    storage: "%[1]s"
    master: steer
    acl: told
`, []string{"-c"}},
	{"NSD", "nsd", `
server:
    ip-address: 127.0.0.1@%[2]d
    server-count: 1
    username: ""
    chroot: ""
    database: ""
    zonesdir: "%[1]s"
    xfrdir: "%[1]s"
    xfrdfile: "%[1]s/xfrd.state"
    zonelistfile: "%[1]s/zone.list"
    pidfile: "%[1]s/nsd.pid"
    verbosity: 2
remote-control:
    control-enable: no
key:
    name: "xfer.example."
    algorithm: hmac-sha256
    secret: "%[4]s"
zone:
    name: child.example.com
    zonefile: child.zone
    allow-notify: 127.0.0.1 xfer.example.
    request-xfr: 127.0.0.1@%[3]d xfer.example.
`, []string{"-d", "-c"}},
}

// find is where a program is; those of servers are often in no user's path.
func find(program string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if info, err := os.Stat(filepath.Join(dir, program)); err == nil && info.Mode()&0o111 != 0 {
			return filepath.Join(dir, program)
		}
	}
	return ""
}

// freePort is one that nobody has for UDP and TCP.
func freePort(t *testing.T) uint16 {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().(*net.TCPAddr).AddrPort()
		u, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
		_ = l.Close()
		if err == nil {
			_ = u.Close()
			return addr.Port()
		}
	}
	t.Fatal("no port is free")
	return 0
}

// run starts the peer; it is ended with the test.
func (p *peer) run(t *testing.T, path string, port, ours uint16) *lockedBuffer {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, p.config, dir, port, ours, xferSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &lockedBuffer{}
	cmd := exec.Command(path, append(slices.Clone(p.args), file)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, dir
	cmd.WaitDelay = time.Second // a child of it may hold its output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // it was told to end
		kill.Stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, out)
		}
	})
	return out
}

// answered is what a server answers, as far as servers agree in form: code, authority, answer, and the SOA of a denial.
func answered(t *testing.T, addr, name string, kind uint16) []string {
	t.Helper()
	c := dns.Client{Timeout: 5 * time.Second}
	m, _, err := c.Exchange(dnstest.Query(name, kind), addr)
	if err != nil {
		return []string{err.Error()}
	}
	out := []string{dns.RcodeToString[m.Rcode], fmt.Sprint(m.Authoritative)}
	for _, rr := range m.Answer {
		out = append(out, rr.String())
	}
	for _, rr := range m.Ns {
		if len(m.Answer) == 0 && rr.Header().Rrtype == dns.TypeSOA {
			out = append(out, rr.String())
		}
	}
	slices.Sort(out[2:])
	return out
}

// peerRecords are in every version of the zone.
func peerRecords() []snapshot.DNSRecord {
	record := func(name, kind string, data ...string) snapshot.DNSRecord {
		if name != "" {
			name += "."
		}
		return snapshot.DNSRecord{Name: name + childName, Type: kind, TTL: time.Minute, Data: data}
	}
	out := []snapshot.DNSRecord{
		record("", "MX", "10 mail.child.example.com.", "20 mail.elsewhere.test."),
		record("", "CAA", `0 issue "ca.example.net"`),
		record("mail", "A", "192.0.2.1", "192.0.2.2"),
		record("mail", "AAAA", "2001:db8::1"),
		record("www", "CNAME", "mail.child.example.com."),
		record("*.wild", "TXT", `"any \"name\" \\ here"`),
		record("_sip._tcp", "SRV", "0 5 5060 sip.child.example.com."),
		record("a.b.c", "PTR", "host.elsewhere.test."),
		record("svc", "HTTPS", `1 . alpn="h2,h3" ipv4hint="192.0.2.9"`),
	}
	for i := range 300 { // the whole zone is longer than its steps
		out = append(out, record(fmt.Sprintf("h%d", i), "A", fmt.Sprintf("192.0.%d.%d", 3+i/200, i%200)))
	}
	return out
}

// TestPeers has BIND, Knot and NSD copy a zone, with a key, and stay in step by NOTIFY and IXFR: at every version they answer
// as we do.
//
// Covers: issue5 secondaries, rfc 1996 peers, rfc 1995 peers, rfc 5936 peers, rfc 8945 agrees
func TestPeers(t *testing.T) {
	for i := range peers {
		t.Run(peers[i].name, func(t *testing.T) {
			path := find(peers[i].program)
			if path == "" {
				t.Skipf("%s is not installed", peers[i].program)
			}
			testPeer(t, &peers[i], path)
		})
	}
}

func testPeer(t *testing.T, p *peer, path string) {
	port := freePort(t)
	mapOf := func(version uint64, records ...string) *snapshot.DNS {
		d := xferMap(t, version, records...)
		d.Zones[childIndex].Records = append(d.Zones[childIndex].Records, peerRecords()...)
		d.Zones[childIndex].Transfer.To = []snapshot.DNSSecondary{{Address: netip.MustParseAddr("127.0.0.1"), Port: port, Key: xferKey}}
		return d
	}
	r := start(t, Config{}, mapOf(1<<32-2, "v one"))
	_, ours, _ := strings.Cut(r.addr, ":")
	var ourPort uint16
	if _, err := fmt.Sscan(ours, &ourPort); err != nil {
		t.Fatal(err)
	}
	p.run(t, path, port, ourPort)
	theirs := fmt.Sprintf("127.0.0.1:%d", port)
	inStep := func() {
		t.Helper()
		want := answered(t, r.addr, childName, dns.TypeSOA)
		var got []string
		for deadline := time.Now().Add(peerPatience); !slices.Equal(got, want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not in step: it answers %v, we %v", got, want)
			}
			got = answered(t, theirs, childName, dns.TypeSOA)
		}
		for _, name := range []string{"", "mail.", "x.wild.", "wild.", "_sip._tcp.", "a.b.c.", "b.c.", "svc.", "h7.", "v.", "w.", "no."} {
			for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeNS, dns.TypeSOA, dns.TypeCAA, dns.TypeSRV, dns.TypePTR, dns.TypeHTTPS, 65280} {
				if diff := cmp.Diff(answered(t, r.addr, name+childName, kind), answered(t, theirs, name+childName, kind)); diff != "" {
					t.Errorf("%s%s %s (-ours +theirs):\n%s", name, childName, dns.TypeToString[kind], diff)
				}
			}
		}
	}
	inStep()
	for i, records := range [][]string{{"v two"}, {"v two", "w new"}, {"v three"}} {
		// Over the end of the serial's numbers: RFC 1982.
		if err := r.Swap(mapOf(1<<32+uint64(i), records...)); err != nil {
			t.Fatal(err)
		}
		inStep()
	}
	if n := r.metric(t, "steer_authdns_transfers_total", "sent=changes"); n < 2 {
		t.Errorf("%v transfers were incremental: the three changes went as whole zones", n)
	}
}

// catalogPeers are those of peers with a configuration that takes zones up from a catalog. %[1]s to %[4]s as in peer.
var catalogPeers = []peer{
	{"BIND", "named", bindOptions + `	catalog-zones { zone "catalog.test" default-primaries { 127.0.0.1 port %[3]d key "xfer.example."; } in-memory yes min-update-interval 1; };
` + bindKey + `zone "catalog.test" { type secondary; primaries { 127.0.0.1 port %[3]d key "xfer.example."; }; file "catalog.db"; };
`, []string{"-g", "-n", "1", "-c"}},
	{"Knot", "knotd", knotServer + `template:
  - id: member
    storage: "%[1]s"
    master: steer
    acl: told
zone:
  - domain: catalog.test
    storage: "%[1]s"
    master: steer
    acl: told
    catalog-role: interpret
    catalog-template: member
`, []string{"-c"}},
}

// TestCatalogPeers has BIND and Knot take up a zone that a catalog of ours lists, and let it go when it does no longer.
//
// Covers: issue5 catalog, issue5 secondaries, rfc 9432 peers
func TestCatalogPeers(t *testing.T) {
	for i := range catalogPeers {
		t.Run(catalogPeers[i].name, func(t *testing.T) {
			path := find(catalogPeers[i].program)
			if path == "" {
				t.Skipf("%s is not installed", catalogPeers[i].program)
			}
			testCatalog(t, &catalogPeers[i], path)
		})
	}
}

func testCatalog(t *testing.T, p *peer, path string) {
	port := freePort(t)
	mapOf := func(version uint64, listed bool) *snapshot.DNS {
		d := xferMap(t, version, "a one")
		d.Zones[childIndex].Transfer.To = []snapshot.DNSSecondary{{Address: netip.MustParseAddr("127.0.0.1"), Port: port, Key: xferKey}}
		catalog := d.Zones[childIndex]
		catalog.Name, catalog.NS = "catalog.test.", []snapshot.NameServer{{Name: "invalid."}}
		catalog.Records = []snapshot.DNSRecord{{Name: "version.catalog.test.", Type: "TXT", TTL: time.Minute, Data: []string{"2"}}}
		if listed {
			catalog.Records = append(catalog.Records, snapshot.DNSRecord{Name: "0123abcd.zones.catalog.test.", Type: "PTR", TTL: time.Minute, Data: []string{childName}})
		}
		d.Zones = append(d.Zones, catalog)
		d.Serials = append(d.Serials, version)
		d.Serials[childIndex] = 20
		return share(t, d, xferSecrets("catalog.test."))
	}
	r := start(t, Config{}, mapOf(20, true))
	p.run(t, path, port, netip.MustParseAddrPort(r.addr).Port())
	theirs := fmt.Sprintf("127.0.0.1:%d", port)
	has := func(want bool) {
		t.Helper()
		var got []string
		for deadline := time.Now().Add(peerPatience); (len(got) == 3 && strings.HasSuffix(got[2], `"one"`)) != want || len(got) < 2; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("listed %t: it answers %v", want, got)
			}
			got = answered(t, theirs, "a."+childName, dns.TypeTXT)
		}
	}
	has(true)
	if err := r.Swap(mapOf(21, false)); err != nil {
		t.Fatal(err)
	}
	has(false)
}

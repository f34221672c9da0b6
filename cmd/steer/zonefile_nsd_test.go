package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns"
	"steerpoint/internal/importer"
	"steerpoint/internal/importer/zonefile"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

// peerZone has what a zone may have, and what is asked beside it is made of its names.
const peerZone = `$ORIGIN example.com.
$TTL 300
@ SOA ns1 hostmaster 1 3600 600 1209600 60
@ NS ns1
@ NS ns2.elsewhere.test.
ns1 A 192.0.2.53
ns1 AAAA 2001:db8::53
@ A 192.0.2.80
@ MX 10 mail
@ MX 20 Mail.Elsewhere.test.
@ TXT "v=spf1 mx -all"
@ CAA 0 issue "ca.test"
mail A 192.0.2.25
mail A 192.0.2.26
mail AAAA 2001:db8::25
c1 CNAME c2
c2 CNAME mail
cgone CNAME nothing.here
cstar CNAME q.wild
cfar CNAME www.elsewhere.test.
capex CNAME @
*.wild TXT "star"
a.wild A 192.0.2.99
*.cw CNAME mail
b.ent.deep A 192.0.2.98
*.below.b A 192.0.2.97
_sip._tcp SRV 0 5 5060 mail
host.name PTR mail
naptr NAPTR 10 20 "s" "SIP+D2U" "" _sip._tcp
tlsa TLSA 3 1 1 0d6fce3a2b1c4f5e60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7
sshfp SSHFP 4 2 0d6fce3a2b1c4f5e60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7
https HTTPS 1 . alpn="h2,h3" port=8443
svcb SVCB 0 mail
loc LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m
odd TYPE65280 \# 5 c00c000102
sub NS ns1.sub
sub NS ns2.sub
sub NS ns.far.test.
sub DS 12345 13 2 abababababababababababababababababababababababababababababababab
ns1.sub A 192.0.2.61
ns1.sub AAAA 2001:db8::61
ns2.sub A 192.0.2.62
plain.dele NS ns.far.test.
big TXT "` + "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" + `" "two"
`

// A zone file that is imported answers as NSD does with the same file: every name and type, names beside, between and below them,
// delegations, wildcards and chains.
//
// Covers: issue5 import zonefile, issue5 static zones, rfc 1034 referral, rfc 1034 chain, rfc 2308 soa, rfc 4592 encloser, rfc 8020 nothing below
func TestZoneFileAgainstNSD(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("nsd")
	if err != nil {
		if path = "/usr/sbin/nsd"; !executable(path) {
			t.Skip("nsd is not installed: there is no other name server to compare with")
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "example.com.zone")
	if err := os.WriteFile(file, []byte(peerZone), 0o644); err != nil {
		t.Fatal(err)
	}
	ours, theirs := serveImported(t, file), runNSD(t, path, dir, file)
	asked, different := 0, 0
	for _, name := range questionNames() {
		for _, qtype := range []uint16{
			dns.TypeA, dns.TypeAAAA, dns.TypeNS, dns.TypeSOA, dns.TypeMX, dns.TypeTXT, dns.TypeCNAME, dns.TypeDS, dns.TypeSRV, dns.TypeCAA, dns.TypePTR,
			dns.TypeNAPTR, dns.TypeTLSA, dns.TypeSSHFP, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeLOC, 65280, 65281,
		} {
			asked++
			a, b := peerAnswer(t, ours, name, qtype), peerAnswer(t, theirs, name, qtype)
			if a != b {
				if different++; different <= 10 {
					t.Errorf("%s %s\nours %s\nNSD  %s", name, dns.Type(qtype), a, b)
				}
			}
		}
	}
	t.Logf("%d questions, %d answered otherwise", asked, different)
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode()&0o111 != 0
}

// questionNames are the names of the zone, those above, below and beside them.
func questionNames() []string {
	names := map[string]bool{"example.com.": true}
	p := dns.NewZoneParser(strings.NewReader(peerZone), "", "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		owner := strings.ToLower(rr.Header().Name)
		for _, n := range []string{owner, "x." + owner, "y.x." + owner, strings.Replace(owner, "*", "q", 1), strings.ToUpper(owner), "z" + owner} {
			if dns.IsSubDomain("example.com.", n) {
				names[n] = true
			}
		}
		for up := owner; up != "example.com." && dns.IsSubDomain("example.com.", up); {
			i, end := dns.NextLabel(up, 0)
			if end {
				break
			}
			up = up[i:]
			names[up], names["no."+up] = true, true
		}
	}
	out := make([]string, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// serveImported imports a file and answers by it.
func serveImported(t *testing.T, file string) string {
	t.Helper()
	r, err := zonefile.Import(file, nil, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var zones []*spec.Zone
	for _, n := range r.Notes {
		if n.Lost {
			t.Error(n)
		}
	}
	for _, d := range r.Docs {
		zones = append(zones, d.Resource.Zone)
	}
	made, problems := snapshot.CompileDNS(snapshot.DNSInput{Version: 1, Created: time.Now(), Zones: zones})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s, err := authdns.New(authdns.Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Swap(made); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addrs()[0].String()
}

func runNSD(t *testing.T, path, dir, file string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	conf := filepath.Join(dir, "nsd.conf")
	text := fmt.Sprintf(`server:
  ip-address: 127.0.0.1@%s
  username: ""
  chroot: ""
  zonesdir: %q
  pidfile: ""
  xfrdfile: %q
  zonelistfile: %q
  database: ""
  server-count: 1
remote-control:
  control-enable: no
zone:
  name: example.com
  zonefile: %q
`, port, dir, filepath.Join(dir, "xfrd"), filepath.Join(dir, "zone.list"), file)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-d", "-c", conf)
	var said strings.Builder
	cmd.Stderr, cmd.Stdout = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	q := new(dns.Msg).SetQuestion("example.com.", dns.TypeSOA)
	for deadline := time.Now().Add(time.Minute); ; {
		c := dns.Client{Net: "tcp", Timeout: 5 * time.Second}
		if m, _, err := c.Exchange(q, addr); err == nil && m.Rcode == dns.RcodeSuccess && len(m.Answer) == 1 {
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatal("nsd does not answer")
		}
		select {
		case <-t.Context().Done():
			t.Fatal("ended")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// peerAnswer is what a server says, without what servers may differ in: order, additional records of answers, NS records beside
// an answer, the serial.
func peerAnswer(t *testing.T, server, name string, qtype uint16) string {
	t.Helper()
	q := new(dns.Msg).SetQuestion(name, qtype)
	q.RecursionDesired = false
	q.SetEdns0(4096, false)
	c := dns.Client{Net: "tcp", Timeout: 20 * time.Second}
	m, _, err := c.Exchange(q, server)
	if err != nil {
		t.Fatalf("%s %s: %v", name, dns.Type(qtype), err)
	}
	section := func(rrs []dns.RR, types ...uint16) string {
		var out []string
		for _, rr := range rrs {
			if len(types) > 0 && !slices.Contains(types, rr.Header().Rrtype) {
				continue
			}
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
			out = append(out, strings.ToLower(strings.ReplaceAll(rr.String(), "\t", " ")))
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	out := fmt.Sprintf("%s aa=%t answer: %s", dns.RcodeToString[m.Rcode], m.Authoritative, section(m.Answer))
	switch {
	case len(m.Answer) == 0 && !m.Authoritative: // a referral: with its addresses
		out += " authority: " + section(m.Ns, dns.TypeNS) + " additional: " + section(m.Extra, dns.TypeA, dns.TypeAAAA)
	default:
		out += " denial: " + section(m.Ns, dns.TypeSOA)
	}
	return out
}

package doctor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// expect runs one check and compares level and words. A check waits for seconds at most, so on a machine that is busy it is
// given some tries.
func expect(t *testing.T, c Check, level Level, words string) {
	t.Helper()
	var got []Result
	for range 10 {
		got = c(t.Context())
		for _, r := range got {
			if r.Level == level && strings.Contains(r.Detail+" "+r.Do, words) {
				return
			}
		}
	}
	t.Errorf("got %+v, want %s and %q", got, level, words)
}

// resolver is a DNS server on loopback that answers from records, and its address.
func resolver(t *testing.T, records ...string) Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	s := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		for _, text := range records {
			if rr, err := dns.NewRR(text); err == nil && strings.EqualFold(rr.Header().Name, q.Question[0].Name) && rr.Header().Rrtype == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			}
		}
		if len(m.Answer) == 0 {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m) // the test fails on the missing answer
	})}
	done := make(chan error, 1)
	go func() { done <- s.ActivateAndServe() }()
	<-ready
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return Resolver{Servers: []string{pc.LocalAddr().String()}}
}

// A delegation that is right, differs, or is missing is told apart; names are compared without case.
// Covers: A4
func TestDelegation(t *testing.T) {
	r := resolver(t, "gslb.example.net. 60 IN NS NS1.gslb.example.net.", "other.example.net. 60 IN NS ns.elsewhere.example.")
	ns := []string{"ns1.gslb.example.net"}
	expect(t, Delegation(r, Zone{"gslb.example.net.", ns}), OK, "ns1.gslb.example.net")
	expect(t, Delegation(r, Zone{"other.example.net", ns}), Warn, "resolvers find ns.elsewhere.example")
	expect(t, Delegation(r, Zone{"absent.example.net", ns}), Fail, "NXDOMAIN")
}

// A domain that does not point at its service CNAME has visitors nobody steers: that is a failure, not a warning.
// Covers: A4
func TestDomain(t *testing.T) {
	r := resolver(t, "www.example.com. 60 IN CNAME Shop.gslb.example.net.", "old.example.com. 60 IN CNAME shop.cdn.example.")
	expect(t, Domain(r, "www.example.com", "shop.gslb.example.net."), OK, "points at shop.gslb.example.net")
	expect(t, Domain(r, "old.example.com", "shop.gslb.example.net."), Fail, "it points at shop.cdn.example")
	expect(t, Domain(r, "absent.example.com", "shop.gslb.example.net."), Fail, "it is no CNAME (NXDOMAIN)")
}

// Offline, the look-ups end in time and say that they do not know.
func TestOffline(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for name, r := range map[string]Resolver{"none configured": {}, "one that is silent": {Servers: []string{silent.LocalAddr().String()}}} {
		for _, c := range []Check{Delegation(r, Zone{Name: "a.example"}), Domain(r, "b.example", "c.example")} {
			if got := c(ctx); got[0].Level != Unknown {
				t.Errorf("%s: %+v, want unknown", name, got)
			}
		}
	}
}

func TestSystemResolver(t *testing.T) {
	p := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(p, []byte("nameserver 192.0.2.1\nnameserver 2001:db8::1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := SystemResolver(p)
	if err != nil || strings.Join(r.Servers, " ") != "192.0.2.1:53 [2001:db8::1]:53" {
		t.Errorf("got %v, %v", r, err)
	}
	if _, err := SystemResolver(p + ".absent"); err == nil {
		t.Error("an absent file gives no error")
	}
}

// A port is free, rightly in use, or taken; the taken one names the option that changes it.
// Covers: issue2 ports
func TestPort(t *testing.T) {
	// An address of this machine that nobody else uses: nobody is given the port when it is free.
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	expect(t, Port("api", "tcp", taken, ""), Fail, "--listen api=")
	expect(t, Port("api", "tcp", taken, taken), OK, "running steer")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, Port("api", "tcp", taken, ""), OK, "is free")
	expect(t, Port("dns", "udp", "127.0.0.1:0", ""), OK, "is free")
	expect(t, Port("dns", "udp", "not an address", ""), Fail, "--listen dns=")
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	expect(t, Folder(dir), OK, "is writable")
	expect(t, Folder(filepath.Join(dir, "a", "b")), OK, "will be made")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, Folder(dir), Warn, "can be read by others")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, Folder(file), Fail, "is not a folder")
}

func TestBuffers(t *testing.T) {
	p := filepath.Join(t.TempDir(), "rmem_max")
	for content, want := range map[string]Level{"212992\n": Warn, "8388608\n": OK, "many\n": Unknown} {
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		expect(t, Buffers(p), want, "UDP receive buffers")
	}
	expect(t, Buffers(p+".absent"), Unknown, "")
}

func TestGeo(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	expect(t, Geo("table", now.AddDate(0, -1, 0), now), OK, "made on 2026-05-01")
	expect(t, Geo("table", now.AddDate(-1, 0, 0), now), Warn, "load a newer database")
	expect(t, Geo("table", time.Time{}, now), Unknown, "does not say")
}

// Results keep the order of the checks, and only failures are worst.
func TestRunAndWorst(t *testing.T) {
	slow := func(context.Context) []Result { time.Sleep(time.Millisecond); return one("first", Warn, "", "") }
	rs := Run(t.Context(), []Check{slow, func(context.Context) []Result { return one("second", Unknown, "", "") }, Clock, Files})
	if rs[0].Check != "first" || rs[1].Check != "second" || rs[2].Check != "clock" || rs[3].Check != "open files" {
		t.Errorf("order: %+v", rs)
	}
	for _, tt := range []struct {
		levels []Level
		want   Level
	}{
		{nil, OK},
		{[]Level{OK, Unknown}, OK},
		{[]Level{Warn, OK}, Warn},
		{[]Level{Warn, Fail, Warn}, Fail},
	} {
		var rs []Result
		for _, l := range tt.levels {
			rs = append(rs, Result{Level: l})
		}
		if got := Worst(rs); got != tt.want {
			t.Errorf("Worst(%v) = %s, want %s", tt.levels, got, tt.want)
		}
	}
}

// A gateway wants two files a connection, and some more.
// Covers: issue6 gateway status
func TestGatewayFiles(t *testing.T) {
	expect(t, GatewayFiles(1<<40), Warn, "connections of clients want")
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur < 2+gatewayRest {
		t.Logf("fewer than %d open files are allowed here: the good case is left out (%v)", 2+gatewayRest, err)
		return
	}
	expect(t, GatewayFiles(1), OK, "enough for 1 connections of clients")
}

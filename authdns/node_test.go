package authdns

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/server"
	"steerpoint/snapshot"
)

// TestStateOfTheVersionBefore: testdata/dns-map.v1 was written by the version before maps had deltas. A node that is
// upgraded while control is away answers by it, deadlines included, and goes on from it by a delta.
//
// Covers: A2, issue3 version skew
func TestStateOfTheVersionBefore(t *testing.T) {
	old, err := os.ReadFile("testdata/dns-map.v1")
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/dns-map"
	if err := os.WriteFile(file, old, 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{StateFile: file}, nil)
	if info := r.Map(); info.Version != 4321 || !info.FromDisk {
		t.Fatalf("%+v\n%s", info, r.log)
	}
	ask := func(name, subnet string) *dns.Msg {
		return r.ask(t, "udp", dnstest.Query(name, dns.TypeA, dnstest.ECS(subnet)))
	}
	if got := firstA(ask("shop.gslb.example.net.", "198.51.100.128/25")); got != "198.51.100.1" {
		t.Errorf("shop is answered with %s", got)
	}
	if m := ask("plain.gslb.example.net.", "198.51.100.0/24"); m.Answer[0].Header().Ttl > 12 {
		t.Errorf("a deadline 12 s away, and a TTL of %d", m.Answer[0].Header().Ttl)
	}

	base := r.Current()
	next := *base
	next.Version, next.Services = 4322, slices.Clone(base.Services)
	for i := range next.Services {
		if next.Services[i].Name == "plain" {
			moved := *next.Services[i]
			next.Services[i] = &moved
			moved.Rules = []snapshot.DNSRule{moved.Rules[0]}
			moved.Rules[0].Choices = []snapshot.DNSChoice{{Edge: "b", A: []netip.Addr{netip.MustParseAddr("192.0.2.200")}}}
		}
	}
	d, err := snapshot.DiffDNS(base, &next).Apply(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Swap(d); err != nil {
		t.Fatal(err)
	}
	if got := firstA(ask("plain.gslb.example.net.", "198.51.100.0/24")); got != "192.0.2.200" || r.Map().FromDisk || r.Current() != d {
		t.Errorf("after the delta plain is answered with %s by %+v", got, r.Map())
	}
}

// TestDiskIsNoBase: what the map on disk has of a service is not taken over into the first map of control, even if both
// say it did not change: the file's deadlines count from another moment.
//
// Covers: A2, issue3 resume
func TestDiskIsNoBase(t *testing.T) {
	file := t.TempDir() + "/dns-map"
	d := dnstest.Map(t)
	for i := range d.Services {
		d.Services[i].Revision, d.Services[i].Made = 7, time.Hour
		d.Services[i].Rules[0].Soonest = 20 * time.Second
	}
	d.At = time.Hour
	first := start(t, Config{StateFile: file}, d)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := start(t, Config{StateFile: file}, nil)
	later := *second.Current()
	later.Version, later.At = 8, time.Hour+15*time.Second
	if err := second.Swap(&later); err != nil {
		t.Fatal(err)
	}
	m := second.ask(t, "udp", dnstest.Query("plain.gslb.example.net.", dns.TypeA))
	if ttl := m.Answer[0].Header().Ttl; ttl > 5 {
		t.Errorf("5 s are left, and the TTL is %d", ttl)
	}
}

// TestStatePause: a map that takes long to write is written less often, a small one as often as configured.
//
// Covers: A2, issue5 map file
func TestStatePause(t *testing.T) {
	s := &Server{cfg: Config{StateEvery: time.Second}}
	for took, want := range map[time.Duration]time.Duration{time.Millisecond: time.Second, 2 * time.Second: 38 * time.Second} {
		if got := s.statePause(took); got != want {
			t.Errorf("after a write of %s: %s, want %s", took, got, want)
		}
	}
}

// TestQueries: what was answered is counted, by transport and code for metrics and in all for the node's report.
//
// Covers: issue3 map age
func TestQueries(t *testing.T) {
	r := start(t, Config{}, dnstest.Map(t))
	for range 3 {
		r.ask(t, "udp", dnstest.Query("plain.gslb.example.net.", dns.TypeA))
	}
	r.ask(t, "tcp", dnstest.Query("nobody.example.com.", dns.TypeA))
	if n := r.Queries(); n != 4 {
		t.Errorf("%d queries, want 4", n)
	}
	if udp, tcp := r.metric(t, "steer_authdns_queries_total", "transport=udp", "rcode=NOERROR"),
		r.metric(t, "steer_authdns_queries_total", "transport=tcp", "rcode=NXDOMAIN"); udp != 3 || tcp != 1 {
		t.Errorf("udp %v, tcp %v", udp, tcp)
	}
}

// TestControlSilent: a name server that does not hear control answers on, and says so after a while in metrics and in
// an extended error; one word of control ends it. Where control is in the process nothing is said.
//
// Covers: A2, issue3 map age
func TestControlSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := &Server{cfg: Config{SilentAfter: time.Minute}, epoch: time.Now(), responder: answer.NewResponder(answer.Config{MaxUDP: 1232})}
		var err error
		if s.metrics, err = newMetrics(reg, s.mapInfo, &s.kept); err != nil {
			t.Fatal(err)
		}
		r := &running{Server: s, reg: reg}
		s.wake, s.pressing = make(chan struct{}, 1), make(chan struct{}, 1)
		if err := s.Swap(dnstest.Map(t)); err != nil {
			t.Fatal(err)
		}
		go s.watchSilence(t.Context())
		told := func() string {
			h := s.handler(server.UDP)
			m := dnstest.Unpack(t, h.Handle(nil, dnstest.Pack(t, dnstest.Query("plain.gslb.example.net.", dns.TypeA)), netip.MustParseAddr("192.0.2.9"), time.Now()))
			if firstA(m) != "192.0.2.7" {
				t.Errorf("answer %v", m)
			}
			for _, o := range m.IsEdns0().Option {
				if e, ok := o.(*dns.EDNS0_EDE); ok && e.InfoCode == dns.ExtendedErrorCodeOther {
					return e.ExtraText
				}
			}
			return ""
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if text := told(); text != "" || s.Map().Silence != 59*time.Second {
			t.Errorf("after 59 s: %q, silence %s", text, s.Map().Silence)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if text := told(); !strings.HasPrefix(text, "no word from control for 1m1s: answered by map 7 of ") {
			t.Errorf("after 61 s: %q", text)
		}
		if v := r.metric(t, "steer_authdns_control_silence_seconds"); v != 61 {
			t.Errorf("silence metric %v", v)
		}
		s.Confirm()
		time.Sleep(time.Second)
		synctest.Wait()
		if text := told(); text != "" {
			t.Errorf("after a word of control: %q", text)
		}
		s.cfg.SilentAfter = 0
		if s.note() != "" || s.Map().Silence != 0 {
			t.Error("silence is counted where nobody asked for it")
		}
	})
}

// TestKeysAreKeptAtOnce: a map whose keys can be opened, after one whose could not, is on disk without the pause between two
// writes: a restart by the one before could not sign.
//
// Covers: A2, issue5 map file
func TestKeysAreKeptAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dns.map")
	r := start(t, Config{StateFile: file, StateEvery: time.Hour}, dnstest.Map(t))
	kept := func(version uint64) bool {
		d, err := ReadMap(file)
		return err == nil && d.Version == version && r.metric(t, "steer_authdns_map_kept") == 1
	}
	eventually(t, "the first map is on disk", func() bool { return kept(dnstest.Map(t).Version) })
	next := *dnstest.Map(t)
	next.Version++
	if err := r.Swap(&next); err != nil {
		t.Fatal(err)
	}
	if kept(next.Version) || r.metric(t, "steer_authdns_map_kept") != 0 {
		t.Error("a map that does not press was written an hour early")
	}
	signal(r.pressing)
	eventually(t, "the next one is on disk", func() bool { return kept(next.Version) })
}

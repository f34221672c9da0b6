package authdns

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/authdns/internal/server"
	"steerpoint/internal/hidden"
	"steerpoint/snapshot"
)

const (
	xferKey    = "xfer.example."
	childName  = "child.example.com."
	childIndex = 2 // among the zones of the test map
)

var xferSecret = base64.StdEncoding.EncodeToString([]byte("an agreed secret of 32 octets .."))

// xferMap is the test map with zone child.example.com to be copied by who has the key, and its records.
func xferMap(t testing.TB, version uint64, records ...string) *snapshot.DNS {
	d := dnstest.Map(t)
	d.Version = version
	d.Serials = []uint64{0, 0, version}
	z := &d.Zones[childIndex]
	z.Transfer = &snapshot.DNSTransfer{Allow: []snapshot.DNSAllow{{Key: xferKey}}}
	for _, r := range records {
		name, data, _ := strings.Cut(r, " ")
		z.Records = append(z.Records, snapshot.DNSRecord{Name: name + "." + childName, Type: "TXT", TTL: time.Minute, Data: []string{data}})
	}
	return share(t, d, xferSecrets())
}

// xferSecrets are the key of that zone.
func xferSecrets(more ...string) snapshot.ServerSecrets {
	var s snapshot.ServerSecrets
	for _, zone := range append([]string{childName}, more...) {
		s.Keys = append(s.Keys, snapshot.DNSKey{Zone: zone, Name: xferKey, Algorithm: "hmac-sha256", Secret: snapshot.Carried{Text: hidden.New(xferSecret)}})
	}
	return s
}

// withTSIG has a message signed as the library sends it.
func withTSIG(m *dns.Msg) *dns.Msg { return m.SetTsig(xferKey, dns.HmacSHA256, 300, time.Now().Unix()) }

func withKey(c *dns.Client) *dns.Client {
	c.Timeout, c.TsigSecret = patience, map[string]string{xferKey: xferSecret}
	return c
}

// copied is a whole transfer, every message of it verified by the library.
func (r *running) copied(t *testing.T, m *dns.Msg) []dns.RR {
	t.Helper()
	tr := &dns.Transfer{DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, TsigSecret: map[string]string{xferKey: xferSecret}}
	in, err := tr.In(m, r.addr)
	if err != nil {
		t.Fatal(err)
	}
	var rrs []dns.RR
	for e := range in {
		if e.Error != nil {
			t.Fatalf("%s: %v", m.Question[0].String(), e.Error)
		}
		rrs = append(rrs, e.RR...)
	}
	return rrs
}

func (r *running) axfr(t *testing.T) []dns.RR {
	t.Helper()
	return r.copied(t, withTSIG(new(dns.Msg).SetAxfr(childName)))
}

func (r *running) ixfr(t *testing.T, serial uint32) []dns.RR {
	t.Helper()
	return r.copied(t, withTSIG(new(dns.Msg).SetIxfr(childName, serial, "a.", "b.")))
}

// said is what TXT records say, and the serials of SOA records between them.
func said(rrs []dns.RR) (out []string) {
	for _, rr := range rrs {
		switch rr := rr.(type) {
		case *dns.SOA:
			out = append(out, fmt.Sprint(rr.Serial))
		case *dns.TXT:
			out = append(out, strings.Join(rr.Txt, " "))
		}
	}
	return out
}

// TestTransfers copies a zone as a secondary with a key does: whole, by what changed, over maps with and without a change,
// and after a restart from the map on disk.
//
// Covers: issue5 axfr, issue5 ixfr, issue5 tsig, rfc 5936 whole, rfc 1995 changes, rfc 8945 agrees
func TestTransfers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dns.map")
	r := start(t, Config{StateFile: file}, xferMap(t, 20, "a one", "b two"))
	expect := func(what string, got []dns.RR, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, said(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("whole", r.axfr(t), "20", "one", "two", "20")
	expect("nothing newer", r.ixfr(t, 20), "20")
	expect("from an unknown serial", r.ixfr(t, 7), "20", "one", "two", "20")
	swap := func(d *snapshot.DNS) {
		t.Helper()
		if err := r.Swap(d); err != nil {
			t.Fatal(err)
		}
	}
	swap(xferMap(t, 21, "a one", "c three"))
	expect("one step", r.ixfr(t, 20), "21", "20", "two", "21", "three", "21")
	other := xferMap(t, 22, "a one", "c three")
	other.Serials[childIndex] = 21
	swap(other)
	expect("a map without a change of the zone", r.ixfr(t, 21), "21")
	if m := r.ask(t, "udp", dnstest.Query(childName, dns.TypeSOA)); m.Answer[0].(*dns.SOA).Serial != 21 {
		t.Errorf("its SOA: %v", m.Answer)
	}
	if m := r.ask(t, "udp", dnstest.Query("mail.example.com.", dns.TypeTXT)); m.Ns[0].(*dns.SOA).Serial != 22 {
		t.Errorf("the SOA of a zone without a serial of its own: %v", m.Ns)
	}
	swap(xferMap(t, 23, "a one"))
	expect("two steps", r.ixfr(t, 20), "23", "20", "two", "21", "three", "21", "three", "23", "23")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = start(t, Config{StateFile: file}, nil)
	expect("after a restart", r.axfr(t), "23", "one", "23")
	expect("to who had it before the restart", r.ixfr(t, 23), "23")
	expect("further behind", r.ixfr(t, 21), "23", "one", "23")
	swap = func(d *snapshot.DNS) {
		t.Helper()
		if err := r.Swap(d); err != nil {
			t.Fatal(err)
		}
	}
	swap(xferMap(t, 23, "a one"))
	swap(xferMap(t, 24))
	expect("control came back", r.ixfr(t, 23), "24", "23", "one", "24", "24")
	if n := r.metric(t, "steer_authdns_transfers_total", "sent=current"); n != 1 {
		t.Errorf("%v transfers of nothing newer are counted since the restart, want 1", n)
	}
}

// TestTransferOfNewZone: until a zone that is new can be copied, who asks over UDP is told to come again, and not that the
// zone is not here.
//
// Covers: issue5 ixfr
func TestTransferOfNewZone(t *testing.T) {
	s, err := New(Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := xferMap(t, 20, "a one")
	if err := s.Swap(d); err != nil { // nothing makes copies: Run was not called
		t.Fatal(err)
	}
	ask := func(zone string) int {
		packed, err := new(dns.Msg).SetIxfr(zone, 7, "a.", "b.").Pack()
		if err != nil {
			t.Fatal(err)
		}
		m := new(dns.Msg)
		if err := m.Unpack(s.handler(server.UDP).Handle(nil, packed, netip.MustParseAddr("127.0.0.1"), time.Now())); err != nil {
			t.Fatal(err)
		}
		return m.Rcode
	}
	if got := ask(childName); got != dns.RcodeServerFailure {
		t.Errorf("before it is copied: %s", dns.RcodeToString[got])
	}
	s.transfers.state.Store(s.transfers.follow(s.transfers.state.Load(), d, 1, true))
	if got := ask("mail.example.com."); got != dns.RcodeNotAuth {
		t.Errorf("no zone: %s", dns.RcodeToString[got])
	}
}

// TestNoTransferOfSigned: a zone that is signed, if only since the transfer was allowed, is not transferred: without its
// signatures a copy would be bogus.
//
// Covers: issue5 transfer refused
func TestNoTransferOfSigned(t *testing.T) {
	d := xferMap(t, 20, "a one")
	d.Signing = &snapshot.Signing{Zones: []snapshot.SignedZone{{Zone: childName, Life: time.Hour, KeyTTL: time.Hour}}}
	r := start(t, Config{}, d)
	packed, _, err := dns.TsigGenerate(withTSIG(new(dns.Msg).SetAxfr(childName)), xferSecret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.raw(t, "tcp", packed); m.Rcode != dns.RcodeRefused || len(m.Answer) > 0 {
		t.Errorf("%v", m)
	}
}

// TestNoTransferOverHTTP: a transfer is several messages, and a reply over HTTP is one.
//
// Covers: issue5 doh, rfc 8484
func TestNoTransferOverHTTP(t *testing.T) {
	r := start(t, Config{}, xferMap(t, 20, "a one"))
	packed, _, err := dns.TsigGenerate(withTSIG(new(dns.Msg).SetAxfr(childName)), xferSecret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	for transport, rcode := range map[server.Transport]int{server.TCP: dns.RcodeSuccess, server.DoH: dns.RcodeRefused} {
		m, h := new(dns.Msg), r.handler(transport).(*handler)
		reply := h.Handle(nil, packed, netip.MustParseAddr("127.0.0.1"), time.Now())
		if later := h.Later(); later != nil {
			later(func(first []byte) bool { reply = slices.Clone(first); return false })
		}
		if err := m.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		if m.Rcode != rcode || (len(m.Answer) > 0) != (rcode == dns.RcodeSuccess) {
			t.Errorf("%s: %v", transport, m)
		}
	}
}

// TestTransferRefused: who has neither the address nor the key gets nothing, and is told so in the way of each standard.
//
// Covers: issue5 transfer refused, rfc 5936 refused, rfc 8914 prohibited, rfc 8945 errors
func TestTransferRefused(t *testing.T) {
	d := xferMap(t, 20, "a one")
	d.Zones[1].Transfer = &snapshot.DNSTransfer{Allow: []snapshot.DNSAllow{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}}
	r := start(t, Config{}, d)
	axfr := func(zone string) *dns.Msg { return new(dns.Msg).SetAxfr(zone).SetEdns0(1232, false) }
	other := dns.HmacSHA512
	for _, row := range []struct {
		what  string
		m     *dns.Msg
		rcode int
		tsig  uint16 // error in the TSIG of the reply
	}{
		{"no key", axfr(childName), dns.RcodeRefused, 0},
		{"another address", axfr("example.com."), dns.RcodeRefused, 0},
		{"no transfer", axfr("gslb.example.net."), dns.RcodeRefused, 0},
		{"no zone", axfr("mail.example.com."), dns.RcodeNotAuth, 0},
		{"not ours", axfr("elsewhere.test."), dns.RcodeNotAuth, 0},
		{"a key of another zone", withTSIG(axfr("example.com.")), dns.RcodeNotAuth, dns.RcodeBadKey},
		{"another algorithm", axfr(childName).SetTsig(xferKey, other, 300, time.Now().Unix()), dns.RcodeNotAuth, dns.RcodeBadKey},
		{"another secret", axfr(childName).SetTsig(xferKey, dns.HmacSHA256, 299, time.Now().Unix()), dns.RcodeNotAuth, dns.RcodeBadSig},
		{"long ago", axfr(childName).SetTsig(xferKey, dns.HmacSHA256, 300, time.Now().Unix()-1000), dns.RcodeNotAuth, dns.RcodeBadTime},
		{"IXFR without a SOA", withTSIG(new(dns.Msg).SetQuestion(childName, dns.TypeIXFR).SetEdns0(1232, false)), dns.RcodeFormatError, 0},
	} {
		secret := xferSecret
		if row.what == "another secret" {
			secret = base64.StdEncoding.EncodeToString([]byte("a secret that is not agreed"))
		}
		var packed []byte
		var err error
		if row.m.IsTsig() != nil {
			packed, _, err = dns.TsigGenerate(row.m, secret, "", false)
		} else {
			packed, err = row.m.Pack()
		}
		if err != nil {
			t.Fatal(err)
		}
		m := r.raw(t, "tcp", packed)
		if m.Rcode != row.rcode || len(m.Answer) > 0 || m.IsEdns0() == nil {
			t.Errorf("%s: %v", row.what, m)
		}
		if tsig := m.IsTsig(); row.tsig != 0 && (tsig == nil || tsig.Error != row.tsig || (tsig.MACSize > 0) != (row.tsig == dns.RcodeBadTime)) {
			t.Errorf("%s: TSIG %v", row.what, tsig)
		}
	}
	if n := r.metric(t, "steer_authdns_transfers_total", "sent=refused"); n != 3 {
		t.Errorf("%v refusals counted", n)
	}
	if m := r.ask(t, "udp", axfr(childName)); m.Rcode != dns.RcodeRefused {
		t.Errorf("AXFR over UDP: %v", m)
	}
}

// raw sends octets and reads one reply.
func (r *running) raw(t *testing.T, network string, b []byte) *dns.Msg {
	t.Helper()
	c, err := dns.DialTimeout(network, r.addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	m, err := c.ReadMsg()
	if m == nil {
		t.Fatal(err)
	}
	return m
}

// TestSignedQuestions: an ordinary question that is signed gets a signed answer, over UDP and TCP, also one that has to be
// cut; so do questions for the SOA that secondaries ask before they transfer.
//
// Covers: issue5 tsig, rfc 8945 agrees
func TestSignedQuestions(t *testing.T) {
	d := xferMap(t, 20)
	d.Zones[childIndex].Records = []snapshot.DNSRecord{{Name: "big." + childName, Type: "TXT", TTL: time.Minute, Data: []string{
		`"` + strings.Repeat("x", 250) + `" "` + strings.Repeat("y", 180) + `"`,
	}}}
	r := start(t, Config{}, d)
	for _, network := range []string{"udp", "tcp"} {
		for _, row := range []struct {
			name string
			kind uint16
			cut  bool
		}{{childName, dns.TypeSOA, false}, {"no." + childName, dns.TypeA, false}, {"big." + childName, dns.TypeTXT, network == "udp"}} {
			m, _, err := withKey(&dns.Client{Net: network}).Exchange(withTSIG(new(dns.Msg).SetQuestion(row.name, row.kind)), r.addr)
			if err != nil { // also when the signature is not good
				t.Errorf("%s %s: %v", network, row.name, err)
				continue
			}
			if m.IsTsig() == nil || m.IsTsig().Error != 0 || m.Truncated != row.cut || len(m.Answer)+len(m.Ns) == 0 != row.cut {
				t.Errorf("%s %s: %v", network, row.name, m)
			}
		}
	}
	if n := r.metric(t, "steer_authdns_queries_total", "rcode=REFUSED"); n != 0 {
		t.Errorf("%v are counted as refused", n)
	}
}

// TestIXFROverUDP: what fits is sent; of what does not, the newest SOA, so that the secondary comes by TCP.
//
// Covers: issue5 ixfr, rfc 1995 udp
func TestIXFROverUDP(t *testing.T) {
	r := start(t, Config{}, xferMap(t, 20, "a one"))
	ask := func(size uint16) []string {
		m := new(dns.Msg).SetIxfr(childName, 20, "a.", "b.")
		if size > 0 {
			m.SetEdns0(size, false)
		}
		m, _, err := withKey(&dns.Client{UDPSize: 4096}).Exchange(withTSIG(m), r.addr)
		if err != nil || m.Truncated {
			t.Fatalf("%v, %v", m, err)
		}
		return said(m.Answer)
	}
	eventually(t, "the first version is copied", func() bool { return slices.Equal(ask(1232), []string{"20"}) })
	if err := r.Swap(xferMap(t, 21, "a one", "b two")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new version is copied", func() bool { return slices.Equal(ask(1232), []string{"21", "20", "21", "two", "21"}) })
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("r%d %s", i, strings.Repeat("x", 40)))
	}
	if err := r.Swap(xferMap(t, 22, many...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the SOA alone", func() bool { return slices.Equal(ask(1232), []string{"22"}) })
}

// secondary listens for NOTIFY and answers as it is told.
type secondary struct {
	conn *net.UDPConn
	addr netip.AddrPort

	mu     sync.Mutex
	silent int  // so many messages are not answered
	rcode  int  // answered
	plain  bool // answers are not signed
	heard  []*dns.Msg
}

func newSecondary(t *testing.T) *secondary {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &secondary{conn: conn, addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	done := make(chan struct{})
	go func() { defer close(done); s.serve(t) }()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return s
}

func (s *secondary) serve(t *testing.T) {
	buf := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(buf[:n]); err != nil {
			t.Errorf("NOTIFY: %v", err)
			continue
		}
		signed := m.IsTsig() != nil
		if signed && dns.TsigVerify(buf[:n], xferSecret, "", false) != nil {
			t.Error("the signature of a NOTIFY is not good")
		}
		s.mu.Lock()
		s.heard = append(s.heard, m)
		s.silent--
		answer := s.silent < 0
		reply := new(dns.Msg).SetReply(m)
		reply.Rcode = s.rcode
		if signed && !s.plain {
			reply.SetTsig(xferKey, dns.HmacSHA256, 300, time.Now().Unix())
		}
		s.mu.Unlock()
		if !answer {
			continue
		}
		var b []byte
		if reply.IsTsig() != nil {
			b, _, err = dns.TsigGenerate(reply, xferSecret, m.IsTsig().MAC, false)
		} else {
			b, err = reply.Pack()
		}
		if err == nil {
			_, err = s.conn.WriteToUDPAddrPort(b, from)
		}
		if err != nil {
			t.Errorf("answer to NOTIFY: %v", err)
		}
	}
}

// serials are those that were told so far.
func (s *secondary) serials(t *testing.T) (out []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.heard {
		if m.Opcode != dns.OpcodeNotify || !m.Authoritative || len(m.Answer) != 1 || m.Question[0].Name != childName || m.Question[0].Qtype != dns.TypeSOA {
			t.Fatalf("%v", m)
		}
		out = append(out, m.Answer[0].(*dns.SOA).Serial)
	}
	return out
}

func (s *secondary) set(change func(s *secondary)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// notifying is a server whose waits for answers to NOTIFY are short, and a map that names a secondary.
func notifying(t *testing.T, s *secondary, first time.Duration) (r *running, mapOf func(version uint64, key string, records ...string) *snapshot.DNS) {
	r = start(t, Config{}, nil)
	r.transfers.notifier.mu.Lock()
	r.transfers.notifier.first = first
	r.transfers.notifier.mu.Unlock()
	return r, func(version uint64, key string, records ...string) *snapshot.DNS {
		d := xferMap(t, version, records...)
		d.Zones[childIndex].Transfer.To = []snapshot.DNSSecondary{{Address: s.addr.Addr(), Port: s.addr.Port(), Key: key}}
		return d
	}
}

// TestNotify: a secondary is told at the start and at each change of the zone, and not when another changes; signed where it
// has a key. Who does not answer is told again.
//
// Covers: issue5 notify, rfc 1996 told
func TestNotify(t *testing.T) {
	s := newSecondary(t)
	r, mapOf := notifying(t, s, 50*time.Millisecond)
	swap := func(d *snapshot.DNS) {
		t.Helper()
		if err := r.Swap(d); err != nil {
			t.Fatal(err)
		}
	}
	answered := func() float64 { return r.metric(t, "steer_authdns_notifies_total", "result=answered") }
	swap(mapOf(20, xferKey, "a one"))
	eventually(t, "the first is answered", func() bool { return answered() == 1 })
	s.set(func(s *secondary) { s.silent = 2 })
	swap(mapOf(21, xferKey, "a two"))
	eventually(t, "the second is answered", func() bool { return answered() == 2 })
	// A slow machine hears more often, never less.
	if got := s.serials(t); len(got) < 4 || !slices.Equal(slices.Compact(got), []uint32{20, 21}) {
		t.Errorf("told %v", got)
	}
	same := mapOf(22, xferKey, "a two")
	same.Serials[childIndex] = 21
	swap(same)
	swap(mapOf(23, "", "a three"))
	eventually(t, "the last is answered", func() bool { return answered() == 3 })
	if got := s.serials(t); got[len(got)-1] != 23 || slices.Contains(got, 22) {
		t.Errorf("told %v", got)
	}
	s.set(func(s *secondary) {
		if s.heard[0].IsTsig() == nil || s.heard[len(s.heard)-1].IsTsig() != nil {
			t.Error("signed where it should not be, or not where it should")
		}
		s.rcode = dns.RcodeNotAuth
	})
	swap(mapOf(24, "", "a four"))
	eventually(t, "a refusal is told", func() bool { return strings.Contains(r.log.String(), "it answers NOTAUTH") })
}

// TestNotifyIsNotForged: an answer that is not signed counts as none where there is a key; what is newer is told instead of
// what nobody answered.
//
// Covers: issue5 notify, issue5 tsig
func TestNotifyIsNotForged(t *testing.T) {
	s := newSecondary(t)
	s.set(func(s *secondary) { s.plain = true })
	r, mapOf := notifying(t, s, 30*time.Millisecond)
	if err := r.Swap(mapOf(20, xferKey)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it gives up", func() bool { return r.metric(t, "steer_authdns_notifies_total", "result=failed") == 1 })
	eventually(t, "every try is heard", func() bool { return len(s.serials(t)) == notifyTries })
	eventually(t, "it is said why", func() bool { return strings.Contains(r.log.String(), "is not signed by our key") })
}

// FuzzAside sends what may be signed or a transfer to the handler: it always answers, within the limit of the transport, and
// never with records to who has no key.
//
// Covers: issue5 tsig, issue5 transfer refused
func FuzzAside(f *testing.F) {
	s, err := New(Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	d := xferMap(f, 20, "a one", "b two")
	if err := s.Swap(d); err != nil {
		f.Fatal(err)
	}
	s.transfers.state.Store(s.transfers.follow(s.transfers.state.Load(), d, 1, true))
	for _, m := range []*dns.Msg{new(dns.Msg).SetAxfr(childName), new(dns.Msg).SetIxfr(childName, 7, "a.", "b."), new(dns.Msg).SetQuestion(childName, dns.TypeSOA)} {
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
		if b, _, err = dns.TsigGenerate(withTSIG(m), xferSecret, "", false); err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, msg []byte, tcp bool) {
		transport := server.UDP
		if tcp {
			transport = server.TCP
		}
		h := s.handler(transport).(*handler)
		out := h.Handle([]byte("xx"), msg, netip.MustParseAddr("192.0.2.1"), time.Now())
		var rest [][]byte // of a reply that is made apart
		if later := h.Later(); later != nil {
			later(func(reply []byte) bool { rest = append(rest, slices.Clone(reply)); return true })
			if len(rest) > 0 {
				out, rest = append([]byte("xx"), rest[0]...), rest[1:]
			}
		}
		if string(out) == "xx" {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(out[2:]); err != nil {
			t.Fatalf("%x: %v", out, err)
		}
		q := new(dns.Msg)
		if q.Unpack(msg) == nil && q.IsTsig() == nil && len(q.Question) == 1 && q.Opcode == 0 &&
			(q.Question[0].Qtype == dns.TypeAXFR || q.Question[0].Qtype == dns.TypeIXFR) && len(m.Answer) > 0 {
			t.Fatalf("records without a key: %v", m)
		}
		for _, more := range rest {
			if err := m.Unpack(more); err != nil {
				t.Fatalf("%x: %v", more, err)
			}
		}
		if !tcp && len(out)-2 > 1232 {
			t.Fatalf("%d octets over UDP", len(out)-2)
		}
	})
}

package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// world answers questions in place of resolvers.
type world struct {
	mu      sync.Mutex
	records map[string][]string // by name: lines of a zone file
	down    map[string]bool     // servers
	rcode   int
	asked   map[string]int // by name
}

func newWorld(records ...string) *world {
	w := &world{records: map[string][]string{}, down: map[string]bool{}, asked: map[string]int{}}
	w.set(records...)
	return w
}

func (w *world) set(records ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.records)
	for _, r := range records {
		name, _, _ := strings.Cut(r, " ")
		w.records[name] = append(w.records[name], r)
	}
}

func (w *world) fail(server string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[server] = down
}

// times is how often a name was asked for.
func (w *world) times(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[name]
}

func (w *world) exchange(_ context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down[server] {
		return nil, errors.New("timeout")
	}
	name := q.Question[0].Name
	w.asked[name]++
	m := new(dns.Msg).SetReply(q)
	m.Rcode = w.rcode
	for range 8 {
		next := ""
		for _, line := range w.records[name] {
			rr, err := dns.NewRR(line)
			if err != nil {
				return nil, err
			}
			if c, ok := rr.(*dns.CNAME); ok {
				next = c.Target
			} else if rr.Header().Rrtype != q.Question[0].Qtype {
				continue
			}
			m.Answer = append(m.Answer, rr)
		}
		if next == "" {
			break
		}
		name = next
	}
	if len(w.records[q.Question[0].Name]) == 0 {
		m.Rcode = dns.RcodeNameError
	}
	return m, nil
}

// told collects what a keeper tells.
type told struct {
	mu      sync.Mutex
	changes int
	failing map[string]string
}

func (t *told) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

// trouble is what is told of a name; "" if nothing is.
func (t *told) trouble(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failing[name]
}

// names is how many names something is told of.
func (t *told) names() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failing)
}

func (t *told) config(w *world, file string) Config {
	t.mu.Lock()
	t.failing = map[string]string{}
	t.mu.Unlock()
	return Config{
		Servers: []string{"192.0.2.1", "192.0.2.2"}, File: file, Exchange: w.exchange, Log: slog.New(slog.DiscardHandler),
		Changed: func() { t.mu.Lock(); defer t.mu.Unlock(); t.changes++ },
		Failing: func(name string, on bool, message string) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if delete(t.failing, name); on {
				t.failing[name] = message
			}
		},
	}
}

func shown(k *Keeper) string {
	var out []string
	r := k.Resolved()
	for _, n := range k.Names() {
		if a, ok := r.Names[n]; ok {
			out = append(out, fmt.Sprint(n, a.A, a.AAAA))
		}
	}
	return strings.Join(out, " ")
}

// A name is found over CNAMEs, followed by its TTL within bounds, and kept when it can no longer be found; a short failure is no
// news, a long one is, and so is its end.
//
// Covers: issue5 names elsewhere
func TestKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a.test. 1 CNAME b.test.", "b.test. 60 A 192.0.2.9", "b.test. 60 A 192.0.2.8", "b.test. 60 AAAA 2001:db8::8", "other.test. 1 A 192.0.2.7")
		var said told
		k := New(said.config(w, ""))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		k.Want([]string{"a.test."})
		synctest.Wait()
		const first = "a.test.[192.0.2.8 192.0.2.9] [2001:db8::8]"
		if got := shown(k); got != first || said.count() != 1 {
			t.Fatal(got, said.count())
		}
		old := k.Resolved()
		time.Sleep(29 * time.Second) // the least time between two questions, whatever the TTL
		synctest.Wait()
		if w.times("a.test.") != 2 {
			t.Errorf("asked %d times", w.times("a.test."))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.times("a.test.") != 4 || k.Resolved() != old || said.count() != 1 {
			t.Errorf("asked %d times, %d changes; the same addresses are no change", w.times("a.test."), said.count())
		}
		w.set("a.test. 60 A 192.0.2.10")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := shown(k); got != "a.test.[192.0.2.10] []" || said.count() != 2 {
			t.Error(got, said.count())
		}
		// One resolver down: the other is asked. Both down: what was found holds, and is told of after three failures.
		w.fail("192.0.2.1:53", true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if said.names() != 0 {
			t.Error(said.names())
		}
		w.fail("192.0.2.2:53", true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := shown(k); got != "a.test.[192.0.2.10] []" || !strings.Contains(said.trouble("a.test."), "answered on") {
			t.Error(got, said.names())
		}
		w.fail("192.0.2.2:53", false)
		w.set() // the name is gone: that is a failure too
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := shown(k); got != "a.test.[192.0.2.10] []" || said.names() != 1 {
			t.Error(got, said.names())
		}
		w.set("a.test. 60 A 192.0.2.11")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := shown(k); got != "a.test.[192.0.2.11] []" || said.names() != 0 {
			t.Error(got, said.names())
		}
		w.set("a.test. 60 A 192.0.2.11", "other.test. 1 A 192.0.2.7")
		k.Want([]string{"other.test.", "never.test."})
		synctest.Wait()
		if got := shown(k); got != "other.test.[192.0.2.7] []" || !strings.Contains(said.trouble("never.test."), "never resolved") {
			t.Error(got, said.names())
		}
		k.Want(nil)
		if got := shown(k); got != "" || said.names() != 0 {
			t.Error(got, said.names())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What was found stands in a file, by which a restart begins; a damaged one is set aside.
//
// Covers: issue5 names elsewhere
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolved.state")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a.test. 60 A 192.0.2.9", "b.test. 60 A 192.0.2.8")
		var said told
		run := func(want ...string) string {
			k := New(said.config(w, file))
			before := shown(k)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- k.Run(ctx) }()
			k.Want(want)
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			return before
		}
		if got := run("a.test.", "b.test."); got != "" {
			t.Error(got)
		}
		w.fail("192.0.2.1:53", true)
		w.fail("192.0.2.2:53", true)
		if got := run("a.test."); got != "a.test.[192.0.2.9] [] b.test.[192.0.2.8] []" {
			t.Error(got)
		}
		if got := run("a.test."); got != "a.test.[192.0.2.9] []" {
			t.Errorf("%s: what is no longer wanted is forgotten, what cannot be found is not", got)
		}
		if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := run(); got != "" {
			t.Error(got)
		}
		if aside, err := filepath.Glob(file + ".damaged-*"); err != nil || len(aside) != 1 {
			t.Error(aside, err)
		}
	})
}

// Answers to other questions, refusals and addresses of no machine are not taken.
//
// Covers: issue5 names elsewhere, issue2 bad input
func TestHostileAnswers(t *testing.T) {
	q := new(dns.Msg).SetQuestion("a.test.", dns.TypeA)
	good := new(dns.Msg).SetReply(q)
	if err := answers(good, q); err != nil {
		t.Error(err)
	}
	for name, damage := range map[string]func(m *dns.Msg){
		"another id":       func(m *dns.Msg) { m.Id++ },
		"another name":     func(m *dns.Msg) { m.Question[0].Name = "b.test." },
		"another type":     func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA },
		"no question":      func(m *dns.Msg) { m.Question = nil },
		"a query":          func(m *dns.Msg) { m.Response = false },
		"cut short":        func(m *dns.Msg) { m.Truncated = true },
		"SERVFAIL":         func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure },
		"REFUSED":          func(m *dns.Msg) { m.Rcode = dns.RcodeRefused },
		"FORMERR":          func(m *dns.Msg) { m.Rcode = dns.RcodeFormatError },
		"another question": func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) },
	} {
		m := good.Copy()
		if damage(m); answers(m, q) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	m := good.Copy()
	for _, line := range []string{
		"a.test. 5 CNAME b.test.", "b.test. 60 CNAME a.test.", "b.test. 60 A 0.0.0.0", "b.test. 60 A 224.0.0.1", "b.test. 60 A 255.255.255.255",
		"b.test. 60 AAAA ::", "b.test. 60 AAAA ff02::1", "b.test. 60 A 192.0.2.2", "b.test. 60 A 192.0.2.2", "stranger.test. 60 A 192.0.2.66",
	} {
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	addrs, ttl := collect(m, "A.test.")
	if len(addrs) != 1 || addrs[0] != netip.MustParseAddr("192.0.2.2") || ttl != 5*time.Second {
		t.Error(addrs, ttl)
	}
}

// A real resolver is asked over UDP, and over TCP when the answer does not fit.
//
// Covers: issue5 names elsewhere
func TestOverNetwork(t *testing.T) {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			m.Truncated = true
		} else if q.Question[0].Qtype == dns.TypeA {
			rr, _ := dns.NewRR(q.Question[0].Name + " 60 A 192.0.2.77")
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		t.Skip("the port of the UDP socket is taken for TCP: ", err)
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: l, Handler: handler}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	k := New(Config{Servers: []string{pc.LocalAddr().String()}, Log: slog.New(slog.DiscardHandler)})
	r := k.ask(t.Context(), "a.test.")
	if r.err != nil || len(r.addrs.A) != 1 || len(r.addrs.AAAA) != 0 {
		t.Errorf("%+v", r)
	}
}

// Covers: issue5 names elsewhere
func TestServer(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1:53", "192.0.2.1:5353": "192.0.2.1:5353", "2001:db8::1": "[2001:db8::1]:53", "[2001:db8::1]:54": "[2001:db8::1]:54",
		"": "", "resolver.example": "", "192.0.2.1:0": "", "192.0.2.1:x": "",
	} {
		got, err := Server(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

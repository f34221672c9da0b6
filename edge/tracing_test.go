package edge

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes spans as a collector of OpenTelemetry does, read by the protocol's own code.
type collector struct {
	url string
	mu  sync.Mutex
	all []*otlp.Span
}

func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data otlp.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Errorf("%x: %v", body, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range data.ResourceSpans {
			for _, s := range r.ScopeSpans {
				c.all = append(c.all, s.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// of waits for the n spans of a trace, the server's first.
func (c *collector) of(t *testing.T, id string, n int) (found []*otlp.Span) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d spans of trace %s", n, id), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = nil
		for _, s := range c.all {
			if fmt.Sprintf("%x", s.TraceId) == id {
				found = append(found, s)
			}
		}
		return len(found) >= n
	})
	if len(found) != n {
		t.Errorf("%d spans of trace %s, want %d", len(found), id, n)
	}
	return found
}

func attributesOf(s *otlp.Span) map[string]string {
	got := map[string]string{}
	for _, a := range s.Attributes {
		v := a.Value.GetStringValue()
		if v == "" {
			v = fmt.Sprint(a.Value.GetIntValue())
		}
		got[a.Key] = v
	}
	return got
}

var traceparent = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$`)

// echoTrace is an origin that says which trace context it got.
func echoTrace(t *testing.T) string {
	t.Helper()
	return origin(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s", strings.Join(r.Header.Values("Traceparent"), "+"), strings.Join(r.Header.Values("Tracestate"), "+"))
	})
}

// A trace that comes goes on to the origin below a span of ours, sampled when its parent is; one that is bad, or of somebody
// who is not believed, is dropped and a new one begins, of which the share is sampled that is asked for. Who asks for no
// tracing has it passed by.
//
// Covers: issue6 traces
func TestTraceContext(t *testing.T) {
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	good := "traceparent: 00-" + id + "-" + span
	c, addr := collect(t), echoTrace(t)
	trusting := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, row := range []struct {
		name    string
		tracing Tracing
		trusted []netip.Prefix
		fields  []string
		same    bool // the trace of the client
		flags   string
		state   string
	}{
		{"sampled parent", Tracing{}, nil, []string{good + "-01", "Tracestate: a=1, b=2", "tracestate: c=3"}, true, "01", "a=1,b=2,c=3"},
		{"parent that is not sampled", Tracing{Ratio: 1}, nil, []string{good + "-00"}, true, "00", ""},
		{"bad state", Tracing{}, nil, []string{good + "-01", "tracestate: a=1,a=2"}, true, "01", ""},
		{"no parent, all sampled", Tracing{Ratio: 1}, nil, []string{"tracestate: a=1"}, false, "03", ""},
		{"no parent, none sampled", Tracing{}, nil, nil, false, "02", ""},
		{"bad parent", Tracing{Ratio: 1}, nil, []string{strings.ToUpper(good) + "-01", "tracestate: a=1"}, false, "03", ""},
		{"two parents", Tracing{}, nil, []string{good + "-01", good + "-01"}, false, "02", ""},
		{"stranger where proxies are believed", Tracing{Parents: TrustedParents}, nil, []string{good + "-01"}, false, "02", ""},
		{"proxy where proxies are believed", Tracing{Parents: TrustedParents}, trusting, []string{good + "-01"}, true, "01", ""},
		{"nobody is believed", Tracing{Parents: NoParents}, trusting, []string{good + "-01"}, false, "02", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.tracing.Endpoint = c.url
			d, _ := one(addr)
			b := start(t, Config{Tracing: &row.tracing, Trusted: row.trusted}, d)
			k := dial(t, b.addr)
			k.send(append(append([]string{"GET /a?secret HTTP/1.1", "Host: a"}, row.fields...), "", "")...)
			_, body := k.get("GET")
			parent, state, _ := strings.Cut(body, "|")
			m := traceparent.FindStringSubmatch(parent)
			if m == nil || (m[1] == id) != row.same || m[2] == span || m[3] != row.flags || state != row.state {
				t.Fatalf("the origin got %q", body)
			}
			line := b.log.wait(t, 1)
			sampled, _ := line["sampled"].(bool)
			if line["trace"] != m[1] || sampled != (row.flags == "01" || row.flags == "03") {
				t.Errorf("log: %v", line)
			}
			if err := b.stop(); err != nil { // which sends what is left
				t.Fatal(err)
			}
			if !sampled {
				return
			}
			if row.same { // the same trace comes in several rows
				return
			}
			spans := c.of(t, m[1], 2)
			if fmt.Sprintf("%x", spans[1].SpanId) != m[2] || string(spans[1].ParentSpanId) != string(spans[0].SpanId) || len(spans[0].ParentSpanId) != 0 {
				t.Errorf("spans: %v", spans)
			}
		})
	}
	d, _ := one(addr)
	k := dial(t, start(t, Config{}, d).addr)
	k.send("GET / HTTP/1.1", "Host: a", "traceparent: anything", "tracestate: at all", "", "")
	if _, body := k.get("GET"); body != "anything|at all" {
		t.Errorf("without tracing the origin got %q", body)
	}
}

// The spans of a request say what happened: to whom, by which route, how often it was tried, and how it ended.
//
// Covers: issue6 traces
func TestSpansSayWhatHappened(t *testing.T) {
	c := collect(t)
	addr := origin(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })
	d, _ := one(refusing(t), addr)
	d["down"] = way{route: &Route{Service: "shop", Name: "down"}, group: group(refusing(t))}
	d["none"] = way{plan: func(_ *Asked, p *Plan) { p.Status, p.Reason = 403, "access_denied" }}
	b := start(t, Config{Tracing: &Tracing{Endpoint: c.url, Ratio: 1, Instance: "gw-1"}}, d)
	k := dial(t, b.addr)
	for _, path := range []string{"/x/y?token=secret", "/down", "/none"} {
		k.send("GET "+path+" HTTP/1.1", "Host: www.example.com", "User-Agent: \x80x", "", "")
		k.get("GET")
	}
	k.send("BREW / HTTP/1.1", "Host: www.example.com", "", "")
	k.get("BREW")
	var ids []string
	for i := range 4 {
		ids = append(ids, b.log.wait(t, i+1)["trace"].(string))
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	spans := c.of(t, ids[0], 2)
	if s := spans[0]; s.Name != "GET shop/all" || s.Kind != otlp.Span_SPAN_KIND_SERVER || s.EndTimeUnixNano < s.StartTimeUnixNano || s.Status.GetCode() != 0 {
		t.Errorf("%v", s)
	}
	for key, want := range map[string]string{
		"http.request.method": "GET", "url.scheme": "http", "url.path": "/x/y", "server.address": "www.example.com", "network.protocol.version": "1.1",
		"client.address": "127.0.0.1", "network.peer.address": "127.0.0.1", "user_agent.original": "\ufffdx", "http.response.status_code": "404",
		"steerpoint.service": "shop", "steerpoint.route": "all",
	} {
		if got := attributesOf(spans[0])[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if strings.Contains(fmt.Sprint(spans), "secret") {
		t.Error("the query is told")
	}
	s := spans[1]
	if a := attributesOf(s); s.Kind != otlp.Span_SPAN_KIND_CLIENT || s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || a["http.request.resend_count"] != "1" ||
		a["steerpoint.origin"] != "o1" || a["http.response.status_code"] != "404" || a["server.address"] != addr {
		t.Errorf("%v", s)
	}
	spans = c.of(t, ids[1], 1) // nothing was sent to anybody
	if a := attributesOf(spans[0]); a["error.type"] != "connect_failed" || spans[0].Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("%v", spans[0])
	}
	spans = c.of(t, ids[2], 1)
	if a := attributesOf(spans[0]); a["error.type"] != "access_denied" || spans[0].Status.GetCode() != 0 || spans[0].Name != "GET" {
		t.Errorf("%v", spans[0])
	}
	spans = c.of(t, ids[3], 2)
	if a := attributesOf(spans[0]); spans[0].Name != "_OTHER shop/all" || a["http.request.method_original"] != "BREW" {
		t.Errorf("%v", spans[0])
	}
	b.wants(t, `steer_edge_spans_sent_total 6`, `steer_edge_spans_lost_total 0`)
}

// A collector that hangs holds up no request.
//
// Covers: issue6 traces
func TestNobodyWaitsForTheCollector(t *testing.T) {
	hung := script(t, func(_ int, k *talk) { _, _ = io.Copy(io.Discard, k) })
	addr := origin(t, func(http.ResponseWriter, *http.Request) {})
	d, _ := one(addr)
	b := start(t, Config{Tracing: &Tracing{Endpoint: "http://" + hung.addr(), Ratio: 1}}, d)
	k := dial(t, b.addr)
	for range 200 {
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		if r, _ := k.get("GET"); r.StatusCode != 200 {
			t.Fatalf("%d", r.StatusCode)
		}
	}
}

// Of a request that is not sampled nothing is allocated, and of one that is neither.
//
// Covers: issue6 traces, issue6 allocations
func TestTracesAllocateNothing(t *testing.T) {
	if underRace {
		t.Skip("the race detector makes pools lose what they are given")
	}
	for _, ratio := range []float64{0, 1} {
		s := script(t, func(_ int, k *talk) {
			p := make([]byte, 4096)
			for {
				if n, err := k.Read(p); err != nil || !bytes.HasSuffix(p[:n], []byte("\r\n\r\n")) {
					return
				}
				if _, err := k.TCPConn.Write([]byte("HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 2\r\n\r\nok")); err != nil {
					return
				}
			}
		})
		d, _ := one(s.addr())
		b := start(t, Config{AccessLog: io.Discard, ServerTiming: true, Tracing: &Tracing{Endpoint: "http://" + refusing(t), Ratio: ratio}}, d)
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		request := []byte("GET /a?b=c HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\ntraceparent: bad\r\ntracestate: a=1\r\n\r\n")
		p := make([]byte, 4096)
		once := func() {
			if _, err := c.Write(request); err != nil {
				t.Fatal(err)
			}
			for n := 0; !bytes.HasSuffix(p[:n], []byte("\r\n\r\nok")); {
				m, err := c.Read(p[n:])
				if n += m; err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 200 {
			once()
		}
		if n := testing.AllocsPerRun(2000, once); n >= 1 {
			t.Errorf("share %v: %v allocations a request", ratio, n)
		}
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	}
}

// A client that may see where the time went is told, and nobody is unasked.
//
// Covers: issue6 server timing
func TestServerTiming(t *testing.T) {
	addr := origin(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Server-Timing", "db;dur=1") })
	form := regexp.MustCompile(`^edge;dur=\d+\.\d{3}, connect;dur=\d+\.\d{3}, origin;dur=\d+\.\d{3}$`)
	for _, on := range []bool{true, false} {
		d, _ := one(addr)
		d["none"] = way{plan: func(_ *Asked, p *Plan) { p.Status, p.Reason = 403, "access_denied" }}
		k := dial(t, start(t, Config{ServerTiming: on}, d).addr)
		k.send("GET / HTTP/1.1", "Host: a", "", "")
		r, _ := k.get("GET")
		got := r.Header.Values("Server-Timing")
		if on != (len(got) == 2) || got[0] != "db;dur=1" || on && !form.MatchString(got[1]) {
			t.Errorf("on %t: %q", on, got)
		}
		k.send("GET /none HTTP/1.1", "Host: a", "", "")
		r, _ = k.get("GET")
		if got := r.Header.Get("Server-Timing"); on != regexp.MustCompile(`^edge;dur=\d+\.\d{3}$`).MatchString(got) {
			t.Errorf("on %t, without an origin: %q", on, got)
		}
	}
}

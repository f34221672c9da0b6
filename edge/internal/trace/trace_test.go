package trace

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const wait = 30 * time.Second

// A traceparent is read exactly, or not at all.
//
// Covers: issue6 traces
func TestParse(t *testing.T) {
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for v, flags := range map[string]byte{
		"00-" + id + "-" + span + "-01":          Sampled,
		"00-" + id + "-" + span + "-00":          0,
		"00-" + id + "-" + span + "-ff":          Sampled | Random,
		"01-" + id + "-" + span + "-01":          Sampled,
		"cc-" + id + "-" + span + "-01-what-not": Sampled,
	} {
		c, ok := Parse([]byte(v))
		want := "00-" + id + "-" + span + fmt.Sprintf("-%02x", flags)
		if got := string(AppendParent(nil, &c)); !ok || got != want || !c.IsValid() || string(AppendID(nil, &c)) != id {
			t.Errorf("%q is %q, %t: want %q", v, got, ok, want)
		}
	}
	for _, v := range []string{
		"", "00", "00-" + id + "-" + span + "-1", "00-" + id + "-" + span + "-01-", "00-" + id + "-" + span + "-011", "ff-" + id + "-" + span + "-01",
		"cc-" + id + "-" + span + "-01x", "0-" + id + "-" + span + "-01", "00-" + strings.ToUpper(id) + "-" + span + "-01", " 00-" + id + "-" + span + "-01",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01", "00-" + id + "-" + strings.Repeat("0", 16) + "-01", "00_" + id + "-" + span + "-01",
		"00-" + id + "_" + span + "-01", "00-" + id + "-" + span + "_01", "00-" + id + "-" + span + "-0g", "00-" + id[:31] + "g-" + span + "-01",
	} {
		if c, ok := Parse([]byte(v)); ok || c.IsValid() {
			t.Errorf("%q was read", v)
		}
	}
}

// A tracestate is a list of members of different keys, within its bounds, or none at all.
//
// Covers: issue6 traces
func TestState(t *testing.T) {
	for _, row := range []struct {
		fields []string
		want   string
	}{
		{[]string{"a=1"}, "a=1"},
		{[]string{"a=1, b=2", "c=3"}, "a=1,b=2,c=3"},
		{[]string{"", " , ,a=1,"}, "a=1"},
		{[]string{"tenant@system=x y", "0a@b=!"}, "tenant@system=x y,0a@b=!"},
		{[]string{"a_-*/9=~"}, "a_-*/9=~"},
	} {
		state := []byte{}
		ok := true
		for _, f := range row.fields {
			if state, ok = AppendState(state, []byte(f)); !ok {
				break
			}
		}
		if !ok || string(state) != row.want {
			t.Errorf("%q: %q, %t", row.fields, state, ok)
		}
	}
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprintf("k%d=v", i)
	}
	for _, bad := range []string{
		"a", "=1", "a=", "A=1", "1=1", "@b=1", "a@=1", "a@1=1", "a@b@c=1", "a=1=2", "a=\x01", "a=ü", "a=1,b", "a=1,a=2", "a b=1",
		strings.Join(many, ","), "a=" + strings.Repeat("x", 257), strings.Repeat("a", 257) + "=1", strings.Repeat("t", 242) + "@s=1", "t@" + strings.Repeat("s", 15) + "=1",
		"a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("x", 250) + ",c=" + strings.Repeat("x", 10),
	} {
		if state, ok := AppendState(nil, []byte(bad)); ok {
			t.Errorf("%q became %q", bad, state)
		}
	}
	if state, ok := AppendState(nil, []byte(strings.Join(many[:32], ","))); !ok || strings.Count(string(state), "=") != 32 {
		t.Errorf("32 members: %q, %t", state, ok)
	}
}

// IDs of new traces differ and are never zero; shares are what they are said to be at their ends.
//
// Covers: issue6 traces
func TestRoots(t *testing.T) {
	seen := map[[16]byte]bool{}
	for range 1000 {
		c := NewRoot(true)
		if seen[c.Trace] || !c.IsValid() || !c.IsSampled() || c.Span == [8]byte{} {
			t.Fatalf("%v", c)
		}
		seen[c.Trace] = true
		if again, ok := Parse(AppendParent(nil, &c)); !ok || again != c {
			t.Fatalf("%v was read as %v, %t", c, again, ok)
		}
	}
	if c := NewRoot(false); c.IsSampled() {
		t.Error("sampled against its will")
	}
	n := 0
	for range 10_000 {
		if Draw(0) || !Draw(1) {
			t.Fatal("0 is drawn, or 1 is not")
		}
		if Draw(0.5) {
			n++
		}
	}
	if n < 4000 || n > 6000 {
		t.Errorf("%d of 10,000 at one half", n)
	}
}

// collector takes what an Exporter sends, and answers as it is told.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*otlp.ResourceSpans
	header http.Header
	posts  int
	answer func(n int, w http.ResponseWriter) bool // false: the body is to be read and taken
}

func collect(t *testing.T, answer func(int, http.ResponseWriter) bool) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("body: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.posts++
		c.header = r.Header
		if c.answer != nil && c.answer(c.posts, w) {
			return
		}
		if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		var data otlp.TracesData // which is on the wire what a request to a collector is
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Errorf("%x: %v", body, err)
		}
		c.spans = append(c.spans, data.ResourceSpans...)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) count() (posts, spans int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.spans {
		for _, s := range r.ScopeSpans {
			spans += len(s.Spans)
		}
	}
	return c.posts, spans
}

func exporter(t *testing.T, url string) *Exporter {
	t.Helper()
	e, err := NewExporter(Config{
		Endpoint: url, Headers: map[string]string{"X-Key": "k"}, Resource: NewResource([2]string{"service.name", "test"}, [2]string{"empty", ""}),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not come about in %v", what, wait)
}

func run(t *testing.T, e *Exporter) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

var root = NewRoot(true)

// one is a span with every kind of field, and its name.
func one(name string) []byte {
	a := AppendText(nil, "user_agent.original", []byte("bad \xff, 网关"))
	a = AppendText(a, "long", []byte(strings.Repeat("ü", maxText)))
	a = AppendName(a, "left.out", "")
	a = AppendInt(a, "http.response.status_code", 503)
	a = AppendBool(AppendBool(a, "yes", true), "no", false)
	return AppendSpan(nil, nil, &Span{
		Trace: root.Trace, ID: root.Span, Parent: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Remote: true, Flags: root.Flags, State: []byte("a=1"), Kind: Server,
		Name: []byte(name), Begin: time.Unix(1, 2), End: time.Unix(3, 4), Failed: true, Attributes: a,
	})
}

// What is sent is read by the protocol's own code as what it was made of.
//
// Covers: issue6 traces
func TestSpansAreOTLP(t *testing.T) {
	c := collect(t, nil)
	e := exporter(t, c.URL)
	stop := run(t, e)
	e.Add(append(one("first"), AppendSpan(nil, nil, &Span{Trace: root.Trace, ID: root.Span, Kind: Client, Name: []byte("second")})...), 2)
	stop() // what is left is sent
	if posts, spans := c.count(); posts != 1 || spans != 2 || e.Sent() != 2 || e.Lost() != 0 {
		t.Fatalf("%d requests with %d spans, sent %d, lost %d", posts, spans, e.Sent(), e.Lost())
	}
	r := c.spans[0]
	if a := r.Resource.Attributes; len(a) != 1 || a[0].Key != "service.name" || a[0].Value.GetStringValue() != "test" {
		t.Errorf("resource: %v", a)
	}
	if got := r.ScopeSpans[0].Scope.Name; got != scopeOf {
		t.Errorf("scope %q", got)
	}
	s := r.ScopeSpans[0].Spans[0]
	switch {
	case string(s.TraceId) != string(root.Trace[:]), string(s.SpanId) != string(root.Span[:]), string(s.ParentSpanId) != "\x01\x02\x03\x04\x05\x06\x07\x08":
		t.Errorf("IDs %x %x %x", s.TraceId, s.SpanId, s.ParentSpanId)
	case s.Name != "first", s.Kind != otlp.Span_SPAN_KIND_SERVER, s.TraceState != "a=1", s.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR:
		t.Errorf("%v", s)
	case s.StartTimeUnixNano != 1_000_000_002, s.EndTimeUnixNano != 3_000_000_004:
		t.Errorf("from %d to %d", s.StartTimeUnixNano, s.EndTimeUnixNano)
	case s.Flags != uint32(root.Flags)|0x300:
		t.Errorf("flags %x", s.Flags)
	}
	got := map[string]string{}
	for _, a := range s.Attributes {
		got[a.Key] = fmt.Sprint(a.Value.GetStringValue(), a.Value.GetIntValue(), a.Value.GetBoolValue())
	}
	for key, want := range map[string]string{
		"user_agent.original": "bad \ufffd, 网关0 false", "http.response.status_code": "503 false", "yes": "0 true", "no": "0 false",
		"long": strings.Repeat("ü", maxText/2) + "0 false",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("attributes: %v", got)
	}
	second := r.ScopeSpans[0].Spans[1]
	if second.Kind != otlp.Span_SPAN_KIND_CLIENT || second.Flags != 0x100 || second.Status.GetCode() != 0 || len(second.ParentSpanId) != 0 {
		t.Errorf("%v", second)
	}
	if c.header.Get("X-Key") != "k" || c.header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("fields: %v", c.header)
	}
}

// A collector that is away for a while gets what waited; one that refuses, in whole or in part, makes a loss that is counted;
// nobody ever waits, and what is too much is counted too.
//
// Covers: issue6 traces
func TestCollectorsFail(t *testing.T) {
	t.Run("comes back", func(t *testing.T) {
		c := collect(t, func(n int, w http.ResponseWriter) bool {
			if n < 3 {
				w.WriteHeader([]int{429, 503}[n-1])
			}
			return n < 3
		})
		e := exporter(t, c.URL)
		run(t, e)
		e.Add(one("x"), 1)
		eventually(t, "span sent", func() bool { return e.Sent() == 1 })
		if posts, spans := c.count(); posts != 3 || spans != 1 || e.Lost() != 0 {
			t.Errorf("%d requests, %d spans, %d lost", posts, spans, e.Lost())
		}
	})
	t.Run("refuses", func(t *testing.T) {
		c := collect(t, func(_ int, w http.ResponseWriter) bool { w.WriteHeader(400); return true })
		e := exporter(t, c.URL)
		run(t, e)
		e.Add(one("x"), 1)
		eventually(t, "loss counted", func() bool { return e.Lost() == 1 })
		if posts, _ := c.count(); posts != 1 || e.Sent() != 0 {
			t.Errorf("%d requests, %d sent", posts, e.Sent())
		}
	})
	t.Run("takes a part", func(t *testing.T) {
		c := collect(t, func(_ int, w http.ResponseWriter) bool {
			_, _ = w.Write([]byte{0x0a, 0x05, 0x08, 0x02, 0x12, 0x01, 'x'}) // partial_success: two rejected, and why
			return true
		})
		e := exporter(t, c.URL)
		run(t, e)
		e.Add(append(append(one("x"), one("y")...), one("z")...), 3)
		eventually(t, "loss counted", func() bool { return e.Lost() == 2 && e.Sent() == 1 })
	})
	t.Run("is away at the stop", func(t *testing.T) {
		c := collect(t, func(_ int, w http.ResponseWriter) bool { w.WriteHeader(503); return true })
		e := exporter(t, c.URL)
		stop := run(t, e)
		e.Add(one("x"), 1)
		eventually(t, "first try", func() bool { posts, _ := c.count(); return posts > 0 })
		stop()
		if e.Lost() != 1 || e.Sent() != 0 {
			t.Errorf("%d lost, %d sent", e.Lost(), e.Sent())
		}
	})
	t.Run("takes nothing", func(t *testing.T) {
		e := exporter(t, "http://192.0.2.1/") // nothing runs: nothing is sent
		span := one(strings.Repeat("x", 1000))
		n := most/len(span) + 10
		for range n {
			e.Add(span, 1)
		}
		if kept := most / len(span); e.Lost() != uint64(n-kept) {
			t.Errorf("%d of %d lost, and %d fit", e.Lost(), n, kept)
		}
	})
	for _, url := range []string{"", "collector:4318", "ftp://a/", "http://", "http://%zz"} {
		if _, err := NewExporter(Config{Endpoint: url}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q was taken for an endpoint", url)
		}
	}
}

// A span is encoded without an allocation once there is room.
//
// Covers: issue6 traces, issue6 allocations
func TestEncodingAllocatesNothing(t *testing.T) {
	dst, room, attrs := make([]byte, 0, 4096), make([]byte, 0, 4096), make([]byte, 0, 4096)
	s := &Span{Trace: root.Trace, ID: root.Span, Kind: Server, Name: []byte("GET")}
	ua := []byte("Mozilla/5.0")
	if n := testing.AllocsPerRun(100, func() {
		s.Attributes = AppendInt(AppendText(AppendName(attrs[:0], "http.request.method", "GET"), "user_agent.original", ua), "http.response.status_code", 200)
		_ = AppendSpan(dst[:0], room, s)
	}); n > 0 {
		t.Errorf("%v allocations a span", n)
	}
}

// FuzzContext: whatever a client sends is read without harm, and what was read can be written and read again.
//
// Covers: issue6 traces
func FuzzContext(f *testing.F) {
	f.Add([]byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), []byte("a=1,b=2"), []byte("c@d=3"))
	f.Fuzz(func(t *testing.T, parent, one, two []byte) {
		if c, ok := Parse(parent); ok {
			if again, ok := Parse(AppendParent(nil, &c)); !ok || again != c {
				t.Fatalf("%q: %v, then %v", parent, c, again)
			}
		}
		state, ok := AppendState(nil, one)
		if ok {
			state, ok = AppendState(state, two)
		}
		if ok {
			if again, ok := AppendState(nil, state); len(state) > MaxState || !ok || string(again) != string(state) {
				t.Fatalf("%q, %q: %q, then %q", one, two, state, again)
			}
		}
		rejectedIn(one)
	})
}

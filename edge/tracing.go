package edge

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
	"steerpoint/edge/internal/trace"
)

// Parents says whose traceparent is believed.
type Parents uint8

// Whose traceparent is believed. What others say is dropped, and a trace begins here.
const (
	AllParents     Parents = iota
	TrustedParents         // of Config.Trusted
	NoParents
)

// Tracing says which requests are traced and who is told.
type Tracing struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318; without a path /v1/traces
	// is meant.
	Endpoint string
	// Headers are fields of each request to the collector.
	Headers map[string]string
	// Ratio is the share, 0 to 1, that is sampled of the traces that begin here. Those that came with a traceparent are
	// sampled when it says so.
	Ratio float64
	// Parents says whose traceparent is believed.
	Parents Parents
	// Instance and Version say in the spans which gateway made them; empty: nothing.
	Instance, Version string
}

// tracer decides about requests, and has what takes their spans.
type tracer struct {
	*trace.Exporter
	ratio   float64
	parents Parents
}

// newTracer makes one; nil without tracing.
func newTracer(t *Tracing, reg prometheus.Registerer, log *slog.Logger) (*tracer, error) {
	if t == nil {
		return nil, nil
	}
	if t.Ratio < 0 || t.Ratio > 1 || t.Parents > NoParents {
		return nil, fmt.Errorf("gateway config: a share of %v of the traces cannot be sampled", t.Ratio)
	}
	e, err := trace.NewExporter(trace.Config{
		Endpoint: t.Endpoint, Headers: t.Headers,
		Resource: trace.NewResource([2]string{"service.name", "steerpoint-edge"}, [2]string{"service.instance.id", t.Instance}, [2]string{"service.version", t.Version}),
	}, log)
	if err != nil {
		return nil, fmt.Errorf("gateway config: %w", err)
	}
	for _, c := range []prometheus.Collector{
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "steer_edge_spans_sent_total", Help: "Spans of traces that the collector took."},
			func() float64 { return float64(e.Sent()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "steer_edge_spans_lost_total", Help: "Spans of traces that the collector did not take, or that were too many to be kept."},
			func() float64 { return float64(e.Lost()) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("gateway metrics: %w", err)
		}
	}
	return &tracer{Exporter: e, ratio: t.Ratio, parents: t.Parents}, nil
}

// run sends spans until ctx ends; without tracing it does nothing.
func (t *tracer) run(ctx context.Context) {
	if t != nil {
		t.Run(ctx)
	}
}

// traced is what is known of the trace of a request.
type traced struct {
	trace.Context         // its span is that of the request
	parent        [8]byte // of another process; zero: the trace begins here
	asked         [8]byte // the span of what was last asked of an origin
}

// beginTrace says which trace a request belongs to.
func (x *client) beginTrace() {
	t := x.g.tracer
	if t == nil {
		return
	}
	x.state = x.state[:0]
	if t.parents == AllParents || t.parents == TrustedParents && x.proxied {
		if c, ok := x.parent(); ok {
			x.x.trace = traced{Context: c, parent: c.Span}
			x.x.trace.Span = trace.NewSpan()
			x.readState()
			return
		}
	}
	x.x.trace = traced{Context: trace.NewRoot(trace.Draw(t.ratio))}
}

// parent reads the traceparent of a request. Two of them are none.
func (x *client) parent() (c trace.Context, ok bool) {
	v, ok := x.req.Field(trace.ParentField, 0)
	if !ok {
		return c, false
	}
	if _, two := x.req.Field(trace.ParentField, 1); two {
		return c, false
	}
	return trace.Parse(v)
}

// readState reads the tracestate, which may stand in several fields. One that is bad is dropped as a whole.
func (x *client) readState() {
	for n := 0; ; n++ {
		v, ok := x.req.Field(trace.StateField, n)
		if !ok {
			return
		}
		state, ok := trace.AppendState(x.state, v)
		if !ok {
			x.state = x.state[:0]
			return
		}
		x.state = state
	}
}

// passesUpTraced is passesUp where the trace context is written anew.
func (x *client) passesUpTraced(h *h1.Head, i int) bool {
	if h.ID(i) == h1.Other {
		if n := len(h.Name(i)); n == len(trace.ParentField) && equalFold(h.Name(i), trace.ParentField) ||
			n == len(trace.StateField) && equalFold(h.Name(i), trace.StateField) {
			return false
		}
	}
	return x.passesUp(h, i)
}

// equalFold compares with a name in lower case of the same length.
func equalFold(name []byte, lower string) bool {
	for i, o := range name {
		if 'A' <= o && o <= 'Z' {
			o |= 0x20
		}
		if o != lower[i] {
			return false
		}
	}
	return true
}

// appendTrace appends the trace context that an origin gets: below a span of its own, if the trace is sampled.
func (x *client) appendTrace(dst []byte) []byte {
	if x.g.tracer == nil || overruled(x.plan.Request, trace.ParentField) {
		return dst
	}
	c := x.x.trace.Context
	if c.IsSampled() {
		x.x.trace.asked = trace.NewSpan()
		c.Span = x.x.trace.asked
	}
	dst = append(dst, trace.ParentField+": "...)
	dst = append(trace.AppendParent(dst, &c), "\r\n"...)
	if len(x.state) > 0 {
		dst = h1.AppendField(dst, trace.StateField, x.state)
	}
	return dst
}

// appendTraceID appends the trace to a line of the log.
func (x *client) appendTraceID(dst []byte) []byte {
	if !x.x.trace.IsValid() {
		return dst
	}
	dst = append(dst, `,"trace":"`...)
	dst = append(trace.AppendID(dst, &x.x.trace.Context), '"')
	if x.x.trace.IsSampled() {
		dst = append(dst, `,"sampled":true`...)
	}
	return dst
}

// endTrace hands over the spans of a request: one of the whole, and one of what was last asked of an origin.
func (x *client) endTrace(now conn.Instant) {
	e := &x.x
	if x.g.tracer == nil || !e.trace.IsSampled() {
		return
	}
	buf := x.g.buffers.Lend(h1.Large)
	defer x.g.buffers.Return(buf)
	const part = 8 << 10
	room := spanRoom{attributes: buf.B[0:0:part], body: buf.B[part : part : 2*part], name: buf.B[2*part : 2*part : 2*part+512]}
	out := buf.B[2*part+512 : 2*part+512]
	n := 1
	out = x.appendServerSpan(out, room, now)
	if e.origin != nil && e.trace.asked != [8]byte{} {
		out = x.appendClientSpan(out, room, now)
		n++
	}
	x.g.tracer.Add(out, n)
}

// spanRoom is room for the parts of a span.
type spanRoom struct{ attributes, body, name []byte }

// appendServerSpan appends the span of the request, with the names of OpenTelemetry's conventions for HTTP servers. The query
// is left out: it is where secrets stand.
func (x *client) appendServerSpan(dst []byte, room spanRoom, now conn.Instant) []byte {
	e, q := &x.x, &x.req
	method := knownMethod(q.Method())
	name := append(room.name, method...)
	a := trace.AppendName(room.attributes, "http.request.method", method)
	if method == otherMethod {
		a = trace.AppendText(a, "http.request.method_original", q.Method())
	}
	a = trace.AppendName(a, "url.scheme", x.scheme())
	a = trace.AppendText(a, "url.path", q.Path())
	a = trace.AppendText(a, "server.address", q.Hostname())
	a = trace.AppendName(a, "network.protocol.version", x.asked.Version)
	a = appendAddr(a, "network.peer.address", x.peer.Addr(), name[len(name):])
	a = appendAddr(a, "client.address", x.asked.Client.Addr(), name[len(name):])
	a = trace.AppendText(a, "user_agent.original", q.Get(h1.UserAgent))
	if e.sent > 0 {
		a = trace.AppendInt(a, "http.response.status_code", int64(e.sent))
	}
	a = trace.AppendName(a, "error.type", e.answer.reason)
	if r := x.plan.Route; r != nil {
		a = trace.AppendName(a, "steerpoint.service", r.Service)
		a = trace.AppendName(a, "steerpoint.route", r.Name)
		name = append(append(append(append(name, ' '), r.Service...), '/'), r.Name...)
	}
	return trace.AppendSpan(dst, room.body, &trace.Span{
		Trace: e.trace.Trace, ID: e.trace.Span, Parent: e.trace.parent, Remote: true, Flags: e.trace.Flags, State: x.state, Kind: trace.Server,
		Name: name, Begin: x.g.clock.Wall(e.begun), End: x.g.clock.Wall(now), Failed: e.answer.status >= 500, Attributes: a,
	})
}

// scheme is that of the request, also when what was asked has been let go.
func (x *client) scheme() string {
	switch {
	case x.asked.Scheme != "":
		return x.asked.Scheme
	case x.secure != "":
		return "https"
	}
	return "http"
}

// appendClientSpan appends the span of what was last asked of an origin.
func (x *client) appendClientSpan(dst []byte, room spanRoom, now conn.Instant) []byte {
	e, o := &x.x, x.x.origin
	method := knownMethod(x.req.Method())
	a := trace.AppendName(room.attributes, "http.request.method", method)
	a = trace.AppendName(a, "server.address", o.Address)
	a = trace.AppendName(a, "steerpoint.group", o.Group)
	a = trace.AppendName(a, "steerpoint.origin", o.Name)
	a = trace.AppendBool(a, "steerpoint.reused", e.reused)
	if e.tries > 1 {
		a = trace.AppendInt(a, "http.request.resend_count", int64(e.tries-1))
	}
	failed := e.headAt == 0 || e.answer.reason != ""
	if e.headAt != 0 {
		status := x.resp.Status
		a = trace.AppendInt(a, "http.response.status_code", int64(status))
		failed = failed || status >= 400
	}
	a = trace.AppendName(a, "error.type", e.answer.reason)
	return trace.AppendSpan(dst, room.body, &trace.Span{
		Trace: e.trace.Trace, ID: e.trace.asked, Parent: e.trace.Span, Flags: e.trace.Flags, State: x.state, Kind: trace.Client,
		Name: append(room.name, method...), Begin: x.g.clock.Wall(e.triedAt), End: x.g.clock.Wall(now), Failed: failed, Attributes: a,
	})
}

// appendAddr appends an address. room is used for it.
func appendAddr(a []byte, key string, addr netip.Addr, room []byte) []byte {
	if !addr.IsValid() {
		return a
	}
	return trace.AppendText(a, key, addr.AppendTo(room[:0]))
}

const otherMethod = "_OTHER"

// knownMethod is a method as the conventions name it: what clients make up must not make names of spans.
func knownMethod(m []byte) string {
	switch string(m) {
	case "GET":
		return "GET"
	case "HEAD":
		return "HEAD"
	case "POST":
		return "POST"
	case "PUT":
		return "PUT"
	case "PATCH":
		return "PATCH"
	case "DELETE":
		return "DELETE"
	case "OPTIONS":
		return "OPTIONS"
	case "QUERY":
		return "QUERY"
	}
	return otherMethod
}

package check

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"steerpoint/report"
	"steerpoint/snapshot"
)

func grpcTask(kind string, to netip.AddrPort, service string) snapshot.ProbeTask {
	return snapshot.ProbeTask{
		ID: "t", Kind: kind, Address: to.Addr().String(), Port: int(to.Port()), Interval: plenty, Timeout: plenty,
		URL: kind + "://www.example.com:50051/" + service, TLSVerify: true,
	}
}

// grpcServer is a real one. Its health is set by the test; with bare it has no health service.
func grpcServer(t *testing.T, bare bool, options ...grpc.ServerOption) (*health.Server, netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, h := grpc.NewServer(options...), health.NewServer()
	if !bare {
		grpc_health_v1.RegisterHealthServer(s, h)
	}
	ended := make(chan struct{})
	go func() {
		s.Serve(l) // ends with the test
		close(ended)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-ended
	})
	return h, l.Addr().(*net.TCPAddr).AddrPort()
}

// TestGRPC: a real server's health, in the clear and inside TLS: SERVING is ok, whatever else is a failure by name.
//
// Covers: issue4 probe grpc
func TestGRPC(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.config(t, false, "www.example.com").Certificates[0]
	secure := grpc.Creds(credentials.NewServerTLSFromCert(&cert))
	for _, row := range []struct {
		name    string
		tls     bool
		bare    bool
		set     grpc_health_v1.HealthCheckResponse_ServingStatus
		service string
		cause   report.Cause
		detail  string
	}{
		{name: "serving", set: grpc_health_v1.HealthCheckResponse_SERVING, service: "shop.v1.Cart"},
		{name: "serving, the whole server", set: grpc_health_v1.HealthCheckResponse_SERVING},
		{name: "serving inside TLS", tls: true, set: grpc_health_v1.HealthCheckResponse_SERVING, service: "shop.v1.Cart"},
		{name: "not serving", set: grpc_health_v1.HealthCheckResponse_NOT_SERVING, service: "shop.v1.Cart", cause: report.CauseStatus, detail: "the health is NOT_SERVING"},
		{name: "not serving inside TLS", tls: true, set: grpc_health_v1.HealthCheckResponse_NOT_SERVING, cause: report.CauseStatus, detail: "NOT_SERVING"},
		{name: "unknown", set: grpc_health_v1.HealthCheckResponse_UNKNOWN, service: "shop.v1.Cart", cause: report.CauseStatus, detail: "the health is UNKNOWN"},
		{name: "no such service", set: grpc_health_v1.HealthCheckResponse_SERVING, service: "shop.v1.Other", cause: report.CauseStatus, detail: "NOT_FOUND"},
		{name: "no health service", bare: true, cause: report.CauseStatus, detail: "UNIMPLEMENTED"},
	} {
		t.Run(row.name, func(t *testing.T) {
			kind, options := snapshot.KindGRPC, []grpc.ServerOption(nil)
			if row.tls {
				kind, options = snapshot.KindGRPCS, []grpc.ServerOption{secure}
			}
			h, addr := grpcServer(t, row.bare, options...)
			h.SetServingStatus("", row.set)
			h.SetServingStatus("shop.v1.Cart", row.set)
			o := run(t, newChecker(Config{Roots: ca.roots}), grpcTask(kind, addr, row.service))
			if row.cause != "" {
				wantFailure(t, o, row.cause, row.detail)
				return
			}
			if !o.OK || o.Status != 200 || o.Latency != o.Phases.Connect+o.Phases.TLS+o.Phases.FirstByte || row.tls != (o.Phases.TLS > 0) || row.tls == o.CertExpiry.IsZero() {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// h2 writes frames of a server.
type h2 struct {
	bytes.Buffer
	f *http2.Framer
}

func newH2(settings bool) *h2 {
	w := &h2{}
	w.f = http2.NewFramer(&w.Buffer, nil)
	w.f.AllowIllegalWrites = true
	if settings {
		w.f.WriteSettings()
	}
	return w
}

func (w *h2) fields(end bool, fields ...string) *h2 {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	w.f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	return w
}

func (w *h2) header() *h2 {
	return w.fields(false, ":status", "200", "content-type", "application/grpc")
}

func (w *h2) data(b string) *h2 {
	w.f.WriteData(1, false, []byte(b))
	return w
}

func (w *h2) trailer(status string) *h2 { return w.fields(true, "grpc-status", status) }

func (w *h2) then(f func(*http2.Framer)) *h2 {
	f(w.f)
	return w
}

const isServing = "\x00\x00\x00\x00\x02\x08\x01"

// wellH2 is the answer of a healthy server.
func wellH2() *h2 { return newH2(true).header().data(isServing).trailer("0") }

// TestGRPCPeers: whatever else answers, or breaks off, is named and costs no more than the limits.
//
// Covers: issue4 probe grpc
func TestGRPCPeers(t *testing.T) {
	says := func(w *h2) func(net.Conn) {
		return func(c net.Conn) {
			io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
			c.Write(w.Bytes())
			if tc, ok := c.(*net.TCPConn); ok {
				tc.CloseWrite() // let it be read in full
				hold(c)
			}
		}
	}
	endless := func(piece []byte, first []byte) func(net.Conn) {
		return func(c net.Conn) {
			go io.Copy(io.Discard, c)
			for c.Write(first); ; {
				if _, err := c.Write(piece); err != nil {
					return
				}
			}
		}
	}
	for _, row := range []struct {
		name   string
		handle func(net.Conn)
		cause  report.Cause
		detail string
	}{
		{name: "well", handle: says(wellH2())},
		{name: "interim, pings, windows, unknown frames", handle: says(newH2(true).fields(false, ":status", "103").then(func(f *http2.Framer) {
			f.WritePing(false, [8]byte{1})
			f.WriteWindowUpdate(0, 100)
			f.WriteRawFrame(0x77, 0, 1, []byte("x"))
			f.WriteSettingsAck()
		}).header().data(isServing[:3]).data(isServing[3:]).trailer("0"))},
		{name: "unknown fields of the message", handle: says(newH2(true).header().data("\x00\x00\x00\x00\x07\x12\x03abc\x08\x01").trailer("0"))},
		{name: "graceful end of the connection", handle: says(newH2(true).then(func(f *http2.Framer) { f.WriteGoAway(1, http2.ErrCodeNo, nil) }).header().data(isServing).trailer("0"))},
		{name: "unnamed health", handle: says(newH2(true).header().data("\x00\x00\x00\x00\x02\x08\x63").trailer("0")), cause: report.CauseStatus, detail: "UNKNOWN"},
		{name: "trailer alone", handle: says(newH2(true).fields(true, ":status", "200", "content-type", "application/grpc", "grpc-status", "14")), cause: report.CauseStatus, detail: "UNAVAILABLE"},
		{name: "unnamed status", handle: says(newH2(true).header().trailer("99")), cause: report.CauseStatus, detail: "UNKNOWN"},
		{name: "no status", handle: says(newH2(true).header().data(isServing).fields(true, "a", "b")), cause: report.CauseProtocol, detail: "without a status"},
		{name: "HTTP status", handle: says(newH2(true).fields(true, ":status", "502")), cause: report.CauseStatus, detail: "HTTP status 502"},
		{name: "a web page", handle: says(newH2(true).fields(false, ":status", "200", "content-type", "text/html").data("<html>")), cause: report.CauseProtocol, detail: "content type"},
		{name: "no message", handle: says(newH2(true).header().trailer("0")), cause: report.CauseProtocol, detail: "not one message"},
		{name: "compressed", handle: says(newH2(true).header().data("\x01\x00\x00\x00\x02\x08\x01").trailer("0")), cause: report.CauseProtocol, detail: "compressed"},
		{name: "two messages", handle: says(newH2(true).header().data(isServing + isServing).trailer("0")), cause: report.CauseProtocol, detail: "not one message"},
		{name: "broken message", handle: says(newH2(true).header().data("\x00\x00\x00\x00\x02\x08\xff").trailer("0")), cause: report.CauseProtocol, detail: "HealthCheckResponse"},
		{name: "status as text", handle: says(newH2(true).header().data("\x00\x00\x00\x00\x03\x0a\x01\x01").trailer("0")), cause: report.CauseProtocol, detail: "HealthCheckResponse"},
		{name: "giant message", handle: says(newH2(true).header().data(strings.Repeat("x", grpcMessage+1))), cause: report.CauseProtocol, detail: "more than 1024 bytes"},
		{name: "giant frame", handle: says(newH2(true).then(func(f *http2.Framer) { f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, grpcFrame+1)) })), cause: report.CauseProtocol, detail: "HTTP/2"},
		{name: "giant header", handle: says(newH2(true).fields(false, ":status", "200", "a", strings.Repeat("x", grpcHeader))), cause: report.CauseProtocol},
		{name: "two headers", handle: says(newH2(true).header().header()), cause: report.CauseProtocol, detail: "two headers"},
		{name: "data first", handle: says(newH2(true).data(isServing)), cause: report.CauseProtocol, detail: "without a header"},
		{name: "no settings", handle: says(newH2(false).header()), cause: report.CauseProtocol, detail: "settings"},
		{name: "pushes", handle: says(newH2(true).then(func(f *http2.Framer) {
			f.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
		})), cause: report.CauseProtocol},
		{name: "refuses the call", handle: says(newH2(true).then(func(f *http2.Framer) { f.WriteRSTStream(1, http2.ErrCodeRefusedStream) })), cause: report.CauseReset, detail: "REFUSED_STREAM"},
		{name: "ends the connection", handle: says(newH2(true).then(func(f *http2.Framer) { f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("go away")) })), cause: report.CauseReset, detail: "ENHANCE_YOUR_CALM"},
		{name: "HTTP/1.1", handle: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); hold(c) }, cause: report.CauseProtocol, detail: "HTTP/2"},
		{name: "breaks off", handle: says(newH2(true).header()), cause: report.CauseReset, detail: "reading the response"},
		{name: "closes at once", handle: func(c net.Conn) {}, cause: report.CauseReset},
		{name: "resets", handle: reset, cause: report.CauseReset},
		{name: "silent", handle: hold, cause: report.CauseTimeout, detail: "waiting for the response"},
		{name: "drips", handle: func(c net.Conn) {
			for _, b := range newH2(true).then(func(f *http2.Framer) { f.WriteRawFrame(0x77, 0, 1, make([]byte, 1000)) }).Bytes() {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}, cause: report.CauseTimeout},
		{name: "endless pings", handle: endless(newH2(false).then(func(f *http2.Framer) { f.WritePing(false, [8]byte{}) }).Bytes(), newH2(true).Bytes()), cause: report.CauseProtocol, detail: "64 KiB"},
		{name: "endless header", handle: endless(newH2(false).then(func(f *http2.Framer) { f.WriteContinuation(1, false, make([]byte, 1000)) }).Bytes(),
			newH2(true).then(func(f *http2.Framer) {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}})
			}).Bytes()), cause: report.CauseProtocol},
	} {
		t.Run(row.name, func(t *testing.T) {
			tk := grpcTask(snapshot.KindGRPC, serve(t, "127.0.0.1:0", row.handle).addr, "a")
			if row.cause == report.CauseTimeout {
				wantFailure(t, runOut(t, newChecker(Config{}), tk, row.detail), row.cause, row.detail)
				return
			}
			o := run(t, newChecker(Config{}), tk)
			if row.cause != "" {
				wantFailure(t, o, row.cause, row.detail)
			} else if !o.OK {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestGRPCNeedsALPN: a TLS server that speaks HTTP/1.1 only is told apart from a gRPC server that is ill.
func TestGRPCNeedsALPN(t *testing.T) {
	ca := newAuthority(t)
	plain := ca.config(t, false, "www.example.com")
	strict := plain.Clone()
	strict.NextProtos = []string{"http/1.1"}
	for _, cfg := range []*tls.Config{plain, strict} {
		tk := grpcTask(snapshot.KindGRPCS, serve(t, "127.0.0.1:0", overTLS(cfg, hold)).addr, "")
		o := run(t, newChecker(Config{Roots: ca.roots}), tk)
		if o.OK || o.Cause != report.CauseTLS {
			t.Errorf("got %+v", o)
		}
	}
}

// TestGRPCRequest: what is sent is a request that a server of another make reads: the standard library's.
func TestGRPCRequest(t *testing.T) {
	type seen struct{ method, path, host, te, kind, body string }
	got := make(chan seen, 1)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.URL.Path, r.Host, r.Header.Get("TE"), r.Header.Get("Content-Type"), string(b)}
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.Header().Set("Trailer", "Grpc-Status")
		io.WriteString(w, isServing)
		w.Header().Set("Grpc-Status", "0")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		s.Serve(l) // ends with the test
		close(ended)
	}()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	o := run(t, newChecker(Config{}), grpcTask(snapshot.KindGRPC, l.Addr().(*net.TCPAddr).AddrPort(), "shop.v1.Cart"))
	want := seen{"POST", "/grpc.health.v1.Health/Check", "www.example.com:50051", "trailers", "application/grpc", "\x00\x00\x00\x00\x0e\x0a\x0cshop.v1.Cart"}
	if g := <-got; !o.OK || g != want {
		t.Errorf("got %+v\nsent %+v\nwant %+v", o, g, want)
	}
}

// FuzzGRPC: whatever a server says, the probe ends with one of the causes that fit, the same however the bytes are
// cut, and passes none of them on.
//
// Covers: issue4 probe grpc
func FuzzGRPC(f *testing.F) {
	f.Add(wellH2().Bytes())
	f.Add(newH2(true).header().data(isServing).trailer("5").Bytes())
	f.Add(newH2(true).then(func(f *http2.Framer) { f.WritePing(false, [8]byte{1}) }).fields(true, ":status", "200", "content-type", "application/grpc", "grpc-status", "12", "grpc-message", "what a server says").Bytes())
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ask := func(piece int) report.Observation {
			tk := grpcTask(snapshot.KindGRPC, netip.MustParseAddrPort("192.0.2.1:1"), "a")
			g, err := NewTarget(&tk)
			if err != nil {
				t.Fatal(err)
			}
			p := &probe{Checker: newChecker(Config{}), Target: g, mark: time.Now()}
			p.judge(p.healthCheck(script{text: bytes.NewReader(text), piece: piece}))
			return p.o
		}
		whole := ask(1 << 20)
		if cut := ask(1); cut.OK != whole.OK || cut.Cause != whole.Cause || cut.Status != whole.Status || cut.Detail != whole.Detail {
			t.Errorf("whole: %+v, byte by byte: %+v", whole, cut)
		}
		switch whole.Cause {
		case "":
			if !whole.OK || whole.Status != 200 {
				t.Errorf("got %+v", whole)
			}
		case report.CauseStatus:
			if whole.Status == 0 {
				t.Errorf("got %+v", whole)
			}
		case report.CauseReset, report.CauseProtocol:
		default:
			t.Errorf("got %+v", whole)
		}
		if len(text) > 20 && strings.Contains(whole.Detail, string(text)) {
			t.Errorf("the detail holds what the server said: %q", whole.Detail)
		}
	})
}

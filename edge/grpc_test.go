package edge

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// calls is a server as gRPC's interoperability tests want it (gRPC, doc/interop-test-descriptions.md).
type calls struct {
	grpc_testing.UnimplementedTestServiceServer
	left chan error // told when a call of StreamingInputCall or FullDuplexCall ends early
	well *health.Server
}

const (
	echoInitial  = "x-grpc-test-echo-initial"
	echoTrailing = "x-grpc-test-echo-trailing-bin"
)

func (c *calls) EmptyCall(context.Context, *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	return &grpc_testing.Empty{}, nil
}

func (c *calls) UnaryCall(ctx context.Context, q *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	in, _ := metadata.FromIncomingContext(ctx)
	if v := in[echoInitial]; v != nil {
		if err := grpc.SetHeader(ctx, metadata.MD{echoInitial: v}); err != nil {
			return nil, err
		}
	}
	if v := in[echoTrailing]; v != nil {
		if err := grpc.SetTrailer(ctx, metadata.MD{echoTrailing: v}); err != nil {
			return nil, err
		}
	}
	if s := q.GetResponseStatus(); s.GetCode() != 0 {
		return nil, status.Error(codes.Code(s.GetCode()), s.GetMessage())
	}
	return &grpc_testing.SimpleResponse{Payload: payload(int(q.GetResponseSize()))}, nil
}

func (c *calls) StreamingOutputCall(q *grpc_testing.StreamingOutputCallRequest, s grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	return sendAll(q, s.Send)
}

func sendAll(q *grpc_testing.StreamingOutputCallRequest, send func(*grpc_testing.StreamingOutputCallResponse) error) error {
	for _, p := range q.GetResponseParameters() {
		if err := send(&grpc_testing.StreamingOutputCallResponse{Payload: payload(int(p.GetSize()))}); err != nil {
			return err
		}
	}
	return nil
}

func (c *calls) StreamingInputCall(s grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error {
	sum := 0
	for {
		q, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&grpc_testing.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			c.left <- err
			return err
		}
		sum += len(q.GetPayload().GetBody())
	}
}

func (c *calls) FullDuplexCall(s grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	in, _ := metadata.FromIncomingContext(s.Context())
	if v := in[echoInitial]; v != nil {
		if err := s.SetHeader(metadata.MD{echoInitial: v}); err != nil {
			return err
		}
	}
	if v := in[echoTrailing]; v != nil {
		s.SetTrailer(metadata.MD{echoTrailing: v})
	}
	for {
		q, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			c.left <- err
			return err
		}
		if s := q.GetResponseStatus(); s.GetCode() != 0 {
			return status.Error(codes.Code(s.GetCode()), s.GetMessage())
		}
		if err := sendAll(q, s.Send); err != nil {
			return err
		}
	}
}

func payload(n int) *grpc_testing.Payload { return &grpc_testing.Payload{Body: make([]byte, n)} }

func sizes(n ...int) *grpc_testing.StreamingOutputCallRequest {
	q := &grpc_testing.StreamingOutputCallRequest{}
	for _, n := range n {
		q.ResponseParameters = append(q.ResponseParameters, &grpc_testing.ResponseParameters{Size: int32(n)})
	}
	return q
}

// callee runs such a server; config nil: in the clear.
func callee(t *testing.T, config *tls.Config) (*calls, string) {
	t.Helper()
	c := &calls{left: make(chan error, 100), well: health.NewServer()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var opts []grpc.ServerOption
	if config != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(config)))
	}
	s := grpc.NewServer(opts...)
	grpc_testing.RegisterTestServiceServer(s, c)
	healthpb.RegisterHealthServer(s, c.well)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c, l.Addr().String()
}

// caller is a client of gRPC with a gateway's port of TLS.
func caller(t *testing.T, addr string, roots *x509.CertPool) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{ServerName: "example.com", RootCAs: roots})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// grpcService is YAML with a route of protocol grpc.
func grpcService(origin, timeouts string) string {
	return strings.Replace(service(fmt.Sprintf(`originGroups:
  - name: web
    health: {enabled: false}
    connections: {idleTimeout: 1h}
    origins: [{name: a, protocol: http2, %s}]
routes: [{name: all, originGroup: web, protocol: grpc, timeouts: {connect: 30s, %s}}]
`, origin, timeouts)), "a.example", "example.com", 1)
}

// servedSecurely is served with TLS in front.
func servedSecurely(t *testing.T, yaml string) (*bench, *x509.CertPool) {
	t.Helper()
	b, roots := secure(t, Config{}, paths{})
	if err := NewSnapshots(b.Gateway, nil, nil).Apply(compiled(t, yaml), sessionKeys); err != nil {
		t.Fatal(err)
	}
	return b, roots
}

// interop are gRPC's interoperability tests that need no other cloud, by the names they have there.
var interop = map[string]func(context.Context, *grpc.ClientConn) error{
	"empty_unary": func(ctx context.Context, c *grpc.ClientConn) error {
		_, err := grpc_testing.NewTestServiceClient(c).EmptyCall(ctx, &grpc_testing.Empty{})
		return err
	},
	"large_unary": func(ctx context.Context, c *grpc.ClientConn) error {
		a, err := grpc_testing.NewTestServiceClient(c).UnaryCall(ctx, &grpc_testing.SimpleRequest{ResponseSize: 314159, Payload: payload(271828)})
		return wanted(err, len(a.GetPayload().GetBody()), 314159)
	},
	"client_streaming": func(ctx context.Context, c *grpc.ClientConn) error {
		s, err := grpc_testing.NewTestServiceClient(c).StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		for _, n := range []int{27182, 8, 1828, 45904} {
			if err := s.Send(&grpc_testing.StreamingInputCallRequest{Payload: payload(n)}); err != nil {
				return err
			}
		}
		a, err := s.CloseAndRecv()
		return wanted(err, int(a.GetAggregatedPayloadSize()), 74922)
	},
	"server_streaming": func(ctx context.Context, c *grpc.ClientConn) error {
		s, err := grpc_testing.NewTestServiceClient(c).StreamingOutputCall(ctx, sizes(31415, 9, 2653, 58979))
		if err != nil {
			return err
		}
		for _, n := range []int{31415, 9, 2653, 58979} {
			a, err := s.Recv()
			if err := wanted(err, len(a.GetPayload().GetBody()), n); err != nil {
				return err
			}
		}
		_, err = s.Recv()
		return ends(err)
	},
	"ping_pong": func(ctx context.Context, c *grpc.ClientConn) error {
		s, err := grpc_testing.NewTestServiceClient(c).FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		for i, n := range []int{31415, 9, 2653, 58979} {
			q := sizes(n)
			q.Payload = payload([]int{27182, 8, 1828, 45904}[i])
			if err := s.Send(q); err != nil {
				return err
			}
			a, err := s.Recv()
			if err := wanted(err, len(a.GetPayload().GetBody()), n); err != nil {
				return err
			}
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		_, err = s.Recv()
		return ends(err)
	},
	"empty_stream": func(ctx context.Context, c *grpc.ClientConn) error {
		s, err := grpc_testing.NewTestServiceClient(c).FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		_, err = s.Recv()
		return ends(err)
	},
	"cancel_after_begin": func(ctx context.Context, c *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		s, err := grpc_testing.NewTestServiceClient(c).StreamingInputCall(ctx)
		if err != nil {
			cancel()
			return err
		}
		cancel()
		_, err = s.CloseAndRecv()
		return coded(err, codes.Canceled, "context canceled")
	},
	"cancel_after_first_response": func(ctx context.Context, c *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := grpc_testing.NewTestServiceClient(c).FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		if err := s.Send(sizes(31415)); err != nil {
			return err
		}
		if _, err := s.Recv(); err != nil {
			return err
		}
		cancel()
		_, err = s.Recv()
		return coded(err, codes.Canceled, "context canceled")
	},
	"timeout_on_sleeping_server": func(ctx context.Context, c *grpc.ClientConn) error {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		s, err := grpc_testing.NewTestServiceClient(c).FullDuplexCall(ctx)
		if err == nil {
			_ = s.Send(&grpc_testing.StreamingOutputCallRequest{Payload: payload(27182)}) // the time may be over by then
			_, err = s.Recv()
		}
		if status.Code(err) != codes.DeadlineExceeded {
			return fmt.Errorf("%w, want %v", err, codes.DeadlineExceeded)
		}
		return nil
	},
	"custom_metadata": customMetadata,
	"status_code_and_message": func(ctx context.Context, c *grpc.ClientConn) error {
		said := &grpc_testing.EchoStatus{Code: 2, Message: "test status message"}
		_, err := grpc_testing.NewTestServiceClient(c).UnaryCall(ctx, &grpc_testing.SimpleRequest{ResponseStatus: said})
		if err := coded(err, codes.Unknown, said.GetMessage()); err != nil {
			return err
		}
		s, err := grpc_testing.NewTestServiceClient(c).FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		if err := s.Send(&grpc_testing.StreamingOutputCallRequest{ResponseStatus: said}); err != nil {
			return err
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		_, err = s.Recv()
		return coded(err, codes.Unknown, said.GetMessage())
	},
	"special_status_message": func(ctx context.Context, c *grpc.ClientConn) error {
		said := &grpc_testing.EchoStatus{Code: 2, Message: "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP \U0001F608\t\n"}
		_, err := grpc_testing.NewTestServiceClient(c).UnaryCall(ctx, &grpc_testing.SimpleRequest{ResponseStatus: said})
		return coded(err, codes.Unknown, said.GetMessage())
	},
	"unimplemented_method": func(ctx context.Context, c *grpc.ClientConn) error {
		_, err := grpc_testing.NewTestServiceClient(c).UnimplementedCall(ctx, &grpc_testing.Empty{})
		if status.Code(err) != codes.Unimplemented {
			return fmt.Errorf("%w, want %v", err, codes.Unimplemented)
		}
		return nil
	},
	"unimplemented_service": func(ctx context.Context, c *grpc.ClientConn) error {
		_, err := grpc_testing.NewUnimplementedServiceClient(c).UnimplementedCall(ctx, &grpc_testing.Empty{})
		if status.Code(err) != codes.Unimplemented {
			return fmt.Errorf("%w, want %v", err, codes.Unimplemented)
		}
		return nil
	},
}

func customMetadata(ctx context.Context, c *grpc.ClientConn) error {
	const bin = "\x0a\x0b\x0a\x0b\x0a\x0b"
	ctx = metadata.AppendToOutgoingContext(ctx, echoInitial, "test_initial_metadata_value", echoTrailing, bin)
	echoed := func(head, trailer metadata.MD) error {
		if a, b := head[echoInitial], trailer[echoTrailing]; len(a) != 1 || len(b) != 1 || a[0] != "test_initial_metadata_value" || b[0] != bin {
			return fmt.Errorf("echoed %q and %q", a, b)
		}
		return nil
	}
	var head, trailer metadata.MD
	a, err := grpc_testing.NewTestServiceClient(c).UnaryCall(ctx, &grpc_testing.SimpleRequest{ResponseSize: 1, Payload: payload(1)}, grpc.Header(&head), grpc.Trailer(&trailer))
	if err := errors.Join(wanted(err, len(a.GetPayload().GetBody()), 1), echoed(head, trailer)); err != nil {
		return err
	}
	s, err := grpc_testing.NewTestServiceClient(c).FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(sizes(1)); err != nil {
		return err
	}
	if head, err = s.Header(); err != nil {
		return err
	}
	if _, err := s.Recv(); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	_, err = s.Recv()
	return errors.Join(ends(err), echoed(head, s.Trailer()))
}

func wanted(err error, got, want int) error {
	if err == nil && got != want {
		err = fmt.Errorf("%d octets, want %d", got, want)
	}
	return err
}

func ends(err error) error {
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w, want the end", err)
	}
	return nil
}

func coded(err error, code codes.Code, message string) error {
	if status.Code(err) != code || status.Convert(err).Message() != message {
		return fmt.Errorf("%w, want %v %q", err, code, message)
	}
	return nil
}

// The calls of gRPC's interoperability tests pass through the gateway, from TLS in front to origins in the clear and over TLS.
//
// Covers: issue6 grpc
func TestGRPCInterop(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	cert := s.TLS.Certificates[0]
	s.Close()
	root := strings.ReplaceAll(strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))), "\n", "\\n")
	_, clear := callee(t, nil)
	_, secret := callee(t, &tls.Config{Certificates: []tls.Certificate{cert}})
	for name, origin := range map[string]string{
		"clear": fmt.Sprintf(`scheme: http, address: "%s"`, clear),
		"TLS":   fmt.Sprintf(`scheme: https, address: "%s", tls: {serverName: example.com, roots: "%s\n"}`, secret, root),
	} {
		t.Run(name, func(t *testing.T) {
			b, roots := servedSecurely(t, grpcService(origin, ""))
			c := caller(t, b.addr, roots)
			for name, call := range interop {
				t.Run(name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if err := call(ctx, c); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// A call that its client cancels is cancelled at the origin; one that has run out of its client's time is so at the origin too, and this is
// no fault of the origin.
//
// Covers: gateway fault 20, issue6 grpc
func TestGRPCCancelReachesTheOrigin(t *testing.T) {
	s, addr := callee(t, nil)
	b, roots := servedSecurely(t, grpcService(fmt.Sprintf(`scheme: http, address: "%s"`, addr), ""))
	c := grpc_testing.NewTestServiceClient(caller(t, b.addr, roots))
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(sizes(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-s.left; status.Code(err) != codes.Canceled {
			t.Errorf("the origin saw %v", err)
		}
	}
}

// asked sends a call by HTTP/1.1, as some proxies and tools do, and gives what came.
func asked(k *talk, method string, fields ...string) (httpStatus int, code, message, trailer string) {
	k.t.Helper()
	k.send(append([]string{"POST " + method + " HTTP/1.1", "Host: example.com", "Content-Type: application/grpc", "TE: trailers", "Content-Length: 5"},
		append(fields, "", "\x00\x00\x00\x00\x00")...)...)
	r, _ := k.get("POST")
	return r.StatusCode, r.Header.Get("Grpc-Status"), r.Header.Get("Grpc-Message"), r.Trailer.Get("Grpc-Status")
}

const emptyCall = "/grpc.testing.TestService/EmptyCall"

// A call by HTTP/1.1 has its status in the trailer, or in the head where there is no more; the log has it too.
//
// Covers: issue6 grpc
func TestGRPCByHTTP1(t *testing.T) {
	_, addr := callee(t, nil)
	b, _ := served(t, grpcService(fmt.Sprintf(`scheme: http, address: "%s"`, addr), ""))
	k := dial(t, b.addr)
	if s, code, _, trailer := asked(k, emptyCall); s != 200 || code != "" || trailer != "0" {
		t.Errorf("%d, status %q in the head, %q in the trailer", s, code, trailer)
	}
	if s, code, _, trailer := asked(k, "/grpc.testing.TestService/Nothing"); s != 200 || code != "12" || trailer != "" {
		t.Errorf("unknown method: %d, status %q in the head, %q in the trailer", s, code, trailer)
	}
	if line := b.log.wait(t, 1); line["grpc_status"] != 0.0 || line["reused"] != false {
		t.Errorf("log: %v", line)
	}
	if line := b.log.wait(t, 2); line["grpc_status"] != 12.0 || line["reused"] != true {
		t.Errorf("log: %v", line)
	}
}

// Origins are asked for the health that gRPC servers tell, of a service; who says that it does not serve, or does not know the
// service, gets no calls.
//
// Covers: issue6 grpc
func TestGRPCHealth(t *testing.T) {
	a, addrA := callee(t, nil)
	b, addrB := callee(t, nil)
	a.well.SetServingStatus("shop.v1.Orders", healthpb.HealthCheckResponse_SERVING)
	gw, s := served(t, strings.Replace(service(fmt.Sprintf(`originGroups:
  - name: web
    health: {kind: grpc, path: /shop.v1.Orders, interval: 1s, sampleSize: 1, successfulSamples: 1}
    latencySensitivity: 1s
    origins: [{name: a, address: "%s", scheme: http, protocol: http2}, {name: b, address: "%s", scheme: http, protocol: http2}]
routes: [{name: all, originGroup: web, protocol: grpc}]
`, addrA, addrB)), "a.example", "example.com", 1))
	k, n := dial(t, gw.addr), 0
	goes := func(to string) {
		t.Helper()
		eventually(t, "calls go to "+to+" alone", func() bool {
			kick(s)
			for range 4 {
				n++
				if _, _, _, code := asked(k, emptyCall); code != "0" || gw.log.wait(t, n)["origin"] != to {
					return false
				}
			}
			return true
		})
	}
	goes("a")
	b.well.SetServingStatus("shop.v1.Orders", healthpb.HealthCheckResponse_SERVING)
	a.well.SetServingStatus("shop.v1.Orders", healthpb.HealthCheckResponse_NOT_SERVING)
	goes("b")
}

// What the gateway answers a call by itself is a status of gRPC: of HTTP it is 200.
//
// Covers: issue6 grpc
func TestGRPCFailures(t *testing.T) {
	hung := scriptedOrigin(t, func(*framed, uint32, *http2.MetaHeadersFrame, string) {})
	dead := refusing(t)
	yaml := func(addr string) string {
		return grpcService(fmt.Sprintf(`scheme: http, address: "%s"`, addr), "responseHead: 50ms, idle: 1s") + `policies:
  access: [{action: deny, paths: [/secret]}]
  rateLimit: [{paths: [/limited], requests: 1, per: 1h, burst: 1}]
`
	}
	b, s := served(t, yaml(dead))
	k := dial(t, b.addr)
	check := func(path, code, reason string, fields ...string) {
		t.Helper()
		status, got, message, _ := asked(k, path, fields...)
		if status != 200 || got != code || !strings.HasSuffix(message, reason) {
			t.Errorf("%s: %d, status %s %q, want %s %q", path, status, got, message, code, reason)
		}
	}
	check("/x", "14", "502 Bad Gateway: connect_failed")
	check("/secret", "7", "403 Forbidden: access_denied")
	check("/limited", "14", "connect_failed")
	check("/limited", "14", "429 Too Many Requests: rate_limited")
	line := b.log.wait(t, 1)
	if line["status"] != 502.0 || line["sent"] != 200.0 || line["grpc_status"] != 14.0 {
		t.Errorf("log: %v", line)
	}
	if err := s.Apply(compiled(t, yaml(hung.addr())), sessionKeys); err != nil {
		t.Fatal(err)
	}
	check("/x", "4", "504 Gateway Timeout: deadline", "Grpc-Timeout: 30m")
	b.wants(t, `steer_edge_origin_requests_total{group="web",origin="a",result="times_out",service="shop"} 0`)
	check("/x", "4", "504 Gateway Timeout: origin_timeout")
	b.wants(t, `steer_edge_origin_requests_total{group="web",origin="a",result="times_out",service="shop"} 1`)
	k.send("GET /x HTTP/1.1", "Host: example.com", "Content-Type: application/grpc-web", "", "")
	if r, body := k.get("GET"); r.StatusCode != 504 || !bytes.Contains([]byte(body), []byte("origin_timeout")) {
		t.Errorf("what is no call: %d %q", r.StatusCode, body)
	}
}

// A conversation may be silent on one side for as long as the other is not: neither pauses nor rates of a body bound it.
//
// Covers: issue6 grpc
func TestConversationsMayPause(t *testing.T) {
	_, addr := callee(t, nil)
	b := start(t, Config{BodyTimeout: 10 * time.Millisecond, BodyGrace: time.Millisecond, BodyRate: 1 << 30}, paths{})
	s := NewSnapshots(b.Gateway, nil, nil)
	if err := s.Apply(compiled(t, grpcService(fmt.Sprintf(`scheme: http, address: "%s"`, addr), "responseHead: 10ms, idle: 1h")), sessionKeys); err != nil {
		t.Fatal(err)
	}
	k := dial(t, b.addr)
	k.send("POST /grpc.testing.TestService/StreamingInputCall HTTP/1.1", "Host: example.com", "Content-Type: application/grpc", "Transfer-Encoding: chunked", "", "")
	for range 3 {
		time.Sleep(50 * time.Millisecond) // longer than what bounds others
		k.send("5", "\x00\x00\x00\x00\x00", "")
	}
	k.send("0", "", "")
	r, body := k.get("POST")
	if r.StatusCode != 200 || r.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%d %v %q %v", r.StatusCode, r.Header, body, r.Trailer)
	}
}

// Times of gRPC are read as it writes them; what is none bounds nothing.
//
// Covers: issue6 grpc
func TestGRPCTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1S": time.Second, "250m": 250 * time.Millisecond, "99999999H": maxDeadline, "5u": 5 * time.Microsecond, "7n": 7, "2M": 2 * time.Minute,
		"0S": 1, "": 0, "S": 0, "1": 0, "1s": 0, "-1S": 0, "1.5S": 0, "123456789S": 0, " 1S": 0,
	} {
		if got := grpcTimeout([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for reason, want := range map[string]int{"origin_timeout": 4, "deadline": 4, "connect_timeout": 14} {
		if got := grpcCode(504, reason); got != want {
			t.Errorf("504 %s: %d, want %d", reason, got, want)
		}
	}
	for status, want := range map[int]int{400: 13, 401: 16, 403: 7, 404: 12, 413: 8, 418: 2, 429: 14, 500: 13, 501: 12, 502: 14, 503: 14, 504: 14} {
		if got := grpcCode(status, "x"); got != want {
			t.Errorf("%d: %d, want %d", status, got, want)
		}
	}
	if got := string(grpcMessage("a%b\n☺")); got != "a%25b%0A%E2%98%BA" {
		t.Errorf("message %q", got)
	}
}

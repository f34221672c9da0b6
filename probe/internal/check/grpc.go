package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/report"
	"steerpoint/snapshot"
)

const (
	// grpcLimit bounds all that a server may send: settings, a header, two bytes of health and a trailer are under 1 KiB.
	grpcLimit = 64 << 10
	// grpcHeader bounds header and trailer, decoded.
	grpcHeader = 16 << 10
	// grpcMessage bounds the message, that holds one number (grpc/health/v1/health.proto).
	grpcMessage = 1 << 10
	// grpcFrame is the least that both sides must take as a frame (RFC 9113 section 4.2).
	grpcFrame = 16 << 10
	// onlyStream is the one stream of a connection: clients have the odd numbers (RFC 9113 section 5.1.1).
	onlyStream = 1
)

// setGRPC reads grpc[s]://host[:port]/service.
func (g *Target) setGRPC(t *snapshot.ProbeTask) error {
	u, err := g.parse(t)
	if err != nil {
		return err
	}
	g.host, g.service = hostHeader(g.sni, u), strings.TrimPrefix(u.Path, "/")
	switch {
	case u.RawQuery != "":
		return bad("url", "%q has a query, and a health check has none", t.URL)
	case len(g.service) > maxName || strings.ContainsFunc(g.service, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }):
		return bad("url", "its path %q is not the name of a gRPC service", u.Path)
	}
	return nil
}

// healthCheck calls grpc.health.v1.Health/Check on a connection of its own, by HTTP/2 with prior knowledge. The framing
// is done here because a client library would resolve, retry and hold connections, which a probe must not.
func (p *probe) healthCheck(conn net.Conn) error {
	p.phase = "sending the request"
	if _, err := conn.Write(p.healthRequest()); err != nil {
		return err
	}
	p.phase = "waiting for the response"
	in := &meter{r: conn, left: grpcLimit}
	f := http2.NewFramer(conn, in)
	f.SetMaxReadFrameSize(grpcFrame)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil) // the size of table that holds when no setting was sent
	f.MaxHeaderListSize = grpcHeader
	call := &healthCall{probe: p, f: f}
	for !call.done {
		frame, err := f.ReadFrame()
		if err == nil {
			err = call.take(frame)
		}
		if err != nil {
			return in.explainGRPC(err)
		}
	}
	return call.judge()
}

// healthRequest is all that is sent but acknowledgements: preface, settings, header and message.
func (p *probe) healthRequest() []byte {
	var out, block writer
	out.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&out, nil)
	h := hpack.NewEncoder(&block)
	for _, field := range [...][2]string{
		{":method", "POST"},
		{":scheme", map[bool]string{false: "http", true: "https"}[p.kind == snapshot.KindGRPCS]},
		{":path", "/grpc.health.v1.Health/Check"},
		{":authority", p.host},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"grpc-accept-encoding", "identity"},
		{"user-agent", p.cfg.UserAgent},
	} {
		h.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // as the next ones: a writer never fails
	}
	f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: grpcHeader})
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: onlyStream, BlockFragment: block, EndHeaders: true})
	f.WriteData(onlyStream, true, grpcMessageOf(p.service))
	return out
}

type writer []byte

// Write appends.
func (w *writer) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}

// WriteString appends.
func (w *writer) WriteString(s string) { *w = append(*w, s...) }

// grpcMessageOf is a HealthCheckRequest behind its prefix: not compressed, four bytes of length. Its field 1 is the
// service; an empty one is left out (proto3).
func grpcMessageOf(service string) []byte {
	var message []byte
	if service != "" {
		message = append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service))), service...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// healthCall is the state of the one call of a connection.
type healthCall struct {
	*probe
	f       *http2.Framer
	settled bool // the server's settings came
	header  bool
	done    bool
	data    []byte
	status  string // grpc-status
}

func notHTTP2(format string, args ...any) error {
	return failf(report.CauseProtocol, "the response is not gRPC: "+format, args...)
}

// take takes one frame. Frames of kinds that do not matter here are passed over (RFC 9113 section 5.5); the meter bounds them.
func (c *healthCall) take(frame http2.Frame) error {
	settings, is := frame.(*http2.SettingsFrame)
	if !c.settled && (!is || settings.IsAck()) {
		return notHTTP2("it does not begin with settings")
	}
	switch fr := frame.(type) {
	case *http2.SettingsFrame:
		c.settled = true
		if !fr.IsAck() {
			return c.f.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !fr.IsAck() {
			return c.f.WritePing(true, fr.Data)
		}
	case *http2.GoAwayFrame:
		if fr.ErrCode != http2.ErrCodeNo || fr.LastStreamID < onlyStream {
			return failf(report.CauseReset, "the server ended the connection while %s (%s)", c.phase, fr.ErrCode)
		}
	case *http2.RSTStreamFrame:
		if fr.StreamID == onlyStream {
			return failf(report.CauseReset, "the server ended the call while %s (%s)", c.phase, fr.ErrCode)
		}
	case *http2.MetaHeadersFrame:
		return c.fields(fr)
	case *http2.DataFrame:
		return c.message(fr)
	case *http2.PushPromiseFrame:
		return notHTTP2("it pushes, which was refused")
	}
	return nil
}

// fields takes the header, or the trailer, which a failed call may have alone.
func (c *healthCall) fields(fr *http2.MetaHeadersFrame) error {
	switch {
	case fr.StreamID != onlyStream:
		return notHTTP2("it is on another stream")
	case fr.Truncated:
		return notHTTP2("its header has more than %d KiB", grpcHeader>>10)
	case c.header && !fr.StreamEnded():
		return notHTTP2("it has two headers")
	}
	if !c.header {
		if err := c.begins(fr); err != nil {
			return err
		}
	}
	for _, f := range fr.RegularFields() {
		if f.Name == "grpc-status" {
			c.status = f.Value
		}
	}
	c.done = fr.StreamEnded()
	return nil
}

// begins judges the header.
func (c *healthCall) begins(fr *http2.MetaHeadersFrame) error {
	var code int
	if _, err := fmt.Sscanf(fr.PseudoValue("status"), "%3d", &code); err != nil || code < 100 {
		return notHTTP2("it has no status")
	}
	if code/100 == 1 && !fr.StreamEnded() {
		return nil // an interim response
	}
	c.header = true
	c.o.Phases.FirstByte = c.lap()
	c.o.Latency += c.o.Phases.FirstByte
	c.phase = "reading the response"
	c.o.Status = code
	if code != 200 {
		return failf(report.CauseStatus, "HTTP status %d instead of a gRPC answer", code)
	}
	for _, f := range fr.RegularFields() {
		if f.Name == "content-type" && strings.HasPrefix(f.Value, "application/grpc") {
			return nil
		}
	}
	return notHTTP2("its content type is another")
}

// message takes a part of the message.
func (c *healthCall) message(fr *http2.DataFrame) error {
	switch {
	case fr.StreamID != onlyStream || !c.header:
		return notHTTP2("data comes without a header")
	case len(c.data)+len(fr.Data()) > grpcMessage:
		return notHTTP2("its message has more than %d bytes", grpcMessage)
	}
	c.data = append(c.data, fr.Data()...)
	c.done = fr.StreamEnded()
	return nil
}

const (
	// grpcCodes are the codes of gRPC, by number (google.golang.org/grpc/codes).
	grpcCodes = "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED " +
		"RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
	// servingStatuses are the values of HealthCheckResponse.ServingStatus, by number.
	servingStatuses = "UNKNOWN SERVING NOT_SERVING SERVICE_UNKNOWN"
)

func (c *healthCall) judge() error {
	switch code, err := grpcCode(c.status); {
	case err != nil:
		return notHTTP2("it ends without a status")
	case code == "NOT_FOUND":
		return failf(report.CauseStatus, "gRPC status NOT_FOUND: the server does not know the service")
	case code == "UNIMPLEMENTED":
		return failf(report.CauseStatus, "gRPC status UNIMPLEMENTED: the server has no grpc.health.v1.Health")
	case code != "OK":
		return failf(report.CauseStatus, "gRPC status %s", code)
	}
	status, err := servingStatus(c.data)
	switch {
	case err != nil:
		return notHTTP2("%v", err)
	case status != "SERVING":
		return failf(report.CauseStatus, "the health is %s, not SERVING", status)
	}
	return nil
}

func grpcCode(text string) (string, error) {
	for n, name := range strings.Fields(grpcCodes) {
		if text == fmt.Sprint(n) {
			return name, nil
		}
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return "", errors.New("no number")
	}
	return "UNKNOWN", nil // as the specification has it for numbers it does not name
}

// servingStatus reads one HealthCheckResponse: its field 1 is the status, and 0 when it is absent (proto3). Fields of
// other numbers are passed over.
func servingStatus(data []byte) (string, error) {
	if len(data) < 5 || int(binary.BigEndian.Uint32(data[1:])) != len(data)-5 {
		return "", errors.New("its message is not one message")
	}
	if data[0] != 0 {
		return "", errors.New("its message is compressed, which was not offered")
	}
	var status uint64
	for data = data[5:]; len(data) > 0; {
		number, value, rest, err := protoField(data)
		if err != nil {
			return "", err
		}
		if data = rest; number == 1 {
			status = value
		}
	}
	names := strings.Fields(servingStatuses)
	if status >= uint64(len(names)) {
		return names[0], nil
	}
	return names[status], nil
}

var errProto = errors.New("its message is not a HealthCheckResponse")

// protoField reads one field of a protocol buffer: a number, or something of a length, which has the value 0.
func protoField(data []byte) (number, value uint64, rest []byte, err error) {
	key, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, 0, nil, errProto
	}
	data = data[n:]
	size := uint64(0)
	switch key & 7 {
	case 0:
		if value, n = binary.Uvarint(data); n <= 0 {
			return 0, 0, nil, errProto
		}
		return key >> 3, value, data[n:], nil
	case 1:
		size = 8
	case 5:
		size = 4
	case 2:
		if size, n = binary.Uvarint(data); n <= 0 {
			return 0, 0, nil, errProto
		}
		data = data[n:]
	default:
		return 0, 0, nil, errProto
	}
	if size > uint64(len(data)) || key>>3 == 1 {
		return 0, 0, nil, errProto
	}
	return key >> 3, 0, data[size:], nil
}

// explainGRPC tells a connection that failed from bytes that are no HTTP/2.
func (m *meter) explainGRPC(err error) error {
	var f *failure
	var connection http2.ConnectionError
	var stream http2.StreamError
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(m.err, errTooMuch):
		return notHTTP2("it does not end within %d KiB", grpcLimit>>10)
	case m.err != nil && !errors.Is(m.err, io.EOF):
		return m.err
	case errors.Is(err, http2.ErrFrameTooLarge), errors.As(err, &connection), errors.As(err, &stream):
		return notHTTP2("what answers does not speak HTTP/2")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

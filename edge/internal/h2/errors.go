package h2

import (
	"errors"
	"fmt"
)

// Code is why a stream or a connection ends (RFC 9113 section 7).
type Code uint32

// The codes.
const (
	NoError Code = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
	codes
)

// String is the code as RFC 9113 writes it, in lower case.
func (c Code) String() string {
	names := [codes]string{
		"no_error", "protocol_error", "internal_error", "flow_control_error", "settings_timeout", "stream_closed", "frame_size_error",
		"refused_stream", "cancel", "compression_error", "connect_error", "enhance_your_calm", "inadequate_security", "http_1_1_required",
	}
	if c < codes {
		return names[c]
	}
	return "unknown"
}

// ConnError ends a connection.
type ConnError struct {
	Code Code
	// Reason is why, in one word: for the peer, logs and metrics.
	Reason string
}

// Error gives code and reason.
func (e *ConnError) Error() string { return fmt.Sprintf("HTTP/2 connection: %s: %s", e.Code, e.Reason) }

// streamError ends a stream.
type streamError struct {
	id   uint32
	code Code
}

// Error names the stream.
func (e *streamError) Error() string { return fmt.Sprintf("HTTP/2 stream %d: %s", e.id, e.code) }

func broken(code Code, reason string) error { return &ConnError{code, reason} }

// errGone is a stream that the peer has reset, or whose connection has ended.
var errGone = errors.New("HTTP/2 stream is gone")

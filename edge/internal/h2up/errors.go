package h2up

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/h1"
)

var (
	// ErrUnprocessed is a request that the origin has not begun on: it was not sent, or was refused (RFC 9113 section 8.7). It can be
	// sent again whatever its method.
	ErrUnprocessed = errors.New("the origin has not begun on the request")
	// ErrLost is a connection that ended under its streams.
	ErrLost = errors.New("HTTP/2 connection was lost")
	// ErrNotHTTP2 is an origin that does not speak HTTP/2.
	ErrNotHTTP2 = errors.New("origin does not speak HTTP/2")
	// ErrClosed is a connection that Close has closed.
	ErrClosed = errors.New("HTTP/2 connection is closed")

	errNoAnswer = errors.New("a PING was not answered")
)

// errFlood is too many frames that carry nothing.
const errFlood = http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)

// Malformed is a response that is none (RFC 9113 section 8.1.1).
var Malformed = &h1.Error{Status: 502, Code: "h2_malformed", Text: "the response is not as HTTP/2 has it"}

// ResetError is a stream that the origin has reset.
type ResetError struct{ Code http2.ErrCode }

// Error names the code.
func (e *ResetError) Error() string { return "origin reset the stream: " + e.Code.String() }

// lost is ErrLost with its cause. The cause is not unwrapped: io.EOF of a connection is no end of a body.
type lost struct{ cause error }

// Error gives the cause.
func (e *lost) Error() string { return fmt.Sprintf("%v: %v", ErrLost, e.cause) }

// Is says what it is.
func (e *lost) Is(target error) bool { return target == ErrLost }

// notHTTP2 is ErrNotHTTP2 with its cause.
type notHTTP2 struct{ cause error }

// Error gives the cause.
func (e *notHTTP2) Error() string { return fmt.Sprintf("%v: %v", ErrNotHTTP2, e.cause) }

// Is says what it is.
func (e *notHTTP2) Is(target error) bool { return target == ErrNotHTTP2 }

// unprocessed is ErrUnprocessed with its cause.
type unprocessed struct{ cause error }

// Error gives the cause.
func (e *unprocessed) Error() string { return fmt.Sprintf("%v: %v", ErrUnprocessed, e.cause) }

// Is says what it is.
func (e *unprocessed) Is(target error) bool { return target == ErrUnprocessed }

// Unwrap gives the cause.
func (e *unprocessed) Unwrap() error { return e.cause }

// lastWord is the code that a peer is told before the connection ends; told is false where it would not hear it.
func lastWord(err error) (code http2.ErrCode, told bool) {
	broken := http2.ConnectionError(0)
	switch {
	case errors.As(err, &broken):
		return http2.ErrCode(broken), true
	case errors.Is(err, http2.ErrFrameTooLarge):
		return http2.ErrCodeFrameSize, true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errNoAnswer):
		return http2.ErrCodeNo, false
	}
	return http2.ErrCodeNo, false
}

package api

import (
	"errors"
	"fmt"
	"strings"
)

// Codes of problems. They are stable: programs branch on them and `steer help CODE` explains each.
// Codes of resource validation (SPEC_...) are spec's own and appear in ProblemItem.Code.
const (
	CodeBadRequest         = "BAD_REQUEST"         // 400, 422: malformed request
	CodeUnauthorized       = "UNAUTHORIZED"        // 401: no token, or a wrong one
	CodeForbiddenHost      = "FORBIDDEN_HOST"      // 403: the Host header is not one of this server's names
	CodeForbiddenRole      = "FORBIDDEN_ROLE"      // 403: the token's role may not do this
	CodeForbiddenService   = "FORBIDDEN_SERVICE"   // 403: the token is for other services
	CodeTokenExpired       = "API_TOKEN_EXPIRED"   // 401: the token's time is over
	CodeNotFound           = "NOT_FOUND"           // 404: no such resource, service, rule, edge or endpoint
	CodeMethodNotAllowed   = "METHOD_NOT_ALLOWED"  // 405
	CodeNotAcceptable      = "NOT_ACCEPTABLE"      // 406: Accept allows no type the answer has
	CodeConflict           = "CONFLICT"            // 409: somebody wrote in between
	CodePreconditionFailed = "PRECONDITION_FAILED" // 412: If-Match names an old revision
	CodePreconditionNeeded = "PRECONDITION_NEEDED" // 428: a write of an existing resource needs If-Match
	CodeTooLarge           = "TOO_LARGE"           // 413: body above the limit
	CodeMediaType          = "MEDIA_TYPE"          // 415: the body is of a type the operation does not read
	CodeInvalid            = "INVALID"             // 422: resources that do not pass validation; errors lists every mistake
	CodeNotSupported       = "NOT_SUPPORTED"       // 422: well formed, but this version cannot do it
	CodeTooMany            = "TOO_MANY_REQUESTS"   // 429: over the rate limit; Retry-After says when
	CodeInternal           = "INTERNAL"            // 500: our mistake
	CodeStoreUnavailable   = "STORE_UNAVAILABLE"   // 503: the store does not take writes; answers go on
	CodeStoreFull          = "STORE_FULL"          // 507: the store's quota is reached
	CodeNotReady           = "NOT_READY"           // 503: still starting
	CodeNoHistory          = "HISTORY_UNAVAILABLE" // 503: history cannot be read now; everything else goes on
	CodeSealKey            = "SEAL_KEY"            // 503: the sealing key is not at hand; everything but Secrets goes on
	CodeZoneState          = "ZONE_KEYS_STATE"     // 409: the keys of the zone are not at the stage that it takes
	CodeNoSeries           = "SERIES_UNAVAILABLE"  // 503: series cannot be read now; everything else goes on
	CodeProberUnavailable  = "PROBER_UNAVAILABLE"  // 503: no probe point to ask
	CodeNoGateway          = "GATEWAY_UNAVAILABLE" // 503: no gateway to ask
	CodeBeforeTape         = "BEFORE_TAPE"         // 404: nothing was recorded at that time
	CodeWatchGap           = "WATCH_GAP"           // event: the ring no longer holds what Last-Event-ID asks for
)

// Problem is every error the API gives: RFC 9457 with a code.
type Problem struct {
	Type   string        `json:"type,omitempty"` // "about:blank", or a page about the code
	Title  string        `json:"title"`          // what, in a few words
	Status int           `json:"status"`
	Detail string        `json:"detail,omitempty"` // why, and what to do
	Code   string        `json:"code"`
	Errors []ProblemItem `json:"errors,omitempty"` // every mistake found, not only the first
}

// ProblemItem is one mistake and where it is.
type ProblemItem struct {
	Code     string `json:"code,omitempty"`
	Message  string `json:"message"`
	Location string `json:"location,omitempty"` // file:line, or a path such as body.sources[0].file
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Field    string `json:"field,omitempty"` // path inside the document, such as rules[0].mode
	Value    string `json:"value,omitempty"`
	Allowed  string `json:"allowed,omitempty"`
}

// Error gives title and detail in one line, and one line for each item.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for _, it := range p.Errors {
		b.WriteString("\n  ")
		if it.Location != "" {
			b.WriteString(it.Location + ": ")
		}
		b.WriteString(it.Message)
	}
	return b.String()
}

// ErrUnreachable is wrapped by client errors when no server answered (refused, timeout, no such host).
var ErrUnreachable = errors.New("no server reached")

// ErrNotModified says that a resource is still what the caller has, by the ETag that was sent.
var ErrNotModified = errors.New("not modified")

// CodeOf gives the code of an error of the client, or "" if it is none of the API's.
func CodeOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// unreachable wraps a transport error with the address that was tried.
func unreachable(url string, err error) error {
	return fmt.Errorf("%w at %s: %w", ErrUnreachable, url, err)
}

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of RFC 9457.
func (*Problem) ContentType(string) string { return "application/problem+json" }

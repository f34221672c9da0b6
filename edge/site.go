package edge

import (
	"crypto/tls"
	"net/netip"
	"time"
)

// Site is what one configuration says, compiled. It is not changed after Swap; its routes and origins are in no other site.
type Site struct {
	Director Director
	// Routes and Origins are all that the Director can name in a Plan.
	Routes  []*Route
	Origins []*Origin
}

// Director says what is to be done with requests. It is called from many goroutines and keeps nothing that it is given.
type Director interface {
	// Direct fills in a plan, which is empty but for its Memory.
	Direct(a *Asked, p *Plan)
}

// Fields are the fields of a head.
type Fields interface {
	// Field gives the value of the n-th field of a name, 0 the first, and whether there is one. The name is lower-case.
	Field(name string, n int) (value []byte, ok bool)
}

// Asked is a request as a Director sees it. All of it is valid until the call returns.
type Asked struct {
	Method  []byte // as it was sent
	Scheme  string // http | https
	Version string // 1.0 | 1.1 | 2
	Host    []byte // lower-case, without port and final dot; empty: HTTP/1.0 without Host
	Path    []byte // as it was sent; it begins with /, or is *
	// Query is what follows the first ?. HasQuery tells an empty one from none.
	Query    []byte
	HasQuery bool
	Header   Fields
	HostPort uint16 // the port that stands behind the host; 0: none
	// Socket is the other end of the connection; Client is who asked, as trusted proxies say, or else Socket.
	Socket, Client netip.AddrPort
	Port           uint16 // of ours that was connected to
	TLS            string // TLSv1.2 | TLSv1.3; "": none
	BodySize       int64  // -1: not announced
	WebSocket      bool
	// Body is the part of the body that came with the head: all of a small one, often nothing of a large one.
	Body []byte
	Now  time.Time
}

// Plan is what is to be done with a request: an answer, when Status is not 0, or a route and a group of origins.
type Plan struct {
	// Status answers the request without an origin; Reason says why in one word, for the log and the client.
	Status   int
	Reason   string
	Location []byte        // of a redirect
	Retry    time.Duration // Retry-After, in whole seconds; 0: none
	Body     []byte        // nil: status and reason
	// ContentType is that of Body. Empty: there is none.
	ContentType string

	Route *Route
	Group Group
	// Tries is how many origins the request is given to at most, as long as nobody can tell that it was sent twice. 0: 3.
	Tries int
	// IdempotencyField names a field, in lower case, with which a request may be sent again whatever its method. Empty: none.
	IdempotencyField string
	// BufferBody is how long a body may be, in octets, that is awaited whole before a request that could be sent again goes
	// on. 0: only what comes with the head is kept.
	BufferBody int64
	// Target is what is asked of the origin, path and query; nil: as it was asked.
	Target []byte
	// Request and Response change fields of the request that goes on and of the response that comes back, one after the
	// other. Those about a connection, or about the length of a message, are not changed.
	Request, Response []HeaderOp
	// Memory is the Director's own. What it puts there it finds again in the next plan of the same connection.
	Memory any
}

// HeaderOp changes a field.
type HeaderOp struct {
	Name string // as it is to be sent
	// Value is the new value; of a deletion it is nothing.
	Value  []byte
	Action HeaderAction
}

// HeaderAction is what a HeaderOp does.
type HeaderAction uint8

// What can be done with a field.
const (
	SetHeader    HeaderAction = iota // in the place of all of that name
	AppendHeader                     // a further field
	DeleteHeader
)

// Route is a route as the gateway sees it. Service and Name together say which one it is, across configurations.
type Route struct {
	Service, Name string
	// ResponseTimeout is how long an origin may take to begin its response. 0: 30s.
	ResponseTimeout time.Duration
	// IdleTimeout is how long it may pause in one. 0: 60s.
	IdleTimeout time.Duration
	// TotalTimeout bounds a request with its response. 0: no bound.
	TotalTimeout time.Duration
	// TunnelTimeout is how long both sides of a WebSocket may be silent. 0: 5m.
	TunnelTimeout time.Duration
	// MaxBody bounds a request body in octets. 0: no bound.
	MaxBody int64
	// ConnectTimeout bounds a connect with its TLS handshake. 0: 3s.
	ConnectTimeout time.Duration
	// TunnelLife is how long a WebSocket may last. 0: no bound.
	TunnelLife time.Duration
	// Drain is how long requests of the route may go on after it was removed. 0: 30s.
	Drain time.Duration
	// GRPC says that requests are calls of gRPC: both bodies are streams, which may pause for IdleTimeout together, and grpc-timeout
	// bounds a request as TotalTimeout does.
	GRPC bool

	run *routeRun // set by Swap
}

// Origin is an origin as the gateway sees it.
type Origin struct {
	Service, Group, Name string
	// Index is its place in its group, 0 to 63.
	Index int
	// Address is where it is: an address or a name, with a port.
	Address string
	// TLS, unless nil, is how to speak TLS to it; ServerName must be set.
	TLS *tls.Config
	// HostHeader is the Host that it is sent. Empty: that of the request.
	HostHeader string
	// MaxIdle is how many idle connections are kept, IdleTimeout how long. 0: 64, 4s.
	MaxIdle     int
	IdleTimeout time.Duration
	// HTTP2 is an origin that is asked by HTTP/2, over TLS by ALPN and without it with prior knowledge. WebSockets go to it by
	// HTTP/1.1. MaxConns bounds its connections; 0: no bound.
	HTTP2    bool
	MaxConns int
	// MaxActive bounds requests at once, MaxWaiting those that wait beyond, WaitTimeout how long one waits. 0: no bound;
	// none; as long as the request may take.
	MaxActive, MaxWaiting int
	WaitTimeout           time.Duration

	run *originRun // set by Swap
}

// Group chooses among the origins of a group, and is told how they did. It is called from many goroutines.
type Group interface {
	// Choose gives the origin for a request; tried has a bit for the Index of each that was tried for it. nil: there is none,
	// and why says why in one word. now is on a clock that never goes back.
	Choose(a *Asked, p *Plan, now time.Duration, tried uint64) (o *Origin, why string)
	// Report tells how a request to an origin went.
	Report(o *Origin, now time.Duration, r Result)
	// Fields appends fields to the response of an origin, as lines, such as a cookie.
	Fields(dst []byte, a *Answered, p *Plan, o *Origin) []byte
}

// Answered is a response as a Group sees it.
type Answered struct {
	Status int
	Header Fields // of the response
	Asked  Fields // of the request
	Secure bool   // the client speaks TLS
}

// Result is how a request to an origin went.
type Result uint8

// The results of a request.
const (
	Answers  Result = iota // a response below 500
	Fails                  // a response of 500 or above
	Refuses                // no connection
	Breaks                 // no response, or half of one
	TimesOut               // no response in time
)

// unready is the director before the first Swap.
type unready struct{}

// Direct answers 503.
func (unready) Direct(_ *Asked, p *Plan) { p.Status, p.Reason = 503, "not_ready" }

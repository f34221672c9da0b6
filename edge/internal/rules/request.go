package rules

import (
	"net/netip"
	"time"
)

// Fields is a head's fields, as the codec keeps them.
type Fields interface {
	// Field gives the value of the n-th field of a name, 0 the first, and whether there is one. The name is lower-case;
	// it is compared without regard to case. The value is valid as long as the head is.
	Field(name string, n int) (value []byte, ok bool)
}

// Request is what rules, policies and the router see of a request. It is filled in by who read the request, and read
// only; nothing here is kept after a call returns. The zero value is a request of which nothing is known.
type Request struct {
	Method  []byte // as it was sent, such as GET
	Scheme  string // http | https
	Version string // 1.0 | 1.1 | 2 | 3
	// Host is the name of the request's authority: lower case, without port and without a trailing dot.
	Host []byte
	// Port is the one that stands behind the host; 0: none does.
	Port uint16
	// Path is the path as it is matched and forwarded: it starts with /, and what route.Clean changes is changed.
	Path []byte
	// Query is what follows the first ?, without it. HasQuery tells an empty one from none.
	Query    []byte
	HasQuery bool
	Header   Fields // nil: none

	// Socket is the other end of the connection; Client is who asked, as trusted proxies say, or else Socket.
	Socket, Client netip.AddrPort
	ServerPort     uint16
	TLS            string // TLSv1.2 | TLSv1.3; "": none
	Country        string // of Client, ISO 3166-1 in upper case; "": not known
	// BodySize is the length of the body in bytes as it was announced, 0 without one; -1: not announced.
	BodySize int64
	// Body is the start of the body, at most BodyWindow bytes; only filled in where the program's Body is true.
	Body []byte
	// Now is the wall clock, for conditions on the time of day.
	Now time.Time
}

// BodyWindow is how much of a body conditions see, in bytes.
const BodyWindow = 64 << 10

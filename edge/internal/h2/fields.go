package h2

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"

	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/h1"
)

// block is a header block that is being read. It is written as a head of HTTP/1.1 as its fields come.
type block struct {
	pool  *h1.Pool
	limit int    // of the list (RFC 9113 section 6.5.2)
	stop  func() // has the decoder give no more fields of this block

	trailer bool
	buf     *h1.Buffer
	n       int
	list    int
	big     bool // above the limit: the rest was not looked at
	bad     bool // malformed (RFC 9113 section 8.1.1)

	begun                                     bool // the pseudo fields are over
	method, scheme, authority, path, protocol string
	has                                       [5]bool // which of them there are
	host                                      []byte
	cookies                                   []byte
	length                                    int64 // Content-Length; -1: none that is a number
	key                                       string
}

// Places of pseudo fields in block.has.
const (
	hasMethod = iota
	hasScheme
	hasAuthority
	hasPath
	hasProtocol
)

// perField is what a field counts beside its octets.
const perField = 32

func (b *block) begin(trailer bool) {
	*b = block{pool: b.pool, limit: b.limit, stop: b.stop, trailer: trailer, length: -1, cookies: b.cookies[:0], host: b.host[:0], buf: b.pool.Lend(h1.Small), begun: trailer}
}

// drop gives back what take was not called for.
func (b *block) drop() {
	b.pool.Return(b.buf)
	b.buf = nil
}

// take gives the head.
func (b *block) take() (*h1.Buffer, int) {
	buf := b.buf
	b.buf = nil
	return buf, b.n
}

// write appends to the head. It can always: the limit of the list is below the largest buffer.
func (b *block) write(s string) {
	for len(b.buf.B)-b.n < len(s) {
		larger, ok := b.pool.Grow(b.buf, b.n)
		if !ok {
			b.big = true
			return
		}
		b.buf = larger
	}
	b.n += copy(b.buf.B[b.n:], s)
}

// field takes a field. It is the decoder's.
func (b *block) field(f hpack.HeaderField) {
	if b.list += len(f.Name) + len(f.Value) + perField; b.list > b.limit {
		b.big = true
		b.stop()
		return
	}
	switch {
	case b.bad:
	case len(f.Name) == 0:
		b.bad = true
	case f.Name[0] == ':':
		b.bad = b.begun || !b.pseudo(f.Name, f.Value)
	default:
		b.start()
		if !b.bad {
			b.bad = !b.regular(f.Name, f.Value)
		}
	}
}

// pseudo takes a pseudo field: one of the known, once, without octets that could end it early.
func (b *block) pseudo(name, value string) bool {
	at, to := 0, &b.method
	switch name {
	case ":method":
	case ":scheme":
		at, to = hasScheme, &b.scheme
	case ":authority":
		at, to = hasAuthority, &b.authority
	case ":path":
		at, to = hasPath, &b.path
	case ":protocol":
		at, to = hasProtocol, &b.protocol
	default:
		return false
	}
	for i := range len(value) {
		if value[i] <= ' ' || value[i] == 0x7f {
			return false
		}
	}
	if b.has[at] {
		return false
	}
	b.has[at], *to = true, value
	return true
}

// start writes the request line, once all pseudo fields are there.
func (b *block) start() {
	if b.begun {
		return
	}
	b.begun = true
	if !b.valid() {
		b.bad = true
		return
	}
	method, target := b.method, b.path
	if b.webSocket() {
		method = "GET"
	} else if method == "CONNECT" {
		target = b.authority
	}
	b.write(method)
	b.write(" ")
	b.write(target)
	b.write(" HTTP/1.1\r\n")
	if b.has[hasAuthority] {
		b.line("host", b.authority)
	}
	if b.webSocket() {
		var nonce [16]byte
		_, _ = rand.Read(nonce[:]) // it never fails
		b.key = base64.StdEncoding.EncodeToString(nonce[:])
		b.write("connection: upgrade\r\nupgrade: websocket\r\n")
		b.line("sec-websocket-key", b.key)
	}
}

// webSocket reports whether the request asks to go on as WebSocket (RFC 8441 section 5).
func (b *block) webSocket() bool {
	return b.method == "CONNECT" && b.has[hasProtocol] && b.protocol == "websocket"
}

// valid reports whether the pseudo fields are those of a request (RFC 9113 section 8.3.1, RFC 8441 section 4). What they
// hold is for the judge of HTTP/1.1.
func (b *block) valid() bool {
	if !b.has[hasMethod] || !h1.Token([]byte(b.method)) || b.has[hasAuthority] && b.authority == "" {
		return false
	}
	if b.method == "CONNECT" && !b.has[hasProtocol] {
		return b.has[hasAuthority] && !b.has[hasScheme] && !b.has[hasPath]
	}
	if b.has[hasProtocol] && (b.method != "CONNECT" || !b.has[hasAuthority]) {
		return false
	}
	if !b.has[hasScheme] || b.scheme != "http" && b.scheme != "https" || !b.has[hasPath] || b.path == "" {
		return false
	}
	return b.path[0] == '/' || b.path == "*" && b.method == "OPTIONS"
}

func (b *block) line(name, value string) {
	b.write(name)
	b.write(": ")
	b.write(value)
	b.write("\r\n")
}

// regular takes a field that is none of the pseudo ones (RFC 9113 section 8.2).
func (b *block) regular(name, value string) bool {
	from := b.n
	b.write(name)
	if b.big {
		return true
	}
	written := b.buf.B[from:b.n]
	for _, o := range written {
		if 'A' <= o && o <= 'Z' {
			return false
		}
	}
	if !h1.Token(written) || connectionField(written) {
		return false
	}
	b.write(": ")
	at := b.n
	b.write(value)
	if b.big {
		return true
	}
	v := b.buf.B[at:b.n]
	if !h1.Clean(v) || len(v) > 0 && (space(v[0]) || space(v[len(v)-1])) {
		return false
	}
	b.write("\r\n")
	return b.known(name, v, from)
}

func space(o byte) bool { return o == ' ' || o == '\t' }

// known looks at the fields that mean something to HTTP/2 itself. from is where the line begins: some are not kept there.
func (b *block) known(name string, value []byte, from int) bool {
	switch name {
	case "te":
		return bytes.EqualFold(value, []byte("trailers"))
	case "host":
		b.host = append(b.host[:0], value...)
		if b.has[hasAuthority] {
			b.n = from
			return bytes.EqualFold(value, []byte(b.authority))
		}
	case "cookie": // one field again (RFC 9113 section 8.2.3)
		if !b.trailer {
			if len(b.cookies) > 0 {
				b.cookies = append(b.cookies, "; "...)
			}
			b.cookies = append(b.cookies, value...)
			b.n = from
		}
	case "content-length":
		if n, ok := h1.Decimal(value); ok && b.length < 0 {
			b.length = n
		}
	case "sec-websocket-key":
		if b.webSocket() {
			b.n = from // ours stands in its place
		}
	}
	return true
}

// end ends the head.
func (b *block) end() {
	if !b.bad {
		b.start()
	}
	if b.bad || b.big {
		return
	}
	if len(b.cookies) > 0 {
		b.line("cookie", string(b.cookies))
	}
	b.write("\r\n")
}

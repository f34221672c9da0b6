package h1

import "bytes"

// Request is the head of a request. Its zero value is ready for Reader.Request, again and again.
type Request struct {
	Head
	// Minor is the minor version: 0 or 1.
	Minor int
	// Length is how the body ends: None, Sized or Chunked.
	Length Length
	// KeepAlive says that the client wants another request on the connection.
	KeepAlive bool
	// Continue says that the client waits for 100 Continue before it sends the body (RFC 9110 section 10.1.1).
	Continue bool
	// WebSocket says that the client asks to go on as WebSocket. No other upgrade is known; one asked for is passed over.
	WebSocket bool
	// Absolute says that the target was a whole URL, as for a proxy; Secure, that it was one of https.
	Absolute, Secure bool

	method, target, path, query span
	host, port                  span
	hasQuery                    bool
	scan                        scanner
}

// Method is the method, as it was sent.
func (r *Request) Method() []byte { return r.text(r.method) }

// Target is the whole target, as it was sent.
func (r *Request) Target() []byte { return r.text(r.target) }

// Path is the path of the target, as it was sent: it begins with /, or is * for OPTIONS. Of a URL without a path it is
// empty, which means / (RFC 9110 section 4.2.3).
func (r *Request) Path() []byte { return r.text(r.path) }

// Query is what follows the first ? of the target; ok tells an empty query from none.
func (r *Request) Query() (query []byte, ok bool) { return r.text(r.query), r.hasQuery }

// Hostname is the host of the request, as it was sent, without its port; an IPv6 address without its brackets. It is empty
// only in HTTP/1.0.
func (r *Request) Hostname() []byte { return r.text(r.host) }

// Port is the port in Host, empty without one.
func (r *Request) Port() []byte { return r.text(r.port) }

const (
	// maxMethod is longer than any method there is (the IANA registry has UPDATEREDIRECTREF with 17).
	maxMethod = 24

	preface = "PRI * HTTP/2.0" // RFC 9113 section 3.4
)

func (r *Request) reset() {
	fields, named := r.fields, r.named
	*r = Request{}
	r.fields, r.named = fields, named
	r.Head.reset()
}

// parse goes on with the head as far as it is there. raw begins at its first octet, each time.
func (r *Request) parse(raw []byte, lim *Limits) (done bool, err error) {
	if r.scan.lines == 0 {
		if len(raw) > 0 && octets[raw[0]]&tokenOctet == 0 {
			return false, notHTTP(raw[0])
		}
		line, ok, err := r.scan.next(raw, lim)
		if err != nil || !ok {
			return false, err
		}
		if err := r.startLine(raw, line, lim); err != nil {
			return false, err
		}
	}
	if done, err := r.readFields(raw, &r.scan, lim); !done || err != nil {
		return done, err
	}
	return true, r.judge()
}

// notHTTP is the fault of a head whose first octet cannot begin a method, such as that of a TLS handshake.
func notHTTP(first byte) error {
	switch first {
	case '\n':
		return ErrBareLF
	case ' ', '\t', '\r':
		return ErrStartLine
	}
	return ErrNotHTTP
}

func (r *Request) startLine(raw []byte, line span, lim *Limits) error {
	b := raw[line.from:line.to]
	if bytes.HasPrefix(b, []byte(preface)) {
		return ErrPreface
	}
	end := bytes.IndexByte(b, ' ')
	if end < 0 {
		return ErrStartLine
	}
	if end > maxMethod {
		return ErrMethodLong
	}
	method := b[:end]
	if !all(method, tokenOctet) {
		return ErrMethod
	}
	rest := b[end+1:]
	last := bytes.IndexByte(rest, ' ')
	if last <= 0 {
		return ErrStartLine
	}
	target := rest[:last]
	if len(target) > lim.Target {
		return ErrTargetLong
	}
	var err error
	if r.Minor, err = version(rest[last+1:]); err != nil {
		return err
	}
	if m := string(method); m == "CONNECT" || m == "TRACE" {
		return ErrMethodRefused
	}
	if !all(target, targetOctet) {
		return ErrTargetByte
	}
	r.method = span{line.from, line.from + uint32(end)}
	from := line.from + uint32(end) + 1
	r.target = span{from, from + uint32(len(target))}
	return r.splitTarget(raw)
}

// version reads what ends the first line of a request, or begins that of a response.
func version(b []byte) (minor int, err error) {
	switch string(b) {
	case "HTTP/1.1":
		return 1, nil
	case "HTTP/1.0":
		return 0, nil
	}
	if len(b) == len("HTTP/1.1") && bytes.HasPrefix(b, []byte("HTTP/")) && b[6] == '.' && isDigit(b[5]) && isDigit(b[7]) {
		return 0, ErrVersion
	}
	return 0, ErrStartLine
}

func isDigit(o byte) bool { return '0' <= o && o <= '9' }

// splitTarget finds authority, path and query of the target (RFC 9112 section 3.2).
func (r *Request) splitTarget(raw []byte) error {
	t := raw[r.target.from:r.target.to]
	r.path = r.target
	switch {
	case t[0] == '/':
	case len(t) == 1 && t[0] == '*':
		if string(raw[r.method.from:r.method.to]) != "OPTIONS" {
			return ErrTarget
		}
		return nil
	default:
		n := scheme(t)
		if n == 0 {
			return ErrTarget
		}
		r.Absolute, r.Secure = true, n == len("https://")
		end := bytes.IndexAny(t[n:], "/?")
		if end < 0 {
			end = len(t) - n
		}
		r.host = span{r.target.from + uint32(n), r.target.from + uint32(n+end)} // the authority, until judge
		r.path.from = r.host.to
	}
	if q := bytes.IndexByte(raw[r.path.from:r.path.to], '?'); q >= 0 {
		r.hasQuery = true
		r.query = span{r.path.from + uint32(q) + 1, r.path.to}
		r.path.to = r.path.from + uint32(q)
	}
	return nil
}

// scheme is the length of what begins an http URL; 0: t is none.
func scheme(t []byte) int {
	for _, s := range [...]string{"http://", "https://"} {
		if len(t) >= len(s) && same(t[:len(s)], s) {
			return len(s)
		}
	}
	return 0
}

// judge holds the fields against one another.
func (r *Request) judge() (err error) {
	if err := r.connection(); err != nil {
		return err
	}
	if err := r.authority(); err != nil {
		return err
	}
	if r.Length, err = r.length(r.Minor); err != nil {
		return err
	}
	r.KeepAlive = !r.closes && (r.Minor == 1 || r.keeps)
	if r.Has(Expect) && r.Minor == 1 { // RFC 9110 section 10.1.1: of HTTP/1.0 it is ignored
		if r.count(Expect) > 1 || !same(r.Get(Expect), "100-continue") {
			return ErrExpect
		}
		r.Continue = r.Length.Kind != None
	}
	if r.upgrades && r.Minor == 1 && r.count(Upgrade) == 1 && same(r.Get(Upgrade), "websocket") {
		if r.Length.Kind != None {
			return ErrUpgradeBody
		}
		r.WebSocket = string(r.Method()) == "GET"
	}
	return nil
}

// authority finds the host: exactly one Host, which is also that of the target where it has one.
func (r *Request) authority() error {
	n := r.count(Host)
	switch {
	case n > 1:
		return ErrHostMany
	case n == 0 && r.Minor == 1:
		return ErrHostMissing
	case n == 0 && !r.Absolute:
		return nil
	}
	said := r.host
	if n == 1 {
		said = r.fields[r.first[Host]-1].value
		if r.Absolute && !bytes.EqualFold(r.text(said), r.text(r.host)) {
			return ErrHostDiffers
		}
	}
	return r.splitHost(said)
}

// splitHost divides a host from its port. What is no name, no IPv4 address and no IPv6 address in brackets is refused,
// and so are user names.
func (r *Request) splitHost(s span) error {
	b := r.text(s)
	if len(b) == 0 {
		return ErrHost
	}
	end := bytes.IndexByte(b, ':')
	r.host = s
	if b[0] == '[' {
		closing := bytes.IndexByte(b, ']')
		if closing < 0 || !all(b[1:closing], addrOctet) || bytes.IndexByte(b[1:closing], ':') < 0 {
			return ErrHost
		}
		r.host = span{s.from + 1, s.from + uint32(closing)}
		end = closing + 1
		if end == len(b) {
			return nil
		}
	} else {
		if end < 0 {
			end = len(b)
		}
		if !all(b[:end], hostOctet) {
			return ErrHost
		}
		r.host.to = s.from + uint32(end)
		if end == len(b) {
			return nil
		}
	}
	r.port = span{s.from + uint32(end) + 1, s.to}
	if b[end] != ':' || !validPort(r.text(r.port)) {
		return ErrHost
	}
	return nil
}

func validPort(b []byte) bool {
	n, ok := decimal(b)
	return ok && n > 0 && n <= 65535
}

package edge

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"steerpoint/edge/internal/h1"
)

// ask fills in the request as a Director sees it.
func (x *client) ask() {
	q := &x.req
	query, has := q.Query()
	x.host = appendHost(x.host[:0], q.Hostname())
	x.asked = Asked{
		Method: q.Method(), Scheme: "http", Version: "1.1", Host: x.host, Path: q.Path(), Query: query, HasQuery: has,
		Header: &q.Head, Socket: x.peer, Client: x.peer, Port: x.local.Port(), TLS: x.secure,
		BodySize: q.Length.Known(), WebSocket: q.WebSocket, Body: x.x.body, Now: x.g.clock.Wall(x.x.begun),
		HostPort: portOf(q.Port()),
	}
	if len(x.asked.Path) == 0 {
		x.asked.Path = []byte{'/'}
	}
	if x.secure != "" {
		x.asked.Scheme = "https"
	}
	switch {
	case x.s != nil:
		x.asked.Version = "2"
	case q.Minor == 0:
		x.asked.Version = "1.0"
	}
	if x.proxied = x.g.trusted(x.peer.Addr()); !x.proxied {
		return
	}
	if a := x.forwardedFor(); a.IsValid() {
		x.asked.Client = netip.AddrPortFrom(a, 0)
	}
	if proto := q.Get(h1.XForwardedProto); len(proto) > 0 {
		x.asked.Scheme = "http"
		if bytes.EqualFold(proto, []byte("https")) {
			x.asked.Scheme = "https"
		}
	}
}

// portOf reads a port that the codec has judged.
func portOf(p []byte) (n uint16) {
	for _, o := range p {
		n = n*10 + uint16(o-'0')
	}
	return n
}

// appendHost appends a host as it is compared: lower-case, without a final dot.
func appendHost(dst, host []byte) []byte {
	for _, o := range bytes.TrimSuffix(host, []byte(".")) {
		if 'A' <= o && o <= 'Z' {
			o |= 0x20
		}
		dst = append(dst, o)
	}
	return dst
}

// forwardedFor is who asked, as the proxies in front say: the last address that is not one of theirs. What stands before it
// may be made up.
func (x *client) forwardedFor() netip.Addr {
	found := netip.Addr{}
	for i := x.req.Len() - 1; i >= 0; i-- {
		if x.req.ID(i) != h1.XForwardedFor {
			continue
		}
		for rest := x.req.Value(i); len(rest) > 0; {
			cut := bytes.LastIndexByte(rest, ',')
			a, err := forwardedAddr(strings.Trim(string(rest[cut+1:]), " \t"))
			if err != nil {
				return found
			}
			if found = a.Unmap(); !x.g.trusted(found) {
				return found
			}
			rest = rest[:max(cut, 0)]
		}
	}
	return found
}

// forwardedAddr reads an element of X-Forwarded-For: an address, which some proxies write with its port or in brackets.
func forwardedAddr(s string) (netip.Addr, error) {
	if p, err := netip.ParseAddrPort(s); err == nil {
		return p.Addr(), nil
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		s = strings.TrimSuffix(inner, "]")
	}
	return netip.ParseAddr(s)
}

// appendRequest appends the head that goes to an origin.
func (x *client) appendRequest(dst []byte, o *Origin) []byte {
	q, p := &x.req, &x.plan
	dst = append(dst, q.Method()...)
	dst = append(dst, ' ')
	dst = x.appendTarget(dst)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = x.appendAuthority(dst, o)
	dst = append(dst, "\r\n"...)
	dst = q.AppendFields(dst, x.keepRequest)
	dst = appendOps(dst, p.Request)
	dst = x.appendForwarded(dst)
	dst = x.appendTrace(dst)
	switch {
	case q.Length.Kind == h1.None:
	case x.x.whole: // of chunks that are all here the length is known
		dst = appendLength(dst, int64(len(x.x.body)))
	case q.Length.Kind == h1.Sized:
		dst = appendLength(dst, q.Length.N)
	default:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	switch {
	case q.WebSocket:
		dst = append(dst, upgradeFields...)
	case x.takesTrailers() && !o.HTTP2: // with HTTP/2 it is always said
		dst = append(dst, trailerFields...)
	}
	return append(dst, "\r\n"...)
}

const (
	upgradeFields = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	trailerFields = "TE: trailers\r\nConnection: TE\r\n"
)

// takesTrailers reports whether the client said that it does something with trailer fields (RFC 9110 section 10.1.4). That is about one
// connection: by HTTP/1.1 it must say so, or else it may have been said by somebody behind one who knows nothing of it.
func (x *client) takesTrailers() bool {
	q := &x.req
	return q.Has(h1.TE) && q.Minor == 1 && lists(&q.Head, h1.TE, "trailers") && (x.s != nil || lists(&q.Head, h1.Connection, "te"))
}

// lists reports whether fields of an ID, which are lists, have an element.
func lists(h *h1.Head, id h1.ID, element string) bool {
	for i := range h.Len() {
		if h.ID(i) != id {
			continue
		}
		for v := range bytes.SplitSeq(h.Value(i), []byte(",")) {
			if strings.EqualFold(string(bytes.Trim(v, " \t")), element) {
				return true
			}
		}
	}
	return false
}

func (x *client) appendTarget(dst []byte) []byte {
	if t := x.plan.Target; t != nil {
		return append(dst, t...)
	}
	if path := x.req.Path(); len(path) > 0 {
		dst = append(dst, path...)
	} else {
		dst = append(dst, '/')
	}
	if query, ok := x.req.Query(); ok {
		dst = append(append(dst, '?'), query...)
	}
	return dst
}

// appendAuthority appends the Host that an origin gets.
func (x *client) appendAuthority(dst []byte, o *Origin) []byte {
	if o.HostHeader != "" {
		return append(dst, o.HostHeader...)
	}
	if host := x.req.Get(h1.Host); host != nil {
		return append(dst, host...)
	}
	return append(dst, o.Address...) // HTTP/1.0
}

// passesUp reports whether a field of the request goes on as it is. Those that say where a request came from are written
// anew, and believed of nobody who is not trusted.
func (x *client) passesUp(h *h1.Head, i int) bool {
	switch id := h.ID(i); id {
	case h1.Host, h1.XForwardedFor:
		return false
	case h1.XForwardedHost, h1.XForwardedProto, h1.XForwardedPort, h1.Forwarded:
		if !x.proxied {
			return false
		}
	case h1.Expect:
		if !x.req.Continue || x.x.whole {
			return false
		}
	}
	return !h.Hop(i) && !replaced(x.plan.Request, h, i)
}

// replaced reports whether an operation takes the place of a field.
func replaced(ops []HeaderOp, h *h1.Head, i int) bool {
	for k := range ops {
		if op := &ops[k]; op.Action != AppendHeader && len(op.Name) == len(h.Name(i)) && strings.EqualFold(op.Name, string(h.Name(i))) {
			return true
		}
	}
	return false
}

// appendOps appends the fields that operations add, but those that a later one takes away again.
func appendOps(dst []byte, ops []HeaderOp) []byte {
	for i := range ops {
		op := &ops[i]
		if op.Action == DeleteHeader || h1.Framing(op.Name) || overruled(ops[i+1:], op.Name) {
			continue
		}
		dst = append(dst, op.Name...)
		dst = append(dst, ": "...)
		dst = append(dst, op.Value...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

func overruled(later []HeaderOp, name string) bool {
	for i := range later {
		if later[i].Action != AppendHeader && strings.EqualFold(later[i].Name, name) {
			return true
		}
	}
	return false
}

// appendForwarded appends what a gateway says of a request: that it came through, from whom, and how.
func (x *client) appendForwarded(dst []byte) []byte {
	q := &x.req
	dst = append(dst, "Via: "...)
	dst = x.appendVersion(dst)
	dst = append(dst, " "+viaName+"\r\nX-Forwarded-For: "...)
	for i := range q.Len() {
		if q.ID(i) == h1.XForwardedFor && !q.Hop(i) && len(q.Value(i)) > 0 {
			dst = append(dst, q.Value(i)...)
			dst = append(dst, ", "...)
		}
	}
	dst = x.peer.Addr().AppendTo(dst)
	dst = append(dst, "\r\n"...)
	if !x.proxied || !q.Has(h1.XForwardedHost) {
		if host := q.Get(h1.Host); host != nil {
			dst = h1.AppendField(dst, "X-Forwarded-Host", host)
		}
	}
	if !x.proxied || !q.Has(h1.XForwardedProto) {
		dst = append(dst, "X-Forwarded-Proto: "...)
		dst = append(dst, x.asked.Scheme...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

func appendLength(dst []byte, n int64) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

func appendStatus(dst []byte, status int, reason []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, reason...)
	return append(dst, "\r\n"...)
}

// appendResponse appends the head that goes to the client.
func (x *client) appendResponse(dst []byte, o *Origin, chunked bool) []byte {
	r := &x.resp
	dst = appendStatus(dst, r.Status, r.Reason())
	dst = r.AppendFields(dst, x.keepResponse)
	dst = appendOps(dst, x.plan.Response)
	if !r.Has(h1.Date) { // RFC 9110 section 6.6.1
		dst = x.appendDate(dst)
	}
	dst = x.appendTiming(dst)
	answered := &x.answered
	*answered = Answered{Status: r.Status, Header: &r.Head, Asked: &x.req.Head, Secure: x.secure != ""}
	dst = x.plan.Group.Fields(dst, answered, &x.plan, o)
	switch {
	case r.Status == 101:
		return append(dst, upgradeFields+"\r\n"...)
	case chunked:
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	case r.Length.Kind == h1.Sized:
		dst = appendLength(dst, r.Length.N)
	case r.Length.Kind == h1.None && r.Status != 204 && r.Announced() != nil: // of a HEAD, or a 304
		dst = h1.AppendField(dst, "Content-Length", r.Announced())
	}
	return x.appendConnection(dst)
}

// passesDown reports whether a field of the response goes on as it is.
func (x *client) passesDown(h *h1.Head, i int) bool {
	return !h.Hop(i) && !replaced(x.plan.Response, h, i)
}

// keepTrailer reports whether a field may stand in a trailer. Those the gateway knows say what is needed before the body,
// or who somebody is (RFC 9110 section 6.5.1).
func keepTrailer(h *h1.Head, i int) bool { return h.ID(i) == h1.Other }

// appendConnection appends what becomes of the connection, and the end of the head.
func (x *client) appendConnection(dst []byte) []byte {
	switch {
	case x.s != nil:
	case !x.x.keep:
		dst = append(dst, "Connection: close\r\n"...)
	case x.req.Minor == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return append(dst, "\r\n"...)
}

func (x *client) appendDate(dst []byte) []byte {
	dst = append(dst, "Date: "...)
	dst = x.g.clock.Wall(x.g.clock.Now()).UTC().AppendFormat(dst, "Mon, 02 Jan 2006 15:04:05 GMT")
	return append(dst, "\r\n"...)
}

// seconds is a duration in whole seconds, rounded up: whoever waits that long has waited long enough.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

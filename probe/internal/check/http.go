package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"steerpoint/report"
)

const (
	// headerLimit bounds status line and header fields, interim responses included. No sane answer has more; servers
	// themselves refuse requests at 8 to 32 KiB.
	headerLimit = 64 << 10
	// bodyLimit is how much of a body is read: enough for a health page.
	bodyLimit = 64 << 10
	// framingLimit bounds what chunked coding may add to it.
	framingLimit = 64 << 10
)

// exchange sends the request and judges the response (RFC 9112). No redirect is followed: where it leads is another
// probe's business.
func (p *probe) exchange(conn net.Conn) error {
	p.phase = "sending the request"
	if _, err := conn.Write(p.request()); err != nil {
		return err
	}
	in := &meter{r: conn, left: headerLimit}
	br := bufio.NewReader(in)
	resp, err := p.response(br)
	if err != nil {
		return in.explain(err, "header")
	}
	p.o.Status = resp.StatusCode
	if !p.accepts(resp.StatusCode) {
		return failf(report.CauseStatus, "status %d is not in the expected ones", resp.StatusCode)
	}
	if p.method == http.MethodHead {
		return nil
	}
	p.phase = "reading the body"
	in.left = bodyLimit + framingLimit
	found, err := p.search(resp.Body)
	if err != nil {
		return in.explain(err, "body")
	}
	if !found {
		return failf(report.CauseBody, "the expected text is not in the first %d KiB of the body", bodyLimit>>10)
	}
	return nil
}

// request is small and always the same for a target. It closes the connection, so that an end without a length is an
// end.
func (p *probe) request() []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n",
		p.method, p.uri, p.host, p.cfg.UserAgent)
}

// response reads up to the end of the final response's header. Interim ones (1xx but 101) are passed over; the header
// limit is over all of them.
func (p *probe) response(br *bufio.Reader) (*http.Response, error) {
	asked := &http.Request{Method: p.method} // tells the reader whether a body follows
	for {
		p.phase = "waiting for the response"
		if _, err := br.Peek(1); err != nil {
			return nil, err
		}
		p.o.Phases.FirstByte += p.lap()
		p.phase = "reading the response header"
		header, err := readHeader(br)
		if err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(header), br)), asked)
		if err != nil || resp.StatusCode < 100 { // the parser takes 000
			return nil, errNotHTTP
		}
		if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode/100 != 1 {
			p.o.Latency += p.o.Phases.FirstByte
			return resp, nil
		}
	}
}

var errNotHTTP = errors.New("not HTTP/1.1")

// readHeader takes one header with its closing empty line out of br. It is not parsed from br at once because a parser
// cannot tell a header that broke off, the network's fault, from a bad one, the server's. What does not begin like
// HTTP is given up at once: another protocol may never send a line's end.
func readHeader(br *bufio.Reader) (header []byte, err error) {
	const begin = "HTTP/"
	if first, err := br.Peek(len(begin)); !strings.HasPrefix(begin, string(first)) {
		return nil, errNotHTTP
	} else if err != nil {
		return nil, err
	}
	for {
		line, err := br.ReadSlice('\n')
		header = append(header, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // the line goes on
		case err != nil:
			return nil, err
		case bytes.HasSuffix(header, []byte("\n\r\n")), bytes.HasSuffix(header, []byte("\n\n")):
			return header, nil
		}
	}
}

// search reads the body until it holds the expected text, ends, or reaches its limit. Without an expectation the body
// is still read: an answer that breaks off is none.
func (p *probe) search(body io.Reader) (bool, error) {
	want := []byte(p.body)
	var got []byte
	buf := make([]byte, 4<<10)
	r := io.LimitReader(body, bodyLimit)
	for {
		n, err := r.Read(buf)
		if len(want) > 0 && n > 0 {
			// Only what can still be the beginning of a match is kept.
			got = append(got[max(0, len(got)-len(want)+1):], buf[:n]...)
			if bytes.Contains(got, want) {
				return true, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return len(want) == 0, nil
		case err != nil:
			return false, err
		}
	}
}

// meter counts what a peer sends and keeps the connection's own error apart from what is made of the bytes.
type meter struct {
	r    io.Reader
	left int
	err  error
}

var errTooMuch = errors.New("more bytes than the limit")

// Read reads at most what is left.
func (m *meter) Read(b []byte) (int, error) {
	if m.left <= 0 {
		m.err = errTooMuch
		return 0, m.err
	}
	n, err := m.r.Read(b[:min(len(b), m.left)])
	m.left -= n
	if err != nil {
		m.err = err
	}
	return n, err
}

// explain tells a connection that failed from bytes that are no HTTP: the parser wraps the one and invents the other.
func (m *meter) explain(err error, part string) error {
	switch {
	case errors.Is(m.err, errTooMuch):
		return failf(report.CauseProtocol, "the response's %s does not end within %d KiB", part, headerLimit>>10)
	case m.err != nil && !errors.Is(m.err, io.EOF):
		return m.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	}
	// What the parser says quotes the bytes it did not like; those are the peer's and stay here.
	return failf(report.CauseProtocol, "the response's %s is not HTTP/1.1", part)
}

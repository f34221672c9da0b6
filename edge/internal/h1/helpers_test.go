package h1

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// script is a connection that gives what it has, at most step octets at a time; step 0: all at once.
type script struct {
	data string
	step int
}

func (s *script) Read(p []byte) (int, error) {
	if s.data == "" {
		return 0, io.EOF
	}
	n := min(len(p), len(s.data))
	if s.step > 0 {
		n = min(n, s.step)
	}
	n = copy(p, s.data[:n])
	s.data = s.data[n:]
	return n, nil
}

func (s *script) ReadLent(p *Pool, size Size) (*Buffer, int, error) {
	b := p.Lend(size)
	n, err := s.Read(b.B)
	if err != nil {
		p.Return(b)
		return nil, 0, err
	}
	return b, n, nil
}

// message is a message as it was read, for comparisons.
type message struct {
	first   string // METHOD TARGET, or STATUS REASON
	host    string
	fields  string
	body    string
	trailer string
	keep    bool
	err     error
}

func (m message) String() string {
	return fmt.Sprintf("%s|%s|%s|%q|%s|keep %t|%v", m.first, m.host, m.fields, m.body, m.trailer, m.keep, m.err)
}

func fieldsOf(h *Head) string {
	var b strings.Builder
	for i := range h.Len() {
		fmt.Fprintf(&b, "%s=%s;", h.Name(i), h.Value(i))
	}
	return b.String()
}

// bodyOf reads a body to its end.
func bodyOf(r *Reader, m *message) {
	var b strings.Builder
	for {
		part, err := r.Next()
		b.Write(part)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			m.err = err
			break
		}
	}
	m.body = b.String()
	if m.err != nil {
		return
	}
	var trailer Head
	if m.err = r.Trailer(&trailer); m.err == nil {
		m.trailer = fieldsOf(&trailer)
	}
}

// requests reads all requests of a connection, up to the first fault, which is the last message.
func requests(data string, step int, lim Limits) (all []message) {
	r := NewReader(&script{data, step}, NewPool(), lim, Small)
	defer r.Close()
	var q Request
	for {
		err := r.Request(&q)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			return append(all, message{err: err})
		}
		m := message{
			first: string(q.Method()) + " " + string(q.Target()), host: string(q.Hostname()),
			fields: fieldsOf(&q.Head), keep: q.KeepAlive,
		}
		if p := q.Port(); len(p) > 0 {
			m.host += ":" + string(p)
		}
		bodyOf(r, &m)
		all = append(all, m)
		if m.err != nil {
			return all
		}
	}
}

// responses is requests for responses to GET.
func responses(data string, step int, bodiless bool) (all []message) {
	r := NewReader(&script{data, step}, NewPool(), Limits{}, Large)
	defer r.Close()
	var p Response
	for {
		err := r.Response(&p, bodiless)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			return append(all, message{err: err})
		}
		m := message{first: fmt.Sprintf("%d %s", p.Status, p.Reason()), fields: fieldsOf(&p.Head), keep: p.KeepAlive}
		bodyOf(r, &m)
		all = append(all, m)
		if m.err != nil || p.Length.Kind == UntilClose {
			return all
		}
	}
}

// crlf writes a message as it is easier to read: a line each, without CR.
func crlf(lines ...string) string { return strings.Join(lines, "\r\n") }

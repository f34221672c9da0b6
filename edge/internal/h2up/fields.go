package h2up

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/h1"
)

// encode encodes a head of HTTP/1.1 that we wrote. What it gives is valid until the next call. The lock is held.
func (c *Conn) encode(head []byte) ([]byte, error) {
	line, rest, ok := bytes.Cut(head, []byte("\r\n"))
	method, target, ok1 := bytes.Cut(line, []byte(" "))
	target, _, ok2 := bytes.Cut(target, []byte(" "))
	host, rest, ok3 := bytes.Cut(rest, []byte("\r\n"))
	authority, ok4 := bytes.CutPrefix(host, []byte("Host: "))
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 {
		return nil, h1.ErrStartLine
	}
	scheme := "http"
	if c.cfg.Secure {
		scheme = "https"
	}
	c.encoded.Reset()
	for _, f := range [...]hpack.HeaderField{
		{Name: ":method", Value: string(method)},
		{Name: ":scheme", Value: scheme},
		{Name: ":authority", Value: string(authority)},
		{Name: ":path", Value: string(target)},
	} {
		if err := c.encoder.WriteField(f); err != nil {
			return nil, err
		}
	}
	if err := c.encodeFields(rest); err != nil {
		return nil, err
	}
	// Trailers are passed on whoever asks, and gRPC servers want to be told.
	if err := c.encoder.WriteField(hpack.HeaderField{Name: "te", Value: "trailers"}); err != nil {
		return nil, err
	}
	return c.encoded.Bytes(), nil
}

// encodeFields encodes fields given as lines, up to the empty one or the end.
func (c *Conn) encodeFields(lines []byte) error {
	c.lowered = append(c.lowered[:0], lines...)
	lowerNames(c.lowered)
	text := string(c.lowered) // one allocation for all of them
	if cap(c.lowered) > keptOut {
		c.lowered = nil
	}
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\r\n")
		if line == "" {
			return nil
		}
		text = rest
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return h1.ErrFieldName
		}
		if name == "te" || connectionField(name) {
			continue
		}
		f := hpack.HeaderField{Name: name, Value: strings.Trim(value, " \t")}
		f.Sensitive = name == "authorization" || name == "cookie" // nobody on the way may keep it (RFC 7541 section 7.1.3)
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	return nil
}

// lowerNames makes the names of field lines lower-case where they lie.
func lowerNames(lines []byte) {
	name := true
	for i, o := range lines {
		switch {
		case o == '\n':
			name = true
		case o == ':':
			name = false
		case name && 'A' <= o && o <= 'Z':
			lines[i] = o | 0x20
		}
	}
}

// connectionField reports whether a field is about a connection of HTTP/1.1 and has no place in HTTP/2 (RFC 9113 section 8.2.2).
func connectionField(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// appendHead writes the head of a response as HTTP/1.1 has it; nil: it is malformed. Names, values and the order of pseudo fields
// were judged by the library.
func appendHead(dst []byte, f *http2.MetaHeadersFrame) (text []byte, status int) {
	pseudo := f.PseudoFields()
	if len(pseudo) != 1 || pseudo[0].Name != ":status" || len(pseudo[0].Value) != 3 {
		return nil, 0
	}
	status, err := strconv.Atoi(pseudo[0].Value)
	if err != nil || status < 100 || status == 101 {
		return nil, 0
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(append(dst, pseudo[0].Value...), ' ')
	dst = append(append(dst, http.StatusText(status)...), "\r\n"...)
	return appendFields(dst, f), status
}

// appendTrailer writes trailer fields as lines, with the empty one at their end; nil: they are malformed.
func appendTrailer(dst []byte, f *http2.MetaHeadersFrame) []byte {
	if len(f.PseudoFields()) > 0 {
		return nil
	}
	return appendFields(dst, f)
}

func appendFields(dst []byte, f *http2.MetaHeadersFrame) []byte {
	for _, h := range f.RegularFields() {
		if connectionField(h.Name) {
			return nil
		}
		dst = h1.AppendField(dst, h.Name, h.Value)
	}
	return append(dst, "\r\n"...)
}

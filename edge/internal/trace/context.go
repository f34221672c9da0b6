// Package trace has what a gateway says of requests to a collector of traces: the W3C trace context that comes and goes with
// a request (context.go), spans in the form of OTLP (span.go), and their way to the collector (exporter.go).
//
// It is an encoder and a queue instead of OpenTelemetry's SDK: a request that is not sampled costs three random numbers and
// no allocation, one that is sampled is encoded once into a buffer that is used again, and nobody waits for the collector.
// Measured side by side, on a busy machine: 0.07 µs and no allocation against 1.4 µs and 12 allocations for a request that is not
// sampled, 0.45 µs and none against 22 µs and 18 for one that is, with two spans.
package trace

import (
	"bytes"
	"math/rand/v2"
)

// Names of the fields, in lower case.
const (
	ParentField = "traceparent"
	StateField  = "tracestate"
)

// Context says which trace a request belongs to (W3C Trace Context, section 3). The zero value is none.
type Context struct {
	Trace [16]byte
	Span  [8]byte // the parent of what follows
	Flags byte    // Sampled and Random; others are not passed on
}

// Flags of a Context.
const (
	Sampled = 1 << 0
	Random  = 1 << 1 // the right half of the trace ID is random (level 2)
)

// IsValid reports whether there is a trace.
func (c *Context) IsValid() bool { return c.Trace != [16]byte{} }

// IsSampled reports whether its spans are recorded.
func (c *Context) IsSampled() bool { return c.Flags&Sampled != 0 }

// parentLen is a traceparent of version 00: 00-TRACE-SPAN-FLAGS.
const parentLen = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Parse reads a traceparent. What is not exactly one is none: ok is false. Of a later version the parts of version 00 are
// read (section 3.2.4).
func Parse(v []byte) (c Context, ok bool) {
	var version, flags [1]byte
	if len(v) < parentLen || v[2] != '-' || v[35] != '-' || v[52] != '-' ||
		!unhex(version[:], v[:2]) || !unhex(c.Trace[:], v[3:35]) || !unhex(c.Span[:], v[36:52]) || !unhex(flags[:], v[53:55]) {
		return Context{}, false
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(v) > parentLen, len(v) > parentLen && v[parentLen] != '-':
		return Context{}, false
	case c.Trace == [16]byte{}, c.Span == [8]byte{}:
		return Context{}, false
	}
	c.Flags = flags[0] & (Sampled | Random)
	return c, true
}

// unhex reads lower-case hexadecimal digits, two for each octet of dst.
func unhex(dst, digits []byte) bool {
	for i := range dst {
		high, low := digit(digits[2*i]), digit(digits[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		dst[i] = high<<4 | low
	}
	return true
}

func digit(o byte) byte {
	switch {
	case '0' <= o && o <= '9':
		return o - '0'
	case 'a' <= o && o <= 'f':
		return o - 'a' + 10
	}
	return 0xff
}

// AppendParent appends c as a traceparent of version 00.
func AppendParent(dst []byte, c *Context) []byte {
	dst = append(dst, "00-"...)
	dst = append(appendHex(dst, c.Trace[:]), '-')
	dst = append(appendHex(dst, c.Span[:]), '-')
	return appendHex(dst, []byte{c.Flags})
}

// AppendID appends the ID of the trace, as 32 digits.
func AppendID(dst []byte, c *Context) []byte { return appendHex(dst, c.Trace[:]) }

func appendHex(dst, b []byte) []byte {
	const digits = "0123456789abcdef"
	for _, o := range b {
		dst = append(dst, digits[o>>4], digits[o&15])
	}
	return dst
}

// NewRoot begins a trace.
func NewRoot(sampled bool) Context {
	c := Context{Flags: Random}
	for c.Trace == [16]byte{} {
		put(c.Trace[:8], rand.Uint64())
		put(c.Trace[8:], rand.Uint64())
	}
	c.Span = NewSpan()
	if sampled {
		c.Flags |= Sampled
	}
	return c
}

// NewSpan makes an ID of a span.
func NewSpan() (id [8]byte) {
	for id == [8]byte{} {
		put(id[:], rand.Uint64())
	}
	return id
}

func put(b []byte, v uint64) {
	for i := range b[:8] {
		b[i] = byte(v >> (8 * i))
	}
}

// Draw reports whether a new trace is sampled: of so many traces a share of ratio, 0 to 1.
func Draw(ratio float64) bool { return ratio > 0 && (ratio >= 1 || rand.Float64() < ratio) }

// Bounds of a tracestate (section 3.3.1).
const (
	maxMembers = 32
	// MaxState is how long a tracestate may be that is passed on, with all of its fields together. 512 is the least that
	// section 3.3.1.5 asks for.
	MaxState = 512
)

// AppendState appends one tracestate field to those before it. A value that is none, or one too many, makes all of it none:
// ok is false. Empty members are dropped.
func AppendState(dst, v []byte) (state []byte, ok bool) {
	for len(v) > 0 {
		var m []byte
		if i := bytes.IndexByte(v, ','); i >= 0 {
			m, v = v[:i], v[i+1:]
		} else {
			m, v = v, nil
		}
		if m = bytes.Trim(m, " \t"); len(m) == 0 {
			continue
		}
		if !member(m) || twice(dst, m) || len(dst)+1+len(m) > MaxState || bytes.Count(dst, comma) >= maxMembers-1 {
			return nil, false
		}
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m...)
	}
	return dst, true
}

var comma = []byte{','}

// member reports whether m is KEY=VALUE.
func member(m []byte) bool {
	i := bytes.IndexByte(m, '=')
	if i < 1 || !key(m[:i]) {
		return false
	}
	value := m[i+1:]
	if len(value) == 0 || len(value) > 256 {
		return false
	}
	for _, o := range value {
		if o < ' ' || o > '~' || o == ',' || o == '=' {
			return false
		}
	}
	return value[len(value)-1] != ' '
}

// key reports whether k is a simple key, or TENANT@SYSTEM.
func key(k []byte) bool {
	tenant, system, multi := bytes.Cut(k, []byte{'@'})
	if !multi {
		return len(k) <= 256 && isLower(k[0]) && keyOctets(k)
	}
	return len(tenant) >= 1 && len(tenant) <= 241 && (isLower(tenant[0]) || isDigit(tenant[0])) && keyOctets(tenant) &&
		len(system) >= 1 && len(system) <= 14 && isLower(system[0]) && keyOctets(system)
}

func keyOctets(k []byte) bool {
	for _, o := range k {
		if !isLower(o) && !isDigit(o) && o != '_' && o != '-' && o != '*' && o != '/' {
			return false
		}
	}
	return true
}

func isLower(o byte) bool { return 'a' <= o && o <= 'z' }
func isDigit(o byte) bool { return '0' <= o && o <= '9' }

// twice reports whether the key of m stands in a state already.
func twice(state, m []byte) bool {
	k := m[:bytes.IndexByte(m, '=')+1]
	for len(state) > 0 {
		if bytes.HasPrefix(state, k) {
			return true
		}
		i := bytes.IndexByte(state, ',')
		if i < 0 {
			return false
		}
		state = state[i+1:]
	}
	return false
}

package trace

import (
	"bytes"
	"encoding/binary"
	"time"
	"unicode/utf8"
)

// Kind is what a span is of. The numbers are OTLP's.
type Kind byte

// The kinds of spans there are here.
const (
	Server Kind = 2 // a request that was answered
	Client Kind = 3 // one that was asked of somebody else
)

// Span is one span, as it is encoded.
type Span struct {
	Trace      [16]byte
	ID, Parent [8]byte // Parent zero: it is a root
	Flags      byte
	Remote     bool   // the parent is another process's
	State      []byte // tracestate, as it came
	Kind       Kind
	Name       []byte
	Begin, End time.Time
	Failed     bool // the status is an error
	Attributes []byte
}

// Field numbers of opentelemetry/proto/trace/v1/trace.proto and common.proto.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5

	resourceSpans = 1 // of ExportTraceServiceRequest
	resource      = 1 // of ResourceSpans
	scopeSpans    = 2
	attributes    = 1 // of Resource
	scope         = 1 // of ScopeSpans
	spans         = 2
	scopeName     = 1 // of InstrumentationScope

	traceID        = 1 // of Span
	spanID         = 2
	traceState     = 3
	parentID       = 4
	spanName       = 5
	spanKind       = 6
	beginTime      = 7
	endTime        = 8
	spanAttributes = 9
	spanStatus     = 15
	spanFlags      = 16

	statusCode  = 3 // of Status
	statusError = 2

	keyField    = 1 // of KeyValue
	valueField  = 2
	stringValue = 1 // of AnyValue
	boolValue   = 2
	intValue    = 3

	// hasRemote and remote are bits of flags, beside those of the trace context.
	hasRemote = 1 << 8
	remote    = 1 << 9
)

func appendTag(dst []byte, field, wire int) []byte {
	return binary.AppendUvarint(dst, uint64(field)<<3|uint64(wire))
}

func appendBytes[T ~string | ~[]byte](dst []byte, field int, v T) []byte {
	dst = binary.AppendUvarint(appendTag(dst, field, wireBytes), uint64(len(v)))
	return append(dst, v...)
}

func appendFixed64(dst []byte, field int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendTag(dst, field, wireFixed64), v)
}

func appendVarint(dst []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(appendTag(dst, field, wireVarint), v)
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// appendKey appends the beginning of an attribute whose AnyValue takes so many octets.
func appendKey(dst []byte, field int, key string, value int) []byte {
	n := 1 + uvarintLen(uint64(len(key))) + len(key) + 1 + uvarintLen(uint64(value)) + value
	dst = binary.AppendUvarint(appendTag(dst, field, wireBytes), uint64(n))
	dst = appendBytes(dst, keyField, key)
	return binary.AppendUvarint(appendTag(dst, valueField, wireBytes), uint64(value))
}

func appendText[T ~string | ~[]byte](dst []byte, field int, key string, v T) []byte {
	dst = appendKey(dst, field, key, 1+uvarintLen(uint64(len(v)))+len(v))
	return appendBytes(dst, stringValue, v)
}

// maxText bounds an attribute, in octets.
const maxText = 1024

// AppendText appends an attribute of a span; an empty one is left out. Octets that are not UTF-8 become U+FFFD: a collector
// would refuse the whole batch for them.
func AppendText(dst []byte, key string, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	if v = v[:min(len(v), maxText)]; !utf8.Valid(v) {
		v = bytes.ToValidUTF8(v, []byte("\uFFFD"))
	}
	return appendText(dst, spanAttributes, key, v)
}

// AppendName appends a name of ours, which is UTF-8; an empty one is left out.
func AppendName(dst []byte, key, v string) []byte {
	if v == "" {
		return dst
	}
	return appendText(dst, spanAttributes, key, v)
}

// AppendInt appends a number, which must not be negative.
func AppendInt(dst []byte, key string, v int64) []byte {
	dst = appendKey(dst, spanAttributes, key, 1+uvarintLen(uint64(v)))
	return appendVarint(dst, intValue, uint64(v))
}

// AppendBool appends a truth.
func AppendBool(dst []byte, key string, v bool) []byte {
	dst = appendKey(dst, spanAttributes, key, 2)
	if v {
		return appendVarint(dst, boolValue, 1)
	}
	return appendVarint(dst, boolValue, 0)
}

// AppendSpan appends a span as an element of ScopeSpans. room is used for it, and may be used again after that.
func AppendSpan(dst, room []byte, s *Span) []byte {
	b := room[:0]
	b = appendBytes(b, traceID, s.Trace[:])
	b = appendBytes(b, spanID, s.ID[:])
	if len(s.State) > 0 {
		b = appendBytes(b, traceState, s.State)
	}
	flags := uint32(s.Flags) | hasRemote
	if s.Parent != [8]byte{} {
		b = appendBytes(b, parentID, s.Parent[:])
		if s.Remote {
			flags |= remote
		}
	}
	b = appendBytes(b, spanName, s.Name)
	b = appendVarint(b, spanKind, uint64(s.Kind))
	b = appendFixed64(b, beginTime, uint64(s.Begin.UnixNano()))
	b = appendFixed64(b, endTime, uint64(s.End.UnixNano()))
	b = append(b, s.Attributes...)
	if s.Failed {
		b = binary.AppendUvarint(appendTag(b, spanStatus, wireBytes), 2)
		b = appendVarint(b, statusCode, statusError)
	}
	b = binary.LittleEndian.AppendUint32(appendTag(b, spanFlags, wireFixed32), flags)
	return appendBytes(dst, spans, b)
}

// scopeOf is the name of what makes the spans.
const scopeOf = "steerpoint/edge"

// Resource is who makes the spans, encoded once.
type Resource struct{ resource, scope []byte }

// NewResource makes one of attributes in pairs of key and value.
func NewResource(pairs ...[2]string) Resource {
	var r Resource
	for _, p := range pairs {
		if p[1] != "" {
			r.resource = appendText(r.resource, attributes, p[0], p[1])
		}
	}
	r.scope = appendBytes(nil, scopeName, scopeOf)
	return r
}

// Append appends a whole request to a collector with spans that AppendSpan has made.
func (r *Resource) Append(dst, list []byte) []byte {
	head := appendBytes(nil, scope, r.scope)
	inner := len(head) + len(list)
	front := appendBytes(nil, resource, r.resource)
	front = binary.AppendUvarint(appendTag(front, scopeSpans, wireBytes), uint64(inner))
	dst = binary.AppendUvarint(appendTag(dst, resourceSpans, wireBytes), uint64(len(front)+inner))
	dst = append(dst, front...)
	dst = append(dst, head...)
	return append(dst, list...)
}

package h1

import "bytes"

// span is a part of a head, as offsets into it: they hold when the head is moved.
type span struct{ from, to uint32 }

// field is one line of a head after its first.
type field struct {
	name, value span
	id          ID
	hop         bool // about this connection: by its name, or since Connection names it
	plain       bool // written "Name: value", so that it can be passed on as it is
}

// line is the whole line of a field, with its end.
func (f *field) line() span { return span{f.name.from, f.value.to + uint32(len("\r\n"))} }

// maxNamed bounds the fields that Connection may name beside the usual.
const maxNamed = 32

// Head is the fields of a message, as they came. It is valid until its Reader reads the next head or Release is called.
type Head struct {
	raw    []byte // the whole head, with its first line and the empty one
	fields []field
	first  [ids]uint16 // 1 + index of the first field of each ID; 0: none
	named  []span      // what Connection names, without close, keep-alive and upgrade

	closes, keeps, upgrades bool // said by Connection
}

func (h *Head) reset() {
	h.raw, h.fields, h.named = nil, h.fields[:0], h.named[:0]
	h.first = [ids]uint16{}
	h.closes, h.keeps, h.upgrades = false, false, false
}

func (h *Head) text(s span) []byte { return h.raw[s.from:s.to] }

// Size is the length of the head in octets.
func (h *Head) Size() int { return len(h.raw) }

// Len is the number of fields.
func (h *Head) Len() int { return len(h.fields) }

// Name is the name of the i-th field, as it was sent.
func (h *Head) Name(i int) []byte { return h.text(h.fields[i].name) }

// Value is the value of the i-th field, without the white space around it.
func (h *Head) Value(i int) []byte { return h.text(h.fields[i].value) }

// ID is the ID of the i-th field.
func (h *Head) ID(i int) ID { return h.fields[i].id }

// Hop reports whether the i-th field is about this connection alone and is not to be passed on.
func (h *Head) Hop(i int) bool { return h.fields[i].hop }

// Has reports whether there is a field of an ID.
func (h *Head) Has(id ID) bool { return h.first[id] != 0 }

// Get is the value of the first field of an ID; nil: there is none.
func (h *Head) Get(id ID) []byte {
	if i := h.first[id]; i != 0 {
		return h.Value(int(i) - 1)
	}
	return nil
}

// Field gives the value of the n-th field of a name, 0 the first, and whether there is one. The name is lower-case; it is
// compared without regard to case.
func (h *Head) Field(name string, n int) (value []byte, ok bool) {
	for i := range h.fields {
		f := &h.fields[i]
		if int(f.name.to-f.name.from) != len(name) || !same(h.text(f.name), name) {
			continue
		}
		if n == 0 {
			return h.text(f.value), true
		}
		n--
	}
	return nil, false
}

// AppendFields appends the fields that keep accepts, as lines. Those that stand side by side are copied in one go.
func (h *Head) AppendFields(dst []byte, keep func(*Head, int) bool) []byte {
	run := span{}
	for i := range h.fields {
		f := &h.fields[i]
		if !keep(h, i) {
			continue
		}
		if !f.plain {
			dst = append(dst, h.raw[run.from:run.to]...)
			run = span{}
			dst = AppendField(dst, h.text(f.name), h.text(f.value))
			continue
		}
		l := f.line()
		if l.from != run.to {
			dst = append(dst, h.raw[run.from:run.to]...)
			run.from = l.from
		}
		run.to = l.to
	}
	return append(dst, h.raw[run.from:run.to]...)
}

// AppendField appends one field line.
func AppendField[N, V ~string | ~[]byte](dst []byte, name N, value V) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// Limits bound a head. The zero value of each is its default.
type Limits struct {
	Head   int // octets of a head in all; 0: 64 KiB, which is also the most
	Target int // octets of a request target; 0: 8 KiB
	Field  int // octets of one field, name and value; 0: 16 KiB
	Fields int // number of fields; 0: 128
}

// maxHead is the most a head can be: it lies in one buffer.
const maxHead = hugeBuffer / 2

func (l Limits) withDefaults() Limits {
	set := func(v *int, zero int) {
		if *v <= 0 {
			*v = zero
		}
	}
	set(&l.Head, maxHead)
	set(&l.Target, 8<<10)
	set(&l.Field, 16<<10)
	set(&l.Fields, 128)
	l.Head = min(l.Head, maxHead)
	return l
}

// scanner goes through a head line by line. It is fed the head from its first octet, again and again as more of it comes,
// and goes on where it was.
type scanner struct {
	at    int // where the line begins that is not read yet
	seen  int // octets after at that hold no LF
	lines int
}

// next gives the next line without its end; ok is false when it is not all there.
func (s *scanner) next(raw []byte, lim *Limits) (line span, ok bool, err error) {
	i := bytes.IndexByte(raw[s.at+s.seen:], '\n')
	if i < 0 {
		s.seen = len(raw) - s.at
		return span{}, false, s.tooLong(s.seen-1, lim) // the last octet may be the CR of its end
	}
	end := s.at + s.seen + i
	if end == s.at || raw[end-1] != '\r' {
		return span{}, false, ErrBareLF
	}
	if err := s.tooLong(end-1-s.at, lim); err != nil {
		return span{}, false, err
	}
	line = span{uint32(s.at), uint32(end - 1)}
	s.at, s.seen = end+1, 0
	s.lines++
	return line, true, nil
}

// lineAround is what a request line holds beside its target: the longest method, the version, two spaces.
const lineAround = maxMethod + len(" ") + len(" HTTP/1.1")

// tooLong judges a line of n octets, or of at least n.
func (s *scanner) tooLong(n int, lim *Limits) error {
	switch {
	case s.lines == 0 && n > lim.Target+lineAround:
		return ErrTargetLong
	case s.lines > 0 && n > lim.Field:
		return ErrFieldLong
	case s.at+n > lim.Head:
		return ErrHeadLong
	}
	return nil
}

// readFields goes through the fields until the empty line; done is false when more of the head must come.
func (h *Head) readFields(raw []byte, s *scanner, lim *Limits) (done bool, err error) {
	for {
		line, ok, err := s.next(raw, lim)
		if err != nil || !ok {
			return false, err
		}
		if line.from == line.to {
			h.raw = raw[:s.at]
			return true, nil
		}
		if len(h.fields) >= lim.Fields {
			return false, ErrFieldsMany
		}
		if err := h.add(raw, line); err != nil {
			return false, err
		}
	}
}

// add reads one field line.
func (h *Head) add(raw []byte, line span) error {
	b := raw[line.from:line.to]
	if b[0] == ' ' || b[0] == '\t' {
		return ErrFold
	}
	colon := 0
	for colon < len(b) && octets[b[colon]]&tokenOctet != 0 {
		colon++
	}
	if colon == 0 || colon == len(b) || b[colon] != ':' {
		return ErrFieldName
	}
	from, to := colon+1, len(b)
	for from < to && (b[from] == ' ' || b[from] == '\t') {
		from++
	}
	for to > from && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	if !clean(b[from:to]) {
		return ErrFieldValue
	}
	id := identify(b[:colon])
	h.fields = append(h.fields, field{
		name:  span{line.from, line.from + uint32(colon)},
		value: span{line.from + uint32(from), line.from + uint32(to)},
		id:    id, hop: id.hop(),
		plain: to == len(b) && from == colon+2 && b[colon+1] == ' ',
	})
	if id != Other && h.first[id] == 0 {
		h.first[id] = uint16(len(h.fields))
	}
	return nil
}

// count is how many fields of an ID there are.
func (h *Head) count(id ID) int {
	if h.first[id] == 0 {
		return 0
	}
	n := 0
	for i := int(h.first[id]) - 1; i < len(h.fields); i++ {
		if h.fields[i].id == id {
			n++
		}
	}
	return n
}

// connection reads what all Connection fields say. An empty one hides none of the others.
func (h *Head) connection() error {
	first := h.first[Connection]
	if first == 0 {
		return nil
	}
	for i := int(first) - 1; i < len(h.fields); i++ {
		if h.fields[i].id != Connection {
			continue
		}
		for rest := h.Value(i); len(rest) > 0; {
			var e []byte
			e, rest = element(rest)
			if len(e) == 0 {
				continue
			}
			if err := h.option(e); err != nil {
				return err
			}
		}
	}
	if len(h.named) > 0 {
		h.markNamed()
	}
	return nil
}

func (h *Head) option(e []byte) error {
	switch {
	case !all(e, tokenOctet):
		return ErrConnection
	case same(e, "close"):
		h.closes = true
	case same(e, "keep-alive"):
		h.keeps = true
	case same(e, "upgrade"):
		h.upgrades = true
	case len(h.named) == maxNamed:
		return ErrConnection
	default:
		at := offset(h.raw, e)
		h.named = append(h.named, span{at, at + uint32(len(e))})
	}
	return nil
}

// offset is where part lies in whole, of which it is a slice.
func offset(whole, part []byte) uint32 { return uint32(cap(whole) - cap(part)) }

// markNamed marks the fields that Connection names. Host is none of them: without it the request would be another one.
func (h *Head) markNamed() {
	for i := range h.fields {
		f := &h.fields[i]
		if f.hop || f.id == Host {
			continue
		}
		name := h.text(f.name)
		for _, n := range h.named {
			if bytes.EqualFold(name, h.text(n)) {
				f.hop = true
				break
			}
		}
	}
}

// length reads the length that a message states for its body: at most one of the two fields, once.
func (h *Head) length(minor int) (Length, error) {
	lengths, codings := h.count(ContentLength), h.count(TransferEncoding)
	switch {
	case lengths == 0 && codings == 0:
		return Length{}, nil
	case lengths > 0 && codings > 0:
		return Length{}, ErrLengthCoding
	case lengths > 1:
		return Length{}, ErrLengthMany
	case codings > 1:
		return Length{}, ErrCodingMany
	case lengths == 1:
		n, ok := decimal(h.Get(ContentLength))
		if !ok {
			return Length{}, ErrLength
		}
		return Length{Kind: Sized, N: n}, nil
	case minor == 0:
		return Length{}, ErrCodingVersion
	}
	return Length{Kind: Chunked}, coding(h.Get(TransferEncoding))
}

// coding accepts the value chunked alone. A list of other codings is told apart from what no program should send.
func coding(v []byte) error {
	if same(v, "chunked") {
		return nil
	}
	seenChunked, n := false, 0
	for rest := v; len(rest) > 0; n++ {
		var e []byte
		e, rest = element(rest)
		if seenChunked || !all(e, tokenOctet) {
			return ErrCoding
		}
		seenChunked = same(e, "chunked")
	}
	if n == 0 || v[len(v)-1] == ',' {
		return ErrCoding
	}
	return ErrCodingUnknown
}

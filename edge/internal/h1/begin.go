package h1

// This file is for requests that come in another form than that of HTTP/1.1, such as HTTP/2. They are written as a head of
// HTTP/1.1 and judged as one: so there is one judge, and all that reads a request reads it in one form.

// Full are the limits with their defaults in place of zeros.
func (l Limits) Full() Limits { return l.withDefaults() }

// Token reports whether b is a token (RFC 9110 section 5.6.2).
func Token(b []byte) bool { return all(b, tokenOctet) }

// Clean reports whether b is free of control octets but HT: what may be a field value.
func Clean(b []byte) bool { return clean(b) }

// Decimal reads a length: digits alone, 18 at most.
func Decimal(b []byte) (int64, bool) { return decimal(b) }

// Grow gives a buffer of the next larger class with the first n octets of b, and takes b back. ok is false when there is
// no larger one; b stays with the caller then.
func (p *Pool) Grow(b *Buffer, n int) (larger *Buffer, ok bool) {
	if b.size == huge {
		return b, false
	}
	larger = p.Lend(b.size + 1)
	copy(larger.B, b.B[:n])
	p.Return(b)
	return larger, true
}

// Begin takes a request whose head lies in a buffer as a whole, n octets of it; the buffer is the Reader's from then on. body
// says that a body follows, whose length is what the head says or else told by the end of the source: the source gives its
// content alone, without chunks. Errors are those of Request.
func (r *Reader) Begin(q *Request, head *Buffer, n int, body bool) error {
	r.Release()
	q.reset()
	r.held = head
	r.body.reset(Length{})
	done, err := q.parse(head.B[:n], &r.lim)
	switch {
	case err != nil:
		q.raw = head.B[:n]
		return err
	case !done:
		q.raw = head.B[:n]
		return ErrStartLine
	}
	if body && q.Length.Kind == None && !q.WebSocket {
		q.Length = Length{Kind: Chunked} // to an origin of HTTP/1.1 it goes in chunks
		q.Continue = q.Has(Expect)
	}
	of := q.Length
	if of.Kind == Chunked {
		of.Kind = UntilClose // of the source
	}
	r.body.reset(of)
	return nil
}

// SetTrailer names the trailer fields of a body that Begin began, as lines with an empty one at their end.
func (r *Reader) SetTrailer(lines []byte) {
	r.body.chunks.trailer = append(r.body.chunks.trailer[:0], lines...)
}

// Preload gives the part of a body that was there when its head was: n octets in a buffer, which is the Reader's from then
// on (nil: none); end says that it is all of the body.
func (r *Reader) Preload(b *Buffer, n int, end bool) {
	r.buf, r.r, r.w = b, 0, n
	if end && r.body.kind == UntilClose {
		r.body.reset(Length{Kind: Sized, N: int64(n)})
	}
}

package h1

import "io"

// Reader reads the messages of one connection, one after the other: a head, then its body to the end, then the next head.
// It is for one goroutine at a time.
type Reader struct {
	src  Source
	pool *Pool
	lim  Limits
	size Size // of the buffer that a head is awaited in

	buf  *Buffer // nil: nothing is buffered
	r, w int     // of buf, what is not read yet
	held *Buffer // the buffer that the last head lies in; it may be buf
	body body
	wide bool // bodies are read by the large buffer: much comes at once
}

// NewReader makes a Reader of requests (size Small) or of responses, whose bodies come with their heads (Large).
func NewReader(src Source, pool *Pool, lim Limits, size Size) *Reader {
	return &Reader{src: src, pool: pool, lim: lim.withDefaults(), size: size}
}

// Buffered is how many octets have been read from the connection and belong to nothing yet.
func (r *Reader) Buffered() int { return r.w - r.r }

// Await waits until there is at least one octet of the next message, and holds no buffer meanwhile. The last head is
// gone. io.EOF is a connection that ended between two messages.
func (r *Reader) Await() error {
	r.Release()
	if r.r < r.w {
		return nil
	}
	return r.fill(r.size)
}

// fill reads into an empty reader.
func (r *Reader) fill(size Size) (err error) {
	if r.buf != r.held {
		r.pool.Return(r.buf)
	}
	r.buf, r.r, r.w = nil, 0, 0
	r.buf, r.w, err = r.src.ReadLent(r.pool, size)
	return err
}

// Release ends the use of the last head: it is gone then.
func (r *Reader) Release() {
	if r.held != r.buf {
		r.pool.Return(r.held)
	}
	r.held = nil
	if r.r == r.w {
		r.pool.Return(r.buf)
		r.buf, r.r, r.w = nil, 0, 0
	}
}

// Detach copies a head out of the buffer it lies in, and gives that back: for messages that last long.
func (r *Reader) Detach(h *Head) {
	if r.held == nil {
		return
	}
	h.raw = append(make([]byte, 0, len(h.raw)), h.raw...)
	r.Release()
}

// Request reads the head of the next request. The errors that are not of the connection are *Error; no further request
// can be read then, and of this one there is what was read. io.EOF is a connection that ended between two requests.
func (r *Reader) Request(q *Request) error {
	q.reset()
	if err := r.Await(); err != nil {
		return err
	}
	if err := r.skipEmptyLine(); err != nil {
		return err
	}
	for {
		done, err := q.parse(r.buf.B[r.r:r.w], &r.lim)
		if done && err == nil {
			r.taken(q.Size())
			r.begin(q.Length)
			return nil
		}
		if err == nil {
			err = r.more()
		}
		if err != nil {
			q.raw = r.buf.B[r.r:r.w] // what is known of it, for the log
			return err
		}
	}
}

// Response reads the head of the next response; bodiless says that it answers HEAD. io.EOF is a connection that ended
// before the first octet.
func (r *Reader) Response(p *Response, bodiless bool) error {
	p.reset()
	if err := r.Await(); err != nil {
		return err
	}
	for {
		done, err := p.parse(r.buf.B[r.r:r.w], &r.lim, bodiless)
		if err != nil {
			return err
		}
		if done {
			r.taken(p.Size())
			r.begin(p.Length)
			return nil
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

// begin begins a body. One of unknown length is taken for a stream of small parts until more than that comes: many streams that
// each get a part at the same moment would need a large buffer each.
func (r *Reader) begin(l Length) {
	r.body.reset(l)
	r.wide = l.Kind == Sized
}

// fillBody reads a part of a body into an empty reader.
func (r *Reader) fillBody() error {
	size := Small
	if r.wide {
		size = Large
	}
	err := r.fill(size)
	r.wide = r.w >= smallBuffer || r.body.kind == Sized
	return err
}

func (r *Reader) taken(n int) {
	r.held = r.buf
	r.r += n
}

// skipEmptyLine passes over one empty line before a request, which old clients send after a body (RFC 9112 section 2.2).
func (r *Reader) skipEmptyLine() error {
	if r.buf.B[r.r] != '\r' {
		return nil
	}
	for r.w-r.r < 2 {
		if err := r.more(); err != nil {
			return err
		}
	}
	if r.buf.B[r.r+1] != '\n' {
		return ErrStartLine
	}
	if r.r += 2; r.r == r.w {
		return r.more()
	}
	return nil
}

// more reads more of a head that has begun. It makes room when there is none.
func (r *Reader) more() error {
	if r.w == len(r.buf.B) {
		r.grow()
	}
	n, err := r.src.Read(r.buf.B[r.w:])
	r.w += n
	switch {
	case n > 0:
		return nil
	case err == io.EOF:
		return ErrCut
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

// grow moves what is buffered to the beginning of the buffer, or to a larger one. The limits keep a head below the size
// of the largest.
func (r *Reader) grow() {
	old := r.buf
	if r.r == 0 {
		r.buf = r.pool.Lend(old.size + 1)
	}
	r.w = copy(r.buf.B, old.B[r.r:r.w])
	r.r = 0
	if r.buf != old {
		r.pool.Return(old)
	}
}

// Next gives the next part of the body, which is valid until the next call. It reads from the connection once at most, and
// never when something is buffered. io.EOF is the end of the body; a connection that ends before it is ErrCut.
func (r *Reader) Next() ([]byte, error) {
	for {
		if r.body.done {
			return nil, io.EOF
		}
		if r.r < r.w {
			part, err := r.decode()
			if err != nil || len(part) > 0 {
				return part, err
			}
			continue
		}
		if err := r.fillBody(); err != nil {
			return nil, r.body.ended(err)
		}
	}
}

// Ready gives the part of the body that is buffered already, nil if nothing is. It never reads from the connection.
func (r *Reader) Ready() ([]byte, error) {
	if r.body.done || r.r == r.w {
		return nil, nil
	}
	return r.decode()
}

// decode takes the part of the body that is buffered. With the last one the trailer is judged, whoever asks for it later:
// what is no field there is read as another message by some.
func (r *Reader) decode() ([]byte, error) {
	n, used, err := r.body.decode(r.buf.B[r.r:r.w], r.lim.Field)
	part := r.buf.B[r.r : r.r+n]
	r.r += used
	if err == nil && r.body.done && len(r.body.chunks.trailer) > 0 {
		var h Head
		err = r.Trailer(&h)
	}
	return part, err
}

// Take gives all that is buffered, whatever it is, when the connection is no more HTTP. It is valid until the next call.
func (r *Reader) Take() []byte {
	if r.r == r.w {
		return nil
	}
	all := r.buf.B[r.r:r.w]
	r.r = r.w
	return all
}

// Done reports whether the body has been read to its end.
func (r *Reader) Done() bool { return r.body.done }

// Trailer reads the trailer fields of a chunked body that has been read to its end.
func (r *Reader) Trailer(h *Head) error {
	h.reset()
	raw := r.body.chunks.trailer
	if len(raw) == 0 {
		return nil
	}
	s := scanner{lines: 1}
	if _, err := h.readFields(raw, &s, &r.lim); err != nil {
		return ErrTrailer
	}
	return nil
}

// Close gives all buffers back. It does not close the connection.
func (r *Reader) Close() {
	r.r = r.w
	r.Release()
}

package h1

import "io"

// body is the place in the body of a message.
type body struct {
	kind   Kind
	left   int64 // octets still to come, with Sized
	done   bool
	chunks chunks
}

func (b *body) reset(l Length) {
	b.kind, b.left, b.done = l.Kind, l.N, l.Kind == None || l.Kind == Sized && l.N == 0
	b.chunks.reset()
}

// decode takes what was read. The content in it then lies at its beginning, n octets of it; used octets were taken.
func (b *body) decode(p []byte, maxTrailer int) (n, used int, err error) {
	switch b.kind {
	case Chunked:
		n, used, b.done, err = b.chunks.decode(p, maxTrailer)
		return n, used, err
	case Sized:
		n = int(min(b.left, int64(len(p))))
		b.left -= int64(n)
		b.done = b.left == 0
		return n, n, nil
	case None, UntilClose:
	}
	return len(p), len(p), nil
}

// ended is what an error of the connection means to the body.
func (b *body) ended(err error) error {
	if err != io.EOF {
		return err
	}
	if b.kind == UntilClose {
		b.done = true
		return io.EOF
	}
	return ErrCut
}

package h1

import "bytes"

// chunkState is where in a chunked body the next octet stands (RFC 9112 section 7.1).
type chunkState uint8

const (
	inSize chunkState = iota
	inExtension
	atSizeLF
	inData
	atDataCR
	atDataLF
	inTrailer
	atEnd
)

const (
	// maxSizeDigits keeps a chunk size within an int64; zeros before it count.
	maxSizeDigits = 15
	// maxExtensions bounds the extensions of a whole body: nothing reads them, so a sender of more wastes our time.
	maxExtensions = 4 << 10
)

// chunks is the place in a chunked body.
type chunks struct {
	state      chunkState
	digits     int   // of the size that is being read
	left       int64 // of the chunk; while its size is read, the size so far
	extensions int   // octets of extensions up to here
	trailer    []byte
	line       int // where the line of the trailer begins that is being read
}

func (c *chunks) reset() {
	*c = chunks{trailer: c.trailer[:0]}
}

// decode takes octets of the body and moves the content among them to their beginning, n octets. used is how many octets
// were taken: all, unless the body ended.
func (c *chunks) decode(b []byte, maxTrailer int) (n, used int, done bool, err error) {
	for used < len(b) && c.state != atEnd {
		switch c.state {
		case inData:
			m := int(min(c.left, int64(len(b)-used)))
			if n != used {
				copy(b[n:], b[used:used+m])
			}
			n, used = n+m, used+m
			if c.left -= int64(m); c.left == 0 {
				c.state = atDataCR
			}
		case inTrailer:
			m, err := c.addTrailer(b[used:], maxTrailer)
			used += m
			if err != nil {
				return n, used, false, err
			}
		default:
			if err := c.frame(b[used]); err != nil {
				return n, used, false, err
			}
			used++
		}
	}
	return n, used, c.state == atEnd, nil
}

// frame takes one octet of what is around the content.
func (c *chunks) frame(o byte) error {
	switch c.state {
	case inSize:
		return c.size(o)
	case inExtension:
		return c.extension(o)
	case atSizeLF:
		if o != '\n' {
			return ErrChunkSize
		}
		c.state = inData
		if c.left == 0 {
			c.state = inTrailer
		}
	case atDataCR:
		if o != '\r' {
			return ErrChunkEnd
		}
		c.state = atDataLF
	case atDataLF:
		if o != '\n' {
			return ErrChunkEnd
		}
		c.state, c.digits = inSize, 0
	case inData, inTrailer, atEnd: // decode has them
	}
	return nil
}

func (c *chunks) size(o byte) error {
	switch {
	case octets[o]&hexOctet != 0:
		if c.digits++; c.digits > maxSizeDigits {
			return ErrChunkSize
		}
		c.left = c.left<<4 | int64(unhex(o))
		return nil
	case c.digits == 0:
		return ErrChunkSize
	case o == '\r':
		c.state = atSizeLF
		return nil
	case o == ';':
		c.state = inExtension
		return nil
	}
	return ErrChunkSize // white space too: some programs end the size there, some do not
}

// extension passes over an extension. It is never passed on, so it need only be free of what others end a line at.
func (c *chunks) extension(o byte) error {
	c.extensions++
	switch {
	case c.extensions > maxExtensions, o < ' ' && o != '\t' && o != '\r', o == 0x7f:
		return ErrChunkExt
	case o == '\r':
		c.state = atSizeLF
	}
	return nil
}

func unhex(o byte) byte {
	if o <= '9' {
		return o - '0'
	}
	return (o | 0x20 - 'a') + 10
}

// addTrailer takes what follows the last chunk up to the end of a line.
func (c *chunks) addTrailer(b []byte, limit int) (used int, err error) {
	i := bytes.IndexByte(b, '\n')
	used = i + 1
	if i < 0 {
		used = len(b)
	}
	if len(c.trailer)+used > limit {
		return 0, ErrTrailers
	}
	c.trailer = append(c.trailer, b[:used]...)
	if i < 0 {
		return used, nil
	}
	line := c.trailer[c.line:]
	c.line = len(c.trailer)
	switch {
	case len(line) < 2 || line[len(line)-2] != '\r':
		return used, ErrBareLF
	case len(line) > 2:
		return used, nil
	case len(c.trailer) == 2: // there are no fields
		c.trailer = c.trailer[:0]
	}
	c.state = atEnd
	return used, nil
}

const hexDigits = "0123456789abcdef"

// AppendChunkSize appends what comes before a chunk of n octets. CRLF follows the chunk.
func AppendChunkSize(dst []byte, n int) []byte {
	var digits [16]byte
	i := len(digits)
	for {
		i--
		digits[i] = hexDigits[n&0xF]
		if n >>= 4; n == 0 {
			break
		}
	}
	dst = append(dst, digits[i:]...)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the end of a chunked body, with those fields of trailer that keep accepts; trailer nil: none.
func AppendLastChunk(dst []byte, trailer *Head, keep func(*Head, int) bool) []byte {
	dst = append(dst, "0\r\n"...)
	if trailer != nil && trailer.Len() > 0 {
		dst = trailer.AppendFields(dst, keep)
	}
	return append(dst, "\r\n"...)
}

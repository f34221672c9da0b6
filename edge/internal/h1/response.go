package h1

// Response is the head of a response. Its zero value is ready for Reader.Response, again and again.
type Response struct {
	Head
	// Minor is the minor version: 0 or 1.
	Minor int
	// Status is the status code, 100 to 999.
	Status int
	// Length is how the body ends.
	Length Length
	// KeepAlive says that the connection can take another request when the body has been read to its end.
	KeepAlive bool

	reason span
	scan   scanner
}

// Reason is the text after the status, as it was sent; often empty.
func (r *Response) Reason() []byte { return r.text(r.reason) }

// Informational reports whether another response follows this one. 101 is none of those: what follows it is not HTTP.
func (r *Response) Informational() bool { return r.Status < 200 && r.Status != 101 }

func (r *Response) reset() {
	fields, named := r.fields, r.named
	*r = Response{}
	r.fields, r.named = fields, named
	r.Head.reset()
}

// parse goes on with the head as far as it is there. bodiless says that it answers HEAD.
func (r *Response) parse(raw []byte, lim *Limits, bodiless bool) (done bool, err error) {
	if r.scan.lines == 0 {
		line, ok, err := r.scan.next(raw, lim)
		if err != nil || !ok {
			return false, err
		}
		if err := r.statusLine(raw, line); err != nil {
			return false, err
		}
	}
	if done, err := r.readFields(raw, &r.scan, lim); !done || err != nil {
		return done, err
	}
	return true, r.judge(bodiless)
}

// statusLine reads HTTP/1.1 200 OK. The space after the status may be missing with the reason, as of many servers.
func (r *Response) statusLine(raw []byte, line span) error {
	b := raw[line.from:line.to]
	const before, upTo = len("HTTP/1.1 "), len("HTTP/1.1 200")
	if len(b) < upTo || b[before-1] != ' ' || len(b) > upTo && b[upTo] != ' ' {
		return ErrStatusLine
	}
	minor, err := version(b[:before-1])
	if err != nil {
		return ErrStatusLine
	}
	status, ok := decimal(b[before:upTo])
	if !ok || status < 100 || !clean(b[upTo:]) {
		return ErrStatusLine
	}
	r.Minor, r.Status = minor, int(status)
	r.reason = span{line.from + uint32(min(upTo+1, len(b))), line.to}
	return nil
}

// judge finds the length of the body (RFC 9112 section 6.3).
func (r *Response) judge(bodiless bool) (err error) {
	if err := r.connection(); err != nil {
		return err
	}
	if r.Length, err = r.length(r.Minor); err != nil {
		return err
	}
	r.KeepAlive = !r.closes && (r.Minor == 1 || r.keeps)
	switch {
	case r.Status < 200 || r.Status == 204:
		if r.Length.Kind == Chunked {
			return ErrCodingStatus
		}
		// A length here promises octets that are not part of the message, and some servers send them.
		r.KeepAlive = r.KeepAlive && r.Length.N == 0
		r.Length = Length{}
	case bodiless || r.Status == 304:
		r.Length = Length{}
	case r.Length.Kind == None:
		r.Length = Length{Kind: UntilClose}
		r.KeepAlive = false
	}
	return nil
}

// Announced is the Content-Length of the head, a number; nil: there is none. A response to HEAD and a 304 have one without
// having a body.
func (r *Response) Announced() []byte { return r.Get(ContentLength) }

package h1

// This file is for responses that come in another form than that of HTTP/1.1, such as HTTP/2. They are written as heads of
// HTTP/1.1 and judged as those: so there is one judge, and all that reads a response reads it in one form.

// Parse takes the head of a response that lies in raw as a whole; bodiless says that it answers HEAD. raw is the head's from then
// on. Errors are *Error.
func (r *Response) Parse(raw []byte, lim Limits, bodiless bool) error {
	r.reset()
	lim = lim.withDefaults()
	done, err := r.parse(raw, &lim, bodiless)
	if err == nil && !done {
		err = ErrStatusLine
	}
	return err
}

// ParseTrailer takes trailer fields as lines, with an empty one at their end; without any octet there are none.
func (h *Head) ParseTrailer(raw []byte, lim Limits) error {
	h.reset()
	if len(raw) == 0 {
		return nil
	}
	lim = lim.withDefaults()
	s := scanner{lines: 1}
	if done, err := h.readFields(raw, &s, &lim); err != nil || !done {
		return ErrTrailer
	}
	return nil
}

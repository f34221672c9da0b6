package affinity

import "bytes"

// Fields is a head's fields; see rules.Fields.
type Fields interface {
	Field(name string, n int) (value []byte, ok bool)
}

// Value finds the session cookie of a request: that of Name, or else that of NameCORS; nil: there is none. Of several of
// one name the first counts, as it is of the longest path (RFC 6265 section 5.4).
func Value(head Fields) []byte {
	if v, ok := cookie(head, Name); ok {
		return v
	}
	v, _ := cookie(head, NameCORS)
	return v
}

func cookie(head Fields, name string) ([]byte, bool) {
	for n := 0; ; n++ {
		line, ok := head.Field("cookie", n)
		if !ok {
			return nil, false
		}
		if v, ok := Pair(line, name); ok {
			return v, true
		}
	}
}

// Pair finds the value of the first cookie of a name in one Cookie field. Names of cookies are compared with their case.
func Pair(line []byte, name string) (value []byte, ok bool) {
	for len(line) > 0 {
		pair := line
		if i := bytes.IndexByte(line, ';'); i >= 0 {
			pair, line = line[:i], line[i+1:]
		} else {
			line = nil
		}
		pair = bytes.Trim(pair, " \t")
		if i := bytes.IndexByte(pair, '='); i >= 0 && string(pair[:i]) == name {
			return bytes.Trim(pair[i+1:], `"`), true
		}
	}
	return nil, false
}

// AppendSetCookie appends the value of a Set-Cookie field for one of the two names. domain is the parent of the wildcard
// domain whose sub-domains share the session; "": the host alone. It is a session cookie: it ends with the browser's.
func AppendSetCookie(dst []byte, name string, value []byte, domain string) []byte {
	dst = append(append(append(dst, name...), '='), value...)
	if domain != "" {
		dst = append(append(dst, "; Domain="...), domain...)
	}
	dst = append(dst, "; Path=/; HttpOnly"...)
	if name == NameCORS {
		return append(dst, "; SameSite=None; Secure"...)
	}
	return append(dst, "; SameSite=Lax"...)
}

// Response is what decides whether a response may establish a session.
type Response struct {
	Method []byte // of the request
	Status int
	// Authorization: the request has the field, or the response has it.
	Authorization bool
	Head          Fields
	// Stored: the response comes from our cache, or goes into it.
	Stored bool
}

// MayEstablish reports whether a response may carry a new session cookie: one that a cache would give to other visitors
// must not. It is true for Cache-Control no-store, private or no-cache, for Authorization, for 302, and for whatever no
// cache may keep; never for 304, which would change a stored response, and never for what we store.
func MayEstablish(r Response) bool {
	switch {
	case r.Stored || r.Status == 304:
		return false
	case r.Authorization || r.Status == 302:
		return true
	case private(r.Head):
		return true
	}
	return !cacheable(r)
}

// private reports whether Cache-Control says that the response is for one visitor, or for no cache.
func private(head Fields) bool {
	return has(head, "no-store") || has(head, "private") || has(head, "no-cache")
}

// has reports whether a Cache-Control directive is there, with an argument or without.
func has(head Fields, directive string) bool {
	if head == nil {
		return false
	}
	for n := 0; ; n++ {
		line, ok := head.Field("cache-control", n)
		if !ok {
			return false
		}
		for len(line) > 0 {
			part := line
			if i := bytes.IndexByte(line, ','); i >= 0 {
				part, line = line[:i], line[i+1:]
			} else {
				line = nil
			}
			if i := bytes.IndexByte(part, '='); i >= 0 {
				part = part[:i]
			}
			if bytes.EqualFold(bytes.Trim(part, " \t"), []byte(directive)) {
				return true
			}
		}
	}
}

// cacheable reports whether a cache may keep a response, by an explicit lifetime or by its status alone (RFC 9111
// section 3, RFC 9110 section 15.1). A method that is not GET or HEAD, and Vary: *, keep it from being used again.
func cacheable(r Response) bool {
	if m := string(r.Method); m != "GET" && m != "HEAD" {
		return false
	}
	if r.Head != nil {
		if v, ok := r.Head.Field("vary", 0); ok && string(bytes.Trim(v, " \t")) == "*" {
			return false
		}
		if has(r.Head, "max-age") || has(r.Head, "s-maxage") || has(r.Head, "public") {
			return true
		}
		if _, ok := r.Head.Field("expires", 0); ok {
			return true
		}
	}
	switch r.Status {
	case 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

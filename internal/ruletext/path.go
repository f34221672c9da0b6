package ruletext

import (
	"bytes"
	"errors"
)

// ErrPath says that a path is none that can be matched: it does not start with a slash, or holds a broken escape.
var ErrPath = errors.New("path of the request")

// CleanPath gives the one form of a path (RFC 3986 section 6.2.2): escapes of characters that need none are resolved, others
// are in upper case, dot segments are gone, and a backslash, which some origins take for a slash, is escaped. An escaped
// slash stays escaped, and slashes in a row stay as many as they are. What is matched is what is forwarded, so that no two
// programs read a path differently.
//
// path is raw itself where nothing changed; else it is appended to dst[:0]. raw is without the query.
func CleanPath(dst, raw []byte) (path []byte, err error) {
	if len(raw) == 0 || raw[0] != '/' {
		return nil, ErrPath
	}
	if plain(raw) {
		return raw, nil
	}
	dst = dst[:0]
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '%':
			if i+2 >= len(raw) || !hex(raw[i+1]) || !hex(raw[i+2]) {
				return nil, ErrPath
			}
			d := value(raw[i+1])<<4 | value(raw[i+2])
			i += 2
			switch {
			case d == 0:
				return nil, ErrPath
			case unreserved(d):
				dst = append(dst, d)
			default:
				dst = append(dst, '%', upper(raw[i-1]), upper(raw[i]))
			}
		case c == '\\':
			dst = append(dst, "%5C"...)
		default:
			dst = append(dst, c)
		}
	}
	return dots(dst), nil
}

// plain reports whether a path is in its one form for certain.
func plain(raw []byte) bool {
	for i, c := range raw {
		if c == '%' || c == '\\' || c == '.' && raw[i-1] == '/' { // raw[0] is a slash
			return false
		}
	}
	return true
}

// dots removes dot segments in place (RFC 3986 section 5.2.4). A path never grows by it.
func dots(p []byte) []byte {
	out := p[:0]
	for len(p) > 0 {
		// p starts with a slash; the segment is what follows it.
		end := bytes.IndexByte(p[1:], '/') + 1
		last := end == 0
		if last {
			end = len(p)
		}
		switch segment := p[1:end]; {
		case len(segment) == 1 && segment[0] == '.':
			if last {
				out = append(out, '/')
			}
		case len(segment) == 2 && segment[0] == '.' && segment[1] == '.':
			out = out[:max(bytes.LastIndexByte(out, '/'), 0)]
			if last {
				out = append(out, '/')
			}
		default:
			out = append(out, p[:end]...)
		}
		p = p[end:]
	}
	if len(out) == 0 {
		out = append(out, '/')
	}
	return out
}

func hex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func value(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}

// unreserved characters mean the same escaped or not (RFC 3986 section 2.3).
func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

package rules

import "bytes"

// scratch holds the values of one run that are made and not found.
type scratch struct {
	value, changed, other []byte
}

// of is a text as bytes.
func (s *scratch) of(text string) []byte {
	s.value = append(s.value[:0], text...)
	return s.value
}

// transform changes s.changed and gives it back. A broken escape stays as it is.
func transform(s *scratch, name string) []byte {
	v := s.changed
	switch name {
	case "lowercase":
		for i, c := range v {
			if c >= 'A' && c <= 'Z' {
				v[i] = c + 'a' - 'A'
			}
		}
	case "uppercase":
		for i, c := range v {
			if c >= 'a' && c <= 'z' {
				v[i] = c + 'A' - 'a'
			}
		}
	case "trim":
		trimmed := bytes.Trim(v, " \t\r\n")
		return v[:copy(v, trimmed)]
	case "removeNulls":
		out := v[:0]
		for _, c := range v {
			if c != 0 {
				out = append(out, c)
			}
		}
		return out
	case "urlDecode":
		return decode(v)
	case "urlEncode":
		s.other = s.other[:0]
		for _, c := range v {
			s.other = appendEscaped(s.other, c)
		}
		return append(v[:0], s.other...)
	}
	return v
}

// decode resolves escapes in place; + stays a plus, as in a path.
func decode(v []byte) []byte {
	out := v[:0]
	for i := 0; i < len(v); i++ {
		if v[i] == '%' && i+2 < len(v) {
			hi, ok1 := digit(v[i+1])
			lo, ok2 := digit(v[i+2])
			if ok1 && ok2 {
				out = append(out, hi<<4|lo)
				i += 2
				continue
			}
		}
		out = append(out, v[i])
	}
	return out
}

func digit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// appendEscaped escapes all but what needs none anywhere (RFC 3986 section 2.3).
func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789ABCDEF"
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c == '~':
		return append(dst, c)
	}
	return append(dst, '%', hex[c>>4], hex[c&15])
}

// appendPath escapes what ends a path or cannot stand in one: what a variable brings must not become a query.
func appendPath(dst, path []byte) []byte {
	for _, c := range path {
		if c <= ' ' || c >= 0x7f || c == '?' || c == '#' {
			dst = appendEscaped(dst, c)
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

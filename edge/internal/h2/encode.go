package h2

import (
	"bytes"

	"steerpoint/edge/internal/h1"
)

// staticNames are the names of fields in HPACK's static table that responses have (RFC 7541 appendix A).
var staticNames = map[string]byte{
	"accept-ranges": 18, "access-control-allow-origin": 20, "age": 21, "allow": 22, "cache-control": 24, "content-disposition": 25,
	"content-encoding": 26, "content-language": 27, "content-length": 28, "content-location": 29, "content-range": 30, "content-type": 31,
	"date": 33, "etag": 34, "expires": 36, "last-modified": 44, "link": 45, "location": 46, "proxy-authenticate": 48, "refresh": 52,
	"retry-after": 53, "server": 54, "set-cookie": 55, "strict-transport-security": 56, "vary": 59, "via": 60, "www-authenticate": 61,
}

const (
	statusName = 8    // of :status in the static table
	indexed    = 0x80 // a name and its value in the table
	plain      = 0x00 // a value that is not to be kept
	never      = 0x10 // a value that nobody on the way may keep either
)

// appendStatus encodes a status, its three digits.
func appendStatus(dst, digits []byte) []byte {
	switch string(digits) {
	case "200":
		return append(dst, indexed|8)
	case "204":
		return append(dst, indexed|9)
	case "206":
		return append(dst, indexed|10)
	case "304":
		return append(dst, indexed|11)
	case "400":
		return append(dst, indexed|12)
	case "404":
		return append(dst, indexed|13)
	case "500":
		return append(dst, indexed|14)
	}
	dst = append(dst, plain|statusName)
	return appendString(dst, digits)
}

// appendInt encodes an integer with a prefix of bits (RFC 7541 section 5.1); first is what stands before it.
func appendInt(dst []byte, first byte, bits uint, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

func appendString(dst, s []byte) []byte {
	return append(appendInt(dst, 0, 7, len(s)), s...)
}

// appendField encodes a field. Its name becomes lower-case.
func appendField(dst, name, value []byte) []byte {
	var room [64]byte
	low := room[:0]
	for _, o := range name {
		if 'A' <= o && o <= 'Z' {
			o |= 0x20
		}
		low = append(low, o)
	}
	kind := byte(plain)
	if string(low) == "set-cookie" {
		kind = never
	}
	if i, ok := staticNames[string(low)]; ok {
		dst = appendInt(dst, kind, 4, int(i))
	} else {
		dst = appendString(append(dst, kind), low)
	}
	return appendString(dst, value)
}

// connectionField reports whether a field is about a connection of HTTP/1.1, and has no place in HTTP/2 (RFC 9113 section
// 8.2.2).
func connectionField(name []byte) bool {
	switch len(name) {
	case len("upgrade"):
		return bytes.EqualFold(name, []byte("upgrade"))
	case len("connection"), len("proxy-connection"), len("transfer-encoding"):
		for _, n := range [...]string{"connection", "keep-alive", "proxy-connection", "transfer-encoding"} {
			if bytes.EqualFold(name, []byte(n)) {
				return true
			}
		}
	}
	return false
}

// appendResponse encodes a head of HTTP/1.1 that we wrote: the status line, and fields as "Name: value".
func appendResponse(dst, head []byte) []byte {
	const before, upTo = len("HTTP/1.1 "), len("HTTP/1.1 200")
	dst = appendStatus(dst, head[before:upTo])
	return appendLines(dst, head[bytes.IndexByte(head, '\n')+1:])
}

// appendLines encodes fields as lines, up to the empty one.
func appendLines(dst, lines []byte) []byte {
	for {
		end := bytes.IndexByte(lines, '\n')
		if end <= 1 {
			return dst
		}
		line := lines[:end-1]
		lines = lines[end+1:]
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || colon+2 > len(line) || connectionField(line[:colon]) {
			continue
		}
		dst = appendField(dst, line[:colon], line[colon+2:])
	}
}

// appendTrailer encodes those trailer fields that keep accepts. n is how many they were.
func appendTrailer(dst []byte, h *h1.Head, keep func(*h1.Head, int) bool) (block []byte, n int) {
	for i := range h.Len() {
		if keep(h, i) && !h.Hop(i) && !connectionField(h.Name(i)) {
			dst = appendField(dst, h.Name(i), h.Value(i))
			n++
		}
	}
	return dst, n
}

// appendHeaders appends a header block, in as many frames as it takes; block must not lie in dst.
func appendHeaders(dst []byte, stream uint32, block []byte, end bool) []byte {
	flags := uint8(0)
	if end {
		flags = flagEndStream
	}
	kind := frameHeaders
	for {
		n := min(len(block), maxFrame)
		if n == len(block) {
			flags |= flagEndHeaders
		}
		dst = appendFrame(dst, n, kind, flags, stream)
		dst = append(dst, block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return dst
		}
		kind, flags = frameContinuation, 0
	}
}

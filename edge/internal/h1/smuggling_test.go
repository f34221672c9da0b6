package h1

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// hidden is the request that each case tries to get past the gateway.
const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"

// smuggling are the ways in which two programs come to see a different number of requests in the same octets. None of them
// gets past the reader: want is the fault, and nothing after it is read.
//
// also is what net/http does with it where it takes the first message, and why we do not.
var smuggling = []struct {
	name, data string
	want       *Error
	also       string
}{
	{"length and chunks", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, ErrLengthCoding, "takes the chunks and drops the length; who sends both is wrong or up to something"},
	{"chunks and length", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden, ErrLengthCoding, "as above"},
	{"chunks and length 0", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n" + hidden, ErrLengthCoding, "as above"},
	{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef" + hidden, ErrLengthMany, ""},
	{"one length twice", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nabcde" + hidden, ErrLengthMany, "takes it once, as it may (RFC 9112 section 6.3); no client needs it"},
	{"a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"an empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n" + hidden, ErrLength, ""},
	{"an empty length and another", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\nContent-Length: 5\r\n\r\nabcde" + hidden, ErrLengthMany, ""},
	{"a length with a sign", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a negative length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length in hexadecimal", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length with a point", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length with a space in it", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 0\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length with an underscore", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length beyond 64 bits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length of 19 digits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length in other digits", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \xd9\xa5\r\n\r\nabcde" + hidden, ErrLength, ""},
	{"a length with NUL", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\x00\r\n\r\nabcde" + hidden, ErrFieldValue, ""},
	{"a space before the colon", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nabcde" + hidden, ErrFieldName, "leaves it to its server, which refuses it; without that the body is the next request"},
	{"a tab before the colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" + hidden, ErrFieldName, ""},
	{"a space before the name", "POST / HTTP/1.1\r\n Content-Length: 5\r\nHost: a\r\n\r\nabcde" + hidden, ErrFold, ""},
	{"a folded length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 5\r\n\r\nabcde" + hidden, ErrFold, "joins the lines; nobody sends them since 2014 (RFC 7230)"},
	{"a folded coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n" + hidden, ErrFold, "as above"},
	{"a fold under another field", "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, ErrFold, "as above"},
	{"chunked twice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, ErrCodingMany, ""},
	{"chunked, chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"chunked and a comma", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"a comma and chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"gzip, chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden, ErrCodingUnknown, ""},
	{"chunked, gzip", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"chunked, identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nabcde" + hidden, ErrLengthCoding, ""},
	{"chunked in two fields", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, ErrCodingMany, ""},
	{"xchunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, ErrCodingUnknown, ""},
	{"quoted chunked", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"chunked with a parameter", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"chunked with a vertical tab", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + hidden, ErrFieldValue, ""},
	{"an empty coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n" + hidden, ErrCoding, ""},
	{"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, ErrCodingVersion, "passes over the field, so that the chunks are the next request"},
	{"a bare LF after the first line", "GET / HTTP/1.1\nHost: a\r\n\r\n" + hidden, ErrBareLF, "takes LF for the end of a line, as it may (RFC 9112 section 2.2)"},
	{"a bare LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n" + hidden, ErrBareLF, "as above"},
	{"a bare LF at the end of the head", "GET / HTTP/1.1\r\nHost: a\r\n\n" + hidden, ErrBareLF, "as above"},
	{"a bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: y\rContent-Length: 5\r\n\r\nabcde" + hidden, ErrFieldValue, ""},
	{"a bare CR in the first line", "GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrTargetByte, ""},
	{"NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: y\x00z\r\n\r\n" + hidden, ErrFieldValue, ""},
	{"NUL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\x00: y\r\n\r\n" + hidden, ErrFieldName, ""},
	{"an empty name", "GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n" + hidden, ErrFieldName, ""},
	{"no colon", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length\r\n\r\n" + hidden, ErrFieldName, ""},
	{"an empty chunk size", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a chunk size with 0x", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a chunk size with a sign", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a chunk size with an underscore", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0_5\r\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a chunk size and a space", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, "trims it; some programs read the size and stop there"},
	{"a space and a chunk size", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a chunk size beyond 64 bits", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a chunk size that ends with LF", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a bare CR after a chunk size", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\rXabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"an extension that holds LF", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkExt, ""},
	{"an extension that holds CR", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\rb\r\nabcde\r\n0\r\n\r\n" + hidden, ErrChunkSize, ""},
	{"a chunk longer than its size", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdef\r\n0\r\n\r\n" + hidden, ErrChunkEnd, ""},
	{"a chunk that ends with LF", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\n0\r\n\r\n" + hidden, ErrChunkEnd, ""},
	{"a last chunk that ends with LF", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n" + hidden, ErrBareLF, "takes LF for the end of a line"},
	{"a trailer with a space before the colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX : y\r\n\r\n" + hidden, ErrTrailer, "takes the name with the space"},
	{"a trailer without a colon", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nGET /x HTTP/1.1\r\n\r\n" + hidden, ErrTrailer, ""},
	{"a trailer that begins with CR", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r" + hidden, ErrTrailer, ""},
	{"a bare CR in a trailer", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\r\n\r\n" + hidden, ErrTrailer, ""},
	{"no Host", "GET / HTTP/1.1\r\n\r\n" + hidden, ErrHostMissing, "leaves it to its server, which refuses it"},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + hidden, ErrHostMany, ""},
	{"one Host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n" + hidden, ErrHostMany, ""},
	{"Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n" + hidden, ErrHost, "leaves it to its server, which refuses it"},
	{"Host with a user", "GET / HTTP/1.1\r\nHost: b@a\r\n\r\n" + hidden, ErrHost, "takes it as it is"},
	{"Host with a list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n" + hidden, ErrHost, "leaves it to its server, which refuses it"},
	{"Host with a port that is none", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n" + hidden, ErrHost, "takes it as it is"},
	{"an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n" + hidden, ErrHost, "takes it as it is; nothing can be served under no name"},
	{"a URL of another host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrHostDiffers, "takes that of the URL, as it must (RFC 9112 section 3.2.2); an origin may not"},
	{"a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrTargetByte, "takes it for a part of the path"},
	{"a target that is no path", "GET a HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrTarget, ""},
	{"another scheme", "GET file:///a HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrTarget, "takes any scheme"},
	{"a star", "GET * HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrTarget, "takes it with any method"},
	{"a letter beyond ASCII", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrTargetByte, "takes it; no URL holds it unescaped (RFC 3986)"},
	{"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrStartLine, ""},
	{"a space in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrStartLine, ""},
	{"a space after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n" + hidden, ErrStartLine, ""},
	{"a tab for a space", "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrStartLine, ""},
	{"no version", "GET /\r\nHost: a\r\n\r\n" + hidden, ErrStartLine, ""},
	{"HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n" + hidden, ErrVersion, "leaves it to its server, which refuses it"},
	{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n" + hidden, ErrVersion, "takes it for 1.1"},
	{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n" + hidden, ErrVersion, "leaves it to its server, which refuses it"},
	{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, ErrPreface, "leaves it to its server"},
	{"a version in small letters", "GET / http/1.1\r\nHost: a\r\n\r\n" + hidden, ErrStartLine, ""},
	{"a method that is no token", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrMethod, ""},
	{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n" + hidden, ErrMethodRefused, "is a proxy where its handler wants to be one"},
	{"TRACE", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrMethodRefused, "gives it to its handler; it would show an origin's view of what we add"},
	{"two empty lines", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrStartLine, ""},
	{"an empty line that ends with LF", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" + hidden, ErrBareLF, ""},
	{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + hidden, ErrNotHTTP, ""},
	{"an unknown expectation", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 0\r\n\r\n" + hidden, ErrExpect, "leaves it to its server, which refuses it"},
	{"an upgrade with a body", "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 33\r\n\r\n" + hidden, ErrUpgradeBody, "leaves it to its handler; what of it is the WebSocket nobody agrees on"},
	{"Connection that is no list", "GET / HTTP/1.1\r\nHost: a\r\nConnection: a b\r\n\r\n" + hidden, ErrConnection, "looks for close in it and nothing else"},
}

// stdlib reports how many requests net/http takes, and whether it then refused something.
func stdlib(data string) (n int, refused bool) {
	r := bufio.NewReader(strings.NewReader(data))
	for {
		q, err := http.ReadRequest(r)
		if errors.Is(err, io.EOF) {
			return n, false
		}
		if err != nil {
			return n, true
		}
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return n, true
		}
		n++
	}
}

// Every case is refused with its own reason, however its octets arrive, and the request behind it is never seen. What
// net/http does otherwise is listed, so that we know where we differ and why.
//
// Covers: issue6 smuggling, gateway fault 30, gateway fault 32, gateway fault 33, gateway fault 34, gateway fault 35, gateway fault 36
func TestNothingIsSmuggled(t *testing.T) {
	for _, c := range smuggling {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range []int{0, 1, 3, 7} {
				all := requests(c.data, step, Limits{})
				if got := all[len(all)-1].err; got != error(c.want) || len(all) != 1 {
					t.Fatalf("in steps of %d: %d messages, the last with %v: want one, with %v", step, len(all), got, c.want)
				}
			}
			n, refused := stdlib(c.data)
			if otherwise := n > 0; otherwise != (c.also != "") {
				t.Errorf("net/http took %d requests, then refused %t, and the case says of it %q", n, refused, c.also)
			}
		})
	}
}

// The cases above are as many as were promised.
//
// Covers: issue6 smuggling
func TestSmugglingCasesAreMany(t *testing.T) {
	names := map[string]bool{}
	for _, c := range smuggling {
		names[c.name] = true
	}
	if len(names) < 60 || len(names) != len(smuggling) {
		t.Errorf("%d cases, %d names: want 60 of each at least", len(smuggling), len(names))
	}
}

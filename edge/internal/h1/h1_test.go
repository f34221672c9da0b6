package h1

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

// What must be taken is taken, as it was meant, however its octets arrive.
//
// Covers: issue6 codec
func TestRequestsAreRead(t *testing.T) {
	cases := []struct {
		name, data string
		want       []string
	}{
		{"plain", crlf("GET /a?b=c HTTP/1.1", "Host: example.com", "", ""), []string{`GET /a?b=c|example.com|Host=example.com;|""||keep true|<nil>`}},
		{"an empty line before", "\r\n" + crlf("GET / HTTP/1.1", "Host: a", "", ""), []string{`GET /|a|Host=a;|""||keep true|<nil>`}},
		{"white space around values", crlf("GET / HTTP/1.1", "Host:a", "X: \t y z \t", "", ""), []string{`GET /|a|Host=a;X=y z;|""||keep true|<nil>`}},
		{"an empty value", crlf("GET / HTTP/1.1", "Host: a", "X:", "Y: ", "", ""), []string{`GET /|a|Host=a;X=;Y=;|""||keep true|<nil>`}},
		{"close", crlf("GET / HTTP/1.1", "Host: a", "Connection: x, Close", "", ""), []string{`GET /|a|Host=a;Connection=x, Close;|""||keep false|<nil>`}},
		{"HTTP/1.0", crlf("GET / HTTP/1.0", "", ""), []string{`GET /||||keep false|<nil>`}},
		{"HTTP/1.0 kept", crlf("GET / HTTP/1.0", "Connection: keep-alive", "", ""), []string{`GET /||Connection=keep-alive;|""||keep true|<nil>`}},
		{"with a port", crlf("GET / HTTP/1.1", "Host: a.b:8080", "", ""), []string{`GET /|a.b:8080|Host=a.b:8080;|""||keep true|<nil>`}},
		{"IPv6", crlf("GET / HTTP/1.1", "Host: [2001:db8::1]:80", "", ""), []string{`GET /|2001:db8::1:80|Host=[2001:db8::1]:80;|""||keep true|<nil>`}},
		{"IPv6 alone", crlf("GET / HTTP/1.1", "Host: [::1]", "", ""), []string{`GET /|::1|Host=[::1];|""||keep true|<nil>`}},
		{"a URL", crlf("GET http://A/b HTTP/1.1", "Host: a", "", ""), []string{`GET http://A/b|a|Host=a;|""||keep true|<nil>`}},
		{"a star", crlf("OPTIONS * HTTP/1.1", "Host: a", "", ""), []string{`OPTIONS *|a|Host=a;|""||keep true|<nil>`}},
		{"another method", crlf("M-SEARCH / HTTP/1.1", "Host: a", "", ""), []string{`M-SEARCH /|a|Host=a;|""||keep true|<nil>`}},
		{"a body", crlf("POST / HTTP/1.1", "Host: a", "Content-Length: 5", "", "hello"), []string{`POST /|a|Host=a;Content-Length=5;|"hello"||keep true|<nil>`}},
		{"a length with zeros", crlf("POST / HTTP/1.1", "Host: a", "Content-Length: 005", "", "hello"), []string{`POST /|a|Host=a;Content-Length=005;|"hello"||keep true|<nil>`}},
		{
			"chunks", crlf("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: Chunked", "", "5", "hello", "A;x=\"y\"", "0123456789", "000", "", ""),
			[]string{`POST /|a|Host=a;Transfer-Encoding=Chunked;|"hello0123456789"||keep true|<nil>`},
		},
		{
			"trailers", crlf("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "1", "x", "0", "Sum: 1", "Other: 2", "", ""),
			[]string{`POST /|a|Host=a;Transfer-Encoding=chunked;|"x"|Sum=1;Other=2;|keep true|<nil>`},
		},
		{
			"two in a row", crlf("POST /1 HTTP/1.1", "Host: a", "Content-Length: 3", "", "abcGET /2 HTTP/1.1", "Host: b", "", ""),
			[]string{`POST /1|a|Host=a;Content-Length=3;|"abc"||keep true|<nil>`, `GET /2|b|Host=b;|""||keep true|<nil>`},
		},
		{
			"chunks and another", crlf("POST /1 HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "0", "", "GET /2 HTTP/1.1", "Host: b", "", ""),
			[]string{`POST /1|a|Host=a;Transfer-Encoding=chunked;|""||keep true|<nil>`, `GET /2|b|Host=b;|""||keep true|<nil>`},
		},
		{"a body that is cut", crlf("POST / HTTP/1.1", "Host: a", "Content-Length: 5", "", "hel"), []string{`POST /|a|Host=a;Content-Length=5;|"hel"||keep true|` + ErrCut.Error()}},
		{"chunks that are cut", crlf("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "5", "hel"), []string{`POST /|a|Host=a;Transfer-Encoding=chunked;|"hel"||keep true|` + ErrCut.Error()}},
		{"a head that is cut", crlf("GET / HTTP/1.1", "Host: a", ""), []string{`|||""||keep false|` + ErrCut.Error()}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for step := range 12 {
				var got []string
				for _, m := range requests(c.data, step, Limits{}) {
					got = append(got, m.String())
				}
				if want := strings.ReplaceAll(strings.Join(c.want, "\n"), "||||", `|||""||`); strings.Join(got, "\n") != want {
					t.Errorf("in steps of %d:\n got %s\nwant %s", step, strings.Join(got, "\n"), want)
				}
			}
		})
	}
}

// A response has the length that RFC 9112 section 6.3 gives it, or is refused.
//
// Covers: issue6 codec, gateway fault 34
func TestResponsesAreRead(t *testing.T) {
	cases := []struct {
		name, data string
		bodiless   bool
		want       string
	}{
		{"sized", crlf("HTTP/1.1 200 OK", "Content-Length: 2", "", "hi"), false, `200 OK||Content-Length=2;|"hi"||keep true|<nil>`},
		{"no reason", crlf("HTTP/1.1 200 ", "Content-Length: 0", "", ""), false, `200 ||Content-Length=0;|""||keep true|<nil>`},
		{"no space", crlf("HTTP/1.1 200", "Content-Length: 0", "", ""), false, `200 ||Content-Length=0;|""||keep true|<nil>`},
		{"until the end", crlf("HTTP/1.1 200 OK", "", "all of this"), false, `200 OK|||"all of this"||keep false|<nil>`},
		{"chunked", crlf("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "2", "hi", "0", "T: 1", "", ""), false, `200 OK||Transfer-Encoding=chunked;|"hi"|T=1;|keep true|<nil>`},
		{"of HEAD", crlf("HTTP/1.1 200 OK", "Content-Length: 2", "", ""), true, `200 OK||Content-Length=2;|""||keep true|<nil>`},
		{"of HEAD, chunked", crlf("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", ""), true, `200 OK||Transfer-Encoding=chunked;|""||keep true|<nil>`},
		{"204", crlf("HTTP/1.1 204 No Content", "", ""), false, `204 No Content|||""||keep true|<nil>`},
		{"204 with a length", crlf("HTTP/1.1 204 No Content", "Content-Length: 2", "", ""), false, `204 No Content||Content-Length=2;|""||keep false|<nil>`},
		{"304", crlf("HTTP/1.1 304 Not Modified", "Content-Length: 2", "", ""), false, `304 Not Modified||Content-Length=2;|""||keep true|<nil>`},
		{"HTTP/1.0", crlf("HTTP/1.0 200 OK", "Content-Length: 2", "", "hi"), false, `200 OK||Content-Length=2;|"hi"||keep false|<nil>`},
		{"999", crlf("HTTP/1.1 999 No", "Content-Length: 0", "", ""), false, `999 No||Content-Length=0;|""||keep true|<nil>`},
		{"cut", crlf("HTTP/1.1 200 OK", "Content-Length: 5", "", "hi"), false, `200 OK||Content-Length=5;|"hi"||keep true|` + ErrCut.Error()},

		{"length and chunks", crlf("HTTP/1.1 200 OK", "Content-Length: 2", "Transfer-Encoding: chunked", "", "0", "", ""), false, `|||""||keep false|` + ErrLengthCoding.Error()},
		{"two lengths", crlf("HTTP/1.1 200 OK", "Content-Length: 2", "Content-Length: 2", "", "hi"), false, `|||""||keep false|` + ErrLengthMany.Error()},
		{"gzip, chunked", crlf("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked", "", "0", "", ""), false, `|||""||keep false|` + ErrCodingUnknown.Error()},
		{"204 in chunks", crlf("HTTP/1.1 204 No Content", "Transfer-Encoding: chunked", "", "0", "", ""), false, `|||""||keep false|` + ErrCodingStatus.Error()},
		{"chunks in HTTP/1.0", crlf("HTTP/1.0 200 OK", "Transfer-Encoding: chunked", "", "0", "", ""), false, `|||""||keep false|` + ErrCodingVersion.Error()},
		{"no status", crlf("HTTP/1.1 OK", "", ""), false, `|||""||keep false|` + ErrStatusLine.Error()},
		{"99", crlf("HTTP/1.1 099 OK", "", ""), false, `|||""||keep false|` + ErrStatusLine.Error()},
		{"four digits", crlf("HTTP/1.1 2000 OK", "", ""), false, `|||""||keep false|` + ErrStatusLine.Error()},
		{"another protocol", crlf("RTSP/1.0 200 OK", "", ""), false, `|||""||keep false|` + ErrStatusLine.Error()},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", false, `|||""||keep false|` + ErrBareLF.Error()},
		{"CR in the reason", crlf("HTTP/1.1 200 O\rK", "", ""), false, `|||""||keep false|` + ErrStatusLine.Error()},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for step := range 12 {
				all := responses(c.data, step, c.bodiless)
				if len(all) == 0 || all[0].String() != c.want {
					t.Errorf("in steps of %d:\n got %v\nwant %s", step, all, c.want)
				}
			}
		})
	}
}

// A head at a limit is read, one octet or one field above it is refused with the status that tells what to shorten.
//
// Covers: issue6 codec limits
func TestLimits(t *testing.T) {
	lim := Limits{Head: 400, Target: 100, Field: 150, Fields: 5}
	head := func(target int, fields ...string) string {
		return crlf(append(append([]string{"GET /" + strings.Repeat("x", target-1) + " HTTP/1.1", "Host: a"}, fields...), "", "")...)
	}
	field := func(n int) string { return "X: " + strings.Repeat("y", n-len("X: ")) }
	cases := []struct {
		name, data string
		want       error
	}{
		{"target at the limit", head(100), nil},
		{"target above", head(101), ErrTargetLong},
		{"target without end", "GET /" + strings.Repeat("x", 5000), ErrTargetLong},
		{"method without end", strings.Repeat("X", 5000), ErrTargetLong},
		{"method that is none", strings.Repeat("X", 30) + " / HTTP/1.1\r\nHost: a\r\n\r\n", ErrMethodLong},
		{"field at the limit", head(1, field(150)), nil},
		{"field above", head(1, field(151)), ErrFieldLong},
		{"field without end", crlf("GET / HTTP/1.1", "X: "+strings.Repeat("y", 5000)), ErrFieldLong},
		{"fields at the limit", head(1, "A: 1", "B: 1", "C: 1", "D: 1"), nil},
		{"fields above", head(1, "A: 1", "B: 1", "C: 1", "D: 1", "E: 1"), ErrFieldsMany},
		{"head above", head(1, field(140), field(140), field(140)), ErrHeadLong},
		{"trailer without end", crlf("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "0", "X: "+strings.Repeat("y", 5000)), ErrTrailers},
		{"extension without end", crlf("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", "5;"+strings.Repeat("y", 5000)), ErrChunkExt},
		{"size without end", crlf("POST / HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", "", strings.Repeat("0", 5000)), ErrChunkSize},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range []int{0, 1, 64} {
				all := requests(c.data, step, lim)
				if got := all[len(all)-1].err; got != c.want {
					t.Errorf("in steps of %d: %v, want %v", step, got, c.want)
				}
			}
		})
	}
}

// The largest head that the defaults take is read, whatever lies before it in the buffer.
//
// Covers: issue6 codec limits
func TestLargestHead(t *testing.T) {
	fields := []string{"GET / HTTP/1.1", "Host: a"}
	for i := range 4 {
		fields = append(fields, fmt.Sprintf("X-%d: %s", i, strings.Repeat("y", 16<<10-len("X-0: "))))
	}
	size := len(crlf(append(fields, "", "")...))
	fields[2] = fields[2][:len(fields[2])-(size-maxHead)]
	data := crlf(append(fields, "", "")...)
	if len(data) != maxHead {
		t.Fatalf("the head has %d octets: want %d", len(data), maxHead)
	}
	small := crlf("GET /small HTTP/1.1", "Host: a", "", "")
	for _, step := range []int{0, 1000, 4096} {
		all := requests(small+data+small, step, Limits{})
		if len(all) != 3 || all[1].err != nil || all[2].first != "GET /small" {
			t.Errorf("in steps of %d: %d messages", step, len(all))
		}
	}
}

// What Connection names is not passed on, an empty Connection hides nothing, and Host stays whoever names it.
//
// Covers: issue6 codec, gateway fault 30
func TestConnectionNamesFields(t *testing.T) {
	data := crlf("GET / HTTP/1.1", "Host: a", "Connection:", "Connection: x-A, , X-Forwarded-For,host", "X-a: 1", "X-Forwarded-For: 2", "Keep-Alive: 3", "TE: trailers", "Z: 4", "", "")
	r := NewReader(&script{data: data}, NewPool(), Limits{}, Small)
	var q Request
	if err := r.Request(&q); err != nil {
		t.Fatal(err)
	}
	kept := string(q.AppendFields(nil, func(h *Head, i int) bool { return !h.Hop(i) }))
	if want := "Host: a\r\nZ: 4\r\n"; kept != want {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

// Fields are passed on as they came, and those written oddly in the usual way.
//
// Covers: issue6 codec
func TestFieldsAreCopied(t *testing.T) {
	data := crlf("GET / HTTP/1.1", "Host: a", "A: 1", "b:2", "C:  3 ", "D: 4", "", "")
	r := NewReader(&script{data: data}, NewPool(), Limits{}, Small)
	var q Request
	if err := r.Request(&q); err != nil {
		t.Fatal(err)
	}
	r.Detach(&q.Head) // the head is where it is then
	for skip, want := range map[string]string{
		"":  "Host: a\r\nA: 1\r\nb: 2\r\nC: 3\r\nD: 4\r\n",
		"A": "Host: a\r\nb: 2\r\nC: 3\r\nD: 4\r\n",
		"b": "Host: a\r\nA: 1\r\nC: 3\r\nD: 4\r\n",
		"D": "Host: a\r\nA: 1\r\nb: 2\r\nC: 3\r\n",
	} {
		if got := string(q.AppendFields(nil, func(h *Head, i int) bool { return string(h.Name(i)) != skip })); got != want {
			t.Errorf("without %q: %q, want %q", skip, got, want)
		}
	}
	if v, ok := q.Field("c", 0); !ok || string(v) != "3" {
		t.Errorf("field c: %q, %t", v, ok)
	}
	if _, ok := q.Field("c", 1); ok {
		t.Error("there is a second field c")
	}
}

// Every name that has an ID is found in any case, and no other name is taken for one.
//
// Covers: issue6 codec
func TestNamesAreIdentified(t *testing.T) {
	names := map[string]ID{
		"authorization": Authorization, "cache-control": CacheControl, "connection": Connection, "content-length": ContentLength,
		"content-type": ContentType, "cookie": Cookie, "date": Date, "expect": Expect, "forwarded": Forwarded, "host": Host,
		"keep-alive": KeepAlive, "proxy-authenticate": ProxyAuthenticate, "proxy-authorization": ProxyAuthorization,
		"proxy-connection": ProxyConnection, "referer": Referer, "server": Server, "set-cookie": SetCookie, "te": TE,
		"trailer": Trailer, "transfer-encoding": TransferEncoding, "upgrade": Upgrade, "user-agent": UserAgent, "via": Via,
		"x-forwarded-for": XForwardedFor, "x-forwarded-host": XForwardedHost, "x-forwarded-port": XForwardedPort,
		"x-forwarded-proto": XForwardedProto,
	}
	if len(names) != int(ids)-1 {
		t.Errorf("%d names for %d IDs", len(names), ids-1)
	}
	for name, want := range names {
		for _, n := range []string{name, strings.ToUpper(name)} {
			if got := identify([]byte(n)); got != want {
				t.Errorf("%s is %d, want %d", n, got, want)
			}
		}
		other := "q" + name[1:]
		if got := identify([]byte(other)); got != Other {
			t.Errorf("%s is %d", other, got)
		}
	}
}

// clean agrees with looking at each octet.
//
// Covers: issue6 codec
func TestCleanAgreesWithTheSlowWay(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for o := range 256 {
				b := []byte(strings.Repeat("a", n))
				b[at] = byte(o)
				if clean(b) != cleanSlowly(b) {
					t.Fatalf("%q: clean says %t", b, clean(b))
				}
			}
		}
	}
}

// endless is a connection on which the same message comes for ever.
type endless struct {
	data []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.at == len(e.data) {
		e.at = 0
	}
	n := copy(p, e.data[e.at:])
	e.at += n
	return n, nil
}

func (e *endless) ReadLent(p *Pool, size Size) (*Buffer, int, error) {
	b := p.Lend(size)
	n, err := e.Read(b.B)
	return b, n, err
}

var browserHead = crlf("POST /api/v1/items?page=2 HTTP/1.1", "Host: www.example.com",
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language: en-US,en;q=0.5",
	"Accept-Encoding: gzip, deflate, br", "Connection: keep-alive", "Cookie: session=0123456789abcdef; theme=dark")

// Requests and responses on a connection that is kept allocate nothing, with whatever kind of body.
//
// Covers: issue6 codec allocations
func TestKeptConnectionsAllocateNothing(t *testing.T) {
	pool := NewPool()
	for name, data := range map[string]string{
		"none":    crlf(browserHead, "", ""),
		"sized":   crlf(browserHead, "Content-Length: 5", "", "hello"),
		"chunked": crlf(browserHead, "Transfer-Encoding: chunked", "", "5", "hello", "0", "", ""),
	} {
		r := NewReader(&endless{data: []byte(data)}, pool, Limits{}, Small)
		var q Request
		var out [1024]byte
		keep := func(h *Head, i int) bool { return !h.Hop(i) }
		once := func() {
			if err := r.Request(&q); err != nil {
				t.Fatal(err)
			}
			q.AppendFields(out[:0], keep)
			for {
				if _, err := r.Next(); err == io.EOF {
					return
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := testing.AllocsPerRun(200, once); n >= 1 { // below 1: a collection may have emptied the pool meanwhile
			t.Errorf("%s: %v allocations a request", name, n)
		}
	}
}

// No buffer is held between messages, nor while a body has nothing to give.
//
// Covers: issue6 codec buffers
func TestNoBufferIsHeldWhileWaiting(t *testing.T) {
	s := &watched{t: t}
	r := NewReader(s, NewPool(), Limits{}, Large)
	s.reader = r
	s.parts = []string{crlf("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "a", ""), crlf("1", "b", ""), crlf("0", "", ""), crlf("HTTP/1.1 204 No Content", "", "")}
	var p Response
	if err := r.Response(&p, false); err != nil {
		t.Fatal(err)
	}
	r.Release()
	var got []string
	for {
		part, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, string(part))
	}
	if !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Errorf("parts %q", got)
	}
	if err := r.Response(&p, false); err != nil || p.Status != 204 {
		t.Errorf("second response: %d, %v", p.Status, err)
	}
}

// watched gives its parts one at a time and looks whether the reader holds a buffer when it waits.
type watched struct {
	t      *testing.T
	reader *Reader
	parts  []string
}

func (s *watched) Read([]byte) (int, error) {
	s.t.Error("read into a buffer that was held")
	return 0, io.EOF
}

func (s *watched) ReadLent(p *Pool, size Size) (*Buffer, int, error) {
	if s.reader.buf != nil || s.reader.held != nil {
		s.t.Error("a buffer is held while waiting")
	}
	if len(s.parts) == 0 {
		return nil, 0, io.EOF
	}
	b := p.Lend(size)
	n := copy(b.B, s.parts[0])
	s.parts = s.parts[1:]
	return b, n, nil
}

// BenchmarkRequest reads the head of a request of a browser.
//
// Covers: issue6 codec
func BenchmarkRequest(b *testing.B) {
	data := []byte(crlf(browserHead, "", ""))
	r := NewReader(&endless{data: data}, NewPool(), Limits{}, Small)
	var q Request
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := r.Request(&q); err != nil {
			b.Fatal(err)
		}
	}
}

// Package h2test is a client of HTTP/2 for tests: it sends what it is told, frame by frame, right or wrong, and tells what
// comes back.
package h2test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// patience is how long a client waits for what must come. Nothing is judged by it but whether it comes at all.
const patience = 30 * time.Second

// Client is a connection. It is for one goroutine, but for what Framer writes.
type Client struct {
	*http2.Framer
	Conn net.Conn
	t    testing.TB
	enc  *hpack.Encoder
	buf  bytes.Buffer

	// Greedy has it give back the windows as data comes. New sets it.
	Greedy bool
	// Pings are those of the server that were not answered, as Quiet is set.
	Pings []*http2.PingFrame
	Quiet bool

	// GoAways are those that came.
	GoAways []http2.GoAwayFrame
	// Settings are those of the server.
	Settings map[http2.SettingID]uint32
	streams  map[uint32]*Answer
	err      error // why nothing more comes
}

// Answer is what came on a stream.
type Answer struct {
	Status  string
	Early   []string // statuses before it
	Fields  []string // name: value
	Body    []byte
	Trailer []string
	Ended   bool           // by END_STREAM
	Reset   *http2.ErrCode // by RST_STREAM
	Credit  int            // what WINDOW_UPDATE gave
}

// Field is the value of a field; "": there is none.
func (a *Answer) Field(name string) string {
	for _, f := range a.Fields {
		if n, v, _ := strings.Cut(f, ": "); n == name {
			return v
		}
	}
	return ""
}

// Over reports whether nothing more can come.
func (a *Answer) Over() bool { return a.Ended || a.Reset != nil }

// String shows an answer in a test's words.
func (a *Answer) String() string {
	reset := ""
	if a.Reset != nil {
		reset = " reset " + a.Reset.String()
	}
	return fmt.Sprintf("%s %q ended %t%s", a.Status, a.Body, a.Ended, reset)
}

// New begins HTTP/2 on a connection, with the settings given.
func New(t testing.TB, c net.Conn, settings ...http2.Setting) *Client {
	t.Helper()
	k := Raw(t, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	k.Must(k.WriteSettings(settings...))
	return k
}

// Raw is a client that has said nothing yet.
func Raw(t testing.TB, c net.Conn) *Client {
	k := &Client{Conn: c, t: t, Greedy: true, streams: map[uint32]*Answer{}, Settings: map[http2.SettingID]uint32{}}
	k.Framer = http2.NewFramer(c, c)
	k.AllowIllegalWrites = true
	k.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	k.enc = hpack.NewEncoder(&k.buf)
	return k
}

// Must fails the test on an error.
func (k *Client) Must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// Block encodes fields, given as name and value by turns.
func (k *Client) Block(fields ...string) []byte {
	k.buf.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		k.Must(k.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return slices.Clone(k.buf.Bytes())
}

// Get are the pseudo fields of a GET.
func Get(path string) []string {
	return []string{":method", "GET", ":scheme", "http", ":authority", "example.com", ":path", path}
}

// Post are those of a POST.
func Post(path string) []string {
	return []string{":method", "POST", ":scheme", "http", ":authority", "example.com", ":path", path}
}

// Headers sends HEADERS.
func (k *Client) Headers(id uint32, end bool, fields ...string) {
	k.t.Helper()
	k.Must(k.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: k.Block(fields...), EndStream: end, EndHeaders: true}))
}

// On is what came on a stream so far.
func (k *Client) On(id uint32) *Answer {
	a := k.streams[id]
	if a == nil {
		a = &Answer{}
		k.streams[id] = a
	}
	return a
}

// Until reads until ok; a connection that ends before is a failure.
func (k *Client) Until(what string, ok func() bool) {
	k.t.Helper()
	for !ok() {
		if !k.Next() {
			k.t.Fatalf("%s did not come: %v; GOAWAY %v", what, k.err, k.GoAways)
		}
	}
}

// Answer reads the whole of an answer.
func (k *Client) Answer(id uint32) *Answer {
	k.t.Helper()
	a := k.On(id)
	k.Until(fmt.Sprintf("the end of stream %d", id), a.Over)
	return a
}

// End reads until the connection ends, and gives the code of the last GOAWAY; ok: there was one.
func (k *Client) End() (code http2.ErrCode, ok bool) {
	k.t.Helper()
	for k.Next() {
	}
	if errors.Is(k.err, errTooLate) {
		k.t.Fatal("the connection did not end")
	}
	if n := len(k.GoAways); n > 0 {
		return k.GoAways[n-1].ErrCode, true
	}
	return 0, false
}

var errTooLate = errors.New("nothing came in time")

// Next reads a frame. It reports false when there is none any more.
func (k *Client) Next() bool {
	k.t.Helper()
	if k.err != nil {
		return false
	}
	_ = k.Conn.SetReadDeadline(time.Now().Add(patience))
	f, err := k.ReadFrame()
	if err != nil {
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			err = errTooLate
		}
		k.err = err
		return false
	}
	k.take(f)
	return true
}

func (k *Client) take(f http2.Frame) {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			_ = f.ForeachSetting(func(s http2.Setting) error { k.Settings[s.ID] = s.Val; return nil })
			_ = k.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if f.IsAck() || k.Quiet {
			p := *f
			k.Pings = append(k.Pings, &p)
			return
		}
		_ = k.WritePing(true, f.Data)
	case *http2.GoAwayFrame:
		k.GoAways = append(k.GoAways, *f)
	case *http2.RSTStreamFrame:
		code := f.ErrCode
		k.On(f.StreamID).Reset = &code
	case *http2.WindowUpdateFrame:
		k.On(f.StreamID).Credit += int(f.Increment)
	case *http2.MetaHeadersFrame:
		k.head(f)
	case *http2.DataFrame:
		a := k.On(f.StreamID)
		a.Body = append(a.Body, f.Data()...)
		a.Ended = f.StreamEnded()
		if n := uint32(len(f.Data())); n > 0 && k.Greedy {
			_ = k.WriteWindowUpdate(0, n)
			if !a.Ended {
				_ = k.WriteWindowUpdate(f.StreamID, n)
			}
		}
	}
}

func (k *Client) head(f *http2.MetaHeadersFrame) {
	a := k.On(f.StreamID)
	a.Ended = f.StreamEnded()
	var fields []string
	for _, h := range f.RegularFields() {
		fields = append(fields, h.Name+": "+h.Value)
	}
	switch status := f.PseudoValue("status"); {
	case len(status) == 3 && status[0] == '1':
		a.Early = append(a.Early, status)
	case status != "":
		a.Status, a.Fields = status, fields
	default:
		a.Trailer = fields
	}
}

package h2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// machine feeds octets to a connection without a link, n at a time, and tells what became of them: the heads of the requests that
// began, with what came of their bodies, what is said to the peer, and the fault.
func machine(p []byte, n int) (heads []string, out []byte, fault error) {
	c := New(nil, Config{Clock: conn.NewClock(), Buffers: h1.NewPool(), MaxStreams: 10, Limits: h1.Limits{Head: 4 << 10}})
	var buf []byte
	for len(p) > 0 && fault == nil {
		m := min(n, len(p))
		buf, p = append(buf, p[:m]...), p[m:]
		used := 0
		used, fault = c.feed(buf)
		buf = buf[used:]
	}
	for _, s := range c.starting {
		b, n, _ := s.Head()
		head := "too large"
		if b != nil {
			head = string(b.B[:n])
			c.cfg.Buffers.Return(b)
		}
		for _, q := range s.queue {
			if s.gone {
				break // how much of a body came before its fault was seen is nobody's matter
			}
			head += string(q.buf.B[:q.n])
		}
		heads = append(heads, fmt.Sprintf("%d %t %t %s%s", s.id, s.ended, s.gone, head, s.trailer))
	}
	out = append(out, c.out.b...)
	for _, s := range c.starting {
		s.drop()
	}
	c.block.drop()
	return heads, out, fault
}

// seeds are connections that do something.
func seeds(add func([]byte)) {
	var b bytes.Buffer
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	fields := func(all ...string) []byte {
		block.Reset()
		for i := 0; i+1 < len(all); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
		}
		return bytes.Clone(block.Bytes())
	}
	fr := http2.NewFramer(&b, nil)
	fr.AllowIllegalWrites = true
	done := func() {
		add(bytes.Clone(b.Bytes()))
		b.Reset()
		enc = hpack.NewEncoder(&block)
	}
	get := []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"}
	_ = fr.WriteSettings()
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields(append(get, "cookie", "a", "cookie", "b")...), EndStream: true, EndHeaders: true})
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: fields(append(get, "content-length", "5")...), EndHeaders: true})
	_ = fr.WriteData(3, false, []byte("he"))
	_ = fr.WriteDataPadded(3, true, []byte("llo"), make([]byte, 7))
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: fields(get...), EndHeaders: true, PadLength: 2, Priority: http2.PriorityParam{StreamDep: 3}})
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: fields("x", "y"), EndHeaders: true, EndStream: true})
	_ = fr.WritePing(false, [8]byte{1})
	_ = fr.WriteWindowUpdate(0, 5)
	_ = fr.WriteWindowUpdate(3, 5)
	_ = fr.WriteRSTStream(1, 8)
	_ = fr.WritePriority(9, http2.PriorityParam{StreamDep: 1})
	_ = fr.WriteGoAway(0, 0, []byte("x"))
	done()
	_ = fr.WriteSettings(http2.Setting{ID: 4, Val: 10}, http2.Setting{ID: 1, Val: 0}, http2.Setting{ID: 5, Val: 1 << 20})
	p := fields(append(get, "x-long", strings.Repeat("v", 500), "te", "trailers")...)
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p[:20]})
	_ = fr.WriteContinuation(1, false, p[20:30])
	_ = fr.WriteContinuation(1, true, p[30:])
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: fields(":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "a", ":path", "/"), EndHeaders: true})
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: fields("Bad", "x"), EndHeaders: true})
	_ = fr.WriteRawFrame(http2.FramePushPromise, 0, 1, nil)
	done()
}

// Whatever comes, and in whatever pieces, the same becomes of it; every request that begins is one head of HTTP/1.1, which its
// codec takes or refuses and never takes for two; what is said to the peer is well-formed.
//
// Covers: issue6 http2 fuzz
func FuzzFrames(f *testing.F) {
	seeds(func(p []byte) { f.Add(p, 1) })
	f.Fuzz(func(t *testing.T, p []byte, n int) {
		if len(p) > 1<<16 {
			return
		}
		p = append([]byte(Preface), p...)
		heads, out, fault := machine(p, len(p))
		again, _, faultAgain := machine(p, max(1, n))
		for _, err := range []error{fault, faultAgain} {
			if e := (*ConnError)(nil); errors.As(err, &e) && e.Code == EnhanceYourCalm {
				return // when it is too much depends on the time it took
			}
		}
		key := func(heads []string, fault error) string { // but for the keys, which are random
			text := fmt.Sprint(fault)
			for _, h := range heads {
				if i := strings.Index(h, "sec-websocket-key: "); i >= 0 {
					h = h[:i] + h[i+len("sec-websocket-key: ")+24:]
				}
				text += "\n" + h
			}
			return text
		}
		if a, b := key(heads, fault), key(again, faultAgain); a != b {
			t.Fatalf("in one piece:\n%s\nin pieces of %d:\n%s", a, n, b)
		}
		for _, h := range heads {
			count(t, h)
		}
		fr := http2.NewFramer(io.Discard, bytes.NewReader(out))
		for {
			if _, err := fr.ReadFrame(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("what is said: %v in %x", err, out)
			}
		}
	})
}

// count reads a head by the codec of HTTP/1.1.
func count(t *testing.T, head string) {
	t.Helper()
	_, head, _ = strings.Cut(head, " ")
	_, head, _ = strings.Cut(head, " ")
	_, head, _ = strings.Cut(head, " ")
	end := strings.Index(head, "\r\n\r\n")
	if head == "too large" || end < 0 {
		if head != "too large" {
			t.Fatalf("%q has no end", head)
		}
		return
	}
	pool := h1.NewPool()
	r := h1.NewReader(nil, pool, h1.Limits{}, h1.Small)
	b := pool.Lend(h1.Small)
	n := end + len("\r\n\r\n")
	for len(b.B) < n {
		larger, ok := pool.Grow(b, 0)
		if !ok {
			t.Fatalf("a head of %d octets", n)
		}
		b = larger
	}
	copy(b.B, head[:n])
	var q h1.Request
	if err := r.Begin(&q, b, n, false); err == nil && q.Size() != n {
		t.Fatalf("%q: the codec took %d of %d octets", head, q.Size(), n)
	}
	r.Close()
}

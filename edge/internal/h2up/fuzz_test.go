package h2up

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// Whatever an origin sends, requests end: with a response that is whole, or with an error. Nothing is kept for streams that are over,
// windows are never exceeded, and what is sent back are frames.
//
// Covers: issue6 http2 origins
func FuzzOrigin(f *testing.F) {
	settings := []byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	head := func(block ...byte) []byte { // of stream 1
		return append(appendFrame(nil, len(block), http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1), block...)
	}
	f.Add([]byte{})
	f.Add(settings)
	f.Add(bytes.Join([][]byte{settings, head(0x88), appendData(nil, 1, []byte("hello"), true)}, nil))
	f.Add(bytes.Join([][]byte{settings, head(0x88), appendData(nil, 1, []byte("hello"), false), head(0x40, 1, 'a', 1, 'b')}, nil))
	f.Add(bytes.Join([][]byte{settings, head(0x08, 3, '1', '0', '3'), head(0x88), appendReset(nil, 1, http2.ErrCodeCancel)}, nil))
	f.Add(bytes.Join([][]byte{settings, appendGoAway(nil, http2.ErrCodeNo), appendPing(nil, 0, [8]byte{1})}, nil))
	f.Add(bytes.Join([][]byte{settings, appendSettings(nil, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), appendWindow(nil, 1, 5), appendWindow(nil, 0, maxWindow)}, nil))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		c := newConn(conn.NewClock(), h1.NewPool(), Config{})
		c.read(bytes.NewReader(said))
		var streams []*Stream
		for _, body := range []string{"", "ab"} {
			s := c.Reserve()
			if _, err := s.Send([]byte("POST /x HTTP/1.1\r\nHost: a\r\n\r\n"), []byte(body), body != ""); err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
		c.lose(c.readFrames())
		for _, s := range streams {
			s.ReadBy(1) // nothing more comes: whoever waits would wait for ever
			s.WriteBy(1)
			_ = s.Write(make([]byte, 100), false)
			var r h1.Response
			err := s.Response(&r, false)
			for n := 0; err == nil && r.Informational(); n++ {
				if n > maxHeads {
					t.Fatal("information without end")
				}
				err = s.Response(&r, false)
			}
			for err == nil {
				_, err = s.Next()
			}
			if errors.Is(err, conn.ErrTimeout) {
				t.Fatal("a request has neither a response nor an error")
			}
			if whole := errors.Is(err, io.EOF); whole != s.Done() {
				t.Fatalf("ended with %v, done %t", err, s.Done())
			}
			s.Close()
		}
		if c.queued != 0 || c.grown != 0 || len(c.streams) != 0 || c.reserved != 0 || !c.ending && (c.window > maxWindow || c.receive < 0) {
			t.Fatalf("left: %d octets, %d streams, %d reserved, windows %d and %d", c.queued, len(c.streams), c.reserved, c.window, c.receive)
		}
		if c.late != nil {
			c.late.Stop()
		}
		back := http2.NewFramer(nil, bytes.NewReader(c.out[len(http2.ClientPreface):]))
		back.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		for {
			if _, err := back.ReadFrame(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("what is sent back: %v", err)
			}
		}
	})
}

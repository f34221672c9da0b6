package h2

import (
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"steerpoint/edge/internal/h2test"
)

// heard waits until the connection has taken all that the client has sent.
func heard(k *h2test.Client) {
	mark := [8]byte{'h', 'e', 'a', 'r', 'd'}
	k.Must(k.WritePing(false, mark))
	k.Until("the answer to PING", func() bool {
		return slices.ContainsFunc(k.Pings, func(p *http2.PingFrame) bool { return p.IsAck() && p.Data == mark })
	})
}

// A client that is slow to learn that no more streams are to be begun may begin some, with all that belongs to a request. They are
// passed over, and those that were under way are answered (RFC 9113 section 6.8).
//
// Covers: issue6 http2 drain
func TestStreamsBegunTooLateHarmNoOther(t *testing.T) {
	goOn := make(chan struct{})
	s := serve(t, Config{LeaveWait: time.Millisecond}, false, func(s *Stream) {
		_ = text(s)
		<-goOn
		_ = s.Respond([]byte(ok), []byte("done"), true)
	})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	k := s.k
	k.Headers(1, true, h2test.Get("/")...)
	heard(k)
	k.Pings, k.Quiet = nil, true // it does not say that it knows
	s.Shutdown()
	k.Until("the second GOAWAY", func() bool { return len(k.GoAways) == 2 })
	k.Headers(3, false, h2test.Post("/")...)
	k.Must(k.WriteWindowUpdate(3, 100))
	k.Must(k.WriteData(3, false, []byte("body")))
	k.Headers(3, true, "trailer", "1")
	k.Headers(5, false, h2test.Post("/")...)
	k.Must(k.WriteRSTStream(5, http2.ErrCodeCancel))
	heard(k)
	release()
	if a := k.Answer(1); string(a.Body) != "done" {
		t.Errorf("the one that was under way: %v", a)
	}
	if code, _ := k.End(); code != 0 || k.GoAways[len(k.GoAways)-1].LastStreamID != 1 {
		t.Errorf("GOAWAY %v", k.GoAways)
	}
	if err := <-s.done; err != nil {
		t.Errorf("ended by %v", err)
	}
}

// A body that nobody wants any more is thrown away, and its end is none before its time: the answer still comes.
//
// Covers: issue6 http2
func TestUnwantedBodiesAreNoFault(t *testing.T) {
	cut, goOn := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{}, false, func(s *Stream) {
		_ = text(s)
		s.CutReads()
		close(cut)
		<-goOn
		_ = s.Respond([]byte(ok), []byte("no"), true)
	})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	k := s.k
	k.Headers(1, false, append(h2test.Post("/"), "content-length", "4")...)
	<-cut
	k.Must(k.WriteData(1, true, []byte("body")))
	heard(k)
	release()
	if a := k.Answer(1); string(a.Body) != "no" || a.Reset != nil {
		t.Errorf("%v", a)
	}
}

// A stream that has come to its end both ways makes room for another one, whatever its handler still has to do; but handlers are
// bounded all the same.
//
// Covers: issue6 http2 limits, gateway fault 39
func TestStreamsThatAreOverMakeRoom(t *testing.T) {
	goOn := make(chan struct{})
	s := serve(t, Config{MaxStreams: 2}, false, func(s *Stream) {
		_ = text(s)
		_ = s.Respond([]byte(ok), []byte("done"), true)
		<-goOn
	})
	t.Cleanup(func() { close(goOn) })
	k := s.k
	for id := uint32(1); id < 9; id += 2 {
		k.Headers(id, true, h2test.Get("/")...)
		if a := k.Answer(id); string(a.Body) != "done" {
			t.Errorf("stream %d: %v", id, a)
		}
	}
	k.Headers(9, true, h2test.Get("/")...)
	if a := k.Answer(9); a.Reset == nil || *a.Reset != http2.ErrCodeRefusedStream {
		t.Errorf("one more than twice as many: %v", a)
	}
}

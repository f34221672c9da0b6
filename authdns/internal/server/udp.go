package server

import (
	"context"
	"errors"
)

const (
	// maxQuery is the largest UDP query taken whole; a longer one is cut by the kernel and then fails to parse.
	// Queries with padding and every option we know stay far below.
	maxQuery = 4096
	maxReply = 65535
	// batchSize is how many packets one system call takes and sends at most. From about 32 on the call itself no longer
	// shows; more would only make the first of a burst wait for the last.
	batchSize = 32
)

// serveUDP answers on one socket until it is closed, or was told that the next packet is not ours. Under load it takes and
// answers packets by the batch; alone, a packet is answered as it comes.
func (s *Server) serveUDP(ctx context.Context, c *udpSocket) (err error) {
	if !c.begin() {
		return nil
	}
	defer func() { err = c.end() }()
	handler, b := s.handlers(UDP), newBatch(batchSize)
	preparer, _ := handler.(Preparer)
	for {
		now, err := b.receive(c)
		switch {
		case err == nil:
		case errors.Is(err, errStopped):
			return nil
		default:
			s.count.UDPFailed("read")
			if !pause(ctx) {
				return nil
			}
			continue
		}
		if preparer != nil && b.received > 1 {
			preparer.Prepare(b.messages())
		}
		for i := range b.received {
			msg, from := b.packet(i)
			reply := handler.Handle(b.room(), msg, from, now)
			if len(reply) == 0 {
				s.laterUDP(c, b, i, handler)
			}
			b.reply(i, reply)
		}
		// What fails: a full queue, a forged source nobody can route to. The client asks again, or never asked.
		for range b.send(c) {
			s.count.UDPFailed("write")
		}
		b.gather.others()
	}
}

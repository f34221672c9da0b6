package server

import (
	"context"
	"errors"
	"net"
	"os"
)

const (
	// maxQuery is the largest UDP query taken whole; a longer one is cut by the kernel and then fails to parse.
	// Queries with padding and every option we know stay far below.
	maxQuery = 4096
	maxReply = 65535
)

// serveUDP answers on one socket until it is closed, or its deadline says that the next packet is not ours.
func (s *Server) serveUDP(ctx context.Context, c *net.UDPConn) {
	handler := s.handlers(false)
	msg, oob, reply := make([]byte, maxQuery), make([]byte, oobSize), make([]byte, 0, maxReply)
	for {
		n, oobn, _, from, err := c.ReadMsgUDPAddrPort(msg, oob)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			s.count.UDPFailed("read")
			if !pause(ctx) {
				return
			}
			continue
		}
		reply = handler.Handle(reply[:0], msg[:n], from.Addr().Unmap())
		if len(reply) == 0 {
			continue
		}
		if _, _, err := c.WriteMsgUDPAddrPort(reply, replyFrom(oob[:oobn]), from); err != nil {
			// A full queue, a forged source nobody can route to: the client asks again, or never asked.
			s.count.UDPFailed("write")
		}
	}
}

package authdns

import (
	"encoding/hex"
	"net/netip"
	"runtime/debug"
	"time"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/server"
)

// handler answers for one socket or connection.
type handler struct {
	s *Server
	x answer.Exchange
}

func (s *Server) handler(tcp bool) server.Handler {
	return &handler{s: s, x: answer.Exchange{TCP: tcp}}
}

// Handle answers one message.
func (h *handler) Handle(reply, msg []byte, client netip.Addr, now time.Time) (out []byte) {
	before := reply
	// A packet that hits a fault of ours must cost that packet, not the name server.
	defer func() {
		if v := recover(); v != nil {
			h.s.metrics.panics.Inc()
			h.s.log.Error("a query hit a fault in this program and was dropped: please report it",
				"panic", v, "query", hex.EncodeToString(msg), "client", client, "stack", string(debug.Stack()))
			out = before[:0]
		}
	}()
	h.x.Client, h.x.Now, h.x.Unix = client, now.Sub(h.s.epoch), uint32(now.Unix())
	out = h.s.responder.Respond(reply, msg, &h.x)
	h.s.metrics.query(h.x.TCP, &h.x.Result)
	return out
}

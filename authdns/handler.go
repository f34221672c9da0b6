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
	s         *Server
	transport server.Transport
	x         answer.Exchange
	ahead     *answer.Ahead // of a UDP socket

	stream *stream // the transfer under way; nil: none is

	later server.Later // of the message handled last, whose reply waits; nil: none
	late  bool         // this is of such a reply
}

func (s *Server) handler(t server.Transport) server.Handler {
	return &handler{s: s, transport: t, x: answer.Exchange{TCP: t != server.UDP, NoKeepalive: t == server.DoH}}
}

// Prepare has what the replies to a batch are made of come near.
func (h *handler) Prepare(msgs [][]byte) {
	if h.ahead == nil {
		h.ahead = new(answer.Ahead)
	}
	if len(h.s.cfg.Proxies) == 0 { // behind a header the question stands elsewhere
		h.s.responder.LookAhead(h.ahead, msgs)
	}
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
	if len(h.s.cfg.Proxies) > 0 && h.transport == server.UDP {
		var ok bool
		if client, msg, ok = h.s.unwrap(client, msg); !ok {
			return reply
		}
	}
	h.stream, h.later = nil, nil // of a reply that was broken off
	h.x.Client, h.x.Now, h.x.Unix = client, now.Sub(h.s.epoch), uint32(now.Unix())
	out = h.s.responder.Respond(reply, msg, &h.x)
	if h.x.Result.Aside && h.transport != server.DoH { // a transfer is several messages, which HTTP has no room for
		out = h.aside(reply, out, msg, client, now)
	}
	if h.later != nil {
		return reply // counted when it is made
	}
	h.s.metrics.query(h.transport, &h.x.Result)
	return out
}

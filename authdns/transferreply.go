package authdns

import (
	"encoding/binary"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/transfer"
	"steerpoint/authdns/internal/tsig"
	"steerpoint/authdns/internal/wire"
)

// catchUp bounds how long a transfer waits for the copies of a map that has just come.
const catchUp = 5 * time.Second

// side is one message that wants more than an answer from the index: a signed one, or a transfer.
type side struct {
	h      *handler
	reply  []byte // what is there before the reply
	msg    []byte
	q      wire.Query
	client netip.Addr
	now    time.Time

	copies *copies
	key    *tsig.Key    // that signed the message; nil: none did
	signer *tsig.Signer // of the reply; nil: it is not signed
}

// stream is a transfer under way on a connection.
type stream struct {
	packer   *transfer.Packer
	signer   *tsig.Signer
	messages int
	end      func(messages int) // called once, with the last message made
}

// aside makes the reply to such a message; plain is the reply that takes no notice of that.
func (h *handler) aside(reply, plain, msg []byte, client netip.Addr, now time.Time) []byte {
	s := &side{h: h, reply: reply, msg: msg, client: client, now: now}
	if h.s.transfers == nil || h.s.responder.Index() == nil || s.q.Parse(msg) != wire.OK || s.q.Class != wire.ClassIN {
		return plain
	}
	if transfer := s.q.Opcode == wire.OpcodeQuery && (s.q.Type == wire.TypeAXFR || s.q.Type == wire.TypeIXFR); transfer && h.x.TCP && !h.late {
		h.later = h.transferLater(plain[len(reply):], msg, client, now)
		return reply
	}
	s.copies = h.s.transfers.state.Load()
	if s.q.TSIG {
		if refusal, ok := s.verify(); !ok {
			return refusal
		}
	}
	if s.q.Opcode == wire.OpcodeUpdate {
		return s.update(plain)
	}
	if s.q.Type != wire.TypeAXFR && s.q.Type != wire.TypeIXFR {
		return s.answer()
	}
	return s.transfer(plain)
}

// unix is the time that signatures are of.
func (s *side) unix() uint64 { return uint64(max(0, s.now.Unix())) }

// verify checks the signature. It gives the refusal of one that is not good (RFC 8945 section 5.2).
func (s *side) verify() (refusal []byte, ok bool) {
	start := len(s.reply)
	r, err := tsig.Find(s.msg)
	if err != nil || r == nil {
		return s.fault(dns.RcodeFormatError, noEDE), false
	}
	key := s.h.s.transfers.keys.Load().signs(s.q.Name(), r)
	if key == nil {
		return tsig.AppendUnsigned(s.fault(dns.RcodeNotAuth, noEDE), start, tsig.BadKey, r), false
	}
	switch code, err := r.Verify(s.msg, key, nil, s.unix()); {
	case err != nil:
		return s.fault(dns.RcodeFormatError, noEDE), false
	case code == tsig.BadSig:
		return tsig.AppendUnsigned(s.fault(dns.RcodeNotAuth, noEDE), start, code, r), false
	case code != tsig.NoError:
		return tsig.Reply(key, r).AppendError(s.fault(dns.RcodeNotAuth, noEDE), start, code, r, s.unix()), false
	}
	s.key, s.signer = key, tsig.Reply(key, r)
	s.msg = r.Strip(s.msg)
	return nil, true
}

// answer is the reply to an ordinary question, signed.
func (s *side) answer() []byte {
	x := &s.h.x
	x.Reserve = s.signer.Size()
	out := s.h.s.responder.Respond(s.reply, s.msg, x)
	x.Reserve = 0
	return s.sign(out)
}

// sign signs the reply, if it is to be.
func (s *side) sign(out []byte) []byte {
	if s.signer == nil || len(out) == len(s.reply) {
		return out
	}
	return s.signer.Append(out, len(s.reply), s.unix())
}

// transfer is the first message of the reply to AXFR or IXFR.
func (s *side) transfer(plain []byte) []byte {
	tcp := s.h.x.TCP
	if s.q.Type == wire.TypeAXFR && !tcp {
		return s.sign(plain) // there is no AXFR over UDP: RFC 5936 section 4.2
	}
	if tcp { // a UDP socket serves others too, and waits for nothing
		var ok bool
		if s.copies, ok = s.h.s.transfers.await(s.now.Add(catchUp)); !ok {
			return s.sign(s.fault(dns.RcodeServerFailure, dns.ExtendedErrorCodeNotReady))
		}
	}
	z := s.copies.zones[string(s.q.Name())]
	switch {
	case z == nil && s.h.s.transfers.behind(s.copies): // it may be new
		return s.sign(s.fault(dns.RcodeServerFailure, dns.ExtendedErrorCodeNotReady))
	case z == nil:
		return s.sign(s.fault(dns.RcodeNotAuth, dns.ExtendedErrorCodeNotAuthoritative))
	}
	switch why := s.refused(z); {
	case why != "":
		s.h.s.metrics.transfers.WithLabelValues("refused").Inc()
		s.h.s.log.Info("zone transfer refused", "zone", z.text, "client", s.client, "why", why)
		return s.sign(s.fault(dns.RcodeRefused, dns.ExtendedErrorCodeProhibited))
	case s.q.Type == wire.TypeAXFR:
		return s.begin(z, z.zone.Whole(), "whole")
	}
	serial, ok := clientSerial(s.msg)
	if !ok {
		return s.sign(s.fault(dns.RcodeFormatError, noEDE))
	}
	records, incremental := z.zone.Since(serial)
	kind := "whole"
	switch {
	case incremental && len(records) == 1:
		kind = "current"
	case incremental:
		kind = "changes"
	}
	return s.begin(z, records, kind)
}

// refused says why a client does not get a zone; "": it does.
func (s *side) refused(z *zoneCopy) string {
	var key []byte
	if s.key != nil {
		key = s.key.Name
	}
	switch {
	case z.allow == nil:
		return "the zone has no transfer"
	case !z.allows(s.client, key) && key == nil:
		return "neither transfer.to nor transfer.allow has this address without a key"
	case !z.allows(s.client, key):
		return "neither transfer.to nor transfer.allow has this address with this key"
	default:
		return z.refused
	}
}

// begin sends the first message of a transfer, and has the others follow on a connection.
func (s *side) begin(z *zoneCopy, records [][]string, kind string) []byte {
	s.h.x.Result.Rcode = dns.RcodeSuccess
	req := transfer.Request{ID: s.q.ID, Question: s.q.Question, EDNS: s.q.EDNS}
	server, client := s.h.s, s.client
	st := &stream{packer: transfer.NewPacker(req, records), signer: s.signer, end: func(messages int) {
		server.metrics.transfers.WithLabelValues(kind).Inc()
		if kind != "current" {
			server.log.Info("zone transferred", "zone", z.text, "serial", z.zone.Serial, "what", kind, "client", client, "messages", messages)
		}
	}}
	if s.h.x.TCP {
		s.h.stream = st
		return s.h.More(s.reply)
	}
	limit := 512
	if s.q.EDNS {
		limit = min(max(int(s.q.UDPSize), limit), server.cfg.MaxUDP)
	}
	out, ok := st.packer.Append(s.reply, limit, st.reserve())
	if !ok || !st.packer.Done() {
		// It does not fit: the SOA tells that there is something newer, and TCP has it (RFC 1995 section 2).
		records, kind = [][]string{{z.zone.SOA}}, "current"
		st.packer = transfer.NewPacker(req, records)
		if out, ok = st.packer.Append(s.reply, limit, st.reserve()); !ok {
			return s.sign(s.fault(dns.RcodeServerFailure, noEDE))
		}
	}
	st.end(1)
	return s.sign(out)
}

func (st *stream) reserve() int {
	if st.signer == nil {
		return 0
	}
	return st.signer.Size()
}

// More makes the next message of a transfer under way; nothing: there is none.
func (h *handler) More(reply []byte) (out []byte) {
	st := h.stream
	if st == nil {
		return reply
	}
	defer func() {
		if v := recover(); v != nil { // as in Handle
			h.s.metrics.panics.Inc()
			h.s.log.Error("a transfer hit a fault in this program and was broken off: please report it", "panic", v, "stack", string(debug.Stack()))
			h.stream, out = nil, reply
		}
	}()
	start := len(reply)
	var ok bool
	out, ok = st.packer.Append(reply, maxMessage, st.reserve())
	if !ok {
		h.stream = nil
		h.s.metrics.transfers.WithLabelValues("failed").Inc()
		h.s.log.Error("a record does not fit into a message: the transfer was broken off")
		return out
	}
	if st.signer != nil {
		out = st.signer.Append(out, start, uint64(max(0, time.Now().Unix())))
	}
	if st.messages++; st.packer.Done() {
		h.stream = nil
		st.end(st.messages)
	}
	return out
}

// maxMessage is what the length before a message over TCP can say.
const maxMessage = 65535

// clientSerial is the serial of the SOA that an IXFR request tells in its authority section (RFC 1995 section 3).
func clientSerial(msg []byte) (uint32, bool) {
	m := new(dns.Msg)
	if m.Unpack(msg) != nil || len(m.Ns) != 1 {
		return 0, false
	}
	soa, ok := m.Ns[0].(*dns.SOA)
	if !ok {
		return 0, false
	}
	return soa.Serial, true
}

const noEDE = 0xFFFF

// fault is a reply without records: a response code, and to who understands it an extended error.
func (s *side) fault(rcode uint16, ede uint16) []byte {
	s.h.x.Result.Rcode = rcode
	q, start := &s.q, len(s.reply)
	out := append(s.reply, make([]byte, wire.HeaderLen)...)
	binary.BigEndian.PutUint16(out[start:], q.ID)
	flags := 0x8000 | uint16(q.Opcode)<<11 | rcode
	if q.RD {
		flags |= 0x0100
	}
	binary.BigEndian.PutUint16(out[start+2:], flags)
	if q.Question != nil {
		out[start+5] = 1
		out = append(out, q.Question...)
	}
	if !q.EDNS {
		return out
	}
	out[start+11] = 1
	out = append(out, 0, 0, wire.TypeOPT)
	out = binary.BigEndian.AppendUint16(out, uint16(s.h.s.cfg.MaxUDP))
	if ede == noEDE {
		return append(out, 0, 0, 0, 0, 0, 0)
	}
	out = append(out, 0, 0, 0, 0, 0, 6, 0, wire.OptionEDE, 0, 2)
	return binary.BigEndian.AppendUint16(out, ede)
}

package answer

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
)

// checkReply holds what is true of every reply to every message: whether there is one, its size, id, question and
// flags, and that the library can read it.
func checkReply(t *testing.T, r *Responder, req []byte, x *Exchange) *dns.Msg {
	t.Helper()
	before := bytes.Clone(req)
	got := r.Respond(nil, req, x)
	if !bytes.Equal(before, req) {
		t.Fatal("the query was written to")
	}
	if len(req) < 12 || req[2]&0x80 != 0 {
		if got != nil || x.Result.Drop == Answered {
			t.Fatalf("answered what must be dropped: %x", got)
		}
		return nil
	}
	if len(got) < 12 {
		t.Fatalf("no answer to %x", req)
	}
	limit := 512
	var library dns.Msg
	loneQuestion := []byte{0, 1, 0, 0, 0, 0, 0, 0}
	if x.q.EDNS {
		limit = min(max(512, int(x.q.UDPSize)), 1232)
	}
	if !x.TCP && len(got) > limit {
		t.Fatalf("%d octets where %d are allowed", len(got), limit)
	}
	if !bytes.Equal(got[:2], req[:2]) || (got[2]^req[2])&0x78 != 0 || got[2]&0x80 == 0 {
		t.Fatalf("id or opcode changed, or no response: %x", got[:4])
	}
	if got[3]&0xF0 != 0 {
		t.Fatalf("RA, Z, AD or CD set: %x", got[:4])
	}
	m := dnstest.Unpack(t, got)
	if binary.BigEndian.Uint16(got[4:]) == 1 {
		q := x.q.Question
		if !bytes.Equal(got[12:12+len(q)], q) || !bytes.Equal(req[12:12+len(q)], q) {
			t.Fatal("the question is not the one asked")
		}
	}
	if (m.IsEdns0() != nil) != x.q.EDNS {
		t.Fatalf("OPT %t, asked with OPT %t", m.IsEdns0() != nil, x.q.EDNS)
	}
	// A lone question that the library writes as it was read is never a format error.
	if bytes.Equal(req[4:12], loneQuestion) && req[2]&0x78 == 0 && library.Unpack(req) == nil && len(library.Question) == 1 {
		again, err := library.Pack()
		if err == nil && bytes.Equal(again[4:], req[4:]) && m.Rcode == dns.RcodeFormatError {
			t.Fatalf("FORMERR to a plain question: %v", library.Question)
		}
	}
	return m
}

// FuzzPacket throws any octets at the responder.
//
// Covers: issue2 fuzz, field 53
func FuzzPacket(f *testing.F) {
	for _, q := range benchQueries(f) {
		f.Add(q.req, false)
	}
	f.Add(dnstest.Raw(1, 0, [4]uint16{1, 0, 0, 2}, dnstest.Question("example.com.", 2, 1), dnstest.OPT(512, 0, 0x8000), dnstest.OPT(512, 0, 0)), true)
	f.Add(dnstest.Raw(1, 0x2800, [4]uint16{1, 2, 3, 4}, []byte{0xC0, 12}), false)
	r := newResponder(f, dnstest.Map(f))
	none := newResponder(f, nil)
	f.Fuzz(func(t *testing.T, req []byte, tcp bool) {
		if len(req) > 65535 {
			req = req[:65535]
		}
		x := &Exchange{Client: resolver, TCP: tcp, Now: time.Hour, Unix: 1 << 30}
		checkReply(t, r, req, x)
		checkReply(t, none, req, x)
	})
}

// FuzzECS puts any octets into the client subnet option of an otherwise good query.
//
// Covers: issue2 fuzz, field 7
func FuzzECS(f *testing.F) {
	f.Add([]byte{0, 1, 24, 0, 192, 0, 2}, uint8(0))
	f.Add([]byte{0, 2, 56, 0, 0x20, 1, 0x0d, 0xb8, 0, 1, 0}, uint8(1))
	f.Add([]byte{0, 0, 0, 0}, uint8(2))
	f.Add([]byte{0, 1, 20, 0, 192, 0, 0x1F}, uint8(3))
	names := []string{"shop.gslb.example.net.", "split.gslb.example.net.", "mail.example.com.", "no.example.com."}
	r := newResponder(f, dnstest.Map(f))
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		if len(data) > 1000 {
			return
		}
		question := dnstest.Question(names[int(which)%len(names)], dns.TypeA, 1)
		req := dnstest.Raw(5, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, dnstest.Option(8, data...)...))
		x := &Exchange{Client: resolver}
		m := checkReply(t, r, req, x)
		if m.Rcode == dns.RcodeFormatError {
			if len(m.IsEdns0().Option) != 0 {
				t.Fatal("a malformed subnet is echoed")
			}
			return
		}
		reply := r.Respond(nil, req, x)
		echo := reply[len(reply)-len(data):]
		if len(data) < 4 || !bytes.Equal(echo[:3], data[:3]) || !bytes.Equal(echo[4:], data[4:]) {
			t.Fatalf("subnet %x came back as %x", data, echo)
		}
		width := 32
		if data[1] == 2 {
			width = 128
		}
		if data[2] == 0 && echo[3] != 0 || int(echo[3]) > width || data[3] != 0 {
			t.Fatalf("subnet %x: scope %d", data, echo[3])
		}
		if data[2] > 0 {
			checkBlock(t, r, question, data, int(echo[3]), reply)
		}
	})
}

// checkBlock asks for the first and last address of the block a scope names: the sections before OPT must be equal.
func checkBlock(t *testing.T, r *Responder, question, data []byte, scope int, reply []byte) {
	t.Helper()
	raw := make([]byte, 4+12*int(data[1]-1))
	copy(raw, data[4:])
	addr, _ := netip.AddrFromSlice(raw)
	first := netip.PrefixFrom(addr, scope).Masked().Addr().AsSlice()
	last := bytes.Clone(first)
	for i := scope; i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	for _, a := range [][]byte{first, last} {
		option := append([]byte{0, data[1], byte(len(a) * 8), 0}, a...)
		req := dnstest.Raw(5, 0, [4]uint16{1, 0, 0, 1}, question, dnstest.OPT(1232, 0, 0, dnstest.Option(8, option...)...))
		got := r.Respond(nil, req, &Exchange{Client: resolver})
		if !bytes.Equal(got[:len(got)-15-len(option)], reply[:len(reply)-15-len(data)]) {
			t.Fatalf("%x and %x lie in one scope /%d and have different answers", data, option, scope)
		}
	}
}

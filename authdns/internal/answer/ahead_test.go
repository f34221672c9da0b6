package answer

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"steerpoint/authdns/internal/dnstest"
)

// TestLookAhead: looking at a batch of messages, whole, cut and made up, before they are answered changes no answer, keeps
// nothing and allocates nothing; a small map, or none, is not looked at.
//
// Covers: A2, issue5 no allocation
func TestLookAhead(t *testing.T) {
	r := NewResponder(Config{MaxUDP: 1232})
	a := new(Ahead)
	r.LookAhead(a, [][]byte{{1}, {2}})
	d := dnstest.Map(t)
	ix, err := Build(d, []Table{d.Tables[0]}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetIndex(ix)
	rng := rand.New(rand.NewPCG(7, 7))
	var msgs [][]byte
	for _, q := range everyKind(t) {
		msgs = append(msgs, q.req, q.req[:rng.IntN(len(q.req)+1)], nil)
		for range min(len(q.req), 2) {
			junk := bytes.Clone(q.req)
			junk[rng.IntN(len(junk))] ^= byte(1 + rng.IntN(255))
			msgs = append(msgs, junk)
		}
	}
	if r.LookAhead(a, msgs); a.read != 0 {
		t.Error("a small map is looked at")
	}
	answers := func() (all [][]byte) {
		x := Exchange{Client: netip.MustParseAddr("192.0.2.1"), Now: time.Second}
		for _, msg := range msgs {
			all = append(all, r.Respond(nil, msg, &x))
		}
		return all
	}
	before := answers()
	for rest := msgs; len(rest) > 0; {
		batch := rest[:min(len(rest), aheadMost)]
		rest = rest[len(batch):]
		if n := testing.AllocsPerRun(10, func() { ix.lookAhead(a, batch) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	if a.read == 0 {
		t.Error("nothing was read")
	}
	for i, after := range answers() {
		if !bytes.Equal(after, before[i]) {
			t.Errorf("message %d is answered otherwise", i)
		}
	}
}

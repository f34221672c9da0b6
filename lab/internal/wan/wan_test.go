package wan_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"steerpoint/lab/internal/wan"
)

const ms = time.Millisecond

// arrival is a packet, by the number in its data, and when it was due.
type arrival struct {
	number byte
	at     time.Duration
}

// send sends count packets of size bytes from host 0 to host 1, one every step, and gives what arrives.
func send(t *testing.T, p wan.Pair, count, size int, step time.Duration) ([]arrival, wan.Counts) {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	n := wan.New(2, 7)
	n.Set(0, 1, p)
	for i := range count {
		n.Send(time.Duration(i)*step, 0, 1, append([]byte{byte(i)}, make([]byte, size-1)...))
	}
	return drain(t, n), n.Counts(0, 1)
}

// drain takes every packet exactly when the net says it is due.
func drain(t *testing.T, n *wan.Net) []arrival {
	t.Helper()
	var got []arrival
	for {
		due, ok := n.Next()
		if !ok {
			return got
		}
		if _, early := n.Due(due - 1); early {
			t.Fatalf("a packet due at %v came before", due)
		}
		p, ok := n.Due(due)
		if !ok {
			t.Fatalf("nothing is due at %v, when Next said so", due)
		}
		got = append(got, arrival{p.Data[0], due})
	}
}

// TestDelay: each packet takes exactly the delay, and other pairs none of it.
//
// Covers: issue3 lab
func TestDelay(t *testing.T) {
	got, counts := send(t, wan.Pair{Delay: 20 * ms}, 5, 100, ms)
	want := []arrival{{0, 20 * ms}, {1, 21 * ms}, {2, 22 * ms}, {3, 23 * ms}, {4, 24 * ms}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := (wan.Counts{Sent: 5, Arrived: 5, Bytes: 500}); counts != want {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
	n := wan.New(2, 7)
	n.Set(0, 1, wan.Pair{Delay: time.Second})
	n.Send(5*ms, 1, 0, []byte{9})
	if got := drain(t, n); len(got) != 1 || got[0].at != 5*ms {
		t.Errorf("the way back is not as it was: %v", got)
	}
}

// TestJitter: it stays within its bounds, spreads, and changes the order only where that is asked for.
//
// Covers: issue3 lab
func TestJitter(t *testing.T) {
	for _, reorder := range []bool{false, true} {
		got, _ := send(t, wan.Pair{Delay: 50 * ms, Jitter: 5 * ms, Reorder: reorder}, 200, 100, ms)
		if len(got) != 200 {
			t.Fatalf("%d of 200 arrived", len(got))
		}
		var least, most time.Duration = time.Hour, 0
		for _, a := range got {
			took := a.at - time.Duration(a.number)*ms
			least, most = min(least, took), max(most, took)
		}
		if least < 45*ms || most > 55*ms {
			t.Errorf("reorder %v: packets took %v to %v, outside of 45ms to 55ms", reorder, least, most)
		}
		if least > 47*ms || most < 53*ms {
			t.Errorf("reorder %v: packets took %v to %v: that is hardly a jitter of 5ms", reorder, least, most)
		}
		sorted := slices.IsSortedFunc(got, func(a, b arrival) int { return int(a.number) - int(b.number) })
		if sorted == reorder {
			t.Errorf("reorder %v: packets arrived in order: %v", reorder, sorted)
		}
	}
}

// TestLoss: the share is right, and the same seed loses the same packets whatever other pairs do.
//
// Covers: issue3 lab
func TestLoss(t *testing.T) {
	lost := func(seed uint64, others bool) []bool {
		n := wan.New(3, seed)
		n.Set(0, 1, wan.Pair{Loss: 0.1})
		n.Set(2, 1, wan.Pair{Loss: 0.5})
		var fate []bool
		for range 10_000 {
			if others {
				n.Send(0, 2, 1, []byte{0})
			}
			fate = append(fate, !n.Send(0, 0, 1, []byte{0}))
		}
		return fate
	}
	first := lost(1, false)
	count := 0
	for _, l := range first {
		if l {
			count++
		}
	}
	// Four standard deviations of a binomial distribution: 4 * sqrt(10000 * 0.1 * 0.9).
	if count < 880 || count > 1120 {
		t.Errorf("%d of 10,000 packets lost at 10 %%", count)
	}
	if !slices.Equal(first, lost(1, true)) {
		t.Error("what another pair sent changed what this one lost")
	}
	if slices.Equal(first, lost(2, false)) {
		t.Error("another seed lost the same packets")
	}
	if got, counts := send(t, wan.Pair{Loss: 1}, 10, 100, ms); len(got) != 0 || counts.Lost != 10 {
		t.Errorf("loss 100%%: %d arrived, counts %+v", len(got), counts)
	}
}

// TestRate: a line sends one packet after the other at its rate, and the queue bounds the wait.
//
// Covers: issue3 lab
func TestRate(t *testing.T) {
	// 1,000 bytes at 1 Mbit/s are 8 ms.
	got, _ := send(t, wan.Pair{Rate: 1e6, Delay: 20 * ms}, 3, 1000, 0)
	if want := []arrival{{0, 28 * ms}, {1, 36 * ms}, {2, 44 * ms}}; !slices.Equal(got, want) {
		t.Errorf("all at once: got %v, want %v", got, want)
	}
	got, _ = send(t, wan.Pair{Rate: 1e6}, 3, 1000, 10*ms)
	if want := []arrival{{0, 8 * ms}, {1, 18 * ms}, {2, 28 * ms}}; !slices.Equal(got, want) {
		t.Errorf("slower than the line: got %v, want %v", got, want)
	}
	// Ten at once: the wait of the fourth is 24 ms, of the fifth 32 ms.
	got, counts := send(t, wan.Pair{Rate: 1e6, Queue: 24 * ms}, 10, 1000, 0)
	if len(got) != 4 || counts.Full != 6 || counts.Arrived != 4 {
		t.Errorf("queue of 24ms: %d arrived, counts %+v", len(got), counts)
	}
}

// TestCut: nothing goes in from then on, in that direction only; what is on its way arrives.
//
// Covers: issue3 lab
func TestCut(t *testing.T) {
	n := wan.New(2, 7)
	n.Set(0, 1, wan.Pair{Delay: 20 * ms})
	n.Send(0, 0, 1, []byte{1})
	n.Set(0, 1, wan.Pair{Delay: 20 * ms, Cut: true})
	if n.Send(ms, 0, 1, []byte{2}) {
		t.Error("a packet was sent over a cut")
	}
	if !n.Send(ms, 1, 0, []byte{3}) {
		t.Error("the other direction is cut too")
	}
	n.Set(0, 1, wan.Pair{Delay: 20 * ms})
	n.Send(2*ms, 0, 1, []byte{4})
	if got, want := drain(t, n), []arrival{{3, ms}, {1, 20 * ms}, {4, 22 * ms}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := n.Counts(0, 1), (wan.Counts{Sent: 3, Arrived: 2, Cut: 1, Bytes: 2}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// TestAShorterDelayDoesNotOvertake: packets stay in order when a line is made faster under them.
//
// Covers: issue3 lab
func TestAShorterDelayDoesNotOvertake(t *testing.T) {
	n := wan.New(2, 7)
	n.Set(0, 1, wan.Pair{Delay: 100 * ms})
	n.Send(0, 0, 1, []byte{1})
	n.Set(0, 1, wan.Pair{})
	n.Send(ms, 0, 1, []byte{2})
	if got, want := drain(t, n), []arrival{{1, 100 * ms}, {2, 100 * ms}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestChange: the words of a script.
//
// Covers: issue3 lab
func TestChange(t *testing.T) {
	start := wan.Pair{Delay: 9 * ms, Cut: true}
	for _, row := range []struct {
		words []string
		want  wan.Pair
	}{
		{nil, start},
		{[]string{"delay=20ms", "jitter=2ms", "loss=10%", "heal"}, wan.Pair{Delay: 20 * ms, Jitter: 2 * ms, Loss: 0.1}},
		{[]string{"loss=0.25", "reorder"}, wan.Pair{Delay: 9 * ms, Cut: true, Loss: 0.25, Reorder: true}},
		{[]string{"rate=1.5mbit", "queue=50ms", "cut"}, wan.Pair{Delay: 9 * ms, Cut: true, Rate: 1_500_000, Queue: 50 * ms}},
		{[]string{"rate=100kbit", "rate=0", "reorder", "inorder"}, start},
	} {
		got, err := start.Change(row.words...)
		if err != nil || got != row.want {
			t.Errorf("%q: got %+v, %v, want %+v", row.words, got, err, row.want)
		}
	}
	for _, bad := range []string{
		"delay", "delay=20", "delay=-1ms", "jitter=10ms", "loss=101%", "loss=-1%", "loss=NaN", "rate=10", "rate=-1mbit",
		"rate=9999999gbit", "queue=1ms", "queue=x", "speed=1", "",
	} {
		if got, err := start.Change(bad); err == nil {
			t.Errorf("%q was taken: %+v", bad, got)
		}
	}
}

func packet4(dst string) []byte {
	b := make([]byte, 20)
	b[0] = 0x45
	a := netip.MustParseAddr(dst).As4()
	copy(b[16:], a[:])
	return b
}

func packet6(dst string) []byte {
	b := make([]byte, 40)
	b[0] = 0x60
	a := netip.MustParseAddr(dst).As16()
	copy(b[24:], a[:])
	return b
}

// Covers: issue3 lab
func TestDestination(t *testing.T) {
	for _, addr := range []string{"10.77.3.1", "fd77:0:0:3::1"} {
		want := netip.MustParseAddr(addr)
		packet := packet4
		if want.Is6() {
			packet = packet6
		}
		if got, ok := wan.Destination(packet(addr)); !ok || got != want {
			t.Errorf("%s: got %v, %v", addr, got, ok)
		}
		if got, ok := wan.Destination(packet(addr)[:19]); ok {
			t.Errorf("%s: half a header has the destination %v", addr, got)
		}
	}
	if _, ok := wan.Destination(nil); ok {
		t.Error("nothing has a destination")
	}
}

// Covers: issue3 lab
func FuzzDestination(f *testing.F) {
	f.Add(packet4("10.77.3.1"))
	f.Add(packet6("fd77:0:0:3::1"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		before := bytes.Clone(packet)
		addr, ok := wan.Destination(packet)
		if ok != addr.IsValid() {
			t.Errorf("ok %v with the address %v", ok, addr)
		}
		if ok && addr.Is4() != (packet[0]>>4 == 4) {
			t.Errorf("%v is of another family than the packet", addr)
		}
		if !bytes.Equal(packet, before) {
			t.Error("the packet was changed")
		}
	})
}

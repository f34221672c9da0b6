package server

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// TestGatherDense: packets that come densely are let gather; those of one client that waits for each reply are not, nor what
// comes after a pause, until it is dense again.
//
// Covers: A2, issue5 batch
func TestGatherDense(t *testing.T) {
	now := time.Unix(1, 0)
	g := &newBatch(1).gather
	if g.dense() {
		t.Error("dense before the first packet")
	}
	come := func(times, n int, apart time.Duration) {
		for range times {
			now = now.Add(time.Duration(n) * apart)
			g.note(n, now)
		}
	}
	for _, row := range []struct {
		times, n      int
		apart         time.Duration
		dense, steady bool
	}{
		{1000, 1, 100 * time.Microsecond, false, false},
		{1000, 1, 20 * time.Microsecond, false, false},
		{100, 4, 100 * time.Microsecond, false, true},
		{100, 1, 10 * time.Microsecond, true, false},
		{100, 8, 5 * time.Microsecond, true, true},
		{1, 1, time.Hour, false, true},
		{2, 1, time.Microsecond, false, true},
		{50, 1, time.Microsecond, true, false},
		{100, 2, 50 * time.Microsecond, false, true},
	} {
		if come(row.times, row.n, row.apart); g.dense() != row.dense || g.steady() != row.steady {
			t.Errorf("%d times %d packets, %s apart: mean %s", row.times, row.n, row.apart, g.gap)
		}
	}
	come(100, 5, time.Microsecond)
	if g.pause(); g.dense() || g.steady() {
		t.Error("steady, though nothing came for long")
	}
}

// TestGatherTurns: a reader that keeps its processor lets others have it once in a while, and not at each batch.
//
// Covers: A2, issue5 batch
func TestGatherTurns(t *testing.T) {
	g := &gather{at: time.Unix(1, 0), load: steadyLoad}
	if g.others(); !g.turn.Equal(g.at) {
		t.Error("no turn at first")
	}
	first := g.turn
	g.at = g.at.Add(turnTime)
	if g.others(); !g.turn.Equal(first) {
		t.Error("a turn too early")
	}
	g.at = g.at.Add(1)
	if g.others(); !g.turn.Equal(g.at) {
		t.Error("no turn in time")
	}
	last := g.turn
	g.pause()
	g.at = g.at.Add(time.Hour)
	if g.others(); !g.turn.Equal(last) {
		t.Error("a turn of a reader that gives its processor back by itself")
	}
}

// TestGatherTakesAll: while packets are let gather, none is lost or comes twice, and the reader ends as ever.
//
// Covers: A2, issue5 batch
func TestGatherTakesAll(t *testing.T) {
	server, port := batchSocket(t, "127.0.0.1:0")
	c := asker(t, netip.MustParseAddr("127.0.0.1"), port)
	b := newBatch(4)
	const packets = 100
	for n := 0; n < packets; n += 10 {
		for i := range 10 {
			tell(t, c, fmt.Sprint(n+i))
		}
		for seen := 0; seen < 10; {
			b.gather.gap = 0 // whatever the machine does meanwhile
			if _, err := b.receive(server); err != nil {
				t.Fatal(err)
			}
			for i := range b.received {
				if msg, _ := b.packet(i); string(msg) != fmt.Sprint(n+seen+i) {
					t.Fatalf("packet %d is %q", n+seen+i, msg)
				}
			}
			seen += b.received
		}
	}
	server.stop()
	b.gather.gap = 0
	if _, err := b.receive(server); err == nil {
		t.Error("a packet after the end")
	}
}

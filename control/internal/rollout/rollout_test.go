package rollout

import (
	"slices"
	"testing"
	"time"

	"steerpoint/control/internal/roster"
	"steerpoint/steering"
)

func audience(names ...string) *roster.Audience { return &roster.Audience{Names: names} }

func at(d time.Duration) steering.Instant { return steering.Instant(time.Hour + d) }

func names(acks []Ack) (out []string) {
	for _, a := range acks {
		out = append(out, a.Node)
	}
	return out
}

// TestAPublicationEndsWithTheLastAck proves that a switch is published when the last name server that was connected at
// the decision answers by its map or a later one, whatever the order in which acknowledgements and hand-out are noted.
// Covers: decisions 4, issue3 publication measured
func TestAPublicationEndsWithTheLastAck(t *testing.T) {
	var tr Tracker
	here := audience("a", "b", "local")
	tr.Handed(7, at(0))
	if through, after := tr.Ack("a", 7, at(20*time.Millisecond)); len(through) != 0 || after != 20*time.Millisecond {
		t.Errorf("an acknowledgement before Open: %+v, measured %v", through, after)
	}
	if through := tr.Open(7, []Switch{{ID: "s1", At: at(-time.Second), Audience: here}}, here, at(0)); len(through) != 0 {
		t.Errorf("through at once: %+v", through)
	}
	tr.Ack("local", 7, at(30*time.Millisecond))
	if through, _ := tr.Ack("b", 6, at(40*time.Millisecond)); len(through) != 0 {
		t.Errorf("an older version counts: %+v", through)
	}
	tr.Handed(8, at(50*time.Millisecond))
	tr.Open(8, nil, here, at(50*time.Millisecond))
	through, after := tr.Ack("b", 8, at(90*time.Millisecond))
	if len(through) != 1 || after != 40*time.Millisecond {
		t.Fatalf("a later version counts: %+v, measured %v", through, after)
	}
	r := through[0]
	if r.Version != 7 || r.At != at(90*time.Millisecond) || len(r.Missing) != 0 || !slices.Equal(names(r.Acks), []string{"b", "local", "a"}) || r.Switches[0].ID != "s1" {
		t.Errorf("result %+v", r)
	}
	if through := tr.Expire(at(time.Hour)); len(through) != 1 || through[0].Version != 8 {
		t.Errorf("map 8, which a and local never took: %+v", through)
	}
}

// TestTheMissingAreNamed proves that nobody is waited for longer than Patience, that a node that is dropped is not
// waited for, and that a late node is not counted.
// Covers: decisions 4, issue3 publication measured
func TestTheMissingAreNamed(t *testing.T) {
	var tr Tracker
	then, now := audience("a", "b", "c"), audience("a", "b", "c", "d")
	tr.Open(3, []Switch{{"s1", at(0), then}, {"s2", at(1), now}}, now, at(time.Second))
	tr.Ack("a", 3, at(2*time.Second))
	tr.Ack("d", 3, at(2*time.Second))
	if through := tr.Drop("b"); len(through) != 0 {
		t.Errorf("c is still waited for: %+v", through)
	}
	if through := tr.Expire(at(30 * time.Second)); len(through) != 0 {
		t.Errorf("too early: %+v", through)
	}
	through := tr.Expire(at(31 * time.Second))
	if len(through) != 2 {
		t.Fatalf("%+v", through)
	}
	for i, want := range [][]string{{"a"}, {"a", "d"}} {
		if r := through[i]; !slices.Equal(names(r.Acks), want) || !slices.Equal(r.Missing, []string{"b", "c"}) {
			t.Errorf("switch %d: acks %v, missing %v", i+1, names(r.Acks), r.Missing)
		}
	}
	if late, _ := tr.Ack("c", 3, at(time.Minute)); len(late) != 0 {
		t.Errorf("published twice: %+v", late)
	}
}

// TestNobodyToWaitFor proves that a map without any name server is through at once, and that of maps without switches
// only the newest is followed.
func TestNobodyToWaitFor(t *testing.T) {
	var tr Tracker
	if through := tr.Open(1, []Switch{{"s", at(0), audience()}}, audience(), at(1)); len(through) != 1 || len(through[0].Acks) != 0 {
		t.Errorf("no name server: %+v", through)
	}
	for v := uint64(2); v < 600; v++ {
		tr.Open(v, nil, audience("a"), at(time.Duration(v)))
	}
	through, _ := tr.Ack("a", 599, at(time.Second))
	if len(through) != 1 || through[0].Version != 599 || len(tr.open) != 0 {
		t.Errorf("followed: %+v, open %d", through, len(tr.open))
	}
	if _, after := tr.Ack("a", 2, at(time.Second)); after != 0 {
		t.Errorf("a publication long forgotten is measured as %v", after)
	}
}

// TestAVersionNeverHandedOutCountsForNothing proves that a node which still answers by the map of a control that was
// restored since, with a higher number, is waited for until it takes one of ours.
// Covers: decisions 4, issue3 publication measured
func TestAVersionNeverHandedOutCountsForNothing(t *testing.T) {
	var tr Tracker
	here := audience("a")
	tr.Handed(7, at(0))
	tr.Ack("a", 1014, at(time.Millisecond))
	if through := tr.Open(7, []Switch{{ID: "s1", At: at(0), Audience: here}}, here, at(0)); len(through) != 0 {
		t.Fatalf("through by a map of another control: %+v", through)
	}
	if through, after := tr.Ack("a", 1015, at(time.Second)); len(through) != 0 || after != 0 {
		t.Errorf("through by a map of another control: %+v, measured %v", through, after)
	}
	if through, _ := tr.Ack("a", 7, at(2*time.Second)); len(through) != 1 || through[0].At != at(2*time.Second) {
		t.Errorf("acknowledged: %+v", through)
	}
}

// TestMissing: who does not answer by a version yet is named, and who waits for that is told of each answer and of who is gone.
//
// Covers: issue5 update nodes
func TestMissing(t *testing.T) {
	var tr Tracker
	tr.Handed(7, at(0))
	missing, news := tr.Missing(7, []string{"a", "b"})
	if !slices.Equal(missing, []string{"a", "b"}) {
		t.Errorf("missing are %v", missing)
	}
	heard := func() bool {
		select {
		case <-news:
			return true
		default:
			return false
		}
	}
	if heard() {
		t.Error("there is no news")
	}
	tr.Ack("a", 7, at(1))
	if !heard() {
		t.Error("an acknowledgement is no news")
	}
	if missing, news = tr.Missing(7, []string{"a", "b"}); !slices.Equal(missing, []string{"b"}) {
		t.Errorf("missing are %v", missing)
	}
	tr.Ack("b", 6, at(2))
	if missing, _ = tr.Missing(7, []string{"a", "b"}); !slices.Equal(missing, []string{"b"}) {
		t.Errorf("missing are %v", missing)
	}
	_, news = tr.Missing(7, []string{"b"})
	tr.Drop("b")
	if !heard() {
		t.Error("that a node is gone is no news")
	}
	if missing, _ = tr.Missing(7, []string{"a"}); missing != nil {
		t.Errorf("missing are %v", missing)
	}
}

// Package wan is the arithmetic of an emulated wide-area network: when, if ever, does a packet arrive?
//
// It reads no clock and does no I/O: the time is handed in, packets are handed back when they are due. Chance comes
// from one seeded source for each ordered pair of hosts, so what one pair loses does not depend on what others send.
// A Net is not safe for concurrent use.
package wan

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Pair is how packets of one host travel to one other. The zero value is a perfect cable.
type Pair struct {
	// Delay is the time each packet takes; 0: none.
	Delay time.Duration
	// Jitter is the most by which a packet takes more or less than Delay, evenly spread; 0: none.
	Jitter time.Duration
	// Loss is the share of packets that never arrive, 0 to 1.
	Loss float64
	// Rate is what the line carries, in bits a second; 0: no limit.
	Rate int64
	// Queue is the longest a packet may wait for a line with a Rate; one that would wait longer is dropped. 0: it may
	// wait for ever.
	Queue time.Duration
	// Reorder lets jitter change the order of packets. False: a packet waits for the ones before it.
	Reorder bool
	// Cut drops everything, and tells nobody. What is on its way arrives.
	Cut bool
}

// Validate names the first field outside its range.
func (p Pair) Validate() error {
	switch {
	case p.Delay < 0:
		return fmt.Errorf("delay %v is negative", p.Delay)
	case p.Jitter < 0 || p.Jitter > p.Delay:
		return fmt.Errorf("jitter %v is not between 0 and the delay, %v", p.Jitter, p.Delay)
	case !(p.Loss >= 0 && p.Loss <= 1): // NaN is neither
		return fmt.Errorf("loss %v is not between 0 and 1", p.Loss)
	case p.Rate < 0:
		return fmt.Errorf("rate %d bit/s is negative", p.Rate)
	case p.Queue < 0:
		return fmt.Errorf("queue %v is negative", p.Queue)
	case p.Queue > 0 && p.Rate == 0:
		return errors.New("a queue needs a rate: without one nothing waits")
	}
	return nil
}

// Counts says what became of the packets of an ordered pair since the start.
type Counts struct {
	Sent    uint64 // taken from the sender: the sum of the following, and of what is on its way
	Arrived uint64 // due and handed over
	Lost    uint64 // by chance
	Full    uint64 // dropped because the queue was
	Cut     uint64 // dropped by a cut
	Bytes   uint64 // of the packets that arrived
}

// Packet is one that is due.
type Packet struct {
	From, To int
	Data     []byte

	due   time.Duration
	order uint64 // of its sending: packets due at the same time arrive in the order they were sent
}

// Net is all ordered pairs of a number of hosts, and the packets on their way.
type Net struct {
	links [][]link
	queue queue
	sent  uint64
}

// link is one ordered pair.
type link struct {
	pair   Pair
	chance *rand.Rand
	counts Counts
	free   time.Duration // when the line has sent all it took
	last   time.Duration // the latest time at which a packet is due
}

// New joins hosts 0 to hosts-1 with perfect cables.
func New(hosts int, seed uint64) *Net {
	n := &Net{links: make([][]link, hosts)}
	for i := range n.links {
		n.links[i] = make([]link, hosts)
		for j := range n.links[i] {
			n.links[i][j].chance = rand.New(rand.NewPCG(seed, uint64(i)<<32|uint64(j)))
		}
	}
	return n
}

// Set changes how packets sent from now on travel.
func (n *Net) Set(from, to int, p Pair) { n.links[from][to].pair = p }

// Pair is how packets travel now.
func (n *Net) Pair(from, to int) Pair { return n.links[from][to].pair }

// Counts of an ordered pair.
func (n *Net) Counts(from, to int) Counts { return n.links[from][to].counts }

// Send takes a packet at the time now and reports whether it is on its way; data belongs to the net until Due hands it
// back. Times never go back from one call to the next.
func (n *Net) Send(now time.Duration, from, to int, data []byte) bool {
	l := &n.links[from][to]
	due, ok := l.send(now, len(data))
	if !ok {
		return false
	}
	n.sent++
	heap.Push(&n.queue, Packet{From: from, To: to, Data: data, due: due, order: n.sent})
	return true
}

// send says when a packet of size bytes arrives, if it does.
func (l *link) send(now time.Duration, size int) (due time.Duration, ok bool) {
	l.counts.Sent++
	p := &l.pair
	if p.Cut {
		l.counts.Cut++
		return 0, false
	}
	if p.Loss > 0 && l.chance.Float64() < p.Loss {
		l.counts.Lost++
		return 0, false
	}
	start := now
	if p.Rate > 0 {
		start = max(now, l.free)
		if p.Queue > 0 && start-now > p.Queue {
			l.counts.Full++
			return 0, false
		}
		start += time.Duration(float64(size) * 8 / float64(p.Rate) * float64(time.Second))
		l.free = start
	}
	due = start + p.Delay
	if p.Jitter > 0 {
		due += time.Duration((l.chance.Float64()*2 - 1) * float64(p.Jitter))
	}
	if !p.Reorder {
		due = max(due, l.last)
	}
	l.last = max(l.last, due)
	return due, true
}

// Next is when the next packet is due; ok is false while nothing is on its way.
func (n *Net) Next() (due time.Duration, ok bool) {
	if len(n.queue) == 0 {
		return 0, false
	}
	return n.queue[0].due, true
}

// Due takes the next packet that has arrived by now, the earliest first.
func (n *Net) Due(now time.Duration) (Packet, bool) {
	if len(n.queue) == 0 || n.queue[0].due > now {
		return Packet{}, false
	}
	p, ok := heap.Pop(&n.queue).(Packet)
	if ok {
		c := &n.links[p.From][p.To].counts
		c.Arrived++
		c.Bytes += uint64(len(p.Data))
	}
	return p, ok
}

// queue is a heap: the packet that is due first on top.
type queue []Packet

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].order < q[j].order
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) {
	if p, ok := x.(Packet); ok {
		*q = append(*q, p)
	}
}

func (q *queue) Pop() any {
	old := *q
	last := len(old) - 1
	p := old[last]
	old[last] = Packet{} // its data must not stay reachable
	*q = old[:last]
	return p
}

package server

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A server that is faster than its clients finds one or two packets whenever it looks, and pays for each look: two system
// calls, a turn of the scheduler, a wake-up of who waits for the reply. That is as much as all the rest of an answer. So
// where packets come densely, they are let gather for a moment, as network cards do before they interrupt.
const (
	// gatherTime is how long. It is what a reply comes later at most, and half of it in the mean: a fiftieth of what the light
	// takes from one city to the next and back.
	gatherTime = 50 * time.Microsecond
	// gatherGap is the mean time between packets of one socket below which it pays: three in a gatherTime.
	gatherGap = gatherTime / 3
	// steadyLoad is the load from which on the processor is kept while the next packet is waited for: two packets a batch. What
	// else waits for the network is seen by the runtime every 10 ms then, so it is not kept for less.
	steadyLoad = 2 * 8
	// longGap bounds what one pause counts in the mean, so that a burst after it is soon seen as one.
	longGap = time.Millisecond
	// turnTime is after how long other goroutines have the processor once: by itself the scheduler sees to it after 10 ms.
	turnTime = time.Millisecond
)

// gather knows how densely packets come on a socket.
type gather struct {
	at   time.Time     // of the packets before
	gap  time.Duration // mean time between packets, of late
	load int           // eight times the mean of packets that are taken at once
	turn time.Time     // when other goroutines last had their turn
}

// note takes in that some packets were taken at a time.
func (g *gather) note(n int, now time.Time) {
	gap := min(now.Sub(g.at)/time.Duration(n), longGap)
	g.gap += (gap - g.gap) / 8
	g.load += n - g.load/8
	g.at = now
}

// pause takes in that nothing came for long.
func (g *gather) pause() { g.gap, g.load = longGap, 0 }

// steady reports whether packets come in a row.
func (g *gather) steady() bool { return g.load >= steadyLoad }

// others lets other goroutines have the processor, once in a while.
func (g *gather) others() {
	if g.steady() && g.at.Sub(g.turn) > turnTime {
		runtime.Gosched()
		g.turn = g.at
	}
}

// dense reports whether it pays to wait for more.
func (g *gather) dense() bool { return g.gap < gatherGap }

// sleep waits, without telling the scheduler, as what comes next does (see batch). A signal ends it early.
//
// It asks for the least there is: to that the kernel adds a thread's timer slack, which is gatherTime unless somebody set it.
// Setting it would tie the goroutine to a thread, and each turn of others would cost two changes of threads.
func (g *gather) sleep() {
	t := unix.NsecToTimespec(1)
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

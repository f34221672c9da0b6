package answer

import "steerpoint/authdns/internal/wire"

// Ahead has the processor fetch from memory what the answers to a batch of messages will read, before the first is made. Of a
// map that is larger than the processor's caches, an answer reads half a dozen places that no cache has, each by what the one
// before says: a hundred nanoseconds each, one after the other. Over the messages of a batch they do not depend on each other,
// so that the processor waits for many of them at once. One value serves a socket.
//
// It is no more than a hint: a name below a wildcard or one that does not exist leads nowhere, and is found again by Respond.
type Ahead struct {
	q wire.Query
	// read is made of what was read, so that the compiler cannot leave the reading away.
	read uint64
}

const (
	// aheadMost is how many messages are looked at together.
	aheadMost = 32
	// aheadNames is how many names a map has at least before it pays: what answers read of a smaller one is in the caches.
	aheadNames = 1 << 16
)

// LookAhead looks at messages, up to 32 of them, that Respond will answer next. It changes no answer.
func (r *Responder) LookAhead(a *Ahead, msgs [][]byte) {
	if ix := r.index.Load(); ix != nil && ix.nodes.count >= aheadNames && len(msgs) > 1 {
		ix.lookAhead(a, msgs[:min(len(msgs), aheadMost)])
	}
}

// lookAhead reads one place for each message, then the next one for each, and so on: shard, slot, node, service. Each loop is
// as short as it can be, since the processor waits only for what it can hold of the code ahead.
func (ix *Index) lookAhead(a *Ahead, msgs [][]byte) {
	var (
		hashes   [aheadMost]uint64
		shards   [aheadMost][]slot
		nodes    [aheadMost]*node
		services [aheadMost]*service
		read     uint64
	)
	t := &ix.nodes
	for i, msg := range msgs {
		hashes[i] = t.hash(a.q.PeekName(msg))
	}
	for i := range msgs {
		shards[i] = t.shards[hashes[i]>>t.shift].slots
	}
	for i := range msgs {
		s := shards[i]
		read += s[hashes[i]&uint64(len(s)-1)].hash
	}
	for i := range msgs {
		nodes[i] = byHash(shards[i], hashes[i])
	}
	for i := range msgs {
		if n := nodes[i]; n != nil {
			read += uint64(n.service) + uint64(n.name[0])
		}
	}
	for i := range msgs {
		if n := nodes[i]; n != nil && n.service != 0 {
			services[i] = ix.service(n.service - 1)
		}
	}
	for i := range msgs {
		if s := services[i]; s != nil {
			read += uint64(s.negTTL)
		}
	}
	for i := range msgs {
		if s := services[i]; s != nil {
			read += uint64(len(s.rules))
		}
	}
	a.read += read
}

package sched

import (
	"container/heap"
	"time"
)

// queue is a heap of entries by key, each of which knows its place so that it can be taken out. An entry is in at
// most one queue.
type queue struct{ es []*entry }

func (q *queue) add(e *entry, key time.Duration) {
	e.key, e.in = key, q
	heap.Push(q, e)
}

func (q *queue) first() *entry { return q.es[0] }

func (q *queue) take() *entry {
	e := heap.Pop(q).(*entry)
	e.in = nil
	return e
}

func (q *queue) remove(e *entry) {
	heap.Remove(q, e.pos)
	e.in = nil
}

// Len, Less, Swap, Push and Pop are for container/heap.
func (q *queue) Len() int           { return len(q.es) }
func (q *queue) Less(i, j int) bool { return q.es[i].key < q.es[j].key }
func (q *queue) Swap(i, j int) {
	q.es[i], q.es[j] = q.es[j], q.es[i]
	q.es[i].pos, q.es[j].pos = i, j
}

// Push appends x, an *entry.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.pos = len(q.es)
	q.es = append(q.es, e)
}

// Pop takes the last entry off.
func (q *queue) Pop() any {
	n := len(q.es) - 1
	e := q.es[n]
	q.es[n] = nil
	q.es = q.es[:n]
	return e
}

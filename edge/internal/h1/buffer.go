package h1

import (
	"io"
	"sync"
)

// Sizes of buffers, in octets.
const (
	// smallBuffer holds nearly every head of a request, and the small body behind it.
	smallBuffer = 4 << 10
	// largeBuffer is what is read of a body at once: as much as a socket usually holds.
	largeBuffer = 32 << 10
	// hugeBuffer holds the largest head.
	hugeBuffer = 128 << 10
)

// Size is the class of a buffer.
type Size uint8

// The classes of buffers.
const (
	Small Size = iota // 4 KiB
	Large             // 32 KiB
	huge
)

// Buffer is room lent by a Pool.
type Buffer struct {
	B    []byte
	size Size
}

// Pool lends buffers. It is made with NewPool and may be used by many goroutines.
type Pool struct{ of [huge + 1]sync.Pool }

// NewPool makes a pool.
func NewPool() *Pool {
	p := new(Pool)
	for size, n := range [...]int{Small: smallBuffer, Large: largeBuffer, huge: hugeBuffer} {
		p.of[size].New = func() any { return &Buffer{B: make([]byte, n), size: Size(size)} }
	}
	return p
}

// Lend gives a buffer of a class. Its content is whatever was left in it.
func (p *Pool) Lend(size Size) *Buffer {
	b, _ := p.of[size].Get().(*Buffer)
	return b
}

// Return takes a buffer back; nil is none.
func (p *Pool) Return(b *Buffer) {
	if b != nil {
		p.of[b.size].Put(b)
	}
}

// Source is a connection to read from.
type Source interface {
	io.Reader
	// ReadLent waits until there is something to read, and only then borrows a buffer of a class and reads into it. So
	// what waits holds no buffer. n is not 0 unless err is set, and then there is no buffer.
	ReadLent(p *Pool, size Size) (b *Buffer, n int, err error)
}

package edge

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"steerpoint/edge/internal/conn"
	"steerpoint/edge/internal/h1"
)

// frames follows the frames of one direction of a WebSocket (RFC 6455 section 5.2), without a look at what is in them: a
// Close can be put between two frames and nowhere else.
type frames struct {
	left   uint64   // octets of a payload that are still to come
	head   [14]byte // of a frame that has begun
	n      int      // octets of it
	closed bool     // a Close has passed: nothing may follow it
}

// opClose is the opcode of a Close.
const opClose = 8

// follow goes past octets that were passed on.
func (f *frames) follow(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			continue
		}
		f.head[f.n] = p[0]
		f.n++
		p = p[1:]
		if f.n < f.size() {
			continue
		}
		f.closed = f.closed || f.head[0]&0xF == opClose
		f.left, f.n = f.length(), 0
	}
}

// size is the length of the header, as far as its first two octets are there.
func (f *frames) size() int {
	if f.n < 2 {
		return 2
	}
	n := 2
	switch f.head[1] & 0x7F {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

func (f *frames) length() uint64 {
	switch n := f.head[1] & 0x7F; n {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.head[2:])
	default:
		return uint64(n)
	}
}

// between reports whether a frame may begin here.
func (f *frames) between() bool { return f.left == 0 && f.n == 0 && !f.closed }

// goingAway is the status of a Close of an endpoint that goes (RFC 6455 section 7.4.1).
const goingAway = 1001

// appendClose appends a Close. What a client says is masked.
func appendClose(dst []byte, masked bool) []byte {
	if !masked {
		return append(dst, 0x80|opClose, 2, goingAway>>8, goingAway&0xFF)
	}
	mask := binary.BigEndian.AppendUint32(nil, rand.Uint32())
	dst = append(dst, 0x80|opClose, 0x80|2)
	dst = append(dst, mask...)
	return append(dst, goingAway>>8^mask[0], goingAway&0xFF^mask[1])
}

// goodbyeTime is how long a side may take for a Close, and both to go then.
const goodbyeTime = 5 * time.Second

// farewell ends a tunnel in order: each half says Close to the side that it writes to, and then both sides have a moment to
// go. It may be called by any goroutine, and returns at once.
func (t *tunnel) farewell() {
	if t.leaving.Swap(true) {
		return
	}
	t.client.cutReads()
	t.origin.cutReads()
	t.late.Store(time.AfterFunc(goodbyeTime, t.end)) // of who takes nothing
}

// part ends one half of a tunnel that could not read any more: in order, if it was told to or nobody had anything to say.
func (t *tunnel) part(to *side, err error) {
	if !t.leaving.Load() && !errors.Is(err, conn.ErrTimeout) {
		t.end()
		return
	}
	if errors.Is(err, conn.ErrTimeout) {
		t.idle.Store(true)
	}
	t.farewell()
	f := t.toward(to)
	if !f.between() && !f.closed {
		to.cut() // in the middle of a frame nothing else can be said
		return
	}
	if !f.closed {
		if to.write(appendClose(nil, to == &t.origin), t.clock.Now().Add(goodbyeTime)) != nil {
			to.cut()
			return
		}
	}
	if to.closeWrite() != nil {
		to.cut()
	}
}

// seeOff reads what both sides still say until they have gone: if they were closed before, their systems might throw the Close
// away. Both halves have ended by then.
func (t *tunnel) seeOff() {
	if !t.leaving.Load() {
		return
	}
	if timer := t.late.Load(); timer != nil {
		timer.Stop()
	}
	late := t.clock.Now().Add(goodbyeTime)
	t.client.hearOut(late, t)
	t.origin.hearOut(late, t)
}

// hearOut reads what a side still says until it has gone, or until an instant, and throws it away.
func (d *side) hearOut(late conn.Instant, t *tunnel) {
	if d.s != nil {
		d.s.Discard(late)
		return
	}
	sock := d.c.Sock()
	if d.c.WasCut() || sock.SetReadDeadline(t.clock.Wall(late)) != nil {
		return
	}
	room := t.buffers.Lend(h1.Small)
	defer t.buffers.Return(room)
	for {
		if _, err := sock.Read(room.B); err != nil {
			return
		}
	}
}

// toward gives the frames that go to one side.
func (t *tunnel) toward(to *side) *frames {
	if to == &t.client {
		return &t.down
	}
	return &t.up
}

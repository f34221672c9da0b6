package tape

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"steerpoint/steering"
)

// magic is the first line of a segment; its number grows with every incompatible change.
const magic = "steerpoint tape v1\n"

const (
	frameHead = 8
	// maxFrame bounds what a reader allocates for a length it was told: a checkpoint of 100,000 rules is some 500 MiB.
	maxFrame = 1 << 30
)

// sum is the CRC-32C of a payload; the table is made once, by the library.
func sum(payload []byte) uint32 { return crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)) }

var errTorn = errors.New("torn frame")

// encoder packs records into the payload of one frame. Sources are numbered for the whole segment.
type encoder struct {
	buf     []byte
	last    steering.Instant
	sources map[*Source]uint64
}

func newEncoder() *encoder {
	return &encoder{buf: make([]byte, frameHead, 64<<10), sources: map[*Source]uint64{}}
}

func (e *encoder) empty() bool { return len(e.buf) == frameHead }

// add appends a record.
func (e *encoder) add(r *Record) error {
	switch r.Kind {
	case Observation:
		id, known := e.sources[r.Source]
		if !known {
			id = uint64(len(e.sources))
			e.sources[r.Source] = id
			if err := e.payload(source, r.Now, r.Source); err != nil {
				return err
			}
		}
		e.head(Observation, r.Now)
		e.buf = binary.AppendUvarint(e.buf, id)
		e.observation(r)
	case Advance:
		e.head(Advance, r.Now)
	case Gap:
		e.head(Gap, r.Now)
		e.buf = binary.AppendUvarint(e.buf, r.Missing)
	case Configured:
		return e.payload(r.Kind, r.Now, r.Change)
	case Points:
		return e.payload(r.Kind, r.Now, r.Points)
	case Decided:
		return e.payload(r.Kind, r.Now, r.Decision)
	case Checkpoint:
		var b bytes.Buffer // gob: states are mostly numbers
		if err := gob.NewEncoder(&b).Encode(r.Checkpoint); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		e.bytes(r.Kind, r.Now, b.Bytes())
	default:
		return fmt.Errorf("record of unknown kind %d", r.Kind)
	}
	return nil
}

func (e *encoder) head(k Kind, now steering.Instant) {
	e.buf = append(e.buf, byte(k))
	e.buf = binary.AppendVarint(e.buf, int64(now-e.last))
	e.last = now
}

// observation writes ok and age as the low bits of a number whose rest is the latency, or the length of the cause.
func (e *encoder) observation(r *Record) {
	bits, rest := uint64(0), uint64(max(r.Latency, 0))
	if r.OK {
		bits = 1
	} else {
		rest = uint64(len(r.Cause))
	}
	if r.At != r.Now {
		bits |= 2
	}
	e.buf = binary.AppendUvarint(e.buf, rest<<2|bits)
	if !r.OK {
		e.buf = append(e.buf, r.Cause...)
	}
	if r.At != r.Now {
		e.buf = binary.AppendVarint(e.buf, int64(r.Now-r.At))
	}
}

func (e *encoder) payload(k Kind, now steering.Instant, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record of kind %d: %w", k, err)
	}
	e.bytes(k, now, b)
	return nil
}

func (e *encoder) bytes(k Kind, now steering.Instant, b []byte) {
	e.head(k, now)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(b)))
	e.buf = append(e.buf, b...)
}

// frame completes the frame and begins the next one. The bytes hold until then.
func (e *encoder) frame() []byte {
	payload := e.buf[frameHead:]
	binary.LittleEndian.PutUint32(e.buf, uint32(len(payload)))
	binary.LittleEndian.PutUint32(e.buf[4:], sum(payload))
	out := e.buf
	e.buf, e.last = e.buf[:frameHead], 0
	if cap(e.buf) > 1<<20 { // a checkpoint was in it
		e.buf = make([]byte, frameHead, 64<<10)
	}
	return out
}

// readFrame gives the next payload; io.EOF at the end of the frames, errTorn where they break off.
func readFrame(r io.Reader) ([]byte, error) {
	var head [frameHead]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("%w: %w", errTorn, err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return nil, fmt.Errorf("%w: length %d", errTorn, n)
	}
	var b bytes.Buffer // grows with what is really there
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, fmt.Errorf("%w: %w", errTorn, err)
	}
	if sum(b.Bytes()) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, fmt.Errorf("%w: checksum differs", errTorn)
	}
	return b.Bytes(), nil
}

// decoder takes the payloads of one segment apart.
type decoder struct {
	sources []*Source
	b       []byte
	last    steering.Instant
	failed  bool
}

var errRecord = errors.New("record is malformed")

// records hands every record of a payload to f.
func (d *decoder) records(payload []byte, f func(*Record) error) error {
	d.b, d.last = payload, 0
	for len(d.b) > 0 {
		r := &Record{Kind: Kind(d.b[0])}
		d.b = d.b[1:]
		d.last += steering.Instant(d.varint())
		r.Now = d.last
		named, err := d.rest(r)
		if err != nil {
			return err
		}
		if d.failed {
			return errRecord
		}
		if named {
			continue
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// rest reads what follows the head; named: it was a source and nothing more.
func (d *decoder) rest(r *Record) (named bool, err error) {
	switch r.Kind {
	case Observation:
		d.observation(r)
		return false, nil
	case Advance:
		return false, nil
	case Gap:
		r.Missing = d.uvarint()
		return false, nil
	}
	b := d.take(d.uvarint())
	switch r.Kind {
	case source:
		var s Source
		if err := json.Unmarshal(b, &s); err != nil {
			return true, fmt.Errorf("source: %w", err)
		}
		d.sources = append(d.sources, &s)
		return true, nil
	case Configured:
		err = json.Unmarshal(b, &r.Change)
	case Points:
		err = json.Unmarshal(b, &r.Points)
	case Decided:
		err = json.Unmarshal(b, &r.Decision)
	case Checkpoint:
		r.Checkpoint = &State{}
		err = gob.NewDecoder(bytes.NewReader(b)).Decode(r.Checkpoint)
	default:
		return false, fmt.Errorf("record of kind %d: a newer version wrote it", r.Kind)
	}
	if err != nil {
		err = fmt.Errorf("record of kind %d: %w", r.Kind, err)
	}
	return false, err
}

func (d *decoder) observation(r *Record) {
	id := d.uvarint()
	if id >= uint64(len(d.sources)) {
		d.failed = true
		return
	}
	r.Source = d.sources[id]
	v := d.uvarint()
	if r.OK = v&1 != 0; r.OK {
		r.Latency = time.Duration(v >> 2)
	} else {
		r.Cause = string(d.take(v >> 2))
	}
	r.At = r.Now
	if v&2 != 0 {
		r.At -= steering.Instant(d.varint())
	}
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.skip(n)
	return v
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.failed, d.b = true, nil
		return
	}
	d.b = d.b[n:]
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.failed, d.b = true, nil
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The kinds of frames of a stream. A reader skips a kind it does not know, so that a newer control can tell an older
// node more than it understands. A number is never used again for something else.
const (
	frameHello     byte = 1 // Hello, the first of every stream
	frameKeepAlive byte = 2 // empty
	frameFull      byte = 3 // snapshot.DNS, snapshot.Probe or snapshot.EdgePack
	frameDelta     byte = 4 // snapshot.DNSDelta or snapshot.ProbeDelta
	frameState     byte = 5 // NodeState
	frameAsk       byte = 6 // Ask or EdgeAsk
	frameEnd       byte = 7 // pki.Refusal: why the stream ends now

	// framePacked in the kind says that the payload is gzip.
	framePacked byte = 0x80
)

const (
	headerBytes = 5 // length of the payload, four bytes, big endian; then the kind
	// packAbove: below it, gzip costs more time than the bytes do on the slowest link we think of (1 Mbit/s: 250 ms).
	packAbove = 32 * kib
	// maxFrame and maxUnpacked bound what a node takes from control: control is trusted, a broken one is not. A million
	// services are some 400 MiB of JSON, a tenth of it packed.
	maxFrame    = 256 * mib
	maxUnpacked = 1024 * mib
	// readChunk bounds what a length alone can make a reader allocate.
	readChunk = 256 * kib
)

// frameNames are the kinds as metrics call them.
var frameNames = map[byte]string{
	frameHello: "hello", frameKeepAlive: "keepalive", frameFull: "full", frameDelta: "delta",
	frameState: "state", frameAsk: "ask", frameEnd: "end",
}

var errFrameTooLarge = errors.New("a frame is larger than is taken")

// readFrame reads one frame and gives its payload unpacked. io.EOF: the stream ended between frames.
func readFrame(r io.Reader, limit, unpackedLimit int64) (kind byte, payload []byte, err error) {
	var head [headerBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil, fmt.Errorf("frame header: %w", err)
		}
		return 0, nil, err
	}
	length, kind := int64(binary.BigEndian.Uint32(head[:])), head[4]
	if length > limit {
		return 0, nil, fmt.Errorf("%w: %d bytes of at most %d", errFrameTooLarge, length, limit)
	}
	var body bytes.Buffer
	body.Grow(int(min(length, readChunk)))
	if n, err := io.CopyN(&body, r, length); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, fmt.Errorf("frame of %d bytes ends after %d: %w", length, n, err)
	}
	if kind&framePacked == 0 {
		return kind, body.Bytes(), nil
	}
	payload, err = unpack(&body, unpackedLimit)
	return kind &^ framePacked, payload, err
}

// unpack undoes gzip, up to a limit.
func unpack(r io.Reader, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("packed bytes: %w", err)
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(z, limit+1))
	if err != nil {
		return nil, fmt.Errorf("packed bytes: %w", err)
	}
	if n > limit {
		return nil, fmt.Errorf("%w: more than %d bytes unpacked", errFrameTooLarge, limit)
	}
	return out.Bytes(), nil
}

// pack is gzip at its fastest level: two thirds of the best level's saving at a fifth of its time (see the package
// comment).
func pack(payload []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(payload); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// frame puts a header before a payload, and packs it first when it is worth it.
func frame(kind byte, payload []byte) ([]byte, error) {
	if len(payload) > packAbove {
		packed, err := pack(payload)
		if err != nil {
			return nil, err
		}
		kind, payload = kind|framePacked, packed
	}
	if len(payload) > maxFrame {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", errFrameTooLarge, len(payload), int64(maxFrame))
	}
	out := make([]byte, headerBytes, headerBytes+len(payload))
	binary.BigEndian.PutUint32(out, uint32(len(payload)))
	out[4] = kind
	return append(out, payload...), nil
}

// jsonFrame is a frame of a value as JSON.
func jsonFrame(kind byte, value any) ([]byte, error) {
	payload, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode a %s frame: %w", frameNames[kind], err)
	}
	return frame(kind, payload)
}

package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Whatever comes down a connection, reading it ends, takes no more memory than it may, and gives back what was written.
//
// Covers: A7, issue3 frames
func FuzzReadFrame(f *testing.F) {
	stream, err := exampleStream(2)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stream)
	f.Add([]byte{0, 0, 0, 0, frameKeepAlive})
	f.Add([]byte{255, 255, 255, 255, frameFull, '{'})
	f.Add([]byte{0, 0, 0, 3, frameFull | framePacked, 1, 2, 3})
	bomb, err := frame(frameFull, make([]byte, mib))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bomb)
	packed, err := pack([]byte(`{"drained":true}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte{0, 0, 0, byte(len(packed)), frameState | framePacked}, packed...))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit, unpacked = 64 * kib, 256 * kib
		in := bytes.NewReader(data)
		for {
			kind, payload, err := readFrame(in, limit, unpacked)
			if err != nil {
				if kind != 0 && payload != nil {
					t.Errorf("kind %d and %d bytes came with the error %v", kind, len(payload), err)
				}
				return
			}
			if len(payload) > unpacked {
				t.Fatalf("%d bytes of at most %d", len(payload), unpacked)
			}
			again, err := frame(kind, payload)
			if err != nil {
				t.Fatal(err)
			}
			kind2, payload2, err := readFrame(bytes.NewReader(again), maxFrame, maxUnpacked)
			if err != nil || kind2 != kind || !bytes.Equal(payload, payload2) {
				t.Fatalf("kind %d with %d bytes became kind %d with %d bytes, error %v", kind, len(payload), kind2, len(payload2), err)
			}
		}
	})
}

// Whatever control sends, a node that follows ends with an error or goes on; it never falls.
//
// Covers: A7, issue3 frames
func FuzzFollow(f *testing.F) {
	stream, err := exampleStream(2)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stream)
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewClient(ClientConfig{AuthorityHash: "x", Servers: []string{"https://x"}})
		defer c.Close()
		in := func() *patient {
			return &patient{body: bytes.NewReader(data), silence: patience, cancel: func(error) {}}
		}
		err := c.read(context.Background(), in(), dnsFrame(func(u Update) error {
			if u.Full == nil && u.Delta == nil && u.State == nil {
				t.Error("an update of nothing")
			}
			if u.Delta != nil {
				_, _ = u.Delta.Apply(dnsMap(7, 2)) // an error or a map, but no panic
			}
			return nil
		}))
		if err == nil {
			t.Error("a stream ended without an error")
		}
		if err := c.read(context.Background(), in(), probeFrame(func(ProbeUpdate) error { return nil })); err == nil {
			t.Error("a stream ended without an error")
		}
	})
}

// Whatever a body holds, each message is read or refused.
//
// Covers: A7, issue3 frames
func FuzzMessages(f *testing.F) {
	for _, folder := range []string{"v1", "oldest"} {
		names, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
		if err != nil || len(names) == 0 {
			f.Fatalf("no messages in %s: %v", folder, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	list := messages()
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range list {
			value, err := m.read(data)
			if err != nil {
				continue
			}
			if _, err := jsonFrame(frameFull, value); err != nil {
				t.Errorf("%s was read and cannot be written: %v", m.name, err)
			}
		}
	})
}

// A length alone makes nobody allocate, and a frame that is cut is told apart from a stream that ended.
//
// Covers: A7, issue3 frames
func TestReadFrameBounds(t *testing.T) {
	whole, err := jsonFrame(frameState, NodeState{Drained: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readFrame(bytes.NewReader(nil), maxFrame, maxUnpacked); !errors.Is(err, io.EOF) {
		t.Errorf("no bytes: %v, want io.EOF", err)
	}
	for n := 1; n < len(whole); n++ {
		if _, _, err := readFrame(bytes.NewReader(whole[:n]), maxFrame, maxUnpacked); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	huge := []byte{0x0f, 0xff, 0xff, 0xff, frameFull, 'x'}
	allocated := testing.AllocsPerRun(1, func() {
		if _, _, err := readFrame(bytes.NewReader(huge), maxFrame, maxUnpacked); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut: %v", err)
		}
	})
	if allocated > 50 {
		t.Errorf("%v allocations for one byte", allocated)
	}
	huge[0] = 0xff
	if _, _, err := readFrame(bytes.NewReader(huge), maxFrame, maxUnpacked); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("4 GiB: %v", err)
	}
	bomb, err := frame(frameFull, make([]byte, mib))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readFrame(bytes.NewReader(bomb), maxFrame, mib-1); !errors.Is(err, errFrameTooLarge) {
		t.Errorf("%d bytes that unpack to 1 MiB, of which one too many: %v", len(bomb), err)
	}
	if _, got, err := readFrame(bytes.NewReader(bomb), maxFrame, mib); err != nil || len(got) != mib {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
}

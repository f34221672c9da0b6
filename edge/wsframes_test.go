package edge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// frame is one frame of a WebSocket.
func frame(opcode byte, masked bool, size int) []byte {
	b := []byte{0x80 | opcode}
	switch {
	case size < 126:
		b = append(b, byte(size))
	case size < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(size))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(size))
	}
	if masked {
		b[1] |= 0x80
		b = append(b, 1, 2, 3, 4)
	}
	return append(b, bytes.Repeat([]byte{0x88}, size)...) // which looks like a Close
}

// The ends of frames are found in whatever pieces they come, and a Close is seen.
//
// Covers: issue6 websocket
func TestFramesAreFollowed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var all []byte
		ends := map[int]bool{0: true}
		for range 10 {
			all = append(all, frame(byte(r.IntN(3)), r.IntN(2) == 0, []int{0, 1, 125, 126, 127, 65535, 65536, 70000}[r.IntN(8)])...)
			ends[len(all)] = true
		}
		var f frames
		for at := 0; at < len(all); {
			n := min(len(all)-at, 1+r.IntN([]int{2, 100, 100_000}[r.IntN(3)]))
			f.follow(all[at : at+n])
			if at += n; f.between() != ends[at] {
				t.Fatalf("after %d octets: between two frames %t", at, f.between())
			}
		}
		if f.closed {
			t.Fatal("a Close was seen, and there was none")
		}
		f.follow(frame(opClose, false, 2))
		if !f.closed || f.between() {
			t.Fatal("a Close was not seen")
		}
	}
	var endless frames
	endless.follow([]byte{0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	if endless.between() || endless.closed {
		t.Error("the end of an endless frame was found")
	}
}

// socketOrigin takes WebSockets, sends back what comes, and gives what it has read of each when it ends.
func socketOrigin(t *testing.T) (addr string, got chan []byte) {
	t.Helper()
	got = make(chan []byte, 2000)
	s := script(t, func(_ int, k *talk) {
		k.readHead()
		k.say("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: upgrade", "", "")
		var all bytes.Buffer
		_, _ = io.Copy(io.MultiWriter(k.TCPConn, &all), k.r)
		got <- all.Bytes()
	})
	return s.addr(), got
}

func (b *bench) socket(t *testing.T, path string) *talk {
	t.Helper()
	k := dial(t, b.addr)
	k.send("GET "+path+" HTTP/1.1", "Host: a", "Connection: Upgrade", "Upgrade: websocket", "", "")
	k.expect("HTTP/1.1 101 Switching Protocols|Connection: Upgrade|Upgrade: websocket||")
	return k
}

// echo sends a frame and waits for it to come back.
func (k *talk) echo(p []byte) {
	k.t.Helper()
	if err := k.SetDeadline(time.Now().Add(patience)); err != nil {
		k.t.Fatal(err)
	}
	k.send(string(p))
	back := make([]byte, len(p))
	if _, err := io.ReadFull(k.r, back); err != nil || !bytes.Equal(back, p) {
		k.t.Fatalf("%x came back as %x, %v", p, back, err)
	}
}

// WebSockets that are still open when a gateway goes, or their route, are told so on both sides by a Close (1001) between two
// frames. One that is in the middle of a frame is cut, and one that has said Close itself is not told again.
//
// Covers: issue6 websocket, issue6 drain
func TestWebSocketsAreToldToGo(t *testing.T) {
	message := frame(1, true, 300)
	for name, last := range map[string][]byte{"between": nil, "in a frame": message[:100], "after a Close": frame(opClose, true, 2)} {
		t.Run(name, func(t *testing.T) {
			addr, got := socketOrigin(t)
			d, _ := one(addr)
			b := start(t, Config{Drain: time.Millisecond}, d)
			k := b.socket(t, "/")
			k.echo(append(message, last...))
			stopped := make(chan error, 1)
			go func() { stopped <- b.stop() }()
			rest, err := io.ReadAll(k.r)
			_ = k.Close()
			atOrigin := <-got
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			said := bytes.TrimPrefix(atOrigin, append(message, last...))
			switch name {
			case "between":
				if err != nil || !isClose(rest) {
					t.Errorf("the client was told %x, %v", rest, err)
				}
				if len(said) != 8 || said[0] != 0x88 || said[1] != 0x82 || said[6]^said[2] != 0x03 || said[7]^said[3] != 0xe9 {
					t.Errorf("the origin was told %x", said)
				}
			default:
				if len(rest)+len(said) > 0 {
					t.Errorf("the client was told %x, the origin %x", rest, said)
				}
				if cut := name == "in a frame"; isReset(err) != cut {
					t.Errorf("the end: %v", err)
				}
			}
			if line := b.log.wait(t, 1); line["status"] != 101.0 || line["reason"] != "going_away" {
				t.Errorf("log: %v", line)
			}
		})
	}
}

// isClose reports whether a client was told to go: by us, or by the origin, which sends back what we told it.
func isClose(p []byte) bool {
	return string(p) == "\x88\x02\x03\xe9" || len(p) == 8 && p[0] == 0x88 && p[1] == 0x82
}

// A WebSocket in which nobody says anything, or which has lasted as long as it may, is told to go too.
//
// Covers: issue6 websocket, issue6 proxy limits
func TestWebSocketsEndInOrder(t *testing.T) {
	for reason, route := range map[string]*Route{
		"tunnel_idle": {Service: "shop", Name: "all", TunnelTimeout: 50 * time.Millisecond},
		"going_away":  {Service: "shop", Name: "all", TunnelLife: 50 * time.Millisecond},
	} {
		addr, got := socketOrigin(t)
		b := start(t, Config{}, paths{"*": {route: route, group: group(addr)}})
		k := b.socket(t, "/")
		if rest, err := io.ReadAll(k.r); err != nil || !isClose(rest) {
			t.Errorf("%s: the client was told %x, %v", reason, rest, err)
		}
		_ = k.Close()
		if said := <-got; len(said) != 8 {
			t.Errorf("%s: the origin was told %x", reason, said)
		}
		if line := b.log.wait(t, 1); line["reason"] != reason {
			t.Errorf("log: %v", line)
		}
	}
}

// However often the configuration is made anew, no WebSocket is lost.
//
// Covers: issue6 reload, issue6 websocket, gateway fault 45
func TestWebSocketsOutliveReloads(t *testing.T) {
	n := 50
	if os.Getenv("STEER_LONG") != "" {
		n = 1000
	}
	addr, _ := socketOrigin(t)
	site := func() *Site {
		return siteOf(paths{"*": {route: &Route{Service: "shop", Name: "all"}, group: group(addr)}})
	}
	b := start(t, Config{}, paths{})
	if err := b.Swap(site()); err != nil {
		t.Fatal(err)
	}
	var all []*talk
	for range n {
		all = append(all, b.socket(t, "/"))
	}
	b.wants(t, fmt.Sprintf("steer_edge_websockets %d", n))
	for i := range 100 {
		if err := b.Swap(site()); err != nil {
			t.Fatal(err)
		}
		all[i%n].echo(frame(2, true, i))
	}
	for _, k := range all {
		k.echo([]byte(strings.Repeat("\x82\x80abcd", 3)))
		_ = k.Close()
	}
	b.wants(t, "steer_edge_websockets 0")
}

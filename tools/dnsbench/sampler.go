package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"
)

// A look at an answer is taken so often while a server is measured: what is fast and wrong does not count. It is far below
// what is asked meanwhile.
const (
	lookEvery = 10 * time.Millisecond
	lookWait  = time.Second
)

// looked is what the looks came to.
type looked struct {
	right, unanswered int
	wrong             []string
}

// watch asks one question after the other until ctx ends, each of a name at random, and holds the answers against what the
// data says.
func (s *server) watch(ctx context.Context, w workload, names int) (got looked, err error) {
	c, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		return got, err
	}
	defer c.Close()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	reply := make([]byte, 4096)
	for id := uint16(0); ; id++ {
		select {
		case <-ctx.Done():
			return got, nil
		case <-tick.C:
		}
		name := w.ask(rand.IntN(names))
		if err := c.SetDeadline(time.Now().Add(lookWait)); err != nil {
			return got, err
		}
		if _, err := c.Write(question(id, name, w)); err != nil {
			return got, err
		}
		n, err := c.Read(reply)
		for err == nil && n > 2 && binary.BigEndian.Uint16(reply) != id { // of a question given up
			n, err = c.Read(reply)
		}
		if err != nil {
			got.unanswered++
			continue
		}
		if says, err := answerOf(reply[:n], w.signed); err != nil || says != w.want {
			got.wrong = append(got.wrong, fmt.Sprintf("%s is answered with %q (%v), want %s", name, says, err, w.want))
		} else {
			got.right++
		}
	}
}

// question is a query for the address of a name: with the client subnet of the geo workload, with DO, or without EDNS.
func question(id uint16, name string, w workload) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for _, label := range strings.Split(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	b = append(b, 0, 0, 1, 0, 1)
	switch {
	case w.signed:
		b[11] = 1
		b = append(b, 0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0)
	case w.geo:
		p := netip.MustParsePrefix(subnet)
		address := p.Addr().AsSlice()[:p.Bits()/8]
		b[11] = 1
		b = append(b, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, byte(8+len(address)), 0, 8, 0, byte(4+len(address)), 0, 1, byte(p.Bits()), 0)
		b = append(b, address...)
	}
	return b
}

// answerOf is what a reply says: an address, NXDOMAIN, or its code and how many records there are. A signed reply has an
// RRSIG behind the address.
func answerOf(b []byte, signed bool) (string, error) {
	short := errors.New("the reply ends too early")
	if len(b) < 12 {
		return "", short
	}
	rcode, answers, want := b[3]&15, binary.BigEndian.Uint16(b[6:]), uint16(1)
	if signed {
		want = 2
	}
	switch {
	case rcode == 3 && answers == 0:
		return "NXDOMAIN", nil
	case rcode != 0 || answers != want:
		return fmt.Sprintf("code %d, %d records", rcode, answers), nil
	}
	at := skipName(b, 12) + 4
	at = skipName(b, at)
	if at+10 > len(b) {
		return "", short
	}
	if kind, length := binary.BigEndian.Uint16(b[at:]), int(binary.BigEndian.Uint16(b[at+8:])); kind != 1 || length != 4 || at+14 > len(b) {
		return fmt.Sprintf("a record of type %d", kind), nil
	}
	address := netip.AddrFrom4([4]byte(b[at+10 : at+14])).String()
	if signed {
		if at = skipName(b, at+14); at+10 > len(b) {
			return "", short
		}
		if kind := binary.BigEndian.Uint16(b[at:]); kind != 46 {
			return fmt.Sprintf("%s and a record of type %d", address, kind), nil
		}
	}
	return address, nil
}

// skipName is the offset behind a name; past the end if it has none.
func skipName(b []byte, at int) int {
	for at < len(b) {
		switch n := int(b[at]); {
		case n == 0:
			return at + 1
		case n >= 0xC0:
			return at + 2
		default:
			at += 1 + n
		}
	}
	return len(b)
}

//go:build linux

package lab_test

import (
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"steerpoint/lab"
)

// BenchmarkRoundTrip says what the emulator adds to a round trip of a datagram: µs-late is the mean beyond the delay of
// both ways. Client, server and emulator share the machine.
func BenchmarkRoundTrip(b *testing.B) {
	for _, delay := range []time.Duration{0, ms, 10 * ms, 50 * ms} {
		b.Run(delay.String(), func(b *testing.B) {
			l := benchLab(b, lab.Pair{Delay: delay})
			pc, err := l.ListenPacket("b", "udp", netip.AddrPortFrom(l.Addr4("b"), 7).String())
			if err != nil {
				b.Fatal(err)
			}
			defer pc.Close()
			go func() {
				buf := make([]byte, 64)
				for {
					n, from, err := pc.ReadFrom(buf)
					if err != nil {
						return
					}
					_, _ = pc.WriteTo(buf[:n], from) // a lost echo fails the reader
				}
			}()
			c, err := l.Dial(b.Context(), "a", "udp", netip.AddrPortFrom(l.Addr4("b"), 7).String())
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			for b.Loop() {
				if _, err := roundTrip(c, patience); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)-float64((2*delay).Microseconds()), "µs-late")
		})
	}
}

// BenchmarkStream is what one TCP connection carries.
func BenchmarkStream(b *testing.B) {
	l := benchLab(b, lab.Pair{Delay: ms})
	ln, err := l.Listen("b", "tcp", netip.AddrPortFrom(l.Addr4("b"), 80).String())
	if err != nil {
		b.Fatal(err)
	}
	c, err := l.Dial(b.Context(), "a", "tcp", netip.AddrPortFrom(l.Addr4("b"), 80).String())
	if err != nil {
		b.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = errors.Join(c.Close(), s.Close(), ln.Close()) }()
	block := make([]byte, 1<<20)
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		go func() { _, _ = c.Write(block) }() // what is not written fails the reader
		if _, err := io.ReadFull(s, block); err != nil {
			b.Fatal(err)
		}
	}
}

func benchLab(b *testing.B, p lab.Pair) *lab.Lab {
	if err := lab.Missing(); err != nil {
		b.Skip(err)
	}
	l, err := lab.New(lab.Config{Hosts: []string{"a", "b"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	if err := l.Link("a", "b", p); err != nil {
		b.Fatal(err)
	}
	return l
}

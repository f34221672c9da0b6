package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"steerpoint/snapshot"
)

// fanOut is the number of name servers that decisions.md promises an answer within a second for.
const fanOut = 1000

// BenchmarkFanOut pushes one small change to 1,000 followers, each with a connection of its own over TLS on loopback,
// nodes and control in one process. An operation is one push, from PublishDNS to the last node that has it decoded;
// median-ms and last-ms are of the nodes, worst-ms is the slowest push.
func BenchmarkFanOut(b *testing.B) {
	for _, services := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) { benchFanOut(b, services) })
	}
}

func benchFanOut(b *testing.B, services int) {
	r := newRig(b, func(c *HubConfig) {
		c.SlowAfter, c.HandshakeTimeout = time.Minute, time.Minute
	})
	base := hashed(b, dnsMap(1, services))
	at := make(chan time.Duration, 2*fanOut)
	var published time.Time
	ctx, cancel := context.WithCancel(b.Context())
	var nodes sync.WaitGroup
	defer nodes.Wait()
	defer cancel()
	for i := range fanOut {
		c := r.node(b, fmt.Sprintf("ns%d", i), RoleDNS)
		nodes.Go(func() {
			err := c.FollowDNS(ctx, 1, func(Update) error {
				at <- time.Since(published)
				return nil
			})
			if ctx.Err() == nil {
				b.Error(err)
				cancel()
			}
		})
	}
	push := func(d *snapshot.DNS) []time.Duration {
		published = time.Now()
		r.hub.PublishDNS(d)
		all := make([]time.Duration, 0, fanOut)
		for range fanOut {
			select {
			case d := <-at:
				all = append(all, d)
			case <-ctx.Done():
				b.FailNow()
			}
		}
		slices.Sort(all)
		return all
	}
	push(base) // everybody is connected, and has proof that it has version 1
	version := uint64(1)
	var median, last, worst time.Duration
	for b.Loop() {
		version++
		b.StopTimer()
		next := *base
		next.Version = version
		next.Services = slices.Clone(base.Services)
		next.Services[0] = mapService(0, version)
		newest := hashed(b, &next)
		b.StartTimer()
		all := push(newest)
		median += all[len(all)/2]
		last += all[len(all)-1]
		worst = max(worst, all[len(all)-1])
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(median)/float64(b.N), "median-ms")
	b.ReportMetric(ms(last)/float64(b.N), "last-ms")
	b.ReportMetric(ms(worst), "worst-ms")
}

// hashed is a snapshot that knows the hashes of its parts, as the compiler leaves it.
func hashed(b *testing.B, d *snapshot.DNS) *snapshot.DNS {
	b.Helper()
	out, err := snapshot.DiffDNS(nil, d).Apply(nil)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

// BenchmarkEncoding is what the choice of encoding stands on: see the package comment.
func BenchmarkEncoding(b *testing.B) {
	full := dnsMap(2, 10_000)
	for name, value := range map[string]any{"delta": snapshot.DiffDNS(dnsMap(1, 10_000), full), "full": full} {
		for _, c := range codecs() {
			data, err := c.encode(value)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+"/"+c.name+"/encode", func(b *testing.B) {
				for b.Loop() {
					if _, err := c.encode(value); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(data)), "bytes")
			})
			b.Run(name+"/"+c.name+"/decode", func(b *testing.B) {
				for b.Loop() {
					var err error
					if name == "full" {
						err = c.decode(data, new(snapshot.DNS))
					} else {
						err = c.decode(data, new(snapshot.DNSDelta))
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

type codec struct {
	name   string
	encode func(any) ([]byte, error)
	decode func([]byte, any) error
}

func codecs() []codec {
	packed := func(level int) codec {
		return codec{
			encode: func(v any) ([]byte, error) {
				data, err := json.Marshal(v)
				if err != nil {
					return nil, err
				}
				var out bytes.Buffer
				z, err := gzip.NewWriterLevel(&out, level)
				if err != nil {
					return nil, err
				}
				if _, err := z.Write(data); err != nil {
					return nil, err
				}
				err = z.Close()
				return out.Bytes(), err
			},
			decode: func(data []byte, v any) error {
				plain, err := unpack(bytes.NewReader(data), maxUnpacked)
				if err != nil {
					return err
				}
				return json.Unmarshal(plain, v)
			},
		}
	}
	fast, middle := packed(gzip.BestSpeed), packed(gzip.DefaultCompression)
	fast.name, middle.name = "json+gzip1", "json+gzip6"
	return []codec{
		{"json", json.Marshal, json.Unmarshal},
		fast, middle,
		{"gob", func(v any) ([]byte, error) {
			var out bytes.Buffer
			err := gob.NewEncoder(&out).Encode(v)
			return out.Bytes(), err
		}, func(data []byte, v any) error { return gob.NewDecoder(bytes.NewReader(data)).Decode(v) }},
	}
}

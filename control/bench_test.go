package control

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// arrives is a Publisher that tells when a snapshot has come.
type arrives struct{ dns chan *snapshot.DNS }

func (a arrives) PublishDNS(d *snapshot.DNS) error {
	select {
	case a.dns <- d:
	default:
	}
	return nil
}

func (arrives) PublishProbe(*snapshot.Probe) error { return nil }

// BenchmarkVerdictToPublisher is the time from the observation that makes a verdict to the call of the Publisher with
// the new answer: evaluation, commit with fsync, compilation.
func BenchmarkVerdictToPublisher(b *testing.B) {
	for _, services := range []int{1, 100} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			out := arrives{make(chan *snapshot.DNS, 1)}
			c, err := New(b.Context(), Config{Data: b.TempDir(), Listen: "127.0.0.1:0"}, Deps{
				Publisher: out, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			q := request(zoneYAML)
			for i := range services {
				name := fmt.Sprintf("s%d", i)
				text := strings.NewReplacer("name: shop", "name: "+name, "shop.example.com]", name+".example.com]", "192.0.2.1]", fmt.Sprintf("10.0.%d.1]", i)).Replace(shopYAML)
				q.Sources = append(q.Sources, api.Source{File: name, Content: text})
			}
			if _, err := c.Apply(b.Context(), "bench", q); err != nil {
				b.Fatal(err)
			}
			task := ""
			if err := c.do(b.Context(), func() {
				for _, t := range c.engine.Probe("local").Tasks {
					if t.Address == "10.0.0.1" {
						task = t.ID
					}
				}
			}); err != nil {
				b.Fatal(err)
			}
			send := func(ok bool) {
				o := report.Observation{Task: task, Point: "local", OK: ok, Latency: time.Millisecond}
				if !ok {
					o.Cause = report.CauseTimeout
				}
				c.ObserveLocal(o)
			}
			drain := func() {
				for {
					select {
					case <-out.dns:
					case <-time.After(20 * time.Millisecond):
						return
					}
				}
			}
			for b.Loop() {
				b.StopTimer()
				send(true)
				send(true)
				send(false)
				send(false)
				drain()
				b.StartTimer()
				send(false)
				<-out.dns
			}
		})
	}
}

// Command edgebench measures HTTP gateways beside each other: ours and those that are installed, each with one worker on the
// first core; origin and clients are on the second. It goes round in turns and writes a table and a JSON file.
//
// Usage: edgebench -steer FILE -gateway FILE [-rounds N] [-seconds N] [-only NAME,NAME] [-workloads NAME,NAME] [-streams N,N]
// [-out DIR], on Linux with two cores, wrk and h2load.
//
// What counts is what a proxy's processes took of the processor for 100,000 requests, in user and kernel mode: requests a
// second say more of the machine. What the kernel does in interrupts falls on whoever runs then, the same for all. A peer that is not
// installed, does not start or answers wrongly is left out, and the table says so; with ours that ends the run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"steerpoint/tools/machine"
)

type config struct {
	machine.Contest
	gateway, workloads, streams string
	client                      clientConfig
}

func main() {
	c := config{Contest: machine.Contest{Name: "edgebench", Rounds: 5, Seconds: 3}}
	c.Flags("proxies", "all but plane, which is our gateway without control")
	flag.StringVar(&c.gateway, "gateway", "bin/gateway", "the origin, and our gateway by itself, a `program`")
	flag.StringVar(&c.workloads, "workloads", "", "`names` of workloads, divided by commas; empty: all")
	flag.StringVar(&c.streams, "streams", "1000,5000", "`numbers` of event streams, divided by commas; empty: none")
	c.client.flags()
	flag.Parse()
	run := c.bench
	if c.client.mode != "" {
		run = c.client.run
	}
	c.Main(run)
}

// takesPart reports whether a proxy is measured.
func (c *config) takesPart(x peer) bool {
	return machine.Wants(c.Only, x.name) && (c.Only != "" || x.name != "plane")
}

func (c *config) bench(ctx context.Context) error {
	end, err := c.Begin(map[string]string{"wrk": "wrk", "h2load": "nghttp2-client", "taskset": "util-linux"})
	if err != nil {
		return err
	}
	defer end()
	work, err := os.MkdirTemp("", "edgebench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	roots, err := writeCertificate(work)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	origin, err := machine.Start(1, []string{c.gateway, "-origin", originAddr}, []string{"GOMAXPROCS=1", "GOGC=400"}, filepath.Join(work, "origin.log"))
	if err != nil {
		return fmt.Errorf("origin: %w", err)
	}
	defer origin.Stop()
	var r results
	b := &run{config: c, work: work, roots: roots, results: &r}
	if err := b.loads(ctx); err != nil {
		return err
	}
	if err := b.events(ctx); err != nil {
		return err
	}
	return r.write(c)
}

// run is one run of the benchmark.
type run struct {
	*config
	work    string
	roots   *roots
	results *results
}

// loads measures requests: all proxies run at once, as an idle one costs the others next to nothing.
func (b *run) loads(ctx context.Context) error {
	var all []*proxy
	defer func() {
		for _, p := range all {
			p.session.Stop()
		}
	}()
	for i, x := range peers(b.Steer, b.gateway) {
		if !b.takesPart(x) {
			continue
		}
		p, err := b.start(ctx, x, firstPort+10*i)
		if err != nil && (x.ours || ctx.Err() != nil) {
			return fmt.Errorf("start %s: %w", x.name, err)
		}
		if err != nil {
			b.results.miss(x, err)
			continue
		}
		all = append(all, p)
	}
	if err := b.rest(all); err != nil {
		return err
	}
	for round := range b.Rounds {
		b.Round()
		for _, p := range machine.Turn(all, round) {
			for _, w := range workloads {
				if !machine.Wants(b.workloads, w.name) || w.h2 && !p.h2 || p.failed {
					continue
				}
				s, err := b.load(ctx, p, w)
				if err != nil && (p.ours || ctx.Err() != nil) {
					return fmt.Errorf("%s, %s: %w", p.name, w.name, err)
				}
				if err != nil {
					p.failed = true
					b.results.miss(p.peer, fmt.Errorf("from round %d, %s on: %w", round+1, w.name, err))
					continue
				}
				s.round = round
				b.results.samples = append(b.results.samples, s)
				fmt.Printf("%2d %-8s %-10s %6.2f CPU-s/100k %8.0f a second, %d MiB\n", round+1, s.proxy, s.workload, s.cpu, s.rate, s.resident>>20)
			}
		}
	}
	for _, p := range all {
		if !p.h2 {
			b.results.notes = append(b.results.notes, p.name+" does not offer HTTP/2")
		}
	}
	return nil
}

// restTime is how long proxies are looked at that have nothing to do.
const restTime = 5 * time.Second

// rest notes what each proxy takes of a core without requests: that is in its figures, too, and weighs the more the fewer
// requests there are.
func (b *run) rest(all []*proxy) error {
	before := make([]time.Duration, len(all))
	for i, p := range all {
		var err error
		if before[i], _, err = p.session.Used(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	time.Sleep(restTime)
	var said []string
	for i, p := range all {
		after, _, err := p.session.Used()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		said = append(said, fmt.Sprintf("%s %.1f %%", p.name, 100*(after-before[i]).Seconds()/restTime.Seconds()))
	}
	b.results.notes = append(b.results.notes, "of a core at rest: "+strings.Join(said, ", "))
	return nil
}

// events measures streams: each time a proxy is started anew, so that its memory is that of the streams.
func (b *run) events(ctx context.Context) error {
	if b.streams == "" {
		return nil
	}
	for round := range min(b.Rounds, maxStreamRounds) {
		for text := range strings.SplitSeq(b.streams, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("-streams: %w", err)
			}
			if err := b.eventsOf(ctx, round, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxStreamRounds bounds the rounds of streams, which take long.
const maxStreamRounds = 3

func (b *run) eventsOf(ctx context.Context, round, n int) error {
	b.Round()
	s, err := b.direct(ctx, n)
	if err != nil {
		return fmt.Errorf("%d streams without a proxy: %w", n, err)
	}
	s.round = round
	b.results.streams = append(b.results.streams, s)
	fmt.Println(s)
	for i, x := range peers(b.Steer, b.gateway) {
		if !b.takesPart(x) || b.results.missing[x.name] != "" {
			continue
		}
		s, err := b.through(ctx, x, firstPort+10*i, n)
		if err != nil && (x.ours || ctx.Err() != nil) {
			return fmt.Errorf("%s, %d streams: %w", x.name, n, err)
		}
		if err != nil {
			b.results.miss(x, fmt.Errorf("%d streams: %w", n, err))
			continue
		}
		s.round = round
		b.results.streams = append(b.results.streams, s)
		fmt.Println(s)
	}
	return nil
}

const (
	// originAddr is where the origin listens, and firstPort where the first proxy does; the others follow.
	originAddr = "127.0.0.1:18380"
	firstPort  = 18400
	// startWait is for a proxy to give its first answer.
	startWait = time.Minute
)

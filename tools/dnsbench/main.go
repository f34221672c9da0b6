// Command dnsbench measures name servers beside each other: ours and those installed from Debian, each pinned to the
// first core, asked by dnsperf on the second, in rounds that interleave them. It writes one JSON file and a table.
//
// Usage: dnsbench -steer FILE -nameserver FILE [-rounds N] [-seconds N] [-out DIR] [-only NAME,NAME] [-phases NAME,NAME], on
// Linux with two cores and dnsperf.
//
// There are three phases. In the small one every server answers the same zone (1,000 A records) and, where it can, one name by
// the country of the client; in another that zone is signed, and signatures are asked for; in the last it is a zone of a
// million. A peer that is not installed, does not start or answers wrongly is left out from there on, and the table says so;
// with ours that ends the run. While a server is measured, names at random are asked and the answers held against the data.
//
// CPU is what the server's processes used in user and kernel mode; what the kernel does for them in interrupts falls on
// whoever runs then, the same for all.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"steerpoint/tools/machine"
)

type config struct {
	machine.Contest
	nameserver, phases string
}

func main() {
	c := config{Contest: machine.Contest{Name: "dnsbench", Rounds: 10, Seconds: 2}}
	c.Flags("servers", "all")
	flag.StringVar(&c.nameserver, "nameserver", "bin/nameserver", "our name server by itself, a `program`")
	flag.StringVar(&c.phases, "phases", "", "`names` of phases, divided by commas; empty: all")
	flag.Parse()
	c.Main(c.bench)
}

// sample is one workload of one server in one round.
type sample struct {
	server, workload string
	round            int
	cpu              float64 // seconds for a million answers
	qps, lost        float64 // lost: share of what was asked
	octets           float64 // mean of a reply, without headers below DNS
	looks            int     // answers that were looked at, and right
	maps             int     // that were put in place meanwhile
}

func (c *config) bench(ctx context.Context) error {
	end, err := c.Begin(map[string]string{"dnsperf": "dnsperf"})
	if err != nil {
		return err
	}
	defer end()
	var r results
	for _, p := range phases {
		if !machine.Wants(c.phases, p.name) {
			continue
		}
		if err := c.phase(ctx, p, &r); err != nil {
			return fmt.Errorf("phase %s: %w", p.name, err)
		}
	}
	return r.write(c)
}

// phase measures all servers with one size of zone.
func (c *config) phase(ctx context.Context, p phase, r *results) error {
	work, err := os.MkdirTemp("", "dnsbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := writeData(work, p.names); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	all, err := c.start(ctx, work, p, r)
	defer func() {
		for _, s := range all {
			s.stop()
		}
	}()
	if err != nil {
		return err
	}
	for round := range c.Rounds {
		c.Round()
		for _, s := range machine.Turn(all, round) {
			for _, w := range p.workloads {
				if !s.takes(w) || s.failed {
					continue
				}
				got, err := s.measure(ctx, c.Seconds, w, work, p.names)
				if err != nil && (s.ours || ctx.Err() != nil) {
					return fmt.Errorf("%s, %s: %w", s.name, w.name, err)
				}
				if err != nil {
					s.failed = true
					r.miss(p, s.peer, fmt.Sprintf("from round %d, %s on: %v", round+1, w.name, err))
					continue
				}
				got.round = round
				r.samples = append(r.samples, got)
				fmt.Printf("%2d %-15s %-14s %6.2f CPU-s/M %8.0f qps %6.3f %% lost, %.0f octets, %d looks, %d maps\n",
					round+1, got.server, got.workload, got.cpu, got.qps, 100*got.lost, got.octets, got.looks, got.maps)
			}
		}
	}
	r.note(p, all)
	return nil
}

// start starts the servers that are there, all at once: an idle one costs the others nothing.
func (c *config) start(ctx context.Context, work string, p phase, r *results) (all []*server, err error) {
	var unsigned error
	if p.signed {
		unsigned = signZone(work)
	}
	for i, x := range peers(c.Steer, c.nameserver, p) {
		if !machine.Wants(c.Only, x.name) {
			continue
		}
		if _, err := exec.LookPath(x.program); err != nil {
			if x.ours {
				return all, err
			}
			r.miss(p, x, "not installed: apt-get install "+x.packages)
			continue
		}
		if unsigned != nil && !x.ours {
			r.miss(p, x, "the zone is not signed: "+unsigned.Error())
			continue
		}
		s := &server{peer: x, port: firstPort + i, dir: filepath.Join(work, x.name)}
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return all, err
		}
		err := s.run(ctx, work, p)
		if err != nil && !x.ours && ctx.Err() == nil {
			s.stop()
			r.miss(p, x, "did not start: "+err.Error())
			continue
		}
		if all = append(all, s); err != nil {
			return all, fmt.Errorf("start %s: %w", x.name, err)
		}
	}
	return all, nil
}

// firstPort is where the first server listens; the others follow.
const firstPort = 15300

// startWait is for a server to give its first answer; those with a million names read them first.
const startWait = 3 * time.Minute

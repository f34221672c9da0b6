package main

import (
	"fmt"
	"strings"

	"steerpoint/tools/machine"
)

// results is all that was measured.
type results struct {
	samples []sample
	streams []streamSample
	missing map[string]string // why a proxy was not measured, or not to the end
	notes   []string
}

// miss notes why a proxy is left out.
func (r *results) miss(x peer, err error) {
	why, _, _ := strings.Cut(err.Error(), "\n") // the rest is its log
	fmt.Printf("%s is left out: %v\n", x.name, err)
	if r.missing == nil {
		r.missing = map[string]string{}
	}
	r.missing[x.name] = why
}

// row is one workload of one proxy over all rounds.
type row struct {
	Workload string         `json:"workload"`
	Proxy    string         `json:"proxy"`
	Rounds   int            `json:"rounds"`
	CPU      machine.Spread `json:"cpuSecondsPer100k"`
	// Ratio is its CPU divided by HAProxy's in the same round.
	Ratio machine.Spread `json:"cpuToHAProxy"`
	Rate  machine.Spread `json:"requestsPerSecond"`
	MiB   int64          `json:"residentMiB"`
}

// measure is the other proxy that ratios are to.
const measure = "haproxy"

// rows sums samples up, in the order of the workloads and of the proxies.
func rows(samples []sample, proxies []string) []row {
	type at struct {
		proxy, workload string
		round           int
	}
	cpu := map[at]float64{}
	for _, s := range samples {
		cpu[at{s.proxy, s.workload, s.round}] = s.cpu
	}
	var out []row
	for _, w := range workloads {
		for _, name := range proxies {
			r := row{Workload: w.name, Proxy: name}
			var costs, ratios, rates []float64
			for _, s := range samples {
				if s.proxy != name || s.workload != w.name {
					continue
				}
				costs, rates, r.MiB = append(costs, s.cpu), append(rates, s.rate), max(r.MiB, s.resident>>20)
				if other := cpu[at{measure, w.name, s.round}]; other > 0 {
					ratios = append(ratios, s.cpu/other)
				}
			}
			if r.Rounds = len(costs); r.Rounds == 0 {
				continue
			}
			r.CPU, r.Rate = machine.SpreadOf(costs), machine.SpreadOf(rates)
			if len(ratios) > 0 {
				r.Ratio = machine.SpreadOf(ratios)
			}
			out = append(out, r)
		}
	}
	return out
}

// streamRow is one number of streams of one proxy over all rounds.
type streamRow struct {
	Streams int            `json:"streams"`
	Proxy   string         `json:"proxy"`
	Rounds  int            `json:"rounds"`
	KiB     machine.Spread `json:"kibPerStream"`
	P50     machine.Spread `json:"lateP50Milliseconds"`
	P99     machine.Spread `json:"lateP99Milliseconds"`
	// Added is how much later the 99th percentile is than without a proxy in the same round.
	Added machine.Spread `json:"addedP99Milliseconds"`
	CPU   machine.Spread `json:"shareOfACore"`
}

func streamRows(samples []streamSample, proxies []string) []streamRow {
	type at struct{ round, n int }
	direct := map[at]float64{}
	var sizes []int
	for _, s := range samples {
		if s.proxy != "direct" {
			continue
		}
		direct[at{s.round, s.n}] = s.p99
		if s.round == samples[0].round {
			sizes = append(sizes, s.n)
		}
	}
	var out []streamRow
	for _, n := range sizes {
		for _, name := range append([]string{"direct"}, proxies...) {
			r := streamRow{Streams: n, Proxy: name}
			var memory, p50, p99, added, cpu []float64
			for _, s := range samples {
				if s.proxy == name && s.n == n {
					memory, p50, p99, cpu = append(memory, s.memory), append(p50, s.p50), append(p99, s.p99), append(cpu, s.cpu)
					added = append(added, s.p99-direct[at{s.round, n}])
				}
			}
			if r.Rounds = len(p99); r.Rounds > 0 {
				r.KiB, r.P50, r.P99, r.Added, r.CPU = machine.SpreadOf(memory), machine.SpreadOf(p50), machine.SpreadOf(p99), machine.SpreadOf(added), machine.SpreadOf(cpu)
				out = append(out, r)
			}
		}
	}
	return out
}

// bar is what is promised of ours.
type bar struct {
	What    string         `json:"what"`
	Is      machine.Spread `json:"is"`
	AtMost  float64        `json:"atMost"`
	Goal    float64        `json:"goal,omitempty"`
	Kept    bool           `json:"kept"`
	decimal int
}

// bars judges the medians by what issue 6 promises.
func bars(all []row, streams []streamRow) (out []bar) {
	limits := map[string][2]float64{"plain": {1.3, 1}, "tls": {1.3, 1}, "h2": {4, 1.3}}
	for _, r := range all {
		if l, ok := limits[r.Workload]; ok && r.Proxy == "steer" && r.Ratio.Median > 0 {
			out = append(out, bar{r.Workload + ": CPU, to HAProxy's", r.Ratio, l[0], l[1], r.Ratio.Median <= l[0], 2})
		}
	}
	for _, r := range streams {
		if r.Proxy != "steer" {
			continue
		}
		what := fmt.Sprintf("%d streams: ", r.Streams)
		out = append(out, bar{what + "KiB each", r.KiB, 16, 0, r.KiB.Median <= 16, 1}, bar{what + "added at p99, ms", r.Added, 3, 0, r.Added.Median <= 3, 2})
	}
	return out
}

func (r *results) write(c *config) error {
	var proxies []string
	for _, x := range peers(c.Steer, c.gateway) {
		proxies = append(proxies, x.name)
	}
	all, streams := rows(r.samples, proxies), streamRows(r.streams, proxies)
	promised := bars(all, streams)
	var b strings.Builder
	fmt.Fprintf(&b, "# HTTP gateways beside each other\n\n%s\n"+
		"%d interleaved rounds of %d s: the proxy on core 0 with one worker, origin and clients on core 1. Every proxy has an access log, checks of the origin, X-Forwarded-For and kept connections; steer is the whole of `steer up`. "+
		"The configurations are in tools/edgebench/conf. Medians, smallest and largest. An answer of each proxy was looked at before and after each load.\n\n",
		c.Written("bench-edge"), c.Rounds, c.Seconds)
	for _, w := range workloads {
		fmt.Fprintf(&b, "- `%s`: %s\n", w.name, w.what)
	}
	b.WriteString("\n| workload | proxy | CPU-s a 100,000 requests | to HAProxy's in a round | requests a second | MiB |\n| --- | --- | ---: | ---: | ---: | ---: |\n")
	for _, x := range all {
		ratio := ""
		if x.Ratio.Median > 0 {
			ratio = x.Ratio.Text(2)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d |\n", x.Workload, x.Proxy, x.CPU.Text(2), ratio, x.Rate.Text(0), x.MiB)
	}
	if len(streams) > 0 {
		fmt.Fprintf(&b, "\nEvent streams, %d events a second of some 150 octets in all, looked at for %v after all are open. Late is from the origin's stamp to the client; memory is what that of the proxy grew by.\n\n"+
			"| streams | proxy | KiB a stream | late p50, ms | late p99, ms | added at p99, ms | share of a core |\n| ---: | --- | ---: | ---: | ---: | ---: | ---: |\n", eventRate, streamTime)
		for _, x := range streams {
			fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s |\n", x.Streams, x.Proxy, x.KiB.Text(1), x.P50.Text(2), x.P99.Text(2), x.Added.Text(2), x.CPU.Text(2))
		}
	}
	b.WriteString("\n| steer in | measured | promised | goal | |\n| --- | ---: | ---: | ---: | --- |\n")
	for _, x := range promised {
		verdict, goal := "missed", ""
		if x.Kept {
			verdict = "kept"
		}
		if x.Goal > 0 {
			goal = fmt.Sprintf("%.2f", x.Goal)
		}
		fmt.Fprintf(&b, "| %s | %s | at most %.2f | %s | %s |\n", x.What, x.Is.Text(x.decimal), x.AtMost, goal, verdict)
	}
	for _, name := range proxies {
		if why := r.missing[name]; why != "" {
			r.notes = append(r.notes, name+": "+why)
		}
	}
	if len(r.notes) > 0 {
		b.WriteString("\n- " + strings.Join(r.notes, "\n- ") + "\n")
	}
	return c.Write("edge", map[string]any{"rows": all, "streams": streams, "bars": promised, "missing": r.missing}, b.String())
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/tools/machine"
)

// results is all that was measured.
type results struct {
	samples []sample
	rows    []row
	loaded  []string // what each phase had
}

// row is one workload of one server over all rounds.
type row struct {
	Workload string         `json:"workload"`
	Server   string         `json:"server"`
	Rounds   int            `json:"rounds"`
	CPU      machine.Spread `json:"cpuSecondsPerMillion"`
	QPS      machine.Spread `json:"qps"`
	Lost     float64        `json:"lost"`  // share, of all rounds
	Looks    int            `json:"looks"` // answers looked at, all right
	Maps     int            `json:"maps"`  // put in place meanwhile
	MiB      int64          `json:"residentMiB"`
	Octets   float64        `json:"replyOctets"`
	// Missing says why a server was not measured, or not to the end.
	Missing string `json:"missing,omitempty"`
}

// note adds the rows of a phase, and what it was of.
func (r *results) note(p phase, all []*server) {
	r.rows = append(r.rows, rows(p, r.samples, all)...)
	signed := ""
	if p.signed {
		signed = ", signed (ECDSA P-256; by itself with steer, a signed file with NSEC with the others), signatures asked for"
	}
	r.loaded = append(r.loaded, fmt.Sprintf("%s: a zone of %d A records%s", p.name, p.names, signed))
}

// miss adds rows for what cannot be measured of a server.
func (r *results) miss(p phase, x peer, why string) {
	why, _, _ = strings.Cut(why, "\n") // the rest is its log
	fmt.Printf("%s is left out of phase %s: %s\n", x.name, p.name, why)
	for _, w := range p.workloads {
		if (&server{peer: x}).takes(w) {
			r.rows = append(r.rows, row{Workload: w.name, Server: x.name, Missing: why})
		}
	}
}

func rows(p phase, samples []sample, all []*server) []row {
	var out []row
	for _, w := range p.workloads {
		for _, s := range all {
			r := row{Workload: w.name, Server: s.name, MiB: s.resident >> 20}
			var cpu, qps []float64
			for _, x := range samples {
				if x.server == s.name && x.workload == w.name {
					cpu, qps, r.Lost = append(cpu, x.cpu), append(qps, x.qps), r.Lost+x.lost
					r.Looks, r.Maps, r.Octets = r.Looks+x.looks, r.Maps+x.maps, r.Octets+x.octets
				}
			}
			if r.Rounds = len(cpu); r.Rounds > 0 {
				r.CPU, r.QPS, r.Lost, r.Octets = machine.SpreadOf(cpu), machine.SpreadOf(qps), r.Lost/float64(r.Rounds), r.Octets/float64(r.Rounds)
				out = append(out, r)
			}
		}
	}
	return out
}

// bar is a ratio that is promised. In every round ours is divided by the best of the others, or by our own in another
// workload; the median over the rounds counts.
type bar struct {
	what       string
	ours       func(sample) bool
	others     func(sample) bool
	value      func(sample) float64
	most       bool // the limit is the most there may be, and the least of the others counts; otherwise the reverse
	limit      float64
	Ratio      machine.Spread
	kept, seen bool
}

func bars() []bar {
	cpu, qps := func(s sample) float64 { return s.cpu }, func(s sample) float64 { return s.qps }
	is := func(workload string, servers ...string) func(sample) bool {
		return func(s sample) bool { return s.workload == workload && slices.Contains(servers, s.server) }
	}
	list := []bar{
		{what: "static: CPU, to the cheapest of gdnsd, knot, nsd", ours: is("static", "steer"), others: is("static", "gdnsd", "knot", "nsd"), value: cpu, most: true, limit: 1},
		{what: "nxdomain: CPU, to the cheapest of gdnsd, knot, nsd", ours: is("nxdomain", "steer"), others: is("nxdomain", "gdnsd", "knot", "nsd"), value: cpu, most: true, limit: 1},
		{what: "geo: CPU, to gdnsd", ours: is("geo", "steer"), others: is("geo", "gdnsd"), value: cpu, most: true, limit: 1.25},
		{what: "geo: CPU, to PowerDNS", ours: is("geo", "steer"), others: is("geo", "pdns-geoip"), value: cpu, most: true, limit: 0.25},
		{what: "static: rate, to the fastest of the others", ours: is("static", "steer"), others: is("static", "gdnsd", "knot", "nsd"), value: qps, limit: 0.9},
		{what: "geo: rate, to the fastest of the others", ours: is("geo", "steer"), others: is("geo", "gdnsd", "pdns-geoip"), value: qps, limit: 0.9},
		{what: "signed: CPU, to the cheapest of knot, nsd", ours: is("signed", "steer"), others: is("signed", "knot", "nsd"), value: cpu, most: true, limit: 1},
		{what: "signed: rate, to the fastest of the others", ours: is("signed", "steer"), others: is("signed", "knot", "nsd"), value: qps, limit: 0.9},
		{what: "million: CPU, to the cheapest of gdnsd, knot, nsd", ours: is("million", "steer"), others: is("million", "gdnsd", "knot", "nsd"), value: cpu, most: true, limit: 1},
		{what: "million: rate, to the fastest of the others", ours: is("million", "steer"), others: is("million", "gdnsd", "knot", "nsd"), value: qps, limit: 0.9},
	}
	for _, p := range phases {
		for _, w := range p.workloads {
			if w.like == "" {
				continue
			}
			limit := 0.95
			if !w.swap {
				limit = 0.8
			}
			list = append(list, bar{what: w.name + ": rate, to that of " + w.like, ours: is(w.name, "steer"), others: is(w.like, "steer"), value: qps, limit: limit})
		}
	}
	return list
}

// judge computes the ratio of a bar.
func (b *bar) judge(samples []sample) {
	type pair struct{ ours, best float64 }
	byRound := map[int]pair{}
	for _, s := range samples {
		p := byRound[s.round]
		if b.ours(s) {
			p.ours = b.value(s)
		}
		if v := b.value(s); b.others(s) && (p.best == 0 || b.most == (v < p.best)) {
			p.best = v
		}
		byRound[s.round] = p
	}
	var ratios []float64
	for _, p := range byRound {
		if p.ours > 0 && p.best > 0 {
			ratios = append(ratios, p.ours/p.best)
		}
	}
	if b.seen = len(ratios) > 0; b.seen {
		b.Ratio = machine.SpreadOf(ratios)
		b.kept = b.most == (b.Ratio.Median <= b.limit) || b.Ratio.Median == b.limit
	}
}

func (r *results) write(c *config) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Name servers beside each other\n\n%s\n"+
		"%d interleaved rounds of %d s: server on core 0 with one worker, dnsperf on core 1, 8 sockets, 200 questions under way.\n"+
		"Loaded: %s (steer: domains of one service; with a million, a service each with 40 rules); for geo one name by country over a database of %d networks, client subnet %s in the question; "+
		"flood: each second question is of a name that there is not and nobody asked before; in a signed zone steer makes 1,000 signatures a second for those, and sends who asks for more to TCP. Octets are the mean of a reply.\n"+
		"CPU is user and kernel time of all processes of the server; steer is the whole of `steer up`, with a million the name server by itself. Medians, smallest and largest. The first map after a start from disk, which is made anew as a whole, comes before the rounds. "+
		"Looks are answers to names at random that were held against the data while dnsperf asked; all were right.\n\n",
		c.Written("bench-dns"), c.Rounds, c.Seconds, strings.Join(r.loaded, "; "), networks, subnet)
	b.WriteString("| workload | server | CPU-s a million answers | queries a second | lost | octets | looks | maps | MiB |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, x := range r.rows {
		if x.Missing != "" {
			fmt.Fprintf(&b, "| %s | %s | %s | | | | | | |\n", x.Workload, x.Server, strings.ReplaceAll(x.Missing, "|", "/"))
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.3f %% | %.0f | %d | %d | %d |\n",
			x.Workload, x.Server, x.CPU.Text(2), x.QPS.Text(0), 100*x.Lost, x.Octets, x.Looks, x.Maps, x.MiB)
	}
	b.WriteString("\n| steer in | ratio in a round | promised | |\n| --- | --- | --- | --- |\n")
	for _, x := range bars() {
		if x.judge(r.samples); !x.seen {
			continue
		}
		word, verdict := "at least", "missed"
		if x.most {
			word = "at most"
		}
		if x.kept {
			verdict = "kept"
		}
		fmt.Fprintf(&b, "| %s | %s | %s %.2f | %s |\n", x.what, x.Ratio.Text(2), word, x.limit, verdict)
	}
	return c.Write("dns", map[string]any{"rows": r.rows}, b.String())
}

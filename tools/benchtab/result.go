package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// result is what one benchmark measured.
type result struct {
	Name    string             `json:"name"`
	Figures map[string]*figure `json:"figures"` // by unit

	samples map[string][]float64
}

// figure is one unit of a benchmark over the rounds.
type figure struct {
	Median float64  `json:"median"`
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
	Rounds int      `json:"rounds"`
	Bar    *float64 `json:"bar,omitempty"` // at most
	Source string   `json:"source,omitempty"`
}

// bar is what a figure is held against.
type bar struct {
	benchmark, unit, source string
	most                    float64
}

// readBars reads benchmark, unit, greatest value and source, divided by tabs.
func readBars(file string) ([]bar, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("bars: %w", err)
	}
	var bars []bar
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("bars line %d: want benchmark, unit, at most, source, divided by tabs", n)
		}
		most, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return nil, fmt.Errorf("bars line %d: %w", n, err)
		}
		bars = append(bars, bar{f[0], f[1], f[3], most})
	}
	return bars, nil
}

// judge turns the samples into figures and puts the bars beside them.
func (r *result) judge(bars []bar) {
	r.Figures = map[string]*figure{}
	for unit, s := range r.samples {
		slices.Sort(s)
		f := &figure{Median: (s[(len(s)-1)/2] + s[len(s)/2]) / 2, Min: s[0], Max: s[len(s)-1], Rounds: len(s)}
		for _, b := range bars {
			if b.benchmark == r.Name && b.unit == unit {
				f.Bar, f.Source = &b.most, b.source
			}
		}
		r.Figures[unit] = f
	}
}

// fileName is the benchmark's name in lower case, its words divided by underscores.
func (r *result) fileName() string {
	var b strings.Builder
	var last rune
	for _, c := range strings.ReplaceAll(r.Name, "/", "_") {
		if unicode.IsUpper(c) && unicode.IsLower(last) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
		last = c
	}
	return b.String() + ".json"
}

// table is the page for people.
func table(results []*result, m machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What was measured\n\nWritten by `make bench`, %s, commit %s: %s, %d cores, %s, %s.\n"+
		"The host took %.1f %% of the CPU time, other programs %.1f %%.\n", m.Date, m.Commit, m.CPU, m.Cores, m.Go, m.OS, 100*m.Steal, 100*m.Others)
	if m.Steal > noisy || m.Others > noisy {
		b.WriteString("**More than 5 % went elsewhere: the times below are no good, measure again on a quiet machine.**\n")
	}
	b.WriteString("Medians of the rounds, with the smallest and the largest; the JSON files have every unit.\n\n| benchmark | unit | median | range | at most | |\n| --- | --- | ---: | --- | ---: | --- |\n")
	for _, r := range results {
		units := make([]string, 0, len(r.Figures))
		for u := range r.Figures {
			units = append(units, u)
		}
		slices.Sort(units)
		for _, u := range units {
			f := r.Figures[u]
			if f.Bar == nil && !r.tells(u) {
				continue
			}
			most, verdict := "", ""
			if f.Bar != nil {
				most, verdict = number(*f.Bar), "kept"
				if f.Median > *f.Bar {
					verdict = "**missed**"
				}
				verdict += ", " + f.Source
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s to %s | %s | %s |\n", r.Name, u, number(f.Median), number(f.Min), number(f.Max), most, verdict)
		}
	}
	return b.String()
}

// noisy is the share of CPU time taken by others above which times mean nothing (measured: half the throughput at 26 %).
const noisy = 0.05

// tells reports whether a unit without a bar belongs in the table: a benchmark's own units, or else its time.
func (r *result) tells(unit string) bool {
	own := func(u string) bool { return u != "ns/op" && u != "B/op" && u != "allocs/op" }
	for u := range r.Figures {
		if own(u) {
			return own(unit)
		}
	}
	return unit == "ns/op"
}

// number shows three significant digits, whole numbers as they are.
func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

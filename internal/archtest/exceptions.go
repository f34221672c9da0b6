package archtest

import (
	"fmt"
	"strings"
)

// Exception is one finding that is accepted: rule, place and the reason.
type Exception struct{ Rule, Where, Reason string }

// ReadExceptions reads the list of accepted findings: rule, place and reason in columns divided by a tab; lines that
// begin with # and empty ones are passed over.
func ReadExceptions(text string) ([]Exception, error) {
	var list []Exception
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 3 || len(strings.Fields(cells[2])) < 3 {
			return nil, fmt.Errorf("exceptions line %d: want rule, place and a reason of at least three words, divided by tabs", n)
		}
		list = append(list, Exception{cells[0], cells[1], cells[2]})
	}
	return list, nil
}

// Except takes the accepted findings out. An exception that nothing needs any more is a finding itself.
func Except(found []Finding, list []Exception) []Finding {
	used := make([]bool, len(list))
	var left []Finding
next:
	for _, f := range found {
		for i, e := range list {
			if f.Rule == e.Rule && f.Where == e.Where {
				used[i] = true
				continue next
			}
		}
		left = append(left, f)
	}
	for i, e := range list {
		if !used[i] {
			left = append(left, Finding{"exception", e.Where, "is listed as an exception to " + e.Rule + " and needs none", "a list of exceptions that only grows stops being read"})
		}
	}
	return left
}

package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const whyMetrics = "a metric is an interface: its name says plane, noun and unit, so that it is understood in a graph"

var (
	metricName   = regexp.MustCompile(`^steer_[a-z]+(_[a-z0-9]+)+$`)
	planePrefix  = regexp.MustCompile(`^steer_[a-z]+_$`)
	metricPrefix = regexp.MustCompile(`^steer_[a-z0-9_]+$`)
)

// badUnits are endings that are not base units (Prometheus naming).
var badUnits = []string{"_ms", "_millis", "_milliseconds", "_us", "_ns", "_nanoseconds", "_minutes", "_kb", "_mb", "_percent", "_count"}

// checkMetrics reads the names of metrics out of the source: every string that looks like one, and every name in the
// options of a Prometheus collector.
func checkMetrics(packages []*Package) []Finding {
	var found []Finding
	for _, p := range packages {
		rel := p.Rel()
		if within(rel, "internal/archtest") {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				for _, what := range metricFaults(rel, n) {
					found = append(found, Finding{"metric", f.Path, fmt.Sprintf("line %d: %s", f.line(n), what), whyMetrics})
				}
				return true
			})
		}
	}
	return found
}

func metricFaults(rel string, n ast.Node) []string {
	switch n := n.(type) {
	case *ast.BasicLit:
		if name := literal(n); metricPrefix.MatchString(name) {
			return nameFaults(rel, name)
		}
	case *ast.CompositeLit:
		kind := callee(n.Type)
		if !strings.HasPrefix(kind, "prometheus.") || !strings.HasSuffix(kind, "Opts") {
			return nil
		}
		return optionFaults(kind, n)
	}
	return nil
}

func nameFaults(rel, name string) []string {
	var faults []string
	// A plane may write its prefix once and the rest of each name beside its help.
	if !metricName.MatchString(name) && !planePrefix.MatchString(name) {
		faults = append(faults, name+" is not steer_<plane>_<noun>_<unit>")
	}
	plane := strings.Split(name, "_")[1]
	if top, _, _ := strings.Cut(rel, "/"); slices.Contains(planes, top) && plane != top {
		faults = append(faults, fmt.Sprintf("%s is made in %s", name, top))
	}
	for _, u := range badUnits {
		if strings.HasSuffix(name, u) {
			faults = append(faults, name+" does not end in a base unit")
		}
	}
	return faults
}

func optionFaults(kind string, n *ast.CompositeLit) []string {
	var faults []string
	for _, e := range n.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := kv.Key.(*ast.Ident)
		if !ok {
			continue
		}
		switch key.Name {
		case "Namespace", "Subsystem":
			faults = append(faults, "writes a name in parts: "+key.Name)
		case "Name":
			name := literal(kv.Value)
			if name == "" {
				continue // handed in; the literal stands elsewhere and is checked there
			}
			if !strings.HasPrefix(name, "steer_") {
				faults = append(faults, strconv.Quote(name)+" does not begin with steer_")
			}
			if kind == "prometheus.CounterOpts" != strings.HasSuffix(name, "_total") {
				faults = append(faults, name+": a counter, and nothing else, ends in _total")
			}
		}
	}
	return faults
}

// literal is the value of a string literal, "" for anything else.
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

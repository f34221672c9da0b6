package steertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"steerpoint/steering"
)

// parser collects a timeline and every mistake on the way.
type parser struct {
	tl       *Timeline
	errs     Errors
	sections map[string]bool
	epochAt  int // line of the epoch, 0: none
	pointsAt int
	beginAt  int
	begun    bool // a statement was seen
	events   int64
}

func (p *parser) fail(line int, code Code, format string, args ...any) {
	p.errs = append(p.errs, &LineError{File: p.tl.Name, Line: line, Code: code, Text: fmt.Sprintf(format, args...)})
}

func (p *parser) file(archive *txtar.Archive) {
	for _, f := range archive.Files {
		if p.sections[f.Name] {
			p.fail(0, CodeSyntax, "two sections are called %q; give each its own name", f.Name)
			continue
		}
		p.sections[f.Name] = true
		p.tl.Sections = append(p.tl.Sections, Section{Name: f.Name, Data: f.Data})
	}
	if len(archive.Files) == 0 {
		p.fail(0, CodeSyntax, "no resources: add a section such as \"-- service.yaml --\" after the timeline")
	}
}

// finish checks what only the whole file shows.
func (p *parser) finish() {
	if p.pointsAt == 0 {
		p.fail(0, CodeSyntax, "no points: add a line \"points NAME...\" before the first event")
	}
	for i := range p.tl.Statements {
		if st := &p.tl.Statements[i]; st.Kind != KindExpectSwitches && st.At.From < p.tl.Begin {
			p.fail(st.Line, CodeSyntax, "time %s is before the timeline begins, at %s (line %d)", seconds(st.At.From), seconds(p.tl.Begin), p.beginAt)
		}
	}
	if p.events > MaxEvents {
		p.fail(0, CodeLimit, "the lines expand to %d observations or more; at most %d are allowed (a larger STEP makes fewer)",
			p.events, MaxEvents)
	}
	p.errs = p.errs.sorted()
}

// line parses one line. Errors leave it out and go on with the next, so that one run shows them all.
func (p *parser) line(n int, text string) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return
	}
	if strings.HasPrefix(fields[0], "#") {
		if p.pointsAt == 0 && p.epochAt == 0 && !p.begun {
			p.tl.Comment = append(p.tl.Comment, strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(text), "#"), " "))
		}
		return
	}
	st := Statement{Line: n}
	var good bool
	switch fields[0] {
	case "points":
		p.pointsLine(n, fields[1:])
		return
	case "epoch":
		p.epochLine(n, fields[1:])
		return
	case "begin":
		p.beginLine(n, fields[1:])
		return
	case "force":
		good = p.force(&st, fields[1:])
	case "unforce":
		good = p.ofRule(&st, KindUnforce, fields, false)
	case "unfreeze":
		good = p.ofRule(&st, KindUnfreeze, fields, true)
	case "tick":
		good = p.ofRule(&st, KindTick, fields, false)
	case "drain":
		good = p.drain(&st, KindDrain, fields)
	case "undrain":
		good = p.drain(&st, KindUndrain, fields)
	case "halt":
		st.Kind = KindHalt
		good = p.arity(n, fields[1:], 1, "halt TIME") && p.instant(n, fields[1], &st.At)
	case "state":
		good = p.section(&st, KindState, fields)
	case "freeze":
		good = p.freeze(&st, fields[1:])
	case "apply":
		good = p.section(&st, KindApply, fields)
	case "restart":
		st.Kind = KindRestart
		good = p.arity(n, fields[1:], 1, "restart TIME") && p.instant(n, fields[1], &st.At)
	case "expect":
		good = p.expect(&st, fields[1:])
	case "expect-switches":
		good = p.expectSwitches(&st, fields[1:])
	case "expect-verdict":
		good = p.expectVerdict(&st, fields[1:])
	default:
		good = p.observe(&st, fields)
	}
	p.begun = true
	if good {
		p.tl.Statements = append(p.tl.Statements, st)
	}
}

func (p *parser) arity(n int, args []string, want int, form string) bool {
	if len(args) == want {
		return true
	}
	p.fail(n, CodeSyntax, "write \"%s\"", form)
	return false
}

func (p *parser) pointsLine(n int, names []string) {
	switch {
	case p.pointsAt > 0:
		p.fail(n, CodeSyntax, "a second points line; line %d has the first, put all points there", p.pointsAt)
		return
	case p.begun:
		p.fail(n, CodeSyntax, "the points line comes after an event; put it before the first")
	case len(names) == 0:
		p.fail(n, CodeSyntax, "write \"points NAME...\" with at least one name")
	}
	p.pointsAt = n
	for _, name := range names {
		switch {
		case !isName(name):
			p.fail(n, CodeSyntax, "point %q: a name has letters, digits, '.', '_' and '-' only", name)
		case slices.Contains(p.tl.Points, name):
			p.fail(n, CodeSyntax, "point %q is named twice", name)
		default:
			p.tl.Points = append(p.tl.Points, name)
		}
	}
}

func (p *parser) epochLine(n int, args []string) {
	switch {
	case p.epochAt > 0:
		p.fail(n, CodeSyntax, "a second epoch line; line %d has the first", p.epochAt)
		return
	case p.begun:
		p.fail(n, CodeSyntax, "the epoch line comes after an event; put it before the first")
		return
	}
	p.epochAt = n
	if !p.arity(n, args, 1, "epoch "+DefaultEpoch) {
		return
	}
	at, err := time.Parse(time.RFC3339, args[0])
	// Years beyond these overflow the nanoseconds that wall times are counted in somewhere or other.
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		p.fail(n, CodeSyntax, "epoch %q is no RFC 3339 time of the years 1970 to 2200, such as %s", args[0], DefaultEpoch)
		return
	}
	p.tl.Epoch = at
}

func (p *parser) observe(st *Statement, f []string) bool {
	n := st.Line
	st.Kind = KindObserve
	if f[0] == "" || (f[0][0] < '0' || f[0][0] > '9') && f[0][0] != '-' && f[0][0] != '.' {
		p.fail(n, CodeSyntax, "%q begins no line; allowed: points, epoch, force, freeze, apply, restart, begin, unforce, unfreeze, drain, undrain, "+
			"state, halt, tick, expect, expect-switches, expect-verdict, or a TIME such as 90s or 0s..60s/5s", f[0])
		return false
	}
	const form = "TIME POINTS EDGES ok LATENCY\" or \"TIME POINTS EDGES fail CAUSE\", at will with \"only SERVICE/RULE,..."
	only := len(f) == 7 && f[5] == "only"
	if !only && !p.arity(n, f, 5, form) {
		return false
	}
	good := p.span(n, f[0], &st.At)
	good = p.pointList(n, f[1], &st.Points) && good
	good = p.edgeList(n, f[2], &st.Edges) && good
	good = p.outcome(st, f[3], f[4]) && good
	if only {
		st.Only = strings.Split(f[6], ",")
		for _, rule := range st.Only {
			good = p.rule(n, rule, new(string)) && good
		}
	}
	if good {
		points := len(st.Points)
		if st.Points[0] == All {
			points = max(1, len(p.tl.Points))
		}
		p.count(st.At.times(), int64(points)*int64(len(st.Edges)))
	}
	return good
}

// count adds times*each to the events, saturating: both factors are bounded, their product need not be.
func (p *parser) count(times, each int64) {
	if p.events > MaxEvents || times > MaxEvents || each > MaxEvents {
		p.events = max(p.events, MaxEvents+1)
		return
	}
	p.events += times * each
}

func (p *parser) outcome(st *Statement, word, value string) bool {
	switch word {
	case "ok":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 || d > MaxLatency {
			p.fail(st.Line, CodeSyntax, "latency %q is no duration above 0 and up to %s, such as 30ms", value, MaxLatency)
			return false
		}
		st.OK, st.Latency = true, d
	case "fail":
		if !isName(value) {
			p.fail(st.Line, CodeSyntax, "cause %q: one word of letters, digits, '.', '_' and '-', such as timeout", value)
			return false
		}
		st.Cause = value
	default:
		p.fail(st.Line, CodeSyntax, "outcome %q; allowed: ok LATENCY, fail CAUSE", word)
		return false
	}
	return true
}

func (p *parser) pointList(n int, text string, into *[]string) bool {
	list := strings.Split(text, ",")
	if len(list) == 1 && list[0] == All {
		*into = list
		return true
	}
	good := true
	for i, name := range list {
		switch {
		case name == All:
			p.fail(n, CodeSyntax, "points %q: * stands alone", text)
			good = false
		case !slices.Contains(p.tl.Points, name):
			p.fail(n, CodeUnknown, "point %q is not on the points line; there are: %s", name, listOrNone(p.tl.Points))
			good = false
		case slices.Contains(list[:i], name):
			p.fail(n, CodeSyntax, "point %q is named twice", name)
			good = false
		}
	}
	*into = list
	return good
}

func (p *parser) edgeList(n int, text string, into *[]string) bool {
	list := strings.Split(text, ",")
	good := true
	for i, name := range list {
		switch {
		case name == All && len(list) > 1:
			p.fail(n, CodeSyntax, "edges %q: * stands alone", text)
			good = false
		case !isEdgeRef(name):
			p.fail(n, CodeSyntax, "edge %q: write edge, service/edge, service/* or edge@address", name)
			good = false
		case slices.Contains(list[:i], name):
			p.fail(n, CodeSyntax, "edge %q is named twice", name)
			good = false
		}
	}
	*into = list
	return good
}

func (p *parser) force(st *Statement, f []string) bool {
	const form = "force TIME SERVICE/RULE EDGE [for DURATION]"
	n := st.Line
	st.Kind = KindForce
	if len(f) != 3 && len(f) != 5 {
		return p.arity(n, f, 3, form)
	}
	good := p.instant(n, f[0], &st.At) && p.rule(n, f[1], &st.Rule)
	if !isName(f[2]) {
		p.fail(n, CodeSyntax, "edge %q is no edge name", f[2])
		good = false
	}
	st.Edge = f[2]
	return p.bound(st, f[3:], form) && good
}

func (p *parser) freeze(st *Statement, f []string) bool {
	const form = "freeze TIME SERVICE[/RULE] [for DURATION]"
	n := st.Line
	st.Kind = KindFreeze
	if len(f) != 2 && len(f) != 4 {
		return p.arity(n, f, 2, form)
	}
	good := p.instant(n, f[0], &st.At)
	if isName(f[1]) {
		st.Rule = f[1]
	} else {
		good = p.rule(n, f[1], &st.Rule) && good
	}
	return p.bound(st, f[2:], form) && good
}

// bound reads "for DURATION", or nothing.
func (p *parser) bound(st *Statement, f []string, form string) bool {
	if len(f) == 0 {
		return true
	}
	d, err := time.ParseDuration(f[1])
	if f[0] != "for" || err != nil || d <= 0 || d > MaxTime {
		p.fail(st.Line, CodeSyntax, "%q: write \"%s\" with a duration above 0, such as 200s", strings.Join(f, " "), form)
		return false
	}
	st.For = d
	return true
}

// section reads "apply TIME FILE" and "state TIME FILE".
func (p *parser) section(st *Statement, kind Kind, f []string) bool {
	st.Kind = kind
	word := f[0]
	f = f[1:]
	if !p.arity(st.Line, f, 2, word+" TIME FILE") {
		return false
	}
	good := p.instant(st.Line, f[0], &st.At)
	if !p.sections[f[1]] {
		names := make([]string, len(p.tl.Sections))
		for i, s := range p.tl.Sections {
			names[i] = s.Name
		}
		p.fail(st.Line, CodeUnknown, "section %q is not in this file; there are: %s", f[1], listOrNone(names))
		good = false
	}
	st.File = f[1]
	return good
}

func (p *parser) expect(st *Statement, f []string) bool {
	st.Kind = KindExpect
	if len(f) < 3 {
		return p.arity(st.Line, f, 3, "expect TIME SERVICE/RULE EDGE [key=value ...]")
	}
	good := p.instant(st.Line, f[0], &st.At)
	good = p.rule(st.Line, f[1], &st.Rule) && good
	st.Edge = f[2]
	if strings.Contains(f[2], "=") {
		p.fail(st.Line, CodeSyntax, "%q stands where the edge does; write \"expect TIME SERVICE/RULE EDGE [key=value ...]\"", f[2])
		good = false
	}
	seen := map[string]bool{}
	for _, kv := range f[3:] {
		key, value, _ := strings.Cut(kv, "=")
		if seen[key] {
			p.fail(st.Line, CodeSyntax, "key %q is given twice", key)
			good = false
		}
		seen[key] = true
		good = p.want(st, key, value) && good
	}
	return good
}

func (p *parser) want(st *Statement, key, value string) bool {
	switch key {
	case "cause":
		if !slices.Contains(causes(), value) {
			p.fail(st.Line, CodeSyntax, "cause %q; allowed: %s", value, strings.Join(causes(), ", "))
			return false
		}
		st.Want.Cause = &value
	case "since":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 || d > MaxTime {
			p.fail(st.Line, CodeSyntax, "since %q is no time such as 90s", value)
			return false
		}
		st.Want.Since = &d
	case "degraded", "locked":
		if value != "true" && value != "false" {
			p.fail(st.Line, CodeSyntax, "%s=%q; allowed: true, false", key, value)
			return false
		}
		b := value == "true"
		if key == "degraded" {
			st.Want.Degraded = &b
		} else {
			st.Want.Locked = &b
		}
	default:
		p.fail(st.Line, CodeSyntax, "key %q; allowed: cause=, since=, degraded=, locked=", key)
		return false
	}
	return true
}

func (p *parser) expectSwitches(st *Statement, f []string) bool {
	n := st.Line
	st.Kind = KindExpectSwitches
	if len(f) != 2 && len(f) != 3 {
		return p.arity(n, f, 2, "expect-switches SERVICE/RULE COUNT [FROM..TO]")
	}
	good := p.rule(n, f[0], &st.Rule)
	count, err := strconv.Atoi(f[1])
	if err != nil || count < 0 || count > MaxEvents {
		p.fail(n, CodeSyntax, "count %q is no number from 0 to %d", f[1], MaxEvents)
		good = false
	}
	st.Count = count
	if len(f) == 3 {
		st.Windowed = true
		from, to, ok := strings.Cut(f[2], "..")
		if !ok {
			p.fail(n, CodeSyntax, "window %q: write FROM..TO, such as 0s..60s", f[2])
			return false
		}
		good = p.time(n, from, &st.At.From) && p.time(n, to, &st.At.To) && good
		if good && st.At.From > st.At.To {
			p.fail(n, CodeSyntax, "window %q ends before it begins", f[2])
			good = false
		}
	}
	return good
}

func (p *parser) expectVerdict(st *Statement, f []string) bool {
	n := st.Line
	st.Kind = KindExpectVerdict
	if !p.arity(n, f, 4, "expect-verdict TIME SERVICE/RULE EDGE up|down|unknown") {
		return false
	}
	good := p.instant(n, f[0], &st.At)
	good = p.rule(n, f[1], &st.Rule) && good
	if name, _, _ := strings.Cut(f[2], "@"); !isName(name) || !isEdgeRef(f[2]) {
		p.fail(n, CodeSyntax, "edge %q: write edge or edge@address", f[2])
		good = false
	}
	if f[3] != "up" && f[3] != "down" && f[3] != "unknown" {
		p.fail(n, CodeSyntax, "verdict %q; allowed: up, down, unknown", f[3])
		good = false
	}
	st.Edge, st.Verdict = f[2], f[3]
	return good
}

func (p *parser) rule(n int, text string, into *string) bool {
	service, rule, ok := strings.Cut(text, "/")
	if !ok || !isName(service) || !isName(rule) {
		p.fail(n, CodeSyntax, "rule %q: write SERVICE/RULE", text)
		return false
	}
	*into = text
	return true
}

func (p *parser) instant(n int, text string, into *Span) bool {
	if strings.Contains(text, "..") {
		p.fail(n, CodeSyntax, "time %q: only observations take a range", text)
		return false
	}
	if !p.time(n, text, &into.From) {
		return false
	}
	into.To = into.From
	return true
}

func (p *parser) time(n int, text string, into *time.Duration) bool {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > MaxTime {
		p.fail(n, CodeSyntax, "time %q is no duration from 0s to %s, such as 90s", text, MaxTime)
		return false
	}
	*into = d
	return true
}

func (p *parser) span(n int, text string, into *Span) bool {
	from, rest, ranged := strings.Cut(text, "..")
	if !ranged {
		return p.instant(n, text, into)
	}
	to, step, stepped := strings.Cut(rest, "/")
	if !stepped {
		p.fail(n, CodeSyntax, "time %q: a range needs a step, such as %s..%s/5s", text, from, to)
		return false
	}
	if !p.time(n, from, &into.From) || !p.time(n, to, &into.To) || !p.time(n, step, &into.Step) {
		return false
	}
	if into.From > into.To {
		p.fail(n, CodeSyntax, "time %q ends before it begins", text)
		return false
	}
	if into.Step == 0 {
		p.fail(n, CodeSyntax, "time %q: the step must be above 0", text)
		return false
	}
	return true
}

// isName reports whether s can name a point, service, rule, edge or cause. The characters that are syntax in this
// language are out; whether the name exists is checked elsewhere.
func isName(s string) bool {
	for _, r := range s {
		if r != '.' && r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != "" && s[0] != '-' && s[0] != '.'
}

// isEdgeRef reports whether s is "*", "edge", "service/edge" or "service/*", the named ones with "@address" at will.
func isEdgeRef(s string) bool {
	if s == All {
		return true
	}
	name, address, pinned := strings.Cut(s, "@")
	if pinned && (address == "" || strings.ContainsAny(address, "@*")) {
		return false
	}
	service, edge, qualified := strings.Cut(name, "/")
	if !qualified {
		return isName(name)
	}
	return isName(service) && (isName(edge) || edge == All && !pinned)
}

func causes() []string {
	return []string{
		string(steering.CauseInitial), string(steering.CauseDown), string(steering.CauseSlow),
		string(steering.CauseRecovered), string(steering.CauseFaster), string(steering.CauseAvailability),
		string(steering.CauseConfig), string(steering.CauseForced), string(steering.CauseSchedule),
		string(steering.CauseFallback),
	}
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

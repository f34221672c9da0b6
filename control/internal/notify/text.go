package notify

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// text is a message for people: what, why, how long it took and what to do, one line each.
type text struct {
	title string
	lines []string
}

// maxListed are the events named in one message of several.
const maxListed = 10

// compose writes a message in its language.
func (m *message) compose() text {
	w := english
	if m.language == "zh" {
		w = chinese
	}
	var x text
	switch {
	case m.kind == kindTest:
		x = text{w.test, []string{w.testText}}
	case len(m.events) == 0:
		x = text{title: w.nothing}
	case len(m.events) > 1:
		x = w.several(m)
	default:
		x = w.single(&m.events[0])
	}
	if m.lost > 0 {
		x.lines = append(x.lines, fmt.Sprintf(w.lost, m.lost))
	}
	x.lines = append(x.lines, fmt.Sprintf(w.sender, m.from.Cluster, m.from.Node, m.id))
	return x
}

// words are the sentences of one language. Those of Printf say in their names what they take.
type words struct {
	test, testText, nothing string
	lost                    string // count
	sender                  string // cluster, node, ID
	kinds                   map[string]string
	causes                  map[string]string
	verdicts                map[string]string

	switchTitle  string // rule, from, to
	switchWhat   string // scope, to, from, time
	why          string // cause, reason
	whyOnly      string // reason
	detected     string // seconds
	published    string // seconds, name servers, map
	unpublished  string
	nobody       string
	missing      string // missing, all, names
	switchDo     string // service, rule, from
	verdictTitle string // rule, edge, to, from
	verdictDo    string // service
	foldTitle    string // rule, count, edge, to
	when         string // time
	massTitle    string
	massDo       string
	alarmTitle   string // code, subject
	overTitle    string // code, subject
	alarmDo      string // code
	endTitle     string // subject
	endDo        string
	digestTitle  string // count, span, kinds
	digestMore   string // count
	digestDo     string
	line         string // time, kind, text
	separator    string
}

// single tells one event.
func (w *words) single(e *Event) text {
	rule := ruleOf(e)
	switch e.Kind {
	case KindSwitch:
		return w.switched(e)
	case KindVerdict:
		return text{
			fmt.Sprintf(w.verdictTitle, rule, e.Edge, word(w.verdicts, e.To), word(w.verdicts, e.From)),
			[]string{fmt.Sprintf(w.whyOnly, e.Message), fmt.Sprintf(w.when, at(e.Time)), fmt.Sprintf(w.verdictDo, e.Service)},
		}
	case KindMass:
		if e.On {
			return text{w.massTitle, []string{fmt.Sprintf(w.whyOnly, e.Message), fmt.Sprintf(w.when, at(e.Time)), w.massDo}}
		}
	case KindExpiry:
		if e.Code == "" {
			return text{fmt.Sprintf(w.endTitle, e.Subject), []string{fmt.Sprintf(w.whyOnly, e.Message), fmt.Sprintf(w.when, at(e.Time)), w.endDo}}
		}
	}
	title := w.overTitle
	if e.On {
		title = w.alarmTitle
	}
	return text{
		strings.TrimSpace(fmt.Sprintf(title, e.Code, e.Subject)),
		[]string{fmt.Sprintf(w.whyOnly, e.Message), fmt.Sprintf(w.when, at(e.Time)), fmt.Sprintf(w.alarmDo, e.Code)},
	}
}

// switched tells a switch, with the time each part of it took.
func (w *words) switched(e *Event) text {
	rule := ruleOf(e)
	x := text{title: fmt.Sprintf(w.switchTitle, rule, e.From, e.To)}
	x.lines = append(x.lines, fmt.Sprintf(w.switchWhat, e.Scope, e.To, e.From, at(e.Time)), fmt.Sprintf(w.why, word(w.causes, e.Cause), e.Message))
	if e.DetectionSeconds > 0 {
		x.lines = append(x.lines, fmt.Sprintf(w.detected, seconds(e.DetectionSeconds)))
	}
	switch p := e.Publication; {
	case p == nil:
		x.lines = append(x.lines, w.unpublished)
	case p.MissingCount+p.Acked == 0:
		x.lines = append(x.lines, w.nobody)
	case p.MissingCount > 0:
		x.lines = append(x.lines, fmt.Sprintf(w.missing, p.MissingCount, p.MissingCount+p.Acked, strings.Join(p.Missing, ", ")))
	default:
		x.lines = append(x.lines, fmt.Sprintf(w.published, seconds(p.Seconds), p.Acked, p.MapVersion))
	}
	x.lines = append(x.lines, fmt.Sprintf(w.switchDo, e.Service, rule, e.From))
	return x
}

// several tells a digest, or the folded verdicts of one rule.
func (w *words) several(m *message) text {
	var x text
	first, last := &m.events[0], &m.events[len(m.events)-1]
	if m.kind == KindVerdict {
		x.title = fmt.Sprintf(w.foldTitle, ruleOf(last), len(m.events), last.Edge, word(w.verdicts, last.To))
	} else {
		counts := map[string]int{}
		for i := range m.events {
			counts[m.events[i].Kind]++
		}
		var parts []string
		for _, k := range []string{KindSwitch, KindVerdict, KindMass, KindExpiry, KindAlarm} {
			if n := counts[k]; n > 0 {
				parts = append(parts, fmt.Sprintf("%s %d", word(w.kinds, k), n))
			}
		}
		span := max(last.Time.Sub(first.Time), 0).Round(time.Second)
		x.title = fmt.Sprintf(w.digestTitle, len(m.events), span, strings.Join(parts, w.separator))
	}
	for i := range m.events[:min(len(m.events), maxListed)] {
		e := &m.events[i]
		x.lines = append(x.lines, fmt.Sprintf(w.line, at(e.Time), word(w.kinds, e.Kind), cut(w.short(e), maxWord)))
	}
	if n := len(m.events) - maxListed; n > 0 {
		x.lines = append(x.lines, fmt.Sprintf(w.digestMore, n))
	}
	x.lines = append(x.lines, w.digestDo)
	return x
}

// short is an event in a few words.
func (w *words) short(e *Event) string {
	switch e.Kind {
	case KindSwitch:
		return fmt.Sprintf("%s %s → %s (%s)", ruleOf(e), e.From, e.To, word(w.causes, e.Cause))
	case KindVerdict:
		return fmt.Sprintf("%s %s %s → %s", ruleOf(e), e.Edge, word(w.verdicts, e.From), word(w.verdicts, e.To))
	}
	return strings.TrimSpace(strings.Join(slices.DeleteFunc([]string{e.Code, e.Message}, func(s string) bool { return s == "" }), ": "))
}

func word(of map[string]string, s string) string {
	if v, ok := of[s]; ok {
		return v
	}
	return s
}

func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// seconds writes a time as people read it: 12 ms, 4.2 s.
func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", s*1000)
	}
	return fmt.Sprintf("%.1f s", s)
}

package steertest

import "strings"

// beginLine reads "begin TIME".
func (p *parser) beginLine(n int, args []string) {
	switch {
	case p.beginAt > 0:
		p.fail(n, CodeSyntax, "a second begin line; line %d has the first", p.beginAt)
		return
	case p.begun:
		p.fail(n, CodeSyntax, "the begin line comes after an event; put it before the first")
		return
	}
	p.beginAt = n
	if p.arity(n, args, 1, "begin TIME") {
		p.time(n, args[0], &p.tl.Begin)
	}
}

// ofRule reads "WORD TIME SERVICE/RULE", or where it may with a service alone.
func (p *parser) ofRule(st *Statement, kind Kind, f []string, services bool) bool {
	st.Kind = kind
	form := f[0] + " TIME SERVICE/RULE"
	if services {
		form = f[0] + " TIME SERVICE[/RULE]"
	}
	if !p.arity(st.Line, f[1:], 2, form) {
		return false
	}
	good := p.instant(st.Line, f[1], &st.At)
	if services && isName(f[2]) {
		st.Rule = f[2]
		return good
	}
	return p.rule(st.Line, f[2], &st.Rule) && good
}

// drain reads "drain TIME SERVICE/EDGE" and "undrain TIME SERVICE/EDGE".
func (p *parser) drain(st *Statement, kind Kind, f []string) bool {
	st.Kind = kind
	if !p.arity(st.Line, f[1:], 2, f[0]+" TIME SERVICE/EDGE") {
		return false
	}
	good := p.instant(st.Line, f[1], &st.At)
	service, edge, both := strings.Cut(f[2], "/")
	if !both || !isName(service) || !isName(edge) {
		p.fail(st.Line, CodeSyntax, "edge %q: write SERVICE/EDGE", f[2])
		return false
	}
	st.Edge = f[2]
	return good
}

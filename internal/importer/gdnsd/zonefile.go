package gdnsd

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
)

// zoneReader reads the files of one zone (gdnsd.zonefile(5)).
type zoneReader struct {
	c    *converter
	zone *importer.Zone
	name string // of the zone, with the last dot
}

// fileState is what directives change inside of one file.
type fileState struct {
	node   *tree.Node
	open   []string // names of the files being read
	origin string   // with the last dot
	first  string   // origin at the start of the file: @F
	ttl    int
	owner  string
}

// token is a word of a zone file. Quoted ones keep their quotes in text.
type token struct {
	text   string
	quoted bool
}

// entry is a directive or a record: a line, or several in parentheses.
type entry struct {
	tokens []token
	blank  bool // it begins with a blank: the owner of the entry before
	node   *tree.Node
}

// read reads a file from its text. Every entry becomes a node of st.node.
func (z *zoneReader) read(data []byte, st *fileState) error {
	entries, err := split(data, st.node, &z.c.budget)
	if err != nil {
		return err
	}
	for i := range entries {
		if err := z.entry(&entries[i], st); err != nil {
			return err
		}
	}
	return nil
}

// split divides a file into entries.
func split(data []byte, file *tree.Node, budget *tree.Budget) ([]entry, error) {
	s := &splitter{data: data, file: file, line: 1, budget: budget}
	for s.pos < len(s.data) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	if s.depth > 0 {
		return nil, &tree.Problem{File: file.File, Line: s.began, Text: "has a ( without its )"}
	}
	return s.out, s.end()
}

type splitter struct {
	data   []byte
	file   *tree.Node
	budget *tree.Budget
	pos    int
	line   int
	began  int // line the entry begins on
	depth  int // of parentheses
	now    entry
	out    []entry
}

func (s *splitter) step() error {
	c := s.data[s.pos]
	switch c {
	case '\n':
		s.line++
		s.pos++
		if s.depth == 0 {
			return s.end()
		}
	case ' ', '\t', '\r':
		if len(s.now.tokens) == 0 && s.depth == 0 && c != '\r' && (s.pos == 0 || s.data[s.pos-1] == '\n') {
			s.now.blank = true
		}
		s.pos++
	case ';':
		for s.pos < len(s.data) && s.data[s.pos] != '\n' {
			s.pos++
		}
	case '(', ')':
		if s.depth += map[byte]int{'(': 1, ')': -1}[c]; s.depth < 0 || s.depth > 1 {
			return &tree.Problem{File: s.file.File, Line: s.line, Text: "has a " + string(c) + " that does not belong there"}
		}
		if len(s.now.tokens) == 0 {
			s.began = s.line
		}
		s.pos++
	default:
		return s.word()
	}
	return nil
}

// word reads a token.
func (s *splitter) word() error {
	if len(s.now.tokens) == 0 && s.depth == 0 {
		s.began = s.line
	}
	start, quoted := s.pos, s.data[s.pos] == '"'
	if quoted {
		s.pos++
	}
	for ; s.pos < len(s.data); s.pos++ {
		c := s.data[s.pos]
		switch {
		case c == '\\':
			s.pos++
		case c == '\n' && quoted:
			return &tree.Problem{File: s.file.File, Line: s.line, Text: "has a \" without its end on the line"}
		case quoted && c == '"':
			s.pos++
			s.now.tokens = append(s.now.tokens, token{string(s.data[start:s.pos]), true})
			return nil
		case !quoted && strings.IndexByte(" \t\r\n;()\"", c) >= 0:
			s.now.tokens = append(s.now.tokens, token{string(s.data[start:s.pos]), false})
			return nil
		}
	}
	s.pos = min(s.pos, len(s.data))
	if quoted {
		return &tree.Problem{File: s.file.File, Line: s.line, Text: "has a \" without its end"}
	}
	s.now.tokens = append(s.now.tokens, token{string(s.data[start:s.pos]), false})
	return nil
}

func (s *splitter) end() error {
	if len(s.now.tokens) > 0 {
		if err := s.budget.Take(s.file.File, s.began, 0); err != nil {
			return err
		}
		var words []string
		for _, t := range s.now.tokens {
			words = append(words, t.text)
		}
		s.now.node = s.file.Add(&tree.Node{File: s.file.File, Line: s.began, Text: strings.Join(words, " ")})
		s.out = append(s.out, s.now)
	}
	s.now = entry{}
	return nil
}

func (z *zoneReader) entry(e *entry, st *fileState) error {
	first := e.tokens[0]
	if !first.quoted && strings.HasPrefix(first.text, "$") {
		return z.directive(e, st)
	}
	words := e.tokens
	if !e.blank {
		st.owner = z.full(words[0].text, st)
		words = words[1:]
	}
	if st.owner == "" {
		z.c.b.Lost(e.node, "a record without a name before it: "+e.node.String(), "left out", "")
		return nil
	}
	ttl := ""
	for len(words) > 0 && (isTTL(words[0].text) || strings.EqualFold(words[0].text, "IN")) {
		if isTTL(words[0].text) {
			ttl = words[0].text
		}
		words = words[1:]
	}
	if len(words) == 0 {
		z.c.b.Lost(e.node, "a record without a type: "+e.node.String(), "left out", "")
		return nil
	}
	kind := strings.ToUpper(words[0].text)
	if kind == "DYNA" || kind == "DYNC" {
		z.dynamic(e, st, ttl, words[1:])
		return nil
	}
	z.plain(e, st, ttl, words)
	return nil
}

// isTTL is true for 600, 1h30m and DYNA's 600/10.
func isTTL(s string) bool {
	return s != "" && s[0] >= '0' && s[0] <= '9' && strings.Trim(s, "0123456789smhdwSMHDW/") == ""
}

// seconds reads 600 or 1h30m; ok is false for anything else.
func seconds(s string) (n int, ok bool) {
	part := ""
	for _, r := range strings.ToLower(s) {
		unit := map[rune]int{'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}[r]
		if unit == 0 {
			part += string(r)
			continue
		}
		v, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return 0, false
		}
		n, part = n+int(v)*unit, ""
	}
	if part != "" {
		v, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return 0, false
		}
		n += int(v)
	}
	return n, s != "" && n <= math.MaxInt32
}

// full gives the full name of a word, with the last dot: @, @Z and @F included.
func (z *zoneReader) full(word string, st *fileState) string {
	switch {
	case word == "@":
		return st.origin
	case word == "@Z":
		return z.name
	case word == "@F":
		return st.first
	case strings.HasSuffix(word, ".@Z"):
		return strings.TrimSuffix(word, "@Z") + z.name
	case strings.HasSuffix(word, ".@F"):
		return strings.TrimSuffix(word, "@F") + st.first
	case strings.HasSuffix(word, "."):
		return word
	}
	return word + "." + st.origin
}

func (z *zoneReader) directive(e *entry, st *fileState) error {
	word := strings.ToUpper(e.tokens[0].text)
	args := e.tokens[1:]
	switch {
	case word == "$TTL" && len(args) == 1:
		if v, ok := seconds(args[0].text); ok {
			st.ttl = v
			e.node.Use()
			return nil
		}
	case word == "$ORIGIN" && len(args) == 1:
		st.origin = z.full(args[0].text, st)
		e.node.Use()
		return nil
	case word == "$INCLUDE" && (len(args) == 1 || len(args) == 2):
		e.node.Use()
		return z.include(e, st, args)
	}
	z.c.b.Lost(e.node, "directive "+e.node.String(), "left out", "write its records by hand")
	return nil
}

func (z *zoneReader) include(e *entry, st *fileState, args []token) error {
	name := strings.Trim(args[0].text, `"`)
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(st.open[len(st.open)-1]), name)
	}
	if slices.Contains(st.open, name) || len(st.open) >= maxIncludes {
		return &tree.Problem{File: e.node.File, Line: e.node.Line, Text: "includes " + name + " in a circle, or more than " + strconv.Itoa(maxIncludes) + " files deep"}
	}
	data, err := z.c.files.read(name, place{e.node.File, e.node.Line})
	if err != nil {
		return err
	}
	origin := st.origin
	if len(args) == 2 {
		origin = z.full(args[1].text, st)
	}
	in := z.c.file(name)
	return z.read(data, &fileState{node: in, open: append(slices.Clone(st.open), name), origin: origin, first: origin, ttl: st.ttl, owner: st.owner})
}

// plain hands a record to the zone parser.
func (z *zoneReader) plain(e *entry, st *fileState, ttl string, words []token) {
	seconds, ok := seconds(ttl)
	if !ok {
		seconds = st.ttl
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d IN %s", st.owner, seconds, words[0].text)
	for _, w := range words[1:] {
		text := w.text
		if !w.quoted && (strings.HasSuffix(text, "@Z") || strings.HasSuffix(text, "@F")) {
			text = z.full(text, st)
		}
		b.WriteString(" " + text)
	}
	b.WriteString("\n")
	p := dns.NewZoneParser(strings.NewReader(b.String()), st.origin, "")
	rr, _ := p.Next()
	if err := p.Err(); err != nil || rr == nil {
		z.c.b.Lost(e.node, "record "+e.node.String(), "left out: it is not well formed", "")
		return
	}
	h := rr.Header()
	if soa, isSOA := rr.(*dns.SOA); isSOA {
		z.zone.SOA(soa.Ns, soa.Mbox, int(soa.Refresh), int(soa.Retry), int(soa.Expire), int(soa.Minttl), e.node)
		return
	}
	kind := dns.Type(h.Rrtype).String()
	if !slices.Contains(importer.Types(), kind) {
		z.c.b.Lost(e.node, "record "+e.node.String(), "left out: a Zone holds no "+kind+" records", "serve it from another name server, or leave this zone there")
		return
	}
	z.zone.Record(h.Name, kind, int(h.Ttl), strings.TrimPrefix(rr.String(), h.String()), e.node)
}

// dynamic makes a service of a DYNA or DYNC record.
func (z *zoneReader) dynamic(e *entry, st *fileState, ttl string, words []token) {
	if len(words) != 1 {
		z.c.b.Lost(e.node, "record "+e.node.String(), "left out: it names no single resource", "")
		return
	}
	longest, shortest, given := strings.Cut(ttl, "/")
	top, ok := seconds(longest)
	if !ok {
		top = st.ttl
	}
	low, ok := seconds(shortest)
	if !given || !ok {
		low = (top + 1) / 2 // as gdnsd does
	}
	z.c.wanted = append(z.c.wanted, wanted{node: e.node, zone: z.zone, name: strings.ToLower(strings.TrimSuffix(st.owner, ".")), ttl: top, low: low, resource: words[0].text})
}

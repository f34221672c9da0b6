package gdnsd

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/master"
	"steerpoint/internal/importer/tree"
	"steerpoint/internal/rrdata"
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

// read reads a file from its text. Every entry becomes a node of st.node.
func (z *zoneReader) read(data []byte, st *fileState) error {
	entries, err := master.Split(data, st.node, &z.c.budget)
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

func (z *zoneReader) entry(e *master.Entry, st *fileState) error {
	first := e.Tokens[0]
	if !first.Quoted && strings.HasPrefix(first.Text, "$") {
		return z.directive(e, st)
	}
	words := e.Tokens
	if !e.Blank {
		st.owner = z.full(words[0].Text, st)
		words = words[1:]
	}
	if st.owner == "" {
		z.c.b.Lost(e.Node, "a record without a name before it: "+e.Node.String(), "left out", "")
		return nil
	}
	ttl := ""
	for len(words) > 0 && (isTTL(words[0].Text) || strings.EqualFold(words[0].Text, "IN")) {
		if isTTL(words[0].Text) {
			ttl = words[0].Text
		}
		words = words[1:]
	}
	if len(words) == 0 {
		z.c.b.Lost(e.Node, "a record without a type: "+e.Node.String(), "left out", "")
		return nil
	}
	kind := strings.ToUpper(words[0].Text)
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

func (z *zoneReader) directive(e *master.Entry, st *fileState) error {
	word := strings.ToUpper(e.Tokens[0].Text)
	args := e.Tokens[1:]
	switch {
	case word == "$TTL" && len(args) == 1:
		if v, ok := master.Seconds(args[0].Text); ok {
			st.ttl = v
			e.Node.Use()
			return nil
		}
	case word == "$ORIGIN" && len(args) == 1:
		st.origin = z.full(args[0].Text, st)
		e.Node.Use()
		return nil
	case word == "$INCLUDE" && (len(args) == 1 || len(args) == 2):
		e.Node.Use()
		return z.include(e, st, args)
	}
	z.c.b.Lost(e.Node, "directive "+e.Node.String(), "left out", "write its records by hand")
	return nil
}

func (z *zoneReader) include(e *master.Entry, st *fileState, args []master.Token) error {
	name := strings.Trim(args[0].Text, `"`)
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(st.open[len(st.open)-1]), name)
	}
	if slices.Contains(st.open, name) || len(st.open) >= maxIncludes {
		return &tree.Problem{File: e.Node.File, Line: e.Node.Line, Text: "includes " + name + " in a circle, or more than " + strconv.Itoa(maxIncludes) + " files deep"}
	}
	data, err := z.c.files.read(name, place{e.Node.File, e.Node.Line})
	if err != nil {
		return err
	}
	origin := st.origin
	if len(args) == 2 {
		origin = z.full(args[1].Text, st)
	}
	in := z.c.file(name)
	return z.read(data, &fileState{node: in, open: append(slices.Clone(st.open), name), origin: origin, first: origin, ttl: st.ttl, owner: st.owner})
}

// plain hands a record to the zone parser.
func (z *zoneReader) plain(e *master.Entry, st *fileState, ttl string, words []master.Token) {
	seconds, ok := master.Seconds(ttl)
	if !ok {
		seconds = st.ttl
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d IN %s", st.owner, seconds, words[0].Text)
	for _, w := range words[1:] {
		text := w.Text
		if !w.Quoted && (strings.HasSuffix(text, "@Z") || strings.HasSuffix(text, "@F")) {
			text = z.full(text, st)
		}
		b.WriteString(" " + text)
	}
	b.WriteString("\n")
	p := dns.NewZoneParser(strings.NewReader(b.String()), st.origin, "")
	rr, _ := p.Next()
	if err := p.Err(); err != nil || rr == nil {
		z.c.b.Lost(e.Node, "record "+e.Node.String(), "left out: it is not well formed", "")
		return
	}
	h := rr.Header()
	if soa, isSOA := rr.(*dns.SOA); isSOA {
		z.zone.SOA(soa.Ns, soa.Mbox, int(soa.Refresh), int(soa.Retry), int(soa.Expire), int(soa.Minttl), e.Node)
		return
	}
	kind := dns.Type(h.Rrtype).String()
	z.zone.Record(h.Name, kind, int(h.Ttl), rrdata.Text(rr), e.Node)
}

// dynamic makes a service of a DYNA or DYNC record.
func (z *zoneReader) dynamic(e *master.Entry, st *fileState, ttl string, words []master.Token) {
	if len(words) != 1 {
		z.c.b.Lost(e.Node, "record "+e.Node.String(), "left out: it names no single resource", "")
		return
	}
	longest, shortest, given := strings.Cut(ttl, "/")
	top, ok := master.Seconds(longest)
	if !ok {
		top = st.ttl
	}
	low, ok := master.Seconds(shortest)
	if !given || !ok {
		low = (top + 1) / 2 // as gdnsd does
	}
	z.c.wanted = append(z.c.wanted, wanted{node: e.Node, zone: z.zone, name: strings.ToLower(strings.TrimSuffix(st.owner, ".")), ttl: top, low: low, resource: words[0].Text})
}

// Package zonefile imports zone files (RFC 1035 section 5), as BIND, NSD, Knot and PowerDNS read them, with the directives
// $ORIGIN, $TTL and $GENERATE.
package zonefile

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/master"
	"steerpoint/internal/importer/tree"
	"steerpoint/internal/rrdata"
)

// Import reads one zone file; "-" is in. The zone is that of the options, or that of the SOA record.
func Import(path string, in io.Reader, o importer.Options) (*importer.Result, error) {
	name, data, err := importer.ReadFile(path, in)
	if err != nil {
		return nil, err
	}
	r := &reader{b: importer.New(o), file: &tree.Node{Kind: tree.List, File: name, Line: 1}, defaultTTL: -1, lastTTL: -1}
	r.b.Root(r.file)
	var budget tree.Budget
	if r.entries, err = master.Split(data, r.file, &budget); err != nil {
		return nil, err
	}
	if err := r.begin(o.Zone); err != nil {
		return nil, err
	}
	for i := range r.entries {
		if err := r.entry(&r.entries[i]); err != nil {
			return nil, err
		}
	}
	return r.b.Finish()
}

// reader is what directives and records change on the way through the file.
type reader struct {
	b       *importer.Builder
	file    *tree.Node
	entries []master.Entry
	zone    *importer.Zone

	origin, owner       string // with their last dots; "": not known
	defaultTTL, lastTTL int    // seconds; -1: not known
}

// begin finds the name of the zone: the one given, or that of the SOA record with the $ORIGIN before it, or that of the file.
func (r *reader) begin(given string) error {
	zone, origin := given, ""
	for i := range r.entries {
		e := &r.entries[i]
		if directive(e, "$ORIGIN") && len(e.Tokens) == 2 && strings.HasSuffix(e.Tokens[1].Text, ".") && origin == "" {
			origin = e.Tokens[1].Text
		}
		if zone != "" || !isSOA(e) || e.Blank {
			continue
		}
		switch owner := e.Tokens[0].Text; {
		case strings.HasSuffix(owner, "."):
			zone = owner
		case owner == "@" && origin != "":
			zone = origin
		}
	}
	if zone == "" {
		zone = ofFile(r.file.File)
	}
	made, err := r.b.Zone(strings.TrimSuffix(zone, "."), r.file)
	if err != nil {
		return &tree.Problem{File: r.file.File, Line: 1, Text: fmt.Sprintf("does not say which zone it is of, and %q %v: give it with --zone", zone, err)}
	}
	made.Static()
	r.zone, r.origin = made, made.Name()+"."
	return nil
}

// ofFile is the zone that a file is named after: db.example.com, example.com.zone, example.com.
func ofFile(file string) string {
	base := strings.TrimPrefix(filepath.Base(file), "db.")
	for _, ext := range []string{".zone", ".db", ".txt"} {
		base = strings.TrimSuffix(base, ext)
	}
	return base
}

func directive(e *master.Entry, word string) bool {
	return !e.Tokens[0].Quoted && strings.EqualFold(e.Tokens[0].Text, word)
}

func isSOA(e *master.Entry) bool {
	for _, t := range e.Tokens[:min(len(e.Tokens), 4)] {
		if strings.EqualFold(t.Text, "SOA") && !t.Quoted {
			return true
		}
	}
	return false
}

func (r *reader) entry(e *master.Entry) error {
	if first := e.Tokens[0]; !first.Quoted && strings.HasPrefix(first.Text, "$") {
		return r.directive(e)
	}
	words := e.Tokens
	if !e.Blank {
		r.owner = r.full(words[0].Text)
		words = words[1:]
	}
	if r.owner == "" {
		r.b.Lost(e.Node, "a record without a name before it: "+e.Node.String(), "left out", "")
		return nil
	}
	ttl := -1
	for len(words) > 0 {
		if n, ok := master.Seconds(words[0].Text); ok && words[0].Text[0] >= '0' && words[0].Text[0] <= '9' {
			ttl = n
		} else if _, class := dns.StringToClass[strings.ToUpper(words[0].Text)]; !class {
			break
		} else if !strings.EqualFold(words[0].Text, "IN") {
			r.b.Lost(e.Node, "record "+e.Node.String(), "left out: it is of another class than IN", "")
			return nil
		}
		words = words[1:]
	}
	if len(words) == 0 {
		r.b.Lost(e.Node, "a record without a type: "+e.Node.String(), "left out", "")
		return nil
	}
	r.record(e, r.ttl(ttl, words), words)
	return nil
}

// ttl is what a record without one has: that of $TTL, or of the record before (RFC 1035 section 5.1), or the minimum of the SOA
// (RFC 2308 section 4).
func (r *reader) ttl(given int, words []master.Token) int {
	switch {
	case given >= 0:
		r.lastTTL = given
		return given
	case r.defaultTTL >= 0:
		return r.defaultTTL
	case r.lastTTL >= 0:
		return r.lastTTL
	case strings.EqualFold(words[0].Text, "SOA"):
		if n, ok := master.Seconds(words[len(words)-1].Text); ok {
			r.lastTTL = n
			return n
		}
	}
	return noTTL
}

// noTTL is for a file that says nothing at all.
const noTTL = 300

func (r *reader) full(word string) string {
	switch {
	case word == "@":
		return r.origin
	case strings.HasSuffix(word, "."):
		return word
	case r.origin == ".":
		return word + "."
	}
	return word + "." + r.origin
}

func (r *reader) directive(e *master.Entry) error {
	args := e.Tokens[1:]
	switch {
	case directive(e, "$TTL") && len(args) == 1:
		if n, ok := master.Seconds(args[0].Text); ok {
			r.defaultTTL = n
			e.Node.Use()
			return nil
		}
	case directive(e, "$ORIGIN") && len(args) == 1:
		r.origin = r.full(args[0].Text)
		e.Node.Use()
		return nil
	case directive(e, "$INCLUDE"):
		return &tree.Problem{
			File: e.Node.File, Line: e.Node.Line,
			Text: "includes another file, which is not followed: put everything into one file first (named-compilezone -o does)",
		}
	case directive(e, "$GENERATE") && len(args) >= 3:
		r.generate(e, args)
		return nil
	}
	r.b.Lost(e.Node, "directive "+e.Node.String(), "left out", "write its records by hand")
	return nil
}

// generate writes out a $GENERATE of BIND.
func (r *reader) generate(e *master.Entry, args []master.Token) {
	ttl := r.ttl(-1, args)
	first := args[2].Text
	if _, class := dns.StringToClass[strings.ToUpper(first)]; class {
		first = args[min(3, len(args)-1)].Text
	}
	_, given := master.Seconds(first)
	p := dns.NewZoneParser(strings.NewReader("$TTL "+strconv.Itoa(ttl)+"\n$GENERATE "+join(args)+"\n"), r.origin, "")
	var made []dns.RR
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		made = append(made, rr)
	}
	if err := p.Err(); err != nil || len(made) == 0 {
		r.b.Lost(e.Node, "directive "+e.Node.String(), "left out: it makes no records", "write its records by hand")
		return
	}
	for _, rr := range made {
		if !given {
			rr.Header().Ttl = uint32(ttl)
		}
		r.add(e, rr)
	}
}

func join(words []master.Token) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.Text)
	}
	return b.String()
}

func (r *reader) record(e *master.Entry, ttl int, words []master.Token) {
	text := r.owner + " " + strconv.Itoa(ttl) + " IN " + join(words) + "\n"
	p := dns.NewZoneParser(strings.NewReader(text), r.origin, "")
	rr, _ := p.Next()
	if p.Err() != nil || rr == nil {
		r.b.Lost(e.Node, "record "+e.Node.String(), "left out: it is not well formed", "")
		return
	}
	r.add(e, rr)
}

func (r *reader) add(e *master.Entry, rr dns.RR) {
	h := rr.Header()
	if soa, ok := rr.(*dns.SOA); ok {
		r.zone.SOA(soa.Ns, soa.Mbox, int(soa.Refresh), int(soa.Retry), int(soa.Expire), int(soa.Minttl), e.Node)
		return
	}
	r.zone.Record(h.Name, dns.Type(h.Rrtype).String(), int(h.Ttl), rrdata.Text(rr), e.Node)
}

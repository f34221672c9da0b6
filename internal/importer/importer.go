// Package importer turns the configuration of other steering systems into resources of ours, with a list of everything
// that could not be said the same way. The packages below it read one format each; none of them skips anything silently.
package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// ErrInvalid says that what was made is not valid: a mistake of the import, not of its input.
var ErrInvalid = errors.New("the import made resources that are not valid")

// Note is one entry of the list of losses.
type Note struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 0: the format has no lines
	// Lost says that nothing stands for it in the result; otherwise something close to it does.
	Lost    bool   `json:"lost"`
	What    string `json:"what"`             // what it was
	Instead string `json:"instead"`          // what was done instead
	Todo    string `json:"byHand,omitempty"` // what to do by hand; "" when nothing is needed
}

// String is FILE:LINE: lost|changed: WHAT; instead: INSTEAD; by hand: WORK.
func (n Note) String() string {
	var b strings.Builder
	b.WriteString(n.File + ":")
	if n.Line > 0 {
		fmt.Fprintf(&b, "%d:", n.Line)
	}
	b.WriteString(map[bool]string{true: " lost: ", false: " changed: "}[n.Lost] + n.What + "; instead: " + n.Instead)
	if n.Todo != "" {
		b.WriteString("; by hand: " + n.Todo)
	}
	return b.String()
}

// Doc is one resource that was made.
type Doc struct {
	Resource spec.Resource
	YAML     []byte // with a comment that says where it comes from
}

// File is the name of the resource's file: service-shop.yaml.
func (d *Doc) File() string {
	return strings.ToLower(string(d.Resource.Kind)) + "-" + d.Resource.Name + ".yaml"
}

// Result is what an import made.
type Result struct {
	Docs  []Doc
	Notes []Note // by file and line
	// Translated and Listed count the values of the input by what became of them: there are no others.
	Translated, Listed int
}

// Options are what every import may be told.
type Options struct {
	// Zone is the name of the zone, where the input does not say it.
	Zone string
	// NS are the name servers of every zone made, in place of those of the input.
	NS []NS
}

// NS is a name server with its addresses, which may be none where the name lies outside the zone.
type NS struct {
	Name      spec.HostName
	Addresses []spec.Address
}

// ParseNS reads NAME or NAME=ADDRESS,ADDRESS.
func ParseNS(text string) (NS, error) {
	name, list, with := strings.Cut(text, "=")
	var ns NS
	if err := ns.Name.UnmarshalText([]byte(name)); err != nil {
		return ns, fmt.Errorf("name server %q: %w", name, err)
	}
	if !with {
		return ns, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		var a spec.Address
		if err := a.UnmarshalText([]byte(part)); err != nil {
			return ns, fmt.Errorf("address %q of name server %s: %w", part, name, err)
		}
		ns.Addresses = append(ns.Addresses, a)
	}
	return ns, nil
}

// ReadFile reads a file of at most tree.MaxBytes; "-" is in, and its name is then stdin.
func ReadFile(path string, in io.Reader) (name string, data []byte, err error) {
	name = path
	if path == "-" {
		name = "stdin"
	} else {
		st, err := os.Stat(path)
		if err != nil {
			return name, nil, err
		}
		if !st.Mode().IsRegular() {
			return name, nil, fmt.Errorf("%s is no regular file", path)
		}
		f, err := os.Open(path)
		if err != nil {
			return name, nil, err
		}
		defer f.Close()
		in = f
	}
	data, err = io.ReadAll(io.LimitReader(in, tree.MaxBytes+1))
	if err == nil && len(data) > tree.MaxBytes {
		err = &tree.Problem{File: name, Line: 1, Text: fmt.Sprintf("is larger than %d MiB", tree.MaxBytes>>20), Err: tree.ErrTooLarge}
	}
	return name, data, err
}

// Builder collects what an import makes. Format packages fill it and call Finish once.
type Builder struct {
	options  Options
	plain    defaults
	most     int // record sets of a Zone
	roots    []*tree.Node
	notes    []Note
	zones    []*Zone
	services []*Service
}

// New makes a builder.
func New(o Options) *Builder { return &Builder{options: o, plain: readDefaults(), most: maxRecords} }

// Root takes a file that was read: Finish lists what nobody used of it.
func (b *Builder) Root(n *tree.Node) { b.roots = append(b.roots, n) }

// Lost lists a value that nothing stands for in the result.
func (b *Builder) Lost(n *tree.Node, what, instead, todo string) {
	b.note(n, true, what, instead, todo)
}

// Changed lists a value that something close to it stands for.
func (b *Builder) Changed(n *tree.Node, what, instead, todo string) {
	b.note(n, false, what, instead, todo)
}

// Remark lists that something works a little differently here; the value itself counts as translated.
func (b *Builder) Remark(n *tree.Node, what, instead, todo string) {
	b.add(n, Note{What: what, Instead: instead, Todo: todo})
}

func (b *Builder) note(n *tree.Node, lost bool, what, instead, todo string) {
	n.MarkListed()
	b.add(n, Note{Lost: lost, What: what, Instead: instead, Todo: todo})
}

// add keeps a note, in a form that is safe on a terminal: the input may hold anything.
func (b *Builder) add(n *tree.Node, note Note) {
	if n != nil {
		note.File, note.Line = n.File, n.Line
	}
	for _, s := range []*string{&note.File, &note.What, &note.Instead, &note.Todo} {
		*s = printable(*s)
	}
	b.notes = append(b.notes, note)
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// Sorry is the note of a value nothing more is known of: its path and text, and that it was left out.
func (b *Builder) Sorry(n *tree.Node, todo string) {
	b.Lost(n, strings.TrimSpace(n.Path()+" "+n.String()), "left out", todo)
}

// Finish puts everything together, checks it as `steer plan` does, and lists what was not used. The error wraps
// ErrInvalid when the result is not valid.
func (b *Builder) Finish() (*Result, error) {
	b.join()
	r := &Result{}
	for _, s := range b.services {
		if err := r.add(s.resource(), s.at); err != nil {
			return nil, err
		}
	}
	for _, z := range b.zones {
		if err := r.add(z.resource(), z.at); err != nil {
			return nil, err
		}
	}
	for _, n := range b.roots {
		n.Rest(func(rest *tree.Node) { b.Sorry(rest, "see whether it matters to you; there is no field for it") })
	}
	for _, n := range b.roots {
		translated, listed, _ := n.Count()
		r.Translated += translated
		r.Listed += listed
	}
	slices.SortStableFunc(b.notes, func(x, y Note) int {
		return cmp.Or(strings.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line))
	})
	seen := map[Note]bool{}
	for _, n := range b.notes { // a resource that is used twice has its notes twice
		if !seen[n] {
			seen[n] = true
			r.Notes = append(r.Notes, n)
		}
	}
	return r, r.check()
}

func (r *Result) add(res spec.Resource, at *tree.Node) error {
	y, err := res.YAML(spec.Minimal)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if at != nil {
		y = append([]byte(fmt.Sprintf("# from %s:%d\n", printable(at.File), at.Line)), y...)
	}
	r.Docs = append(r.Docs, Doc{res, y})
	return nil
}

// check reads back what was made, alone and together.
func (r *Result) check() error {
	var all []spec.Resource
	var errs spec.Errors
	for i := range r.Docs {
		docs, bad := spec.Parse(r.Docs[i].File(), r.Docs[i].YAML)
		all, errs = append(all, docs...), append(errs, bad...)
	}
	bad, _ := spec.NewSet(all).Check(spec.Complete)
	if errs = append(errs, bad...); len(errs) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, errs)
	}
	return nil
}

// Write writes every document, divided by ---.
func (r *Result) Write(w io.Writer) error {
	var b bytes.Buffer
	for i := range r.Docs {
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(r.Docs[i].YAML)
	}
	_, err := w.Write(b.Bytes())
	return err
}

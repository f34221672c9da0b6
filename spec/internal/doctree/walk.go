package doctree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxProblems keeps a hostile document from answering with a report larger than itself.
const maxProblems = 100

// walker moves a tree's lines to those of the file and finds what no document may hold.
type walker struct {
	offset   int
	problems []Problem
}

func (w *walker) add(n *yaml.Node, code, text, hint string) {
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, Problem{Code: code, Line: n.Line, Column: n.Column, Text: text, Hint: hint})
	}
}

func (w *walker) node(n *yaml.Node, depth int) {
	n.Line += w.offset
	switch {
	case depth > MaxDepth:
		w.add(n, CodeTooDeep, "the document is nested too deeply", fmt.Sprintf("at most %d levels", MaxDepth))
		return
	case n.Kind == yaml.AliasNode:
		w.add(n, CodeAlias, "an alias (*) stands here", "write the value out, quoted if it begins with *; anchors and aliases are not accepted")
		return
	case n.Anchor != "":
		w.add(n, CodeAlias, "an anchor (&) stands here", "write the values out, quoted if one begins with &; anchors and aliases are not accepted")
	case n.Style&yaml.TaggedStyle != 0:
		w.add(n, CodeTag, "a tag (!) stands here", "leave it out; quote a value that must be text, or begins with !")
	case n.Kind == yaml.ScalarNode && len(n.Value) > MaxScalar:
		w.add(n, CodeLongText, fmt.Sprintf("one text has %d bytes", len(n.Value)), fmt.Sprintf("at most %d", MaxScalar))
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			w.key(c)
		}
		w.node(c, depth+1)
	}
}

// key refuses keys that are not plain text. It runs before the key's own line is moved.
func (w *walker) key(k *yaml.Node) {
	at := *k
	at.Line += w.offset
	switch {
	case k.Kind == yaml.ScalarNode && k.Tag == "!!merge":
		w.add(&at, CodeMergeKey, "<< is a merge key", "write the fields out; merge keys are not accepted")
	case k.Kind == yaml.MappingNode || k.Kind == yaml.SequenceNode:
		w.add(&at, CodeBadKey, "a field name is a list or a map", "field names are plain words; a value that starts with { or [ may need quotes")
	case k.Kind == yaml.ScalarNode && k.Tag == "!!null":
		w.add(&at, CodeBadKey, "a field has no name", "write NAME: VALUE")
	}
}

// parserLine is "line N: text". The parser counts its own errors from 0 and the scanner's from 1.
var parserLine = regexp.MustCompile(`^line (\d+): (.*)$`)

// explained gives the parser's messages in words that say what to look for.
var explained = []struct{ parser, text, hint string }{
	{"max depth", "the document is nested too deeply", fmt.Sprintf("at most %d levels", MaxDepth)},
	{"unknown anchor", "an alias (*) stands here", "write the value out, quoted if it begins with *; anchors and aliases are not accepted"},
	{"did not find expected key", `the map that starts here or above holds a line that is not "field: value"`, "check the indentation of the lines below"},
	{"'-' indicator", `the list that starts here or above holds a line that is not "- entry"`, "check the indentation of the lines below"},
	{"',' or ']'", "the list that opens here or above with [ lacks a comma or its ]", "[a, b]"},
	{"',' or '}'", "the map that opens here or above with { lacks a comma or its }", "{a: 1, b: 2}"},
	{"could not find expected ':'", "a field name here is not followed by a colon", "field: value"},
	{"unexpected end of stream", "a quote that opens here is not closed", "the same quote at the end of the text"},
	{"mapping values are not allowed", "a second colon stands in this line, or the line is indented too far", `quotes around a value that holds ": "`},
	{"block sequence entries", "a list entry stands where none can", "the - on a line of its own, below its field"},
	{"cannot start any token", "a value starts with a character that means something else in YAML", "quotes around a value that starts with @, ` or %"},
}

// syntax turns the parser's error into a problem with the file's line. The end of the stream is none.
func (c chunk) syntax(err error) (Problem, bool) {
	if errors.Is(err, io.EOF) {
		return Problem{}, false
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{Code: CodeSyntax, Line: c.line + 1, Column: 1, Text: text, Hint: "check indentation, quotes and brackets near this line"}
	if m := parserLine.FindStringSubmatch(text); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			p.Line, p.Text = c.line+n, m[2]
		}
		if strings.HasPrefix(p.Text, "did not find expected") {
			p.Line++
		}
	}
	if line, ok := c.tabbed(p.Line - c.line); ok && strings.Contains(p.Text, "cannot start any token") {
		p.Line, p.Text, p.Hint = c.line+line, "a tab indents this line", "indent with spaces; YAML allows no tabs there"
		return p, true
	}
	switch {
	case strings.Contains(p.Text, "max depth"):
		p.Code = CodeTooDeep
	case strings.Contains(p.Text, "unknown anchor"):
		p.Code = CodeAlias
		if name := strings.Split(p.Text, "'"); len(name) > 1 { // the parser does not say where
			p.Line, p.Column = place(c.text, bytes.Index(c.text, []byte("*"+name[1])))
			p.Line += c.line
		}
	}
	for _, x := range explained {
		if strings.Contains(p.Text, x.parser) {
			if p.Hint = x.hint; x.text != "" {
				p.Text = x.text
			}
			break
		}
	}
	return p, true
}

// tabbed finds the line indented by a tab at or next to the line the parser stopped at, which may be one off.
func (c chunk) tabbed(near int) (line int, found bool) {
	lines := strings.Split(string(c.text), "\n")
	for _, n := range []int{near, near + 1, near - 1} {
		if n >= 1 && n <= len(lines) && strings.Contains(leading(lines[n-1]), "\t") {
			return n, true
		}
	}
	return 0, false
}

func leading(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " \t-"))] }

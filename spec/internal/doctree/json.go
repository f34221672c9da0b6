package doctree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// jsonReader builds the same tree from JSON as YAML gives. JSON has its own reader because YAML's knows no escaped
// surrogate pairs and counts tabs as errors.
type jsonReader struct {
	data []byte
	dec  *json.Decoder

	off, line, column int // the cursor of at
	depth             int
}

// readJSON reads one or more JSON values. ok is false when the text is not JSON; the problem then says why.
func readJSON(data []byte) (docs []*yaml.Node, problems []Problem, ok bool) {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1, column: 1}
	r.dec.UseNumber()
	for {
		n, err := r.value()
		switch {
		case errors.Is(err, io.EOF):
			return docs, problems, true
		case err != nil:
			return nil, []Problem{r.syntax(err)}, false
		}
		w := walker{}
		w.node(n, 1)
		problems = append(problems, w.problems...)
		if len(w.problems) == 0 {
			docs = append(docs, n)
		}
	}
}

func (r *jsonReader) syntax(err error) Problem {
	off := r.start() // not the error's own offset, which differs between versions of the JSON package
	text := err.Error()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		off, text = len(r.data), "the file ends inside a value"
	}
	line, col := place(r.data, max(off, 0))
	return Problem{Code: CodeSyntax, Line: line, Column: col, Text: text, Hint: "check brackets, commas and quotes"}
}

// start is the offset of the next token.
func (r *jsonReader) start() int {
	off := int(r.dec.InputOffset())
	for off < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[off]) >= 0 {
		off++
	}
	return off
}

// at gives line and column of an offset. Offsets only grow, so the cursor walks the file once.
func (r *jsonReader) at(off int) (line, column int) {
	for ; r.off < min(off, len(r.data)); r.off++ {
		switch b := r.data[r.off]; {
		case b == '\n':
			r.line, r.column = r.line+1, 1
		case b&0xc0 != 0x80: // not the inside of a character
			r.column++
		}
	}
	return r.line, r.column
}

var errTooDeep = errors.New("the document is nested too deeply")

// value reads one value. What is nested a little too deeply is left to the walker, which names the place.
func (r *jsonReader) value() (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	n.Line, n.Column = r.at(r.start())
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		return r.collection(n, t)
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(t)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

func (r *jsonReader) collection(n *yaml.Node, open json.Delim) (*yaml.Node, error) {
	n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	n.Style = yaml.FlowStyle
	for depth := r.depth; r.dec.More(); r.depth = depth {
		if r.depth++; r.depth > 2*MaxDepth {
			return nil, errTooDeep
		}
		c, err := r.value()
		if err != nil {
			return nil, inside(err)
		}
		n.Content = append(n.Content, c)
	}
	_, err := r.dec.Token() // the closing bracket
	return n, inside(err)
}

// inside is the error of a token within a value, where the end of the file is no clean one: a file that was cut short
// must not pass for an empty one.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Package doctree turns the bytes of a YAML or JSON file into document trees that are safe to walk.
//
// It bounds what a hostile file can cost (size, depth, number of values, length of one text) and refuses what makes
// a file mean something else than it shows: anchors, aliases, merge keys, tags, NUL bytes, text that is not UTF-8.
// It knows nothing of resources. It never panics, and it reports every problem with a line and a column.
package doctree

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of one file. They are far above what a person writes and low enough that a hostile file costs little.
const (
	MaxBytes  = 16 << 20 // a file; a zone of 100,000 records, or 400,000 lines of rules
	MaxDepth  = 32       // levels; the deepest field of a resource stands at 8
	MaxScalar = 64 << 10 // bytes of one text; the longest field is a body expectation
	// maxMarks bounds line ends, commas, colons and opening brackets of a file before it is parsed, because every
	// value costs about 200 bytes of tree.
	maxMarks = 1 << 20
)

// Stable codes of problems found here.
const (
	CodeTooLarge = "SPEC_TOO_LARGE"
	CodeNotUTF8  = "SPEC_NOT_UTF8"
	CodeNUL      = "SPEC_NUL"
	CodeSyntax   = "SPEC_SYNTAX"
	CodeTooDeep  = "SPEC_TOO_DEEP"
	CodeAlias    = "SPEC_ALIAS"
	CodeMergeKey = "SPEC_MERGE_KEY"
	CodeTag      = "SPEC_TAG"
	CodeLongText = "SPEC_TEXT_TOO_LONG"
	CodeControl  = "SPEC_CONTROL_CHARACTER"
	CodeBadKey   = "SPEC_BAD_KEY"
)

// Problem is one thing wrong with the text of a file. Line and Column start at 1; 0 means the whole file.
type Problem struct {
	Code         string
	Line, Column int
	Text         string // what is wrong
	Hint         string // what to do instead
}

// Read gives the documents of a file, empty ones left out, and every problem. A document with a problem is not
// returned; the others are. JSON is recognised by its first character and may be several documents too.
func Read(data []byte) (docs []*yaml.Node, problems []Problem) {
	if p, bad := refuse(data); bad {
		return nil, []Problem{p}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	braced := bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	if braced {
		if docs, problems, ok := readJSON(data); ok {
			return docs, problems
		}
	}
	for _, c := range split(data) {
		d, p := c.parse()
		docs, problems = append(docs, d...), append(problems, p...)
	}
	if braced && slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == CodeSyntax }) {
		_, problems, _ = readJSON(data) // neither YAML nor JSON: it starts like JSON
		return nil, problems
	}
	return docs, problems
}

// refuse finds what makes the whole file unreadable.
func refuse(data []byte) (Problem, bool) {
	if len(data) > MaxBytes {
		return Problem{Code: CodeTooLarge, Text: fmt.Sprintf("the file has %d bytes", len(data)), Hint: fmt.Sprintf("at most %d; split it", MaxBytes)}, true
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		line, col := place(data, i)
		return Problem{Code: CodeNUL, Line: line, Column: col, Text: "the file holds a NUL byte", Hint: "save it as UTF-8 text"}, true
	}
	if i := control(data); i >= 0 {
		line, col := place(data, i)
		return Problem{Code: CodeControl, Line: line, Column: col, Text: fmt.Sprintf("the file holds the control character 0x%02x", data[i]), Hint: "plain text"}, true
	}
	if !utf8.Valid(data) {
		i := firstInvalid(data)
		line, col := place(data, i)
		return Problem{Code: CodeNotUTF8, Line: line, Column: col, Text: fmt.Sprintf("byte 0x%02x is not UTF-8", data[i]), Hint: "save it as UTF-8 text"}, true
	}
	if marks(data) > maxMarks {
		return Problem{Code: CodeTooLarge, Text: "the file holds more than a million values", Hint: "split it"}, true
	}
	return Problem{}, false
}

// marks counts what may begin a value. Of ':', '-' and '?' only those that YAML takes for one: before a blank, and ':' also behind
// what ends a key in JSON; an address or a name holds many that are none.
func marks(data []byte) (n int) {
	for i, b := range data {
		switch b {
		case '\n', '\r', ',', '[', '{':
			n++
		case ':', '-', '?':
			last := i+1 == len(data)
			if last || strings.IndexByte(" \t\r\n", data[i+1]) >= 0 || b == ':' && i > 0 && strings.IndexByte("\"'}]", data[i-1]) >= 0 {
				n++
			}
		}
	}
	return n
}

// control finds the first byte of control that no text file holds, or -1.
func control(data []byte) int {
	return slices.IndexFunc(data, func(b byte) bool { return b < ' ' && b != '\t' && b != '\n' && b != '\r' || b == 0x7f })
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return 0
}

// place gives line and column (in characters) of a byte offset.
func place(data []byte, off int) (line, column int) {
	off = max(min(off, len(data)), 0)
	start := bytes.LastIndexByte(data[:off], '\n') + 1
	return bytes.Count(data[:off], []byte{'\n'}) + 1, utf8.RuneCount(data[start:off]) + 1
}

// chunk is the text of one YAML document.
type chunk struct {
	text []byte
	line int // lines before it
}

// split cuts a stream at its document markers, so that a syntax error in one document hides nothing of the next.
// A line that starts with "---" is a marker wherever it stands (YAML 1.2 section 9.1.2), block texts included.
func split(data []byte) []chunk {
	var chunks []chunk
	start, startLine, line := 0, 0, 0
	content := false
	for off := 0; off < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[off:], '\n'); i >= 0 {
			end = off + i + 1
		}
		text := data[off:end]
		if marker(text) && content {
			chunks = append(chunks, chunk{data[start:off], startLine})
			start, startLine, content = off, line, false
		}
		content = content || hasContent(text)
		off = end
	}
	return append(chunks, chunk{data[start:], startLine})
}

func marker(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) {
		return false
	}
	return len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0
}

// hasContent is false for what may stand before the first document: blank lines, comments, directives, a bare marker.
func hasContent(line []byte) bool {
	t := bytes.TrimSpace(line)
	return len(t) > 0 && t[0] != '#' && line[0] != '%' && !bytes.Equal(t, []byte("---"))
}

// withoutVersion makes a %YAML 1.x directive a comment: the parser refuses 1.2, which it reads well.
func (c chunk) withoutVersion() []byte {
	if i := bytes.Index(c.text, []byte("%YAML 1.")); i >= 0 && len(bytes.TrimSpace(bytes.TrimLeft(c.text[:i], "-"))) == 0 {
		text := bytes.Clone(c.text)
		text[i] = '#'
		return text
	}
	return c.text
}

func (c chunk) parse() (docs []*yaml.Node, problems []Problem) {
	dec := yaml.NewDecoder(bytes.NewReader(c.withoutVersion()))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if err != nil {
			if p, bad := c.syntax(err); bad {
				problems = append(problems, p)
			}
			return docs, problems
		}
		if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
			continue
		}
		root := doc.Content[0]
		if root.Kind == yaml.ScalarNode && root.Tag == "!!null" && root.Anchor == "" && root.Value == "" {
			continue // only comments between two markers
		}
		w := walker{offset: c.line}
		w.node(root, 1)
		if len(w.problems) > 0 {
			problems = append(problems, w.problems...)
			continue
		}
		docs = append(docs, root)
	}
}

package gdnsd

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"steerpoint/internal/importer/tree"
)

// maxIncludes is how deep includes of includes go.
const maxIncludes = 16

// place is where something stands.
type place struct {
	file string
	line int
}

// reader gives the files that includes name.
type reader interface {
	read(name string, at place) ([]byte, error)
	expand(name string, at place) (out []string, many bool, err error)
	shown(name string) string
}

// vscf reads gdnsd's configuration syntax (gdnsd.config(5), "LOW-LEVEL SYNTAX"): maps, lists and strings.
type vscf struct {
	files  reader
	budget *tree.Budget
	open   []string // names of the files being read, the main one first
	name   string
	data   []byte
	pos    int
	line   int
}

// parseVSCF reads a file with what it includes. The error is a *tree.Problem.
func parseVSCF(files reader, name string, data []byte) (*tree.Node, error) {
	return readVSCF(&vscf{files: files, budget: &tree.Budget{}}, name, data, 0)
}

func readVSCF(parent *vscf, name string, data []byte, depth int) (*tree.Node, error) {
	v := &vscf{files: parent.files, budget: parent.budget, open: append(slices.Clone(parent.open), name), name: parent.files.shown(name), data: data, line: 1}
	if !utf8.Valid(data) {
		return nil, v.bad("is not UTF-8 text")
	}
	v.space()
	n := v.node(tree.Map)
	if v.peek() == '[' {
		v.pos++
		n.Kind = tree.List
		if err := v.items(n, depth+1); err != nil {
			return nil, err
		}
		if v.space(); v.pos < len(v.data) {
			return nil, v.bad("has something behind its list")
		}
		return n, nil
	}
	return n, v.fields(n, 0, depth)
}

func (v *vscf) node(kind tree.Kind) *tree.Node {
	return &tree.Node{Kind: kind, File: v.name, Line: v.line}
}

func (v *vscf) bad(format string, args ...any) error {
	return &tree.Problem{File: v.name, Line: v.line, Text: fmt.Sprintf(format, args...)}
}

// peek is the next byte, 0 at the end.
func (v *vscf) peek() byte {
	if v.pos < len(v.data) {
		return v.data[v.pos]
	}
	return 0
}

// space passes blanks, line ends and comments.
func (v *vscf) space() {
	for ; v.pos < len(v.data); v.pos++ {
		switch v.data[v.pos] {
		case '\n':
			v.line++
		case ' ', '\t', '\r':
		case '#', ';':
			for v.pos < len(v.data) && v.data[v.pos] != '\n' {
				v.pos++
			}
			v.pos--
		default:
			return
		}
	}
}

// comma passes one comma and the blanks around it.
func (v *vscf) comma() {
	v.space()
	if v.peek() == ',' {
		v.pos++
		v.space()
	}
}

// fields reads the inside of a map up to end, which is '}', or 0 for the end of the file.
func (v *vscf) fields(n *tree.Node, end byte, depth int) error {
	for v.space(); ; v.comma() {
		switch {
		case v.pos >= len(v.data) && end == 0:
			return nil
		case v.pos >= len(v.data):
			return v.bad("ends inside a { }")
		case v.peek() == end:
			v.pos++
			return nil
		}
		if v.peek() == '$' {
			if err := v.merge(n, depth); err != nil {
				return err
			}
			continue
		}
		at := v.line
		key, err := v.text()
		if err != nil {
			return err
		}
		if v.space(); v.peek() != '=' {
			return v.bad("lacks => behind the key %q", key)
		}
		if v.pos++; v.peek() == '>' {
			v.pos++
		}
		v.space()
		c, err := v.value(depth + 1)
		if err != nil {
			return err
		}
		c.Line = at
		if err := v.put(n, key, c); err != nil {
			return err
		}
	}
}

func (v *vscf) put(n *tree.Node, key string, c *tree.Node) error {
	if n.Get(key) != nil {
		return v.bad("has the key %q twice in one { }", key)
	}
	c.Key = key
	n.Add(c)
	return nil
}

// items reads the inside of a list and its ].
func (v *vscf) items(n *tree.Node, depth int) error {
	for v.space(); ; v.comma() {
		switch {
		case v.pos >= len(v.data):
			return v.bad("ends inside a [ ]")
		case v.peek() == ']':
			v.pos++
			return nil
		}
		c, err := v.value(depth)
		if err != nil {
			return err
		}
		n.Add(c)
	}
}

func (v *vscf) value(depth int) (*tree.Node, error) {
	if err := v.budget.Take(v.name, v.line, depth); err != nil {
		return nil, err
	}
	n := v.node(tree.Scalar)
	switch v.peek() {
	case '{':
		n.Kind = tree.Map
		v.pos++
		return n, v.fields(n, '}', depth)
	case '[':
		n.Kind = tree.List
		v.pos++
		return n, v.items(n, depth+1)
	case '$':
		names, many, err := v.include()
		if err != nil {
			return nil, err
		}
		if many {
			return nil, v.bad("includes several files where one value stands")
		}
		return v.included(names[0], depth)
	}
	var err error
	n.Text, err = v.text()
	return n, err
}

// merge reads an include that stands for fields of a map.
func (v *vscf) merge(n *tree.Node, depth int) error {
	names, _, err := v.include()
	if err != nil {
		return err
	}
	for _, name := range names {
		in, err := v.included(name, depth)
		if err != nil {
			return err
		}
		if in.Kind != tree.Map {
			return v.bad("includes %s, which is a list, among keys", name)
		}
		for _, c := range in.Items {
			if err := v.put(n, c.Key, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// include reads $include{PATH} and gives the files it names.
func (v *vscf) include() (names []string, many bool, err error) {
	const word = "$include{"
	if !strings.HasPrefix(string(v.data[v.pos:min(len(v.data), v.pos+len(word))]), word) {
		return nil, false, v.bad("has a $ that begins no $include{...}")
	}
	v.pos += len(word)
	v.space()
	name, err := v.text()
	if err != nil {
		return nil, false, err
	}
	if v.space(); v.peek() != '}' {
		return nil, false, v.bad("lacks } behind $include{%s", name)
	}
	v.pos++
	if len(v.open) >= maxIncludes {
		return nil, false, v.bad("includes %s: more than %d files deep, or in a circle", name, maxIncludes)
	}
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(v.open[len(v.open)-1]), name)
	}
	return v.files.expand(name, place{v.name, v.line})
}

func (v *vscf) included(name string, depth int) (*tree.Node, error) {
	if slices.Contains(v.open, name) {
		return nil, v.bad("includes %s in a circle: %s", name, strings.Join(append(slices.Clone(v.open), name), " -> "))
	}
	data, err := v.files.read(name, place{v.name, v.line})
	if err != nil {
		return nil, err
	}
	return readVSCF(v, name, data, depth+1)
}

// text reads a string, quoted or not, with the escapes of zone files.
func (v *vscf) text() (string, error) {
	var b strings.Builder
	quoted := v.peek() == '"'
	start := v.line
	if quoted {
		v.pos++
	}
	for first := v.pos; v.pos < len(v.data); v.pos++ {
		c := v.data[v.pos]
		switch {
		case c == '\\':
			if err := v.escape(&b); err != nil {
				return "", err
			}
			continue
		case quoted && c == '"':
			v.pos++
			return v.whole(b.String())
		case quoted:
			if c == '\n' {
				v.line++
			}
			b.WriteByte(c)
			continue
		case strings.IndexByte("}{;# \t\r\n,\"=][", c) >= 0:
			if v.pos == first {
				return "", v.bad("has %q where a value or a key should stand", string(c))
			}
			return v.whole(b.String())
		}
		b.WriteByte(c)
	}
	if quoted {
		v.line = start
		return "", v.bad("has a \" without its end")
	}
	if b.Len() == 0 {
		return "", v.bad("ends where a value should stand")
	}
	return v.whole(b.String())
}

func (v *vscf) whole(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", v.bad("has a text that is not UTF-8 once its escapes are written out")
	}
	return s, nil
}

// escape reads \X or \DDD; the backslash is the byte at pos, and pos is left at the last byte of the escape.
func (v *vscf) escape(b *strings.Builder) error {
	if v.pos+1 >= len(v.data) {
		return v.bad("ends behind a backslash")
	}
	c := v.data[v.pos+1]
	if c < '0' || c > '9' {
		if v.pos++; c == '\n' {
			v.line++
		}
		b.WriteByte(c)
		return nil
	}
	n := 0
	for i := 1; i <= 3; i++ {
		if v.pos+i >= len(v.data) || v.data[v.pos+i] < '0' || v.data[v.pos+i] > '9' {
			return v.bad("has a \\ with fewer than three digits")
		}
		n = 10*n + int(v.data[v.pos+i]-'0')
	}
	if n > 255 {
		return v.bad("has the escape \\%03d, which is above 255", n)
	}
	b.WriteByte(byte(n))
	v.pos += 3
	return nil
}

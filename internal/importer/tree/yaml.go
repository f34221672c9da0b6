package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// YAML reads one YAML document. Aliases and merge keys are written out, within the limits. Tags that are not YAML's
// own are kept as text before the value. The error is a *Problem.
func YAML(file string, data []byte) (*Node, error) {
	if !utf8.Valid(data) {
		return nil, &Problem{file, 1, "is not UTF-8 text", nil}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return &Node{Kind: Map, File: file, Line: 1}, nil
		}
		return nil, yamlProblem(file, err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, &Problem{file, more.Line, "holds more than one YAML document", nil}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlProblem(file, err)
	}
	r := &yamlReader{file: file}
	return r.value(doc.Content[0], 0)
}

func yamlProblem(file string, err error) error {
	line := 1
	if m := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits
	}
	return &Problem{file, line, err.Error(), nil}
}

// maxExpanded is how many values aliases may write out: real files repeat a health check or a list of addresses.
const maxExpanded = 100_000

type yamlReader struct {
	file     string
	budget   Budget
	aliases  int // around the value that is read
	expanded int // values written out by aliases
}

func (r *yamlReader) value(y *yaml.Node, depth int) (*Node, error) {
	if err := r.budget.Take(r.file, y.Line, depth); err != nil {
		return nil, err
	}
	if r.aliases > 0 {
		if r.expanded++; r.expanded > maxExpanded {
			return nil, &Problem{r.file, y.Line, fmt.Sprintf("holds more than %d values with its aliases written out", maxExpanded), ErrTooLarge}
		}
	}
	n := &Node{File: r.file, Line: y.Line}
	switch y.Kind {
	case yaml.AliasNode: // a loop of aliases ends at the depth
		r.aliases++
		c, err := r.value(y.Alias, depth+1)
		r.aliases--
		return c, err
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			c, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Add(c)
		}
	case yaml.MappingNode:
		n.Kind = Map
		return n, r.fields(n, y, depth)
	default:
		n.Text, n.Null = y.Value, y.Tag == "!!null"
		if len(y.Tag) > 1 && y.Tag[0] == '!' && y.Tag[1] != '!' {
			n.Text = y.Tag + " " + y.Value
		}
	}
	return n, nil
}

func (r *yamlReader) fields(n *Node, y *yaml.Node, depth int) error {
	written := map[string]bool{}
	var merged []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		c, err := r.value(y.Content[i+1], depth+1)
		switch {
		case err != nil:
			return err
		case k.Tag == "!!merge":
			merged = append(merged, c.Each()...)
			continue
		case k.Kind != yaml.ScalarNode:
			return &Problem{r.file, k.Line, "has a key that is no plain text", nil}
		case written[k.Value]:
			return &Problem{r.file, k.Line, "has the key " + strconv.Quote(k.Value) + " twice in one map", nil}
		}
		written[k.Value] = true
		c.Key, c.Line = k.Value, k.Line
		n.Add(c)
	}
	for _, from := range merged { // what a map says itself goes before what is merged into it
		for _, f := range from.Items {
			if !written[f.Key] {
				written[f.Key] = true
				n.Add(f)
			}
		}
	}
	return nil
}

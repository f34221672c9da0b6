package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// JSON reads one JSON value. The error is a *Problem.
func JSON(file string, data []byte) (*Node, error) {
	if !utf8.Valid(data) {
		return nil, &Problem{file, 1, "is not UTF-8 text", nil}
	}
	r := &jsonReader{file: file, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &Problem{file, r.at(), "holds more than one JSON value", nil}
	}
	return n, nil
}

type jsonReader struct {
	file   string
	data   []byte
	dec    *json.Decoder
	budget Budget
	offset int // up to where lines are counted
	line   int
}

// at is the line of the token that was read last.
func (r *jsonReader) at() int {
	end := min(int(r.dec.InputOffset()), len(r.data))
	r.line += bytes.Count(r.data[r.offset:end], []byte("\n"))
	r.offset = end
	return r.line
}

func (r *jsonReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if err != nil {
		text := err.Error()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			text = "ends in the middle of a value"
		}
		return nil, &Problem{r.file, r.at(), text, nil}
	}
	return t, nil
}

func (r *jsonReader) value(depth int) (*Node, error) {
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &Node{File: r.file, Line: r.at()}
	if err := r.budget.Take(r.file, n.Line, depth); err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		return r.items(n, t, depth)
	case string:
		n.Text = t
	case json.Number:
		n.Text = t.String()
	case bool:
		n.Text = map[bool]string{true: "true", false: "false"}[t]
	case nil:
		n.Null = true
	}
	return n, nil
}

func (r *jsonReader) items(n *Node, open json.Delim, depth int) (*Node, error) {
	n.Kind = List
	if open == '{' {
		n.Kind = Map
	}
	for r.dec.More() {
		key := ""
		if n.Kind == Map {
			t, err := r.token()
			if err != nil {
				return nil, err
			}
			key, _ = t.(string) // the decoder refuses other keys
		}
		c, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		c.Key = key
		n.Add(c)
	}
	_, err := r.token()
	return n, err
}

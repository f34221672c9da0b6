// Package master reads the syntax of zone files (RFC 1035 section 5): lines, parentheses, quotes and comments. What the words
// mean is for those who read a format.
package master

import (
	"math"
	"strconv"
	"strings"

	"steerpoint/internal/importer/tree"
)

// Token is a word of a zone file. Quoted ones keep their quotes in text.
type Token struct {
	Text   string
	Quoted bool
}

// Entry is a directive or a record: a line, or several in parentheses.
type Entry struct {
	Tokens []Token
	Blank  bool // it begins with a blank: the owner of the entry before
	Node   *tree.Node
}

// Split divides a file into entries, each with a node of file.
func Split(data []byte, file *tree.Node, budget *tree.Budget) ([]Entry, error) {
	s := &splitter{data: data, file: file, line: 1, budget: budget}
	for s.pos < len(s.data) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	if s.depth > 0 {
		return nil, &tree.Problem{File: file.File, Line: s.began, Text: "has a ( without its )"}
	}
	err := s.end()
	return s.out, err
}

type splitter struct {
	data   []byte
	file   *tree.Node
	budget *tree.Budget
	pos    int
	line   int
	began  int // line the entry begins on
	depth  int // of parentheses
	now    Entry
	out    []Entry
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
		if len(s.now.Tokens) == 0 && s.depth == 0 && c != '\r' && (s.pos == 0 || s.data[s.pos-1] == '\n') {
			s.now.Blank = true
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
		if len(s.now.Tokens) == 0 {
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
	if len(s.now.Tokens) == 0 && s.depth == 0 {
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
			s.now.Tokens = append(s.now.Tokens, Token{string(s.data[start:s.pos]), true})
			return nil
		case !quoted && c == '"' && s.pos > start && s.data[s.pos-1] == '=':
			if !s.inner() { // alpn="h2,h3" is one word
				return &tree.Problem{File: s.file.File, Line: s.line, Text: "has a \" without its end on the line"}
			}
		case !quoted && strings.IndexByte(" \t\r\n;()\"", c) >= 0:
			s.now.Tokens = append(s.now.Tokens, Token{string(s.data[start:s.pos]), false})
			return nil
		}
	}
	s.pos = min(s.pos, len(s.data))
	if quoted {
		return &tree.Problem{File: s.file.File, Line: s.line, Text: "has a \" without its end"}
	}
	s.now.Tokens = append(s.now.Tokens, Token{string(s.data[start:s.pos]), false})
	return nil
}

// inner goes on to the quote that ends the one at hand; false if the line ends before.
func (s *splitter) inner() bool {
	for s.pos++; s.pos < len(s.data) && s.data[s.pos] != '\n'; s.pos++ {
		switch s.data[s.pos] {
		case '\\':
			s.pos++
		case '"':
			return true
		}
	}
	return false
}

func (s *splitter) end() error {
	if len(s.now.Tokens) > 0 {
		if err := s.budget.Take(s.file.File, s.began, 0); err != nil {
			return err
		}
		var words []string
		for _, t := range s.now.Tokens {
			words = append(words, t.Text)
		}
		s.now.Node = s.file.Add(&tree.Node{File: s.file.File, Line: s.began, Text: strings.Join(words, " ")})
		s.out = append(s.out, s.now)
	}
	s.now = Entry{}
	return nil
}

// Seconds reads 600 or 1h30m; ok is false for anything else.
func Seconds(s string) (n int, ok bool) {
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

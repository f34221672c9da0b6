// Package ruletext reads the texts that stand in rules of the gateway: templates with server variables, times of the week,
// and paths in their one form. Who checks a rule and who runs it read them alike. It knows no request.
package ruletext

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Variables lists the server variables, by the names that Azure Front Door gives them.
func Variables() []string {
	return []string{
		"socket_ip", "client_ip", "client_port", "hostname", "geo_country", "http_method", "http_version", "query_string",
		"request_scheme", "request_uri", "ssl_protocol", "server_port", "url_path",
	}
}

// MaxParts is the most parts of one template.
const MaxParts = 32

// Part is a piece of a template: plain text, or a variable of which a slice is taken.
type Part struct {
	Text     string // plain text; "" for a variable
	Variable string // one of Variables; "" for plain text
	Slice    Slice
}

// Slice is which part of a variable is meant. The zero value is all of it.
type Slice struct {
	Offset    int // of the first byte; negative: counted from the end
	HasLength bool
	Length    int // in bytes; negative: up to so many before the end
}

// Template is a text with server variables, in order.
type Template []Part

// ErrTemplate says that a text names no variable where it should, or writes one wrongly.
var ErrTemplate = errors.New("server variable")

// Parse reads a text. A brace followed by a lower-case letter begins a variable: {name}, {name:offset} or
// {name:offset:length}. Any other brace stands for itself.
func Parse(text string) (Template, error) {
	var t Template
	plain := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '{' || i+1 == len(text) || text[i+1] < 'a' || text[i+1] > 'z' {
			continue
		}
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			return nil, fmt.Errorf("%w: %s has no closing brace", ErrTemplate, text[i:])
		}
		p, err := variable(text[i+1 : i+end])
		if err != nil {
			return nil, err
		}
		if i > plain {
			t = append(t, Part{Text: text[plain:i]})
		}
		t = append(t, p)
		i += end
		plain = i + 1
	}
	if plain < len(text) {
		t = append(t, Part{Text: text[plain:]})
	}
	if len(t) > MaxParts {
		return nil, fmt.Errorf("%w: more than %d variables and texts between them", ErrTemplate, MaxParts)
	}
	return t, nil
}

func variable(inside string) (Part, error) {
	fields := strings.Split(inside, ":")
	p := Part{Variable: fields[0]}
	if !slices.Contains(Variables(), p.Variable) {
		return p, fmt.Errorf("%w: there is no {%s}; there are %s", ErrTemplate, p.Variable, strings.Join(Variables(), ", "))
	}
	if len(fields) > 3 {
		return p, fmt.Errorf("%w: {%s} has more than an offset and a length", ErrTemplate, inside)
	}
	for k, text := range fields[1:] {
		n, err := strconv.Atoi(text)
		if err != nil || text[0] == '+' || n > 1<<20 || n < -1<<20 {
			return p, fmt.Errorf("%w: %q in {%s} is not a whole number", ErrTemplate, text, inside)
		}
		if k == 0 {
			p.Slice.Offset = n
		} else {
			p.Slice.HasLength, p.Slice.Length = true, n
		}
	}
	return p, nil
}

// Of gives the part of a value that the slice means. What lies outside of the value is left out: an offset before its
// start is its start, one behind its end gives nothing, and so does a length that ends before the offset.
func (s Slice) Of(value []byte) []byte {
	from, to := s.Offset, len(value)
	if from < 0 {
		from += len(value)
	}
	from = min(max(from, 0), len(value))
	if s.HasLength {
		if to = from + s.Length; s.Length < 0 {
			to = len(value) + s.Length
		}
	}
	return value[from:min(max(to, from), len(value))]
}

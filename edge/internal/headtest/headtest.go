// Package headtest is the head of a request or a response as tests write it.
package headtest

import "strings"

// Lines are the fields of a head, each "Name: value".
type Lines []string

// Field gives the value of the n-th field of a name, 0 the first, and whether there is one, as rules.Fields says.
func (h Lines) Field(name string, n int) (value []byte, ok bool) {
	for _, line := range h {
		k, v, _ := strings.Cut(line, ": ")
		if strings.EqualFold(k, name) {
			if n == 0 {
				return []byte(v), true
			}
			n--
		}
	}
	return nil, false
}

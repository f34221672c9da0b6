package importer

import (
	"fmt"
	"slices"
	"strings"

	"steerpoint/spec"
)

// Distinct gives each address once, in the order of their first places.
func Distinct(list []spec.Address) []spec.Address {
	var out []spec.Address
	for _, a := range list {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// Quote writes a text as the data of a TXT record in a zone file: strings of at most 255 bytes, in quotes (RFC 1035
// section 5.1).
func Quote(text string) string {
	var parts []string
	for {
		n := min(len(text), 255)
		parts = append(parts, `"`+escape(text[:n])+`"`)
		if text = text[n:]; text == "" {
			return strings.Join(parts, " ")
		}
	}
}

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03d`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

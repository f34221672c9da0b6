// Package text lays out what steer shows to people: aligned tables, times as ages, colour where it is wanted.
package text

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Color is what a word stands for, not how it looks.
type Color uint8

// The colours. The zero value is plain.
const (
	Plain Color = iota
	Good
	Bad
	Warn
	Faint
)

// Painter colours words, or leaves them alone. The zero value leaves them alone.
type Painter struct{ On bool }

// Paint wraps s in the escape sequences of c.
func (p Painter) Paint(c Color, s string) string {
	if !p.On || c == Plain || s == "" {
		return s
	}
	return [...]string{Good: "\x1b[32m", Bad: "\x1b[31m", Warn: "\x1b[33m", Faint: "\x1b[2m"}[c] + s + "\x1b[0m"
}

// Cell is one field of a table.
type Cell struct {
	Text  string
	Color Color
}

// Table collects rows and writes them with aligned columns. The zero value is an empty table.
type Table struct {
	rows [][]Cell
}

// Row adds a row of plain cells (string), coloured cells (Cell) or anything fmt can print.
func (t *Table) Row(fields ...any) {
	row := make([]Cell, len(fields))
	for i, f := range fields {
		switch f := f.(type) {
		case Cell:
			row[i] = f
		case string:
			row[i] = Cell{Text: f}
		default:
			row[i] = Cell{Text: fmt.Sprint(f)}
		}
	}
	t.rows = append(t.rows, row)
}

// Len is the number of rows, the heading included.
func (t *Table) Len() int { return len(t.rows) }

// gap is the space between two columns: two blanks read as a column edge where one reads as a word gap.
const gap = 2

// Write writes the table, each line after prefix. Nothing is cut: a long last column runs on.
func (t *Table) Write(w io.Writer, p Painter, prefix string) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(c.Text))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		b.WriteString(prefix)
		for i, c := range row {
			b.WriteString(p.Paint(c.Color, c.Text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-width(c.Text)+gap))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// Width is the number of terminal columns of s.
func Width(s string) int { return width(s) }

// Cut gives the start of s that fits into so many terminal columns.
func Cut(s string, columns int) string {
	for i, r := range s {
		if columns -= width(string(r)); columns < 0 {
			return s[:i]
		}
	}
	return s
}

// width is the number of terminal columns of s: East Asian wide characters take two.
func width(s string) int {
	n := utf8.RuneCountInString(s)
	for _, r := range s {
		if r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60) {
			n++
		}
	}
	return n
}

// Span is a duration at a glance: its two largest units, "3m12s", "2d4h", "850ms".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	d = d.Round(time.Hour)
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Ago is the time since at: "3m12s ago", "now" within a second (and for clocks that differ a little), "-" for no
// time, "in 5m0s" for one to come.
func Ago(now, at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	d := now.Sub(at)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + Span(-d.Round(time.Second))
	}
	return Span(d.Round(time.Second)) + " ago"
}

// ParseSince is the start of the time asked for: a duration before now, a date, or a time.
func ParseSince(now time.Time, s string) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		if d <= 0 {
			return time.Time{}, fmt.Errorf("%q is not a time in the past", s)
		}
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a duration such as 24h nor a time such as %s", s, now.Format(time.RFC3339))
}

// Package codes explains every stable code that an error, a warning or an alarm of steer can carry, in English and
// Chinese. Codes are never reused and never change their meaning.
package codes

import (
	_ "embed"
	"slices"
	"strings"

	"steerpoint/spec"
)

// Page explains one code.
type Page struct {
	Code    string `json:"code"`
	Kind    string `json:"kind"` // error, warning or alarm
	English string `json:"en"`   // what it means, and what to do
	Chinese string `json:"zh"`
}

// pages holds blocks divided by empty lines: a line with code and kind, a line of English, a line of Chinese. The
// English of codes of resources is spec's own; their blocks have Chinese only.
//
//go:embed pages.txt
var pages string

// All gives every page by code.
func All() []Page {
	english := map[string]spec.CodeDoc{}
	for _, d := range spec.Codes() {
		english[d.Code] = d
	}
	var all []Page
	for block := range strings.SplitSeq(strings.TrimSpace(pages), "\n\n") {
		lines := strings.Split(block, "\n")
		code, kind, _ := strings.Cut(lines[0], " ")
		p := Page{Code: code, Kind: kind, Chinese: lines[len(lines)-1]}
		if d, ok := english[code]; ok {
			p.English, p.Kind = d.Text, "error"
			if d.Warning {
				p.Kind = "warning"
			}
		} else {
			p.English = strings.Join(lines[1:len(lines)-1], "\n")
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Page) int { return strings.Compare(a.Code, b.Code) })
	return all
}

// Find gives the page of a code, whatever its case.
func Find(code string) (Page, bool) {
	for _, p := range All() {
		if strings.EqualFold(p.Code, code) {
			return p, true
		}
	}
	return Page{}, false
}

package archtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Block is one fenced block of a Markdown page.
type Block struct {
	File string
	Line int // of the opening fence
	Info string
	Text string
}

// Blocks lists the fenced blocks of the Markdown pages among the texts.
func Blocks(texts []Text) []Block {
	var blocks []Block
	for _, t := range texts {
		if path.Ext(t.Path) != ".md" {
			continue
		}
		var open *Block
		n := 0
		for line := range strings.Lines(t.Data) {
			n++
			trimmed := strings.TrimSpace(line)
			switch {
			case open == nil && strings.HasPrefix(trimmed, "```"):
				open = &Block{File: t.Path, Line: n, Info: strings.TrimPrefix(trimmed, "```")}
			case open != nil && trimmed == "```":
				blocks = append(blocks, *open)
				open = nil
			case open != nil:
				open.Text += line
			}
		}
	}
	return blocks
}

// CheckDocs holds the rules on pages for people. parse is spec's parser: it returns what is wrong with a YAML example.
// tours are the pages whose console blocks a test of the program runs.
func CheckDocs(texts []Text, parse func(name, text string) error, tours []string) []Finding {
	var found []Finding
	runs := map[string]bool{}
	for _, t := range tours {
		runs[t] = true
	}
	for _, b := range Blocks(texts) {
		where := fmt.Sprintf("%s:%d", b.File, b.Line)
		switch b.Info {
		case "yaml":
			if err := parse(where, b.Text); err != nil {
				found = append(found, Finding{"example", where, err.Error(), "an example that does not work is worse than none"})
			}
		case "console":
			if !runs[b.File] {
				found = append(found, Finding{"example", where, "is a console session that no test runs", "an example that does not work is worse than none"})
			}
		}
	}
	return append(found, checkLinks(texts)...)
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)

// checkLinks refuses links to files that are not in the tree.
func checkLinks(texts []Text) []Finding {
	known := map[string]bool{}
	for _, t := range texts {
		for p := t.Path; p != "."; p = path.Dir(p) {
			known[p] = true
		}
	}
	var found []Finding
	for _, t := range texts {
		if path.Ext(t.Path) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(t.Data, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if to := path.Join(path.Dir(t.Path), m[1]); !known[to] {
				found = append(found, Finding{"link", t.Path, "leads to " + m[1] + ", which is not in the tree", "a map with roads that end is no map"})
			}
		}
	}
	return found
}

// Term is one row of GLOSSARY.md.
type Term struct{ Word, Chinese, Meaning string }

// Glossary reads the rows of the table in GLOSSARY.md: | word | zh | means |.
func Glossary(page string) []Term {
	var terms []Term
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.HasPrefix(strings.TrimSpace(cells[1]), "---") || strings.TrimSpace(cells[1]) == "word" {
			continue
		}
		terms = append(terms, Term{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
	}
	return terms
}

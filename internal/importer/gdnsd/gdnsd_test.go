package gdnsd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
)

// render is a result as people see it: the resources, then the list of losses.
func render(t *testing.T, r *importer.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("--- losses\n")
	for _, n := range r.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}

// TestSample imports a configuration with every plugin and compares all of the result. The config file alone gives
// the same as its folder.
// Covers: issue4 import gdnsd
func TestSample(t *testing.T) {
	r, err := Import("testdata/full", importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := render(t, r)
	const golden = "testdata/golden.txt"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("differs from %s (UPDATE=1 writes it anew):\n%s", golden, d)
	}
	file, err := Import("testdata/full/config", importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, render(t, file)); d != "" {
		t.Error(d)
	}
}

// folder writes a configuration. The paths are relative to the folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// full gives the files of the sample.
func full(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"config", "include/geoip.cfg", "include/hosts.inc", "geoip/office.nets", "zones/shop.example"} {
		b, err := os.ReadFile(filepath.Join("testdata/full", name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

// values counts the values of a configuration without the code under test: what stands behind => and is no bracket,
// what stands in lists, and empty brackets.
func values(text string) int {
	text = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, "q")
	text = regexp.MustCompile(`[#;][^\n]*|\$include\{[^}]*\}`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`([\[\]{}])`).ReplaceAllString(strings.ReplaceAll(text, ",", " "), " $1 ")
	text = regexp.MustCompile(`[^\s\[\]{}=]+\s*=>?`).ReplaceAllString(text, " ")
	n := 0
	words := strings.Fields(text)
	for i, w := range words {
		empty := i > 0 && (w == "]" && words[i-1] == "[" || w == "}" && words[i-1] == "{")
		if !strings.Contains("[]{}", w) || empty {
			n++
		}
	}
	return n
}

// TestNothingIsSkipped counts the values and the entries of the input by other means: each is translated or listed.
// Then an unknown key goes into every map, and an unknown record between any two entries of the zone: it is never taken
// for translated.
// Covers: issue4 import complete
func TestNothingIsSkipped(t *testing.T) {
	files := full(t)
	total := values(files["config"]) + values(files["include/geoip.cfg"]) + values(files["geoip/office.nets"])
	const entriesOfSOA = 5 // further lines of the same entry
	for _, name := range []string{"zones/shop.example", "include/hosts.inc"} {
		total += strings.Count(files[name], "\n")
	}
	total -= entriesOfSOA
	base, err := Import(folder(t, files), importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if base.Translated+base.Listed != total {
		t.Fatalf("%d values translated and %d listed of %d", base.Translated, base.Listed, total)
	}
	dir := folder(t, files)
	try := func(name, text, where string, added int) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Import(dir, importer.Options{})
		if err := os.WriteFile(path, []byte(files[name]), 0o644); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatalf("%s at %s: %v", name, where, err)
		}
		if r.Translated > base.Translated || r.Translated+r.Listed != total+added {
			t.Errorf("%s at %s: %d unknown keys give %d translated, %d listed; before %d, %d (STEER_LONG=1 names the places)", name, where, added, r.Translated, r.Listed, base.Translated, base.Listed)
		}
	}
	for _, name := range []string{"config", "include/geoip.cfg", "zones/shop.example"} {
		text, insert := files[name], " unknown => new, "
		at := openings(text)
		if strings.HasPrefix(name, "zones") {
			insert, at = "unknown MINFO a b\n", between(text)
		}
		if os.Getenv("STEER_LONG") != "" {
			for _, i := range at {
				try(name, text[:i]+insert+text[i:], fmt.Sprintf("%.40q", text[i:]), 1)
			}
		}
		all := text
		for _, i := range slices.Backward(at) {
			all = all[:i] + insert + all[i:]
		}
		try(name, all, "every place", len(at))
	}
}

// openings gives the places where the maps of a configuration begin. An empty map is a value, and would be one no more.
func openings(text string) []int {
	var out []int
	for _, at := range regexp.MustCompile(`=>? *\{`).FindAllStringIndex(text, -1) {
		if text[at[1]] != '}' {
			out = append(out, at[1])
		}
	}
	return out
}

// between gives the places between the entries of a zone file.
func between(text string) []int {
	var out []int
	for at, c := range text {
		if c == '\n' && strings.Count(text[:at], "(") == strings.Count(text[:at], ")") && !strings.HasPrefix(text[at+1:], "\t") {
			out = append(out, at+1)
		}
	}
	return out
}

const oneZone = "@ SOA ns. h. 1 7200 600 3600 60\n@ NS ns1.example.net.\n"

// What gdnsd would refuse, and what meets no counterpart, still gives a valid result and a note.
// Covers: issue4 import gdnsd
func TestOddConfigs(t *testing.T) {
	const res = "plugins => { simplefo => { r => { primary => 192.0.2.1, secondary => 192.0.2.2 } } }"
	for name, tt := range map[string]struct{ config, zone, note string }{
		"two records":        {res, "w DYNA simplefo!r\nw DYNA simplefo!r\n", "another such record"},
		"beside a record":    {res, "w DYNA simplefo!r\nw A 192.0.2.9\n", "its name is steered"},
		"outside the zone":   {res, "w.example.net. DYNA simplefo!r\n", "outside the zone"},
		"a fixed TTL":        {res, "w 0/0 DYNA simplefo!r\n", "TTL 0"},
		"two TTLs":           {"", "w 5 A 192.0.2.1\nw 6 A 192.0.2.2\n", "with the TTLs 5 and 6"},
		"no name":            {"", "\tA 192.0.2.1\n$ORIGIN .\n", "left out"},
		"no type":            {"", "w IN\n", "without a type"},
		"no resource":        {"", "w DYNA\n", "names no single resource"},
		"unknown plugin":     {"plugins => { mine => { r => x } }", "w DYNA mine!r\n", "plugin mine is not known"},
		"name at the zone":   {"plugins => { weighted => { r => { a => [ x.example.net., 1 ] } } }", "@ DYNC weighted!r\n", "is a zone itself"},
		"a bad weight":       {"plugins => { weighted => { r => { a => [ 192.0.2.1, 1 ], b => [ 192.0.2.2, 0 ] } } }", "w DYNA weighted!r\n", "no [ destination, weight ]"},
		"a map of no map":    {"plugins => { geoip => { resources => { r => { map => m, dcmap => {} } } } }", "w DYNA geoip!r\n", "is not defined"},
		"one undefined":      {"plugins => { metafo => { resources => { r => { datacenters => [ a, b ], dcmap => { a => 192.0.2.1 } } } } }", "w DYNA metafo!r\n", "does not define b"},
		"always down":        {"service_types => { x => { plugin => static, state => DOWN } } plugins => { multifo => { r => { service_types => [ x, down, what ], a => 192.0.2.1 } } }", "w DYNA multifo!r\n", "not defined"},
		"skips the first":    {"plugins => { geoip => { maps => { m => { datacenters => [ a, b ] } } resources => { r => { skip_first => true, map => m, dcmap => { a => 192.0.2.1, b => 192.0.2.2 } } } } }", "w DYNA geoip!r\n", "name: b"},
		"escape codes":       {"options => { x => \"\x1b[2J\" }", "", "?[2J"},
		"a steered server":   {res, "@ NS w\nw DYNA simplefo!r\n", "its name is steered"},
		"a server's own TTL": {"", "@ NS ns9\n", "has no addresses"},
	} {
		r, err := Import(folder(t, map[string]string{"config": tt.config, "zones/a.example": oneZone + tt.zone}), importer.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := render(t, r); !strings.Contains(got, tt.note) || strings.Contains(got, "\x1b") {
			t.Errorf("%s: lacks %q:\n%s", name, tt.note, got)
		}
	}
}

// Syntax errors, circles of includes and files outside of the folder are refused with the place and the reason.
// Covers: issue4 import hostile
func TestRefused(t *testing.T) {
	zone := map[string]string{"zones/a.example": oneZone}
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no config":            {zone, "names config, which cannot be read"},
		"no zones":             {map[string]string{"config": ""}, "holds no zone files"},
		"an open brace":        {map[string]string{"config": "a => {\nb => c"}, "config:2: ends inside a { }"},
		"an open bracket":      {map[string]string{"config": "a => [ b"}, "ends inside a [ ]"},
		"an open quote":        {map[string]string{"config": "a => \"b\n\n"}, "config:1: has a \" without its end"},
		"no value":             {map[string]string{"config": "a => ,"}, "where a value or a key should stand"},
		"no arrow":             {map[string]string{"config": "a b"}, "lacks =>"},
		"a key twice":          {map[string]string{"config": "a => b\na => c"}, "config:2: has the key \"a\" twice"},
		"a bad escape":         {map[string]string{"config": "a => \\12"}, "fewer than three digits"},
		"an escape too large":  {map[string]string{"config": "a => \\999"}, "above 255"},
		"an escape of no text": {map[string]string{"config": "a => \\255"}, "not UTF-8"},
		"not UTF-8":            {map[string]string{"config": "a => \xff"}, "not UTF-8"},
		"a list":               {map[string]string{"config": "[ a ]"}, "is a list"},
		"a dollar":             {map[string]string{"config": "a => $b"}, "no $include"},
		"too deep":             {map[string]string{"config": "a => " + strings.Repeat("[", 100000)}, "levels deep"},
		"includes itself":      {map[string]string{"config": "$include{config}"}, "in a circle: config -> config"},
		"a circle":             {map[string]string{"config": "a => $include{b}", "b": "c => $include{config}"}, "in a circle: config -> b -> config"},
		"outside":              {map[string]string{"config": "$include{../x}"}, "lies outside"},
		"absolute":             {map[string]string{"config": "$include{/etc/passwd}"}, "lies outside"},
		"absent":               {map[string]string{"config": "$include{b}"}, "config:1: names b, which cannot be read: no such file"},
		"no match":             {map[string]string{"config": "$include{b*}"}, "no file matches"},
		"many for one value":   {map[string]string{"config": "a => $include{d/*}", "d/1": "x => y", "d/2": "z => y"}, "several files where one value stands"},
		"a list among keys":    {map[string]string{"config": "$include{d}", "d/1": "[ x ]"}, "a list, among keys"},
		"zone in a circle":     {map[string]string{"config": "", "zones/a.example": "$INCLUDE a.example\n"}, "in a circle"},
		"zone with a (":        {map[string]string{"config": "", "zones/a.example": "a A (\n"}, "( without its )"},
		"zone with a )":        {map[string]string{"config": "", "zones/a.example": "a A )\n"}, "does not belong there"},
		"zone with a quote":    {map[string]string{"config": "", "zones/a.example": "a TXT \"x\n\""}, "without its end"},
	} {
		_, err := Import(folder(t, tt.files), importer.Options{})
		var p *tree.Problem
		if !errors.As(err, &p) || !strings.Contains(p.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A link out of the folder is not followed, and a huge file is not read.
// Covers: issue4 import hostile
func TestOutsideAndHuge(t *testing.T) {
	dir := folder(t, map[string]string{"config": "$include{link}", "zones/a.example": oneZone})
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(dir, importer.Options{}); err == nil || !strings.Contains(err.Error(), "names link, which cannot be read") {
		t.Error(err)
	}
	dir = folder(t, map[string]string{"config": "", "zones/a.example": ""})
	if err := os.Truncate(filepath.Join(dir, "zones/a.example"), tree.MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(dir, importer.Options{}); !errors.Is(err, tree.ErrTooLarge) {
		t.Error(err)
	}
}

// memory is a reader of files that are not on disk.
type memory map[string]string

func (m memory) shown(name string) string { return name }

func (m memory) read(name string, _ place) ([]byte, error) {
	if text, ok := m[name]; ok {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("no file %q", name)
}

func (m memory) expand(name string, _ place) ([]string, bool, error) {
	return []string{name}, false, nil
}

// write writes a tree in gdnsd's syntax.
func write(b *strings.Builder, n *tree.Node, top bool) {
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	switch {
	case n.Kind == tree.Scalar:
		b.WriteString(quote(n.Text))
		return
	case n.Kind == tree.List:
		b.WriteString("[ ")
	case !top:
		b.WriteString("{ ")
	}
	for _, c := range n.Items {
		if n.Kind == tree.Map {
			b.WriteString(quote(c.Key) + " => ")
		}
		write(b, c, false)
		b.WriteString(", ")
	}
	switch {
	case n.Kind == tree.List:
		b.WriteString("]")
	case !top:
		b.WriteString("}")
	}
}

// FuzzVSCF reads anything; what can be read is the same once written and read again.
// Covers: issue4 import hostile
func FuzzVSCF(f *testing.F) {
	for _, s := range []string{"a => b", "a={b=[c d,e]}", "[ a \"b c\" \\065 ]", "a => $include{x}", "$include{x}", "# c\n\"a\" = \"\\\"\";", "a => \\", "a => {", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := memory{"x": "k => v"}
		n, err := parseVSCF(files, "main", []byte(text))
		if err != nil {
			return
		}
		var b strings.Builder
		write(&b, n, true)
		again, err := parseVSCF(files, "main", []byte(b.String()))
		if err != nil {
			t.Fatalf("%q, written as %q: %v", text, b.String(), err)
		}
		if !tree.Equal(n, again) {
			t.Fatalf("%q, written as %q: %s, then %s", text, b.String(), n, again)
		}
	})
}

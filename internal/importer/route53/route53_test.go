package route53

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
)

func sample() Files {
	return Files{"testdata/zone.json", "testdata/checks.json", []string{"testdata/blocks.json"}}
}

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

// TestSample imports a hosted zone with every routing policy and compares all of the result.
// Covers: issue4 import route53
func TestSample(t *testing.T) {
	r, err := Import(sample(), nil, importer.Options{})
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
}

// leaves counts the values of a JSON document without the code under test.
func leaves(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		for _, c := range v {
			n += leaves(c)
		}
		return max(n, 1)
	case []any:
		for _, c := range v {
			n += leaves(c)
		}
		return max(n, 1)
	}
	return 1
}

func load(t *testing.T, path string) any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// objects gives every object of a document.
func objects(v any) []map[string]any {
	var out []map[string]any
	switch v := v.(type) {
	case map[string]any:
		out = append(out, v)
		for _, c := range v {
			out = append(out, objects(c)...)
		}
	case []any:
		for _, c := range v {
			out = append(out, objects(c)...)
		}
	}
	return out
}

// TestNothingIsSkipped counts the values of the input by other means: each is translated or listed. Then an unknown
// field goes into every object of a file: it is never taken for translated.
// Covers: issue4 import complete
func TestNothingIsSkipped(t *testing.T) {
	files := []string{"testdata/zone.json", "testdata/checks.json", "testdata/blocks.json"}
	total := 0
	for _, f := range files {
		total += leaves(load(t, f))
	}
	base, err := Import(sample(), nil, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if base.Translated+base.Listed != total {
		t.Fatalf("%d values translated and %d listed of %d", base.Translated, base.Listed, total)
	}
	dir := t.TempDir()
	try := func(i int, doc any, added int) {
		t.Helper()
		data, err := json.MarshalIndent(doc, "", " ")
		path := filepath.Join(dir, "changed.json")
		if err := errors.Join(err, os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
		in := sample()
		*[]*string{&in.RecordSets, &in.HealthChecks, &in.CIDRBlocks[0]}[i] = path
		r, err := Import(in, nil, importer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Translated > base.Translated || r.Translated+r.Listed != total+added {
			t.Errorf("%s: %d unknown fields give %d translated, %d listed; before %d, %d (STEER_LONG=1 names the objects)", files[i], added, r.Translated, r.Listed, base.Translated, base.Listed)
		}
	}
	for i, f := range files {
		doc := load(t, f)
		all := objects(doc)
		if os.Getenv("STEER_LONG") != "" {
			for j, o := range all {
				o["Unknown"] = "new"
				t.Run(fmt.Sprint(f, j), func(*testing.T) { try(i, doc, 1) })
				delete(o, "Unknown")
			}
		}
		for _, o := range all {
			o["Unknown"] = "new"
		}
		try(i, doc, len(all))
	}
}

func parse(t *testing.T, text string, o importer.Options) (*importer.Result, error) {
	t.Helper()
	return Import(Files{RecordSets: "-"}, strings.NewReader(text), o)
}

func sets(list ...string) string {
	return `{"ResourceRecordSets": [{"Name": "a.example.", "Type": "SOA", "TTL": 900, "ResourceRecords": [{"Value": "x"}]},` +
		strings.Join(list, ",") + `]}`
}

// Names that clash, aliases in a circle and destinations that lead back give a valid result and a note.
// Covers: issue4 import route53
func TestOddZones(t *testing.T) {
	alias := func(name, to string) string {
		return fmt.Sprintf(`{"Name": %q, "Type": "A", "AliasTarget": {"DNSName": %q}}`, name, to)
	}
	weight := func(name, id, value string) string {
		return fmt.Sprintf(`{"Name": %q, "Type": "CNAME", "SetIdentifier": %q, "Weight": 1, "TTL": 0, "ResourceRecords": [{"Value": %q}]}`, name, id, value)
	}
	for name, tt := range map[string]struct{ in, note string }{
		"circle of aliases":  {sets(alias("x.a.example.", "y.a.example."), alias("y.a.example.", "x.a.example.")), "a CNAME record"},
		"leads to itself":    {sets(weight("x.a.example.", "1", "x.a.example")), "leads nowhere, or back to the name itself"},
		"under its wildcard": {sets(weight(`\052.a.example.`, "1", "lb.a.example"), weight(`\052.a.example.`, "2", "lb.example.net")), "leads nowhere, or back"},
		"name at the zone":   {sets(weight("a.example.", "1", "lb.example.net")), "is a zone itself"},
		"outside the zone":   {sets(weight("b.example.", "1", "lb.example.net")), "outside the zone"},
		"TTL of nothing":     {sets(weight("x.a.example.", "1", "lb.example.net")), "TTL 0"},
		"two of one place":   {sets(weight("x.a.example.", "1", "lb.example.net"), weight("x.a.example.", "2", "lb.example.net")), "counts once"},
		"no name":            {sets(`{"Type": "A"}`), "without Name or Type"},
		"name too odd":       {sets(weight("-x.a.example.", "1", "lb.example.net")), "hyphen"},
		"no policy for TXT":  {sets(`{"Name": "x.a.example.", "Type": "TXT", "SetIdentifier": "1", "Weight": 1, "ResourceRecords": [{"Value": "\"x\""}]}`), "only addresses and names are steered"},
		"truncated":          {strings.TrimSuffix(sets(alias("x.a.example.", "y.example.net.")), "}") + `, "IsTruncated": true}`, "only the records of this file"},
		"control characters": {strings.ReplaceAll(sets(alias("x.a.example.", "yESC[2J.example.net.")), "ESC", `\u001b`), "?"},
	} {
		r, err := parse(t, tt.in, importer.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := render(t, r); !strings.Contains(got, tt.note) || strings.Contains(got, "\x1b") {
			t.Errorf("%s: lacks %q:\n%s", name, tt.note, got)
		}
	}
}

// What is no list of record sets, or is hostile, is refused with the place and the reason.
// Covers: issue4 import hostile
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"no JSON":     {"{", "end"},
		"not UTF-8":   {"{\"a\": \"\xff\"}", "not UTF-8"},
		"two values":  {`{} {}`, "more than one JSON value"},
		"other JSON":  {`{"HealthChecks": []}`, "no list ResourceRecordSets"},
		"no zone":     {`{"ResourceRecordSets": []}`, "--zone NAME"},
		"too deep":    {strings.Repeat("[", 100000), "levels deep"},
		"a bad zone":  {`{"ResourceRecordSets": [{"Name": "x y.", "Type": "SOA"}]}`, "zone"},
		"a bare list": {`[]`, "no list ResourceRecordSets"},
	} {
		_, err := parse(t, tt.in, importer.Options{})
		var p *tree.Problem
		if !errors.As(err, &p) || !strings.Contains(p.Error(), tt.want) || !strings.HasPrefix(p.Error(), "stdin:1: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Import(Files{RecordSets: t.TempDir()}, nil, importer.Options{}); err == nil {
		t.Error("a folder was read")
	}
}

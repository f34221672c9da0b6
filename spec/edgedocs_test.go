package spec

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	optionsBegin = "<!-- Every option: made from the code by `go test ./spec -run Docs -update`. -->\n"
	optionsEnd   = "<!-- The end of every option. -->\n"
)

// gatewayParts are the fields of a Service that the gateway works by.
var gatewayParts = []string{"certificates", "originGroups", "routes", "policies"}

// docs/edge.md has a row for every option of the gateway: its default, what is allowed, and what it means.
//
// Covers: issue6 options
func TestDocsEdgeOptions(t *testing.T) {
	const file = "../docs/edge.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), optionsBegin)
	_, after, also := strings.Cut(rest, optionsEnd)
	if !ok || !also {
		t.Fatalf("%s does not have the lines that every option stands between", file)
	}
	var b strings.Builder
	rows := 0
	for _, kind := range []Kind{KindService, KindRuleSet, KindCertificate} {
		r := Resource{Kind: kind}
		fmt.Fprintf(&b, "### %s\n\n| option | default | value | meaning |\n| --- | --- | --- | --- |\n", kind)
		rows += writeOptions(&b, "", reflect.TypeOf(r.setBody()).Elem(), kind == KindService)
		b.WriteString("\n")
	}
	golden(t, file, []byte(before+optionsBegin+b.String()+optionsEnd+after))
	if rows < 100 {
		t.Errorf("%d options: too few", rows)
	}
}

// writeOptions writes the fields of a struct and of all below it, each by its whole path.
func writeOptions(b *strings.Builder, path string, typ reflect.Type, parts bool) (rows int) {
	for _, f := range tables[typ].fields {
		if parts && !slices.Contains(gatewayParts, f.name) {
			continue
		}
		at := f.name
		if path != "" {
			at = path + "." + f.name
		}
		inner := structOf(f.typ)
		if inner != nil && f.typ.Kind() == reflect.Slice {
			at += "[]"
		}
		if inner == nil {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", at, cell(f.defaultWords()), cell(f.valueWords()), cell(f.doc))
			rows++
			continue
		}
		rows += writeOptions(b, at, inner, false)
	}
	return rows
}

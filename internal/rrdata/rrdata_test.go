package rrdata

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// Types are read in any case, by name or number; what a zone cannot hold is refused with the reason.
//
// Covers: rfc 3597 types by number
func TestType(t *testing.T) {
	for text, want := range map[string]string{"a": "A", "Txt": "TXT", "TYPE1": "A", "type65280": "TYPE65280", "TYPE65": "HTTPS", "TYPE99": "TYPE99"} {
		if _, name, err := Type(text); err != nil || name != want {
			t.Errorf("%s is read as %q, %v", text, name, err)
		}
	}
	for text, want := range map[string]error{
		"B": ErrUnknown, "": ErrUnknown, "TYPE": ErrUnknown, "TYPE+1": ErrUnknown, "TYPE70000": ErrUnknown, "SPF": ErrUnknown,
		"SOA": ErrMade, "RRSIG": ErrMade, "TYPE48": ErrMade, "NSEC3": ErrMade, "NXNAME": ErrMade,
		"ANY": ErrMeta, "AXFR": ErrMeta, "OPT": ErrMeta, "TYPE0": ErrMeta, "TYPE250": ErrMeta, "TYPE65535": ErrMeta, "NULL": ErrMeta,
	} {
		if _, name, err := Type(text); !errors.Is(err, want) {
			t.Errorf("%s is read as %q, %v; want %v", text, name, err, want)
		}
	}
	for _, name := range Types() {
		if n, again, err := Type(name); err != nil || again != name || n == 0 {
			t.Errorf("%s: %d %s %v", name, n, again, err)
		}
	}
}

func read(t *testing.T, kind, text string) (Data, error) {
	t.Helper()
	n, _, err := Type(kind)
	if err != nil {
		t.Fatal(kind, err)
	}
	return Parse(n, text)
}

// What is read is written so that it is read as the same again, and packed as the library packs it.
//
// Covers: rfc 3597 as written, rfc 9460 alias mode, rfc 9460 service mode
func TestParse(t *testing.T) {
	for _, row := range [][3]string{
		{"A", " 192.0.2.1 ", "192.0.2.1"},
		{"A", `\# 4 c0000201`, "192.0.2.1"},
		{"AAAA", "2001:DB8::1", "2001:db8::1"},
		{"CNAME", "www.example.net", "www.example.net."},
		{"MX", "10 Mail.example.net", "10 Mail.example.net."},
		{"MX", "0 .", "0 ."},
		{"SRV", "0 0 0 .", "0 0 0 ."},
		{"TXT", "v=spf1 -all; x", `"v=spf1 -all; x"`},
		{"TXT", `"a" "b c"`, `"a" "b c"`},
		{"TXT", `say "hi" \o/`, `"say \"hi\" \\o/"`},
		{"TXT", "grün", `"gr\195\188n"`},
		{"TXT", strings.Repeat("x", 300), `"` + strings.Repeat("x", 255) + `" "` + strings.Repeat("x", 45) + `"`},
		{"CAA", "0 issue ca.example.net", `0 issue "ca.example.net"`},
		{"HTTPS", "1 . port=8443 alpn=h2,h3", `1 . port="8443" alpn="h2,h3"`},
		{"HTTPS", `1 . mandatory=alpn alpn="h2" ipv4hint=192.0.2.1`, `1 . mandatory="alpn" alpn="h2" ipv4hint="192.0.2.1"`},
		{"SVCB", "0 svc.example.net", "0 svc.example.net."},
		{"DS", "1 13 2 " + strings.Repeat("ab", 32), "1 13 2 " + strings.Repeat("AB", 32)},
		{"TYPE65280", `\# 3 0A1b2c`, `\# 3 0a1b2c`},
		{"TYPE65280", `\# 0`, `\# 0`},
	} {
		d, err := read(t, row[0], row[1])
		if err != nil {
			t.Errorf("%s %s: %v", row[0], row[1], err)
			continue
		}
		if !strings.EqualFold(d.Text, row[2]) {
			t.Errorf("%s %s is written %s, want %s", row[0], row[1], d.Text, row[2])
		}
		again, err := read(t, row[0], d.Text)
		if err != nil || again.Text != d.Text || !bytes.Equal(again.Wire, d.Wire) {
			t.Errorf("%s %s is read again as %s, %v", row[0], d.Text, again.Text, err)
		}
	}
	for _, row := range [][2]string{
		{"A", "192.0.2.300"},
		{"A", "2001:db8::1"},
		{"A", "www.example.net"},
		{"AAAA", "192.0.2.1"},
		{"AAAA", "::ffff:192.0.2.1"},
		{"AAAA", "fe80::1%eth0"},
		{"A", `\# 3 c00002`},
		{"SRV", `\# 0`},
		{"MX", `\# 2 000a`},
		{"TXT", `\# 0`},
		{"MX", "mail.example.net"},
		{"MX", "10"},
		{"MX", "70000 a.example."},
		{"SRV", "0 5 443"},
		{"CNAME", ""},
		{"CNAME", "a b"},
		{"CNAME", "a..b"},
		{"CNAME", "."},
		{"NS", "."},
		{"TXT", `"open`},
		{"CAA", "issue x"},
		{"TYPE65280", "hello"},
		{"TYPE65280", `\# 2 0a`},
		{"DS", "1 13 2 abcd"},
		{"DS", "1 13"},
		{"TLSA", "3 1 1 xyz"},
		{"SSHFP", "4 2"},
		{"SSHFP", "4 2 abcd"},
		{"TLSA", "3 1 1 abcd"},
		{"TLSA", "3 1 0"},
		{"HTTPS", "0 a.example. alpn=h2"},
		{"HTTPS", "1 . mandatory=port alpn=h2"},
		{"HTTPS", "1 . no-default-alpn"},
		{"HTTPS", "1 . alpn=h2 alpn=h3"},
		{"SVCB", "1 . mandatory=mandatory"},
		{"HTTPS", "1 . port=http"},
		{"HTTPS", "1 . ipv4hint=x"},
		{"A", "192.0.2.1\n@ IN A 192.0.2.2"},
		{"MX", "10 a.example.\n@ IN A 192.0.2.2"},
	} {
		if d, err := read(t, row[0], row[1]); err == nil {
			t.Errorf("%s %q is taken as %s", row[0], row[1], d.Text)
		}
	}
}

// Targets and hints are found where records have them.
//
// Covers: field 46, rfc 9460 hints
func TestTarget(t *testing.T) {
	for _, row := range [][3]string{
		{"MX", "10 Mail.example.net", "mail.example.net."},
		{"MX", "0 .", ""},
		{"SRV", "0 5 443 app.example.net.", "app.example.net."},
		{"NS", "ns.example.net", "ns.example.net."},
		{"A", "192.0.2.1", ""},
		{"HTTPS", "1 .", ""},
		{"CNAME", "x.example.", "x.example."},
	} {
		d, err := read(t, row[0], row[1])
		if err != nil || d.Target() != row[2] {
			t.Errorf("%s %s: target %q, %v", row[0], row[1], d.Target(), err)
		}
	}
	for text, want := range map[string]bool{"1 . ipv4hint=192.0.2.1": true, "1 . ipv6hint=2001:db8::1": true, "1 . alpn=h2": false} {
		if d, err := read(t, "HTTPS", text); err != nil || d.Hints() != want || d.AliasMode() {
			t.Errorf("%s: hints %t, %v", text, d.Hints(), err)
		}
	}
	if d, err := read(t, "SVCB", "0 x.example."); err != nil || !d.AliasMode() || d.Hints() {
		t.Error("alias mode is not seen", err)
	}
}

// FuzzParse: whatever is taken is written so that it is read as the same.
//
// Covers: issue2 bad input
func FuzzParse(f *testing.F) {
	for _, s := range []string{"192.0.2.1", `"a" "b"`, `1 . alpn="h2,h3" port=1`, `\# 3 010203`, "10 mail.example.net", "52 22 23.000 N 4 53 32.000 E -2.00m"} {
		f.Add(uint16(dns.TypeTXT), s)
		f.Add(uint16(dns.TypeHTTPS), s)
	}
	f.Fuzz(func(t *testing.T, kind uint16, text string) {
		n, _, err := Type(dns.Type(kind).String())
		if err != nil {
			return
		}
		d, err := Parse(n, text)
		if err != nil {
			return
		}
		again, err := Parse(n, d.Text)
		if err != nil || !bytes.Equal(again.Wire, d.Wire) {
			t.Fatalf("%s %q is written %q and read as %x, %v", dns.Type(kind), text, d.Text, again.Wire, err)
		}
	})
}

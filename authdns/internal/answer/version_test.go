package answer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
)

// zoneVersion is the option of a reply in short; "none".
func zoneVersion(m *dns.Msg) string {
	for _, o := range m.IsEdns0().Option {
		if v, ok := o.(*dns.EDNS0_ZONEVERSION); ok {
			return fmt.Sprintf("%d labels, type %d, %x", v.LabelCount, v.Type, v.Version)
		}
	}
	return "none"
}

// TestZoneVersion: who asks is told which map the answer is of, with every answer that is authoritative and with no
// other (RFC 9660).
//
// Covers: A2, issue3 map age, rfc 9660 told
func TestZoneVersion(t *testing.T) {
	d := dnstest.Map(t)
	d.Version = 1<<32 + 0x01020304
	r := newResponder(t, d)
	for _, row := range []struct {
		name  string
		qtype uint16
		data  []byte
		want  string
	}{
		{"plain.gslb.example.net.", dns.TypeA, nil, "3 labels, type 0, 01020304"},
		{"nobody.gslb.example.net.", dns.TypeA, nil, "3 labels, type 0, 01020304"},
		{"plain.gslb.example.net.", dns.TypeTXT, nil, "3 labels, type 0, 01020304"},
		{"example.com.", dns.TypeSOA, nil, "2 labels, type 0, 01020304"},
		{"child.example.com.", dns.TypeDS, nil, "2 labels, type 0, 01020304"}, // of the zone above
		{"child.example.com.", dns.TypeSOA, nil, "3 labels, type 0, 01020304"},
		{"www.example.org.", dns.TypeA, nil, "none"},
		{"plain.gslb.example.net.", dns.TypeA, []byte{1}, "none"}, // that is an answer
	} {
		q := dnstest.Query(row.name, row.qtype, &dns.EDNS0_LOCAL{Code: 19, Data: row.data})
		if got := zoneVersion(ask(t, r, q, resolver)); got != row.want {
			t.Errorf("%s %s: %s, want %s", row.name, dns.TypeToString[row.qtype], got, row.want)
		}
	}
	if got := zoneVersion(ask(t, r, dnstest.Query("plain.gslb.example.net.", dns.TypeA), resolver)); got != "none" {
		t.Errorf("not asked, and told %s", got)
	}
}

// TestNote: a text for people goes with steered answers to who speaks EDNS, only where it fits, and never makes an
// answer truncated.
//
// Covers: A2, issue3 map age, rfc 8914 held, rfc 8914 only with opt
func TestNote(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	r.SetNote(strings.Repeat("x", 300))
	told := func(q *dns.Msg) (string, *dns.Msg) {
		m := ask(t, r, q, resolver)
		if m.IsEdns0() != nil {
			for _, o := range m.IsEdns0().Option {
				if e, ok := o.(*dns.EDNS0_EDE); ok {
					return e.ExtraText, m
				}
			}
		}
		return "", m
	}
	if text, m := told(dnstest.Query("plain.gslb.example.net.", dns.TypeA)); len(text) != MaxNote || brief(m) != "NOERROR aa A=192.0.2.7/30" {
		t.Errorf("%d octets, %s", len(text), brief(m))
	}
	if text, _ := told(dnstest.Query("empty.gslb.example.net.", dns.TypeA)); text == "" {
		t.Error("NODATA of a steered name says nothing")
	}
	if text, _ := told(dnstest.Query("mail.example.com.", dns.TypeA)); text != "" {
		t.Errorf("a static record says %q", text)
	}
	plain := dnstest.Query("plain.gslb.example.net.", dns.TypeA)
	plain.Extra = nil
	if text, m := told(plain); text != "" || m.IsEdns0() != nil {
		t.Errorf("who does not speak EDNS is told %q", text)
	}
	long := strings.Repeat("a.", 100) + "gslb.example.net."
	d := dnstest.Map(t)
	d.Services[3].CNAME = long
	r.SetIndex(build(t, d))
	small := dnstest.Query(long, dns.TypeA, &dns.EDNS0_NSID{Code: dns.EDNS0NSID}, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"})
	small.IsEdns0().SetUDPSize(512)
	r.cfg.NSID = strings.Repeat("n", 128)
	if text, m := told(small); text != "" || m.Truncated || len(m.Answer) != 1 {
		t.Errorf("512 octets: %q, truncated %t, %s", text, m.Truncated, brief(m))
	}
	r.SetNote("")
	if text, _ := told(dnstest.Query("empty.gslb.example.net.", dns.TypeA)); text != "" {
		t.Errorf("the note is over, and is told: %q", text)
	}
}

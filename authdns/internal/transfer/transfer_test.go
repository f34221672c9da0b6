package transfer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/snapshot"
)

// texts are records as a zone file has them, in order.
func texts(t *testing.T, records []string) (out []string) {
	t.Helper()
	for _, r := range records {
		rr, n, err := dns.UnpackRR([]byte(r), 0)
		if err != nil || n != len(r) {
			t.Fatalf("record %x: %v", r, err)
		}
		out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	slices.Sort(out)
	return out
}

// transferred is the test map with every zone transferred.
func transferred(t *testing.T, defaults bool) *snapshot.DNS {
	d := dnstest.Map(t)
	for i := range d.Zones {
		d.Zones[i].Transfer = &snapshot.DNSTransfer{Default: defaults}
	}
	return d
}

// TestContent: a copy of a zone has its name servers, records, the delegation of a zone of ours inside it with the addresses
// that are found nowhere else, and steered names with what the catch-all rule answers: of a weighted one, the heaviest.
//
// Covers: field 56, issue5 transfer
func TestContent(t *testing.T) {
	d := transferred(t, true)
	inner := snapshot.NameServer{Name: "ns.child.example.com.", Addresses: d.Zones[0].NS[0].Addresses[:1]}
	d.Zones[2].NS = append(d.Zones[2].NS, inner)
	s := NewSource(d)
	for zone, want := range map[int][]string{
		0: {
			"deep.er.gslb.example.net. 30 IN A 192.0.2.8",
			"gslb.example.net. 300 IN NS ns1.gslb.example.net.",
			"gslb.example.net. 300 IN NS ns2.elsewhere.test.",
			"ns1.gslb.example.net. 300 IN A 192.0.2.53",
			"ns1.gslb.example.net. 300 IN AAAA 2001:db8::53",
			"plain.gslb.example.net. 30 IN A 192.0.2.7",
			"shop.gslb.example.net. 30 IN A 192.0.2.1",
			"shop.gslb.example.net. 30 IN AAAA 2001:db8::1",
			"split.gslb.example.net. 30 IN A 192.0.2.10",
		},
		1: {
			"*.b.ent.example.com. 60 IN A 192.0.2.98",
			`*.wild.example.com. 60 IN TXT "star"`,
			"a.wild.example.com. 60 IN A 192.0.2.99",
			"alias.example.com. 60 IN CNAME mail.example.com.",
			"child.example.com. 300 IN NS ns.child.example.com.",
			"child.example.com. 300 IN NS ns1.gslb.example.net.",
			"example.com. 30 IN A 192.0.2.7",
			"example.com. 300 IN NS ns1.gslb.example.net.",
			`example.com. 60 IN TXT "v=spf1 -all"`,
			"mail.example.com. 60 IN A 192.0.2.25",
			"mail.example.com. 60 IN A 192.0.2.26",
			"ns.child.example.com. 300 IN A 192.0.2.53",
			"www.example.com. 30 IN A 192.0.2.1",
			"www.example.com. 30 IN AAAA 2001:db8::1",
		},
	} {
		content, err := s.Read(zone)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, texts(t, content)); diff != "" {
			t.Errorf("zone %d (-want +got):\n%s", zone, diff)
		}
	}
	if !slices.IsSorted(must(s.Read(1))(t)) {
		t.Error("not in order")
	}
	soa, err := SOA(&d.Zones[1], 0xFFFFFFFF)
	if err != nil || texts(t, []string{soa})[0] != "example.com. 300 IN SOA ns1.gslb.example.net. hostmaster.example.com. 4294967295 3600 600 1209600 60" {
		t.Errorf("%v, %v", texts(t, []string{soa}), err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestSteeredRefused: without transfer.steered default a zone with a steered name goes to nobody; one without does. A record
// that no other server could read refuses the zone, too.
//
// Covers: field 56, issue5 transfer
func TestSteeredRefused(t *testing.T) {
	d := transferred(t, false)
	s := NewSource(d)
	if s.Refused(0) == "" || s.Refused(1) == "" || s.Refused(2) != "" {
		t.Errorf("%q, %q, %q", s.Refused(0), s.Refused(1), s.Refused(2))
	}
	d.Zones[2].Records = []snapshot.DNSRecord{{Name: "a.child.example.com.", Type: "ALIAS", TTL: time.Minute, Data: []string{"mail.example.com."}}}
	if _, err := NewSource(d).Read(2); err == nil || !strings.Contains(err.Error(), "a.child.example.com. ALIAS") {
		t.Errorf("a record of a type of ours: %v", err)
	}
}

// version makes one version of a test zone: records by the numbers given.
func version(t *testing.T, old *Zone, serial uint32, numbers ...int) *Zone {
	t.Helper()
	d := transferred(t, false)
	z := &d.Zones[2]
	for _, n := range numbers {
		z.Records = append(z.Records, snapshot.DNSRecord{
			Name: fmt.Sprintf("r%d.child.example.com.", n), Type: "MX", TTL: time.Minute, Data: []string{fmt.Sprintf("%d mail.example.com.", n)},
		})
	}
	content := must(NewSource(d).Read(2))(t)
	return Next(old, must(Name(z.Name))(t), serial, must(SOA(z, serial))(t), content)
}

// unpack reads a transfer as another implementation does, and gives its records; of IXFR they mean what RFC 1995 says.
func unpack(t *testing.T, p *Packer, limit, reserve int) (rrs []dns.RR, messages int) {
	t.Helper()
	for first := true; !p.Done(); first = false {
		b, ok := p.Append([]byte("xx"), limit, reserve)
		if !ok {
			t.Fatal("nothing was packed")
		}
		if b = b[2:]; len(b) > limit-reserve {
			t.Fatalf("a message of %d octets", len(b))
		}
		m := new(dns.Msg)
		if err := m.Unpack(b); err != nil {
			t.Fatal(err)
		}
		if m.Id != 77 || !m.Response || !m.Authoritative || (len(m.Question) == 1) != first || (m.IsEdns0() != nil) != first || len(m.Answer) == 0 {
			t.Fatalf("message %d: %v", messages, m.MsgHdr)
		}
		rrs = append(rrs, m.Answer...)
		messages++
	}
	return rrs, messages
}

func request(name string, qtype uint16) Request {
	return Request{ID: 77, Question: dnstest.Question(name, qtype, 1), EDNS: true}
}

// apply is what a secondary has after a transfer.
func apply(t *testing.T, have map[string]bool, rrs []dns.RR) map[string]bool {
	t.Helper()
	isSOA := func(i int) bool { _, ok := rrs[i].(*dns.SOA); return ok }
	if !isSOA(0) || len(rrs) > 1 && !isSOA(len(rrs)-1) {
		t.Fatal("a transfer does not begin and end with the SOA")
	}
	out := map[string]bool{}
	if len(rrs) == 1 {
		return have
	}
	if !isSOA(1) || len(rrs) == 2 {
		for _, rr := range rrs[1 : len(rrs)-1] {
			out[rr.String()] = true
		}
		return out
	}
	for rr := range have {
		out[rr] = true
	}
	deleting := false
	for i := 1; i < len(rrs)-1; i++ {
		switch text := rrs[i].String(); {
		case isSOA(i):
			deleting = !deleting
		case deleting && !out[text]:
			t.Fatalf("%s goes, and was not there", text)
		case deleting:
			delete(out, text)
		case out[text]:
			t.Fatalf("%s comes, and was there", text)
		default:
			out[text] = true
		}
	}
	return out
}

// TestStepsLeadToTheNewest: random versions of a zone; from whatever serial a secondary comes, what IXFR sends makes the
// newest content of what it has, over the end of the serial's numbers too; too old or unknown serials get the whole zone.
//
// Covers: issue5 ixfr, rfc 1995 changes, rfc 1982 wraps
func TestStepsLeadToTheNewest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var z *Zone
	have := map[uint32]map[string]bool{}
	serial := uint32(1<<32 - 20)
	for range 60 {
		serial += uint32(1 + rng.IntN(3))
		var numbers []int
		for n := range 30 {
			if rng.IntN(3) > 0 {
				numbers = append(numbers, n)
			}
		}
		z = version(t, z, serial, numbers...)
		rrs, _ := unpack(t, NewPacker(request("child.example.com.", dns.TypeAXFR), z.Whole()), 65535, 0)
		have[serial] = apply(t, nil, rrs)
	}
	if len(z.Steps) < 5 || len(z.Steps) == 60 {
		t.Errorf("%d steps are kept", len(z.Steps))
	}
	incremental := 0
	for from, content := range have {
		records, steps := z.Since(from)
		rrs, _ := unpack(t, NewPacker(request("child.example.com.", dns.TypeIXFR), records), 65535, 100)
		if diff := cmp.Diff(have[serial], apply(t, content, rrs)); diff != "" {
			t.Errorf("from %d (-want +got):\n%s", from, diff)
		}
		if steps {
			incremental++
		}
		if rrs[0].(*dns.SOA).Serial != serial || rrs[len(rrs)-1].(*dns.SOA).Serial != serial {
			t.Errorf("from %d: not the newest SOA", from)
		}
	}
	if incremental != len(z.Steps)+1 {
		t.Errorf("%d of %d serials were answered by steps, %d are kept", incremental, len(have), len(z.Steps))
	}
	for _, unknown := range []uint32{serial - 1000, serial - 1<<30} {
		if _, steps := z.Since(unknown); steps {
			t.Errorf("steps from %d", unknown)
		}
	}
	if records, _ := z.Since(serial + 5); len(records) != 1 || len(records[0]) != 1 {
		t.Errorf("to who is ahead: %v", records)
	}
	if again := version(t, z, serial-3, 1); len(again.Steps) != 0 {
		t.Error("a serial that went back has a way to it")
	}
}

// TestPacked: a large zone goes in messages well filled, whatever the limit; names are compressed, and another
// implementation reads the same records.
//
// Covers: issue5 axfr, rfc 5936 whole
func TestPacked(t *testing.T) {
	var numbers []int
	for n := range 2000 {
		numbers = append(numbers, n)
	}
	z := version(t, nil, 7, numbers...)
	for _, row := range []struct{ limit, most int }{{65535, 3}, {4096, 25}, {512, 240}} {
		rrs, messages := unpack(t, NewPacker(request("Child.Example.COM.", dns.TypeAXFR), z.Whole()), row.limit, 80)
		if messages > row.most || len(rrs) != 2000+3 {
			t.Errorf("limit %d: %d messages, %d records", row.limit, messages, len(rrs))
		}
		var got []string
		for _, rr := range rrs[1 : len(rrs)-1] {
			got = append(got, strings.ReplaceAll(rr.String(), "\t", " "))
		}
		slices.Sort(got)
		if diff := cmp.Diff(texts(t, z.Content), got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", row.limit, diff)
		}
	}
	if out, ok := NewPacker(request("child.example.com.", dns.TypeAXFR), z.Whole()).Append([]byte("x"), 40, 0); ok || string(out) != "x" {
		t.Errorf("into 40 octets: %x", out)
	}
}

// FuzzPack: whatever records a zone has, what is packed is what another implementation reads.
//
// Covers: issue5 axfr
func FuzzPack(f *testing.F) {
	f.Add([]byte("\x01a\x07example\x00\x00\x02\x00\x01\x00\x00\x00\x3c\x00\x04\x02ns\x00"), uint16(600))
	f.Add([]byte("\x01A\x01a\x00\x00\x0f\x00\x01\x00\x00\x00\x3c\x00\x07\x00\x05\x01A\x01a\x00"), uint16(512))
	f.Fuzz(func(t *testing.T, data []byte, limit uint16) {
		rr, n, err := dns.UnpackRR(data, 0)
		if err != nil || n != len(data) {
			return
		}
		buf := make([]byte, 70000)
		n, err = dns.PackRR(rr, buf, 0, nil, false)
		if err != nil || rr.Header().Class != dns.ClassINET || rr.Header().Rrtype == dns.TypeOPT {
			return
		}
		record := string(buf[:n])
		if nameLen(record)+10 > n {
			return
		}
		if rr, _, err = dns.UnpackRR(buf[:n], 0); err != nil { // data that was missing is there now
			return
		}
		want := rr.String()
		p := NewPacker(request("a.example.", dns.TypeAXFR), [][]string{{record, record}, {record}})
		for !p.Done() {
			b, ok := p.Append(nil, int(limit), 0)
			if !ok {
				return
			}
			m := new(dns.Msg)
			if err := m.Unpack(b); err != nil {
				t.Fatalf("%x: %v", b, err)
			}
			if len(m.Answer) != int(binary.BigEndian.Uint16(b[6:])) || len(b) > int(limit) {
				t.Fatalf("%d records in %d octets", len(m.Answer), len(b))
			}
			for _, got := range m.Answer {
				if got.String() != want {
					t.Fatalf("%s became %s", want, got)
				}
			}
		}
	})
}

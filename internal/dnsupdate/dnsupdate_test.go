package dnsupdate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// zone is a zone of tests: sets by name, and what the key may not change.
type zone struct {
	sets map[string][]Set
	not  string // names with this in them
}

func (z *zone) Sets(name string) []Set { return z.sets[name] }

func (z *zone) May(name string, rrType uint16) error {
	if z.not != "" && strings.Contains(name, z.not) || rrType == dns.TypeNS {
		return fmt.Errorf("the key may not change %s", name)
	}
	return nil
}

func testZone() *zone {
	return &zone{not: "locked", sets: map[string][]Set{
		"example.net.": {
			{Type: dns.TypeSOA, Fixed: true},
			{Type: dns.TypeNS, Fixed: true, Data: []string{"ns1.example.net."}},
			{Type: dns.TypeTXT, TTL: 60, Data: []string{`"apex"`}},
		},
		"www.example.net.":   {{Type: dns.TypeA, Fixed: true, Data: []string{"192.0.2.1"}, Why: "of the file"}},
		"dyn.example.net.":   {{Type: dns.TypeA, TTL: 60, Data: []string{"192.0.2.2", "192.0.2.3"}}, {Type: dns.TypeTXT, TTL: 60, Data: []string{`"x"`}}},
		"alias.example.net.": {{Type: dns.TypeCNAME, TTL: 60, Data: []string{"dyn.example.net."}}},
		"mail.example.net.":  {{Type: dns.TypeMX, TTL: 60, Data: []string{"10 mx.example.net."}}},
	}}
}

// message makes an update: lines that begin with ? are prerequisites. A line is "add NAME TTL TYPE DATA", "drop NAME [TYPE
// [DATA]]", "?used NAME", "?unused NAME", "?has NAME TYPE [DATA]" or "?lacks NAME TYPE".
func message(t *testing.T, lines ...string) []byte {
	t.Helper()
	m := new(dns.Msg).SetUpdate("Example.NET.")
	for _, line := range lines {
		f := strings.SplitN(line, " ", 4)
		rr := func(text string) []dns.RR {
			r, err := dns.NewRR(text)
			if err != nil {
				t.Fatal(line, err)
			}
			return []dns.RR{r}
		}
		any := func() []dns.RR {
			return []dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: f[1], Rrtype: dns.StringToType[f[2]]}}}
		}
		switch {
		case f[0] == "add":
			f = strings.SplitN(line, " ", 5)
			m.Insert(rr(fmt.Sprintf("%s %s IN %s %s", f[1], f[2], f[3], f[4])))
		case f[0] == "drop" && len(f) == 2:
			m.RemoveName([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: f[1]}}})
		case f[0] == "drop" && len(f) == 3:
			m.RemoveRRset(any())
		case f[0] == "drop":
			m.Remove(rr(fmt.Sprintf("%s 0 IN %s %s", f[1], f[2], f[3])))
		case f[0] == "?used":
			m.NameUsed([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: f[1]}}})
		case f[0] == "?unused":
			m.NameNotUsed([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: f[1]}}})
		case f[0] == "?has" && len(f) == 3:
			m.RRsetUsed(any())
		case f[0] == "?has":
			m.Used(rr(fmt.Sprintf("%s 0 IN %s %s", f[1], f[2], f[3])))
		case f[0] == "?lacks":
			m.RRsetNotUsed(any())
		default:
			t.Fatal(line)
		}
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(lines, err)
	}
	return b
}

// text is a change for comparison.
func text(c *Change) string {
	data := slices.Clone(c.Data)
	slices.Sort(data)
	return fmt.Sprintf("%s %s %d %s", c.Name, dns.Type(c.Type), c.TTL, strings.Join(data, ","))
}

// Prerequisites and changes come to what RFC 2136 says, row by row of its sections 3.2 and 3.4.
//
// Covers: rfc 2136, issue5 update
func TestApply(t *testing.T) {
	const dyn = "dyn.example.net."
	for _, row := range []struct {
		lines []string
		rcode int
		want  string
	}{
		{[]string{"add new.example.net. 60 TXT one", "add NEW.example.net. 60 TXT two"}, 0, `new.example.net. TXT 60 "one","two"`},
		{[]string{"add " + dyn + " 60 A 192.0.2.2"}, 0, ""},
		{[]string{"add " + dyn + " 90 A 192.0.2.2"}, 0, dyn + " A 90 192.0.2.2,192.0.2.3"},
		{[]string{"drop " + dyn + " A 192.0.2.2"}, 0, dyn + " A 60 192.0.2.3"},
		{[]string{"drop " + dyn + " A 192.0.2.9"}, 0, ""},
		{[]string{"drop " + dyn + " A 192.0.2.2", "drop " + dyn + " A 192.0.2.3"}, 0, dyn + " A 0 "},
		{[]string{"drop " + dyn + " A"}, 0, dyn + " A 0 "},
		{[]string{"drop " + dyn + " AAAA"}, 0, ""},
		{[]string{"drop " + dyn}, 0, dyn + " A 0 |" + dyn + " TXT 0 "},
		{[]string{"drop nobody.example.net."}, 0, ""},
		{[]string{"drop example.net."}, 0, "example.net. TXT 0 "},
		{[]string{"drop " + dyn, "add " + dyn + " 5 CNAME www.example.net."}, 0, dyn + " CNAME 5 www.example.net.|" + dyn + " A 0 |" + dyn + " TXT 0 "},
		{[]string{"add " + dyn + " 5 CNAME www.example.net."}, 0, ""},
		{[]string{"add alias.example.net. 5 A 192.0.2.9"}, 0, ""},
		{[]string{"add alias.example.net. 5 CNAME WWW.example.net."}, 0, "alias.example.net. CNAME 5 www.example.net."},
		{[]string{"add mail.example.net. 60 MX 10 MX.example.net."}, 0, ""},
		{[]string{"add www.example.net. 60 A 192.0.2.1"}, 0, ""}, // it is there, whoever wrote it
		{[]string{"add www.example.net. 60 A 192.0.2.9"}, dns.RcodeRefused, ""},
		{[]string{"drop www.example.net. A"}, dns.RcodeRefused, ""},
		{[]string{"drop www.example.net. A 192.0.2.1"}, dns.RcodeRefused, ""},
		{[]string{"drop www.example.net. A 192.0.2.9"}, 0, ""},
		{[]string{"drop www.example.net."}, dns.RcodeRefused, ""},
		{[]string{"add www.example.net. 60 TXT x"}, 0, `www.example.net. TXT 60 "x"`},
		{[]string{"add a.locked.example.net. 60 TXT x"}, dns.RcodeRefused, ""},
		{[]string{"add ok.example.net. 60 TXT x", "drop locked.example.net. TXT"}, dns.RcodeRefused, ""},
		{[]string{"add ok.example.net. 60 NS a.example.net."}, dns.RcodeRefused, ""},
		{[]string{"add elsewhere.example. 60 TXT x"}, dns.RcodeNotZone, ""},
		{[]string{"?used elsewhere.example."}, dns.RcodeNotZone, ""},
		{[]string{"?used " + dyn, "?has " + dyn + " A", "?lacks " + dyn + " AAAA", "?unused nobody.example.net."}, 0, ""},
		{[]string{"?used nobody.example.net."}, dns.RcodeNameError, ""},
		{[]string{"?unused " + dyn}, dns.RcodeYXDomain, ""},
		{[]string{"?unused www.example.net."}, dns.RcodeYXDomain, ""},
		{[]string{"?has " + dyn + " AAAA"}, dns.RcodeNXRrset, ""},
		{[]string{"?lacks " + dyn + " A"}, dns.RcodeYXRrset, ""},
		{[]string{"?has " + dyn + " A 192.0.2.3", "?has " + dyn + " A 192.0.2.2"}, 0, ""},
		{[]string{"?has " + dyn + " A 192.0.2.3"}, dns.RcodeNXRrset, ""},
		{[]string{"?has mail.example.net. MX 10 MX.Example.net."}, 0, ""},
		{[]string{"?unused " + dyn, "add a.locked.example.net. 60 TXT x"}, dns.RcodeYXDomain, ""}, // prerequisites come first
	} {
		u, err := Parse(message(t, row.lines...))
		var changes []Change
		if err == nil {
			changes, err = u.Apply(testZone())
		}
		got := 0
		if f, ok := errors.AsType[*Fault](err); ok {
			got = int(f.Rcode)
		} else if err != nil {
			t.Errorf("%q: %v is no fault", row.lines, err)
		}
		var texts []string
		for i := range changes {
			texts = append(texts, text(&changes[i]))
		}
		if got != row.rcode || strings.Join(texts, "|") != row.want {
			t.Errorf("%q: %s %q (%v), want %s %q", row.lines, dns.RcodeToString[got], texts, err, dns.RcodeToString[row.rcode], row.want)
		}
	}
}

// What is not of the form that RFC 2136 gives it is refused by form, whatever the zone holds.
//
// Covers: rfc 2136, issue5 update
func TestParseRefuses(t *testing.T) {
	good := func() *dns.Msg { return new(dns.Msg).SetUpdate("example.net.") }
	head := func(class, rrType uint16, ttl uint32) dns.RR {
		return &dns.ANY{Hdr: dns.RR_Header{Name: "a.example.net.", Rrtype: rrType, Class: class, Ttl: ttl}}
	}
	txt := func(class uint16, ttl uint32) dns.RR {
		return &dns.TXT{Hdr: dns.RR_Header{Name: "a.example.net.", Rrtype: dns.TypeTXT, Class: class, Ttl: ttl}, Txt: []string{"x"}}
	}
	for what, row := range map[string]struct {
		change func(m *dns.Msg)
		rcode  int
	}{
		"no zone":             {func(m *dns.Msg) { m.Question = nil }, dns.RcodeFormatError},
		"two zones":           {func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
		"zone by another":     {func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeA }, dns.RcodeFormatError},
		"zone of class CH":    {func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeNotAuth},
		"a query":             {func(m *dns.Msg) { m.Opcode = dns.OpcodeQuery }, dns.RcodeNotImplemented},
		"prerequisite TTL":    {func(m *dns.Msg) { m.Answer = []dns.RR{head(dns.ClassANY, dns.TypeA, 1)} }, dns.RcodeFormatError},
		"prerequisite data":   {func(m *dns.Msg) { m.Answer = []dns.RR{txt(dns.ClassANY, 0)} }, dns.RcodeFormatError},
		"prerequisite class":  {func(m *dns.Msg) { m.Answer = []dns.RR{txt(dns.ClassCHAOS, 0)} }, dns.RcodeFormatError},
		"prerequisite AXFR":   {func(m *dns.Msg) { m.Answer = []dns.RR{head(dns.ClassANY, dns.TypeAXFR, 0)} }, dns.RcodeFormatError},
		"prerequisite empty":  {func(m *dns.Msg) { m.Answer = []dns.RR{head(dns.ClassINET, dns.TypeA, 0)} }, dns.RcodeFormatError},
		"add nothing":         {func(m *dns.Msg) { m.Ns = []dns.RR{head(dns.ClassINET, dns.TypeTXT, 60)} }, dns.RcodeFormatError},
		"add ANY":             {func(m *dns.Msg) { m.Ns = []dns.RR{head(dns.ClassINET, dns.TypeANY, 60)} }, dns.RcodeFormatError},
		"drop sets with TTL":  {func(m *dns.Msg) { m.Ns = []dns.RR{head(dns.ClassANY, dns.TypeTXT, 1)} }, dns.RcodeFormatError},
		"drop sets with data": {func(m *dns.Msg) { m.Ns = []dns.RR{txt(dns.ClassANY, 0)} }, dns.RcodeFormatError},
		"drop AXFR":           {func(m *dns.Msg) { m.Ns = []dns.RR{head(dns.ClassANY, dns.TypeAXFR, 0)} }, dns.RcodeFormatError},
		"drop one with TTL":   {func(m *dns.Msg) { m.Ns = []dns.RR{txt(dns.ClassNONE, 1)} }, dns.RcodeFormatError},
		"drop one of nothing": {func(m *dns.Msg) { m.Ns = []dns.RR{head(dns.ClassNONE, dns.TypeTXT, 0)} }, dns.RcodeFormatError},
		"drop one ANY":        {func(m *dns.Msg) { m.Ns = []dns.RR{head(dns.ClassNONE, dns.TypeANY, 0)} }, dns.RcodeFormatError},
		"class":               {func(m *dns.Msg) { m.Ns = []dns.RR{txt(dns.ClassCHAOS, 0)} }, dns.RcodeFormatError},
		"too many": {func(m *dns.Msg) {
			for range maxRecords + 1 {
				m.Ns = append(m.Ns, head(dns.ClassANY, dns.TypeA, 0))
			}
		}, dns.RcodeRefused},
		"too long": {func(m *dns.Msg) {
			for i := range 100 {
				m.Ns = append(m.Ns, &dns.TXT{Hdr: dns.RR_Header{Name: fmt.Sprintf("a%d.example.net.", i), Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{strings.Repeat("x", 200)}})
			}
		}, dns.RcodeRefused},
	} {
		m := good()
		row.change(m)
		m.Compress = what == "too many"
		b, err := m.Pack()
		if err != nil {
			t.Fatal(what, err)
		}
		_, err = Parse(b)
		if f, ok := errors.AsType[*Fault](err); !ok || int(f.Rcode) != row.rcode {
			t.Errorf("%s: %v, want %s", what, err, dns.RcodeToString[row.rcode])
		}
	}
	b := message(t, "add a.example.net. 60 TXT x")
	for n := range b {
		if _, err := Parse(b[:n]); err == nil {
			t.Errorf("cut to %d octets it is an update", n)
		}
	}
}

// model is what an update comes to, worked out in another way: over a list of single records.
type model map[string]struct{}

// TestAgainstAModel plays random updates that are all permitted, and looks whether the changes made of the zone what adding and
// deleting single records makes of it.
//
// Covers: rfc 2136, issue5 update
func TestAgainstAModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := []string{"a.example.net.", "b.example.net.", "*.example.net."}
	data := map[string][]string{"A": {"192.0.2.1", "192.0.2.2"}, "TXT": {`"x"`, `"y z"`}, "MX": {"10 m.example.net."}}
	types := []string{"A", "TXT", "MX"}
	z, m := &zone{sets: map[string][]Set{}}, model{}
	for range 3000 {
		var lines []string
		for range 1 + rng.IntN(4) {
			name, rrType := names[rng.IntN(len(names))], types[rng.IntN(len(types))]
			value := data[rrType][rng.IntN(len(data[rrType]))]
			key := func(value string) string { return name + " " + rrType + " " + value }
			switch rng.IntN(5) {
			case 0, 1:
				lines = append(lines, fmt.Sprintf("add %s 60 %s %s", name, rrType, value))
				m[key(value)] = struct{}{}
			case 2:
				lines = append(lines, fmt.Sprintf("drop %s %s %s", name, rrType, value))
				delete(m, key(value))
			case 3:
				lines = append(lines, fmt.Sprintf("drop %s %s", name, rrType))
				for _, v := range data[rrType] {
					delete(m, key(v))
				}
			case 4:
				lines = append(lines, "drop "+name)
				for k := range m {
					if strings.HasPrefix(k, name+" ") {
						delete(m, k)
					}
				}
			}
		}
		u, err := Parse(message(t, lines...))
		if err != nil {
			t.Fatal(lines, err)
		}
		changes, err := u.Apply(z)
		if err != nil {
			t.Fatal(lines, err)
		}
		for i := range changes {
			c := &changes[i]
			sets := slices.DeleteFunc(z.sets[c.Name], func(s Set) bool { return s.Type == c.Type })
			if len(c.Data) > 0 {
				sets = append(sets, c.Set)
			}
			z.sets[c.Name] = sets
		}
		have := model{}
		for name, sets := range z.sets {
			for _, s := range sets {
				for _, v := range s.Data {
					have[name+" "+dns.Type(s.Type).String()+" "+v] = struct{}{}
				}
			}
		}
		if len(have) != len(m) {
			t.Fatalf("after %q: %v, want %v", lines, have, m)
		}
		for k := range m {
			if _, ok := have[k]; !ok {
				t.Fatalf("after %q: %v, want %v", lines, have, m)
			}
		}
	}
}

// FuzzParse: no message does harm, and what is an update names only names of its zone.
func FuzzParse(f *testing.F) {
	m := new(dns.Msg).SetUpdate("example.net.")
	rr, err := dns.NewRR("a.example.net. 60 IN TXT x")
	if err != nil {
		f.Fatal(err)
	}
	m.Insert([]dns.RR{rr})
	m.RemoveName([]dns.RR{rr})
	b, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, msg []byte) {
		u, err := Parse(msg)
		if err != nil {
			if _, ok := errors.AsType[*Fault](err); !ok {
				t.Fatalf("%v is no fault", err)
			}
			return
		}
		for _, name := range u.Names() {
			if !dns.IsSubDomain(u.Zone, name) {
				t.Fatalf("%s is not in %s", name, u.Zone)
			}
		}
		changes, err := u.Apply(testZone())
		if _, ok := errors.AsType[*Fault](err); err != nil && !ok {
			t.Fatalf("%v is no fault", err)
		}
		_ = Words(changes)
	})
}

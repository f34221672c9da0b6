package zonefile

import (
	"errors"
	"strings"
	"testing"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

func imported(t *testing.T, text string, o importer.Options) (*spec.Zone, []string) {
	t.Helper()
	r, err := Import("-", strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Docs) != 1 || r.Docs[0].Resource.Zone == nil {
		t.Fatalf("%d resources", len(r.Docs))
	}
	var notes []string
	for _, n := range r.Notes {
		notes = append(notes, n.String())
	}
	return r.Docs[0].Resource.Zone, notes
}

func sets(z *spec.Zone) string {
	var out []string
	for _, r := range z.Records {
		out = append(out, r.Name+" "+string(r.Type)+" "+r.TTL.String()+" "+strings.Join(r.Values, " | "))
	}
	return strings.Join(out, "\n")
}

// What a zone file may leave out and how it may be written: owners, TTLs, classes, origins, parentheses, quotes, numbers of types,
// generated records.
//
// Covers: issue5 import zonefile
func TestSyntax(t *testing.T) {
	z, notes := imported(t, `; a comment
$ORIGIN Example.COM.
@ 3600 IN SOA ns1 host.master ( 7 1h ; refresh
   10m 2w 30 )
   IN NS ns1
   NS ns2.example.net.
ns1 A 192.0.2.53
    AAAA 2001:db8::53
$TTL 1h30m
www 60 IN A 192.0.2.1
    IN 60 A 192.0.2.2
mail MX ( 10
          mx )
mx A 192.0.2.3
txt TXT "a ; b" c "d \" e"
$ORIGIN sub.example.com.
deep CNAME @
@ TXT sub
$ORIGIN other
x.example.com. A 192.0.2.4
rel A 192.0.2.5
h HTTPS 1 . alpn="h2,h3" port=8443
t TYPE65280 \# 3 010203
u TYPE1 \# 4 c0000206
$GENERATE 1-3 gen$ A 10.0.0.$
$GENERATE 7-7 t$ 60 IN A 10.0.0.$
$GENERATE 5-6 m${0,2} MX 10 m$.mx
0/25.2.0.192.in-addr.arpa.example.com. PTR host`, importer.Options{})
	const want = `www A 1m 192.0.2.1 | 192.0.2.2
mail MX 1h30m 10 mx.Example.COM.
mx A 1h30m 192.0.2.3
txt TXT 1h30m "a ; b" "c" "d \" e"
deep.sub CNAME 1h30m sub.example.com.
sub TXT 1h30m "sub"
x A 1h30m 192.0.2.4
rel.other.sub A 1h30m 192.0.2.5
h.other.sub HTTPS 1h30m 1 . alpn="h2,h3" port="8443"
t.other.sub TYPE65280 1h30m \# 3 010203
u.other.sub A 1h30m 192.0.2.6
gen1.other.sub A 1h30m 10.0.0.1
gen2.other.sub A 1h30m 10.0.0.2
gen3.other.sub A 1h30m 10.0.0.3
t7.other.sub A 1m 10.0.0.7
m05.other.sub MX 1h30m 10 m5.mx.other.sub.example.com.
m06.other.sub MX 1h30m 10 m6.mx.other.sub.example.com.
0/25.2.0.192.in-addr.arpa PTR 1h30m host.other.sub.example.com.`
	if got := sets(z); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if z.Zone != "example.com" || z.Steering || z.SOA.RName != "host.master.example.com" || z.SOA.Refresh.String() != "1h" || z.SOA.Minimum.String() != "30s" ||
		len(z.NS) != 2 || len(z.NS[0].Addresses) != 2 || z.NSTTL.String() != "1h" {
		t.Errorf("%+v", z)
	}
	for _, n := range notes {
		if !strings.Contains(n, ": changed: name server ") {
			t.Error(n)
		}
	}
}

// Each thing that cannot be taken over is listed with its line, and nothing else is.
//
// Covers: issue5 import zonefile
func TestLosses(t *testing.T) {
	const soa = "example.com. 300 IN SOA ns.example.net. h.example.net. 1 2 3 4 5\n"
	for _, row := range []struct{ line, want string }{
		{"a CH TXT x", ":2: lost: record a CH TXT x; instead: left out: it is of another class than IN"},
		{"a A 192.0.2.300", ":2: lost: record a A 192.0.2.300; instead: left out: it is not well formed"},
		{"a DNSKEY 257 3 13 aGVsbG8=", "made by the name server itself"},
		{"a NSEC b.example.com. A", "made by the name server itself"},
		{"a DNAME b.a.example.com.", "leads below itself"},
		{"$UNKNOWN x", ":2: lost: directive $UNKNOWN x"},
		{"$GENERATE 1-0 a A 192.0.2.1", "it makes no records"},
		{"b.example.net. A 192.0.2.1", "lies outside the zone example.com"},
		{`a\.b A 192.0.2.1`, "left out: the name "},
		{"@ CNAME b.example.", "a CNAME stands alone at its name"},
		{"a CNAME b.example.\na A 192.0.2.1", "a CNAME stands alone at its name"},
		{"a CNAME a.example.com.", "leads back to this name"},
		{"a DS 1 13 2 " + strings.Repeat("ab", 32), "has DS records and is not delegated"},
		{"a NS ns.a.example.com.", "lies inside what it is to serve and has no addresses"},
		{"*.a NS ns.example.net.", "delegates a wildcard"},
		{"a HTTPS 1 . mandatory=port alpn=h2", "says that port is mandatory"},
		{"a SVCB 0 b.example.\na SVCB 1 c.example.", "which make it an alias"},
		{"a A 192.0.2.1\na A 192.0.2.1", "a value that stands there already"},
		{"a 60 A 192.0.2.1\na 30 A 192.0.2.2", ":3: changed: A records of a.example.com with the TTLs 30 and 60"},
		{"a 3000000000 A 192.0.2.1", "not well formed"},
	} {
		r, err := Import("-", strings.NewReader(soa+row.line+"\ngood A 192.0.2.9\n"), importer.Options{NS: []importer.NS{{Name: "ns.example.net"}}, Zone: "example.com"})
		if err != nil {
			t.Errorf("%s: %v", row.line, err)
			continue
		}
		var notes []string
		for _, n := range r.Notes {
			notes = append(notes, n.String())
		}
		if all := strings.Join(notes, "\n"); !strings.Contains(all, row.want) {
			t.Errorf("%s:\n%s\nwant %s", row.line, all, row.want)
		}
		if z := r.Docs[0].Resource.Zone; !strings.Contains(sets(z), "good A ") {
			t.Errorf("%s: the rest is lost too: %s", row.line, sets(z))
		}
	}
}

// What is no zone file, or is not the whole of one, is refused with its place.
//
// Covers: issue5 import zonefile, issue4 import hostile
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"$INCLUDE other.zone":             "stdin:1: includes another file",
		"a A (192.0.2.1":                  "stdin:1: has a ( without its )",
		"a A 192.0.2.1 )":                 "stdin:1: has a ) that does not belong there",
		"a TXT \"open\n":                  "stdin:1: has a \" without its end",
		"a A 192.0.2.1":                   "give it with --zone",
		strings.Repeat("(", 3):            "does not belong there",
		"@ SOA a b 1 2 3 4 5\n@ NS x.y. ": "give it with --zone",
	} {
		zone := ""
		if strings.HasPrefix(text, "$INCLUDE") {
			zone = "a.example"
		}
		_, err := Import("-", strings.NewReader(text), importer.Options{Zone: zone})
		var p *tree.Problem
		if !errors.As(err, &p) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	z, _ := imported(t, "@ SOA a b 1 2 3 4 5", importer.Options{Zone: "given.example"})
	if z.Zone != "given.example" || z.SOA.MName != "a.given.example" {
		t.Errorf("%+v", z)
	}
}

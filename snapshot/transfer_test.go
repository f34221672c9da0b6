package snapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/hidden"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

const secondaryZones = `apiVersion: steerpoint/v1
kind: Zone
name: gslb
zone: gslb.example.net
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
---
apiVersion: steerpoint/v1
kind: Zone
name: com
zone: example.com
steering: false
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
tsigKeys: [{name: xfr.example.com, secretFrom: {secret: keys, key: xfr}}]
transfer:
  to: [{name: knot, address: 192.0.2.99, tsigKey: xfr.example.com}]
  allow: [{prefix: 198.51.100.0/24}]
  steered: %s
records: [{name: mail, type: A, values: [192.0.2.25]}]
---
apiVersion: steerpoint/v1
kind: Zone
name: org
zone: example.org
steering: false
ns: [{name: ns9.example.com, addresses: [192.0.2.54]}]
`

const transferSecret = "c2VjcmV0LW9mLTMyLW9jdGV0cy10aGF0LWlzLXNlY3I="

// secondaryInput is secondaryZones with a service; its domains are given.
func secondaryInput(t *testing.T, steered, domains string) snapshot.DNSInput {
	t.Helper()
	shop := strings.Replace(dnsShop, "[www.example.com, www.elsewhere.test]", domains, 1)
	return dnsInput(t, fmt.Sprintf(secondaryZones, steered), shop+dnsDefault)
}

// zoned gives the serials by zone.
func zoned(d *snapshot.DNS) map[string]uint64 {
	out := map[string]uint64{}
	for i := range d.Zones {
		out[d.Zones[i].Name] = d.Serials[i]
	}
	return out
}

// TestSerialsMoveWithTheirZone: a switch moves the serial of zones that show it and of no others; a change of a record, of
// a name server's address that lies in a zone, or of a delegation moves the zones that hold it. After a restart serials go
// on, also over the file.
//
// Covers: issue5 serial, issue5 transfer
func TestSerialsMoveWithTheirZone(t *testing.T) {
	in := secondaryInput(t, "default", "[www.example.com]")
	var c snapshot.Compiler
	compile := func(com, org uint64) *snapshot.DNS {
		t.Helper()
		d, problems := c.Compile(in)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := zoned(d)
		if got["gslb.example.net."] != 0 || got["example.com."] != com || got["example.org."] != org {
			t.Errorf("version %d: %v, want %d and %d", in.Version, got, com, org)
		}
		in.Version++
		return d
	}
	edit := func(name string, change func(z *spec.Zone)) {
		in.Zones = slices.Clone(in.Zones)
		i := slices.IndexFunc(in.Zones, func(z *spec.Zone) bool { return z.Name == name })
		z := *in.Zones[i]
		change(&z)
		in.Zones[i] = &z
	}
	in.Version = 10
	compile(10, 10)
	compile(10, 10)
	in.Rules = map[string]snapshot.DNSRuleInput{"shop/default": {Decision: steering.Decision{Edge: "b", Seq: 2}}}
	in.Partial = true
	compile(12, 10) // a switch
	in.Rules = nil
	compile(12, 10)
	edit("org", func(z *spec.Zone) { z.NSTTL += spec.Duration(time.Second) })
	compile(14, 14) // ns9.example.com, of example.org, lies in example.com
	edit("org", func(z *spec.Zone) { z.SOA.Minimum += spec.Duration(time.Second) })
	compile(14, 15)
	edit("com", func(z *spec.Zone) { t := *z.Transfer; t.Allow = nil; z.Transfer = &t })
	d := compile(14, 15) // who may copy is not part of what is copied
	again := overTheWire(t, d)
	c, in.Previous, in.Partial = snapshot.Compiler{}, again, false
	in.Rules = map[string]snapshot.DNSRuleInput{"shop/default": {Decision: steering.Decision{Edge: "b", Seq: 2}}}
	compile(14, 15)
	in.Services = nil
	compile(18, 15)
}

// TestSerialsOfWhatIsNotCopied: a zone with steered names that are not transferred has the version of the map, and so has a
// configuration without any copy.
//
// Covers: issue5 serial
func TestSerialsOfWhatIsNotCopied(t *testing.T) {
	d, _ := snapshot.CompileDNS(secondaryInput(t, "refuse", "[www.example.com]"))
	if got := zoned(d); got["example.com."] != 0 || got["example.org."] == 0 {
		t.Errorf("%v", got)
	}
	plain := dnsInput(t, dnsZones, dnsShop+dnsDefault)
	for _, z := range plain.Zones {
		z.Steering = true
	}
	if d, _ := snapshot.CompileDNS(plain); d.Serials != nil || d.Serial(0) != uint32(plain.Version) {
		t.Errorf("%v", d.Serials)
	}
}

// TestTransferKeys: keys come from Secrets; while one does not open, the value from before stays, and it is said; a value
// that is no key is named and not shown.
//
// Covers: issue5 tsig, issue4 secret leaks
func TestTransferKeys(t *testing.T) {
	in := secondaryInput(t, "default", "[www.example.com]")
	value := transferSecret
	open := func(spec.SecretRef) (hidden.Text, error) {
		if value == "" {
			return hidden.Text{}, errors.New("it is shut")
		}
		return hidden.New(value), nil
	}
	first, problems := snapshot.TransferKeys(in.Zones, nil, open)
	if len(problems) > 0 || len(first) != 1 || first[0].Zone != "example.com." || first[0].Name != "xfr.example.com." ||
		first[0].Algorithm != "hmac-sha256" || first[0].Secret.Reveal() != transferSecret {
		t.Fatalf("%v, %v", first, problems)
	}
	if s := fmt.Sprintf("%v %+v %#v", first, snapshot.ServerSecrets{Keys: first}, first[0]); strings.Contains(s, transferSecret) {
		t.Error("a key shows")
	}
	for _, row := range []struct{ name, value, says string }{
		{"no base64", "not-a-key-" + transferSecret, "not base64"}, {"short", "c2hvcnQ=", "5 octets"}, {"shut", "", "is shut"},
	} {
		value = row.value
		keys, problems := snapshot.TransferKeys(in.Zones, first, open)
		if len(keys) != 1 || !keys[0].Equal(first[0]) || len(problems) != 1 || problems[0].Code != snapshot.ProblemKey || !problems[0].Kept {
			t.Fatalf("%s: %v, %v", row.name, keys, problems)
		}
		if text := problems[0].String(); !strings.Contains(text, row.says) || row.value != "" && strings.Contains(text, row.value) {
			t.Errorf("%s: %s", row.name, text)
		}
		keys, problems = snapshot.TransferKeys(in.Zones, nil, open)
		if len(keys) != 0 || len(problems) != 1 || problems[0].Kept {
			t.Errorf("%s, with none before: %v, %v", row.name, keys, problems)
		}
	}
}

// TestDeltaOfTransfers: what is sealed, serials and who may copy travel in deltas; a base that lacks them, as a node of an older
// version kept it, is noticed, and so is a damaged list.
//
// Covers: issue3 deltas, issue3 version skew, issue5 transfer
func TestDeltaOfTransfers(t *testing.T) {
	in := secondaryInput(t, "default", "[www.example.com]")
	in.Sealed = &snapshot.Sealed{Envelope: []byte("an envelope")}
	var c snapshot.Compiler
	before, _ := c.Compile(in)
	in.Version++
	same, _ := c.Compile(in)
	in.Version++
	in.Sealed = &snapshot.Sealed{Envelope: []byte("another envelope")}
	rekeyed, _ := c.Compile(in)
	in.Version++
	z := *in.Zones[1]
	z.Transfer = &spec.Transfer{Steered: "refuse"}
	in.Zones = []*spec.Zone{in.Zones[0], &z, in.Zones[2]}
	closed, _ := c.Compile(in)
	base := before
	for _, next := range []*snapshot.DNS{same, rekeyed, closed} {
		delta := overTheWire(t, snapshot.DiffDNS(base, next))
		got, err := delta.Apply(overTheWire(t, base))
		if err != nil || !got.Equal(next) {
			t.Fatalf("version %d: %v", next.Version, err)
		}
		older := overTheWire(t, base)
		older.Serials, older.Sealed = nil, nil
		if got, err := delta.Apply(older); !errors.Is(err, snapshot.ErrDigest) && !(err == nil && got.Equal(next)) {
			t.Errorf("version %d on the map of an older program: %v", next.Version, err)
		}
		delta.Transfers.Digest[3]++
		if _, err := delta.Apply(overTheWire(t, base)); !errors.Is(err, snapshot.ErrDigest) {
			t.Errorf("version %d damaged: %v", next.Version, err)
		}
		base = next
	}
	delta := snapshot.DiffDNS(before, same)
	if b, err := json.Marshal(delta); err != nil || !delta.Transfers.Same || delta.Sealed != nil || len(b) > 800 {
		t.Errorf("nothing changed, and all of it travels: %s, %v", b, err)
	}
	older := overTheWire(t, before)
	older.Serials, older.Sealed = nil, nil
	if _, err := overTheWire(t, delta).Apply(older); !errors.Is(err, snapshot.ErrDigest) {
		t.Errorf("a base without its lists: %v", err)
	}
	whole := overTheWire(t, snapshot.DiffDNS(nil, closed))
	if got, err := whole.Apply(nil); err != nil || !got.Equal(closed) {
		t.Errorf("whole: %v", err)
	}
}

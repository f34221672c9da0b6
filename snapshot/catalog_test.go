package snapshot

import (
	"slices"
	"strings"
	"testing"

	"steerpoint/spec"
)

// TestCatalogs: a catalog lists the zones that name it, in one order whatever the order they come in; a zone that comes adds
// one record and changes no other; what was given is left alone.
//
// Covers: issue5 catalog, rfc 9432 form
func TestCatalogs(t *testing.T) {
	zone := func(name, catalog string) *spec.Zone {
		return &spec.Zone{Name: strings.ReplaceAll(name, ".", "-"), Zone: spec.HostName(name), Transfer: &spec.Transfer{Catalog: spec.HostName(catalog)}}
	}
	cat, a, b := zone("catalog.example", ""), zone("a.example", "catalog.example"), zone("b.example", "catalog.example")
	other := zone("c.example", "")
	lines := func(zones ...*spec.Zone) []string {
		out := withCatalogs(zones)
		var lines []string
		for i, z := range out {
			if z.Zone != cat.Zone && z != zones[i] {
				t.Errorf("%s was touched", z.Zone)
			}
			for _, r := range z.Records {
				lines = append(lines, r.Name+" "+string(r.Type)+" "+r.Values[0])
			}
		}
		return lines
	}
	one, two := lines(cat, a, other), lines(b, cat, other, a)
	if len(one) != 2 || one[0] != "version TXT 2" || !strings.HasSuffix(one[1], ".zones PTR a.example.") {
		t.Errorf("%q", one)
	}
	if len(two) != 3 || !slices.Equal(two[:2], one) || !slices.Equal(lines(a, b, other, cat), two) || two[2][:32] == two[1][:32] {
		t.Errorf("%q", two)
	}
	if len(cat.Records) > 0 {
		t.Error("the zone that was given has records now")
	}
	if got := lines(zone("self.example", "self.example"), other); len(got) > 0 {
		t.Errorf("a catalog of itself: %q", got)
	}
	same := []*spec.Zone{other}
	if out := withCatalogs(same); &out[0] != &same[0] {
		t.Error("zones without a catalog were copied")
	}
}

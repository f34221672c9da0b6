package snapshot_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"steerpoint/snapshot"
)

// TestLongLists: what is done with long lists piece by piece comes out as if it were done at once: a map of so many services
// that its file has several pieces, and a delta that leaves long stretches between what it changes as they are.
//
// Covers: issue5 map file, issue5 incremental
func TestLongLists(t *testing.T) {
	const services = 40_000
	rules := []snapshot.DNSRule{{Rule: "all", Scope: "*", TTL: time.Minute, Choices: []snapshot.DNSChoice{{Edge: "e", Target: "e.example.org."}}}}
	made := &snapshot.DNS{Version: 1, Created: time.Unix(1, 0).UTC(), At: time.Second, Zones: []snapshot.DNSZone{{Name: "example.net."}}}
	for i := range services {
		name := fmt.Sprintf("a-service-with-a-name-%05d", i)
		made.Services = append(made.Services, &snapshot.DNSService{Name: name, Zone: "example.net.", CNAME: name + ".example.net.", Table: snapshot.NoTable, Rules: rules, Revision: 1})
	}
	base, err := snapshot.DiffDNS(nil, made).Apply(nil)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := base.MarshalMap()
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) < 20 { // a length and a piece each, of eight parts
		t.Errorf("%d pieces", len(parts))
	}
	read, err := snapshot.UnmarshalMap(snapshot.MapVersion, marshalled(t, base))
	if err != nil || !read.Equal(base) || read.Digest() != base.Digest() {
		t.Fatalf("another map comes out of the file: %v", err)
	}

	next := *base
	next.Version = 2
	next.Services = slices.Clone(base.Services)
	was := base.Services[services/2]
	next.Services[services/2] = &snapshot.DNSService{
		Name: was.Name, Zone: was.Zone, CNAME: was.CNAME, Table: was.Table, Rules: rules, NegativeTTL: time.Hour, Revision: 2,
	}
	next.Services = slices.Delete(next.Services, services-3, services-2)
	got, err := snapshot.DiffDNS(base, &next).Apply(base)
	if err != nil || !got.Equal(&next) || len(got.Services) != services-1 || got.Services[0] != base.Services[0] {
		t.Fatalf("the delta leads to another map: %v", err)
	}
}

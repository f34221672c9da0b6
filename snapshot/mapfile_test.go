package snapshot_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/steering/scope"
)

// marshalled is a map in its compact form, in one piece.
func marshalled(t testing.TB, d *snapshot.DNS) []byte {
	t.Helper()
	parts, err := d.MarshalMap()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(parts, nil)
}

// fill sets every field that can be set to a value of its own, so that what is lost on the way shows.
func fill(v reflect.Value, next *int64) {
	*next++
	if v.CanInterface() {
		switch v.Interface().(type) {
		case netip.Addr:
			v.Set(reflect.ValueOf(netip.AddrFrom4([4]byte{10, byte(*next >> 16), byte(*next >> 8), byte(*next)})))
			return
		case time.Time:
			v.Set(reflect.ValueOf(time.Unix(*next, 0).UTC()))
			return
		case *geo.Table:
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), next)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), next)
		fill(v.Index(1), next)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.String:
		v.SetString(fmt.Sprint("text", *next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		v.SetInt(*next)
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		v.SetUint(uint64(*next) % 250)
	}
}

// TestMapFile: a map comes out of its file as it went in: every field there is, whoever adds one. Digests stay what they
// are.
//
// Covers: A2, issue5 map file
func TestMapFile(t *testing.T) {
	full := new(snapshot.DNS)
	next := int64(1000)
	for _, part := range []any{&full.Zones, &full.Services} {
		fill(reflect.ValueOf(part).Elem(), &next)
	}
	full.Version, full.Created, full.At = 7, time.Unix(1, 5).UTC(), time.Hour
	table, err := geo.Compile(geo.New(), []scope.Scope{{CIDR: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, {Any: true}})
	if err != nil {
		t.Fatal(err)
	}
	full.Tables = []*geo.Table{nil, table}
	full.Services[0].CNAME = full.Services[0].Name + ".example." // the usual form, which is kept in another way
	before, after := shopMaps(t)
	for name, d := range map[string]*snapshot.DNS{"every field": full, "compiled": after, "compiled before": before, "empty": {Version: 3}} {
		got, err := snapshot.UnmarshalMap(snapshot.MapVersion, marshalled(t, d))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(asJSON(t, d), asJSON(t, got)); diff != "" || !got.Equal(d) || got.Digest() != d.Digest() {
			t.Errorf("%s: not what was kept:\n%s", name, diff)
		}
	}
}

// TestMapFileOfTheVersionBefore: the form of the versions before is read, and one with a service missing is refused. The file
// in testdata was written by the first version that had the compact form; it must be read for ever.
//
// Covers: A2, issue5 map file
func TestMapFileOfTheVersionBefore(t *testing.T) {
	compact, err := os.ReadFile("testdata/map.v2")
	if err != nil {
		t.Fatal(err)
	}
	for version, data := range map[int][]byte{1: []byte(digestedMap), 2: compact} {
		d, err := snapshot.UnmarshalMap(version, data)
		if err != nil || d.Digest() != "18208f5aaba6b3ce6458bbbf5cbf6ef9d0180ff97a8549bc283a37a9231e71cd" {
			t.Errorf("version %d: %+v, %v", version, d, err)
		}
	}
	for _, text := range []string{"", "[]", `{"version":1,"services":[null]}`} {
		if _, err := snapshot.UnmarshalMap(1, []byte(text)); err == nil || !strings.Contains(err.Error(), "not a map") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// TestMapFileShares: services with equal rules share one list of them when they come from disk, and a delta on them is what
// it is on any.
//
// Covers: A8, issue5 map file
func TestMapFileShares(t *testing.T) {
	before, after := shopMaps(t)
	twin := *before.Services[0]
	twin.Name, twin.CNAME = "twin", "twin."+twin.Zone
	more := *before
	more.Services = []*snapshot.DNSService{before.Services[0], before.Services[1], &twin}
	got, err := snapshot.UnmarshalMap(snapshot.MapVersion, marshalled(t, &more))
	if err != nil {
		t.Fatal(err)
	}
	if &got.Services[0].Rules[0] != &got.Services[2].Rules[0] || &got.Services[0].Rules[0] == &got.Services[1].Rules[0] {
		t.Error("want the rules of the first and the third service in one place, and those of the second in another")
	}
	kept, err := snapshot.UnmarshalMap(snapshot.MapVersion, marshalled(t, before))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := snapshot.DiffDNS(before, after).Apply(kept); err != nil || !d.Equal(after) {
		t.Errorf("a delta on what was kept: %v", err)
	}
}

// FuzzMapFile: whatever octets stand in a file, reading it does not panic nor ask for much memory, and what it makes can be
// kept again as it is.
//
// Covers: A2, issue5 map file
func FuzzMapFile(f *testing.F) {
	// Small ones: what takes a millisecond to read is not read often.
	small := new(snapshot.DNS)
	if err := json.Unmarshal([]byte(digestedMap), small); err != nil {
		f.Fatal(err)
	}
	f.Add(marshalled(f, small))
	table, err := geo.Compile(geo.New(), []scope.Scope{{CIDR: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, {Any: true}})
	if err != nil {
		f.Fatal(err)
	}
	small.Tables = append(small.Tables, table)
	twin := *small.Services[0]
	twin.Name, twin.CNAME = "twin", "other."
	small.Services = append(small.Services, &twin)
	f.Add(marshalled(f, small))
	f.Add(marshalled(f, &snapshot.DNS{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := snapshot.UnmarshalMap(snapshot.MapVersion, data)
		if err != nil {
			return
		}
		parts, err := d.MarshalMap()
		if err != nil {
			return // a time that cannot be written
		}
		again, err := snapshot.UnmarshalMap(snapshot.MapVersion, bytes.Join(parts, nil))
		if err != nil {
			t.Fatalf("kept again, it cannot be read: %v", err)
		}
		a, errA := json.Marshal(d)
		b, errB := json.Marshal(again)
		if errA == nil && errB == nil && !bytes.Equal(a, b) {
			t.Errorf("kept again, it is\n%s\nwas\n%s", b, a)
		}
	})
}

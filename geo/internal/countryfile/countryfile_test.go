package countryfile_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steerpoint/geo/internal/countryfile"
	"steerpoint/geo/internal/ranges"
)

func table() *countryfile.Table {
	return &countryfile.Table{
		Date: time.Date(2026, 6, 17, 0, 0, 0, 0, time.UTC), Source: "src", Licence: "lic", Credit: "",
		Countries: []string{"CN", "FR"},
		V4:        ranges.Runs[ranges.V4, uint16]{Starts: []ranges.V4{0, 256}, Values: []uint16{0, 2}},
		V6:        ranges.Uniform[ranges.V6](uint16(1)),
	}
}

// TestGoldenBytes pins the unpacked file; packing differs between releases of Go.
func TestGoldenBytes(t *testing.T) {
	packed, err := countryfile.Encode(table())
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	want := "53474301" + // SGC, version 1
		"0a" + hex.EncodeToString([]byte("2026-06-17")) + "03" + hex.EncodeToString([]byte("src")) + "03" + hex.EncodeToString([]byte("lic")) + "00" +
		"02" + hex.EncodeToString([]byte("CNFR")) +
		"02" + "00" + "800202" + // IPv4: 0 unknown, 256 on FR
		"01" + "01" // IPv6: all CN
	if got := hex.EncodeToString(raw[:len(raw)-4]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, err := countryfile.Decode(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table(), back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// TestRefused proves that a table that names a country it does not list, and one that is damaged, are not read.
func TestRefused(t *testing.T) {
	bad := table()
	bad.V6 = ranges.Uniform[ranges.V6](uint16(3))
	packed, err := countryfile.Encode(bad)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := countryfile.Decode(packed); err == nil {
		t.Error("value 3 of 2 countries is read")
	}
	bad = table()
	bad.Countries[0] = "CHN"
	if _, err := countryfile.Encode(bad); err == nil {
		t.Error("a country of three letters is written")
	}
	packed, err = countryfile.Encode(table())
	if err != nil {
		t.Fatal(err)
	}
	for n := range packed {
		if _, err := countryfile.Decode(packed[:n]); err == nil {
			t.Errorf("cut to %d bytes it is read", n)
		}
	}
}

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

const (
	zoneName = "example.test"
	few      = 1000
	many     = 1_000_000
	// asked is how many different names a file of questions has at most.
	asked = 100_000
	// madeUp is how many names that there are not a flood asks for before it repeats one: more than any server answers in
	// the seconds of a round, and far more than a cache of denials keeps.
	madeUp = 300_000
	// hostAddress is what every host has.
	hostAddress = "192.0.2.18"
	networks    = 100_000
	// The client subnet of the geo workload, in the United States by the database, and as dnsperf wants the option.
	subnet     = "198.51.100.0/24"
	subnetECS  = "8:00011800c63364"
	subnetGets = "192.0.2.11"
)

// places are what the database knows: where, and the edge that its clients get.
var places = []struct {
	continent, country, city string
	lat, lon                 float64
	edge                     string
}{
	{"AS", "CN", "Beijing", 39.9, 116.4, "192.0.2.10"},
	{"NA", "US", "San Jose", 37.3, -121.9, subnetGets},
	{"EU", "DE", "Frankfurt", 50.1, 8.7, "192.0.2.12"},
	{"AS", "SG", "Singapore", 1.35, 103.8, "192.0.2.13"},
}

// workload is one kind of question.
type workload struct {
	name, file string
	geo        bool
	// swap: while it is asked the server gets another map each second; ours only.
	swap bool
	// signed: signatures are asked for, and an answer without one is wrong.
	signed bool
	flags  []string
	// ask makes the i-th name that is asked, to look at its answer; want is the address that it has, or "NXDOMAIN".
	ask  func(i int) string
	want string
	// like is the workload whose rate this one is held against; "": none.
	like string
}

func host(i int) string   { return fmt.Sprintf("h%d.%s", i, zoneName) }
func nobody(i int) string { return fmt.Sprintf("nx%d.%s", i, zoneName) }
func steered(int) string  { return "geo." + zoneName }

// phase is a zone, and what is asked of it.
type phase struct {
	name      string
	names     int
	signed    bool
	workloads []workload
}

var ecs = []string{"-e", "-E", subnetECS}

var phases = []phase{
	{"small", few, false, []workload{
		{name: "static", file: "q-static", ask: host, want: hostAddress},
		{name: "nxdomain", file: "q-nx", ask: nobody, want: "NXDOMAIN"},
		{name: "geo", file: "q-geo", geo: true, flags: ecs, ask: steered, want: subnetGets},
		{name: "flood", file: "q-flood", ask: host, want: hostAddress, like: "static"},
		{name: "static, swaps", file: "q-static", swap: true, ask: host, want: hostAddress, like: "static"},
		{name: "geo, swaps", file: "q-geo", geo: true, swap: true, flags: ecs, ask: steered, want: subnetGets, like: "geo"},
	}},
	{"signed", few, true, []workload{
		{name: "signed", file: "q-static", signed: true, flags: []string{"-D"}, ask: host, want: hostAddress},
		{name: "signed, flood", file: "q-flood", signed: true, flags: []string{"-D"}, ask: host, want: hostAddress, like: "signed"},
	}},
	{"million", many, false, []workload{
		{name: "million", file: "q-static", ask: host, want: hostAddress},
		{name: "million, swaps", file: "q-static", swap: true, ask: host, want: hostAddress, like: "million"},
	}},
}

// writeData writes a zone of n hosts, the questions and the geo database.
func writeData(dir string, n int) error {
	var zone, static, nx, flood strings.Builder
	fmt.Fprintf(&zone, "$ORIGIN %s.\n$TTL 300\n@ IN SOA ns1 hostmaster 1 3600 600 604800 60\n@ IN NS ns1\nns1 IN A 127.0.0.1\n", zoneName)
	for i := range n {
		fmt.Fprintf(&zone, "h%d IN A %s\n", i, hostAddress)
	}
	random := rand.New(rand.NewPCG(1, 2))
	names := random.Perm(n)[:min(n, asked)]
	for _, i := range names {
		fmt.Fprintf(&static, "%s A\n", host(i))
		fmt.Fprintf(&nx, "%s A\n", nobody(i))
	}
	for i := range madeUp { // a name that was never asked before for each that there is
		fmt.Fprintf(&flood, "%s A\n%016x.%s A\n", host(names[i%len(names)]), random.Uint64(), zoneName)
	}
	for file, text := range map[string]string{
		"zone": zone.String(), "q-static": static.String(), "q-nx": nx.String(), "q-flood": flood.String(), "q-geo": "geo." + zoneName + " A\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return writeGeo(filepath.Join(dir, "geo.mmdb"))
}

// writeGeo writes a database in the City layout: networks of /24 at random places, the same ones each time.
func writeGeo(file string) error {
	w, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoIP2-City", RecordSize: 28, IncludeReservedNetworks: true})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(3, 4))
	insert := func(ip net.IP, place int) error {
		p := places[place]
		name := func(s string) mmdbtype.Map { return mmdbtype.Map{"en": mmdbtype.String(s)} }
		return w.Insert(&net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}, mmdbtype.Map{
			"continent": mmdbtype.Map{"code": mmdbtype.String(p.continent), "names": name(p.continent)},
			"country":   mmdbtype.Map{"iso_code": mmdbtype.String(p.country), "names": name(p.country)},
			"city":      mmdbtype.Map{"names": name(p.city)},
			"location":  mmdbtype.Map{"latitude": mmdbtype.Float64(p.lat), "longitude": mmdbtype.Float64(p.lon)},
		})
	}
	for range networks {
		ip := make(net.IP, 4)
		binary.BigEndian.PutUint32(ip, (16+random.Uint32N(100))<<24|random.Uint32N(1<<16)<<8)
		if err := insert(ip, random.IntN(len(places))); err != nil {
			return err
		}
	}
	if err := insert(net.IPv4(198, 51, 100, 0).To4(), 1); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := w.WriteTo(f); err != nil {
		return err
	}
	return f.Close()
}

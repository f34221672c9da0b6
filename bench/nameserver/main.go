// Command nameserver is the name server plane by itself, with a made-up map of many names: what make bench-dns asks when
// there are a million, and what says how long a start from disk takes and how much memory a name needs.
//
// Usage: nameserver -state FILE [-make] [-names N] [-scopes N] [-lists N] [-listen ADDR] [-sockets N].
// With -make it writes the map, and beside it the deltas to the next maps, in each of which one service moves, and ends.
// Otherwise it starts from the map, says what that took, and answers until it is interrupted; at each SIGUSR1 it takes the
// next delta, as a node gets it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns"
	"steerpoint/geo"
	"steerpoint/snapshot"
	"steerpoint/steering/scope"
)

const zoneName = "example.test."

type config struct {
	state, listen                 string
	names, scopes, lists, sockets int
	make                          bool
}

func main() {
	var c config
	flag.StringVar(&c.state, "state", "", "`file` of the map")
	flag.BoolVar(&c.make, "make", false, "write the map and end")
	flag.IntVar(&c.names, "names", 1_000_000, "services, each with one name")
	flag.IntVar(&c.scopes, "scopes", 40, "rules of each service")
	flag.IntVar(&c.lists, "lists", 1000, "different sets of answers")
	flag.StringVar(&c.listen, "listen", "127.0.0.1:5300", "`address` to answer on")
	flag.IntVar(&c.sockets, "sockets", 0, "UDP sockets; 0: one a processor")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nameserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	most := len(strings.Fields(countryCodes)) + 1
	if c.state == "" || c.names < 1 || c.scopes < 1 || c.lists < 1 || c.scopes > most {
		return fmt.Errorf("want -state FILE, at least one of everything, and at most %d scopes", most)
	}
	listen, err := netip.ParseAddrPort(c.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if c.make {
		return write(c)
	}
	began := time.Now()
	s, err := authdns.New(authdns.Config{
		Listen: []netip.AddrPort{listen}, Sockets: c.sockets, StateFile: c.state,
	}, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	took := time.Since(began)
	if s.Map().Version == 0 {
		return errors.Join(errors.New("there is no map to start from: make one with -make"), s.Close())
	}
	fmt.Printf("started from disk in %.2f s: %d names\n", took.Seconds(), s.Map().Names)
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("heap %d MiB, %.0f octets a name; resident %s\n", m.HeapAlloc>>20, float64(m.HeapAlloc)/float64(s.Map().Names), resident())
	next, err := os.Open(c.state + ".deltas")
	if err != nil {
		return errors.Join(err, s.Close())
	}
	defer next.Close()
	failed := make(chan error, 1)
	go func() { failed <- swaps(ctx, s, bufio.NewReader(next)) }()
	return errors.Join(s.Run(ctx), <-failed)
}

// resident is the memory of this process as the kernel counts it.
func resident() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// write makes the map and keeps it, by a name server that is stopped as soon as it has it.
func write(c config) error {
	d, err := makeMap(c)
	if err != nil {
		return err
	}
	parts, err := d.MarshalMap()
	if err != nil {
		return err
	}
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	s, err := authdns.New(authdns.Config{Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, StateFile: c.state},
		prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.Swap(d); err != nil {
		return errors.Join(err, s.Close())
	}
	built := time.Since(began)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what was given is kept at the end
	began = time.Now()
	err = s.Run(ctx)
	if err := writeDeltas(d, c.state+".deltas"); err != nil {
		return err
	}
	fmt.Printf("%d services with %d rules: built in %.2f s, written in %.2f s, %d MiB\n",
		c.names, c.scopes, built.Seconds(), time.Since(began).Seconds(), size>>20)
	return err
}

// makeMap is a map of one zone. Every service has one rule a country and one for the rest; its answers are one of a number
// of sets, as where many services are on the same edges.
func makeMap(c config) (*snapshot.DNS, error) {
	source, err := geo.Builtin()
	if err != nil {
		return nil, err
	}
	scopes, countries := make([]scope.Scope, 0, c.scopes), strings.Fields(countryCodes)
	for i := range c.scopes - 1 {
		scopes = append(scopes, scope.Scope{Country: []string{countries[i]}})
	}
	slices.SortFunc(scopes, scope.Compare)
	scopes = append(scopes, scope.Scope{Any: true})
	table, err := geo.Compile(geo.New(source), scopes)
	if err != nil {
		return nil, err
	}
	ns := snapshot.NameServer{Name: "ns1." + zoneName, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	d := &snapshot.DNS{
		Version: 1, Created: time.Now().UTC(), At: time.Second, Tables: []*geo.Table{table},
		Zones: []snapshot.DNSZone{{
			Name: zoneName, NS: []snapshot.NameServer{ns}, NSTTL: time.Hour,
			SOA: snapshot.SOA{MName: ns.Name, RName: "hostmaster." + zoneName, Refresh: time.Hour, Retry: time.Hour, Expire: time.Hour, Minimum: time.Minute},
		}},
	}
	lists := make([][]snapshot.DNSRule, c.lists)
	for i := range lists {
		lists[i] = rules(i, scopes)
	}
	for i := range c.names {
		name := "h" + strconv.Itoa(i)
		d.Services = append(d.Services, &snapshot.DNSService{
			Name: name, Zone: zoneName, CNAME: name + "." + zoneName, NegativeTTL: 30 * time.Second, Made: time.Second, Revision: 1,
			Rules: lists[i%len(lists)], Table: tableFor(scopes),
		})
	}
	slices.SortFunc(d.Services, func(a, b *snapshot.DNSService) int { return strings.Compare(a.Name, b.Name) })
	return snapshot.DiffDNS(nil, d).Apply(nil) // with the hashes of its parts, as a node has it
}

func tableFor(scopes []scope.Scope) int {
	if len(scopes) == 1 {
		return snapshot.NoTable
	}
	return 0
}

// countryCodes are those that rules are made for.
const countryCodes = "AR AT AU BD BE BG BR CA CH CL CN CO CZ DE DK EG ES FI FR GB GR HK HU ID IE IL IN IT JP KE KR LT MA MX MY NG NL NO NZ PE PH PK PL PT RO RU SA SE SG TH TR TW UA US VN ZA"

// rules is one set of answers: each country has an address of the set, everybody else the one that bench-dns expects.
func rules(set int, scopes []scope.Scope) []snapshot.DNSRule {
	list := make([]snapshot.DNSRule, len(scopes))
	for i, s := range scopes {
		a := netip.AddrFrom4([4]byte{10, byte(set >> 8), byte(set), byte(i)})
		if s.Any {
			a = netip.MustParseAddr("192.0.2.18")
		}
		list[i] = snapshot.DNSRule{
			Rule: "r" + strconv.Itoa(i), Scope: s.Canonical(), Decision: 1, TTL: 300 * time.Second, MinTTL: 5 * time.Second,
			Choices: []snapshot.DNSChoice{{Edge: "e" + strconv.Itoa(i), Weight: 50, A: []netip.Addr{a}, HasA: true}},
		}
	}
	return list
}

// maxDeltas is how many there are.
const maxDeltas = 200

// writeDeltas keeps the deltas to the next maps: one service moves in each.
func writeDeltas(d *snapshot.DNS, file string) error {
	var out bytes.Buffer
	for n := range maxDeltas {
		next := &snapshot.DNS{
			Version: d.Version + 1, Created: time.Now().UTC(), At: d.At + time.Second,
			Zones: d.Zones, Tables: d.Tables, Services: slices.Clone(d.Services),
		}
		was := d.Services[n%len(d.Services)]
		moved := &snapshot.DNSService{
			Name: was.Name, Zone: was.Zone, CNAME: was.CNAME, NegativeTTL: was.NegativeTTL, Table: was.Table,
			Rules: slices.Clone(was.Rules), Made: next.At, Revision: next.Version,
		}
		moved.Rules[0].Decision++
		next.Services[n%len(d.Services)] = moved
		delta := snapshot.DiffDNS(d, next)
		line, err := json.Marshal(delta)
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
		if d, err = delta.Apply(d); err != nil {
			return err
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// swaps puts the next map in place at each signal, by a delta on the one before.
func swaps(ctx context.Context, s *authdns.Server, deltas *bufio.Reader) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
		}
		line, err := deltas.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			fmt.Println("there are no more deltas")
			continue
		}
		if err != nil {
			return err
		}
		var delta snapshot.DNSDelta
		if err := json.Unmarshal(line, &delta); err != nil {
			return err
		}
		began := time.Now()
		d, err := delta.Apply(s.Current())
		if err != nil {
			return err
		}
		applied := time.Since(began)
		if err := s.Swap(d); err != nil {
			return err
		}
		fmt.Printf("map %d: delta applied in %s, in place in %s\n", d.Version, applied, time.Since(began)-applied)
	}
}

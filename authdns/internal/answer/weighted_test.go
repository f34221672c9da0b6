package answer

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
)

func weightedRule(weights ...float64) *rule {
	r := &rule{offer: &offer{}}
	for i, w := range weights {
		name := fmt.Sprint("edge", i)
		r.choices = append(r.choices, choice{edge: name, weight: w, hash: nameHash("shop", name)})
	}
	return r
}

func blocks(n int) (out []netip.Addr) {
	for i := range n {
		out = append(out, netip.AddrFrom4([4]byte{byte(i>>16) + 1, byte(i >> 8), byte(i), 77}))
	}
	return out
}

// TestWeightedShares: shares follow the weights, within what 20,000 blocks allow (five standard deviations).
//
// Covers: decisions 3, field 67
func TestWeightedShares(t *testing.T) {
	for _, weights := range [][]float64{{80, 20}, {50, 50, 50}, {1, 1000}, {1000, 1, 500, 30}} {
		r, n := weightedRule(weights...), 20_000
		count, sum := map[string]int{}, 0.0
		for _, a := range blocks(n) {
			count[weighted(r.choices, a).edge]++
		}
		for _, w := range weights {
			sum += w
		}
		for i, w := range weights {
			share := w / sum
			want, dev := share*float64(n), math.Sqrt(float64(n)*share*(1-share))
			if got := float64(count[fmt.Sprint("edge", i)]); math.Abs(got-want) > 5*dev {
				t.Errorf("weights %v: edge%d got %v of %d, want %.0f +- %.0f", weights, i, got, n, want, 5*dev)
			}
		}
	}
}

// TestWeightedMovesLittle: raising one weight moves clients to it only; an edge that leaves moves only its own.
//
// Covers: decisions 3
func TestWeightedMovesLittle(t *testing.T) {
	before, raised, left := weightedRule(50, 50, 50), weightedRule(50, 90, 50), weightedRule(50, 50, 50)
	left.choices = left.choices[:2]
	moved := 0
	for _, a := range blocks(5000) {
		was := weighted(before.choices, a).edge
		if now := weighted(raised.choices, a).edge; now != was {
			moved++
			if now != "edge1" {
				t.Fatalf("%s moved from %s to %s when edge1's weight grew", a, was, now)
			}
		}
		if now := weighted(left.choices, a).edge; was != "edge2" && now != was {
			t.Fatalf("%s moved from %s to %s when edge2 left", a, was, now)
		}
	}
	// edge1's share goes from 1/3 to 9/19: 14 % of the clients.
	if moved < 500 || moved > 900 {
		t.Errorf("%d of 5000 moved, want about 702", moved)
	}
}

// TestWeightedIsSticky: every client of a /24 or /48 gets one edge, with and without a client subnet.
//
// Covers: decisions 3
func TestWeightedIsSticky(t *testing.T) {
	r := newResponder(t, dnstest.Map(t))
	seen := map[string]bool{}
	for block := range 60 {
		first := ""
		for host := range 8 {
			client := netip.AddrFrom4([4]byte{198, 18, byte(block), byte(host * 30)})
			for _, q := range []*dns.Msg{
				dnstest.Query("split.gslb.example.net.", dns.TypeA),
				dnstest.Query("split.gslb.example.net.", dns.TypeA, dnstest.ECS(client.String()+"/32")),
			} {
				from := client
				if len(q.IsEdns0().Option) > 0 {
					from = resolver
				}
				got := brief(ask(t, r, q, from))
				if first == "" {
					first = got
				}
				if got != first {
					t.Fatalf("%s: %s and %s in one /24", client, first, got)
				}
			}
		}
		seen[first] = true
	}
	if len(seen) != 2 {
		t.Errorf("60 blocks all got %v", seen)
	}
}

// TestWeightedWithinTheFamily: no client that asks for IPv4 is sent to an edge that has none while another has.
//
// Covers: decisions 3, field 44
func TestWeightedWithinTheFamily(t *testing.T) {
	a, aaaa, name := &rrset{}, &rrset{}, &rrset{}
	six, four, both, vendor := choice{edge: "six", aaaa: aaaa}, choice{edge: "four", a: a}, choice{edge: "both", a: a, aaaa: aaaa}, choice{edge: "vendor", cname: name}
	for _, tt := range []struct {
		choices []choice
		k       kind
		want    string
	}{
		{[]choice{six, four, both}, kindA, "four both "},
		{[]choice{six, four, both}, kindAAAA, "six both "},
		{[]choice{six, four, both}, kindANY, "six four both "},
		{[]choice{six}, kindA, "six "},
		{[]choice{six, four, vendor}, kindA, "six four vendor "},
	} {
		got := ""
		for _, c := range eligible(tt.choices, tt.k) {
			got += c.edge + " "
		}
		if got != tt.want {
			t.Errorf("kind %d: weighed over %q, want %q", tt.k, got, tt.want)
		}
	}
}

package answer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestNodeTable: through random changes, a table holds what a map holds, and every table it was made from holds what it
// held.
//
// Covers: A8, issue5 incremental
func TestNodeTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	table, want := newNodeTable(1000), map[string]*node{}
	check := func(step int, table *nodeTable, want map[string]*node) {
		t.Helper()
		seen := 0
		table.each(func(n *node) {
			if seen++; want[n.name] != n {
				t.Fatalf("step %d: the table holds %q", step, n.name)
			}
		})
		if seen != len(want) || table.count != len(want) {
			t.Fatalf("step %d: %d nodes, counted %d, want %d", step, seen, table.count, len(want))
		}
		for i := range 3000 {
			name := fmt.Sprint(i)
			if got := table.get([]byte(name)); got != want[name] {
				t.Fatalf("step %d: %q is %v, want %v", step, name, got, want[name])
			}
		}
	}
	type version struct {
		table nodeTable
		want  map[string]*node
	}
	var old []version
	for step := range 40 {
		for range 1 + rng.IntN(400) {
			name := fmt.Sprint(rng.IntN(3000))
			if want[name] != nil && rng.IntN(2) == 0 {
				table.remove(name)
				delete(want, name)
				continue
			}
			n := &node{name: name}
			table.put(n)
			want[name] = n
		}
		table.seal()
		check(step, &table, want)
		old = append(old, version{table, maps.Clone(want)})
		table = table.edit()
	}
	for step, v := range old {
		check(step, &v.table, v.want)
	}
}

// TestNodeTableCrowded: names of one shard, whose places meet, are told apart, and removing one loses no other.
//
// Covers: A8, issue5 incremental
func TestNodeTableCrowded(t *testing.T) {
	for round := range 10 {
		table, want := newNodeTable(0), map[string]*node{}
		for i := range 200 {
			n := &node{name: fmt.Sprint(round, " ", i)}
			table.put(n)
			want[n.name] = n
		}
		for name := range want { // in another order each round
			table.remove(name)
			delete(want, name)
			if table.get([]byte(name)) != nil {
				t.Fatalf("%q is still there", name)
			}
			for k, n := range want {
				if table.get([]byte(k)) != n {
					t.Fatalf("%q is lost with %q", k, name)
				}
			}
		}
		if table.count != 0 {
			t.Fatalf("%d are left", table.count)
		}
	}
}

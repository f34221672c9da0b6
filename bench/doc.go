// Package bench measures the paths whose speed is promised, from outside: each benchmark uses what a plane would use.
//
// make bench runs them and writes results/; bars.tsv has the promises. There are no peers here yet: name servers are
// compared by make bench-dns, which comes with the fast path.
package bench

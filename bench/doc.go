// Package bench measures the paths whose speed is promised, from outside: each benchmark uses what a plane would use.
//
// make bench runs them and writes results/; bars.tsv has the promises. Name servers are compared by make bench-dns
// (tools/dnsbench), which also asks bench/nameserver, our name server alone with a million names; gateways by make bench-edge
// (tools/edgebench), before the origin in bench/gateway.
package bench

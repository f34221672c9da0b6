// Package lab is a small internet on one machine, for tests: a handful of hosts, each a network namespace of its own,
// joined by a user-space wide-area network that delays, jitters, loses, limits and cuts, for each ordered pair of hosts
// on its own, IPv4 and IPv6, changed while it runs.
//
// It needs Linux, root and /dev/net/tun, nothing else: no netem, no bridge, no program. [Missing] says what is not there.
//
//	l, err := lab.New(lab.Config{Hosts: []string{"ctl", "p1", "e1"}})
//	err = l.Link("p1", "e1", "delay=20ms", "jitter=2ms", "loss=10%")
//	err = l.Start("p1", exec.Command("steer", "node"))
//	err = l.Cut("p1", "e1")
//
// The namespaces have no names: they live as long as the process that made the lab holds them open. So there is nothing
// to clean up after a crash: when that process ends, in whatever way, the kernel kills the programs that were started in
// the lab, and with the last of them the namespaces are gone.
//
// The stories in testdata run real steer processes on such hosts; story_test.go lists their commands.
package lab

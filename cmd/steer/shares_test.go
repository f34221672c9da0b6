package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// networks is how many /24 networks shares asks for. What each is answered is a hash of it: the same in every run.
const networks = 3000

// shares is the program `shares NAME FILE [BEFORE]`: it asks $DNS for the address of NAME on behalf of clients in many
// networks, writes who was answered what to FILE, and prints how many were given each address. With BEFORE, the FILE of
// an earlier time, it prints who was moved: "FROM -> TO COUNT".
func shares() {
	if err := countShares(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shares:", err)
		os.Exit(1)
	}
}

func countShares(args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: shares NAME FILE [BEFORE]")
	}
	now, err := askForAll(args[0])
	if err != nil {
		return err
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[1], b, 0o600); err != nil {
		return err
	}
	count := map[string]int{}
	for _, answer := range now {
		count[answer]++
	}
	if len(args) == 3 {
		if b, err = os.ReadFile(args[2]); err != nil {
			return err
		}
		before := map[string]string{}
		if err := json.Unmarshal(b, &before); err != nil {
			return err
		}
		for network, answer := range now {
			if was := before[network]; was != answer {
				count[was+" -> "+answer]++
			}
		}
	}
	lines := make([]string, 0, len(count))
	for what, n := range count {
		lines = append(lines, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(lines)
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

// askForAll gives the addresses that each network is answered, in order.
func askForAll(name string) (map[string]string, error) {
	c := dns.Client{Timeout: 10 * time.Second}
	conn, err := c.Dial(os.Getenv("DNS"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all := make(map[string]string, networks)
	for i := range networks {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), 0}), 24)
		in, _, err := c.ExchangeWithConn(question(name, dns.TypeA, subnet), conn)
		if err != nil {
			return nil, fmt.Errorf("for %v: %w", subnet, err)
		}
		var answers []string
		for _, rr := range in.Answer {
			answers = append(answers, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		slices.Sort(answers)
		all[subnet.String()] = strings.Join(answers, ",")
	}
	return all, nil
}

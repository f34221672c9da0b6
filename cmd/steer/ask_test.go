package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// ask is the program `ask NAME TYPE [SUBNET]`: one DNS query over UDP to $DNS, as a resolver would send it. It prints
// the rcode, one line a record, the authority section, and the scope of the client-subnet option if one comes back.
func ask() {
	if err := query(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

func query(args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("usage: ask NAME TYPE [SUBNET]")
	}
	qtype, ok := dns.StringToType[args[1]]
	if !ok {
		return fmt.Errorf("no such type: %s", args[1])
	}
	var subnet netip.Prefix
	if len(args) == 3 {
		var err error
		if subnet, err = netip.ParsePrefix(args[2]); err != nil {
			return err
		}
	}
	m := question(args[0], qtype, subnet)
	c := dns.Client{Timeout: 10 * time.Second} // of a machine that does ten things, not of the server
	in, _, err := c.Exchange(m, os.Getenv("DNS"))
	if err != nil {
		return err
	}
	printAnswer(in)
	return nil
}

// question is a query as a resolver sends it; a subnet that is not valid is left out.
func question(name string, qtype uint16, subnet netip.Prefix) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	m.RecursionDesired = false
	m.SetEdns0(1232, false)
	if !subnet.IsValid() {
		return m
	}
	family := uint16(1)
	if subnet.Addr().Is6() {
		family = 2
	}
	o := m.IsEdns0()
	o.Option = append(o.Option, &dns.EDNS0_SUBNET{
		Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(subnet.Bits()), Address: net.IP(subnet.Masked().Addr().AsSlice()),
	})
	return m
}

// printAnswer prints an answer with its records in order, so that two answers compare as text.
func printAnswer(in *dns.Msg) {
	fmt.Println(dns.RcodeToString[in.Rcode])
	var lines []string
	for _, rr := range in.Answer {
		text := strings.TrimPrefix(rr.String(), rr.Header().String())
		lines = append(lines, fmt.Sprintf("%s %s ttl=%d", dns.TypeToString[rr.Header().Rrtype], text, rr.Header().Ttl))
	}
	slices.Sort(lines)
	for _, l := range lines {
		fmt.Println(l)
	}
	for _, rr := range in.Ns {
		fmt.Printf("authority %s %s\n", dns.TypeToString[rr.Header().Rrtype], rr.Header().Name)
	}
	if o := in.IsEdns0(); o != nil {
		for _, x := range o.Option {
			if s, ok := x.(*dns.EDNS0_SUBNET); ok {
				fmt.Printf("scope %s/%d/%d\n", s.Address, s.SourceNetmask, s.SourceScope)
			}
		}
	}
}

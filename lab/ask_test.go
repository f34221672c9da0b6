//go:build linux

package lab_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// ask is the program `ask @SERVER NAME TYPE [SUBNET]`: one DNS query over UDP, as a resolver would send it.
func ask() {
	if err := query(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

func query(args []string) error {
	if len(args) < 3 || len(args) > 4 || !strings.HasPrefix(args[0], "@") {
		return errors.New("usage: ask @SERVER NAME TYPE [SUBNET]")
	}
	server, err := netip.ParseAddr(args[0][1:])
	if err != nil {
		return err
	}
	qtype, ok := dns.StringToType[args[2]]
	if !ok {
		return fmt.Errorf("no such type: %s", args[2])
	}
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(args[1]), qtype)
	m.RecursionDesired = false
	m.SetEdns0(1232, false)
	if len(args) == 4 {
		p, err := netip.ParsePrefix(args[3])
		if err != nil {
			return err
		}
		family := uint16(1)
		if p.Addr().Is6() {
			family = 2
		}
		o := m.IsEdns0()
		o.Option = append(o.Option, &dns.EDNS0_SUBNET{
			Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: net.IP(p.Masked().Addr().AsSlice()),
		})
	}
	c := dns.Client{Timeout: 5 * time.Second} // of a machine that does ten things, not of the server
	in, took, err := c.Exchange(m, netip.AddrPortFrom(server, 53).String())
	if err != nil {
		return err
	}
	fmt.Println(dns.RcodeToString[in.Rcode])
	for _, line := range answers(in) {
		fmt.Println(line)
	}
	fmt.Printf("took %v\n", took.Round(time.Millisecond))
	return nil
}

// answers are the records of an answer in order, so that two answers compare as text, and the client-subnet scope.
func answers(in *dns.Msg) []string {
	var lines []string
	for _, rr := range in.Answer {
		value := strings.TrimPrefix(rr.String(), rr.Header().String())
		lines = append(lines, fmt.Sprintf("%s %s ttl=%d", dns.TypeToString[rr.Header().Rrtype], value, rr.Header().Ttl))
	}
	slices.Sort(lines)
	if o := in.IsEdns0(); o != nil {
		for _, x := range o.Option {
			if s, ok := x.(*dns.EDNS0_SUBNET); ok {
				lines = append(lines, fmt.Sprintf("scope %s/%d/%d", s.Address, s.SourceNetmask, s.SourceScope))
			}
		}
	}
	return lines
}

// get is the program `get URL`.
func get() {
	if err := request(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "get:", err)
		os.Exit(1)
	}
}

func request(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: get URL")
	}
	c := http.Client{Timeout: patience}
	r, err := c.Get(args[0])
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if _, err := io.Copy(os.Stdout, r.Body); err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}

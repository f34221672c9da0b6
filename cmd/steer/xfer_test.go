package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// xfer is a secondary that copies a zone from $DNS once: xfer ZONE [KEY SECRET [SERIAL]]. It prints the records as they come,
// or the refusal.
func xfer() {
	if err := copyZone(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "xfer:", err)
		os.Exit(1)
	}
}

func copyZone(args []string) error {
	if len(args) != 1 && len(args) != 3 && len(args) != 4 {
		return errors.New("usage: xfer ZONE [KEY SECRET [SERIAL]]")
	}
	zone := dns.Fqdn(args[0])
	m := new(dns.Msg).SetAxfr(zone)
	if len(args) == 4 {
		serial, err := strconv.ParseUint(args[3], 10, 32)
		if err != nil {
			return err
		}
		m = new(dns.Msg).SetIxfr(zone, uint32(serial), ".", ".")
	}
	const wait = 30 * time.Second // of a machine that does ten things, not of the server
	tr := &dns.Transfer{DialTimeout: wait, ReadTimeout: wait, WriteTimeout: wait}
	if len(args) > 1 {
		key := dns.Fqdn(args[1])
		tr.TsigSecret = map[string]string{key: args[2]}
		m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Unix())
	}
	in, err := tr.In(m, os.Getenv("DNS"))
	if err != nil {
		return err
	}
	for e := range in {
		if e.Error != nil {
			return e.Error
		}
		for _, rr := range e.RR {
			fmt.Println(strings.ReplaceAll(rr.String(), "\t", " "))
		}
	}
	return nil
}

package rrdata

import (
	"errors"
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// check refuses what is well formed and yet cannot be meant.
func check(rr dns.RR) error {
	switch rr := rr.(type) {
	case *dns.SVCB:
		return checkSVCB(rr)
	case *dns.HTTPS:
		return checkSVCB(&rr.SVCB)
	case *dns.DS:
		return checkDigest(rr.Digest, map[uint8]int{dns.SHA1: 40, dns.SHA256: 64, dns.SHA384: 96}[rr.DigestType])
	case *dns.SSHFP:
		return checkDigest(rr.FingerPrint, map[uint8]int{1: 40, 2: 64}[rr.Type])
	case *dns.TLSA:
		return checkDigest(rr.Certificate, map[uint8]int{1: 64, 2: 128}[rr.MatchingType])
	case *dns.SMIMEA:
		return checkDigest(rr.Certificate, map[uint8]int{1: 64, 2: 128}[rr.MatchingType])
	case *dns.CNAME:
		return checkName(rr.Target)
	case *dns.DNAME:
		return checkName(rr.Target)
	case *dns.NS:
		return checkName(rr.Ns)
	}
	return nil
}

func checkName(name string) error {
	if name == "." {
		return errors.New("is the root, where nothing of use is found")
	}
	return nil
}

// checkDigest holds the length of a digest against its kind (RFC 4034, RFC 4255, RFC 6698); want is 0 where any length will do.
func checkDigest(digest string, want int) error {
	switch {
	case digest == "":
		return errors.New("has no digest")
	case want != 0 && len(digest) != want:
		return fmt.Errorf("has a digest of %d hexadecimal digits, and one of its kind has %d", len(digest), want)
	}
	return nil
}

// checkSVCB holds the parameters of SVCB and HTTPS records against RFC 9460: sections 2.4.2 (alias mode has none), 7.1 (ALPN)
// and 8 (mandatory ones are there, and are not "mandatory" itself). The library sorts them and refuses one given twice.
func checkSVCB(rr *dns.SVCB) error {
	if rr.Priority == 0 {
		if len(rr.Value) > 0 {
			return errors.New("has priority 0, which makes it an alias, and parameters, which an alias has none of")
		}
		return nil
	}
	has := func(k dns.SVCBKey) bool {
		return slices.ContainsFunc(rr.Value, func(v dns.SVCBKeyValue) bool { return v.Key() == k })
	}
	seen := map[dns.SVCBKey]bool{}
	for _, v := range rr.Value {
		if seen[v.Key()] {
			return fmt.Errorf("has the parameter %s twice", v.Key())
		}
		seen[v.Key()] = true
		m, ok := v.(*dns.SVCBMandatory)
		if !ok {
			continue
		}
		for _, k := range m.Code {
			if k == dns.SVCB_MANDATORY || !has(k) {
				return fmt.Errorf("says that %s is mandatory, and has no such parameter", k)
			}
		}
	}
	if has(dns.SVCB_NO_DEFAULT_ALPN) && !has(dns.SVCB_ALPN) {
		return errors.New("has no-default-alpn without alpn, so no protocol is left")
	}
	return nil
}

// Hints reports whether SVCB or HTTPS data has address hints.
func (d *Data) Hints() bool {
	var values []dns.SVCBKeyValue
	switch rr := d.RR.(type) {
	case *dns.SVCB:
		values = rr.Value
	case *dns.HTTPS:
		values = rr.Value
	}
	return slices.ContainsFunc(values, func(v dns.SVCBKeyValue) bool { return v.Key() == dns.SVCB_IPV4HINT || v.Key() == dns.SVCB_IPV6HINT })
}

// AliasMode reports whether SVCB or HTTPS data is an alias (priority 0) rather than a service.
func (d *Data) AliasMode() bool {
	switch rr := d.RR.(type) {
	case *dns.SVCB:
		return rr.Priority == 0
	case *dns.HTTPS:
		return rr.Priority == 0
	}
	return false
}

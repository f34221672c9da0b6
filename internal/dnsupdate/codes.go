package dnsupdate

import "github.com/miekg/dns"

// Response codes for callers that know no DNS library.
const (
	Success       = dns.RcodeSuccess
	FormatError   = dns.RcodeFormatError
	ServerFailure = dns.RcodeServerFailure
	Refused       = dns.RcodeRefused
	NotAuth       = dns.RcodeNotAuth
)

// Types of records for them.
const (
	TypeA     = dns.TypeA
	TypeNS    = dns.TypeNS
	TypeCNAME = dns.TypeCNAME
	TypeSOA   = dns.TypeSOA
	TypeTXT   = dns.TypeTXT
	TypeAAAA  = dns.TypeAAAA
	TypeANY   = dns.TypeANY
)

// RcodeText is the name of a response code.
func RcodeText(rcode uint16) string { return dns.RcodeToString[int(rcode)] }

// TypeText is the name of a type.
func TypeText(rrType uint16) string { return dns.Type(rrType).String() }

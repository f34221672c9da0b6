// Package rrdata reads the data of DNS records as people write it (RFC 1035 section 5, RFC 3597) and gives it in wire
// form. Those who check records and those who serve them read by it, so that what was checked is what is served.
package rrdata

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/miekg/dns"
)

// Alias is a record type of ours, for names where a CNAME cannot stand: the addresses of another name are answered. It
// never goes onto the wire, so it has no number.
const Alias = "ALIAS"

// Types are the mnemonics of the record types that a zone may hold, in alphabetical order. Others are written by their
// number, TYPE65280 (RFC 3597 section 5).
func Types() []string {
	return []string{
		"A", "AAAA", "AFSDB", "CAA", "CERT", "CNAME", "CSYNC", "DHCID", "DNAME", "DS", "EUI48", "EUI64", "HINFO", "HTTPS", "IPSECKEY", "LOC",
		"MX", "NAPTR", "NS", "OPENPGPKEY", "PTR", "RP", "SMIMEA", "SRV", "SSHFP", "SVCB", "TLSA", "TXT", "URI",
	}
}

// Errors of a type that callers tell apart.
var (
	// ErrUnknown: no such mnemonic.
	ErrUnknown = errors.New("is no record type")
	// ErrMade: the name server makes these records itself.
	ErrMade = errors.New("is made by the name server itself")
	// ErrMeta: the type only occurs in questions and messages.
	ErrMeta = errors.New("is no type of records in a zone")
)

// Type reads a mnemonic, or TYPE and a number, in any case of letters. name is how the type is written from there on: a number
// that has a mnemonic gets it.
func Type(text string) (number uint16, name string, err error) {
	text = strings.ToUpper(text)
	digits, numbered := strings.CutPrefix(text, "TYPE")
	if numbered {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || digits[0] == '+' {
			return 0, "", ErrUnknown
		}
		number = uint16(n)
	} else if number = dns.StringToType[text]; number == 0 {
		return 0, "", ErrUnknown
	}
	switch number {
	case dns.TypeSOA, dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeDNSKEY, dns.TypeCDS, dns.TypeCDNSKEY,
		dns.TypeZONEMD, dns.TypeNXNAME:
		return 0, "", ErrMade
	case dns.TypeNone, dns.TypeOPT, dns.TypeNULL, dns.TypeReserved:
		return 0, "", ErrMeta
	}
	if number >= 128 && number <= 255 { // questions and messages: RFC 6895 section 3.1
		return 0, "", ErrMeta
	}
	name = dns.TypeToString[number]
	if !slices.Contains(Types(), name) {
		if !numbered {
			return 0, "", ErrUnknown
		}
		name = "TYPE" + strconv.Itoa(int(number))
	}
	return number, name, nil
}

// Data is the data of one record.
type Data struct {
	Wire []byte // names in it are not compressed
	Text string // in presentation format; Parse reads the same of it
	RR   dns.RR // as the library has it; nil for A and AAAA
}

// Parse reads the data of a record of a type that Type gave. Names are absolute with or without their last dot. The text of a
// TXT record may stand without quotes: it is then taken as it is, however long.
func Parse(number uint16, text string) (Data, error) {
	if (number == dns.TypeA || number == dns.TypeAAAA) && !strings.HasPrefix(text, `\#`) {
		return address(number, text)
	}
	out, err := parse(number, text)
	if err != nil {
		return out, err
	}
	// The library takes some data that it then writes as something else, such as too few octets of a type it knows.
	if again, err := parse(number, out.Text); err != nil || !bytes.Equal(again.Wire, out.Wire) {
		return Data{}, errors.New("is not the data of such a record")
	}
	return out, nil
}

func parse(number uint16, text string) (Data, error) {
	if t := strings.TrimSpace(text); number == dns.TypeTXT && !strings.HasPrefix(t, `"`) && !strings.HasPrefix(t, `\#`) {
		text = Quote(text)
	}
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) >= 0 {
		return Data{}, errors.New("holds a control character")
	}
	if number == dns.TypeCAA || number == dns.TypeTXT || number == dns.TypeHINFO || number == dns.TypeNAPTR {
		text = escapeHigh(text)
	}
	rr, err := dns.NewRR(". 0 IN " + dns.Type(number).String() + " " + text)
	if err != nil || rr == nil || rr.Header().Rrtype != number {
		return Data{}, fmt.Errorf("is not the data of such a record%s", reason(err))
	}
	if err := check(rr); err != nil {
		return Data{}, err
	}
	buf := make([]byte, 512)
	n, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		buf = make([]byte, dns.MaxMsgSize)
		if n, err = dns.PackRR(rr, buf, 0, nil, false); err != nil {
			return Data{}, fmt.Errorf("is not the data of such a record: %w", err)
		}
	}
	const head = 11 // the root as owner, type, class, TTL, length
	out := Data{Wire: bytes.Clone(buf[head:n]), Text: Text(rr), RR: rr}
	return out, nil
}

// Text is the data of a record in presentation format.
func Text(rr dns.RR) string {
	if x, ok := rr.(*dns.RFC3597); ok {
		return strings.TrimSpace(fmt.Sprintf(`\# %d %s`, len(x.Rdata)/2, strings.ToLower(x.Rdata)))
	}
	return strings.TrimPrefix(rr.String(), rr.Header().String())
}

// reason is what the library says, without its prefix.
func reason(err error) string {
	var p *dns.ParseError
	if errors.As(err, &p) {
		text, _, _ := strings.Cut(strings.TrimPrefix(p.Error(), "dns: "), " at line: ")
		return ": " + text
	}
	return ""
}

func address(number uint16, text string) (Data, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	switch {
	case number == dns.TypeA && (err != nil || !a.Is4()):
		return Data{}, errors.New("is no IPv4 address")
	case number == dns.TypeAAAA && (err != nil || !a.Is6() || a.Is4In6() || a.Zone() != ""):
		return Data{}, errors.New("is no IPv6 address")
	}
	return Data{Wire: a.AsSlice(), Text: a.String()}, nil
}

// Quote writes a text as the data of a TXT record: strings of at most 255 octets, in quotes (RFC 1035 section 5.1).
func Quote(text string) string {
	var b strings.Builder
	for {
		n := min(len(text), 255)
		b.WriteByte('"')
		for i := range n {
			switch c := text[i]; {
			case c == '"' || c == '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			case c < ' ' || c > '~':
				fmt.Fprintf(&b, `\%03d`, c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
		if text = text[n:]; text == "" {
			return b.String()
		}
		b.WriteByte(' ')
	}
}

// escapeHigh writes octets beyond ASCII as \DDD, the one form that all readers of zone files agree on.
func escapeHigh(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf {
			fmt.Fprintf(&b, `\%03d`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Target is the name that other records must be found at for the record to be of use: of a CNAME, DNAME, NS, MX, SRV or PTR record, and
// of SVCB and HTTPS. It is an FQDN; "" for other types and for the root, which stands for none.
func (d *Data) Target() string {
	name := ""
	switch rr := d.RR.(type) {
	case *dns.CNAME:
		name = rr.Target
	case *dns.DNAME:
		name = rr.Target
	case *dns.NS:
		name = rr.Ns
	case *dns.MX:
		name = rr.Mx
	case *dns.SRV:
		name = rr.Target
	case *dns.PTR:
		name = rr.Ptr
	case *dns.SVCB:
		name = rr.Target
	case *dns.HTTPS:
		name = rr.Target
	}
	if name == "." {
		return ""
	}
	return strings.ToLower(name)
}

// Names are the fields of a record's data that are names, as they are written.
func Names(number uint16, text string) []string {
	fields := strings.Fields(text)
	var places []int
	switch number {
	case dns.TypeCNAME, dns.TypeDNAME, dns.TypeNS, dns.TypePTR:
		places = []int{0}
	case dns.TypeMX, dns.TypeAFSDB, dns.TypeSVCB, dns.TypeHTTPS:
		places = []int{1}
	case dns.TypeRP:
		places = []int{0, 1}
	case dns.TypeSRV:
		places = []int{3}
	case dns.TypeNAPTR:
		places = []int{len(fields) - 1}
	}
	var out []string
	for _, i := range places {
		if i >= 0 && i < len(fields) && !strings.HasPrefix(text, `\#`) {
			out = append(out, fields[i])
		}
	}
	return out
}

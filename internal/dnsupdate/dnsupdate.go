// Package dnsupdate reads DNS UPDATE messages (RFC 2136) and works out what they come to in a zone. It is values in,
// values out: what the zone holds and what the sender may change is the caller's to say.
package dnsupdate

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"steerpoint/internal/rrdata"
)

const (
	// MaxMessage bounds a message in octets. A client that changes hundreds of records sends several.
	MaxMessage = 16 << 10
	// maxRecords bounds the records of a message: prerequisites and changes.
	maxRecords = 1000
)

// Fault is why an update is not done: a response code (RFC 2136 section 2.2) and its reason for people.
type Fault struct {
	Rcode uint16
	Why   string
}

func (f *Fault) Error() string { return f.Why }

func fault(rcode int, format string, args ...any) error {
	return &Fault{uint16(rcode), fmt.Sprintf(format, args...)}
}

// Update is one message, well-formed as RFC 2136 wants it.
type Update struct {
	Zone string // FQDN, lower case

	prerequisites, changes []record
}

// record is one record of a message.
type record struct {
	name  string // FQDN, lower case
	rr    uint16
	class uint16
	ttl   uint32
	data  string // in presentation format; "" where there is none
}

// Parse reads a message, whose signature record was taken away. The error is a *Fault: FORMERR, NOTIMP or NOTZONE.
func Parse(msg []byte) (*Update, error) {
	if len(msg) > MaxMessage {
		return nil, fault(dns.RcodeRefused, "the message has %d octets: at most %d are taken", len(msg), MaxMessage)
	}
	m := new(dns.Msg)
	if err := m.Unpack(msg); err != nil {
		return nil, fault(dns.RcodeFormatError, "the message cannot be read: %v", err)
	}
	switch {
	case !whole(msg, m):
		return nil, fault(dns.RcodeFormatError, "the message breaks off")
	case m.Opcode != dns.OpcodeUpdate:
		return nil, fault(dns.RcodeNotImplemented, "the message is no update")
	case len(m.Question) != 1 || m.Question[0].Qtype != dns.TypeSOA:
		return nil, fault(dns.RcodeFormatError, "the zone section does not name one zone by type SOA")
	case m.Question[0].Qclass != dns.ClassINET:
		return nil, fault(dns.RcodeNotAuth, "the zone is not of class IN")
	case len(m.Answer)+len(m.Ns) > maxRecords:
		return nil, fault(dns.RcodeRefused, "the message has %d records: at most %d are taken", len(m.Answer)+len(m.Ns), maxRecords)
	}
	u := &Update{Zone: dns.CanonicalName(m.Question[0].Name)}
	for _, rr := range m.Answer {
		r, err := u.prerequisite(rr)
		if err != nil {
			return nil, err
		}
		u.prerequisites = append(u.prerequisites, r)
	}
	for _, rr := range m.Ns {
		r, err := u.change(rr)
		if err != nil {
			return nil, err
		}
		u.changes = append(u.changes, r)
	}
	return u, nil
}

// whole reports whether a message has as many records as it says: the library takes one that breaks off between two of them.
func whole(msg []byte, m *dns.Msg) bool {
	for i, n := range []int{len(m.Question), len(m.Answer), len(m.Ns), len(m.Extra)} {
		if int(binary.BigEndian.Uint16(msg[4+2*i:])) != n {
			return false
		}
	}
	return true
}

// Names are the names that the message would change, each once, in its order.
func (u *Update) Names() []string {
	var out []string
	seen := map[string]bool{}
	for i := range u.changes {
		if name := u.changes[i].name; !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

// head reads what every record has.
func (u *Update) head(rr dns.RR) (record, error) {
	h := rr.Header()
	r := record{name: dns.CanonicalName(h.Name), rr: h.Rrtype, class: h.Class, ttl: h.Ttl}
	if !dns.IsSubDomain(u.Zone, r.name) {
		return r, fault(dns.RcodeNotZone, "%s lies outside the zone %s", r.name, u.Zone)
	}
	return r, nil
}

// prerequisite reads a record of the prerequisite section: section 2.4.
func (u *Update) prerequisite(rr dns.RR) (record, error) {
	r, err := u.head(rr)
	empty := rr.Header().Rdlength == 0
	switch {
	case err != nil:
		return r, err
	case r.ttl != 0:
		return r, fault(dns.RcodeFormatError, "a prerequisite about %s has a TTL", r.name)
	case r.class == dns.ClassANY || r.class == dns.ClassNONE:
		if !empty || meta(r.rr) && r.rr != dns.TypeANY {
			return r, fault(dns.RcodeFormatError, "a prerequisite about %s has data, or a type that it cannot have", r.name)
		}
		return r, nil
	case r.class != dns.ClassINET || empty || meta(r.rr):
		return r, fault(dns.RcodeFormatError, "a prerequisite about %s is of no class or type it can have", r.name)
	}
	r.data, err = dataOf(rr)
	return r, err
}

// change reads a record of the update section: section 3.4.1.
func (u *Update) change(rr dns.RR) (record, error) {
	r, err := u.head(rr)
	if err != nil {
		return r, err
	}
	bad := func(what string) (record, error) {
		return r, fault(dns.RcodeFormatError, "a change of %s %s", r.name, what)
	}
	empty := rr.Header().Rdlength == 0
	switch r.class {
	case dns.ClassINET:
		if empty || meta(r.rr) {
			return bad("adds a record without data, or of a type that only questions have")
		}
	case dns.ClassANY:
		if r.ttl != 0 || !empty || meta(r.rr) && r.rr != dns.TypeANY {
			return bad("deletes record sets and has a TTL, data, or a type that it cannot have")
		}
		return r, nil
	case dns.ClassNONE:
		if r.ttl != 0 || empty || meta(r.rr) {
			return bad("deletes a record and has a TTL, no data, or a type that it cannot have")
		}
	default:
		return bad("is of no class it can have")
	}
	r.data, err = dataOf(rr)
	return r, err
}

// meta reports whether a type occurs in questions and messages only.
func meta(rrType uint16) bool {
	return rrType == dns.TypeNone || rrType == dns.TypeOPT || rrType >= 128 && rrType <= 255
}

// dataOf is the data of a record in presentation format, names in lower case, as rrdata writes it. A type that zones do not
// hold keeps the library's form: whether it may be changed is asked later.
func dataOf(rr dns.RR) (string, error) {
	text := rrdata.Text(rr)
	number, _, err := rrdata.Type(dns.Type(rr.Header().Rrtype).String())
	if err != nil {
		return text, nil
	}
	data, err := Data(number, text)
	if err != nil {
		return "", fault(dns.RcodeFormatError, "the data of the %s record of %s %v", dns.Type(number), rr.Header().Name, err)
	}
	return data, nil
}

// Data is the data of a record in the one form that is compared: as rrdata writes it, names in lower case.
func Data(number uint16, text string) (string, error) {
	data, err := rrdata.Parse(number, text)
	if err != nil {
		return "", err
	}
	if len(rrdata.Names(number, data.Text)) > 0 && number != dns.TypeNAPTR { // its pattern is no name
		return strings.ToLower(data.Text), nil
	}
	return data.Text, nil
}

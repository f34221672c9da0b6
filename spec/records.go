package spec

import (
	"fmt"
	"strings"

	"steerpoint/internal/rrdata"
	"steerpoint/spec/internal/names"
)

// RecordType is the type of a static record set: a mnemonic, TYPE and a number for a type without one, or ALIAS.
type RecordType string

// Alias is the type whose records answer with the addresses of another name, also where a CNAME cannot stand.
const Alias RecordType = rrdata.Alias

// MarshalText writes the type.
func (t RecordType) MarshalText() ([]byte, error) { return []byte(t), nil }

// UnmarshalText reads a type in any case of letters.
func (t *RecordType) UnmarshalText(text []byte) error {
	if strings.EqualFold(string(text), rrdata.Alias) {
		*t = Alias
		return nil
	}
	_, name, err := rrdata.Type(string(text))
	if err != nil {
		known := append(rrdata.Types(), rrdata.Alias)
		return &valueError{CodeBadValue, err.Error(), strings.Join(known, ", ") + ", or TYPE and a number", names.Nearest(strings.ToUpper(string(text)), known)}
	}
	*t = RecordType(name)
	return nil
}

// Parse reads a value of records of the type. An ALIAS has none of a record.
func (t RecordType) Parse(value string) (rrdata.Data, error) {
	number, _, err := rrdata.Type(string(t))
	if err != nil {
		return rrdata.Data{}, fmt.Errorf("type %s %w", t, err)
	}
	return rrdata.Parse(number, value)
}

// Number is the type's number; 0 for ALIAS, which has none.
func (t RecordType) Number() uint16 {
	number, _, err := rrdata.Type(string(t))
	if err != nil {
		return 0
	}
	return number
}

// addresses is true for types that answer who asks for an address.
func (t RecordType) addresses() bool { return t == "A" || t == "AAAA" || t == "CNAME" || t == Alias }

// Key tells the sets of a zone apart.
func (r Record) Key() string { return r.Name + " " + string(r.Type) }

func (c *checker) records(z *Zone) {
	ttls := make(map[string]Duration, len(z.Records))
	alone := make(map[string]bool, len(z.Records)) // owners: whether what they have is a CNAME
	for i := range z.Records {
		r := &z.Records[i]
		path := at("records[%d]", i)
		owner, err := z.owner(r.Name)
		if err != nil {
			c.fail(path+".name", r.Name, valueError{CodeBadName, err.Error(), "@, or a name relative to the zone such as www or *.dev", ""})
			continue
		}
		key := owner + " " + string(r.Type)
		if ttl, twice := ttls[key]; twice {
			c.fail(path, r.Name, repeatedSet(r, ttl))
			continue
		}
		ttls[key] = r.TTL
		was, had := alone[owner]
		if had && (was || r.Type == "CNAME") || r.Type == "CNAME" && (owner == string(z.Zone) || len(r.Values) > 1) {
			e := valueError{CodeBadRecord, "would have a CNAME beside other records", "a CNAME alone at its name, and none at the zone itself (RFC 1034 section 3.6.2)", ""}
			if owner == string(z.Zone) && r.Type == "CNAME" {
				e.suggest = "type: ALIAS, which answers with the addresses of the name"
			}
			c.fail(path, r.Name, e)
		}
		alone[owner] = was || r.Type == "CNAME"
		if c.sound(path + ".type") {
			c.recordValues(r, path)
			c.recordHints(r, owner, path)
		}
	}
}

func repeatedSet(r *Record, ttl Duration) valueError {
	if ttl != r.TTL {
		return valueError{CodeTwoTTLs, fmt.Sprintf("has %s records with the TTLs %s and %s; a record set has one", r.Type, ttl, r.TTL), "one entry for a name and type", ""}
	}
	return valueError{CodeRepeated, "has " + string(r.Type) + " records already", "one entry for a name and type, with all its values", ""}
}

// recordValues checks each value by itself, and that none stands twice in another spelling.
func (c *checker) recordValues(r *Record, path string) {
	first, octets := make(map[string]int, len(r.Values)), 0
	for j, v := range r.Values {
		here := func() string { return at("%s.values[%d]", path, j) }
		data, e := r.value(v)
		if e != nil {
			c.fail(here(), v, *e)
			continue
		}
		if k, twice := first[string(data)]; twice {
			c.fail(here(), v, valueError{CodeRepeated, fmt.Sprintf("stands here twice (first in %s.values[%d])", path, k), "each value once", ""})
			continue
		}
		first[string(data)] = j
		octets += 12 + len(data)
	}
	if octets > maxSetOctets {
		c.fail(path, r.Name, valueError{CodeBadRecord, fmt.Sprintf("has %s records of %d octets, more than a message holds", r.Type, octets), fmt.Sprintf("at most %d octets", maxSetOctets), ""})
	}
}

// maxSetOctets of one record set fit into any message, beside all that goes with them.
const maxSetOctets = 60_000

// value reads one value and gives its data.
func (r *Record) value(v string) ([]byte, *valueError) {
	if r.Type == Alias {
		name, err := names.Host(strings.TrimSuffix(v, "."))
		if err != nil {
			return nil, &valueError{CodeBadRecord, err.Error(), "the name whose addresses are answered", ""}
		}
		return []byte(name), nil
	}
	data, err := r.Type.Parse(v)
	if err != nil {
		return nil, &valueError{CodeBadRecord, err.Error(), valueWords(r.Type), suggestName(r.Type, v)}
	}
	number, _, _ := rrdata.Type(string(r.Type))
	for _, name := range rrdata.Names(number, v) {
		if strings.IndexFunc(name, func(c rune) bool { return c >= 0x80 }) >= 0 {
			return nil, &valueError{CodeBadRecord, "holds a name that is not ASCII", valueWords(r.Type), suggestName(r.Type, v)}
		}
		if name == "." || strings.Contains(strings.TrimSuffix(name, "."), ".") || strings.HasSuffix(name, ".") {
			continue
		}
		return nil, &valueError{CodeBadRecord, fmt.Sprintf("names %q, which has only one label", name), valueWords(r.Type), ""}
	}
	return data.Wire, nil
}

// suggestName is a value with its name as A-labels, where that is all that is wrong with it.
func suggestName(t RecordType, v string) string {
	number, _, err := rrdata.Type(string(t))
	if err != nil {
		return ""
	}
	for _, name := range rrdata.Names(number, v) {
		ascii, err := names.Host(name)
		if err != nil || ascii == strings.TrimSuffix(name, ".") {
			continue
		}
		if better := strings.Replace(v, name, ascii+".", 1); better != v {
			if _, err := t.Parse(better); err == nil {
				return better
			}
		}
	}
	return ""
}

// valueWords says what values of a type look like.
func valueWords(t RecordType) string {
	switch t {
	case "A":
		return "an IPv4 address"
	case "AAAA":
		return "an IPv6 address"
	case "CNAME", "DNAME", "NS", "PTR":
		return "a full domain name"
	case "MX":
		return "a preference and a name: 10 mail.example.net"
	case "SRV":
		return "priority, weight, port and name: 0 5 443 app.example.net"
	case "CAA":
		return `flags, tag and value: 0 issue "ca.example.net"`
	case "TXT":
		return "text, or texts in quotes"
	case "DS":
		return "key tag, algorithm, kind of digest and digest: 12345 13 2 0a1b.."
	case "HTTPS", "SVCB":
		return "priority, name and parameters: 1 . alpn=h2,h3"
	case "TLSA":
		return "usage, selector, matching type and data: 3 1 1 0a1b.."
	case "SSHFP":
		return "algorithm, type and fingerprint: 4 2 0a1b.."
	case "NAPTR":
		return `order, preference, flags, services, pattern and name: 10 10 "s" "SIP+D2U" "" _sip._udp.example.net`
	}
	if strings.HasPrefix(string(t), "TYPE") {
		return `\# LENGTH HEX (RFC 3597): \# 3 0a1b2c`
	}
	return "what a zone file has for it"
}

// ownerChars are what labels of record names may be made of: those of host names, and what RFC 2317 and others put into
// names that no host has.
const ownerChars = "abcdefghijklmnopqrstuvwxyz0123456789-_/+=:~"

// owner gives the full name of a record, without the last dot.
func (z *Zone) owner(name string) (string, error) {
	if name == "@" {
		return string(z.Zone), nil
	}
	if full, dotted := strings.CutSuffix(name, "."); dotted {
		owner, err := ownerName(full)
		if err == nil && !names.Under(strings.TrimPrefix(owner, "*."), string(z.Zone)) {
			return "", fmt.Errorf("lies outside the zone %s", z.Zone)
		}
		return owner, err
	}
	return ownerName(name + "." + string(z.Zone))
}

func ownerName(s string) (string, error) {
	name, err := names.Domain(s)
	if err == nil {
		return name, nil
	}
	lower := strings.ToLower(s)
	rest := strings.TrimPrefix(lower, "*.")
	if len(lower) > 253 || strings.Trim(rest, ownerChars+".") != "" {
		return "", err
	}
	for label := range strings.SplitSeq(rest, ".") {
		if label == "" || len(label) > 63 {
			return "", err
		}
	}
	return lower, nil
}

// Owner is the full name of one of the zone's records, in lower case, without the last dot; its first label may be *.
func (z *Zone) Owner(r *Record) (string, error) { return z.owner(r.Name) }

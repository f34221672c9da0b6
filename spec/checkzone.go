package spec

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"steerpoint/spec/internal/names"
)

func (c *checker) zone(z *Zone) {
	hosts := make([]string, len(z.NS))
	for i, ns := range z.NS {
		hosts[i] = string(ns.Name)
		path := at("ns[%d]", i)
		c.unique(path+".addresses", addressTexts(ns.Addresses), "address")
		if names.Under(string(ns.Name), string(z.Zone)) && len(ns.Addresses) == 0 && c.sound("zone") {
			c.fail(path, string(ns.Name), valueError{CodeNeedsGlue, "lies inside the zone and has no addresses, so nobody could find it", "addresses: [..]", ""})
		}
		if ns.Name == z.Zone {
			c.fail(path+".name", string(ns.Name), valueError{CodeBadName, "is the zone itself", "a name of its own, such as ns1." + string(z.Zone), ""})
		}
	}
	c.uniqueNames("ns", hosts, "name server")
	if len(z.Records) > 0 {
		c.warn("records", "", valueError{CodeRecordsLater, "static records are checked, but this version does not serve them", "", ""})
	}
	c.records(z)
}

func (c *checker) records(z *Zone) {
	ttls := map[string]Duration{}
	types := map[string]string{}
	for i := range z.Records {
		r := &z.Records[i]
		path := at("records[%d]", i)
		owner, err := z.owner(r.Name)
		if err != nil {
			c.fail(path+".name", r.Name, valueError{CodeBadName, err.Error(), "@, or a name relative to the zone such as www or *.dev", ""})
			continue
		}
		key := owner + " " + r.Type
		if ttl, twice := ttls[key]; twice {
			e := valueError{CodeRepeated, "has " + r.Type + " records already", "one entry for a name and type, with all its values", ""}
			if ttl != r.TTL {
				e = valueError{CodeTwoTTLs, fmt.Sprintf("has %s records with the TTLs %s and %s; a record set has one", r.Type, ttl, r.TTL), "one entry for a name and type", ""}
			}
			c.fail(path, r.Name, e)
		}
		ttls[key] = r.TTL
		if had := types[owner]; had != "" && had != r.Type && (had == "CNAME" || r.Type == "CNAME") || r.Type == "CNAME" && (owner == string(z.Zone) || len(r.Values) > 1) {
			c.fail(path, r.Name, valueError{CodeBadRecord, "would have a CNAME beside other records", "a CNAME alone at its name, and none at the zone itself (RFC 1034 section 3.6.2)", ""})
		}
		types[owner] = r.Type
		for j, v := range r.Values {
			if !c.sound(path + ".type") {
				break
			}
			if problem, allowed := recordValue(r.Type, v); problem != "" {
				c.fail(at("%s.values[%d]", path, j), v, valueError{CodeBadRecord, problem, allowed, ""})
			}
		}
		c.unique(path+".values", r.Values, "value")
	}
}

// owner gives the full name of a record.
func (z *Zone) owner(name string) (string, error) {
	if name == "@" {
		return string(z.Zone), nil
	}
	if full, dotted := strings.CutSuffix(name, "."); dotted {
		owner, err := names.Domain(full)
		if err == nil && !names.Under(strings.TrimPrefix(owner, "*."), string(z.Zone)) {
			return "", fmt.Errorf("lies outside the zone %s", z.Zone)
		}
		return owner, err
	}
	return names.Domain(name + "." + string(z.Zone))
}

// recordValue checks a value of a type; problem is "" when it is fine.
func recordValue(kind, v string) (problem, allowed string) {
	fields := strings.Fields(v)
	isHost := func(s string) bool { _, err := names.Host(s); return err == nil || s == "." }
	isNumber := func(s string, bits int) bool { _, err := strconv.ParseUint(s, 10, bits); return err == nil }
	a, err := netip.ParseAddr(v)
	ok := false
	switch kind {
	case "A":
		ok, allowed = err == nil && a.Is4(), "an IPv4 address"
	case "AAAA":
		ok, allowed = err == nil && a.Is6() && !a.Is4In6() && a.Zone() == "", "an IPv6 address"
	case "CNAME", "NS", "PTR":
		ok, allowed = isHost(v), "a full domain name"
	case "MX":
		ok, allowed = len(fields) == 2 && isNumber(fields[0], 16) && isHost(fields[1]), "a preference and a name: 10 mail.example.net"
	case "SRV":
		ok = len(fields) == 4 && isNumber(fields[0], 16) && isNumber(fields[1], 16) && isNumber(fields[2], 16) && isHost(fields[3])
		allowed = "priority, weight, port and name: 0 5 443 app.example.net"
	case "CAA":
		ok, allowed = len(fields) >= 3 && isNumber(fields[0], 8) && strings.Trim(fields[1], "abcdefghijklmnopqrstuvwxyz0123456789") == "", `flags, tag and value: 0 issue "ca.example.net"`
	case "TXT":
		ok, allowed = v != "" && len(v) <= 4096, "text of at most 4096 bytes"
	}
	if ok {
		return "", ""
	}
	return "is no value of " + kind + " records", allowed
}

func (c *checker) override(o *Override) {
	set := 0
	for _, k := range []struct {
		name string
		set  bool
	}{{"force", o.Force != ""}, {"drain", o.Drain != nil}, {"freeze", o.Freeze != nil}} {
		if k.set || c.failed[k.name] {
			set++
		}
	}
	if set != 1 {
		c.fail("", "", valueError{CodeOneOf, fmt.Sprintf("%d of force, drain and freeze are set", set), "exactly one of force, drain, freeze", ""})
	}
	switch {
	case o.Force != "" && o.Rule == "":
		c.fail("rule", "", valueError{CodeMissing, "is missing", "the rule that force is for: service/rule", ""})
	case o.Force == "" && o.Rule != "":
		c.fail("rule", o.Rule, valueError{CodeOneOf, "goes with force", "force: EDGE, or freeze: {rule: " + o.Rule + "}", ""})
	}
	if o.Drain != nil {
		c.exactlyOne("drain", "edge, node, point", o.Drain.Edge, o.Drain.Node, o.Drain.Point)
	}
	if o.Freeze != nil {
		c.exactlyOne("freeze", "service, rule", o.Freeze.Service, o.Freeze.Rule)
	}
	if o.Until.IsZero() && set == 1 {
		c.warn("", "", valueError{CodeNoEnd, "the override has no end; it holds until it is deleted", "", ""})
	}
}

func (c *checker) exactlyOne(path, allowed string, values ...string) {
	set := 0
	for _, v := range values {
		if v != "" {
			set++
		}
	}
	if set != 1 {
		c.fail(path, "", valueError{CodeOneOf, fmt.Sprintf("%d of them are set", set), "exactly one of " + allowed, ""})
	}
}

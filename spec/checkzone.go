package spec

import (
	"fmt"

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
	c.records(z)
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

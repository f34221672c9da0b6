package octodns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// pool is a pool of a dynamic record, with what the record of the other address family says for it.
type pool struct {
	n        *tree.Node
	name     string
	fallback string
	values   []value
	used     bool // by a rule, or as the fallback of a pool that is
}

// value is one value of a pool: an address of each family, or a name.
type value struct {
	n         *tree.Node
	addresses []spec.Address
	target    spec.HostName
	weight    int
	down      bool
}

// dynamic is the steering of one name while it is translated.
type dynamic struct {
	c     *converter
	svc   *importer.Service
	lead  *record
	pools map[string]*pool
	// backup are the record's own values: octoDNS answers with them, unprobed, when every pool is down.
	backup []value
	probe  importer.Probe
}

// steer makes a service of the records of a name that steer, and returns the other records with what it did not take.
func (c *converter) steer(steered, rest []*record) []*record {
	if len(steered) == 0 {
		return rest
	}
	lead := steered[0]
	if !slices.Contains([]string{"A", "AAAA", "CNAME"}, lead.kind) {
		c.b.Lost(lead.n, lead.kind+" record of "+lead.name+" that steers", "left out: only addresses and names are steered", "")
		return c.steer(steered[1:], rest)
	}
	svc, err := c.b.Service(lead.name, lead.n)
	if err != nil {
		c.b.Lost(lead.n, lead.kind+" record of "+lead.name, "left out: the name "+err.Error(), "")
		return c.steer(steered[1:], rest)
	}
	d := &dynamic{c: c, svc: svc, lead: lead, pools: map[string]*pool{}}
	svc.SetTTL(c.ttl(lead), 0, lead.n.Get("ttl"))
	d.read(lead)
	for _, o := range steered[1:] {
		d.other(o)
	}
	rest = slices.DeleteFunc(rest, func(r *record) bool { return d.fixed(r) })
	d.probe = c.probe(svc, lead)
	d.rules()
	for _, n := range lead.n.Get("dynamic").Get("pools").EachKey() {
		if !d.pools[n.Key].used {
			c.b.Lost(n, "pool "+n.Key+" of "+lead.name+", which no rule uses", "left out", "")
		}
	}
	if !svc.HasCatchAll() {
		c.b.Drop(svc)
		c.b.Remark(lead.n, "the steered name "+lead.name, "left out: no rule for everybody could be made", "write the Service by hand")
	}
	return rest
}

// other joins the steering record of the other address family to the first.
func (d *dynamic) other(o *record) {
	same := o.kind != d.lead.kind && o.kind != "CNAME" && d.lead.kind != "CNAME"
	if !same || !tree.Equal(o.n.Get("dynamic").Get("rules"), d.lead.n.Get("dynamic").Get("rules")) || (o.n.Get("geo") != nil) != (d.lead.n.Get("geo") != nil) {
		d.c.b.Lost(o.n, o.kind+" record of "+o.name+" that steers", "left out: its rules differ from those of the "+d.lead.kind+" record", "add its addresses to the edges by hand")
		return
	}
	o.n.Get("dynamic").Get("rules").Use()
	if v := d.c.ttl(o); v != d.svc.TTL() {
		d.c.b.Changed(o.n.Get("ttl"), fmt.Sprintf("ttl %d of the %s record of %s", v, o.kind, o.name), fmt.Sprintf("ttl %ds for the name", d.svc.TTL()), "")
	}
	if h := o.n.Get("octodns").Get("healthcheck"); tree.Equal(h, d.lead.n.Get("octodns").Get("healthcheck")) {
		h.Use()
	}
	d.read(o)
}

// fixed lists a record without steering, beside one with it.
func (d *dynamic) fixed(r *record) bool {
	if r.kind != "A" && r.kind != "AAAA" && r.kind != "CNAME" {
		return false
	}
	d.c.b.Lost(r.n, r.kind+" record of "+r.name+" beside one that steers", "left out: an edge is up while one of its addresses is, so an address that all edges share would hide a failure", "give each edge an address of its own in this family")
	return true
}

func (c *converter) address(v *tree.Node, r *record) (spec.Address, bool) {
	var a spec.Address
	if err := a.UnmarshalText([]byte(v.String())); err != nil {
		c.b.Lost(v, r.kind+" "+v.String()+" of "+r.name, "left out: it "+err.Error(), "")
		return a, false
	}
	v.Use()
	return a, true
}

// read takes the pools and the backup values of a record.
func (d *dynamic) read(r *record) {
	for i, v := range r.values() {
		d.put(&d.backup, i, r, v, value{n: v, weight: 1})
	}
	for _, n := range r.n.Get("dynamic").Get("pools").EachKey() {
		d.pool(r, n)
	}
	if r.n.Get("dynamic") != nil {
		return
	}
	for _, n := range r.n.Get("geo").EachKey() { // the older form: addresses by place, without pools
		p := d.at(n)
		for i, v := range n.Each() {
			d.put(&p.values, i, r, v, value{n: v, weight: 1})
		}
	}
}

func (d *dynamic) at(n *tree.Node) *pool {
	p := d.pools[n.Key]
	if p == nil {
		p = &pool{n: n, name: n.Key}
		d.pools[n.Key] = p
	}
	return p
}

func (d *dynamic) pool(r *record, n *tree.Node) {
	p := d.at(n)
	if f := n.Get("fallback"); f != nil && !f.Null {
		if fallback := f.Str(); p.fallback != "" && fallback != p.fallback {
			d.c.b.Changed(f, "fallback "+fallback+" of pool "+p.name+" for "+r.kind, "the fallback "+p.fallback+" of the other address family", "")
		} else {
			p.fallback = fallback
		}
	} else {
		f.Use()
	}
	for i, v := range n.Get("values").Each() {
		e := value{n: v, weight: 1}
		if w := v.Get("weight"); w != nil {
			if got, ok := w.Int(); ok && got >= 1 && got <= 1000 {
				e.weight = got
			} else {
				d.c.b.Changed(w, "weight "+w.String(), "weight 1", "")
			}
		}
		switch s := v.Get("status"); {
		case s.Is("down"):
			s.Use()
			e.down = true
		case s.Is("up"):
			d.c.b.Changed(s, "status up of "+v.Get("value").String()+" in pool "+p.name+", which is answered with whatever is measured", "it is probed like the others", "a rule of mode fixed asks no probe")
		default:
			s.Use()
		}
		d.put(&p.values, i, r, v.Get("value"), e)
	}
}

// put adds a value, or joins it to the one of the other address family at the same place in the list.
func (d *dynamic) put(list *[]value, i int, r *record, text *tree.Node, v value) {
	if r.kind == "CNAME" {
		if err := v.target.UnmarshalText([]byte(text.String())); err != nil {
			d.c.b.Lost(v.n, "CNAME "+text.String()+" of "+r.name, "left out: the name "+err.Error(), "")
			return
		}
		text.Use()
	} else {
		a, ok := d.c.address(text, r)
		if !ok {
			return
		}
		v.addresses = []spec.Address{a}
	}
	if r != d.lead && i < len(*list) && len((*list)[i].addresses) == 1 {
		o := &(*list)[i]
		o.addresses = append(o.addresses, v.addresses...)
		if o.weight != v.weight || o.down != v.down {
			d.c.b.Remark(v.n, "weight or status of "+text.String()+", which differs from the other address family", "those of the other family", "")
		}
		return
	}
	*list = append(*list, v)
}

// chain gives a pool and those it falls back to, in their order.
func (d *dynamic) chain(name string, at *tree.Node) []*pool {
	var out []*pool
	for name != "" {
		p := d.pools[name]
		if p == nil || slices.Contains(out, p) {
			d.c.b.Remark(at, "pool "+name+", which is not defined or falls back to itself", "left out", "")
			break
		}
		p.used = true
		out = append(out, p)
		name = p.fallback
	}
	return out
}

// rule makes the edges of a pool and its fallbacks. One pool alone is weighted; with fallbacks the order of pools
// decides, and each is one edge.
func (d *dynamic) rule(name string, at *tree.Node) importer.Rule {
	chain := d.chain(name, at)
	r := importer.Rule{Mode: spec.Failover, Probe: d.probe, At: at}
	if len(chain) == 1 && len(chain[0].values) > 1 {
		r.Mode = spec.Weighted
		r.Edges = d.each(chain[0], true)
	} else {
		for _, p := range chain {
			r.Edges = append(r.Edges, d.together(p)...)
		}
	}
	d.last(&r, chain)
	return r
}

// each makes an edge of every value of a pool.
func (d *dynamic) each(p *pool, withWeights bool) []string {
	var out []string
	up := false
	for _, v := range p.values {
		up = up || !v.down
	}
	for i, v := range p.values {
		e := importer.Edge{Name: fmt.Sprintf("%s-%d", p.name, i+1), Addresses: importer.Distinct(v.addresses), Target: v.target, Disabled: v.down && up, At: v.n}
		if withWeights {
			e.Weight = v.weight
		}
		if v.down {
			d.c.b.Remark(v.n, "status down of "+e.Name, map[bool]string{true: "the edge is disabled", false: "the edge is enabled: one must be"}[up], "")
		}
		name := d.svc.AddEdge(e)
		switch {
		case name == "":
			d.c.b.Lost(v.n, "value "+e.Name+" of "+d.lead.name, "left out: it leads nowhere, or back to the name itself", "")
			continue
		case slices.Contains(out, name):
			d.c.b.Remark(v.n, "value "+e.Name+", which stands in the pool already with the same weight", "one edge, whose weight counts once", "give that edge the sum of the weights")
		}
		out = append(out, name)
	}
	return out
}

// together makes one edge of the addresses of a pool; of names, which cannot be answered together, an edge each.
func (d *dynamic) together(p *pool) []string {
	if len(p.values) > 1 {
		d.c.b.Remark(p.n, fmt.Sprintf("pool %s: one of its %d values at a time, by weight", p.name, len(p.values)), "the pools go by order, and the values of a pool are answered together, or in order where they are names", "")
	}
	if d.lead.kind == "CNAME" {
		sorted := *p
		sorted.values = slices.Clone(p.values)
		slices.SortStableFunc(sorted.values, func(a, b value) int { return cmp.Compare(b.weight, a.weight) })
		return d.each(&sorted, false)
	}
	e := importer.Edge{Name: p.name, At: p.n}
	for _, v := range p.values {
		if v.down {
			d.c.b.Remark(v.n, "status down of "+v.n.Get("value").String()+" in pool "+p.name, "left out of the edge", "add the address when it is to be used again")
			continue
		}
		e.Addresses = append(e.Addresses, v.addresses...)
	}
	e.Addresses = importer.Distinct(e.Addresses)
	if name := d.svc.AddEdge(e); name != "" {
		return []string{name}
	}
	d.c.b.Remark(p.n, "pool "+p.name, "left out: it has no address that is to be used", "")
	return nil
}

// last says what a rule answers when every pool is down: the record's own values.
func (d *dynamic) last(r *importer.Rule, chain []*pool) {
	inside := func(v value) bool {
		return slices.ContainsFunc(chain, func(p *pool) bool {
			return slices.ContainsFunc(p.values, func(o value) bool {
				return o.target == v.target && !slices.ContainsFunc(v.addresses, func(a spec.Address) bool { return !slices.Contains(o.addresses, a) })
			})
		})
	}
	outside := slices.DeleteFunc(slices.Clone(d.backup), inside)
	switch {
	case len(d.backup) == 0:
	case len(d.backup) == 1 && len(d.backup[0].addresses) == 1:
		r.AllDown = "fallback:" + d.backup[0].addresses[0].String()
	case len(d.backup) == 1 && d.backup[0].target != "":
		r.AllDown = "fallback:" + string(d.backup[0].target)
	case len(outside) == 0:
		r.AllDown = "all"
	case r.Mode == spec.Failover:
		e := importer.Edge{Name: "backup", At: d.lead.n}
		for _, v := range d.backup {
			e.Addresses, e.Target = append(e.Addresses, v.addresses...), v.target
		}
		e.Addresses = importer.Distinct(e.Addresses)
		if name := d.svc.AddEdge(e); name != "" {
			r.Edges = append(r.Edges, name)
			d.c.b.Remark(d.lead.n, "values of "+d.lead.name+", answered unprobed when every pool is down", "the edge backup, last in the order", "")
		}
	default:
		r.AllDown = "all"
		d.c.b.Remark(d.lead.n, "values of "+d.lead.name+", answered unprobed when every pool is down", "all edges of the rule are answered then", "set whenAllDown")
	}
}

// backupName is the pool the older geo form falls back to.
const backupName = "default"

// older makes pools and rules of the older form: values by place, with the record's own values for everybody else.
func (d *dynamic) older() {
	p := &pool{n: d.lead.n, name: backupName, values: d.backup}
	d.pools[backupName], d.backup = p, nil
	for _, n := range d.lead.n.Get("geo").EachKey() {
		d.pools[n.Key].fallback = backupName
		d.place(d.rule(n.Key, n), n.Key, n)
	}
	r := d.rule(backupName, d.lead.n)
	r.Scope = importer.Everybody()
	d.svc.AddRule(r)
}

// rules makes the rules of the service.
func (d *dynamic) rules() {
	if d.lead.n.Get("dynamic") == nil {
		d.older()
		return
	}
	for _, n := range d.lead.n.Get("dynamic").Get("rules").Each() {
		name := n.Get("pool").Str()
		r := d.rule(name, n)
		if len(r.Edges) == 0 {
			d.c.b.Lost(n, "rule for pool "+name, "left out: the pool has nothing to answer with", "")
			continue
		}
		geos, subnets := n.Get("geos").Each(), n.Get("subnets").Each()
		for _, g := range geos {
			d.place(r, g.Text, g)
		}
		for _, s := range subnets {
			d.subnet(r, s)
		}
		if len(geos)+len(subnets) == 0 {
			r.Scope = importer.Everybody()
			if !d.svc.AddRule(r) {
				d.c.b.Lost(n, "rule for everybody with pool "+name, "left out: an earlier rule is for everybody", "")
			}
		}
	}
}

// place adds a rule for a code such as NA-US-CA.
func (d *dynamic) place(r importer.Rule, code string, at *tree.Node) {
	p := strings.SplitN(strings.ToUpper(code), "-", 3)
	var err error
	switch len(p) {
	case 1:
		r.Scope, err = importer.Continent(p[0])
	case 2:
		r.Scope, err = importer.Place(p[1], "", "")
	default:
		r.Scope, err = importer.Place(p[1], p[2], "")
	}
	switch {
	case err != nil:
		d.c.b.Lost(at, "place "+code+" of "+d.lead.name, "left out: "+err.Error(), "write a rule with the places you mean")
		return
	case len(p) > 1 && importer.ContinentOf(r.Scope) != p[0]:
		d.c.b.Remark(at, "place "+code+" of "+d.lead.name, "the country is in "+importer.ContinentOf(r.Scope)+" here; its rule is the same", "")
	}
	if !d.svc.AddRule(r) {
		d.c.b.Lost(at, "place "+code+" of "+d.lead.name, "left out: an earlier rule has it", "")
		return
	}
	if at.Kind == tree.Scalar {
		at.Use()
	}
}

func (d *dynamic) subnet(r importer.Rule, n *tree.Node) {
	sc, changed, err := importer.CIDR(n.String())
	if err != nil {
		d.c.b.Lost(n, "subnet "+n.String()+" of "+d.lead.name, "left out: "+err.Error(), "")
		return
	}
	r.Scope = sc
	switch {
	case !d.svc.AddRule(r):
		d.c.b.Lost(n, "subnet "+n.String()+" of "+d.lead.name, "left out: an earlier rule has it", "")
	case changed:
		d.c.b.Changed(n, "subnet "+n.String()+" with address bits beyond its length", sc.String(), "")
	default:
		n.Use()
	}
}

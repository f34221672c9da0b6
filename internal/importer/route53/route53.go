// Package route53 reads what `aws route53 list-resource-record-sets` prints, with the health checks and the CIDR blocks
// where their files are given.
package route53

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// Files names what to read. Only RecordSets is needed; "-" is standard input.
type Files struct {
	RecordSets   string
	HealthChecks string   // list-health-checks
	CIDRBlocks   []string // list-cidr-blocks, one file a collection
}

// Import makes resources of the record sets of one hosted zone. An error that is no importer.ErrInvalid says what is
// wrong with a file.
func Import(files Files, in io.Reader, o importer.Options) (*importer.Result, error) {
	c := &converter{b: importer.New(o), checks: map[string]*tree.Node{}, blocks: map[string][]*tree.Node{}}
	root, err := c.read(files.RecordSets, in)
	if err != nil {
		return nil, err
	}
	if files.HealthChecks != "" {
		h, err := c.read(files.HealthChecks, in)
		if err != nil {
			return nil, err
		}
		for _, n := range h.Get("HealthChecks").Each() {
			if id := n.Get("Id"); id != nil {
				c.checks[id.Text] = n
			}
		}
		c.checksGiven = true
	}
	for _, f := range files.CIDRBlocks {
		h, err := c.read(f, in)
		if err != nil {
			return nil, err
		}
		for _, n := range h.Get("CidrBlocks").Each() {
			if name := n.Get("LocationName"); name != nil {
				c.blocks[name.Text] = append(c.blocks[name.Text], n)
			}
		}
	}
	if err := c.convert(root, o.Zone); err != nil {
		return nil, err
	}
	return c.b.Finish()
}

type converter struct {
	b           *importer.Builder
	zone        *importer.Zone
	sets        []*set
	byName      map[string][]*set
	order       []string // names, as they come
	checks      map[string]*tree.Node
	checksGiven bool
	blocks      map[string][]*tree.Node
	pending     []*set // aliases of names that may be steered themselves
}

func (c *converter) read(path string, in io.Reader) (*tree.Node, error) {
	name, data, err := importer.ReadFile(path, in)
	if err != nil {
		return nil, err
	}
	n, err := tree.JSON(name, data)
	if err != nil {
		return nil, err
	}
	c.b.Root(n)
	return n, nil
}

// set is one record set.
type set struct {
	n        *tree.Node
	name     string // without the last dot, in lower case
	kind     string
	id       string // SetIdentifier
	ttl      *tree.Node
	values   []*tree.Node // the Value of each record
	alias    *tree.Node
	policy   string
	location *tree.Node
}

// The routing policies.
const (
	simple     = "simple"
	weighted   = "weighted"
	failover   = "failover"
	latency    = "latency"
	geo        = "geolocation"
	proximity  = "geoproximity"
	multivalue = "multivalue"
	byCIDR     = "cidr"
)

func (c *converter) convert(root *tree.Node, zone string) error {
	list := root.Get("ResourceRecordSets")
	if list == nil || list.Kind != tree.List {
		return &tree.Problem{File: root.File, Line: root.Line, Text: "has no list ResourceRecordSets: it is not what list-resource-record-sets prints"}
	}
	c.byName = map[string][]*set{}
	for _, n := range list.Items {
		c.add(n)
	}
	if t := root.Get("IsTruncated"); t.Is("true") {
		c.b.Lost(t, "IsTruncated true", "only the records of this file were read", "export the other pages too (the command line tool does so without --max-items) and import again")
	} else if t != nil {
		t.Use()
	}
	root.Get("MaxItems").Use()
	if zone == "" {
		zone = c.zoneName()
	}
	if zone == "" {
		return &tree.Problem{File: root.File, Line: root.Line, Text: "has no SOA record set, so the name of the zone is not known: give --zone NAME"}
	}
	var err error
	if c.zone, err = c.b.Zone(zone, list); err != nil {
		return &tree.Problem{File: root.File, Line: root.Line, Text: fmt.Sprintf("is of the zone %q, which %v", zone, err)}
	}
	for _, name := range c.order {
		c.static(name)
	}
	for _, name := range c.order {
		c.steered(name)
	}
	c.aliases()
	return nil
}

func (c *converter) zoneName() string {
	for _, s := range c.sets {
		if s.kind == "SOA" {
			return s.name
		}
	}
	return ""
}

// add reads the envelope of one record set.
func (c *converter) add(n *tree.Node) {
	name, kind := n.Get("Name"), n.Get("Type")
	if name == nil || kind == nil || name.Kind != tree.Scalar {
		c.b.Lost(n, "a record set without Name or Type", "left out", "")
		return
	}
	s := &set{
		n: n, name: strings.ToLower(strings.TrimSuffix(unescape(name.Str()), ".")), kind: strings.ToUpper(kind.Str()),
		id: n.Get("SetIdentifier").Str(), ttl: n.Get("TTL"), alias: n.Get("AliasTarget"), policy: simple,
	}
	for _, r := range n.Get("ResourceRecords").Each() {
		if v := r.Get("Value"); v != nil {
			s.values = append(s.values, v)
		}
	}
	for _, p := range []struct{ field, policy string }{
		{"Weight", weighted},
		{"Failover", failover},
		{"Region", latency},
		{"GeoLocation", geo},
		{"GeoProximityLocation", proximity},
		{"CidrRoutingConfig", byCIDR},
		{"MultiValueAnswer", multivalue},
	} {
		if f := n.Get(p.field); f != nil && !(p.field == "MultiValueAnswer" && f.Is("false")) {
			s.policy, s.location = p.policy, f
			break
		}
	}
	if len(c.byName[s.name]) == 0 {
		c.order = append(c.order, s.name)
	}
	c.byName[s.name] = append(c.byName[s.name], s)
	c.sets = append(c.sets, s)
}

// unescape reads the \052 of names: three octal digits.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isAddress is true for the types that say where visitors go.
func isAddress(kind string) bool { return kind == "A" || kind == "AAAA" || kind == "CNAME" }

// seconds is the TTL of a set. Aliases have none: Route 53 answers with 60 for most of them.
func (s *set) seconds() int {
	if v, ok := s.ttl.Int(); ok {
		return v
	}
	return 60
}

// plain is true for a set without a policy, an alias or a health check.
func (s *set) plain() bool {
	return s.alias == nil && (s.policy == simple || s.policy == multivalue && s.n.Get("HealthCheckId") == nil)
}

// static makes records of the sets of a name that are not steered.
func (c *converter) static(name string) {
	for _, s := range c.byName[name] {
		switch {
		case s.kind == "SOA":
			c.b.Changed(s.n, "SOA record of "+name, "the defaults of soa: its names and times are those of the provider", "set soa.rname to your mailbox")
		case s.policy == multivalue && s.plain() && !c.mixed(name):
			c.b.Remark(s.n, "multivalue answer "+s.id+" of "+name+" without a health check", "one static record set with all values", "")
			s.location.Use()
			c.records(s)
		case s.plain() && s.policy == simple && (!isAddress(s.kind) || !c.mixed(name)):
			c.records(s)
		case !isAddress(s.kind):
			c.b.Lost(s.n, fmt.Sprintf("%s record set %s of %s with %s routing", s.kind, s.id, name, s.policy), "left out: only addresses and names are steered", "write one static record, or divide the name")
		}
	}
}

// mixed reports whether a set of the name that says where visitors go is more than plain.
func (c *converter) mixed(name string) bool {
	for _, s := range c.byName[name] {
		if isAddress(s.kind) && !s.plain() {
			return true
		}
	}
	return false
}

func (c *converter) records(s *set) {
	ttl := s.seconds()
	for _, v := range s.values {
		c.zone.Record(s.name, s.kind, ttl, v.Str(), v)
	}
	if h := s.n.Get("HealthCheckId"); h != nil {
		c.b.Lost(h, "health check "+h.Text+" of "+s.name, "left out: a static record is always answered", "make it a Service with one edge")
	}
}

// addresses reads the values of an A or AAAA set.
func (c *converter) addresses(s *set) []spec.Address {
	var out []spec.Address
	for _, v := range s.values {
		var a spec.Address
		if err := a.UnmarshalText([]byte(v.Text)); err != nil {
			c.b.Lost(v, s.kind+" "+v.Text+" of "+s.name, "left out: it "+err.Error(), "")
			continue
		}
		v.Use()
		out = append(out, a)
	}
	return out
}

package route53

import (
	"fmt"
	"net"
	"strings"
	"time"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
	"steerpoint/spec"
)

// probe makes the probe of a service's rules of the health checks of its record sets.
func (c *converter) probe(svc *importer.Service, members []*member) importer.Probe {
	var out *importer.Probe
	wanted := false
	for _, m := range members {
		wanted = wanted || m.probed
		for _, s := range m.sets {
			id := s.n.Get("HealthCheckId")
			if id == nil {
				continue
			}
			p := c.check(svc, id)
			switch {
			case p == nil:
			case out == nil:
				out = p
			case *p != *out:
				c.b.Changed(id, "health check "+id.Text+" of record set "+s.id+" of "+s.name+", which differs from that of another", "the probe of the first: a rule probes all its edges alike", "")
			}
		}
	}
	lead := members[0].lead
	needs := lead.policy == failover || lead.policy == latency || lead.policy == proximity
	switch {
	case out != nil:
		for _, m := range members {
			if !m.probed && lead.policy != geo && lead.policy != byCIDR { // those have rules without a probe
				c.b.Remark(m.lead.n, "record set "+m.lead.id+" of "+m.lead.name+" has no health check: Route 53 takes it for healthy", "it is probed like the others", "")
			}
		}
		return *out
	case wanted || needs:
		c.b.Remark(lead.n, lead.name+" has no health check that could be translated", "a probe of https://"+svc.Host()+"/ at every edge", "set probe.url of its rules to what tells that an edge works")
		return importer.Probe{URL: "https://" + svc.Host() + "/"}
	}
	return importer.Probe{Off: true}
}

// check makes a probe of a health check; nil where there is none of the kind.
func (c *converter) check(svc *importer.Service, id *tree.Node) *importer.Probe {
	h := c.checks[id.Text]
	cfg := h.Get("HealthCheckConfig")
	if cfg == nil {
		todo := "export them with `aws route53 list-health-checks` and import again with --health-checks FILE"
		if c.checksGiven {
			todo = "see whether it still exists"
		}
		c.b.Lost(id, "health check "+id.Text, "left out: it is not in the files", todo)
		return nil
	}
	id.Use()
	p := importer.Probe{Method: "GET", Insecure: true}
	kind := cfg.Get("Type")
	plain := strings.TrimSuffix(strings.ToUpper(kind.String()), "_STR_MATCH") // with or without a text to look for
	scheme := map[string]string{"HTTP": "http", "HTTPS": "https", "TCP": "tcp"}[plain]
	if scheme == "" {
		c.b.Lost(h, "health check "+id.Text+" of type "+kind.String(), "left out: it asks no endpoint of its own", "choose what to probe, in probe.url")
		return nil
	}
	kind.Use()
	if !c.url(svc, cfg, scheme, &p) {
		return nil
	}
	if scheme == "tcp" {
		p.Method, p.Insecure = "", false
	}
	p.Interval = c.interval(cfg.Get("RequestInterval"))
	p.Fall = c.threshold(cfg.Get("FailureThreshold"))
	p.Rise = p.Fall
	if s := cfg.Get("SearchString"); s != nil && scheme != "tcp" {
		p.Body = s.Str()
	}
	c.extras(h, cfg, id.Text)
	return &p
}

func (c *converter) url(svc *importer.Service, cfg *tree.Node, scheme string, p *importer.Probe) bool {
	host := svc.Host()
	if f := cfg.Get("FullyQualifiedDomainName"); f != nil {
		host = strings.TrimSuffix(f.Str(), ".")
	}
	if ip := cfg.Get("IPAddress"); ip != nil {
		ip.Use()
		var a spec.Address
		if err := a.UnmarshalText([]byte(ip.Text)); err == nil && !svc.HasAddress(a) {
			c.b.Changed(ip, "health check of the address "+ip.Text+", which is none of "+svc.Host(), "the edges' own addresses are probed", "")
		}
	}
	port := map[string]string{"http": "80", "https": "443"}[scheme]
	if n := cfg.Get("Port"); n != nil {
		port = n.Str()
	}
	path := cfg.Get("ResourcePath").Str()
	text := scheme + "://" + net.JoinHostPort(host, port)
	if scheme == "tcp" {
		path = ""
	} else if text = strings.TrimSuffix(text, map[string]string{"http": ":80", "https": ":443"}[scheme]); !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	u, err := importer.ProbeURL(text + path)
	if err != nil {
		c.b.Lost(cfg, "health check of "+text+path, "left out: it "+err.Error(), "set probe.url")
		return false
	}
	p.URL = u
	return true
}

func (c *converter) interval(n *tree.Node) time.Duration {
	if v, ok := n.Int(); ok && v >= 1 && v <= 3600 {
		return time.Duration(v) * time.Second
	}
	if n != nil {
		c.b.Changed(n, "RequestInterval "+n.String(), "30s", "")
	}
	return 30 * time.Second
}

func (c *converter) threshold(n *tree.Node) int {
	if v, ok := n.Int(); ok && v >= 1 && v <= 10 {
		return v
	}
	if n != nil {
		c.b.Changed(n, "FailureThreshold "+n.String(), "3", "")
	}
	return 3
}

// extras lists what a probe of ours does not have, and takes what needs no field.
func (c *converter) extras(h, cfg *tree.Node, id string) {
	for _, key := range []string{"EnableSNI", "MeasureLatency"} { // SNI and latency are always there
		cfg.Get(key).Use()
	}
	for _, key := range []string{"Id", "CallerReference", "HealthCheckVersion"} { // names, not settings
		h.Get(key).Use()
	}
	if n := cfg.Get("Inverted"); n.Is("true") {
		c.b.Lost(n, "health check "+id+" is inverted", "left out: a good answer is good", "see what it was for")
	} else {
		n.Use()
	}
	if n := cfg.Get("Disabled"); n.Is("true") {
		c.b.Changed(n, "health check "+id+" is disabled, which Route 53 takes for healthy", "the probe is on", "set probe.enabled: false to keep it off")
	} else {
		n.Use()
	}
	if n := cfg.Get("Regions"); n != nil {
		c.b.Changed(n, fmt.Sprintf("Regions %s of health check %s", n, id), "the probe points nearest to each rule vote", "choose them with probe.points")
	}
}

package gdnsd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"steerpoint/internal/importer"
	"steerpoint/internal/importer/tree"
)

// Defaults of service types (gdnsd.config(5), section on service types).
const (
	defaultUp       = 20
	defaultDown     = 10
	defaultInterval = 10 // seconds
	mostResults     = 10 // of fall and rise
)

// check is what a service type asks of an address.
type check struct {
	n      *tree.Node
	scheme string
	vhost  string // "": that of the service
	port   string
	path   string
	with   importer.Probe
}

// serviceTypes gives the check of one name or a list of them; nil where nothing is asked.
func (c *converter) serviceTypes(n *tree.Node) *check {
	var out *check
	for _, t := range n.Each() {
		ch := c.serviceType(t)
		switch {
		case ch == nil:
		case out == nil:
			out = ch
		case ch != out:
			c.b.Changed(t, "service type "+t.Text+" beside another: both must be up", "only the first is probed", "probe a path that tests both")
		}
	}
	return out
}

func (c *converter) serviceType(t *tree.Node) *check {
	name := t.String()
	n := c.root.Get("service_types").Get(name)
	switch {
	case n == nil && name == "up":
		t.Use()
		return nil
	case n == nil && name == "down":
		c.b.Changed(t, "service type down", "nothing is probed: an edge is not down by itself", "set enabled: false at its edge")
		return nil
	case n == nil:
		c.b.Lost(t, "service type "+name+", which is not defined", "nothing is probed", "set probe.url")
		return nil
	}
	t.Use()
	if ch, known := c.checks[name]; known {
		return ch
	}
	ch := c.define(name, n)
	c.checks[name] = ch
	return ch
}

// define reads the definition of a service type.
func (c *converter) define(name string, n *tree.Node) *check {
	ch := &check{n: n}
	switch plugin := n.Get("plugin"); plugin.String() {
	case "http_status":
		plugin.Use()
		ch.scheme, ch.port, ch.path = "http", "80", "/"
		ch.vhost = strings.TrimSuffix(n.Get("vhost").Str(), ".")
		if p := n.Get("port"); p != nil {
			ch.port = p.Str()
		}
		if p := n.Get("url_path"); p != nil {
			ch.path = p.Str()
		}
		ch.with.Method, ch.with.Status = "GET", c.codes(n.Get("ok_codes"))
	case "tcp_connect":
		plugin.Use()
		ch.scheme, ch.port = "tcp", n.Get("port").Str()
	case "static":
		if s := n.Get("state"); s == nil || s.Is("UP") {
			plugin.Use()
			s.Use()
			return nil
		}
		c.b.Changed(n, "service type "+name+" of the plugin static, which is always down", "nothing is probed", "set enabled: false at its edges")
		return nil
	default:
		c.b.Lost(n, "service type "+name+" of the plugin "+plugin.String(), "left out: nothing is probed where it is used, so nothing moves by itself", "set probe.url to something that tells that an edge works, and probe.enabled: true")
		return nil
	}
	c.timing(name, n, ch)
	return ch
}

// codes writes ok_codes as a list of status codes.
func (c *converter) codes(n *tree.Node) string {
	var out []string
	for _, v := range n.Each() {
		if code, ok := v.Int(); ok && code >= 100 && code <= 599 {
			out = append(out, strconv.Itoa(code))
			continue
		}
		c.b.Lost(v, "ok_codes "+v.String(), "left out: it is no status code", "")
	}
	if len(out) == 0 {
		return "200"
	}
	return strings.Join(out, ",")
}

// timing reads interval, timeout and the thresholds.
func (c *converter) timing(name string, n *tree.Node, ch *check) {
	interval := c.within(n.Get("interval"), defaultInterval, 1, 3600, "interval")
	ch.with.Interval = time.Duration(interval) * time.Second
	ch.with.Timeout = ch.with.Interval / 2
	if t := n.Get("timeout"); t != nil {
		ch.with.Timeout = time.Duration(c.within(t, interval, 1, interval, "timeout")) * time.Second
	}
	ch.with.Fall = c.results(name, n, "down_thresh", defaultDown)
	ch.with.Rise = c.results(name, n, "up_thresh", defaultUp)
	if ok := n.Get("ok_thresh"); ok != nil {
		c.b.Changed(ok, "ok_thresh "+ok.String()+" of "+name, "failures count in a row: one success resets them", "")
	}
}

func (c *converter) within(n *tree.Node, otherwise, low, top int, what string) int {
	if n == nil {
		return otherwise
	}
	v, ok := n.Int()
	if !ok || v < low || v > top {
		v = min(max(v, low), top)
		c.b.Changed(n, what+" "+n.String(), fmt.Sprintf("%s %d", what, v), "")
	}
	return v
}

// results reads a threshold, which has a far lower bound here.
func (c *converter) results(name string, n *tree.Node, key string, otherwise int) int {
	t := n.Get(key)
	v, ok := t.Int()
	if !ok {
		v = otherwise
	}
	switch {
	case v >= 1 && v <= mostResults && (ok || t == nil):
	case t == nil:
		c.b.Remark(n, fmt.Sprintf("%s of %s is gdnsd's default of %d", key, name, v), fmt.Sprintf("%d results in a row, the most there is", mostResults), "a few are enough where several points vote")
	default:
		c.b.Changed(t, key+" "+t.String()+" of "+name, fmt.Sprintf("%d results in a row", min(max(v, 1), mostResults)), "")
	}
	return min(max(v, 1), mostResults)
}

// probe is the check for the service of a host.
func (ch *check) probe(host string, c *converter) importer.Probe {
	if ch.vhost != "" {
		host = ch.vhost
	}
	path := ch.path
	if ch.scheme == "http" && !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	text := ch.scheme + "://" + net.JoinHostPort(host, ch.port)
	if ch.scheme == "http" {
		text = strings.TrimSuffix(text, ":80")
	}
	u, err := importer.ProbeURL(text + path)
	if err != nil {
		c.b.Remark(ch.n, "the probe "+text+path, "nothing is probed: it "+err.Error(), "set probe.url and probe.enabled: true")
		return importer.Probe{Off: true}
	}
	p := ch.with
	p.URL = u
	return p
}

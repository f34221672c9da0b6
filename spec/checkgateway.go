package spec

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// gateway checks what our gateways and managed edges will use.
func (c *checker) gateway(s *Service) {
	groups := make([]string, len(s.OriginGroups))
	for i := range s.OriginGroups {
		groups[i] = s.OriginGroups[i].Name
		c.originGroup(&s.OriginGroups[i], at("originGroups[%d]", i))
	}
	c.uniqueNames("originGroups", groups, "origin group")
	c.routes(s, groups)
	for i := range s.Policies.Cache {
		c.paths(at("policies.cache[%d].paths", i), s.Policies.Cache[i].Paths)
	}
	for i := range s.Policies.ResponseHeaders {
		c.paths(at("policies.responseHeaders[%d].paths", i), s.Policies.ResponseHeaders[i].Paths)
		c.headers(&s.Policies.ResponseHeaders[i], at("policies.responseHeaders[%d]", i))
	}
	for i := range s.Policies.Access {
		c.paths(at("policies.access[%d].paths", i), s.Policies.Access[i].Paths)
		c.access(&s.Policies.Access[i], at("policies.access[%d]", i))
	}
	for i := range s.Policies.RateLimit {
		c.paths(at("policies.rateLimit[%d].paths", i), s.Policies.RateLimit[i].Paths)
		c.rateLimit(&s.Policies.RateLimit[i], at("policies.rateLimit[%d]", i))
	}
	if s.Acceleration.Enabled && s.Acceleration.Overlay == "" {
		c.fail("acceleration.overlay", "", valueError{CodeMissing, "is missing", "the name of an Overlay, as acceleration is enabled", ""})
	}
	c.notYet("policies.cache", len(s.Policies.Cache) > 0)
	c.notYet("acceleration", s.Acceleration.Enabled)
	for i := range s.Routes {
		r := &s.Routes[i]
		c.notYet(at("routes[%d].cache", i), r.Cache)
		c.notYet(at("routes[%d].protocol", i), r.Protocol == "llm")
	}
}

// notYet warns of a field that this version only checks.
func (c *checker) notYet(path string, used bool) {
	if used {
		c.warn(path, "", valueError{CodeNotUsedYet, "is checked, but has no effect in this version", "", ""})
	}
}

func (c *checker) originGroup(g *OriginGroup, path string) {
	labels := make([]string, len(g.Origins))
	enabled := 0
	for i := range g.Origins {
		o := &g.Origins[i]
		labels[i] = o.Name
		if o.Enabled {
			enabled++
		}
		c.origin(o, at("%s.origins[%d]", path, i))
	}
	c.uniqueNames(path+".origins", labels, "origin")
	if enabled == 0 && len(g.Origins) > 0 {
		c.fail(path+".origins", "", valueError{CodeNoEnabledEdge, "every origin here is disabled", "at least one origin with enabled: true", ""})
	}
	c.originHealth(g, enabled, path)
	if g.Passive.Failures > 0 && g.Passive.MaxOut < g.Passive.Out {
		c.fail(path+".passive.maxOut", g.Passive.MaxOut.String(), valueError{CodeContradiction, "is shorter than out " + g.Passive.Out.String(), "at least out", ""})
	}
	if g.Concurrency.Queue > 0 && g.Concurrency.PerOrigin == 0 {
		c.fail(path+".concurrency.queue", fmt.Sprint(g.Concurrency.Queue), valueError{CodeContradiction, "has no effect without perOrigin: nothing ever waits", "perOrigin of 1 or more", ""})
	}
	if m := g.Connections.Max; m > 0 && g.Connections.Idle > m && g.Connections.Idle != defaultIdle {
		c.fail(path+".connections.idle", fmt.Sprint(g.Connections.Idle), valueError{CodeContradiction, fmt.Sprintf("is more than max %d", m), fmt.Sprintf("0 to %d", m), ""})
	}
}

// defaultIdle is the default of connections.idle, which a smaller max bounds by itself.
const defaultIdle = 64

func (c *checker) originHealth(g *OriginGroup, enabled int, path string) {
	h := &g.Health
	if h.SuccessfulSamples > h.SampleSize {
		c.fail(path+".health.successfulSamples", fmt.Sprint(h.SuccessfulSamples), valueError{CodeSamples, fmt.Sprintf("is more than sampleSize %d", h.SampleSize), fmt.Sprintf("1 to %d", h.SampleSize), ""})
	}
	if h.Timeout > h.Interval {
		c.fail(path+".health.timeout", h.Timeout.String(), valueError{CodeTimeout, "is above the interval " + h.Interval.String(), "at most the interval", ""})
	}
	if !h.Enabled && enabled > 1 {
		c.fail(path+".health.enabled", "false", valueError{CodeContradiction, fmt.Sprintf("leaves %d enabled origins, and nothing says which of them work", enabled), "one enabled origin, or enabled: true", ""})
	}
	if h.Kind == "grpc" {
		c.grpcHealth(g, path)
	} else {
		c.askedPath(path+".health.path", h.Path, true)
	}
	if strings.HasSuffix(h.Path, "*") {
		c.fail(path+".health.path", h.Path, valueError{CodeBadValue, "is no path that can be asked for", "a path without a star", ""})
	}
}

// grpcHealth checks what a group needs whose origins are asked for the health of gRPC.
func (c *checker) grpcHealth(g *OriginGroup, path string) {
	if j := slices.IndexFunc(g.Origins, func(o Origin) bool { return o.Protocol != "http2" }); j >= 0 {
		c.fail(path+".health.kind", "grpc", valueError{CodeContradiction, fmt.Sprintf("needs HTTP/2, and origin %s has %s", g.Origins[j].Name, g.Origins[j].Protocol), "protocol: http2 for every origin of the group", ""})
	}
	if service := strings.TrimPrefix(g.Health.Path, "/"); !grpcService(service) {
		c.fail(path+".health.path", g.Health.Path, valueError{CodeBadValue, "is no name of a gRPC service", "/ or /package.Service", ""})
	}
}

func (c *checker) origin(o *Origin, path string) {
	host, port, err := net.SplitHostPort(string(o.Address))
	if err != nil {
		return // its reader has said what is wrong
	}
	for _, p := range []struct {
		name, scheme string
		port         int
	}{{"httpPort", "http", o.HTTPPort}, {"httpsPort", "https", o.HTTPSPort}} {
		if p.port != 0 && p.scheme == o.Scheme && fmt.Sprint(p.port) != port {
			c.fail(path+"."+p.name, fmt.Sprint(p.port), valueError{CodeContradiction, "is another port than that of address, which is for " + o.Scheme, "leave it out", ""})
		}
	}
	if o.Drain && !o.Enabled {
		c.fail(path+".drain", "true", valueError{CodeContradiction, "has no effect: the origin is disabled", "enabled: true, or drain: false", ""})
	}
	if a, err := netip.ParseAddr(host); err == nil && a.IsLinkLocalUnicast() {
		c.warn(path+".address", string(o.Address), valueError{CodePrivate, "is a link-local address, which is another machine on every network", "", ""})
	}
	if !o.TLS.Verify && o.Scheme == "https" {
		c.warn(path+".tls.verify", "false", valueError{CodeTrustsAll, "accepts any certificate of the origin", "", ""})
	}
	if o.TLS.Roots != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(o.TLS.Roots)) {
		c.fail(path+".tls.roots", "", valueError{CodeBadValue, "holds no certificate", "certificates in PEM form, each between BEGIN CERTIFICATE and END CERTIFICATE", ""})
	}
}

func (c *checker) routes(s *Service, groups []string) {
	labels := make([]string, len(s.Routes))
	claimed := map[string]string{}
	for i := range s.Routes {
		r := &s.Routes[i]
		path := at("routes[%d]", i)
		labels[i] = r.Name
		if !slices.Contains(groups, r.OriginGroup) {
			c.fail(path+".originGroup", r.OriginGroup, valueError{CodeUndefined, "is not defined in originGroups", strings.Join(groups, ", "), names.Nearest(r.OriginGroup, groups)})
		}
		for j, d := range r.Domains {
			if !slices.Contains(s.Domains, d) {
				c.fail(at("%s.domains[%d]", path, j), string(d), valueError{CodeUndefined, "is no domain of the service", strings.Join(texts(s.Domains), ", "), ""})
			}
		}
		c.routeFields(s, r, path)
		c.claim(s, r, path, claimed)
	}
	c.uniqueNames("routes", labels, "route")
}

func (c *checker) routeFields(s *Service, r *Route, path string) {
	c.unique(path+".ruleSets", r.RuleSets, "RuleSet")
	c.unique(path+".protocols", r.Protocols, "protocol")
	if r.HTTPSRedirect && len(r.Protocols) == 1 {
		c.fail(path+".httpsRedirect", "true", valueError{CodeContradiction, "has no effect: the route is for " + r.Protocols[0] + " alone", "protocols: [http, https]", ""})
	}
	c.paths(path+".paths", r.Paths)
	c.askedPath(path+".originPath", r.OriginPath, false)
	if len(r.Paths) == 0 {
		c.fail(path+".paths", "", valueError{CodeMissing, "is empty: the route would be for no request", "at least one path; left out, it is /*", ""})
	}
	if len(r.Protocols) == 0 {
		c.fail(path+".protocols", "", valueError{CodeMissing, "is empty: the route would be for no request", "http, https or both; left out, it is both", ""})
	}
	if strings.HasSuffix(r.OriginPath, "*") {
		c.fail(path+".originPath", r.OriginPath, valueError{CodeBadValue, "is no path that can be asked for", "a path without a star, such as /assets/", ""})
	}
	if r.Cache && r.Protocol != "http" {
		c.fail(path+".cache", "true", valueError{CodeContradiction, "cannot be: what " + r.Protocol + " carries is kept by no cache", "cache: false, or protocol: http", ""})
	}
	if r.Protocol != "grpc" {
		return
	}
	for i := range s.OriginGroups {
		g := &s.OriginGroups[i]
		if g.Name != r.OriginGroup {
			continue
		}
		if j := slices.IndexFunc(g.Origins, func(o Origin) bool { return o.Protocol != "http2" }); j >= 0 {
			c.fail(path+".protocol", "grpc", valueError{CodeContradiction, fmt.Sprintf("needs HTTP/2 up to the origin, and origin %s of %s has %s", g.Origins[j].Name, g.Name, g.Origins[j].Protocol), "protocol: http2 for every origin of the group", ""})
		}
	}
}

// claim refuses two routes for one path of one domain by one protocol.
func (c *checker) claim(s *Service, r *Route, path string, claimed map[string]string) {
	domains := r.Domains
	if len(domains) == 0 {
		domains = s.Domains
	}
	for _, d := range domains {
		for j, p := range r.Paths {
			for _, protocol := range r.Protocols {
				key := protocol + "://" + string(d) + p
				if other, taken := claimed[key]; taken {
					c.fail(at("%s.paths[%d]", path, j), p, valueError{CodeRepeated, fmt.Sprintf("of %s belongs to route %s already", d, other), "each path of a domain in one route", ""})
					return
				}
				claimed[key] = r.Name
			}
		}
	}
}

// connectionHeaders belong to one connection (RFC 9110 section 7.6.1) or to the framing of a message.
const connectionHeaders = " connection content-length keep-alive proxy-connection te trailer transfer-encoding upgrade "

// maxHeaderValue is the longest value of a header that is written in a resource, in bytes.
const maxHeaderValue = 2048

func (c *checker) headers(h *HeaderPolicy, path string) {
	if len(h.Set) == 0 && len(h.Remove) == 0 {
		c.fail(path, "", valueError{CodeOneOf, "sets nothing and removes nothing", "set, remove or both", ""})
	}
	for name, value := range h.Set {
		c.headerName(path+".set."+name, name)
		c.headerValue(path+".set."+name, value)
	}
	for i, name := range h.Remove {
		c.headerName(at("%s.remove[%d]", path, i), name)
	}
}

func (c *checker) headerName(path, name string) {
	switch {
	case !patterns["token"].MatchString(name):
		c.fail(path, name, valueError{CodeBadName, "is no header name", formatWords("token"), ""})
	case strings.Contains(connectionHeaders, " "+strings.ToLower(name)+" "):
		c.fail(path, name, valueError{CodeBadName, "is a header the gateway writes itself", "headers of the content", ""})
	}
}

// headerValue checks what can be sent as the value of a header (RFC 9110 section 5.5).
func (c *checker) headerValue(path, value string) {
	switch {
	case len(value) > maxHeaderValue:
		c.fail(path, "", valueError{CodeOutOfRange, fmt.Sprintf("has %d bytes", len(value)), fmt.Sprintf("at most %d", maxHeaderValue), ""})
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		c.fail(path, value, valueError{CodeBadValue, "holds characters that a header cannot", "printable ASCII", ""})
	case strings.TrimSpace(value) != value:
		c.fail(path, value, valueError{CodeBadValue, "begins or ends with a blank, which is no part of a header's value", "the value without it", strings.TrimSpace(value)})
	}
}

func (c *checker) access(a *AccessPolicy, path string) {
	if len(a.Countries)+len(a.CIDRs)+len(a.Referers)+len(a.UserAgents)+len(a.Paths) == 0 {
		c.fail(path, "", valueError{CodeOneOf, "has no condition, so it would hold for every request", "at least one of countries, cidrs, referers, userAgents, paths", ""})
	}
	for i, r := range a.Referers {
		var d Domain
		if err := d.UnmarshalText([]byte(r)); err != nil || string(d) != r {
			c.fail(at("%s.referers[%d]", path, i), r, valueError{CodeBadName, "is no host", "a name in lower case such as www.example.com, or *.example.com", string(d)})
		}
	}
	for i, u := range a.UserAgents {
		if strings.TrimSpace(u) == "" {
			c.fail(at("%s.userAgents[%d]", path, i), u, valueError{CodeBadValue, "is part of every text", "a text that some User-Agent headers hold", ""})
		}
	}
}

func (c *checker) rateLimit(r *RateLimit, path string) {
	switch {
	case r.Key == "header" && r.Header == "":
		c.fail(path+".header", "", valueError{CodeMissing, "is missing", "the header by which clients are told apart", ""})
	case r.Key != "header" && r.Header != "":
		c.fail(path+".header", r.Header, valueError{CodeContradiction, "has no effect with key: " + r.Key, "key: header", ""})
	}
}

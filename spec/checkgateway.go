package spec

import (
	"fmt"
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
	for i := range s.Policies.ResponseHeaders {
		c.headers(&s.Policies.ResponseHeaders[i], at("policies.responseHeaders[%d]", i))
	}
	for i := range s.Policies.Access {
		c.access(&s.Policies.Access[i], at("policies.access[%d]", i))
	}
	if s.Acceleration.Enabled && s.Acceleration.Overlay == "" {
		c.fail("acceleration.overlay", "", valueError{CodeMissing, "is missing", "the name of an Overlay, as acceleration is enabled", ""})
	}
	for path, used := range map[string]bool{
		"originGroups": len(s.OriginGroups) > 0, "routes": len(s.Routes) > 0, "certificates": len(s.Certificates) > 0,
		"policies":     len(s.Policies.Cache)+len(s.Policies.Access)+len(s.Policies.RateLimit)+len(s.Policies.ResponseHeaders) > 0,
		"acceleration": s.Acceleration.Enabled,
	} {
		if used {
			c.warn(path, "", valueError{CodeNotUsedYet, "is checked, but has no effect in this version", "", ""})
		}
	}
}

func (c *checker) originGroup(g *OriginGroup, path string) {
	labels := make([]string, len(g.Origins))
	enabled := false
	for i, o := range g.Origins {
		labels[i] = o.Name
		enabled = enabled || o.Enabled
	}
	c.uniqueNames(path+".origins", labels, "origin")
	if !enabled && len(g.Origins) > 0 {
		c.fail(path+".origins", "", valueError{CodeNoEnabledEdge, "every origin here is disabled", "at least one origin with enabled: true", ""})
	}
	if g.Health.SuccessfulSamples > g.Health.SampleSize {
		c.fail(path+".health.successfulSamples", fmt.Sprint(g.Health.SuccessfulSamples), valueError{CodeSamples, fmt.Sprintf("is more than sampleSize %d", g.Health.SampleSize), fmt.Sprintf("1 to %d", g.Health.SampleSize), ""})
	}
	if g.Concurrency.Queue > 0 && g.Concurrency.PerOrigin == 0 {
		c.fail(path+".concurrency.queue", fmt.Sprint(g.Concurrency.Queue), valueError{CodeContradiction, "has no effect without perOrigin: nothing ever waits", "perOrigin of 1 or more", ""})
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
		c.claim(s, r, path, claimed)
	}
	c.uniqueNames("routes", labels, "route")
}

// claim refuses two routes for one path of one domain.
func (c *checker) claim(s *Service, r *Route, path string, claimed map[string]string) {
	domains := r.Domains
	if len(domains) == 0 {
		domains = s.Domains
	}
	for _, d := range domains {
		for j, p := range r.Paths {
			key := string(d) + p
			if other, taken := claimed[key]; taken {
				c.fail(at("%s.paths[%d]", path, j), p, valueError{CodeRepeated, fmt.Sprintf("of %s belongs to route %s already", d, other), "each path of a domain in one route", ""})
				return
			}
			claimed[key] = r.Name
		}
	}
}

// connectionHeaders belong to one connection (RFC 9110 section 7.6.1) or to the framing of a message.
const connectionHeaders = " connection content-length keep-alive proxy-connection te trailer transfer-encoding upgrade "

func (c *checker) headers(h *HeaderPolicy, path string) {
	if len(h.Set) == 0 && len(h.Remove) == 0 {
		c.fail(path, "", valueError{CodeOneOf, "sets nothing and removes nothing", "set, remove or both", ""})
	}
	for name := range h.Set {
		switch {
		case !patterns["token"].MatchString(name):
			c.fail(path+".set."+name, name, valueError{CodeBadName, "is no header name", formatWords("token"), ""})
		case strings.Contains(connectionHeaders, " "+strings.ToLower(name)+" "):
			c.fail(path+".set."+name, name, valueError{CodeBadName, "is a header the gateway writes itself", "headers of the content", ""})
		}
	}
	for i, name := range h.Remove {
		if strings.Contains(connectionHeaders, " "+strings.ToLower(name)+" ") {
			c.fail(at("%s.remove[%d]", path, i), name, valueError{CodeBadName, "is a header the gateway writes itself", "headers of the content", ""})
		}
	}
}

func (c *checker) access(a *AccessPolicy, path string) {
	if len(a.Countries)+len(a.CIDRs)+len(a.Referers)+len(a.UserAgents)+len(a.Paths) == 0 {
		c.fail(path, "", valueError{CodeOneOf, "has no condition, so it would hold for every request", "at least one of countries, cidrs, referers, userAgents, paths", ""})
	}
}

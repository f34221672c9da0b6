package spec

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// certificate checks one by itself.
func (c *checker) certificate(v *Certificate) {
	var set []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"acme", v.ACME != nil}, {"chainFrom", v.ChainFrom != nil || v.KeyFrom != nil}, {"files", v.Files != nil}} {
		if f.set || c.failed[f.name] {
			set = append(set, f.name)
		}
	}
	switch {
	case len(set) == 0:
		c.fail("", "", valueError{CodeOneOf, "has none of them", "exactly one of acme, chainFrom with keyFrom, files", ""})
	case len(set) > 1:
		c.fail("", "", valueError{CodeOneOf, "has " + strings.Join(set, " and "), "exactly one of acme, chainFrom with keyFrom, files", ""})
	case set[0] == "chainFrom" && (v.ChainFrom == nil) != (v.KeyFrom == nil):
		c.fail("", "", valueError{CodeOneOf, "has one of chainFrom and keyFrom", "both", ""})
	}
	c.unique("names", texts(v.Names), "name")
	if v.ACME != nil {
		c.acme(v)
	}
	if v.Files != nil {
		c.absolute("files.chain", v.Files.Chain)
		c.absolute("files.key", v.Files.Key)
	}
}

func (c *checker) absolute(field, name string) {
	if name != "" && (!strings.HasPrefix(name, "/") || path.Clean(name) != name || len(name) > maxFileName) {
		c.fail(field, name, valueError{CodeBadValue, "is not the name of a file of a gateway node", "an absolute path such as /etc/steer/tls.crt", ""})
	}
}

func (c *checker) acme(v *Certificate) {
	a := v.ACME
	u, err := url.Parse(a.Directory)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		c.fail("acme.directory", a.Directory, valueError{CodeBadURL, "is no URL of a directory", "an https URL such as https://acme-v02.api.letsencrypt.org/directory", ""})
	}
	if name, host, ok := strings.Cut(a.Email, "@"); a.Email != "" && (!ok || name == "" || !strings.Contains(host, ".") || strings.ContainsAny(a.Email, " <>,;")) {
		c.fail("acme.email", a.Email, valueError{CodeBadValue, "is no address of mail", "an address such as hostmaster@example.com", ""})
	}
	c.authorityRoots(a)
	wild := slices.IndexFunc(v.Names, Domain.Wildcard)
	if wild >= 0 && a.Challenge == "http-01" {
		c.fail("acme.challenge", a.Challenge, valueError{CodeContradiction, "cannot prove " + string(v.Names[wild]) + ": a wildcard needs a record of its zone", "dns-01", ""})
	}
	if (a.EABKeyID == "") != (a.EABKeyFrom == nil) {
		c.fail("acme", "", valueError{CodeOneOf, "has one of eabKeyID and eabKeyFrom", "both, or none", ""})
	}
}

// Covers reports whether a certificate is for a domain: by its name, or by a wildcard one label above (RFC 6125
// section 6.4.3).
func (v *Certificate) Covers(d Domain) bool {
	return slices.ContainsFunc(v.Names, func(n Domain) bool {
		parent, wild := strings.CutPrefix(string(n), "*.")
		_, above, _ := strings.Cut(string(d), ".")
		return n == d || wild && !d.Wildcard() && above == parent
	})
}

// gateway checks what services name of RuleSets and Certificates, and what those name of services.
func (k *setChecker) gateway() {
	used := map[string]bool{}
	k.each(func(r *Resource) {
		if r.Service == nil {
			return
		}
		k.routeSets(r, used)
		k.serviceCertificates(r, used)
		k.unusedGroups(r)
	})
	if !k.whole {
		return
	}
	k.each(func(r *Resource) {
		if (r.RuleSet != nil || r.Certificate != nil) && !used[r.Key()] {
			k.warn(r, "name", r.Name, valueError{CodeUnused, "is used by no service", "", ""})
		}
	})
}

func (k *setChecker) routeSets(r *Resource, used map[string]bool) {
	groups := r.Service.groupNames()
	for i := range r.Service.Routes {
		for j, name := range r.Service.Routes[i].RuleSets {
			doc, ok := k.set.Get(KindRuleSet, name)
			if !ok {
				if k.whole {
					k.fail(r, at("routes[%d].ruleSets[%d]", i, j), name, valueError{CodeUndefined, "is no RuleSet", strings.Join(k.ruleSetNames(), ", "), names.Nearest(name, k.ruleSetNames())})
				}
				continue
			}
			if used[doc.Key()+" of "+r.Name] {
				continue // another route of the service named it: its groups were looked at
			}
			used[doc.Key()], used[doc.Key()+" of "+r.Name] = true, true
			for _, g := range doc.RuleSet.groups() {
				if !slices.Contains(groups, g) {
					k.fail(r, at("routes[%d].ruleSets[%d]", i, j), name, valueError{CodeUndefined, fmt.Sprintf("sends requests to origin group %s, which the service does not have", g), strings.Join(groups, ", "), names.Nearest(g, groups)})
				}
			}
		}
	}
}

func (k *setChecker) ruleSetNames() []string {
	var out []string
	for _, s := range k.set.ruleSets {
		out = append(out, s.Name)
	}
	return out
}

// groups are the origin groups that rules of a set send requests to.
func (s *RuleSet) groups() []string {
	var out []string
	for _, r := range s.Rules {
		for _, a := range r.Actions {
			if a.Route != nil && a.Route.OriginGroup != "" && !slices.Contains(out, a.Route.OriginGroup) {
				out = append(out, a.Route.OriginGroup)
			}
		}
	}
	return out
}

func (s *Service) groupNames() []string {
	out := make([]string, len(s.OriginGroups))
	for i := range s.OriginGroups {
		out[i] = s.OriginGroups[i].Name
	}
	return out
}

func (k *setChecker) serviceCertificates(r *Resource, used map[string]bool) {
	for _, d := range r.Service.Domains {
		name := r.Service.Certificates[string(d)]
		if name == "" || name == "auto" {
			continue
		}
		field := "certificates." + string(d)
		doc, ok := k.set.Get(KindCertificate, name)
		switch {
		case ok && !doc.Certificate.Covers(d):
			k.fail(r, field, name, valueError{CodeNotCovered, "is not for " + string(d) + "; it is for " + strings.Join(texts(doc.Certificate.Names), ", "), "a Certificate with that name, or a wildcard one label above it", ""})
		case !ok && k.whole:
			k.fail(r, field, name, valueError{CodeUndefined, "is no Certificate", strings.Join(append([]string{"auto"}, k.certificateNames()...), ", "), names.Nearest(name, k.certificateNames())})
		}
		if ok {
			used[doc.Key()] = true
		}
	}
}

func (k *setChecker) certificateNames() []string {
	var out []string
	for _, v := range k.set.certificates {
		out = append(out, v.Name)
	}
	return out
}

// unusedGroups warns of origin groups that no request can reach. A RuleSet elsewhere may name one, so that only the whole
// tells.
func (k *setChecker) unusedGroups(r *Resource) {
	if !k.whole {
		return
	}
	reached := map[string]bool{}
	for _, route := range r.Service.Routes {
		reached[route.OriginGroup] = true
		for _, name := range route.RuleSets {
			if doc, ok := k.set.Get(KindRuleSet, name); ok {
				for _, g := range doc.RuleSet.groups() {
					reached[g] = true
				}
			}
		}
	}
	for i, g := range r.Service.OriginGroups {
		if !reached[g.Name] {
			k.warn(r, at("originGroups[%d].name", i), g.Name, valueError{CodeUnused, "is used by no route and no RuleSet", "", ""})
		}
	}
}

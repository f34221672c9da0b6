package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Resolver asks the system's resolver.
type Resolver struct {
	Servers []string // host:port, tried in order
}

// SystemResolver reads /etc/resolv.conf, or another file of its form.
func SystemResolver(path string) (Resolver, error) {
	c, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return Resolver{}, fmt.Errorf("resolver: %w", err)
	}
	var r Resolver
	for _, s := range c.Servers {
		if strings.Contains(s, ":") {
			s = "[" + s + "]"
		}
		r.Servers = append(r.Servers, s+":"+c.Port)
	}
	return r, nil
}

var errNoResolver = errors.New("no resolver is configured")

// ask gives the answer section of the first server that answers within Timeout, all servers together.
func (r Resolver) ask(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	m.SetEdns0(1232, false)
	err := errNoResolver
	for _, s := range r.Servers {
		c := dns.Client{Timeout: Timeout / 2}
		var in *dns.Msg
		if in, _, err = c.ExchangeContext(ctx, m, s); err == nil {
			return in, nil
		}
	}
	return nil, err
}

// Zone is what Delegation compares: a zone of ours and the names of its name servers.
type Zone struct {
	Name string
	NS   []string
}

// Delegation checks that the parent of a zone sends resolvers to the name servers the Zone resource lists.
func Delegation(r Resolver, z Zone) Check {
	return func(ctx context.Context) []Result {
		name := "delegation " + strings.TrimSuffix(z.Name, ".")
		in, err := r.ask(ctx, z.Name, dns.TypeNS)
		if err != nil {
			return one(name, Unknown, "the system's resolver did not answer: "+err.Error(), "")
		}
		var got []string
		for _, rr := range in.Answer {
			if ns, ok := rr.(*dns.NS); ok {
				got = append(got, fold(ns.Ns))
			}
		}
		want := make([]string, len(z.NS))
		for i, n := range z.NS {
			want[i] = fold(n)
		}
		slices.Sort(got)
		slices.Sort(want)
		switch {
		case len(got) == 0:
			return one(name, Fail, "resolvers find no name server for it ("+dns.RcodeToString[in.Rcode]+")", "add NS records at the parent zone: "+strings.Join(want, ", "))
		case !slices.Equal(got, want):
			return one(name, Warn, "resolvers find "+strings.Join(got, ", ")+"; the zone lists "+strings.Join(want, ", "), "make the parent zone and the Zone resource agree")
		}
		return one(name, OK, strings.Join(got, ", "), "")
	}
}

// Domain checks that a service's domain points at its service CNAME, so that visitors are steered at all.
func Domain(r Resolver, domain, cname string) Check {
	return func(ctx context.Context) []Result {
		name := "domain " + strings.TrimSuffix(domain, ".")
		in, err := r.ask(ctx, domain, dns.TypeCNAME)
		if err != nil {
			return one(name, Unknown, "the system's resolver did not answer: "+err.Error(), "")
		}
		want := fold(cname)
		for _, rr := range in.Answer {
			c, ok := rr.(*dns.CNAME)
			if !ok {
				continue
			}
			if got := fold(c.Target); got != want {
				return one(name, Fail, "it points at "+got, "make it a CNAME of "+want)
			}
			return one(name, OK, "points at "+want, "")
		}
		return one(name, Fail, "it is no CNAME ("+dns.RcodeToString[in.Rcode]+"): its visitors are not steered", "make it a CNAME of "+want)
	}
}

func fold(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

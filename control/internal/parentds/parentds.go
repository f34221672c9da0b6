// Package parentds asks every name server of a parent zone which DS records it has for a zone of ours. A resolver finds the
// parent and its name servers; these are then asked themselves, over TCP, so that nobody can put an answer in between who
// is not on the path. It decides nothing and stores nothing.
package parentds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// perServer is how long one server may take for one question.
	perServer = 5 * time.Second
	// maxNames and maxAddresses bound whom a parent can have us ask: it has 13 name servers at most in practice.
	maxNames     = 20
	maxAddresses = 60
	// atOnce servers are asked at the same time.
	atOnce = 8
)

// Exchange sends a question to a server, ADDR:PORT, and gives its answer.
type Exchange func(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error)

// Asker asks. Its fields are set before it is used.
type Asker struct {
	Resolver string // ADDR:PORT
	// Exchange sends questions; nil: over TCP.
	Exchange Exchange
}

// Server is what one address of a name server of the parent says.
type Server struct {
	Name    string // of the name server, FQDN
	Address netip.Addr
	DS      []string // "TAG ALGORITHM DIGEST-TYPE DIGEST", the digest in capitals; in ascending order
	TTL     time.Duration
	Err     error // why it says nothing
}

// Look is one look at a parent.
type Look struct {
	Parent  string   // the parent zone, FQDN; "": it was not found
	Servers []Server // by name and address
	Err     error    // why nobody was asked
}

// Ask looks at the parent of a zone, which is an FQDN.
func (a *Asker) Ask(ctx context.Context, zone string) Look {
	var l Look
	var names []string
	if l.Parent, l.Err = a.parent(ctx, zone); l.Err != nil {
		return l
	}
	if names, l.Err = a.nameServers(ctx, l.Parent); l.Err != nil {
		return l
	}
	l.Servers = a.addresses(ctx, names)
	slots := make(chan struct{}, atOnce)
	done := make(chan struct{})
	for i := range l.Servers {
		go func() {
			defer func() { done <- struct{}{} }()
			slots <- struct{}{}
			defer func() { <-slots }()
			if s := &l.Servers[i]; s.Err == nil {
				s.DS, s.TTL, s.Err = a.ask(ctx, zone, s.Address)
			}
		}()
	}
	for range l.Servers {
		<-done
	}
	return l
}

// parent is the zone that a zone is delegated from.
func (a *Asker) parent(ctx context.Context, zone string) (string, error) {
	_, up, ok := strings.Cut(zone, ".")
	if !ok || zone == "." {
		return "", errors.New("the root has no parent")
	}
	up = cmp.Or(up, ".")
	m, err := a.exchange(ctx, question(up, dns.TypeSOA, true), a.Resolver)
	if err != nil {
		return "", fmt.Errorf("the resolver %s was asked for the zone above %s: %w", a.Resolver, zone, err)
	}
	for _, rr := range slices.Concat(m.Answer, m.Ns) {
		if soa, ok := rr.(*dns.SOA); ok && dns.IsSubDomain(soa.Hdr.Name, up) {
			return strings.ToLower(soa.Hdr.Name), nil
		}
	}
	return "", fmt.Errorf("the resolver %s does not say which zone %s is in", a.Resolver, up)
}

func (a *Asker) nameServers(ctx context.Context, parent string) (names []string, err error) {
	m, err := a.exchange(ctx, question(parent, dns.TypeNS, true), a.Resolver)
	if err != nil {
		return nil, fmt.Errorf("the resolver %s was asked for the name servers of %s: %w", a.Resolver, parent, err)
	}
	for _, rr := range m.Answer {
		if ns, ok := rr.(*dns.NS); ok && strings.EqualFold(ns.Hdr.Name, parent) {
			names = append(names, strings.ToLower(ns.Ns))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("the resolver %s knows no name server of %s", a.Resolver, parent)
	case len(names) > maxNames:
		return nil, fmt.Errorf("%s has %d name servers: at most %d are asked", parent, len(names), maxNames)
	}
	return names, nil
}

// addresses are those of name servers; a name without any stands there with the reason.
func (a *Asker) addresses(ctx context.Context, names []string) (out []Server) {
	for _, name := range names {
		var errs []error
		before := len(out)
		for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
			m, err := a.exchange(ctx, question(name, t, true), a.Resolver)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			for _, rr := range m.Answer {
				var addr netip.Addr
				switch rr := rr.(type) {
				case *dns.A:
					addr, _ = netip.AddrFromSlice(rr.A.To4())
				case *dns.AAAA:
					addr, _ = netip.AddrFromSlice(rr.AAAA.To16())
				}
				if addr.IsValid() && len(out) < maxAddresses {
					out = append(out, Server{Name: name, Address: addr})
				}
			}
		}
		if len(out) == before {
			out = append(out, Server{Name: name, Err: cmp.Or(errors.Join(errs...), errors.New("the resolver knows no address of it"))})
		}
	}
	slices.SortFunc(out, func(x, y Server) int { return cmp.Or(cmp.Compare(x.Name, y.Name), x.Address.Compare(y.Address)) })
	return out
}

// ask asks one name server.
func (a *Asker) ask(ctx context.Context, zone string, addr netip.Addr) (list []string, ttl time.Duration, err error) {
	m, err := a.exchange(ctx, question(zone, dns.TypeDS, false), netip.AddrPortFrom(addr, 53).String())
	switch {
	case err != nil:
		return nil, 0, err
	case !m.Authoritative:
		return nil, 0, errors.New("it is not authoritative for the parent zone")
	case m.Rcode != dns.RcodeSuccess:
		return nil, 0, fmt.Errorf("it answers %s: it has no delegation of %s", dns.RcodeToString[m.Rcode], zone)
	}
	for _, rr := range m.Answer {
		if ds, ok := rr.(*dns.DS); ok && strings.EqualFold(ds.Hdr.Name, zone) {
			list = append(list, fmt.Sprintf("%d %d %d %s", ds.KeyTag, ds.Algorithm, ds.DigestType, strings.ToUpper(ds.Digest)))
			ttl = max(ttl, time.Duration(ds.Hdr.Ttl)*time.Second)
		}
	}
	slices.Sort(list)
	return list, ttl, nil
}

func question(name string, qtype uint16, recurse bool) *dns.Msg {
	q := new(dns.Msg).SetQuestion(name, qtype)
	q.RecursionDesired = recurse
	q.SetEdns0(1232, false)
	return q
}

// exchange asks one server, and refuses what is no answer to the question.
func (a *Asker) exchange(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, perServer)
	defer cancel()
	send := a.Exchange
	if send == nil {
		send = overTCP
	}
	m, err := send(ctx, q, server)
	switch {
	case err != nil:
		return nil, err
	case !m.Response || m.Id != q.Id || len(m.Question) != 1 || m.Question[0].Qtype != q.Question[0].Qtype ||
		!strings.EqualFold(m.Question[0].Name, q.Question[0].Name):
		return nil, errors.New("the answer is to another question")
	case m.Truncated:
		return nil, errors.New("the answer is cut short")
	case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
		return nil, fmt.Errorf("it answers %s", dns.RcodeToString[m.Rcode])
	}
	return m, nil
}

func overTCP(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	c := &dns.Conn{Conn: conn}
	defer func() { _ = c.Close() }() // nothing is left to be sent
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := c.WriteMsg(q); err != nil {
		return nil, err
	}
	return c.ReadMsg()
}

// Verdict is what a look says of DS records.
type Verdict struct {
	// Complete: every name server of the parent answered, at one of its addresses at least. Without it nothing else counts.
	Complete bool
	// Has: the DS asked for is at every address that answered. None: no DS is at any of them.
	Has, None bool
	// TTL is the longest of a DS that was seen.
	TTL time.Duration
}

// Judge says what a look says of one DS, in any of the forms a parent may give it, as Server.DS has them. An address that does not answer does not count while the same name
// server answers at another: control may have no IPv6.
func (l *Look) Judge(forms ...string) Verdict {
	v := Verdict{Complete: l.Err == nil && len(l.Servers) > 0, Has: true, None: true}
	answered := map[string]bool{}
	for i := range l.Servers {
		s := &l.Servers[i]
		answered[s.Name] = answered[s.Name] || s.Err == nil
		if s.Err != nil {
			continue
		}
		v.Has = v.Has && s.has(forms)
		v.None = v.None && len(s.DS) == 0
		v.TTL = max(v.TTL, s.TTL)
	}
	for _, ok := range answered {
		v.Complete = v.Complete && ok
	}
	v.Has, v.None = v.Has && v.Complete, v.None && v.Complete
	return v
}

// Any reports whether some DS that was seen is one of a list.
func (l *Look) Any(list []string) bool {
	return slices.ContainsFunc(l.Servers, func(s Server) bool { return s.has(list) })
}

func (s *Server) has(list []string) bool {
	return slices.ContainsFunc(s.DS, func(ds string) bool { return slices.Contains(list, ds) })
}

package resolve

import (
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
	// perServer is how long one server may take for one question. A resolver that has to look far takes seconds.
	perServer = 5 * time.Second
	// udpSize is what no path has to fragment (RFC 9715).
	udpSize = 1232
	// systemFile names the resolvers of the machine.
	systemFile = "/etc/resolv.conf"
)

// overNetwork asks over UDP, and over TCP what does not fit.
func overNetwork(ctx context.Context, q *dns.Msg, server string) (*dns.Msg, error) {
	c := dns.Client{Timeout: perServer, UDPSize: udpSize}
	m, _, err := c.ExchangeContext(ctx, q, server)
	if err == nil && m.Truncated {
		c.Net = "tcp"
		m, _, err = c.ExchangeContext(ctx, q, server)
	}
	return m, err
}

// servers are whom to ask, ADDR:PORT.
func (k *Keeper) servers() ([]string, error) {
	list := k.cfg.Servers
	if len(list) == 0 {
		conf, err := dns.ClientConfigFromFile(systemFile)
		if err != nil {
			return nil, fmt.Errorf("no resolver is configured, and the system's are not known: %w", err)
		}
		list = conf.Servers
	}
	if len(list) == 0 {
		return nil, errors.New("no resolver is configured, and " + systemFile + " names none")
	}
	out := make([]string, len(list))
	for i, s := range list {
		a, err := Server(s)
		if err != nil {
			return nil, err
		}
		out[i] = a
	}
	return out, nil
}

// Server reads ADDR or ADDR:PORT and gives ADDR:PORT.
func Server(s string) (string, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil && ap.Port() != 0 {
		return ap.String(), nil
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return "", fmt.Errorf("resolver %q: want an address such as 192.0.2.53, with a port or without", s)
	}
	return net.JoinHostPort(a.String(), "53"), nil
}

// query asks the servers in turn for the addresses of one family. A name that does not exist has none: that is an answer.
func (k *Keeper) query(ctx context.Context, name string, qtype uint16, servers []string) ([]netip.Addr, time.Duration, error) {
	var errs []error
	for _, server := range servers {
		q := new(dns.Msg).SetQuestion(name, qtype)
		q.SetEdns0(udpSize, false)
		one, cancel := context.WithTimeout(ctx, 2*perServer)
		m, err := k.cfg.Exchange(one, q, server)
		cancel()
		if err == nil {
			err = answers(m, q)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", server, err))
			continue
		}
		addrs, ttl := collect(m, name)
		return addrs, ttl, nil
	}
	return nil, 0, errors.Join(errs...)
}

// answers says why a message is no answer to a question; nil: it is one.
func answers(m, q *dns.Msg) error {
	switch {
	case !m.Response || m.Id != q.Id || len(m.Question) != 1 || m.Question[0].Qtype != q.Question[0].Qtype ||
		!strings.EqualFold(m.Question[0].Name, q.Question[0].Name):
		return errors.New("the answer is to another question")
	case m.Truncated:
		return errors.New("the answer is cut short")
	case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
		return fmt.Errorf("it answers %s", dns.RcodeToString[m.Rcode])
	}
	return nil
}

// collect gives the addresses that an answer has for a name, over CNAMEs, in ascending order, and how long they hold.
func collect(m *dns.Msg, name string) ([]netip.Addr, time.Duration) {
	var out []netip.Addr
	ttl := uint32(mostRefresh / time.Second)
	for range len(m.Answer) + 1 { // CNAMEs may stand in any order, and in circles
		next := ""
		for _, rr := range m.Answer {
			if !strings.EqualFold(rr.Header().Name, name) {
				continue
			}
			var a netip.Addr
			switch rr := rr.(type) {
			case *dns.CNAME:
				next = rr.Target
			case *dns.A:
				a, _ = netip.AddrFromSlice(rr.A.To4())
			case *dns.AAAA:
				a, _ = netip.AddrFromSlice(rr.AAAA.To16())
			}
			ttl = min(ttl, rr.Header().Ttl)
			if usable(a) && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
		if next == "" {
			break
		}
		name = next
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out, time.Duration(ttl) * time.Second
}

// usable is false for what is no address of one machine.
func usable(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.Is4In6() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

package check

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"steerpoint/report"
	"steerpoint/snapshot"
)

const resolving = "resolving the target's name"

// address is where this probe goes: the target's own address, or the next in turn of those its name has.
func (p *probe) address(ctx context.Context) (netip.Addr, error) {
	if p.addr.IsValid() {
		if why := p.Refuses(p.addr); why != "" {
			return netip.Addr{}, failf(report.CauseLocal, "%s is %s, which this point does not probe", p.addr, why)
		}
		return p.addr, nil
	}
	p.phase = resolving
	addrs, err := p.cfg.Resolver.LookupNetIP(ctx, network(p.family), p.name)
	p.o.Phases.DNS = p.lap()
	if err != nil {
		return netip.Addr{}, p.resolveFailure(err)
	}
	return p.choose(addrs)
}

// network is how a resolver is asked for the addresses of a family.
func network(family string) string {
	switch family {
	case snapshot.FamilyIPv4:
		return "ip4"
	case snapshot.FamilyIPv6:
		return "ip6"
	}
	return "ip"
}

func familyWord(a netip.Addr) string {
	if a.Is4() {
		return snapshot.FamilyIPv4
	}
	return snapshot.FamilyIPv6
}

func addressWords(family string) string {
	switch family {
	case snapshot.FamilyIPv4:
		return "IPv4 address"
	case snapshot.FamilyIPv6:
		return "IPv6 address"
	}
	return "address"
}

// choose takes the usable addresses in turn. A name may point anywhere, so each is held against the guard here, after
// resolution (else a name under a stranger's hand would lead a point to its own services).
func (p *probe) choose(addrs []netip.Addr) (netip.Addr, error) {
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a netip.Addr) bool { return p.family != "" && familyWord(a) != p.family })
	usable := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return p.Refuses(a) != "" })
	switch {
	case len(addrs) == 0:
		return netip.Addr{}, failf(report.CauseDNS, "%s has no %s", p.name, addressWords(p.family))
	case len(usable) == 0:
		return netip.Addr{}, failf(report.CauseDNS, "%s resolves to %s, %s", p.name, addrs[0], p.Refuses(addrs[0]))
	}
	// Of two families, one that this machine does not have is left out: that says nothing of the target.
	if usable[0].Is4() != usable[len(usable)-1].Is4() {
		if here := slices.DeleteFunc(slices.Clone(usable), func(a netip.Addr) bool { return !p.routed(a) }); len(here) > 0 {
			usable = here
		}
	}
	return usable[int(p.turn.Add(1)-1)%len(usable)], nil
}

// resolveFailure names why a name did not resolve. Also when that took all the time there was, the cause is dns: the
// target may be well, the name is what to look at.
func (p *probe) resolveFailure(err error) error {
	if f := local(err); f != nil {
		return f
	}
	var d *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failf(report.CauseLocal, "this machine's resolver does not run")
	case isTimeout(err):
		return failf(report.CauseDNS, "no answer from the resolver for %s within %v", p.name, round(p.o.Phases.DNS))
	case !errors.As(err, &d):
		return failf(report.CauseDNS, "%s did not resolve: %s", p.name, clean(err.Error()))
	case d.IsNotFound:
		return failf(report.CauseDNS, "%s does not exist or has no %s", p.name, addressWords(p.family))
	}
	return failf(report.CauseDNS, "%s did not resolve: %s", p.name, clean(d.Err))
}

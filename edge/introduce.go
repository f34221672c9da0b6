package edge

import (
	"net/netip"
	"slices"

	"steerpoint/internal/proxyproto"
)

// speaksProxy reports whether connections of an address begin with a header of the PROXY protocol. Who is not named cannot
// send one: it is no request of HTTP and is refused as such.
func (g *Gateway) speaksProxy(a netip.Addr) bool {
	return slices.ContainsFunc(g.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// introduced reads who the client is where a proxy says it. Without a whole header the connection ends unheard: what came
// through the proxy must not be taken for the proxy's own.
func (x *client) introduced() bool {
	if len(x.g.cfg.Proxies) == 0 || !x.g.speaksProxy(x.peer.Addr()) {
		return true
	}
	head, err := x.c.Header(make([]byte, proxyproto.MaxLen), proxyproto.Need)
	if err != nil {
		x.g.metrics.ended("proxy")
		return false
	}
	h, err := proxyproto.ParseStream(head)
	if err != nil {
		x.g.metrics.ended("proxy")
		return false
	}
	if !h.Client.IsValid() { // the proxy speaks for itself, such as to look whether we live
		return true
	}
	x.peer, x.local = h.Client, h.Server
	from := x.peer.Addr()
	if x.g.trusted(from) {
		return true
	}
	if !x.g.clients.identify(source(from)) {
		x.g.metrics.refusedConns.WithLabelValues("source").Inc()
		return false
	}
	x.source = source(from)
	return true
}

// identify counts a connection, which add took in without a source, as one of a source. false: that has as many as it may.
func (s *clients) identify(from netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources[from] >= s.perSource {
		return false
	}
	s.sources[from]++
	return true
}

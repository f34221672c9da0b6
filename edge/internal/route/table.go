// Package route finds the route of a request: by protocol, then by host, then by path, the most specific first, as Azure
// Front Door does. A table is compiled once and not changed; a look-up allocates nothing.
package route

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Route is what a route matches.
type Route struct {
	Name string // for errors
	// Domains are names in lower case; *.example.com matches every name below example.com, however many labels deep.
	Domains []string
	// Paths are exact, or prefixes that end in /*: /img/* matches /img/ and all below it, and not /img.
	Paths []string
	// HTTP and HTTPS say which protocols of visitors it is for.
	HTTP, HTTPS bool
}

// Table finds routes.
type Table struct {
	plain, secure hosts
}

// hosts are the routes of one protocol.
type hosts struct {
	exact map[string]*paths
	wild  map[string]*paths // by what follows the star: ".example.com"
}

// paths are the routes of one host.
type paths struct {
	domain   string
	exact    map[string]entry
	prefixes map[string]entry // with their last slash, without the star
	// depth is the most slashes of a prefix: no look-up is made further in, or a path of slashes alone would cost one each.
	depth int
}

type entry struct {
	route int
	path  string // as it was written
}

// Match is where a request belongs. The texts are those of the routes.
type Match struct {
	Route  int    // index of the route; -1: there is none, Why says why
	Why    string // NoHost or NoPath
	Domain string // what the host matched
	Path   string // what the path matched
}

// Why there is no route. Both are answered with 400.
const (
	NoHost = "no_route_for_host"
	NoPath = "no_route_for_path"
)

// ErrRoutes says that routes cannot be told apart, or name no path.
var ErrRoutes = errors.New("routes")

// New compiles routes.
func New(routes []Route) (*Table, error) {
	t := &Table{hosts{map[string]*paths{}, map[string]*paths{}}, hosts{map[string]*paths{}, map[string]*paths{}}}
	for i := range routes {
		r := &routes[i]
		if r.HTTP {
			if err := t.plain.add(i, r); err != nil {
				return nil, err
			}
		}
		if r.HTTPS {
			if err := t.secure.add(i, r); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (h *hosts) add(i int, r *Route) error {
	for _, domain := range r.Domains {
		p := h.of(domain)
		for _, path := range r.Paths {
			into, key := p.exact, path
			if prefix, ok := strings.CutSuffix(path, "/*"); ok {
				into, key = p.prefixes, prefix+"/"
				p.depth = max(p.depth, strings.Count(key, "/"))
			}
			if !strings.HasPrefix(key, "/") || strings.Contains(key, "*") {
				return fmt.Errorf("%w: route %s: %q is no path, or has a star that is not its last part", ErrRoutes, r.Name, path)
			}
			if _, taken := into[key]; taken {
				return fmt.Errorf("%w: %s of %s is in route %s and in another", ErrRoutes, path, domain, r.Name)
			}
			into[key] = entry{i, path}
		}
	}
	return nil
}

func (h *hosts) of(domain string) *paths {
	into, key := h.exact, domain
	if suffix, ok := strings.CutPrefix(domain, "*"); ok {
		into, key = h.wild, suffix
	}
	p := into[key]
	if p == nil {
		p = &paths{domain: domain, exact: map[string]entry{}, prefixes: map[string]entry{}}
		into[key] = p
	}
	return p
}

// maxHost is the length of the longest name (RFC 1035 section 2.3.4), without its last dot.
const maxHost = 253

// Find finds the route of a request. host is in lower case, without port and without a trailing dot; path comes from
// Clean; secure: it came by https.
func (t *Table) Find(host, path []byte, secure bool) Match {
	h := &t.plain
	if secure {
		h = &t.secure
	}
	p := h.find(host)
	if p == nil {
		return Match{Route: -1, Why: NoHost}
	}
	e, ok := p.find(path)
	if !ok {
		return Match{Route: -1, Why: NoPath, Domain: p.domain}
	}
	return Match{Route: e.route, Domain: p.domain, Path: e.path}
}

func (h *hosts) find(host []byte) *paths {
	if len(host) > maxHost {
		return nil
	}
	if p := h.exact[string(host)]; p != nil {
		return p
	}
	if len(h.wild) == 0 {
		return nil
	}
	// From the left: the wildcard with the most labels first. A name that starts with a dot has no label in the star's place.
	for i := 1; i < len(host); i++ {
		if host[i] == '.' {
			if p := h.wild[string(host[i:])]; p != nil {
				return p
			}
		}
	}
	return nil
}

func (p *paths) find(path []byte) (entry, bool) {
	if e, ok := p.exact[string(path)]; ok {
		return e, true
	}
	end := deep(path, p.depth)
	for end > 0 {
		if e, ok := p.prefixes[string(path[:end])]; ok {
			return e, true
		}
		end = bytes.LastIndexByte(path[:end-1], '/') + 1
	}
	return entry{}, false
}

// deep is the length of a path up to its n-th slash, or to its last one if it has fewer; 0: it has none.
func deep(path []byte, n int) int {
	end := 0
	for range n {
		i := bytes.IndexByte(path[end:], '/')
		if i < 0 {
			break
		}
		end += i + 1
	}
	return end
}

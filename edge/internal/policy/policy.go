// Package policy holds what a service asks of every request whatever its route: who may come in, how often, and which
// headers responses get.
//
// Lists are compiled once and not changed; asking them allocates nothing. Counters of rate limits are bounded, in shards of
// their own locks. The package knows no socket; clocks are the caller's.
package policy

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"steerpoint/edge/internal/rules"
	"steerpoint/snapshot"
)

// paths are exact paths and prefixes. The zero value fits every path.
type paths struct {
	exact, prefixes []string
	all             bool
}

func newPaths(list []string) paths {
	p := paths{all: len(list) == 0}
	for _, s := range list {
		switch prefix, wild := strings.CutSuffix(s, "*"); {
		case s == "/*":
			p.all = true
		case wild:
			p.prefixes = append(p.prefixes, prefix)
		default:
			p.exact = append(p.exact, s)
		}
	}
	return p
}

func (p *paths) same(q *paths) bool {
	return p.all == q.all && slices.Equal(p.exact, q.exact) && slices.Equal(p.prefixes, q.prefixes)
}

func (p *paths) fit(path []byte) bool {
	if p.all {
		return true
	}
	for _, s := range p.exact {
		if string(path) == s {
			return true
		}
	}
	for _, s := range p.prefixes {
		if len(path) >= len(s) && string(path[:len(s)]) == s {
			return true
		}
	}
	return false
}

// Access says who may come in.
type Access struct{ rules []accessRule }

type accessRule struct {
	allow     bool
	countries []string
	ranges    ranges
	anywhere  bool // no ranges were given
	referers  []string
	agents    [][]byte // in lower case
	paths     paths
}

// NewAccess compiles access policies, in their order.
func NewAccess(list []snapshot.EdgeAccess) *Access {
	a := &Access{}
	for _, e := range list {
		r := accessRule{
			allow: e.Allow, countries: e.Countries, ranges: newRanges(e.Prefixes), anywhere: len(e.Prefixes) == 0, referers: e.Referers, paths: newPaths(e.Paths),
		}
		for _, u := range e.UserAgents {
			r.agents = append(r.agents, []byte(strings.ToLower(u)))
		}
		a.rules = append(a.rules, r)
	}
	return a
}

// Admits reports whether a request may come in, and which policy decided, counted from 0; -1: none fitted, so it may.
func (a *Access) Admits(r *rules.Request) (ok bool, by int) {
	for i := range a.rules {
		if a.rules[i].fits(r) {
			return a.rules[i].allow, i
		}
	}
	return true, -1
}

func (a *accessRule) fits(r *rules.Request) bool {
	return a.paths.fit(r.Path) &&
		(a.anywhere || a.ranges.contain(r.Client.Addr())) &&
		(len(a.countries) == 0 || slices.Contains(a.countries, r.Country)) &&
		(len(a.referers) == 0 || refers(a.referers, r)) &&
		(len(a.agents) == 0 || agent(a.agents, r))
}

// refers reports whether the host of the Referer is one of those.
func refers(hosts []string, r *rules.Request) bool {
	host := refererHost(r)
	for _, h := range hosts {
		if suffix, wild := strings.CutPrefix(h, "*"); wild {
			if n := len(host) - len(suffix); n > 0 && equalFold(host[n:], suffix) {
				return true
			}
		} else if equalFold(host, h) {
			return true
		}
	}
	return false
}

// refererHost is the host of the Referer, without port; nil: there is none.
func refererHost(r *rules.Request) []byte {
	if r.Header == nil {
		return nil
	}
	v, _ := r.Header.Field("referer", 0)
	_, rest, ok := bytes.Cut(v, []byte("://"))
	if !ok {
		return nil
	}
	if i := bytes.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := bytes.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:] // credentials, which would make any name look like ours
	}
	if i := bytes.LastIndexByte(rest, ':'); i >= 0 && bytes.IndexByte(rest[i:], ']') < 0 {
		rest = rest[:i]
	}
	return bytes.TrimSuffix(rest, []byte("."))
}

func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if lowerOf(c) != lower[i] {
			return false
		}
	}
	return true
}

func lowerOf(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// agent reports whether User-Agent holds one of the texts, in any case.
func agent(lower [][]byte, r *rules.Request) bool {
	if r.Header == nil {
		return false
	}
	v, _ := r.Header.Field("user-agent", 0)
	for _, want := range lower {
		for i := 0; i+len(want) <= len(v); i++ {
			if equalFold(v[i:i+len(want)], string(want)) {
				return true
			}
		}
	}
	return false
}

// ranges are addresses from and to, in order and apart from one another, so that one is found by halves.
type ranges struct{ from, to []netip.Addr }

func newRanges(list []netip.Prefix) ranges {
	list = slices.Clone(list)
	// A shorter prefix first: what lies in it is left out below.
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var r ranges
	for _, p := range list {
		p = p.Masked()
		if n := len(r.to); n > 0 && p.Addr().Compare(r.to[n-1]) <= 0 {
			continue
		}
		r.from, r.to = append(r.from, p.Addr()), append(r.to, lastOf(p))
	}
	return r
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		if free := (i+1)*8 - p.Bits(); free > 0 {
			b[i] |= byte(1<<min(free, 8) - 1)
		}
	}
	a, _ := netip.AddrFromSlice(b) // of 4 or 16 bytes, as it came
	return a
}

func (r *ranges) contain(a netip.Addr) bool {
	a = a.Unmap()
	i, found := slices.BinarySearchFunc(r.from, a, netip.Addr.Compare)
	if found {
		return true
	}
	// Addresses of different families are ordered by family: a range ends in the one it begins in.
	return i > 0 && a.Compare(r.to[i-1]) <= 0 && a.BitLen() == r.to[i-1].BitLen()
}

// Headers changes headers of responses.
type Headers struct{ rules []headerRule }

type headerRule struct {
	paths   paths
	changes []rules.Change
}

// NewHeaders compiles header policies, in their order. Within one, what is removed goes first, and what is set is in the order
// of names.
func NewHeaders(list []snapshot.EdgeHeaders) *Headers {
	h := &Headers{}
	for _, e := range list {
		r := headerRule{paths: newPaths(e.Paths)}
		for _, name := range e.Remove {
			r.changes = append(r.changes, rules.Change{Operation: rules.Delete, Name: name})
		}
		names := make([]string, 0, len(e.Set))
		for name := range e.Set {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			r.changes = append(r.changes, rules.Change{Operation: rules.Replace, Name: name, Value: []byte(e.Set[name])})
		}
		h.rules = append(h.rules, r)
	}
	return h
}

// AppendTo appends the changes for the response to a request.
func (h *Headers) AppendTo(dst []rules.Change, r *rules.Request) []rules.Change {
	for i := range h.rules {
		if h.rules[i].paths.fit(r.Path) {
			dst = append(dst, h.rules[i].changes...)
		}
	}
	return dst
}

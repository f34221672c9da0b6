package spec

import (
	"slices"
	"strings"

	"steerpoint/spec/internal/names"
)

// maxShown services of a circle are named, the last of them always.
const maxShown = 10

// hop is a name a service sends visitors to: an edge's target or a rule's fallback.
type hop struct {
	path, name string
	to         int // service the name leads to, or -1
}

// loops refuses targets and fallbacks that lead back to the service, directly or over others (field case 39).
func (k *setChecker) loops() {
	owners := k.nameOwners()
	hops := make([][]hop, len(k.set.resources)) // by index of the resource
	for i := range k.set.resources {
		if v := k.set.resources[i].Service; v != nil {
			hops[i] = hopsOf(v)
		}
		for j := range hops[i] {
			hops[i][j].to = leadsTo(owners, hops[i][j].name)
		}
	}
	circling := onCircles(hops)
	found := 0
	for i := range hops {
		for _, h := range hops[i] {
			if h.to < 0 || !circling[i] || !circling[h.to] || found >= maxErrors {
				continue
			}
			if way := wayBack(hops, circling, h.to, i); way != nil {
				found++
				if len(way) > maxShown {
					way = append(slices.Clone(way[:maxShown-1]), way[len(way)-1])
				}
				via := []string{k.set.resources[i].Name}
				for _, step := range way {
					via = append(via, k.set.resources[step].Name)
				}
				k.fail(&k.set.resources[i], h.path, h.name, valueError{
					CodeLoop, "leads back to this service: " + strings.Join(via, " -> "), "a name that is not ours, or an address", "",
				})
			}
		}
	}
}

// nameOwners gives the service that answers for a name; wildcards stand as *.parent.
func (k *setChecker) nameOwners() map[string]int {
	owners := map[string]int{}
	for i := range k.set.resources {
		v := k.set.resources[i].Service
		if v == nil {
			continue
		}
		if cname := k.set.CNAME(v); cname != "" {
			owners[cname] = i
		}
		for _, d := range v.Domains {
			owners[string(d)] = i
		}
	}
	return owners
}

func leadsTo(owners map[string]int, name string) int {
	if i, ok := owners[name]; ok {
		return i
	}
	for parent := range names.Parents(name) {
		if i, ok := owners["*."+parent]; ok && parent != name {
			return i
		}
	}
	return -1
}

func hopsOf(s *Service) []hop {
	var out []hop
	for i := range s.Edges {
		if t := s.Edges[i].Target; t != "" {
			out = append(out, hop{path: at("edges[%d].target", i), name: string(t)})
		}
	}
	for i := range s.Rules {
		if t := s.Rules[i].WhenAllDown.Target; t != "" {
			out = append(out, hop{path: at("rules[%d].whenAllDown", i), name: t})
		}
	}
	return out
}

// onCircles leaves the services that may lie on a circle: it takes away, again and again, those that lead to none of
// the rest. Without it a long chain of fallbacks would be followed from each of its links.
func onCircles(hops [][]hop) []bool {
	left := make([]bool, len(hops))
	ways := make([]int, len(hops)) // hops to services that are left
	from := make([][]int, len(hops))
	var dead []int
	for i := range hops {
		left[i] = true
		for _, h := range hops[i] {
			if h.to >= 0 {
				ways[i]++
				from[h.to] = append(from[h.to], i)
			}
		}
		if ways[i] == 0 {
			dead = append(dead, i)
		}
	}
	for ; len(dead) > 0; dead = dead[1:] {
		left[dead[0]] = false
		for _, i := range from[dead[0]] {
			if ways[i]--; ways[i] == 0 {
				dead = append(dead, i)
			}
		}
	}
	return left
}

// wayBack gives the shortest way from a service to another over those that may circle, both included; nil: there is none.
func wayBack(hops [][]hop, circling []bool, start, goal int) []int {
	before := map[int]int{start: -1}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		here := queue[0]
		if here == goal {
			var way []int
			for ; here >= 0; here = before[here] {
				way = append(way, here)
			}
			slices.Reverse(way)
			return way
		}
		for _, h := range hops[here] {
			if h.to < 0 || !circling[h.to] {
				continue
			}
			if _, seen := before[h.to]; !seen {
				before[h.to] = here
				queue = append(queue, h.to)
			}
		}
	}
	return nil
}

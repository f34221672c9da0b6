package steering

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"steerpoint/steering/scope"
)

// Point is a probe point a rule may be assigned.
type Point struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"` // continent, country, province, city, isp, region, ...
	// Silent: nothing was heard of it for ten minutes. Rules that choose by near or labels take others in its place.
	Silent bool `json:"silent,omitempty"`
}

// PointSelector says which points a rule wants: Names, or Labels (all must match), or Count points near the scope.
type PointSelector struct {
	Names  []string
	Labels map[string]string
	Near   bool
	Count  int // with Near
}

// AssignPoints gives the points of one rule, in a fixed order, and a warning when there are fewer than asked.
//
// Near takes the points whose labels match the scope most specifically: isp and province, province, isp and country,
// country, continent, any; ties go by a hash of rule and point, so that rules spread over equal points and an
// assignment does not move when other points come and go.
//
// A silent point gives its place to the next best one that is not; without one it keeps it, since a majority of fewer
// points is easier to mislead. Of points chosen by labels, which have no next best, the silent ones are left out while
// more than half of all speak. A point that is named is never replaced.
func AssignPoints(ruleKey string, s scope.Scope, sel PointSelector, all []Point) (assigned []string, warning string) {
	switch {
	case len(sel.Names) > 0:
		return byName(sel.Names, all)
	case len(sel.Labels) > 0:
		return byLabels(sel.Labels, all)
	default:
		return near(ruleKey, s, sel.Count, all)
	}
}

// Substitutes says which of a rule's points are left out because they are silent, and which stand in for them.
func Substitutes(ruleKey string, s scope.Scope, sel PointSelector, all []Point) (silent, instead []string) {
	if !slices.ContainsFunc(all, func(p Point) bool { return p.Silent }) {
		return nil, nil
	}
	speaking := slices.Clone(all)
	for i := range speaking {
		speaking[i].Silent = false
	}
	wanted, _ := AssignPoints(ruleKey, s, sel, speaking)
	got, _ := AssignPoints(ruleKey, s, sel, all)
	without := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(n string) bool { return slices.Contains(b, n) })
	}
	return without(wanted, got), without(got, wanted)
}

func byName(names []string, all []Point) (assigned []string, warning string) {
	var missing []string
	for _, n := range names {
		switch {
		case !slices.ContainsFunc(all, func(p Point) bool { return p.Name == n }):
			missing = append(missing, n)
		case !slices.Contains(assigned, n):
			assigned = append(assigned, n)
		}
	}
	if len(missing) > 0 {
		warning = fmt.Sprintf("no such probe point: %s; the majority is of the %d that exist", strings.Join(missing, ", "), len(assigned))
	}
	return assigned, warning
}

func byLabels(labels map[string]string, all []Point) (assigned []string, warning string) {
	var speaking []string
	for _, p := range all {
		if !hasLabels(p, labels) {
			continue
		}
		assigned = append(assigned, p.Name)
		if !p.Silent {
			speaking = append(speaking, p.Name)
		}
	}
	if 2*len(speaking) > len(assigned) {
		assigned = speaking
	}
	slices.Sort(assigned)
	if len(assigned) == 0 {
		warning = "no probe point has the labels asked for: nothing is probed"
	}
	return assigned, warning
}

func hasLabels(p Point, labels map[string]string) bool {
	for k, v := range labels {
		if !strings.EqualFold(p.Labels[k], v) {
			return false
		}
	}
	return true
}

func near(ruleKey string, s scope.Scope, count int, all []Point) (assigned []string, warning string) {
	type ranked struct {
		name   string
		silent bool
		level  int
		hash   uint64
	}
	rank := make([]ranked, 0, len(all))
	for _, p := range all {
		rank = append(rank, ranked{p.Name, p.Silent, nearness(s, p), pointHash(ruleKey, p.Name)})
	}
	slices.SortFunc(rank, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.hash, b.hash), cmp.Compare(a.name, b.name))
	})
	taken, left := make([]bool, len(rank)), count
	for _, silent := range []bool{false, true} {
		for i := range rank {
			if rank[i].silent == silent && left > 0 {
				taken[i], left = true, left-1
			}
		}
	}
	for i := range rank { // in order of rank, so that a point that falls silent and has no substitute changes nothing
		if taken[i] {
			assigned = append(assigned, rank[i].name)
		}
	}
	if len(assigned) < count {
		warning = fmt.Sprintf("%d probe points asked for, %d exist; the majority is of those", count, len(assigned))
	}
	return assigned, warning
}

// nearness is higher the more specifically the point's labels match the scope. An ISP or province of the same name in
// another country is another place.
func nearness(s scope.Scope, p Point) int {
	here := placeOf(p)
	country := slices.Contains(s.Country, here.Country)
	within := country || len(s.Country) == 0
	isp := within && slices.Contains(s.ISP, here.ISP)
	province := within && slices.Contains(s.Province, here.Province)
	continent := slices.Contains(s.Continent, here.Continent) ||
		slices.ContainsFunc(s.Country, func(c string) bool { return here.Continent != "" && scope.ContinentOf(c) == here.Continent })
	switch {
	case isp && province:
		return 5
	case province:
		return 4
	case isp:
		return 3
	case country:
		return 2
	case continent:
		return 1
	default:
		return 0
	}
}

func placeOf(p Point) scope.Place {
	place := scope.Place{
		Continent: p.Labels["continent"], Country: p.Labels["country"], Province: p.Labels["province"], ISP: p.Labels["isp"],
	}.Canonical()
	if place.Continent == "" {
		place.Continent = scope.ContinentOf(place.Country)
	}
	return place
}

// pointHash mixes the sum once more: names that differ in their last letter only would otherwise keep one order for
// most rules.
func pointHash(rule, point string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(rule))
	h.Write([]byte{0})
	h.Write([]byte(point))
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

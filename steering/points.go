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
	for _, p := range all {
		if hasLabels(p, labels) {
			assigned = append(assigned, p.Name)
		}
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
		name  string
		level int
		hash  uint64
	}
	rank := make([]ranked, 0, len(all))
	for _, p := range all {
		rank = append(rank, ranked{p.Name, nearness(s, p), pointHash(ruleKey, p.Name)})
	}
	slices.SortFunc(rank, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.hash, b.hash), cmp.Compare(a.name, b.name))
	})
	for i := 0; i < len(rank) && i < count; i++ {
		assigned = append(assigned, rank[i].name)
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

package steering

import (
	"slices"
	"strings"
	"testing"

	"steerpoint/steering/scope"
)

func point(name string, labels ...string) Point {
	p := Point{Name: name, Labels: map[string]string{}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		p.Labels[k] = v
	}
	return p
}

// Covers: A6, decisions 2, field 28
func TestNearTakesTheMostSpecificPoints(t *testing.T) {
	all := []Point{
		point("fra", "country=DE"),
		point("tyo", "country=JP", "isp=chinatelecom"),
		point("bj-unicom", "country=CN", "province=BJ", "isp=chinaunicom"),
		point("gz-telecom", "country=CN", "province=GD", "isp=China Telecom"),
		point("gz-mobile", "country=CN", "province=Guangdong", "isp=chinamobile"),
		point("sh-telecom", "country=CN", "province=SH", "isp=chinatelecom"),
	}
	s, err := scope.Scope{Country: []string{"CN"}, Province: []string{"GD"}, ISP: []string{"chinatelecom"}}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"gz-telecom", "gz-mobile", "sh-telecom", "bj-unicom", "tyo", "fra"}
	for n := 1; n <= len(want); n++ {
		got, warning := AssignPoints("shop/gd", s, PointSelector{Near: true, Count: n}, all)
		if !slices.Equal(got, want[:n]) || warning != "" {
			t.Errorf("near %d: %v (%s), want %v", n, got, warning, want[:n])
		}
	}
	got, warning := AssignPoints("shop/gd", s, PointSelector{Near: true, Count: 9}, all)
	if len(got) != 6 || !strings.Contains(warning, "9 probe points asked for, 6 exist") {
		t.Errorf("near 9: %v, warning %q", got, warning)
	}
}

// Equal points are spread over rules, and an assignment stays when another point comes.
//
// Covers: A6, decisions 2
func TestNearSpreadsAndStays(t *testing.T) {
	var all []Point
	for _, n := range strings.Fields("a b c d e f g h i j") {
		all = append(all, point(n))
	}
	used := map[string]int{}
	for i := range 200 {
		key := "svc/" + strings.Repeat("x", i)
		three, _ := AssignPoints(key, scope.Scope{Any: true}, PointSelector{Near: true, Count: 3}, all)
		for _, p := range three {
			used[p]++
		}
		without := slices.DeleteFunc(slices.Clone(all), func(p Point) bool { return !slices.Contains(three, p.Name) && p.Name > "e" })
		if again, _ := AssignPoints(key, scope.Scope{Any: true}, PointSelector{Near: true, Count: 3}, without); !slices.Equal(again, three) {
			t.Fatalf("%s: %v became %v when points it does not use left", key, three, again)
		}
	}
	for p, n := range used {
		if n < 30 || n > 90 {
			t.Errorf("point %s serves %d of 600 places, want about 60", p, n)
		}
	}
}

// Covers: A6
func TestNamedAndLabelledPoints(t *testing.T) {
	all := []Point{point("b", "region=east"), point("a", "region=east"), point("c", "region=west")}
	got, warning := AssignPoints("s/r", scope.Scope{Any: true}, PointSelector{Names: []string{"c", "x", "a"}}, all)
	if !slices.Equal(got, []string{"c", "a"}) || !strings.Contains(warning, "x") {
		t.Errorf("names: %v, warning %q", got, warning)
	}
	got, warning = AssignPoints("s/r", scope.Scope{Any: true}, PointSelector{Labels: map[string]string{"region": "East"}}, all)
	if !slices.Equal(got, []string{"a", "b"}) || warning != "" {
		t.Errorf("labels: %v, warning %q", got, warning)
	}
	if _, warning = AssignPoints("s/r", scope.Scope{Any: true}, PointSelector{Labels: map[string]string{"region": "north"}}, all); warning == "" {
		t.Error("no point matches, and no warning says so")
	}
}

// A silent point gives its place to the next best one, keeps it when there is none, and has it back when it speaks.
//
// Covers: A6, decisions 2, issue3 silent points
func TestSilentPointsAreReplaced(t *testing.T) {
	names := func(all []Point, silent ...string) []Point {
		out := slices.Clone(all)
		for i := range out {
			out[i].Silent = slices.Contains(silent, out[i].Name)
		}
		return out
	}
	de := []Point{point("de1", "country=DE"), point("de2", "country=DE"), point("fr", "country=FR"), point("jp", "country=JP"), point("us", "country=US")}
	s, err := scope.Scope{Country: []string{"DE"}}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	near := PointSelector{Near: true, Count: 3}
	whole, _ := AssignPoints("shop/de", s, near, de)
	if len(whole) != 3 || whole[2] != "fr" {
		t.Fatalf("near 3: %v", whole)
	}
	for _, c := range []struct{ silent, gone []string }{
		{nil, nil},
		{[]string{"us"}, nil}, // not of this rule
		{[]string{"de1"}, []string{"de1"}},
		{[]string{"de1", "fr"}, []string{"de1", "fr"}},
		{[]string{"de1", "fr", "jp"}, []string{"fr"}}, // there is one substitute, and de1 is the nearer of the silent
	} {
		all := names(de, c.silent...)
		got, warning := AssignPoints("shop/de", s, near, all)
		gone, come := Substitutes("shop/de", s, near, all)
		if len(got) != 3 || warning != "" || !slices.Equal(gone, c.gone) || len(come) != len(c.gone) {
			t.Errorf("silent %v: %v, gone %v, come %v (%s)", c.silent, got, gone, come, warning)
		}
		if c.gone == nil && !slices.Equal(got, whole) {
			t.Errorf("silent %v: %v, want %v", c.silent, got, whole)
		}
	}
	every, _ := AssignPoints("shop/de", s, near, names(de, "de1", "de2", "fr", "jp", "us"))
	if !slices.Equal(every, whole) {
		t.Errorf("all silent: %v, want %v as before", every, whole)
	}

	east := []Point{point("a", "region=east"), point("b", "region=east"), point("c", "region=east"), point("w", "region=west")}
	sel := PointSelector{Labels: map[string]string{"region": "east"}}
	if got, _ := AssignPoints("x/y", s, sel, names(east, "b")); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("labels, one of three silent: %v, want the two that speak", got)
	}
	if got, _ := AssignPoints("x/y", s, sel, names(east, "a", "b")); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("labels, two of three silent: %v, want all: one alone must not decide", got)
	}
	if got, _ := AssignPoints("x/y", s, PointSelector{Names: []string{"b"}}, names(east, "b")); !slices.Equal(got, []string{"b"}) {
		t.Errorf("a named point: %v, want it kept", got)
	}
}

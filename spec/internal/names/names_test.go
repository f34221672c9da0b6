package names

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestHost(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct {
		in, want string
		err      bool
	}{
		{"www.example.com", "www.example.com", false},
		{"WWW.Example.COM.", "www.example.com", false},
		{"bücher.example", "xn--bcher-kva.example", false},
		{"BÜCHER.example", "xn--bcher-kva.example", false},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", false},
		{"straße.example", "xn--strae-oqa.example", false},
		{"例子。中国", "xn--fsqu00a.xn--fiqs8s", false},
		{"_x.example.com", "_x.example.com", false},
		{"r3---sn.example.com", "r3---sn.example.com", false},
		{long + "." + long + "." + long + "." + strings.Repeat("a", 61), long + "." + long + "." + long + "." + strings.Repeat("a", 61), false},
		{long + "." + long + "." + long + "." + strings.Repeat("a", 62), "", true},
		{long + "a.example", "", true},
		{"", "", true},
		{".", "", true},
		{"com", "", true},
		{"a..b", "", true},
		{".a.b", "", true},
		{"a.b..", "", true},
		{"-a.b", "", true},
		{"a-.b", "", true},
		{"a b.c", "", true},
		{"a/b.c", "", true},
		{"a.b:80", "", true},
		{"*.a.b", "", true},
		{"1.2.3", "", true},
		{"192.0.2.1", "", true},
		{"[2001:db8::1]", "", true},
		{"https://a.b", "", true},
		{"xn--\u00fc.example", "", true},
		{"a\u200db.example", "", true},
		{"a\x00.example", "", true},
		{"a\\.b.example", "", true},
	}
	for _, tt := range tests {
		got, err := Host(tt.in)
		if got != tt.want || (err != nil) != tt.err {
			t.Errorf("Host(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
		if again, err := Host(got); got != "" && (err != nil || again != got) {
			t.Errorf("Host(%q) = %q, %v: not stable", got, again, err)
		}
	}
	if _, err := Host("192.0.2.1"); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
	if _, err := Host("https://a.b/"); !errors.Is(err, ErrURL) {
		t.Error(err)
	}
}

func TestDomain(t *testing.T) {
	for in, want := range map[string]string{"*.Example.com": "*.example.com", "example.com": "example.com", "*.bücher.example": "*.xn--bcher-kva.example"} {
		if got, err := Domain(in); got != want || err != nil {
			t.Errorf("Domain(%q) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"*", "*.", "*.com", "*.*.example.com", "a.*.example.com", "*a.example.com", "**.example.com"} {
		if got, err := Domain(in); err == nil {
			t.Errorf("Domain(%q) = %q", in, got)
		}
	}
}

func TestUnderAndParents(t *testing.T) {
	for _, tt := range []struct {
		name, zone string
		want       bool
	}{{"a.b", "a.b", true}, {"x.a.b", "a.b", true}, {"xa.b", "a.b", false}, {"b", "a.b", false}} {
		if got := Under(tt.name, tt.zone); got != tt.want {
			t.Errorf("Under(%q, %q) = %v", tt.name, tt.zone, got)
		}
	}
	if got := slices.Collect(Parents("a.b.c")); !slices.Equal(got, []string{"a.b.c", "b.c", "c"}) {
		t.Error(got)
	}
	for p := range Parents("a.b") {
		if p != "a.b" {
			t.Error("goes on after the caller stopped")
		}
		break
	}
}

func TestNearest(t *testing.T) {
	words := []string{"domains", "edges", "rules", "interval", "timeout", "minTTL", "ttl", "a"}
	for in, want := range map[string]string{
		"domian": "domains", "Timeout": "timeout", "min_ttl": "minTTL", "intervall": "interval", "edgse": "edges", "tt": "ttl",
		"colour": "", "x": "", "": "", "b": "", strings.Repeat("x", 1000): "",
	} {
		if got := Nearest(in, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Nearest("x", nil); got != "" {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if distance(tt.a, tt.b) != distance(tt.b, tt.a) {
			t.Errorf("distance of %q and %q is not symmetric", tt.a, tt.b)
		}
	}
}

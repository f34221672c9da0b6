package route

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func table(t testing.TB, routes ...Route) *Table {
	t.Helper()
	for i := range routes {
		if !routes[i].HTTP && !routes[i].HTTPS {
			routes[i].HTTP, routes[i].HTTPS = true, true
		}
	}
	tab, err := New(routes)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// Azure's own table of routes, row by row.
//
// Covers: C1-C10, gateway T46
func TestAzureTable(t *testing.T) {
	var routes []Route
	for i, path := range []string{"/", "/*", "/ab", "/abc", "/abc/", "/abc/*", "/abc/def", "/path/"} {
		routes = append(routes, Route{Name: string(rune('A' + i)), Domains: []string{"www.contoso.com"}, Paths: []string{path}})
	}
	tab := table(t, routes...)
	for _, tt := range []struct{ path, want string }{
		{"/", "A"},
		{"/a", "B"},
		{"/ab", "C"},
		{"/abc", "D"},
		{"/abzzz", "B"},
		{"/abc/", "E"},
		{"/abc/d", "F"},
		{"/abc/def", "G"},
		{"/abc/defzzz", "F"},
		{"/abc/def/ghi", "F"},
		{"/path", "B"},
		{"/path/", "H"},
		{"/path/zzz", "B"},
		{"/ABC", "B"}, // case counts
	} {
		m := tab.Find([]byte("www.contoso.com"), []byte(tt.path), false)
		if m.Route < 0 || routes[m.Route].Name != tt.want || m.Path != routes[m.Route].Paths[0] {
			t.Errorf("%s: %+v, want %s", tt.path, m, tt.want)
		}
	}
}

// Hosts: exact before wildcard, the longer wildcard first, any number of labels; a host without the path has no other.
//
// Covers: C1-C10, gateway T47
func TestHosts(t *testing.T) {
	tab := table(t,
		Route{Name: "exact", Domains: []string{"www.example.com"}, Paths: []string{"/api/*"}},
		Route{Name: "wild", Domains: []string{"*.example.com"}, Paths: []string{"/*"}},
		Route{Name: "deeper", Domains: []string{"*.eu.example.com"}, Paths: []string{"/*"}},
		Route{Name: "secure", Domains: []string{"secure.example.org"}, Paths: []string{"/*"}, HTTPS: true},
	)
	for _, tt := range []struct {
		host, path string
		secure     bool
		want       int
		why        string
	}{
		{"www.example.com", "/api/x", false, 0, ""},
		{"www.example.com", "/other", false, -1, NoPath},
		{"a.example.com", "/x", false, 1, ""},
		{"a.b.example.com", "/x", false, 1, ""},
		{"a.eu.example.com", "/x", false, 2, ""},
		{"eu.example.com", "/x", false, 1, ""},
		{"example.com", "/x", false, -1, NoHost},
		{".example.com", "/x", false, -1, NoHost},
		{"xexample.com", "/x", false, -1, NoHost},
		{"", "/x", false, -1, NoHost},
		{"secure.example.org", "/x", true, 3, ""},
		{"secure.example.org", "/x", false, -1, NoHost},
		{strings.Repeat("a.", 200) + "example.com", "/x", false, -1, NoHost},
	} {
		m := tab.Find([]byte(tt.host), []byte(tt.path), tt.secure)
		if m.Route != tt.want || m.Why != tt.why {
			t.Errorf("%q %s: %+v, want %d %s", tt.host, tt.path, m, tt.want, tt.why)
		}
	}
}

// Routes that cannot be told apart are refused, and so is what is no path.
func TestBadRoutes(t *testing.T) {
	for name, routes := range map[string][]Route{
		"twice":       {{Domains: []string{"a.example"}, Paths: []string{"/x"}, HTTP: true}, {Domains: []string{"a.example"}, Paths: []string{"/x"}, HTTP: true}},
		"star inside": {{Domains: []string{"a.example"}, Paths: []string{"/*/x"}, HTTP: true}},
		"no slash":    {{Domains: []string{"a.example"}, Paths: []string{"x"}, HTTP: true}},
		"bare star":   {{Domains: []string{"a.example"}, Paths: []string{"/x*"}, HTTP: true}},
		"star":        {{Domains: []string{"a.example"}, Paths: []string{"*"}, HTTP: true}},
	} {
		if _, err := New(routes); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	table(t, Route{Domains: []string{"a.example"}, Paths: []string{"/x"}, HTTP: true}, Route{Domains: []string{"a.example"}, Paths: []string{"/x"}, HTTPS: true})
}

// One form for a path, whoever writes it how.
//
// Covers: gateway fault 38
func TestClean(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{"/", "/"},
		{"/a/b.c", "/a/b.c"},
		{"/a//b/", "/a//b/"},
		{"/%61%2D%7e", "/a-~"},
		{"/%2f%c3%a9", "/%2F%C3%A9"},
		{"/a/./b/../c", "/a/c"},
		{"/a/%2e%2E/b", "/b"},
		{"/../../x", "/x"},
		{"/a/..", "/"},
		{"/a/b/..", "/a/"},
		{"/.", "/"},
		{"/..", "/"},
		{"/a/.", "/a/"},
		{"/.../..a/a..", "/.../..a/a.."},
		{`/a\..\b`, "/a%5C..%5Cb"},
		{"/a;b=1/c", "/a;b=1/c"},
		{"/é", "/é"},
		{"//", "//"},
		{"/a//..", "/a/"},
	} {
		got, err := Clean(nil, []byte(tt.raw))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.raw, got, err, tt.want)
		}
	}
	for _, raw := range []string{"", "x", "*", "/%", "/%4", "/%zz", "/a%00b", "/%2", "http://x/"} {
		if got, err := Clean(nil, []byte(raw)); err == nil {
			t.Errorf("%q: %s", raw, got)
		}
	}
}

// A look-up allocates nothing, and a path of slashes costs no more than another.
//
// Covers: C1-C10
func TestFindAllocatesNothing(t *testing.T) {
	tab := table(t, Route{Domains: []string{"*.example.com"}, Paths: []string{"/a/b/*", "/*"}})
	host, path, buf := []byte("a.b.example.com"), []byte("/a/%62/../b/c"), make([]byte, 0, 100)
	n := testing.AllocsPerRun(100, func() {
		clean, err := Clean(buf, path)
		if m := tab.Find(host, clean, true); err != nil || m.Path != "/a/b/*" {
			t.Fatal(m, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	long := bytes.Repeat([]byte("/"), 1<<20)
	if m := tab.Find(host, long, true); m.Path != "/*" {
		t.Errorf("%+v", m)
	}
	if end := deep(long, 3); end != 3 {
		t.Errorf("%d bytes are looked at", end)
	}
}

// dumb finds a route by trying all of them.
func dumb(routes []Route, host, path string, secure bool) (route int, best string) {
	fits := func(d string) bool {
		parent, wild := strings.CutPrefix(d, "*")
		return d == host || wild && strings.HasSuffix(host, parent) && len(host) > len(parent)
	}
	domain := ""
	for _, r := range routes {
		if secure && !r.HTTPS || !secure && !r.HTTP {
			continue
		}
		for _, d := range r.Domains {
			better := domain == "" || d == host || domain != host && len(d) > len(domain)
			if fits(d) && better {
				domain = d
			}
		}
	}
	route = -1
	for i, r := range routes {
		if secure && !r.HTTPS || !secure && !r.HTTP || !slices.Contains(r.Domains, domain) {
			continue
		}
		for _, p := range r.Paths {
			prefix, wild := strings.CutSuffix(p, "*")
			if (p == path || wild && strings.HasPrefix(path, prefix)) && (best == "" || p == path || best != path && len(p) > len(best)) {
				route, best = i, p
			}
		}
	}
	return route, best
}

// Whatever the routes and the request, the table finds what trying all of them finds, and a clean path stays so.
//
// Covers: C1-C10, gateway T46
func TestFindAgainstTryingAll(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 6))
	text := func(words string, least, most int) string {
		var b strings.Builder
		list := strings.Fields(words)
		for range least + random.IntN(most-least+1) {
			b.WriteString(list[random.IntN(len(list))])
		}
		return b.String()
	}
	tables, found := 0, 0
	for range 2000 {
		var routes []Route
		for i := range 1 + random.IntN(6) {
			r := Route{Name: fmt.Sprint(i), Domains: []string{text("*.", 0, 1) + text("a. b.", 0, 1) + "example"}, HTTP: i%3 != 1, HTTPS: i%3 != 2}
			if random.IntN(2) == 0 {
				r.Paths = []string{"/*"}
			}
			for range 1 + random.IntN(3) {
				r.Paths = append(r.Paths, text("/ /a /b /ab", 1, 3)+text("/*", 0, 1))
			}
			routes = append(routes, r)
		}
		tab, err := New(routes)
		if err != nil {
			continue // two that cannot be told apart
		}
		tables++
		for range 10 {
			raw, host, secure := text("/ /a /b /ab /. /.. %61 %2f %2E \\ c", 1, 6), text("a. b. c.", 0, 2)+"example", random.IntN(2) == 0
			clean, err := Clean(nil, []byte(raw))
			if err != nil {
				continue
			}
			if again, err := Clean(nil, clean); err != nil || !bytes.Equal(again, clean) {
				t.Fatalf("%q: %q becomes %q, %v", raw, clean, again, err)
			}
			m := tab.Find([]byte(host), clean, secure)
			want, path := dumb(routes, host, string(clean), secure)
			if m.Route != want || want >= 0 && m.Path != path {
				t.Fatalf("%+v, %s%s: %+v, trying all finds %d %s", routes, host, clean, m, want, path)
			}
			if want >= 0 {
				found++
			}
		}
	}
	if tables < 500 || found < 1000 {
		t.Errorf("%d tables and %d routes found: too little is tried", tables, found)
	}
}

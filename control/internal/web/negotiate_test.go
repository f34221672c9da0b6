package web

import "testing"

// TestAccepts proves which Accept headers a media type satisfies, as RFC 9110 says.
// Covers: issue4 problems
func TestAccepts(t *testing.T) {
	for header, want := range map[string]bool{
		"":                                    true,
		" ":                                   true,
		"*/*":                                 true,
		"application/json":                    true,
		"APPLICATION/JSON":                    true,
		"application/json; charset=utf-8":     true,
		"application/*":                       true,
		"text/html, application/json;q=0.1":   true,
		"text/html,*/*;q=0.01":                true,
		"text/html":                           false,
		"application/json;q=0":                false,
		"application/json; Q=0.000":           false,
		"*/*, application/json;q=0":           false,
		"*/*;q=0, application/json":           true,
		"application/*;q=0, */*":              false,
		"application/problem+json, text/html": false,
		";;;":                                 false,
		"application/json;q=potato":           true,
	} {
		if got := Accepts([]string{header}, "application/json"); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if !Accepts([]string{"text/html", "application/json"}, "application/json") || Accepts([]string{"text/html", "text/css"}, "application/json") {
		t.Error("several headers are not one list")
	}
	if !Accepts([]string{"text/html"}) {
		t.Error("an answer without a body has no type to be refused")
	}
	if !Accepts([]string{"text/plain"}, "application/json", "text/plain") {
		t.Error("the second of two offers is not seen")
	}
}

// TestMediaType proves what is left of a Content-Type.
func TestMediaType(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "application/json": "application/json", "Application/JSON; charset=utf-8": "application/json",
		"application/json;x": "application/json", "text": "text", "/": "", ";": "",
	} {
		if got := MediaType(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}

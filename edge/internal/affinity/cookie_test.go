package affinity

import (
	"testing"

	"steerpoint/edge/internal/headtest"
)

// head is a head as a test writes it.
type head = headtest.Lines

// Covers: C6, gateway T34
func TestValueOfCookies(t *testing.T) {
	for _, tt := range []struct {
		head head
		want string
	}{
		{nil, ""},
		{head{"Cookie: a=1; ASLBSA=x; b=2"}, "x"},
		{head{"Cookie: ASLBSACORS=y"}, "y"},
		{head{"Cookie: ASLBSACORS=y; ASLBSA=x"}, "x"},
		{head{"Cookie: a=1", "Cookie: ASLBSA=x"}, "x"}, // HTTP/2 may split the field
		{head{"Cookie: ASLBSA=x; ASLBSA=z"}, "x"},
		{head{"Cookie: aslbsa=x; XASLBSA=z; ASLBSAX=u; =v;;; ASLBSA"}, ""},
		{head{`Cookie: ASLBSA="x"`}, "x"},
	} {
		if got := string(Value(tt.head)); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.head, got, tt.want)
		}
	}
}

// Covers: C6
func TestSetCookie(t *testing.T) {
	for _, tt := range []struct{ name, domain, want string }{
		{Name, "", "ASLBSA=v; Path=/; HttpOnly; SameSite=Lax"},
		{Name, "example.com", "ASLBSA=v; Domain=example.com; Path=/; HttpOnly; SameSite=Lax"},
		{NameCORS, "", "ASLBSACORS=v; Path=/; HttpOnly; SameSite=None; Secure"},
	} {
		if got := string(AppendSetCookie(nil, tt.name, []byte("v"), tt.domain)); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

// A session is established on what no cache gives to others, and on nothing else.
//
// Covers: C6, gateway T29, gateway T30, gateway R12
func TestMayEstablish(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    Response
		want bool
	}{
		{"T29 max-age", Response{Status: 200, Head: head{"Cache-Control: max-age=60"}}, false},
		{"T30 no-store", Response{Status: 200, Head: head{"Cache-Control: No-Store"}}, true},
		{"T30 private", Response{Status: 200, Head: head{"Cache-Control: max-age=60, private"}}, true},
		{"private with names", Response{Status: 200, Head: head{`Cache-Control: private="Set-Cookie"`}}, true},
		{"no-cache in a second field", Response{Status: 200, Head: head{"Cache-Control: max-age=60", "cache-control: no-cache"}}, true},
		{"T30 302", Response{Status: 302}, true},
		{"302 that may be kept", Response{Status: 302, Head: head{"Cache-Control: max-age=60"}}, true},
		{"Authorization", Response{Status: 200, Authorization: true, Head: head{"Cache-Control: max-age=60"}}, true},
		{"nothing said of a plain answer", Response{Status: 200}, false},
		{"nothing said of an error", Response{Status: 500}, true},
		{"an error with a lifetime", Response{Status: 503, Head: head{"Cache-Control: max-age=5"}}, false},
		{"Expires", Response{Status: 503, Head: head{"Expires: 0"}}, false},
		{"Vary: *", Response{Status: 200, Head: head{"Vary: *"}}, true},
		{"POST", Response{Method: []byte("POST"), Status: 200}, true},
		{"304", Response{Status: 304, Authorization: true}, false},
		{"stored", Response{Status: 302, Stored: true, Authorization: true}, false},
		{"a word that holds one", Response{Status: 200, Head: head{"Cache-Control: x-no-store"}}, false},
	} {
		if tt.r.Method == nil {
			tt.r.Method = []byte("GET")
		}
		if got := MayEstablish(tt.r); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

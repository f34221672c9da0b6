package spec

import (
	"strings"
	"testing"
)

// What is ordered by itself has the defaults of a Certificate.
//
// Covers: issue6 acme
func TestAutoIsAsWritten(t *testing.T) {
	c := must(t, "apiVersion: steerpoint/v1\nkind: Certificate\nname: a\nnames: [a.example]\nacme: {}\n")[0].Certificate
	if *c.ACME != DefaultACME() {
		t.Errorf("%+v, and auto %+v", *c.ACME, DefaultACME())
	}
}

// A name that cannot be proved is refused at apply, and only where everything is known; who proves by what follows from the zones.
//
// Covers: issue6 acme dns
func TestProvableNames(t *testing.T) {
	certificate := func(names, more string) string {
		return "---\napiVersion: steerpoint/v1\nkind: Certificate\nname: c\nnames: [" + names + "]\nacme: {" + more + "}\n"
	}
	auto := func(domain string) string {
		return "---\n" + gateway(map[string]string{"domains": "[www.example.com, " + domain + "]", "certificates": "{" + domain + ": auto}"})
	}
	for _, tt := range []struct{ text, why string }{
		{certificate("a.example", ""), ""},
		{certificate("a.example", "challenge: http-01"), ""},
		{certificate("a.example", "challenge: dns-01"), "no Zone here holds it"},
		{certificate(`a.example, "*.a.example"`, ""), "no Zone here holds it"},
		{certificate(`a.gslb.example.net, "*.a.gslb.example.net"`, ""), ""},
		{certificate(`gslb.example.net, "*.gslb.example.net"`, "challenge: dns-01"), ""},
		{auto("a.example"), ""},
		{auto(`"*.a.example"`), "no Zone here holds it"},
		{auto(`"*.a.gslb.example.net"`), ""},
	} {
		s := set(t, testZone+tt.text)
		errs, warns := s.Check(Complete)
		if tt.why == "" && len(errs) > 0 || tt.why != "" && (len(errs) != 1 || !strings.Contains(errs[0].Problem, tt.why)) {
			t.Errorf("%s\n%v, want %q", tt.text, errs, tt.why)
		}
		for _, w := range warns {
			if w.Code == CodeNotUsedYet {
				t.Errorf("%s\n%v", tt.text, w)
			}
		}
		if errs, _ := s.Check(Partial); tt.why == "no Zone here holds it" && len(errs) > 0 {
			t.Errorf("of a part: %v", errs)
		}
	}
	s := set(t, testZone)
	for d, want := range map[Domain]string{"a.gslb.example.net": DNS01, "*.gslb.example.net": DNS01, "a.example": HTTP01} {
		if got := s.ChallengeFor(&ACME{}, d); got != want {
			t.Errorf("%s: %s", d, got)
		}
		if got := s.ChallengeFor(&ACME{Challenge: HTTP01}, d); got != HTTP01 {
			t.Errorf("%s: %s, though it is written", d, got)
		}
	}
}

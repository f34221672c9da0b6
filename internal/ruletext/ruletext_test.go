package ruletext

import (
	"strings"
	"testing"
	"time"
)

// The values that Azure publishes for slices of variables, one by one, and what lies beyond its table.
//
// Covers: gateway T48
func TestSlices(t *testing.T) {
	const v = "AppId=01f592979c584d0f9d679db3e66a3e5e"
	for _, tt := range []struct{ slice, want string }{
		{"0", v},
		{"6", "01f592979c584d0f9d679db3e66a3e5e"},
		{"-8", "e66a3e5e"},
		{"-128", v},
		{"128", ""},
		{"0:5", "AppId"},
		{"7:7", "1f59297"},
		{"7:-7", "1f592979c584d0f9d679db3e"},
		{"0:0", ""},
		{"4:0", ""},
		{"0:100", v},
		{"5:100", "=01f592979c584d0f9d679db3e66a3e5e"},
		{"0:-48", ""},
		{"4:-48", ""},
		{"-8:3", "e66"},
		{"-8:-3", "e66a3"},
		{"128:-128", ""},
	} {
		p, err := Parse("{client_ip:" + tt.slice + "}")
		if err != nil || len(p) != 1 {
			t.Fatalf("%s: %v, %v", tt.slice, p, err)
		}
		if got := string(p[0].Slice.Of([]byte(v))); got != tt.want {
			t.Errorf("{var:%s} = %q, want %q", tt.slice, got, tt.want)
		}
	}
	p, err := Parse("{client_ip:3}")
	if err != nil || string(p[0].Slice.Of([]byte("111.222.333.444"))) != ".222.333.444" {
		t.Errorf("%v, %v", p, err)
	}
}

// Whatever the numbers, a slice is a part of the value: what a dumb walk over its bytes says is in it.
//
// Covers: gateway T48
func TestSliceIsAPart(t *testing.T) {
	const v = "abcdefg"
	for off := -10; off <= 10; off++ {
		for length := -10; length <= 10; length++ {
			for _, has := range []bool{false, true} {
				s := Slice{Offset: off, HasLength: has, Length: length}
				want := ""
				start := off
				if off < 0 {
					start = max(len(v)+off, 0)
				}
				for i := range len(v) {
					inside := i >= start
					if has && length >= 0 {
						inside = inside && i < start+length
					} else if has {
						inside = inside && i < len(v)+length
					}
					if inside {
						want += v[i : i+1]
					}
				}
				if got := string(s.Of([]byte(v))); got != want {
					t.Errorf("%+v: %q, want %q", s, got, want)
				}
			}
		}
	}
}

// Covers: gateway T48
func TestParseTemplates(t *testing.T) {
	for _, tt := range []struct {
		text  string
		parts int
		fail  string
	}{
		{"", 0, ""},
		{"plain", 1, ""},
		{"{hostname}", 1, ""},
		{"a{hostname}b{url_path:1}", 4, ""},
		{`{"json": {}}`, 1, ""},
		{"{Hostname}", 1, ""},
		{"{", 1, ""},
		{"}{", 1, ""},
		{"{host}", 0, "there is no {host}"},
		{"{hostname", 0, "closing brace"},
		{"{hostname:x}", 0, "whole number"},
		{"{hostname:}", 0, "whole number"},
		{"{hostname:+1}", 0, "whole number"},
		{"{hostname:1:2:3}", 0, "more than"},
		{"{hostname:99999999}", 0, "whole number"},
		{strings.Repeat("{hostname}", MaxParts+1), 0, "more than 32"},
	} {
		got, err := Parse(tt.text)
		switch {
		case tt.fail == "" && (err != nil || len(got) != tt.parts):
			t.Errorf("%q: %v, %v", tt.text, got, err)
		case tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)):
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.fail)
		}
		var back strings.Builder
		for _, p := range got {
			back.WriteString(p.Text)
		}
		if err == nil && !strings.Contains(tt.text, "{host") && back.String() != tt.text {
			t.Errorf("%q: texts %q", tt.text, back.String())
		}
	}
}

// A time of the week begins on its days, may go over midnight, and follows its zone.
//
// Covers: C1-C10
func TestWeek(t *testing.T) {
	for _, tt := range []struct {
		text string
		at   string // UTC
		want bool
	}{
		{"09:00-17:00", "2026-06-01T09:00:00Z", true},
		{"09:00-17:00", "2026-06-01T17:00:00Z", false},
		{"mon 09:00-17:00", "2026-06-01T12:00:00Z", true}, // a Monday
		{"tue,wed 09:00-17:00", "2026-06-01T12:00:00Z", false},
		{"22:00-06:00", "2026-06-01T23:00:00Z", true},
		{"22:00-06:00", "2026-06-01T05:59:00Z", true},
		{"22:00-06:00", "2026-06-01T06:00:00Z", false},
		{"mon 22:00-06:00", "2026-06-02T05:00:00Z", true}, // Tuesday morning belongs to Monday
		{"mon 22:00-06:00", "2026-06-01T05:00:00Z", false},
		{"00:00-24:00", "2026-06-01T23:59:00Z", true},
		{"08:00-09:00 Asia/Shanghai", "2026-06-01T00:30:00Z", true},
		{"sun 20:00-00:00 America/New_York", "2026-06-01T03:59:00Z", true},
		{"sun 20:00-00:00 America/New_York", "2026-06-01T04:00:00Z", false},
	} {
		w, err := ParseWeek(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Holds(at); got != tt.want {
			t.Errorf("%s at %s: %v", tt.text, tt.at, got)
		}
	}
	for _, text := range []string{"", "mon", "mon 9:00-17:00", "09:00", "09:00-17:60", "24:00-01:00", "foo 09:00-17:00", "09:00-17:00 Nowhere/City", "09:00-17:00 Local", "a b c d"} {
		if _, err := ParseWeek(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

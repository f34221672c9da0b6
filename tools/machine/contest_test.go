package machine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every other round goes the other way.
func TestTurn(t *testing.T) {
	all := []string{"a", "b", "c"}
	for round, want := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"a", "b", "c"}} {
		if got := Turn(all, round); !slices.Equal(got, want) {
			t.Errorf("round %d: %v", round, got)
		}
	}
}

// Names of a flag are whole ones.
func TestWants(t *testing.T) {
	for _, tt := range []struct {
		list, name string
		want       bool
	}{{"", "nsd", true}, {"knot,nsd", "nsd", true}, {"knot,nsd", "ns", false}} {
		if got := Wants(tt.list, tt.name); got != tt.want {
			t.Errorf("%q of %q: %v", tt.name, tt.list, got)
		}
	}
}

// What configures a program is tried until it goes well, and then not again; bad input ends the wait; an error comes with what
// the program said last.
func TestReady(t *testing.T) {
	dir := t.TempDir()
	s := &Session{log: filepath.Join(dir, "log")}
	if err := os.WriteFile(s.log, []byte(strings.Repeat("x", 3000)+"no port"), 0o600); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(dir, "there")
	looks, applied := 0, mark+".applied"
	apply := []string{"sh", "-c", `echo once >> "$1.applied"; test -e "$1"`, "sh", mark}
	err := s.Ready(t.Context(), time.Minute, apply, func() error {
		switch looks++; looks {
		case 1:
			return errors.Join(errors.New("not yet"), os.WriteFile(mark, nil, 0o600))
		case 2, 3:
			return errors.New("not yet")
		}
		return nil
	})
	times, _ := os.ReadFile(applied)
	if err != nil || looks != 4 || string(times) != "once\nonce\n" {
		t.Errorf("ready after %d looks, applied %q: %v", looks, times, err)
	}
	if err := s.Ready(t.Context(), time.Minute, []string{"sh", "-c", "echo wrong; exit 2"}, func() error { return nil }); err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("bad input: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	err = s.Ready(ended, time.Minute, nil, func() error { return errors.New("silent") })
	if err == nil || !strings.HasPrefix(err.Error(), "silent\n") || !strings.HasSuffix(err.Error(), "no port") || len(err.Error()) > 2100 {
		t.Errorf("%v", err)
	}
}

// Results are a page and values, of a contest that took place.
func TestWrite(t *testing.T) {
	c := Contest{Out: t.TempDir()}
	if page := c.Written("bench-x"); !strings.HasPrefix(page, "Written by `make bench-x`, ") { // of a contest without a round
		t.Error(page)
	}
	if err := c.Write("x", map[string]any{}, ""); err == nil {
		t.Error("nothing was written over what there is")
	}
	c.Round()
	if err := c.Write("x", map[string]any{"rows": []int{1}}, "page\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(c.Out, "x.md"))
	if err != nil || string(text) != "page\n" {
		t.Errorf("%q, %v", text, err)
	}
	var got struct {
		Commit string
		Rows   []int
	}
	text, err = os.ReadFile(filepath.Join(c.Out, "x.json"))
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Commit == "" || len(got.Rows) != 1 {
		t.Errorf("%s: %v", text, err)
	}
	if got := (Spread{Median: 1.25, Min: 1, Max: 2}).Text(2); got != "1.25 (1.00 to 2.00)" {
		t.Error(got)
	}
}

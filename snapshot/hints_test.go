package snapshot

import (
	"slices"
	"testing"
	"time"
)

// A record set with hints is told from others by its type alone, and is one of its type where nothing is added.
//
// Covers: issue5 hints
func TestHintsStandInTheType(t *testing.T) {
	records := []DNSRecord{
		{Name: "a.example.", Type: "HTTPS+hints", TTL: time.Minute, Data: []string{"1 . alpn=h2"}}, {Name: "b.example.", Type: "TXT"},
	}
	if kind, hints := records[0].Kind(); kind != "HTTPS" || !hints {
		t.Errorf("%s %t", kind, hints)
	}
	if kind, hints := records[1].Kind(); kind != "TXT" || hints {
		t.Errorf("%s %t", kind, hints)
	}
	plain := WithoutHints(records)
	if plain[0].Type != "HTTPS" || plain[1].Type != "TXT" || records[0].Type != "HTTPS+hints" {
		t.Errorf("%v of %v", plain, records)
	}
	if again := WithoutHints(plain); &again[0] != &plain[0] || !slices.EqualFunc(again, plain, func(a, b DNSRecord) bool { return a.Equal(&b) }) {
		t.Error("records without hints are copied")
	}
}

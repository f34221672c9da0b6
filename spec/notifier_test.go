package spec

import (
	"os"
	"strings"
	"testing"
)

// TestNotifierKeysStayOut: a key written where it does not belong is refused without being repeated, and what is
// accepted is told apart from it.
//
// Covers: issue4 secrets
func TestNotifierKeysStayOut(t *testing.T) {
	data, err := os.ReadFile("testdata/bad/notifier.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const key = "notforfindings"
	if n := strings.Count(string(data), key); n < 5 {
		t.Fatalf("the file holds the key %d times", n)
	}
	if got := findings("notifier.yaml", data); strings.Contains(got, key) {
		t.Errorf("findings repeat a key:\n%s", got)
	}
}

// TestNotifierRoundTrip: every type is read, written in both forms and read again as the same.
//
// Covers: issue4 notifications
func TestNotifierRoundTrip(t *testing.T) {
	for _, typ := range []string{"webhook", "slack", "dingtalk", "feishu", "wecom"} {
		text := "apiVersion: steerpoint/v1\nkind: Notifier\nname: a\ntype: " + typ + "\nurlFile: a.url\non: [verdict]\n"
		docs, errs := Parse("", []byte(text))
		if len(errs) > 0 || len(docs) != 1 || docs[0].Notifier == nil {
			t.Fatalf("%s: %v", typ, errs)
		}
		n := docs[0].Notifier
		if n.Chat() == (typ == "webhook") || n.Language != "en" || len(n.On) != 1 {
			t.Errorf("%s: %+v", typ, n)
		}
		for _, form := range []Form{Minimal, Full} {
			y, err := docs[0].YAML(form)
			if err != nil {
				t.Fatal(err)
			}
			again, errs := Parse("", y)
			if len(errs) > 0 || !again[0].Equal(docs[0]) {
				t.Errorf("%s: %v\n%s", typ, errs, y)
			}
		}
		if got := NewSet(docs).Notifiers(); len(got) != 1 || got[0].Name != "a" {
			t.Errorf("%s: set holds %v", typ, got)
		}
	}
}

package render

import (
	"strings"
	"testing"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// TestNotifiers: status says of each notifier what waits and what is wrong; a test says what came back.
// Covers: issue4 notifications
func TestNotifiers(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	last := now.Add(-time.Minute)
	var b strings.Builder
	notifiersSection(&b, text.Painter{}, api.Status{})
	if b.Len() > 0 {
		t.Errorf("without notifiers: %q", b.String())
	}
	notifiersSection(&b, text.Painter{}, api.Status{Now: now, Notifiers: []api.NotifierStatus{
		{Name: "good", Type: "slack", Sent: 3, LastSuccess: &last},
		{Name: "bad", Type: "wecom", Queue: 7, LastError: "it answered 502", Lost: 2},
		{Name: "lossy", Type: "feishu", Lost: 2, LastSuccess: &last},
	}})
	NotifyTest(&b, text.Painter{}, api.NotifyTest{Name: "good", OK: true, ID: "test-1", Status: 200, Answer: "ok", Seconds: 0.25})
	NotifyTest(&b, text.Painter{}, api.NotifyTest{Name: "bad", Error: "https://hooks.example.com: it answered 502", Status: 502, Seconds: 0.01})
	for _, want := range []string{
		"NOTIFIER", "ok", "none yet", "it answered 502", "2 events were given up",
		"good: delivered in 250ms as test-1: HTTP 200, ok\n", "bad: not delivered after 10.0ms: https://hooks.example.com: it answered 502\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

package settings

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What the gateway withstands and shows is read as it is written, beside its other settings; what cannot be is named.
//
// Covers: issue6 proxy limits, issue6 traces
func TestEdgeLimits(t *testing.T) {
	load := func(text string) (Settings, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(dir, nil)
	}
	s, err := load(`edge:
  connections: 7
  accessLogSize: 100MiB
  accessLogKeep: 3
  proxyProtocol: [192.0.2.7, "2001:db8::/32"]
  maxHead: 32KiB
  maxTarget: 4KiB
  maxField: 1000
  maxFields: 50
  bodyRate: 1KiB
  bodyGrace: 5s
  bodyMemory: 1GiB
  writeTimeout: 10s
  serverTiming: true
  tracing: {endpoint: "http://a:4318", headers: {X-Key: k}, sample: 0.5, parents: trusted}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := EdgeLimits{
		AccessLogSize: 100 << 20, AccessLogKeep: 3,
		ProxyProtocol: []Network{Network(netip.MustParsePrefix("192.0.2.7/32")), Network(netip.MustParsePrefix("2001:db8::/32"))},
		MaxHead:       32 << 10, MaxTarget: 4 << 10, MaxField: 1000, MaxFields: 50, BodyRate: 1 << 10, BodyGrace: 5 * time.Second, BodyMemory: 1 << 30,
		WriteTimeout: 10 * time.Second, ServerTiming: true,
		Tracing: &EdgeTracing{Endpoint: "http://a:4318", Headers: map[string]string{"X-Key": "k"}, Sample: 0.5, Parents: "trusted"},
	}
	equal := cmp.Comparer(func(a, b Network) bool { return a == b })
	if d := cmp.Diff(want, s.Edge.EdgeLimits, equal); d != "" || s.Edge.Connections != 7 {
		t.Error(d, s.Edge.Connections)
	}
	for text, want := range map[string]string{
		"edge: {maxHead: 64kb}":              `"64kb" is no size`,
		"edge: {bodyMemory: -1}":             `"-1" is no size`,
		"edge: {writeTimeout: soon}":         "soon",
		"edge: {tracing: {endpont: http://}": "yaml",
		"edge: {traces: {}}":                 "field traces not found",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

package control

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
)

// TestLostStoreIsNoNewInstallation proves that a folder whose store was deleted is refused: starting empty would publish
// an empty map over the good one.
//
// Covers: issue2 bad input
func TestLostStoreIsNoNewInstallation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.stop()
	again := func() (*Control, error) {
		reg := prometheus.NewRegistry()
		return New(t.Context(), Config{Data: dir, Listen: "127.0.0.1:0"}, Deps{
			Publisher: r.out, Metrics: reg, Gatherer: reg, machine: r.clocks.read, Log: slog.New(slog.DiscardHandler),
		})
	}
	for _, folders := range []string{"etcd/member/member/snap", ""} { // what was left of it
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "etcd")), os.MkdirAll(filepath.Join(dir, folders), 0o700)); err != nil {
			t.Fatal(err)
		}
		c, err := again()
		if err == nil {
			t.Fatalf("with %q left it is taken for a new installation: %v", folders, c.Close())
		}
		if !strings.Contains(err.Error(), "store missing") || !strings.Contains(err.Error(), "core.state") {
			t.Errorf("the error does not say what is gone: %v", err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "core.state")); err != nil {
		t.Fatal(err)
	}
	c, err := again()
	if err != nil {
		t.Fatalf("a folder never used is refused: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestEmptySourcesAreRefused proves that an empty file is a mistake, with and without prune.
//
// Covers: issue2 bad input
func TestEmptySourcesAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML)
	for _, text := range []string{"", "---\n", "# only a comment\n"} {
		_, err := r.client.Apply(t.Context(), api.ApplyRequest{Sources: []api.Source{{File: "stdin", Content: text}}, Prune: true})
		if p := new(api.Problem); !errors.As(err, &p) || p.Code != api.CodeBadRequest {
			t.Errorf("%q: %v, want a refusal", text, err)
		}
	}
}

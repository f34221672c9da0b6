package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/control/api"
)

// A server over TLS is talked to when an authority that was named vouches for it, and sent nothing otherwise.
// Covers: issue3 api tls
func TestServerOverTLS(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(api.Status{Version: "9.9.9"})(w, r)
	}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STEER_DATA", t.TempDir())
	t.Setenv("STEER_CA", "")
	if code, out, errs := steer(t, "status", "--server", s.URL, "--token", "t", "--ca", ca); code != 0 || !strings.Contains(out, "9.9.9") {
		t.Errorf("with its authority: exit %d\n%s%s", code, out, errs)
	}
	before := asked.Load()
	if code, _, errs := steer(t, "status", "--server", s.URL, "--token", "t"); code != fault.ExitNoServer || !strings.Contains(errs, "SERVER_UNTRUSTED") {
		t.Errorf("without: exit %d\n%s", code, errs)
	}
	t.Setenv("STEER_CA", ca+".absent")
	if code, _, errs := steer(t, "status", "--server", s.URL, "--token", "t"); code != fault.ExitBadInput || !strings.Contains(errs, "CA_UNUSABLE") {
		t.Errorf("with an authority that is not there: exit %d\n%s", code, errs)
	}
	if n := asked.Load() - before; n != 0 {
		t.Errorf("it was asked %d more times", n)
	}
}

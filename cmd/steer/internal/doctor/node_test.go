package doctor

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steerpoint/internal/pki"
)

func TestCertificate(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	const life = 24 * time.Hour
	expect(t, Certificate(now.Add(16*time.Hour), life, now), OK, "in 16h0m")
	expect(t, Certificate(now.Add(2*time.Hour), life, now), Warn, "should have been renewed")
	expect(t, Certificate(now.Add(-time.Hour), life, now), Fail, "start the node")
	expect(t, Certificate(now.Add(-91*24*time.Hour), life, now), Fail, "cannot be renewed any more")
}

// cluster is an authority, the certificate of one of its nodes, and a server with control's own.
func cluster(t *testing.T, h http.HandlerFunc) (authority *pki.Authority, node *tls.Certificate, url string) {
	t.Helper()
	now := time.Now()
	authority, err := pki.OpenAuthority(t.TempDir(), "test", now)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(key, "n1")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := authority.Sign(request, "n1", []string{"dns"}, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if node, err = pki.Pair(text, key); err != nil {
		t.Fatal(err)
	}
	own, err := authority.ServerCertificate(now)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{*own}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that are refused are what is tested
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return authority, node, s.URL
}

func refusing(r *pki.Refusal) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if len(q.TLS.PeerCertificates) == 0 {
			http.Error(w, "no certificate", http.StatusTeapot)
			return
		}
		w.WriteHeader(r.Status)
		_ = json.NewEncoder(w).Encode(r) // the check fails on the missing answer
	}
}

// Control that refuses the call for what is in it takes the node; any other refusal is told, with what to do.
// Covers: issue3 doctor
func TestControl(t *testing.T) {
	a, node, url := cluster(t, refusing(pki.Refuse(pki.BadRequest, "there is no snapshot", "")))
	expect(t, Control(url, a.PEM(), node), OK, "it takes this node's certificate")
	expect(t, Control(url, a.PEM(), node), OK, "the same within ")
	a, node, url = cluster(t, refusing(pki.Refuse(pki.NodeRevoked, "node n1 was revoked", "stop it")))
	expect(t, Control(url, a.PEM(), node), Fail, "node n1 was revoked [NODE_REVOKED] stop it")
	a, node, url = cluster(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hello", http.StatusNotFound) })
	expect(t, Control(url, a.PEM(), node), Fail, "is not control")
	other, _, _ := cluster(t, nil)
	expect(t, Control(url, other.PEM(), node), Fail, "[CERT_UNTRUSTED]")
	expect(t, Control("https://127.0.0.1:1", a.PEM(), node), Fail, "it is not reached")
	expect(t, Control(url, []byte("none"), node), Fail, "no certificate in it")
}

// A clock that differs by more than a minute is worth a word.
// Covers: issue3 doctor, issue3 clock
func TestOffset(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for off, want := range map[time.Duration]string{0: "ok the same within ", 30 * time.Second: "ok the same within 31s", time.Hour: "warn this clock is 1h0m ahead of", -time.Hour: "warn this clock is 1h0m behind"} {
		rs := offset(now.Add(-off), now, 0)
		if got := string(rs[0].Level) + " " + rs[0].Detail; !strings.HasPrefix(got, want) {
			t.Errorf("%v: %q, want %q", off, got, want)
		}
	}
	if rs := offset(time.Time{}, now, 0); rs != nil {
		t.Errorf("a server that tells no time: %+v", rs)
	}
}

// What the running node says of itself, by its metrics.
// Covers: issue3 doctor
func TestFollowing(t *testing.T) {
	node := func(lines ...string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, strings.Join(lines, "\n")) }))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	dns := []string{"dns"}
	expect(t, Following(node(`steer_agent_connected{snapshot="dns"} 1`, "steer_authdns_map_version 7", "steer_authdns_map_age_seconds 180.5"), dns),
		OK, "follows control; answers by map 7, made 3m0s ago")
	expect(t, Following(node(`steer_agent_connected{snapshot="dns"} 0`, "steer_authdns_map_version 7"), dns), Warn, "does not follow control now")
	expect(t, Following(node(`steer_agent_connected{snapshot="dns"} 1`, "steer_authdns_map_version 0"), dns), Fail, "it has no map")
	expect(t, Following(node(`steer_agent_connected{snapshot="probe"} 1`, "steer_agent_spool_observations 12"), []string{"probe"}), OK, "12 observations wait")
	edge := []string{"edge"}
	expect(t, Following(node(`steer_agent_connected{snapshot="edge"} 1`, "steer_edge_snapshot_version 41"), edge), OK, "follows control; serves by snapshot 41")
	expect(t, Following(node(`steer_agent_connected{snapshot="edge"} 1`, "steer_edge_snapshot_version 0"), edge), Fail, "it has no snapshot")
	expect(t, Following("", dns), Warn, "it is not running")
	expect(t, Following("127.0.0.1:1", dns), Warn, "does not answer")
}

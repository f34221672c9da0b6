package authdns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/internal/envelope"
	"steerpoint/internal/hidden/leaktest"
	"steerpoint/snapshot"
)

// sealTo puts secrets into a copy of a map, sealed to a name server.
func sealTo(t *testing.T, d *snapshot.DNS, version uint64, to *envelope.Opener, secrets snapshot.ServerSecrets) *snapshot.DNS {
	t.Helper()
	text, err := secrets.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := *d
	out.Version, out.Sealed = version, new(snapshot.Sealed)
	if out.Sealed.Envelope, err = envelope.Seal(snapshot.SecretsUse, text, []envelope.Reader{to.Reader()}); err != nil {
		t.Fatal(err)
	}
	return &out
}

// refused reports whether a transfer signed by the key of the tests is refused.
func (r *running) refused(t *testing.T) bool {
	t.Helper()
	tr := &dns.Transfer{TsigSecret: map[string]string{xferKey: xferSecret}, DialTimeout: patience, ReadTimeout: patience}
	in, err := tr.In(withTSIG(new(dns.Msg).SetAxfr(childName)), r.addr)
	if err != nil {
		t.Fatal(err)
	}
	ok := true
	for e := range in {
		ok = ok && e.Error != nil
	}
	return ok
}

// TestSharedSecretsSealed: keys of transfers and cookies come sealed to the name server and are kept on disk as they came, in no
// file that can be read; a file of a version before is removed. What does not open leaves those in use, and is told of; after a
// restart by such a map transfers are refused and all else is answered, until a map comes that opens.
//
// Covers: issue5 tsig, issue5 cookies, issue5 dnssec keys sealed, issue4 secret leaks
func TestSharedSecretsSealed(t *testing.T) {
	own, other := nodeKey(t), nodeKey(t)
	dir := t.TempDir()
	old := filepath.Join(dir, openKeysName)
	if err := os.WriteFile(old, []byte(xferSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{StateFile: filepath.Join(dir, "dns.map"), OpenKeys: opening(own)}
	cookies, err := snapshot.CookiesAt([]byte("a master of a cluster"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secrets := xferSecrets()
	secrets.Cookies = cookies
	r := start(t, cfg, sealTo(t, xferMap(t, 20, "a one"), 20, own, secrets))
	if got := said(r.axfr(t)); len(got) != 3 || r.KeyTrouble() != "" || r.metric(t, "steer_authdns_shared_secrets_missing") != 0 {
		t.Errorf("%v, trouble %q", got, r.KeyTrouble())
	}
	if err := r.Swap(sealTo(t, xferMap(t, 21, "a two"), 21, other, xferSecrets())); err != nil {
		t.Fatal(err)
	}
	if got := said(r.axfr(t)); len(got) != 3 || got[1] != "two" {
		t.Errorf("by the key from before: %v", got)
	}
	if !strings.HasPrefix(r.KeyTrouble(), "SHARED_SECRETS_MISSING: ") || r.metric(t, "steer_authdns_shared_secrets_missing") != 1 {
		t.Errorf("trouble %q", r.KeyTrouble())
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	planted := []string{xferSecret, "an agreed secret of 32 octets ..", string(cookies.Sign[:]), string(cookies.Accept[0][:])}
	if found, files, err := leaktest.Folder(dir, planted...); err != nil || files != 1 || len(found) > 0 {
		t.Errorf("%d files, %v: %v", files, err, found)
	}
	for _, p := range planted {
		if forms := leaktest.Scan([]byte(r.log.String()), p); len(forms) > 0 {
			t.Errorf("the log holds a secret: %v", forms)
		}
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the file of a version before is left: %v", err)
	}

	r = start(t, cfg, nil)
	if m := r.ask(t, "udp", dnstest.Query(childName, dns.TypeSOA)); len(m.Answer) != 1 || r.Map().Version != 21 || r.KeyTrouble() == "" || !r.refused(t) {
		t.Errorf("after a restart: %v, trouble %q", m, r.KeyTrouble())
	}
	if err := r.Swap(sealTo(t, xferMap(t, 22, "a three"), 22, own, secrets)); err != nil {
		t.Fatal(err)
	}
	if got := said(r.axfr(t)); len(got) != 3 || r.KeyTrouble() != "" {
		t.Errorf("after control came: %v, trouble %q", got, r.KeyTrouble())
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = start(t, cfg, nil)
	if got := said(r.axfr(t)); len(got) != 3 || r.KeyTrouble() != "" {
		t.Errorf("by the envelope on disk: %v, trouble %q", got, r.KeyTrouble())
	}
	none := sealTo(t, xferMap(t, 23, "a three"), 23, own, secrets)
	none.Sealed = nil
	if err := r.Swap(none); err != nil {
		t.Fatal(err)
	}
	if !r.refused(t) {
		t.Error("a key that is gone from the map signs on")
	}
}

package authdns

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/internal/hidden/leaktest"
)

// TestTransferKeysOnDisk: the key is in its own file, for the owner alone, and not in the map; a damaged one is set aside and
// costs transfers until control comes, and nothing else.
//
// Covers: issue5 tsig, issue4 secret leaks
func TestTransferKeysOnDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dns.map")
	r := start(t, Config{StateFile: file}, xferMap(t, 20, "a one"))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, keysName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if keys, err := ReadKeys(file); err != nil || len(keys) != 1 || keys[0].Secret.Reveal() != xferSecret {
		t.Errorf("%v, %v", keys, err)
	}
	data, err := os.ReadFile(file)
	if err != nil || len(leaktest.Scan(data, xferSecret)) > 0 {
		t.Errorf("the map holds the key: %v", err)
	}
	if d, err := ReadMap(file); err != nil || len(d.Keys) != 1 {
		t.Errorf("the map from disk has no keys: %v", err)
	}
	if strings.Contains(r.log.String(), xferSecret) {
		t.Error("the log holds the key")
	}
	if err := os.WriteFile(filepath.Join(dir, keysName), []byte("no keys"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = start(t, Config{StateFile: file}, nil)
	if m := r.ask(t, "udp", dnstest.Query(childName, dns.TypeSOA)); len(m.Answer) != 1 || r.Map().Version != 20 {
		t.Errorf("%v", m)
	}
	tr := &dns.Transfer{TsigSecret: map[string]string{xferKey: xferSecret}, DialTimeout: patience, ReadTimeout: patience}
	in, err := tr.In(withTSIG(new(dns.Msg).SetAxfr(childName)), r.addr)
	if err != nil {
		t.Fatal(err)
	}
	for e := range in {
		if e.Error == nil {
			t.Errorf("transferred without a key: %v", e.RR)
		}
	}
	if aside, err := filepath.Glob(filepath.Join(dir, keysName+".damaged-*")); err != nil || len(aside) != 1 || !strings.Contains(r.log.String(), "FILE_DAMAGED") {
		t.Errorf("not set aside: %v, %v", aside, err)
	}
	if err := r.Swap(xferMap(t, 21, "a one")); err != nil {
		t.Fatal(err)
	}
	if got := said(r.axfr(t)); len(got) != 3 {
		t.Errorf("after control came: %v", got)
	}
}

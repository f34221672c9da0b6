package authdns

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/authdns/internal/dnstest"
	"steerpoint/internal/envelope"
	"steerpoint/internal/hidden/leaktest"
	"steerpoint/snapshot"
)

const signedName = "gslb.example.net."

// nodeKey is the key of a name server.
func nodeKey(t *testing.T) *envelope.Opener {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o, err := envelope.NewOpener(k)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func opening(o *envelope.Opener) func(string, []byte) ([]byte, error) { return o.Open }

// signing makes keys for the zone, sealed to a reader; it gives the public ones and a secret too.
func newSigning(t *testing.T, to *envelope.Opener) (*snapshot.Signing, []*dns.DNSKEY, []snapshot.PrivateKey) {
	t.Helper()
	z := snapshot.SignedZone{Zone: signedName, Life: 14 * 24 * time.Hour, KeyTTL: time.Hour}
	var keys []*dns.DNSKEY
	var secrets []snapshot.PrivateKey
	for _, flags := range []uint16{257, 256} {
		k, secret, rr := dnstest.Key(t, signedName, flags)
		keys, z.Keys, secrets = append(keys, rr), append(z.Keys, k), append(secrets, secret)
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := envelope.Seal(snapshot.SigningUse, text, []envelope.Reader{to.Reader()})
	if err != nil {
		t.Fatal(err)
	}
	return &snapshot.Signing{Zones: []snapshot.SignedZone{z}, Keys: sealed}, keys, secrets
}

func secureQuery(name string) *dns.Msg {
	q := dnstest.Query(name, dns.TypeA)
	q.IsEdns0().SetDo()
	return q
}

// verified reports whether an answer is signed by a key.
func verified(m *dns.Msg, k *dns.DNSKEY) bool {
	i := slices.IndexFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeRRSIG })
	if i < 0 {
		return false
	}
	set := slices.Delete(slices.Clone(m.Answer), i, i+1)
	return m.Answer[i].(*dns.RRSIG).Verify(k, set) == nil
}

// TestSigningServer: a name server opens the keys that come with a map, signs over UDP and TCP, and does so again after a
// restart by the map on disk, which shows no key. A map whose keys it cannot open unsigns nothing: the keys in use stay, and
// after a restart clients that want signatures are refused, until the key is back.
//
// Covers: issue5 dnssec keys sealed, issue5 dnssec keys missing
func TestSigningServer(t *testing.T) {
	own, other := nodeKey(t), nodeKey(t)
	sg, keys, secrets := newSigning(t, own)
	d := dnstest.Map(t)
	d.Signing = sg
	dir := t.TempDir()
	cfg := Config{StateFile: dir + "/dns.map", OpenKeys: opening(own)}
	r := start(t, cfg, d)
	for _, network := range []string{"udp", "tcp"} {
		if m := r.ask(t, network, secureQuery("shop.gslb.example.net.")); !verified(m, keys[1]) {
			t.Errorf("%s: %v", network, m)
		}
	}
	if r.metric(t, "steer_authdns_signed_zones") != 1 || r.metric(t, "steer_authdns_signatures_total", "names=known") != 1 || r.KeyTrouble() != "" {
		t.Errorf("metrics, or trouble: %s", r.KeyTrouble())
	}
	if left := r.metric(t, "steer_authdns_signature_expiry_seconds"); left < 13*86400 {
		t.Errorf("the signature ends in %v s", left)
	}

	// Keys that are sealed to another one: those in use are the same, so all is well until a restart.
	text, err := json.Marshal(secrets)
	if err != nil {
		t.Fatal(err)
	}
	next := *d
	next.Version++
	next.Signing = &snapshot.Signing{Zones: sg.Zones}
	if next.Signing.Keys, err = envelope.Seal(snapshot.SigningUse, text, []envelope.Reader{other.Reader()}); err != nil {
		t.Fatal(err)
	}
	if err := r.Swap(&next); err != nil {
		t.Fatal(err)
	}
	if m := r.ask(t, "udp", secureQuery("shop.gslb.example.net.")); !verified(m, keys[1]) || r.KeyTrouble() != "" {
		t.Errorf("%v %s", m, r.KeyTrouble())
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	r = start(t, cfg, nil)
	if m := r.ask(t, "udp", secureQuery("shop.gslb.example.net.")); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("without keys: %v", m)
	}
	if m := r.ask(t, "udp", dnstest.Query("shop.gslb.example.net.", dns.TypeA)); len(m.Answer) != 1 {
		t.Errorf("without keys and DO: %v", m)
	}
	if !strings.HasPrefix(r.KeyTrouble(), "ZONE_KEYS_MISSING: ") || r.metric(t, "steer_authdns_zone_keys_missing") != 1 {
		t.Errorf("trouble: %q", r.KeyTrouble())
	}
	next.Version++
	next.Signing = sg
	if err := r.Adopt(&next); err != nil {
		t.Fatal(err)
	}
	if m := r.ask(t, "udp", secureQuery("shop.gslb.example.net.")); !verified(m, keys[1]) || r.KeyTrouble() != "" {
		t.Errorf("with keys again: %v %s", m, r.KeyTrouble())
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = start(t, cfg, nil)
	if m := r.ask(t, "udp", secureQuery("shop.gslb.example.net.")); !verified(m, keys[1]) {
		t.Errorf("after a restart: %v", m)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		found, _, err := leaktest.Folder(dir, string(s.Key))
		if err != nil || len(found) > 0 {
			t.Errorf("%v, %v", found, err)
		}
		if forms := leaktest.Scan([]byte(r.log.String()), string(s.Key)); len(forms) > 0 {
			t.Errorf("the log holds a key: %v", forms)
		}
	}
}

// TestUnsignedAgain: a map without signing, or with keys of a zone no more, leaves that zone unsigned.
//
// Covers: issue5 dnssec keys
func TestUnsignedAgain(t *testing.T) {
	own := nodeKey(t)
	sg, keys, _ := newSigning(t, own)
	d := dnstest.Map(t)
	d.Signing = sg
	r := start(t, Config{OpenKeys: opening(own)}, d)
	for i, s := range []*snapshot.Signing{{Zones: []snapshot.SignedZone{}}, sg, nil} {
		next := *d
		next.Version += uint64(i) + 1
		next.Signing = s
		if err := r.Swap(&next); err != nil {
			t.Fatal(err)
		}
		m := r.ask(t, "udp", secureQuery("shop.gslb.example.net."))
		if verified(m, keys[1]) != (s == sg) || m.Rcode != 0 {
			t.Errorf("map %d: %v", i, m)
		}
	}
}

// TestKeysTriedAgain: keys that do not open are tried again by themselves, so that a key file put back is enough; signatures
// are renewed in the background.
//
// Covers: issue5 dnssec keys missing, issue5 dnssec signatures
func TestKeysTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := nodeKey(t)
		sg, _, _ := newSigning(t, own)
		open := false
		s := &Server{cfg: Config{OpenKeys: func(use string, sealed []byte) ([]byte, error) {
			if !open {
				return nil, errors.New("the key file is away")
			}
			return own.Open(use, sealed)
		}}, epoch: time.Now(), log: slog.New(slog.DiscardHandler)}
		answers, err := s.cfg.answers()
		if err != nil {
			t.Fatal(err)
		}
		s.signing.init(&answers)
		if err := s.signing.register(prometheus.NewRegistry(), s.clock); err != nil {
			t.Fatal(err)
		}
		s.takeKeys(sg)
		if s.KeyTrouble() == "" {
			t.Fatal("no trouble without keys")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.keepSigned(ctx) }()
		time.Sleep(renewEvery + time.Second)
		if s.KeyTrouble() == "" {
			t.Error("the trouble is over by itself")
		}
		s.mu.Lock()
		open = true
		s.mu.Unlock()
		time.Sleep(renewEvery)
		if s.KeyTrouble() != "" {
			t.Error(s.KeyTrouble())
		}
		cancel()
		<-done
	})
}

package control

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
	"steerpoint/internal/envelope"
	"steerpoint/internal/hidden/leaktest"
	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
)

const signedYAML = zoneYAML + "dnssec: {enabled: true, parentTTL: 1s}\n"

// keyWait is what tests wait for instead of an hour.
const keyWait = 10 * time.Second

func quickKeys(_ *Config, d *Deps) { d.zoneKeyWaits = keyWait }

// signing is what name servers sign by, once it fits.
func (r *rig) signing(what string, fits func(*snapshot.SignedZone) bool) *snapshot.Signing {
	r.t.Helper()
	var s *snapshot.Signing
	r.await(what, func() bool {
		d, _, _ := r.out.latest()
		if d == nil || d.Signing == nil {
			return false
		}
		s = d.Signing
		return len(s.Zones) == 1 && fits(&s.Zones[0])
	})
	return s
}

func anyZone(*snapshot.SignedZone) bool { return true }

// keysCount lets time pass for keys, once everybody has them.
func (r *rig) passKeys(d time.Duration) {
	r.t.Helper()
	r.await("every name server has the newest keys", func() bool { return len(r.lackKeys()) == 0 })
	// What passes is counted from one look at the keys to the next.
	for range 2 {
		if err := r.stepZoneKeys(r.t.Context(), r.engineZones()); err != nil {
			r.t.Fatal(err)
		}
		r.clocks.pass(d)
		d = 0
	}
	if err := r.stepZoneKeys(r.t.Context(), r.engineZones()); err != nil {
		r.t.Fatal(err)
	}
}

// open opens what is sealed with a key in a file.
func openKeys(t *testing.T, file string, s *snapshot.Signing) ([]snapshot.PrivateKey, error) {
	t.Helper()
	key, err := pki.ReadKey(file)
	if err != nil {
		t.Fatal(err)
	}
	o, err := envelope.NewOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := o.Open(snapshot.SigningUse, s.Keys)
	if err != nil {
		return nil, err
	}
	var out []snapshot.PrivateKey
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out, nil
}

func stages(z *api.SignedZone) string {
	var parts []string
	for _, k := range z.Keys {
		parts = append(parts, k.Role+":"+k.Stage)
	}
	return z.State + " " + strings.Join(parts, " ")
}

func (r *rig) zone() api.SignedZone {
	r.t.Helper()
	all, err := r.client.SignedZones(r.t.Context())
	if err != nil || len(all.Zones) != 1 {
		r.t.Fatalf("%+v, %v", all, err)
	}
	return all.Zones[0]
}

func (r *rig) stagesAre(want string) {
	r.t.Helper()
	z := r.zone()
	if got := stages(&z); got != want {
		r.t.Fatalf("%s, want %s (%s; %s)", got, want, z.Next, z.Holds)
	}
}

// TestZoneKeys: a zone that is to be signed gets keys, which reach the name server sealed to it; both kinds roll through their
// stages over a restart, and the zone leaves when its DS is gone. No secret is in any file, answer or backup.
//
// Covers: issue5 dnssec keys sealed, issue5 dnssec rolls
func TestZoneKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &logs{}
	r := start(t, dir, nil, quickKeys, l.use)
	r.apply(signedYAML, shopYAML)
	s := r.signing("the zone is signed", anyZone)
	secrets, err := openKeys(t, ZoneKeyFile(dir), s)
	if err != nil || len(secrets) != 2 {
		t.Fatalf("%d keys, %v", len(secrets), err)
	}
	r.stagesAre("island ksk:ready zsk:active")
	if z := r.zone(); len(z.DS) != 1 || !strings.HasPrefix(z.DS[0], "gslb.example.net. IN DS ") {
		t.Errorf("DS %v", z.DS)
	}
	ctx := t.Context()
	if _, err := r.client.NoteParent(ctx, "gslb.example.net.", api.ParentRequest{DS: "gone"}); api.CodeOf(err) != api.CodeZoneState {
		t.Errorf("DS gone of a zone that stays signed: %v", err)
	}
	if _, err := r.client.NoteParent(ctx, "gslb.example.net", api.ParentRequest{DS: "seen", Reason: "dig"}); err != nil {
		t.Fatal(err)
	}
	r.stagesAre("signed ksk:active zsk:active")
	for _, key := range []string{api.RoleZSK, api.RoleKSK} {
		if _, err := r.client.RollZoneKey(ctx, "GSLB.example.net", api.RollRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	r.stagesAre("signed ksk:active zsk:active zsk:published ksk:published")
	r.signing("the new keys are published", func(z *snapshot.SignedZone) bool { return len(z.Keys) == 4 })
	r.stop()

	r = start(t, dir, r.clocks, quickKeys, l.use)
	r.stagesAre("signed ksk:active zsk:active zsk:published ksk:published")
	s = r.signing("the keys are handed out again", func(z *snapshot.SignedZone) bool { return len(z.Keys) == 4 })
	r.passKeys(2 * keyWait)
	r.stagesAre("signed ksk:active zsk:retired zsk:active ksk:ready")
	more, err := openKeys(t, ZoneKeyFile(dir), r.signing("the new key signs", func(z *snapshot.SignedZone) bool { return z.Keys[2].Signs && !z.Keys[1].Signs }))
	if err != nil || len(more) != 3 {
		t.Fatalf("%d keys, %v", len(more), err)
	}
	secrets = append(secrets, more...)
	if _, err := r.client.NoteParent(ctx, "gslb.example.net", api.ParentRequest{DS: "seen"}); err != nil {
		t.Fatal(err)
	}
	r.passKeys(48 * time.Hour)
	r.stagesAre("signed zsk:active ksk:active")

	r.apply(strings.Replace(signedYAML, "enabled: true", "enabled: false", 1))
	r.signing("CDS asks for the DS to go", func(z *snapshot.SignedZone) bool {
		return z.Unsign && !slices.ContainsFunc(z.Keys, func(k snapshot.ZoneKey) bool { return k.DS })
	})
	if _, err := r.client.NoteParent(ctx, "gslb.example.net", api.ParentRequest{DS: "gone"}); err != nil {
		t.Fatal(err)
	}
	r.passKeys(48 * time.Hour)
	r.stagesAre("off ")
	r.await("the zone is signed no more", func() bool {
		d, _, _ := r.out.latest()
		return d.Signing != nil && len(d.Signing.Zones) == 0
	})

	var backup bytes.Buffer
	if err := r.client.Backup(ctx, api.BackupParams{}, &backup); err != nil {
		t.Fatal(err)
	}
	answers := []string{backup.String(), l.String()}
	for _, path := range []string{"/api/v1/dnssec", "/api/v1/audit", "/api/v1/status", "/metrics", "/api/v1/history/zone/gslb"} {
		answers = append(answers, r.textAt(path))
	}
	d, _, _ := r.out.latest()
	d.Signing = s
	whole, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	var values []string
	for _, k := range secrets {
		values = append(values, string(k.Key))
	}
	for i, text := range append(answers, string(whole)) {
		for n, v := range values {
			for _, form := range leaktest.Scan([]byte(text), v) {
				t.Errorf("text %d holds key %d: %s", i, n, form)
			}
		}
	}
	found, files, err := leaktest.Folder(dir, values...)
	if err != nil || files < 5 {
		t.Fatalf("%d files, %v", files, err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestZoneKeysOfNodes: a name server that joins can open the zone keys, one that is revoked cannot open those made after; a
// roll waits for a name server that does not have the newest keys, and goes on when that is removed.
//
// Covers: issue5 dnssec keys sealed, issue5 dnssec rolls
func TestZoneKeysOfNodes(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, quickKeys, withHub(&hub{}), func(_ *Config, d *Deps) { d.NoNameServer = true })
	if _, err := os.Stat(ZoneKeyFile(r.dir)); err == nil {
		t.Error("a key is made for a name server that is not there")
	}
	r.apply(signedYAML, shopYAML)
	a, b := r.join("a", nil, roster.RoleDNS), r.join("b", nil, roster.RoleDNS)
	opens := func(m *machine, s *snapshot.Signing) bool {
		o, err := envelope.NewOpener(m.key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Open(snapshot.SigningUse, s.Keys)
		return err == nil
	}
	r.await("both can open the keys", func() bool {
		s := r.signing("the zone is signed", anyZone)
		return opens(a, s) && opens(b, s)
	})
	r.connect("a", "b")
	ack := func(name string) {
		d, _, _ := r.out.latest()
		r.Acked(name, report.Ack{Snapshot: report.SnapshotDNS, Version: d.Version, OK: true, Using: d.Version})
	}
	if _, err := r.client.RollZoneKey(t.Context(), "gslb.example.net", api.RollRequest{Key: api.RoleZSK}); err != nil {
		t.Fatal(err)
	}
	r.signing("the new key is published", func(z *snapshot.SignedZone) bool { return len(z.Keys) == 3 })
	r.await("the map with the keys is known", func() bool { ack("a"); return slices.Equal(r.lackKeys(), []string{"b"}) })
	for range 3 {
		r.clocks.pass(2 * keyWait)
		if err := r.stepZoneKeys(t.Context(), r.engineZones()); err != nil {
			t.Fatal(err)
		}
	}
	r.stagesAre("island ksk:ready zsk:active zsk:published")
	if z := r.zone(); !strings.Contains(z.Holds, ": b") {
		t.Errorf("holds %q", z.Holds)
	}
	r.clocks.pass(2 * time.Hour)
	r.await("an alarm names the one that is waited for", func() bool {
		x, on := r.alarm(api.AlarmZoneRoll, "")
		return on && strings.Contains(x.Message, ": b")
	})
	if _, err := r.client.RevokeNode(t.Context(), "b", api.RevokeRequest{Reason: "stolen"}); err != nil {
		t.Fatal(err)
	}
	r.await("the keys are sealed anew without it", func() bool {
		ack("a")
		s := r.signing("the zone is signed", anyZone)
		return opens(a, s) && !opens(b, s)
	})
	r.await("the newest keys are everywhere", func() bool { ack("a"); return len(r.lackKeys()) == 0 })
	r.passKeys(2 * keyWait)
	r.stagesAre("island ksk:ready zsk:retired zsk:active")
	r.Reported("a", report.NodeStatus{Map: &report.NodeMap{Version: 1, KeyTrouble: "ZONE_KEYS_MISSING: test"}})
	r.await("what a name server says of its keys is an alarm", func() bool {
		_, on := r.alarm(api.AlarmZoneKeys, "a")
		return on
	})
}

// TestZoneKeysWithoutSealKey: without the sealing key name servers keep the keys they have, also after a restart; nothing is
// made anew over what cannot be opened, and an alarm says so. With the key back all goes on.
//
// Covers: issue5 dnssec keys missing
func TestZoneKeysWithoutSealKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil, quickKeys)
	r.apply(signedYAML, shopYAML)
	s := r.signing("the zone is signed", anyZone)
	r.stop()
	seal, away := filepath.Join(dir, "seal.key"), filepath.Join(t.TempDir(), "away")
	if err := os.Rename(seal, away); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir, r.clocks, quickKeys)
	again := r.signing("the zone stays signed", anyZone)
	if !bytes.Equal(again.Keys, s.Keys) || again.Zones[0].Keys[0].Tag != s.Zones[0].Keys[0].Tag {
		t.Error("other keys are handed out")
	}
	r.await("an alarm says that the keys cannot be opened", func() bool {
		_, on := r.alarm(api.AlarmZoneKeys, "")
		return on
	})
	if _, err := os.Stat(seal); err == nil {
		t.Error("a sealing key was made in the place of the one that is needed")
	}
	if _, err := r.client.RollZoneKey(t.Context(), "gslb.example.net", api.RollRequest{Key: api.RoleZSK}); api.CodeOf(err) != api.CodeSealKey {
		t.Errorf("a roll without the sealing key: %v", err)
	}
	r.stagesAre("island ksk:ready zsk:active")
	if err := os.Rename(away, seal); err != nil {
		t.Fatal(err)
	}
	r.await("the alarm is over", func() bool {
		_, on := r.alarm(api.AlarmZoneKeys, "")
		return !on
	})
	if _, err := r.client.RollZoneKey(t.Context(), "gslb.example.net", api.RollRequest{Key: api.RoleZSK}); err != nil {
		t.Fatal(err)
	}
}

// TestZoneComesBack: a zone that is deleted and written again has the keys that its parent knows; a zone below one of ours needs
// no word about its DS.
//
// Covers: issue5 dnssec keys
func TestZoneComesBack(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, quickKeys)
	const below = `apiVersion: steerpoint/v1
kind: Zone
name: below
zone: below.gslb.example.net
steering: false
ns: [{name: ns1.gslb.example.net, addresses: [192.0.2.53]}]
dnssec: {enabled: true}
`
	r.apply(signedYAML)
	first := r.signing("the zone is signed", anyZone).Zones[0].Keys[0].Tag
	if err := r.client.Delete(t.Context(), "zone", "gslb", 0); err != nil {
		t.Fatal(err)
	}
	r.await("nothing is signed", func() bool {
		d, _, _ := r.out.latest()
		return d.Signing != nil && len(d.Signing.Zones) == 0
	})
	r.stagesAre("off ksk:ready zsk:active")
	r.apply(signedYAML, below)
	var s *snapshot.Signing
	r.await("both are signed", func() bool {
		d, _, _ := r.out.latest()
		s = d.Signing
		return s != nil && len(s.Zones) == 2
	})
	if s.Zones[1].Keys[0].Tag != first {
		t.Errorf("other keys than before: %+v", s.Zones[1])
	}
	r.await("the DS in our own zone counts as seen", func() bool {
		all, err := r.client.SignedZones(t.Context())
		return err == nil && len(all.Zones) == 2 && all.Zones[0].State == api.ZoneSigned && all.Zones[1].State == api.ZoneIsland
	})
}

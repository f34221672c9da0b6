package control

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/snapshot"
)

// zoneSerial is the serial of a zone in a map.
func zoneSerial(d *snapshot.DNS, zone string) uint32 {
	for i := range d.Zones {
		if d.Zones[i].Name == zone {
			return d.Serial(i)
		}
	}
	return 0
}

// TestRestoreSigned: a control restored with its sealing key signs by the same keys, in the stages they had, and gives the new name
// server keys of transfers and cookies as before; serials are above all that the lost control gave, and a key made after the
// backup is not there. Without the sealing key nothing is made over what cannot be opened, cookies are made anew, and alarms
// name the rest; with the key put back all is there.
//
// Covers: issue5 dnssec restore, issue4 backup, issue4 seal key
func TestRestoreSigned(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, quickKeys)
	r.apply(sealedTexts()...)
	r.signing("the zone is signed", anyZone)
	if _, err := r.client.NoteParent(t.Context(), "gslb.example.net", api.ParentRequest{DS: "seen"}); err != nil {
		t.Fatal(err)
	}
	was, zone := r.seals(), r.zone()
	file, _ := r.backup(api.BackupParams{})
	sealKey, err := os.ReadFile(filepath.Join(r.dir, "seal.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.RollZoneKey(t.Context(), "gslb.example.net", api.RollRequest{Key: api.RoleKSK}); err != nil {
		t.Fatal(err)
	}
	r.signingKeys("a key is made after the backup", 3)
	late := r.zone().Keys[2].Tag
	newest, _, _ := r.out.latest()
	ck := r.clocks
	r.stop()

	for _, withKey := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "data")
		restored(t, file, dir)
		if withKey {
			if err := os.WriteFile(filepath.Join(dir, "seal.key"), sealKey, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := start(t, dir, ck, quickKeys)
		s := r.signing("the zone is signed", anyZone)
		z := r.zone()
		if stages(&z) != stages(&zone) || !slices.Equal(z.DS, zone.DS) || len(s.Zones[0].Keys) != 2 ||
			slices.ContainsFunc(s.Zones[0].Keys, func(k snapshot.ZoneKey) bool { return k.Tag == late }) {
			t.Errorf("with its key %t: %s, DS %v; want %s, %v", withKey, stages(&z), z.DS, stages(&zone), zone.DS)
		}
		d, _, _ := r.out.latest()
		for _, name := range []string{"gslb.example.net.", "plain.example."} {
			if got, before := zoneSerial(d, name), zoneSerial(newest, name); name == "gslb.example.net." && got <= before || got < before {
				t.Errorf("serial of %s: %d after %d", name, got, before)
			}
		}
		if withKey {
			r.await("the new name server can open the keys", func() bool {
				keys, err := openKeys(t, ZoneKeyFile(dir), r.signing("the zone is signed", anyZone))
				return err == nil && len(keys) == 2
			})
			r.seals().are(t, was)
			r.stop()
			continue
		}
		r.await("alarms name what is lost", func() bool {
			keys, on := r.alarm(api.AlarmZoneKeys, "")
			m := r.alarmText(api.AlarmSealKey)
			return on && strings.Contains(keys.Message, "sealing key") && strings.Contains(m, "hooks") && strings.Contains(m, "transfers (used by zone plain)")
		})
		if _, err := os.Stat(filepath.Join(dir, "seal.key")); err == nil {
			t.Error("a sealing key was made over what it does not open")
		}
		if err := os.WriteFile(filepath.Join(dir, "seal.key"), sealKey, 0o600); err != nil {
			t.Fatal(err)
		}
		r.await("it is keyed", r.keyed(tsigValue))
		r.await("the zone keys are there", func() bool { _, on := r.alarm(api.AlarmZoneKeys, ""); return !on })
		r.await("so is the master", func() bool { return bytes.Equal(r.seals().master, was.master) })
	}
}

// TestCookieMasterIsLost: where nothing else is sealed, a lost sealing key is replaced, and what cookies are made of is made anew,
// which the log and the audit trail say; what lay in the open in the store of a version before is used no more.
//
// Covers: issue5 cookies, issue4 seal key
func TestCookieMasterIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &logs{}
	r := start(t, dir, nil, l.use)
	r.apply(zoneYAML, shopYAML)
	whatever := func(*snapshot.CookieSecrets) bool { return true }
	first := r.cookieSecrets(whatever)
	r.stop()
	if err := os.Remove(filepath.Join(dir, "seal.key")); err != nil {
		t.Fatal(err)
	}
	r = start(t, dir, r.clocks, l.use)
	next := r.cookieSecrets(func(c *snapshot.CookieSecrets) bool { return !c.Equal(first) })
	if !strings.Contains(r.textAt("/api/v1/audit"), "made anew, since the one before is lost") || !strings.Contains(l.String(), "is lost and made anew") {
		t.Error("neither log nor audit trail says it")
	}
	r.stop()
	r = start(t, dir, r.clocks)
	if again := r.cookieSecrets(whatever); !again.Equal(next) {
		t.Error("a restart changed the secrets")
	}
}

// TestSerialsAfterRestart: the first map of a control that starts again has serials not below those of the last one, also after
// a kill, and signs by what was handed out; nothing is sealed anew for nothing.
//
// Covers: issue5 serial, issue5 dnssec restore
func TestSerialsAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil, quickKeys)
	r.apply(sealedTexts()...)
	r.signing("the zone is signed", anyZone)
	r.await("it is keyed", r.keyed(tsigValue))
	r.await("what is shared is stored", func() bool {
		v, err := r.store.Shared(t.Context())
		d, _, _ := r.out.latest()
		return err == nil && d.Sealed != nil && bytes.Equal(v.Envelope, d.Sealed.Envelope)
	})
	for range 3 {
		last, _, _ := r.out.latest()
		r.stop()
		seen := &firstMap{}
		r = start(t, dir, r.clocks, quickKeys, func(_ *Config, d *Deps) { d.Previous, d.Publisher = last, seen })
		r.await("the first map", func() bool { return seen.get() != nil })
		d := seen.get()
		for _, z := range []string{"gslb.example.net.", "plain.example."} {
			if zoneSerial(d, z) < zoneSerial(last, z) || zoneSerial(last, z) == 0 {
				t.Errorf("serial of %s: %d after %d", z, zoneSerial(d, z), zoneSerial(last, z))
			}
		}
		if d.Version <= last.Version || d.Signing == nil || len(d.Signing.Zones) != 1 || !bytes.Equal(d.Signing.Keys, last.Signing.Keys) || !d.Sealed.Equal(last.Sealed) {
			t.Errorf("the first map of %d after %d signs by others, or was sealed anew", d.Version, last.Version)
		}
		r.clocks.pass(time.Second)
		r.out = &seen.takes
	}
}

// firstMap is a Publisher that also keeps the first map.
type firstMap struct {
	takes
	first *snapshot.DNS
}

func (p *firstMap) PublishDNS(d *snapshot.DNS) error {
	p.mu.Lock()
	if p.first == nil {
		p.first = d
	}
	p.mu.Unlock()
	return p.takes.PublishDNS(d)
}

func (p *firstMap) get() *snapshot.DNS {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first
}

package control

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
	"steerpoint/internal/envelope"
	"steerpoint/internal/pki"
	"steerpoint/snapshot"
)

const (
	tsigValue = "c2VjcmV0LW9mLTMyLW9jdGV0cy10aGF0LWlzLXNlY3I="
	tsigOther = "b3RoZXItb2YtMzItb2N0ZXRzLXRoYXQtaXMtc2VjcmU="

	tsigZone = `apiVersion: steerpoint/v1
kind: Zone
name: plain
zone: plain.example
steering: false
ns: [{name: ns1.elsewhere.test}]
tsigKeys: [{name: xfr.example, secretFrom: {secret: transfers, key: xfr}}]
transfer: {allow: [{tsigKey: xfr.example}]}
`
)

// openSecretsOf opens what a map brings the name servers as secrets, by the key in a file; nil: nothing, or it does not open.
func openSecretsOf(t *testing.T, file string, d *snapshot.DNS) *snapshot.ServerSecrets {
	t.Helper()
	if d == nil || d.Sealed == nil {
		return nil
	}
	key, err := pki.ReadKey(file)
	if err != nil {
		t.Fatal(err)
	}
	o, err := envelope.NewOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := o.Open(snapshot.SecretsUse, d.Sealed.Envelope)
	if err != nil {
		return nil
	}
	secrets, err := snapshot.UnmarshalSecrets(text)
	if err != nil {
		t.Fatal(err)
	}
	return secrets
}

// keyed reports whether name servers have the key with this value.
func (r *rig) keyed(value string) func() bool {
	return func() bool {
		d, _, _ := r.out.latest()
		s := openSecretsOf(r.t, ZoneKeyFile(r.dir), d)
		return s != nil && len(s.Keys) == 1 && s.Keys[0].Zone == "plain.example." && s.Keys[0].Secret.Reveal() == value
	}
}

// TestTransferKeys: name servers get the value of a TSIG key, and a changed one, without another change; while the sealing key
// is away they keep what they have, over a restart too, and the alarm names the zone. The serial moves with none of that.
//
// Covers: issue5 tsig, issue5 serial, issue4 seal key
func TestTransferKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, dir, nil)
	r.apply(zoneYAML, tsigZone, secretYAML("transfers", "xfr", tsigValue))
	r.await("the key is published", r.keyed(tsigValue))
	first, _, _ := r.out.latest()
	r.apply(secretYAML("transfers", "xfr", tsigOther))
	r.await("the other value is published", r.keyed(tsigOther))
	key := filepath.Join(t.TempDir(), "away")
	if err := os.Rename(filepath.Join(dir, "seal.key"), key); err != nil {
		t.Fatal(err)
	}
	r.await("the alarm", func() bool { return r.alarmed(api.AlarmSealKey) })
	before, _, _ := r.out.latest()
	r.stop()

	r = start(t, dir, r.clocks, func(_ *Config, deps *Deps) { deps.Previous = before })
	r.await("the map of the restart has the key from before", r.keyed(tsigOther))
	r.await("the alarm names who uses it", func() bool { return strings.Contains(r.alarmText(api.AlarmSealKey), "transfers (used by zone plain)") })
	r.await("and why", func() bool { return strings.Contains(r.alarmText(api.AlarmResource), "DNS_TSIG_KEY") })
	if err := os.Rename(key, filepath.Join(dir, "seal.key")); err != nil {
		t.Fatal(err)
	}
	r.await("all is well", func() bool { return !r.alarmed(api.AlarmResource) && !r.alarmed(api.AlarmSealKey) })
	last, _, _ := r.out.latest()
	serial := func(d *snapshot.DNS) uint32 {
		for i := range d.Zones {
			if d.Zones[i].Name == "plain.example." {
				return d.Serial(i)
			}
		}
		return 0
	}
	if !r.keyed(tsigOther)() || serial(first) == 0 || serial(first) != serial(last) || last.Version == first.Version {
		t.Errorf("serial %d of version %d, %d of %d", serial(first), first.Version, serial(last), last.Version)
	}
}

// TestTransferKeysDoNotShow: not in plans, resources, status, errors or the log.
//
// Covers: issue4 secret leaks, issue5 tsig
func TestTransferKeysDoNotShow(t *testing.T) {
	t.Parallel()
	l := &logs{}
	r := start(t, t.TempDir(), nil, l.use)
	var said strings.Builder
	say := func(v any, err error) {
		b, jsonErr := json.Marshal(v)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		said.Write(b)
		if err != nil {
			said.WriteString(err.Error())
		}
	}
	ctx := t.Context()
	inline := strings.Replace(tsigZone, "secretFrom: {secret: transfers, key: xfr}", "secretFrom: "+tsigValue, 1)
	inlineToo := strings.Replace(tsigZone, "secretFrom: {secret: transfers, key: xfr}", "secret: "+tsigValue, 1)
	for _, texts := range [][]string{{inline}, {inlineToo}, {zoneYAML, tsigZone, secretYAML("transfers", "xfr", tsigValue)}} {
		plan, err := r.client.Plan(ctx, request(texts...))
		say(plan, err)
		plan, err = r.client.Apply(ctx, request(texts...))
		say(plan, err)
	}
	r.await("the key is published", r.keyed(tsigValue))
	status, err := r.client.Status(ctx, api.StatusParams{})
	say(status, err)
	zone, err := r.client.Get(ctx, "zone", "plain")
	say(zone, err)
	r.stop()
	if all := said.String() + l.String(); strings.Contains(all, tsigValue) || len(all) < 1000 {
		t.Errorf("the key shows, or nothing was said:\n%s", all)
	}
}

// TestSharedSecretsOfNodes: a name server that joins can open what name servers share; one that is revoked cannot open what comes
// after, and a node that is no name server never could.
//
// Covers: issue5 tsig, issue5 cookies, issue5 dnssec keys sealed
func TestSharedSecretsOfNodes(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil, withHub(&hub{}), func(_ *Config, d *Deps) { d.NoNameServer = true })
	r.apply(zoneYAML, tsigZone, secretYAML("transfers", "xfr", tsigValue))
	a, b, p := r.join("a", nil, roster.RoleDNS), r.join("b", nil, roster.RoleDNS), r.join("p", nil, roster.RoleProbe)
	opens := func(m *machine) bool {
		d, _, _ := r.out.latest()
		if d == nil || d.Sealed == nil {
			return false
		}
		o, err := envelope.NewOpener(m.key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := o.Open(snapshot.SecretsUse, d.Sealed.Envelope)
		return err == nil && strings.Contains(string(text), tsigValue)
	}
	r.await("both name servers can open it", func() bool { return opens(a) && opens(b) })
	if opens(p) {
		t.Error("a probe point can open it")
	}
	if _, err := r.client.RevokeNode(t.Context(), "b", api.RevokeRequest{Reason: "stolen"}); err != nil {
		t.Fatal(err)
	}
	r.await("it is sealed anew without the one that is revoked", func() bool { return opens(a) && !opens(b) })
}

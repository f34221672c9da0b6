package control

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
	"steerpoint/control/internal/store"
	"steerpoint/control/internal/zonekeys"
	"steerpoint/internal/envelope"
	"steerpoint/internal/hidden"
	"steerpoint/internal/pki"
	"steerpoint/internal/seal"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

const (
	// dnssecEvery is how often keys are looked at.
	dnssecEvery = time.Second
	// dnssecSave is how much of a wait may be counted again after a restart.
	dnssecSave = 10 * time.Minute
	// dnskeyTTL is that of DNSKEY, CDS and CDNSKEY records, and the pace of rolls. It is not short: key sets are large, and
	// every validator asks for them.
	dnskeyTTL = time.Hour
	// dnssecMargin is added to every wait: name servers take a map at once, and swap what they signed before within minutes.
	dnssecMargin = time.Hour
	// signedTTL is the longest TTL in a signed zone that waits count with, unless the zone has a longer one.
	signedTTL = 24 * time.Hour
	// behindFor is how long a name server may lack the newest keys before an alarm says that rolls wait for it.
	behindFor = time.Hour
)

// ZoneKeyFile is where the key is to which zone keys are sealed for the name server on control's machine.
func ZoneKeyFile(dir string) string { return filepath.Join(dir, "zone.key") }

// dnssec is the keys of signed zones. What is stored is what holds: memory follows a write, and name servers get nothing
// that is not stored.
type dnssec struct {
	gate  gate // one change at a time
	local envelope.Reader
	// margin is dnssecMargin, or a test's.
	margin, keyTTL time.Duration

	mu      sync.Mutex // guards what follows
	zones   map[string]*keptKeys
	signing *snapshot.Signing // as stored and published; nil: nothing is
	readers string            // those it is sealed to
	version uint64            // of the first map with it; 0: it was not published yet
	last    steering.Instant  // of the last step
	behind  steering.Instant  // since when some name server lacks the newest keys; 0: none does
	holds   string            // who they are
	trouble string
}

// keptKeys are the keys of one zone.
type keptKeys struct {
	record  store.ZoneKeys
	state   zonekeys.State
	sealed  *seal.Sealed // secrets by key tag
	unsaved time.Duration
	policy  *zonekeys.Policy // nil: the zone is not configured
	life    time.Duration    // of its signatures
}

// openDNSSEC loads the keys as they are stored, before anything is published.
func (c *Control) openDNSSEC(ctx context.Context) error {
	d := &c.dnssec
	d.gate, d.zones = make(gate, 1), map[string]*keptKeys{}
	if d.margin == 0 {
		d.margin, d.keyTTL = dnssecMargin, dnskeyTTL
	}
	if c.deps.zoneKeyWaits != 0 {
		d.margin, d.keyTTL = c.deps.zoneKeyWaits, c.deps.zoneKeyWaits
	}
	if err := c.openLocalKey(); err != nil {
		return err
	}
	if err := c.loadZoneKeys(ctx); err != nil {
		return err
	}
	raw, err := c.store.Signing(ctx)
	if err != nil || raw == nil {
		return err
	}
	d.signing = new(snapshot.Signing)
	if err := json.Unmarshal(raw, d.signing); err != nil {
		return fmt.Errorf("what zones are signed by, as it is stored, cannot be read: %w", err)
	}
	d.readers = namesOf(envelope.Readers(d.signing.Keys))
	c.answers.setSigning(d.signing)
	return nil
}

// namesOf are the names of readers as one text.
func namesOf(readers []string) (names string) {
	for _, r := range readers {
		names += r + " "
	}
	return names
}

// openLocalKey reads the key of the name server on this machine, or makes it.
func (c *Control) openLocalKey() error {
	if c.deps.NoNameServer {
		return nil
	}
	path := ZoneKeyFile(c.cfg.Data)
	key, err := pki.ReadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		var text []byte
		if key, text, err = pki.NewKey(); err == nil {
			err = pki.WriteFile(path, text)
		}
	}
	if err != nil {
		return fmt.Errorf("key of the name server on this machine: %w", err)
	}
	c.dnssec.local, err = envelope.ReaderOf(key.Public())
	return err
}

func (c *Control) loadZoneKeys(ctx context.Context) error {
	list, err := c.store.ZoneKeys(ctx)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		c.secrets.needed.Store(true)
	}
	zones := map[string]*keptKeys{}
	for _, rec := range list {
		k := &keptKeys{record: rec, sealed: new(seal.Sealed)}
		if err := json.Unmarshal(rec.State, &k.state); err != nil {
			return fmt.Errorf("zone keys of %s: %w", rec.Zone, err)
		}
		if err := json.Unmarshal(rec.Sealed, k.sealed); err != nil {
			return fmt.Errorf("zone keys of %s: %w", rec.Zone, err)
		}
		if old := c.dnssec.zones[rec.Zone]; old != nil {
			k.policy, k.life = old.policy, old.life
		}
		zones[rec.Zone] = k
	}
	c.dnssec.mu.Lock()
	defer c.dnssec.mu.Unlock()
	c.dnssec.zones = zones
	return nil
}

// keepZoneKeys brings keys to what the configuration and the time want, until ctx ends.
func (c *Control) keepZoneKeys(ctx context.Context) error {
	tick := time.NewTicker(dnssecEvery)
	defer tick.Stop()
	for {
		var zones []*spec.Zone
		if err := c.do(ctx, func() { zones = c.servedZones(c.engine.Set()) }); err != nil {
			return nil // control stops
		}
		if err := c.stepZoneKeys(ctx, zones); err != nil && ctx.Err() == nil {
			c.dnssec.say(err.Error())
		}
		c.judgeZoneKeys()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *dnssec) say(trouble string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = trouble
}

// policyOf is what a Zone wants of its keys.
func (d *dnssec) policyOf(z *spec.Zone) *zonekeys.Policy {
	longest := max(signedTTL, time.Duration(z.NSTTL))
	for i := range z.Records {
		longest = max(longest, time.Duration(z.Records[i].TTL))
	}
	return &zonekeys.Policy{
		Enabled: z.DNSSEC.Enabled, ZSKPeriod: time.Duration(z.DNSSEC.ZSKPeriod), KSKPeriod: time.Duration(z.DNSSEC.KSKPeriod),
		KeyTTL: d.keyTTL, MaxTTL: longest, ParentTTL: time.Duration(z.DNSSEC.ParentTTL), Margin: d.margin,
	}
}

// zoneFQDN is the name of a zone as keys and maps have it.
func zoneFQDN(z *spec.Zone) string {
	return strings.ToLower(strings.TrimSuffix(string(z.Zone), ".")) + "."
}

// stepZoneKeys takes every zone a step further, and hands out what came of it.
func (c *Control) stepZoneKeys(ctx context.Context, configured []*spec.Zone) error {
	d := &c.dnssec
	if err := d.gate.enter(ctx); err != nil {
		return err
	}
	defer d.gate.leave()
	now := c.clock.Moment()
	heard := c.zoneKeyTime(now.At)
	var errs []error
	known := map[string]bool{}
	for _, z := range configured {
		name := zoneFQDN(z)
		k := d.get(name)
		if known[name] || k == nil && !z.DNSSEC.Enabled {
			continue
		}
		known[name] = true
		next := keptKeys{record: store.ZoneKeys{Zone: name}, sealed: &seal.Sealed{}}
		if k != nil {
			next = *k
		}
		next.policy, next.life = d.policyOf(z), time.Duration(z.DNSSEC.SignatureLife)
		if err := c.stepZone(ctx, &next, now.Wall, heard); err != nil {
			errs = append(errs, fmt.Errorf("zone %s: %w", strings.TrimSuffix(name, "."), err))
		}
	}
	d.unconfigured(known)
	c.parentsOfOurs(ctx, now.Wall)
	errs = append(errs, c.handOutKeys(ctx), c.shutZoneKeys())
	err := errors.Join(errs...)
	if err == nil {
		d.say("")
	}
	return err
}

// shutZoneKeys says why the keys of some zone cannot be opened, before they are needed.
func (c *Control) shutZoneKeys() error {
	all := c.dnssec.all()
	if len(all) == 0 {
		return nil
	}
	keys, err := c.secrets.opening()
	if err != nil {
		return err
	}
	for name, k := range all {
		if len(k.sealed.Values) > 0 && !keys.Has(k.sealed.Master) {
			return fmt.Errorf("those of zone %s cannot be opened: %w", strings.TrimSuffix(name, "."), seal.ErrNoKey)
		}
	}
	return nil
}

// zoneKeyTime is how much of the time since the last step counts: none while a name server lacks the newest keys.
func (c *Control) zoneKeyTime(now steering.Instant) time.Duration {
	d := &c.dnssec
	missing := c.lackKeys()
	d.mu.Lock()
	defer d.mu.Unlock()
	passed := now - d.last
	if d.last == 0 {
		passed = 0
	}
	d.last, d.holds = now, ""
	if len(missing) == 0 {
		d.behind = 0
		return passed
	}
	d.holds = strings.Join(missing[:min(len(missing), maxNamed)], ", ")
	if d.behind == 0 {
		d.behind = now
	}
	return 0
}

// lackKeys names the name servers that do not answer by a map with the newest keys. One that is away counts: it answers on.
func (c *Control) lackKeys() (missing []string) {
	d := &c.dnssec
	d.mu.Lock()
	version, none, out := d.version, d.signing == nil, d.handedOut()
	d.mu.Unlock()
	if none && out {
		return nil
	}
	if version == 0 || !out {
		return []string{"all (the keys are not published yet)"}
	}
	for _, v := range c.roster.Views(c.clock.Moment()) {
		if v.Has(roster.RoleDNS) && v.Record.Revoked.IsZero() && v.Map.Using < version {
			missing = append(missing, v.Record.Name)
		}
	}
	return missing
}

// handedOut reports whether the keys are handed out as they are. The caller holds the lock.
func (d *dnssec) handedOut() bool {
	zones := d.signedZones()
	return d.signing == nil && len(zones) == 0 || d.signing != nil && sameZones(d.signing.Zones, zones)
}

// published notes that a map with these keys was handed out.
func (d *dnssec) published(s *snapshot.Signing, version uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s == d.signing && d.version == 0 {
		d.version = version
	}
}

func (d *dnssec) get(zone string) *keptKeys {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.zones[zone]
}

func (d *dnssec) put(k *keptKeys) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zones[k.record.Zone] = k
}

// unconfigured marks the zones that are not among those configured.
func (d *dnssec) unconfigured(configured map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, k := range d.zones {
		if !configured[name] && k.policy != nil {
			gone := *k
			gone.policy = nil
			d.zones[name] = &gone
		}
	}
}

// stepZone takes one zone a step further. What changed is written before it holds.
func (c *Control) stepZone(ctx context.Context, k *keptKeys, wall time.Time, heard time.Duration) error {
	waits := k.state.Waits()
	secrets := map[string]hidden.Text{}
	k.state = k.state.Clone()
	news, err := k.state.Step(wall, heard, k.policy, c.keyMaker(k, wall, secrets))
	if err != nil {
		return err
	}
	if waits {
		k.unsaved += heard
	}
	if len(news) == 0 && k.unsaved < dnssecSave {
		if k.record.Revision != 0 {
			c.dnssec.put(k)
		}
		return nil
	}
	return c.writeZoneKeys(ctx, k, secrets, "control", "", news)
}

// keyMaker makes keys, and keeps their secrets by tag for the write that follows.
func (c *Control) keyMaker(k *keptKeys, wall time.Time, secrets map[string]hidden.Text) zonekeys.Maker {
	return func(ksk bool) (zonekeys.Key, error) {
		if _, err := c.secrets.usable(); err != nil { // before the keys of a zone depend on it
			return zonekeys.Key{}, err
		}
		made, secret, err := zonekeys.Generate(ksk, wall, func(tag uint16) bool {
			_, fresh := secrets[strconv.Itoa(int(tag))]
			return fresh || slices.ContainsFunc(k.state.Keys, func(have zonekeys.Key) bool { return have.Tag == tag })
		})
		if err == nil {
			secrets[strconv.Itoa(int(made.Tag))] = hidden.New(base64.StdEncoding.EncodeToString(secret))
			clear(secret)
		}
		return made, err
	}
}

func zoneKeyPlace(zone string) seal.Place { return seal.Place{Kind: "ZoneKeys", Name: zone} }

// writeZoneKeys stores the keys of a zone, fresh secrets among them, and takes them over.
func (c *Control) writeZoneKeys(ctx context.Context, k *keptKeys, fresh map[string]hidden.Text, actor, reason string, news []string) error {
	if err := c.sealZoneKeys(k, fresh); err != nil {
		return err
	}
	state, err := json.Marshal(&k.state)
	if err != nil {
		return fmt.Errorf("state of the keys: %w", err)
	}
	sealed, err := json.Marshal(k.sealed)
	if err != nil {
		return fmt.Errorf("sealed keys: %w", err)
	}
	before := k.record.State
	k.record.State, k.record.Sealed, k.record.Written, k.unsaved = state, sealed, c.wallNow(), 0
	var audit []store.Audit
	if len(news) > 0 {
		why := strings.Join(news, "; ")
		if reason = strings.TrimSpace(reason); reason != "" {
			why += ": " + reason
		}
		audit = append(audit, store.Audit{Time: c.wallNow(), Actor: actor, Action: api.ActionUpdate, Kind: "ZoneKeys", Name: strings.TrimSuffix(k.record.Zone, "."), Reason: why, Before: before, After: state})
	}
	err = c.store.WriteZoneKeys(ctx, &k.record, audit...)
	if errors.Is(err, store.ErrConflict) { // such as after a write that timed out and was written all the same
		return errors.Join(err, c.loadZoneKeys(ctx))
	}
	if err != nil {
		return err
	}
	c.secrets.needed.Store(true)
	c.dnssec.put(k)
	for _, n := range news {
		c.log.Info("zone keys", "zone", k.record.Zone, "message", n)
		c.feed.Add(api.Event{Time: c.wallNow(), Kind: api.EventConfig, Actor: actor, Subject: "Zone/" + strings.TrimSuffix(k.record.Zone, "."), Message: "zone " + strings.TrimSuffix(k.record.Zone, ".") + ": " + n})
	}
	return nil
}

// sealZoneKeys brings what is sealed to the keys there are.
func (c *Control) sealZoneKeys(k *keptKeys, fresh map[string]hidden.Text) error {
	gone := len(k.sealed.Values) + len(fresh) - len(k.state.Keys)
	if len(fresh) == 0 && gone == 0 {
		return nil
	}
	keys, err := c.secrets.usable()
	if err != nil {
		return err
	}
	values := maps.Clone(fresh)
	for i := range k.state.Keys {
		tag := strconv.Itoa(int(k.state.Keys[i].Tag))
		if _, isNew := fresh[tag]; isNew {
			continue
		}
		if values[tag], err = keys.Open(zoneKeyPlace(k.record.Zone), k.sealed, tag); err != nil {
			return fmt.Errorf("key %s cannot be opened: %w", tag, err)
		}
	}
	k.sealed, err = keys.Seal(zoneKeyPlace(k.record.Zone), values)
	return err
}

// parentsOfOurs notes the DS of zones whose parent is signed here too: it comes and goes with the keys.
func (c *Control) parentsOfOurs(ctx context.Context, wall time.Time) {
	d := &c.dnssec
	d.mu.Lock()
	var ready []*keptKeys
	for name, k := range d.zones {
		if k.policy != nil && k.state.AwaitsParent() && d.parentSigned(name) && d.version != 0 && d.handedOut() {
			ready = append(ready, k)
		}
	}
	d.mu.Unlock()
	for _, k := range ready {
		next := *k
		next.state = next.state.Clone()
		var news []string
		var err error
		if next.state.Leaving {
			news, err = next.state.ForgetDS(next.policy)
		} else {
			news, err = next.state.DSSeen(wall, next.policy)
		}
		if err == nil {
			err = c.writeZoneKeys(ctx, &next, nil, "control", "the zone above is ours", news)
		}
		if err != nil {
			c.log.Warn("DS in a zone of ours not noted", "zone", k.record.Zone, "error", err)
		}
	}
}

// parentSigned reports whether the closest configured zone above a zone is signed here. The caller holds the lock.
func (d *dnssec) parentSigned(zone string) bool {
	for _, up, ok := strings.Cut(zone, "."); ok && up != ""; _, up, ok = strings.Cut(up, ".") {
		if k := d.zones[up]; k != nil {
			return k.policy != nil && k.state.Signed()
		}
	}
	return false
}

// handOutKeys makes what name servers sign by, when it differs from what they have, and publishes it once it is stored.
func (c *Control) handOutKeys(ctx context.Context) error {
	d := &c.dnssec
	readers, names := c.keyReaders()
	d.mu.Lock()
	zones := d.signedZones()
	same := d.handedOut() && (d.signing == nil || d.readers == names)
	d.mu.Unlock()
	if same {
		return nil
	}
	next := &snapshot.Signing{Zones: zones}
	private, err := c.privateKeys(zones)
	if err != nil {
		return err // and name servers go on by what they have
	}
	text, err := json.Marshal(private)
	if err != nil {
		return fmt.Errorf("zone keys: %w", err)
	}
	defer clear(text)
	if next.Keys, err = envelope.Seal(snapshot.SigningUse, text, readers); err != nil {
		return err
	}
	raw, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("zone keys: %w", err)
	}
	if err := c.store.WriteSigning(ctx, raw); err != nil {
		return err
	}
	d.mu.Lock()
	d.signing, d.readers, d.version = next, names, 0
	d.mu.Unlock()
	c.answers.setSigning(next)
	return nil
}

// keyReaders are the name servers, and their names as one text.
func (c *Control) keyReaders() (readers []envelope.Reader, names string) {
	if c.dnssec.local != nil {
		readers = append(readers, c.dnssec.local)
	}
	readers = append(readers, c.nodeReaders(roster.RoleDNS)...)
	return readers, readerNames(readers)
}

// signedZones lists what is to be signed, by name. The caller holds the lock.
func (d *dnssec) signedZones() []snapshot.SignedZone {
	var out []snapshot.SignedZone
	for _, name := range slices.Sorted(maps.Keys(d.zones)) {
		if k := d.zones[name]; k.policy != nil && k.state.Signed() {
			out = append(out, k.state.Zone(name, k.life, k.policy.KeyTTL))
		}
	}
	return out
}

func sameZones(a, b []snapshot.SignedZone) bool {
	return slices.EqualFunc(a, b, func(x, y snapshot.SignedZone) bool {
		return x.Zone == y.Zone && x.Life == y.Life && x.KeyTTL == y.KeyTTL && x.Unsign == y.Unsign && slices.EqualFunc(x.Keys, y.Keys, func(k, l snapshot.ZoneKey) bool {
			return k.Tag == l.Tag && k.Flags == l.Flags && bytes.Equal(k.Public, l.Public) && k.Signs == l.Signs && k.DS == l.DS
		})
	})
}

// privateKeys opens the secrets of the keys that sign.
func (c *Control) privateKeys(zones []snapshot.SignedZone) ([]snapshot.PrivateKey, error) {
	out := []snapshot.PrivateKey{}
	if len(zones) == 0 {
		return out, nil
	}
	keys, err := c.secrets.opening()
	if err != nil {
		return nil, err
	}
	for i := range zones {
		k := c.dnssec.get(zones[i].Zone)
		for _, z := range zones[i].Keys {
			if !z.Signs {
				continue
			}
			v, err := keys.Open(zoneKeyPlace(k.record.Zone), k.sealed, strconv.Itoa(int(z.Tag)))
			if err != nil {
				return nil, fmt.Errorf("key %d of zone %s cannot be opened: %w", z.Tag, strings.TrimSuffix(k.record.Zone, "."), err)
			}
			secret, err := base64.StdEncoding.DecodeString(v.Reveal())
			if err != nil {
				return nil, fmt.Errorf("key %d of zone %s is damaged", z.Tag, strings.TrimSuffix(k.record.Zone, "."))
			}
			out = append(out, snapshot.PrivateKey{Zone: zones[i].Zone, Tag: z.Tag, Key: secret})
		}
	}
	return out, nil
}

// judgeZoneKeys raises the alarms about zone keys, or takes them away.
func (c *Control) judgeZoneKeys() {
	d := &c.dnssec
	d.mu.Lock()
	trouble, holds := d.trouble, d.holds
	late := d.behind != 0 && c.clock.Now()-d.behind >= behindFor
	waiting := false
	for _, k := range d.zones {
		waiting = waiting || k.policy != nil && k.state.Waits()
	}
	d.mu.Unlock()
	c.alarms.set(api.AlarmZoneKeys, "", trouble != "", "zone keys cannot be made or handed out: "+trouble+"; zones are signed on by the keys that name servers have")
	c.alarms.set(api.AlarmZoneRoll, "", late && waiting, "key rolls wait, since these name servers do not have the newest keys: "+holds+"; bring them back, or remove them with `steer node remove`")
	if c.deps.KeyTrouble != nil {
		why := c.deps.KeyTrouble()
		c.alarms.set(api.AlarmZoneKeys, c.cfg.Node, why != "", "the name server of this process lacks keys: "+why)
	}
	for _, v := range c.roster.Views(c.clock.Moment()) {
		why := ""
		if v.Status != nil && v.Status.Map != nil && v.Record.Revoked.IsZero() {
			why = v.Status.Map.KeyTrouble
		}
		c.alarms.set(api.AlarmZoneKeys, v.Record.Name, why != "", "name server "+v.Record.Name+" lacks keys: "+why)
	}
}

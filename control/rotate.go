package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
	"steerpoint/spec"
)

const (
	// sealBatch is how many bytes of Secrets one transaction seals anew, or else one Secret.
	sealBatch = 1 << 20
	// resealAgain is how long after a failure the rest of a rotation is tried again.
	resealAgain = time.Minute
)

// reseal is one go through everything that is sealed. Each of its transactions leaves everything open to the key file as it is
// then: the new key stands there before anything is sealed by it, and the older ones stay. So it may end after any of them,
// and the rest is done later.
type reseal struct {
	c             *Control
	keys          *seal.Keys
	actor, reason string
	// stale: only what an older key sealed, as far as it opens.
	stale bool
	done  api.Rotation
}

// rotateSecrets seals everything anew that is sealed. What does not open is named before anything is changed.
func (c *Control) rotateSecrets(ctx context.Context, actor string, r *api.RotateRequest) (api.Rotation, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.dnssec.gate.enter(ctx); err != nil {
		return api.Rotation{}, err
	}
	defer c.dnssec.gate.leave()
	view, err := c.store.Resources(ctx)
	if err != nil {
		return api.Rotation{}, storeProblem(err)
	}
	if err := c.checkSealed(&view); err != nil {
		return api.Rotation{}, sealProblem(err)
	}
	if err := c.sealStep("the key file"); err != nil {
		return api.Rotation{}, err
	}
	keys, err := c.secrets.rotation(r.NewKey, c.wallNow())
	if err != nil {
		return api.Rotation{}, sealProblem(err)
	}
	why := "sealed anew"
	if reason := strings.TrimSpace(r.Reason); reason != "" {
		why += ": " + reason
	}
	s := &reseal{c: c, keys: keys, actor: actor, reason: why, done: api.Rotation{Key: keys.Current(), NewKey: r.NewKey}}
	if err := s.run(ctx, &view); err != nil {
		return api.Rotation{}, err
	}
	return s.done, nil
}

// sealStep is called before each change of a rotation; tests end it there.
func (c *Control) sealStep(what string) error {
	if c.deps.sealStep == nil {
		return nil
	}
	return c.deps.sealStep(what)
}

// checkSealed says what cannot be opened of that which would be lost with its key.
func (c *Control) checkSealed(view *store.View) error {
	keys, err := c.secrets.opening()
	if err != nil {
		return err
	}
	for i := range view.Resources {
		if r := &view.Resources[i]; r.Kind == string(spec.KindSecret) {
			sealed, err := sealedOf(r.Document)
			if err == nil {
				err = keys.Check(placeOf(r.Name), sealed)
			}
			if err != nil {
				return fmt.Errorf("secret %s cannot be opened: %w", r.Name, err)
			}
		}
	}
	for name, k := range c.dnssec.all() {
		if len(k.sealed.Values) == 0 {
			continue
		}
		if err := keys.Check(zoneKeyPlace(name), k.sealed); err != nil {
			return fmt.Errorf("the keys of zone %s cannot be opened: %w", strings.TrimSuffix(name, "."), err)
		}
	}
	return nil
}

// run seals all of it, each thing whole or not at all. The caller holds writing and the gate of zone keys.
func (s *reseal) run(ctx context.Context, view *store.View) error {
	if err := s.secrets(ctx, view); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.c.dnssec.all())) {
		if err := s.zone(ctx, name); err != nil {
			return err
		}
	}
	if err := s.cookies(ctx); err != nil {
		return err
	}
	if err := s.orders(ctx); err != nil {
		return err
	}
	return s.shared(ctx)
}

// wants reports whether something that is sealed is to be sealed anew.
func (s *reseal) wants(p seal.Place, sealed *seal.Sealed) bool {
	if sealed == nil || len(sealed.Values) == 0 {
		return false
	}
	return !s.stale || sealed.Master != s.keys.Current() && s.keys.Check(p, sealed) == nil
}

// secrets seals the Secrets, in batches.
func (s *reseal) secrets(ctx context.Context, view *store.View) error {
	limit := s.c.deps.sealBatch
	if limit == 0 {
		limit = sealBatch
	}
	p, size := &planned{view: *view}, 0
	write := func() error {
		if len(p.writes) == 0 {
			return nil
		}
		if err := s.c.sealStep("secrets"); err != nil {
			return err
		}
		revision, err := s.c.store.WriteResources(ctx, p.view.Generation, p.writes, p.audit)
		if err != nil {
			return s.broken(err)
		}
		s.done.Secrets, s.done.Revision = s.done.Secrets+len(p.writes), revision
		p.view.Generation, p.writes, p.audit, size = revision, nil, nil, 0
		return nil
	}
	for i := range view.Resources {
		r := &view.Resources[i]
		if r.Kind != string(spec.KindSecret) {
			continue
		}
		if sealed, err := sealedOf(r.Document); s.stale && (err != nil || !s.wants(placeOf(r.Name), sealed)) {
			continue
		}
		if len(p.writes) > 0 && size+len(r.Document) > limit {
			if err := write(); err != nil {
				return err
			}
		}
		if err := s.secret(p, r); err != nil {
			return sealProblem(err)
		}
		size += len(r.Document)
	}
	if err := write(); err != nil {
		return err
	}
	if s.done.Revision != 0 {
		s.c.awaitApplied(ctx, s.done.Revision)
	}
	return nil
}

// secret adds the write of one Secret under a fresh data key.
func (s *reseal) secret(p *planned, r *store.Resource) error {
	doc, err := parseStored(r)
	if err != nil {
		return fmt.Errorf("secret %s cannot be read: %w", r.Name, err)
	}
	w := newSealing(&s.c.secrets, &doc, *r)
	values, err := w.opened(s.keys)
	if err != nil {
		return err
	}
	sealed, err := s.keys.Seal(w.place, values)
	if err != nil {
		return err
	}
	doc.Secret = &spec.Secret{Name: doc.Name}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		doc.Secret.Keys = append(doc.Secret.Keys, spec.SecretKey{Name: key, Fingerprint: s.keys.Fingerprint(w.place, key, values[key])})
	}
	ch := &change{actor: s.actor, reason: s.reason, sealed: map[string]*seal.Sealed{doc.Name: sealed}}
	s.c.write(ch, p, api.ActionUpdate, spec.NewSet([]spec.Resource{doc}), *r, spec.KindSecret, doc.Name, s.c.clock.Moment().Wall.UTC())
	return nil
}

// zone seals the keys of one zone.
func (s *reseal) zone(ctx context.Context, name string) error {
	k := s.c.dnssec.get(name)
	if k == nil || !s.wants(zoneKeyPlace(name), k.sealed) {
		return nil
	}
	values := map[string]hidden.Text{}
	for i := range k.state.Keys {
		tag := strconv.Itoa(int(k.state.Keys[i].Tag))
		v, err := s.keys.Open(zoneKeyPlace(name), k.sealed, tag)
		if err != nil {
			return sealProblem(fmt.Errorf("key %s of zone %s cannot be opened: %w", tag, strings.TrimSuffix(name, "."), err))
		}
		values[tag] = v
	}
	next := *k
	next.state = k.state.Clone()
	var err error
	if next.sealed, err = s.keys.Seal(zoneKeyPlace(name), values); err != nil {
		return err
	}
	if err := s.c.sealStep("zone keys"); err != nil {
		return err
	}
	if err := s.c.writeZoneKeys(ctx, &next, nil, s.actor, "", []string{s.reason}); err != nil {
		return s.broken(err)
	}
	s.done.Zones++
	return nil
}

// cookies seals what the secrets of cookies are made of. One that does not open is made anew by who reads it.
func (s *reseal) cookies(ctx context.Context) error {
	k := &s.c.cookies
	k.mu.Lock()
	master, kept := k.master, k.kept
	k.mu.Unlock()
	if sealed := sealedMaster(kept); master == nil || !s.wants(cookiePlace, sealed) {
		return nil
	}
	if err := s.c.sealStep("cookies"); err != nil {
		return err
	}
	err := s.c.writeCookies(ctx, s.keys, master, kept, s.actor, s.reason)
	if errors.Is(err, store.ErrConflict) { // such as after a write that timed out and was written all the same
		err = errors.Join(err, s.c.readCookies(ctx))
	}
	if err != nil {
		return s.broken(err)
	}
	return nil
}

// shared seals what control keeps of the secrets that name servers share. What cannot be stored now is tried again by itself.
func (s *reseal) shared(ctx context.Context) error {
	h := &s.c.shared
	h.mu.Lock()
	wanted := h.known && s.wants(sharedPlace, h.own)
	h.mu.Unlock()
	if !wanted {
		return nil
	}
	if err := s.c.sealStep("shared secrets"); err != nil {
		return err
	}
	h.mu.Lock()
	h.unsaved = true
	h.mu.Unlock()
	if err := s.c.saveShared(ctx); err != nil {
		return s.broken(err)
	}
	return nil
}

// broken is the refusal of the store somewhere in between.
func (s *reseal) broken(err error) *api.Problem {
	p := storeProblem(err)
	if s.done.NewKey || s.done.Secrets+s.done.Zones > 0 {
		p.Detail = fmt.Sprintf("%v. Sealed anew are %d Secrets and the keys of %d zones; the rest opens as before, and follows by itself", err, s.done.Secrets, s.done.Zones)
	}
	return p
}

// mayFinishRotation seals by the newest key what a rotation that was broken off left under an older one. It reports whether
// there was anything.
func (c *Control) mayFinishRotation(ctx context.Context) bool {
	keys, err := c.secrets.usable()
	if err != nil || !c.staleSeals(keys) {
		return false // the alarm says what is wrong with the key
	}
	if err := c.finishRotation(ctx); err != nil && ctx.Err() == nil {
		c.log.Warn("what an older key sealed is not all sealed anew yet: it is tried again", "error", err)
	}
	return true
}

func (c *Control) finishRotation(ctx context.Context) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.dnssec.gate.enter(ctx); err != nil {
		return err
	}
	defer c.dnssec.gate.leave()
	keys, err := c.secrets.usable() // as it is now, since a rotation may have been under way
	if err != nil {
		return err
	}
	view, err := c.store.Resources(ctx)
	if err != nil {
		return err
	}
	s := &reseal{c: c, keys: keys, actor: "control", reason: "sealed anew: what an earlier rotation left", stale: true}
	return s.run(ctx, &view)
}

// staleSeals reports whether something is sealed by another key than the newest, and opens.
func (c *Control) staleSeals(keys *seal.Keys) bool {
	old := func(sealed *seal.Sealed) bool {
		return sealed != nil && len(sealed.Values) > 0 && sealed.Master != keys.Current() && keys.Has(sealed.Master)
	}
	if c.secrets.anySealed(old) {
		return true
	}
	for _, k := range c.dnssec.all() {
		if old(k.sealed) {
			return true
		}
	}
	c.cookies.mu.Lock()
	master := sealedMaster(c.cookies.kept)
	c.cookies.mu.Unlock()
	c.shared.mu.Lock()
	own := c.shared.own
	c.shared.mu.Unlock()
	return old(master) || old(own) || slices.ContainsFunc(c.orders.sealedOrders(), old)
}

// anySealed reports whether a Secret that opens is as asked for.
func (s *secrets) anySealed(is func(*seal.Sealed) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.stored {
		if x.err == nil && is(x.sealed) {
			return true
		}
	}
	return false
}

// all are the keys of every zone, by zone.
func (d *dnssec) all() map[string]*keptKeys {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.zones)
}

// sealedMaster is what is sealed of a stored master; nil: there is none, or it cannot be read.
func sealedMaster(kept store.CookieMaster) *seal.Sealed {
	sealed := new(seal.Sealed)
	if json.Unmarshal(kept.Sealed, sealed) != nil {
		return nil
	}
	return sealed
}

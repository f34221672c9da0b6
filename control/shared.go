package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"steerpoint/control/internal/store"
	"steerpoint/internal/envelope"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

// shared is what name servers share as secrets: keys of transfers, and those of cookies. The publisher makes it with each map,
// so that a map never names a key that does not come with it, and seals it to every name server when it changed. It is stored
// after that, and only so that a control without its sealing key hands out the same after a restart.
type shared struct {
	wake chan struct{} // 1 deep: there is something to be stored

	mu       sync.Mutex // guards what follows
	secrets  snapshot.ServerSecrets
	known    bool             // secrets are what sealed holds
	sealed   *snapshot.Sealed // as handed out last, or from before the restart; nil: nothing is
	to       string           // whom sealed is sealed to
	readers  []envelope.Reader
	names    string // of readers
	zones    []*spec.Zone
	turn     uint64
	made     bool // zones and turn are those of secrets and problems
	problems []snapshot.Problem
	own      *seal.Sealed // secrets for control itself, as stored; nil: they are not
	unsaved  bool
	said     string // what was last logged of why it is not stored
}

const (
	// sharedEvery is how often name servers that came or went are looked for, and what is not stored is tried again.
	sharedEvery = time.Second
	sharedValue = "secrets"
)

var sharedPlace = seal.Place{Kind: "ServerSecrets", Name: "all"}

// openShared reads what was handed out before the restart, before anything is published.
func (c *Control) openShared(ctx context.Context) {
	s := &c.shared
	s.wake = make(chan struct{}, 1)
	s.readers, s.names = c.keyReaders()
	kept, err := c.store.Shared(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "what name servers share as secrets, as it was handed out before, cannot be read: it is made anew", "error", err)
		return
	}
	if len(kept.Envelope) == 0 {
		s.known = true // nothing is handed out
		return
	}
	s.sealed, s.to = &snapshot.Sealed{Envelope: kept.Envelope}, namesOf(envelope.Readers(kept.Envelope))
	if own := new(seal.Sealed); kept.Sealed != nil && json.Unmarshal(kept.Sealed, own) == nil {
		s.own = own
	}
}

// recall opens what was handed out before the restart, if the sealing key is there. The caller holds the lock.
func (s *shared) recall(keys *seal.Keys) {
	if s.known || s.own == nil || keys == nil {
		return
	}
	v, err := keys.Open(sharedPlace, s.own, sharedValue)
	if err != nil {
		return
	}
	if secrets, err := snapshot.UnmarshalSecrets([]byte(v.Reveal())); err == nil {
		s.secrets, s.known = *secrets, true
	}
}

// share gives what goes out with a map of these zones, and which keys are missing. It is called by the publisher. What was handed
// out before a restart and cannot be opened stays as it is, until what it is made of can be had.
func (c *Control) share(zones []*spec.Zone, cookies *snapshot.CookieSecrets) (*snapshot.Sealed, []snapshot.Problem) {
	s := &c.shared
	turn := c.secrets.changed()
	keys, _ := c.secrets.opening() // without them nothing is recalled
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recall(keys)
	next := snapshot.ServerSecrets{Keys: s.secrets.Keys, Cookies: cookies}
	if !s.made || s.turn != turn || !slices.Equal(s.zones, zones) {
		next.Keys, s.problems = snapshot.TransferKeys(zones, s.secrets.Keys, c.secrets.value)
	}
	if !s.known && (cookies == nil || len(s.problems) > 0) {
		return s.sealed, s.problems
	}
	if next.Cookies == nil {
		next.Cookies = s.secrets.Cookies
	}
	s.zones, s.turn, s.made = slices.Clone(zones), turn, true
	if s.known && s.secrets.Equal(&next) && s.to == s.names {
		return s.sealed, s.problems
	}
	if err := s.seal(next); err != nil {
		s.made = false // it is tried again with the next map
		c.log.Error("what name servers share as secrets cannot be sealed: they go on by what they have", "error", err)
	}
	return s.sealed, s.problems
}

// seal makes an envelope of secrets. The caller holds the lock.
func (s *shared) seal(next snapshot.ServerSecrets) error {
	var sealed *snapshot.Sealed
	if !next.Empty() {
		text, err := next.Marshal()
		if err != nil {
			return err
		}
		defer clear(text)
		sealed = new(snapshot.Sealed)
		if sealed.Envelope, err = envelope.Seal(snapshot.SecretsUse, text, s.readers); err != nil {
			return err
		}
	}
	s.secrets, s.known, s.sealed, s.to, s.unsaved, s.own = next, true, sealed, s.names, true, nil
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// keepShared stores what was handed out, and has it sealed anew when name servers come and go, until ctx ends.
func (c *Control) keepShared(ctx context.Context) error {
	tick := time.NewTicker(sharedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = c.saveShared(context.WithoutCancel(ctx)) // what is not stored is made anew after the next start
			return nil
		case <-tick.C:
			c.lookAtReaders()
		case <-c.shared.wake:
		}
		if err := c.saveShared(ctx); err != nil && ctx.Err() == nil {
			c.shared.say(c, err.Error())
		}
	}
}

// lookAtReaders notes which name servers there are.
func (c *Control) lookAtReaders() {
	readers, names := c.keyReaders()
	s := &c.shared
	s.mu.Lock()
	others := names != s.names
	s.readers, s.names = readers, names
	s.mu.Unlock()
	if others {
		c.answers.mark()
	}
}

// saveShared stores what was handed out last, if it is not, or not for control itself.
func (c *Control) saveShared(ctx context.Context) error {
	keys, err := c.secrets.usable() // a key that is lost with the process would seal for nobody
	s := &c.shared
	s.mu.Lock()
	sealed, secrets := s.sealed, s.secrets
	wanted := s.unsaved || s.known && s.sealed != nil && s.own == nil && err == nil
	s.mu.Unlock()
	if !wanted {
		return nil
	}
	var v store.Shared
	if sealed != nil {
		v.Envelope = sealed.Envelope
	}
	var own *seal.Sealed
	if err == nil {
		if own, err = sealShared(keys, &secrets); err != nil {
			return err
		}
		if v.Sealed, err = json.Marshal(own); err != nil {
			return fmt.Errorf("secrets of name servers: %w", err)
		}
	}
	if err := c.store.WriteShared(ctx, &v); err != nil {
		return err
	}
	s.mu.Lock()
	if s.sealed == sealed { // otherwise there is a newer one to be stored
		s.own, s.unsaved = own, false
	}
	s.mu.Unlock()
	s.say(c, "")
	return nil
}

func sealShared(keys *seal.Keys, secrets *snapshot.ServerSecrets) (*seal.Sealed, error) {
	text, err := secrets.Marshal()
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return keys.Seal(sharedPlace, map[string]hidden.Text{sharedValue: hidden.New(string(text))})
}

// say logs trouble when it is new.
func (s *shared) say(c *Control, trouble string) {
	s.mu.Lock()
	was := s.said
	s.said = trouble
	s.mu.Unlock()
	if trouble != "" && trouble != was {
		c.log.Warn("what name servers share as secrets is not stored yet: it is tried again", "error", trouble)
	}
}

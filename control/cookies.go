package control

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
	"steerpoint/snapshot"
)

// cookies is what the secrets of DNS cookies are made of. All name servers of the cluster get the same ones with their
// maps, so that a cookie of one is good at the others behind the same address, and after a restart of any of them.
type cookies struct {
	mu     sync.Mutex
	master []byte             // nil: it cannot be had yet
	kept   store.CookieMaster // as it is stored, sealed; of who opens and seals it
	turn   time.Time
	// passing stands in for master in what is only needed until the next restart.
	passing []byte
}

const (
	// cookieEvery is how often the day is looked at: the wall clock may be set meanwhile.
	cookieEvery = time.Minute
	// cookieBytes is the length of what cookie secrets are made of.
	cookieBytes = 32
	// cookieValue names it among the values that are sealed for cookiePlace.
	cookieValue = "master"
)

var cookiePlace = seal.Place{Kind: "CookieMaster", Name: "dns"}

// openCookies reads what secrets are made of, or makes it. Until it can be had name servers go on by the secrets they have, or
// each by its own; that is no reason not to start.
func (c *Control) openCookies(ctx context.Context) {
	if err := c.readCookies(ctx); err != nil {
		c.log.WarnContext(ctx, "what the secrets of DNS cookies are made of cannot be had yet: name servers go on by those they have", "error", err)
	}
}

func (c *Control) readCookies(ctx context.Context) error {
	k := &c.cookies
	kept, err := c.store.CookieMaster(ctx)
	if err != nil {
		return err
	}
	keys, err := c.secrets.usable()
	if err != nil {
		return err
	}
	master, err := openCookieMaster(keys, kept)
	if err == nil {
		k.adopt(master, kept)
		return nil
	}
	if kept.Revision != 0 && !errors.Is(err, seal.ErrNoKey) && !errors.Is(err, seal.ErrDamaged) {
		return err
	}
	// What it was sealed by is lost, such as after a restore without the sealing key. Nothing else hangs on it: resolvers get
	// cookies by the new one with their next queries.
	why := ""
	if kept.Revision != 0 {
		why = "made anew, since the one before is lost: " + err.Error()
		c.log.WarnContext(ctx, "what the secrets of DNS cookies are made of is lost and made anew: resolvers get new cookies with their next queries", "error", err)
	}
	fresh := make([]byte, cookieBytes)
	_, _ = rand.Read(fresh) // it never fails
	return c.writeCookies(ctx, keys, fresh, kept, "control", why)
}

func openCookieMaster(keys *seal.Keys, kept store.CookieMaster) ([]byte, error) {
	sealed := sealedMaster(kept)
	if sealed == nil {
		return nil, seal.ErrDamaged
	}
	v, err := keys.Open(cookiePlace, sealed, cookieValue)
	if err != nil {
		return nil, err
	}
	master, err := base64.StdEncoding.DecodeString(v.Reveal())
	if err != nil || len(master) != cookieBytes {
		return nil, seal.ErrDamaged
	}
	return master, nil
}

// writeCookies seals a master, stores it in the place of the one that is kept, and takes it over.
func (c *Control) writeCookies(ctx context.Context, keys *seal.Keys, master []byte, kept store.CookieMaster, actor, why string) error {
	sealed, err := keys.Seal(cookiePlace, map[string]hidden.Text{cookieValue: hidden.New(base64.StdEncoding.EncodeToString(master))})
	if err != nil {
		return err
	}
	if kept.Sealed, err = json.Marshal(sealed); err != nil {
		return fmt.Errorf("master of DNS cookies: %w", err)
	}
	var audit []store.Audit
	if kept.Revision != 0 {
		audit = append(audit, store.Audit{Time: c.wallNow(), Actor: actor, Action: api.ActionUpdate, Kind: cookiePlace.Kind, Name: cookiePlace.Name, Reason: why})
	}
	if err = c.store.WriteCookieMaster(ctx, &kept, audit...); err == nil {
		c.cookies.adopt(master, kept)
	}
	return err
}

func (k *cookies) adopt(master []byte, kept store.CookieMaster) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.master, k.kept = master, kept
}

// at are the secrets at a time; nil: they cannot be had.
func (k *cookies) at(now time.Time) *snapshot.CookieSecrets {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.master == nil {
		return nil
	}
	k.turn = snapshot.NextCookies(now)
	s, err := snapshot.CookiesAt(k.master, now)
	if err != nil { // the master is too short to be one of ours
		return nil
	}
	return s
}

// due reports whether a map made now would have other secrets than the last one.
func (k *cookies) due(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.master != nil && (now.Before(k.turn.Add(-snapshot.CookiePeriod)) || !now.Before(k.turn))
}

// turnCookies publishes the secrets of each new day.
func (c *Control) turnCookies(ctx context.Context) error {
	t := time.NewTicker(cookieEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		c.lookAtCookies(ctx)
	}
}

func (c *Control) lookAtCookies(ctx context.Context) {
	c.cookies.mu.Lock()
	missing := c.cookies.master == nil
	c.cookies.mu.Unlock()
	if missing {
		c.openCookies(ctx)
	}
	if c.cookies.due(c.clock.Moment().Wall) {
		c.answers.mark()
	}
}

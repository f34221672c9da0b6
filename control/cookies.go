package control

import (
	"context"
	"sync"
	"time"

	"steerpoint/snapshot"
)

// cookies is what the secrets of DNS cookies are made of. All name servers of the cluster get the same ones with their
// maps, so that a cookie of one is good at the others behind the same address, and after a restart of any of them.
type cookies struct {
	mu     sync.Mutex
	master []byte // nil: the store has not told it yet
	turn   time.Time
}

// cookieEvery is how often the day is looked at: the wall clock may be set meanwhile.
const cookieEvery = time.Minute

// openCookies reads what secrets are made of. Without it each name server has secrets of its own, and cookies are good at
// one server; that is no reason not to start.
func (c *Control) openCookies(ctx context.Context) {
	master, err := c.store.CookieMaster(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the shared secret of DNS cookies cannot be had yet: each name server goes on with its own", "error", err)
		return
	}
	c.cookies.mu.Lock()
	defer c.cookies.mu.Unlock()
	c.cookies.master = master
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

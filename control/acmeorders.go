package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"steerpoint/control/internal/issue"
	"steerpoint/spec"
)

// wantedOrders are the certificates to be ordered, by name.
func (c *Control) wantedOrders(set *spec.Set) map[string]*spec.Certificate {
	out := map[string]*spec.Certificate{}
	for _, w := range set.Certificates() {
		if w.ACME != nil {
			out[w.Name] = w
		}
	}
	how := spec.DefaultACME()
	how.Directory = cmp.Or(c.cfg.ACME.Directory, how.Directory)
	how.Email, how.Roots = c.cfg.ACME.Email, c.cfg.ACME.Roots
	for _, w := range set.AutoCertificates(how) {
		out[w.Name] = w
	}
	return out
}

// specOf tells what is to be ordered from what else could be written. How the names are proved is not among it.
func specOf(w *spec.Certificate) string {
	b, _ := json.Marshal([]any{orderedNames(w), w.ACME.Directory, w.ACME.KeyType, w.ACME.EABKeyID}) // texts always have a form
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

func accountOf(a *spec.ACME) (id string, state accountState) {
	state = accountState{Directory: a.Directory, Email: a.Email, EABKeyID: a.EABKeyID}
	b, _ := json.Marshal(state) // as above
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12]), state
}

func orderedNames(w *spec.Certificate) []string {
	var out []string
	for _, d := range w.Names {
		out = append(out, string(d))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// keepOrders orders and renews certificates until ctx ends. What was under way then goes on after the next start.
func (c *Control) keepOrders(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(ordersEvery)
	defer tick.Stop()
	for {
		if set := c.edges.config(); set != nil {
			c.startOrders(ctx, set, &running)
			c.judgeOrders(set)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// startOrders starts what is due.
func (c *Control) startOrders(ctx context.Context, set *spec.Set, running *sync.WaitGroup) {
	o := &c.orders
	wanted, now := c.wantedOrders(set), c.wallNow()
	if len(wanted) > 0 {
		_, err := c.secrets.usable()
		o.say(err)
		if err != nil {
			return // keys could not be kept
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[name]
		switch what := c.due(w, now); {
		case what == nothingDue:
		case o.begin(name, maxOrders):
			running.Go(func() {
				defer o.end(name)
				if what == renewalDue {
					c.askRenewal(ctx, w)
					return
				}
				c.tryOrder(ctx, set, w)
			})
		}
	}
	o.mu.Lock()
	o.wanted = wanted
	var left []*order
	for name, x := range o.kept {
		if !o.working[name] && (len(x.state.Proofs) > 0 && x.state.Order == "" && !now.Before(o.again[name]) || wanted[name] == nil && x.forgotten(now)) {
			left = append(left, x)
		}
	}
	o.mu.Unlock()
	for _, x := range left {
		c.tidy(ctx, set, x, wanted[x.record.Name] == nil)
	}
}

// forgotten reports whether nothing of a certificate that is not configured is needed any more.
func (x *order) forgotten(now time.Time) bool {
	return now.Sub(x.state.NotAfter) > forgottenAfter && now.Sub(x.record.Written) > forgottenAfter
}

// say notes why nothing can be ordered; nil: it can.
func (o *orders) say(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trouble = ""
	if err != nil {
		o.trouble = err.Error()
	}
}

// begin takes a name for work, unless it is worked on or there is too much.
func (o *orders) begin(name string, most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.working[name] || len(o.working) >= most {
		return false
	}
	o.working[name] = true
	return true
}

func (o *orders) end(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.working, name)
}

func (o *orders) get(name string) *order {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept[name]
}

// What is due for a certificate.
type due int

const (
	nothingDue due = iota
	renewalDue     // to ask when it should be renewed
	orderDue
)

func (c *Control) due(w *spec.Certificate, now time.Time) due {
	o := &c.orders
	o.mu.Lock()
	x := o.kept[w.Name]
	window, asked := o.windows[w.Name]
	o.mu.Unlock()
	switch {
	case x == nil || x.state.Spec != specOf(w):
		return orderDue
	case c.sealLost(x.sealed), x.state.Chain == "", x.state.ChainOf != specOf(w), x.state.Order != "", !now.Before(x.renewAt(window, now)):
		if x.state.Failures == 0 || !now.Before(x.state.Next) || x.state.Next.Sub(now) > longestTry { // the clock was set back
			return orderDue
		}
		return nothingDue
	case !asked || !now.Before(window.Again) || window.Again.Sub(now) > longestTry:
		return renewalDue
	}
	return nothingDue
}

// longestTry is longer than any wait for the next try.
const longestTry = 48 * time.Hour

// renewAt is when a certificate is renewed: when it is due by what is written, or before, when its authority wants it. One that was
// issued after now is of a clock that was set back: how long it has been in use is not known then.
func (x *order) renewAt(w issue.Window, now time.Time) time.Time {
	at := x.state.Renew
	if !w.At.IsZero() && w.At.Before(at) {
		at = w.At
	}
	if least := x.state.Issued.Add(min(leastUse, x.state.NotAfter.Sub(x.state.NotBefore)/3)); at.Before(least) && !x.state.Issued.After(now) {
		return least
	}
	return at
}

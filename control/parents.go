package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/parentds"
	"steerpoint/control/internal/resolve"
	"steerpoint/control/internal/zonekeys"
	"steerpoint/steering"
)

const (
	// parentTick is how often it is looked whether a parent is to be asked.
	parentTick = time.Second
	// parentSoon is after how long a parent is asked again that has to do something, each time twice as long up to
	// parentAwaited; parentKnown how often one that has done it: often enough that a DS which went wrong is told of before
	// caches have forgotten the right one.
	parentSoon    = 15 * time.Second
	parentAwaited = 5 * time.Minute
	parentKnown   = time.Hour
)

// parents is what the parents of signed zones say of their DS, where settings name a resolver to find them by. Without one
// nobody is asked, and what the parent has is what somebody said.
type parents struct {
	asker *parentds.Asker // nil: nobody is asked

	mu    sync.Mutex
	looks map[string]parentLook // by zone
}

// parentLook is the newest look at one parent.
type parentLook struct {
	parentds.Look
	wall    time.Time
	at      steering.Instant
	awaited string // the DS that was looked for; "": that none is left
	forms   []string
	times   int // it was looked for
}

func (c *Control) openParents() error {
	p := &c.parents
	p.looks = map[string]parentLook{}
	if c.cfg.ParentResolver == "" {
		return nil
	}
	server, err := resolve.Server(c.cfg.ParentResolver)
	if err != nil {
		return fmt.Errorf("dnssec.parentResolver: %w", err)
	}
	p.asker = &parentds.Asker{Resolver: server, Exchange: c.deps.parentExchange}
	return nil
}

// watchParents asks parents until ctx ends.
func (c *Control) watchParents(ctx context.Context) error {
	if c.parents.asker == nil {
		return nil
	}
	tick := time.NewTicker(parentTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, q := range c.dueParents() {
			if ctx.Err() == nil {
				c.askParent(ctx, q)
			}
		}
	}
}

// parentQuestion is a zone whose parent is to be asked.
type parentQuestion struct {
	zone    string
	awaits  bool
	awaited string
	forms   []string // that DS with each digest
	ours    []string // the DS of its key-signing keys
	signed  bool     // some DS was seen before
}

// dueParents are the zones whose parents are to be asked now: not those whose parent is signed here.
func (c *Control) dueParents() (out []parentQuestion) {
	d, p := &c.dnssec, &c.parents
	now := c.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, k := range d.zones {
		if k.policy == nil || !k.state.Signed() {
			if _, asked := p.looks[name]; asked {
				delete(p.looks, name)
				c.alarms.set(api.AlarmZoneDS, strings.TrimSuffix(name, "."), false, "")
			}
			continue
		}
		if d.parentSigned(name) || d.version == 0 || !d.handedOut() {
			continue // name servers have to have the keys first
		}
		q := questionOf(name, &k.state)
		last, asked := p.looks[name]
		every := parentKnown
		if q.awaits {
			every = min(parentSoon<<min(max(last.times-1, 0), 10), parentAwaited)
		}
		if !asked || last.awaited != q.awaited || now-last.at >= every {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b parentQuestion) int { return strings.Compare(a.zone, b.zone) })
	return out
}

func questionOf(zone string, s *zonekeys.State) parentQuestion {
	q := parentQuestion{zone: zone, awaits: s.AwaitsParent()}
	if want := s.WantsDS(); want != nil && !s.Leaving {
		q.awaited, q.forms = want.DS(zone), want.DSForms(zone)
	}
	for i := range s.Keys {
		if k := &s.Keys[i]; k.KSK {
			q.ours = append(q.ours, k.DSForms(zone)...)
			q.signed = q.signed || k.Stage == zonekeys.Active
		}
	}
	return q
}

// askParent asks one parent, and goes on by what all of its name servers say.
func (c *Control) askParent(ctx context.Context, q parentQuestion) {
	p := &c.parents
	look := parentLook{wall: c.wallNow().UTC(), at: c.clock.Now(), awaited: q.awaited, forms: q.forms} // from before: what is there later was not seen
	look.Look = p.asker.Ask(ctx, q.zone)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	look.times = 1
	if last, asked := p.looks[q.zone]; asked && last.awaited == q.awaited {
		look.times += last.times
	}
	p.looks[q.zone] = look
	p.mu.Unlock()
	v := look.Judge(q.forms...)
	c.judgeParent(&q, &look, v)
	if q.awaits && (q.awaited != "" && v.Has || q.awaited == "" && v.None) {
		if err := c.parentDone(ctx, &q, &look, v); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "what the parent of a zone has is not noted", "zone", q.zone, "error", err)
		}
	}
}

// judgeParent raises the alarm about a zone whose DS was seen, and of which none of its keys is left at the parent.
func (c *Control) judgeParent(q *parentQuestion, look *parentLook, v parentds.Verdict) {
	name := strings.TrimSuffix(q.zone, ".")
	lost := q.signed && v.Complete && !look.Any(q.ours)
	what := "none of its DS records is of a key of this zone, so validating resolvers refuse every answer"
	if v.None {
		what = "it has no DS of it any more, so nobody validates the zone"
	}
	c.alarms.set(api.AlarmZoneDS, name, lost, fmt.Sprintf("zone %s is signed, and its parent %s was asked: %s. Give it the DS that `steer dnssec ds %s` prints", name, strings.TrimSuffix(look.Parent, "."), what, name))
}

// parentDone notes that the parent has done what it was to do. The old DS may be in caches for as long as it says.
func (c *Control) parentDone(ctx context.Context, q *parentQuestion, look *parentLook, v parentds.Verdict) error {
	d := &c.dnssec
	if err := d.gate.enter(ctx); err != nil {
		return err
	}
	defer d.gate.leave()
	k := d.get(q.zone)
	if k == nil || k.policy == nil {
		return nil
	}
	if now := questionOf(q.zone, &k.state); !now.awaits || now.awaited != q.awaited {
		return nil // it was asked for something else
	}
	next := *k
	next.state = next.state.Clone()
	policy := *k.policy
	policy.ParentTTL = max(policy.ParentTTL, v.TTL)
	var news []string
	var err error
	why := fmt.Sprintf("every name server of %s has it, with a TTL of %s", strings.TrimSuffix(look.Parent, "."), v.TTL)
	if q.awaited == "" {
		why = fmt.Sprintf("no name server of %s has any", strings.TrimSuffix(look.Parent, "."))
		news, err = next.state.ForgetDS(&policy)
	} else {
		news, err = next.state.DSSeen(c.wallNow(), &policy)
	}
	if err != nil {
		return err
	}
	if err := c.writeZoneKeys(ctx, &next, nil, "control", why, news); err != nil {
		return err
	}
	return c.handOutKeys(ctx)
}

// view is the newest look at the parent of a zone; nil: it was not asked.
func (p *parents) view(zone string) *api.ParentLook {
	p.mu.Lock()
	defer p.mu.Unlock()
	look, asked := p.looks[zone]
	if !asked {
		return nil
	}
	out := &api.ParentLook{Zone: strings.TrimSuffix(look.Parent, "."), Asked: look.wall, Servers: []api.ParentServer{}}
	if look.Err != nil {
		out.Error = look.Err.Error()
	}
	for i := range look.Servers {
		s := &look.Servers[i]
		one := api.ParentServer{Name: strings.TrimSuffix(s.Name, "."), DS: append([]string{}, s.DS...), TTLSeconds: s.TTL.Seconds(), Wanted: s.Err == nil && (look.awaited == "" && len(s.DS) == 0 || slices.ContainsFunc(s.DS, func(ds string) bool { return slices.Contains(look.forms, ds) }))}
		if s.Address.IsValid() {
			one.Address = s.Address.String()
		}
		if s.Err != nil {
			one.Error = s.Err.Error()
		}
		out.Servers = append(out.Servers, one)
	}
	return out
}

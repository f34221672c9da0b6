package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"steerpoint/control/internal/issue"
	"steerpoint/control/internal/roster"
	"steerpoint/internal/dnsupdate"
	"steerpoint/internal/hidden"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

const (
	// proofTTL is that of TXT records that prove names, in seconds: as short as resolvers of authorities keep what they were told.
	proofTTL = 60
	// proofWait bounds how long it is waited for gateways and name servers to have a proof.
	proofWait = time.Minute
	// laggardWait bounds how long a proof waits for gateways elsewhere. One that lags longer may have the authority find no
	// proof: then it is tried again.
	laggardWait = 15 * time.Second
	// withdrawWait bounds how long it is tried to take proofs away; what stays is tried again.
	withdrawWait  = 20 * time.Second
	withdrawAgain = time.Minute
)

// proofs are what gateways answer to authorities. The lock of orders guards them.
type proofs struct {
	answers map[string][]snapshot.EdgeChallenge // by certificate
	turn    uint64                              // grows with each change
	shown   uint64                              // the turn that gateways have
	news    chan struct{}                       // closed when shown grows
	again   map[string]time.Time                // when it is tried again to take proofs of a certificate away
}

func (p *proofs) init() {
	p.answers, p.news, p.again = map[string][]snapshot.EdgeChallenge{}, make(chan struct{}), map[string]time.Time{}
}

// challenges are what gateways are to answer, and the turn of it.
func (o *orders) challenges() (out []snapshot.EdgeChallenge, turn uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.answers)) {
		out = append(out, o.answers[name]...)
	}
	return out, o.turn
}

// published notes that gateways have the challenges of a turn.
func (o *orders) published(turn uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if turn > o.shown {
		o.shown = turn
		close(o.news)
		o.news = make(chan struct{})
	}
}

// answer has gateways answer these for a certificate, and nothing else; it gives the turn of that.
func (o *orders) answer(name string, list []snapshot.EdgeChallenge) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(list) == 0 && len(o.answers[name]) == 0 {
		return 0 // as it was
	}
	o.answers[name] = list
	if len(list) == 0 {
		delete(o.answers, name)
	}
	o.turn++
	return o.turn
}

// awaitShown returns when gateways have the challenges of a turn.
func (o *orders) awaitShown(ctx context.Context, turn uint64) error {
	for {
		o.mu.Lock()
		shown, news := o.shown, o.news
		o.mu.Unlock()
		if shown >= turn {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return &issue.Local{
				Err: errors.New("no gateway has taken what it is to answer for the proof"),
				Do:  "have a gateway listen for http (steer up --listen http=:80), or put the domain into a Zone of ours, where dns-01 proves it",
			}
		}
	}
}

// awaitGateways returns when every gateway elsewhere that is connected works by the newest snapshot, or has lagged for too long.
func (c *Control) awaitGateways(ctx context.Context) {
	newest, _ := c.gateways.latest()
	ctx, cancel := context.WithTimeout(ctx, laggardWait)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !c.gatewaysUse(newest) {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// gatewaysUse reports whether every connected gateway elsewhere works by a version of the snapshot or a newer one.
func (c *Control) gatewaysUse(version uint64) bool {
	return !slices.ContainsFunc(c.roster.Views(c.clock.Moment()), func(v roster.View) bool {
		return v.Has(roster.RoleEdge) && v.Connected && v.Edge.Using < version
	})
}

// prover shows the proofs of one certificate.
type prover struct {
	c   *Control
	set *spec.Set
	w   *spec.Certificate
}

// Kind is how the certificate, or else where the name lies, says.
func (p *prover) Kind(name string, wildcard bool) string {
	if wildcard {
		name = "*." + name
	}
	return p.set.ChallengeFor(p.w.ACME, spec.Domain(strings.ToLower(name)))
}

// Show notes what is shown before it is, so that it is taken away after a kill too.
func (p *prover) Show(ctx context.Context, list []issue.Proof) error {
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	var answers []snapshot.EdgeChallenge
	var records []issue.Proof
	for _, one := range list {
		if !p.asked(one.Name) {
			return &issue.DeadOrder{Err: fmt.Errorf("the authority wants %s proved, which is none of the names that were ordered", one.Name)}
		}
		if one.Kind == spec.DNS01 {
			records = append(records, one)
			continue
		}
		answers = append(answers, snapshot.EdgeChallenge{Host: one.Name, Token: one.Token, Value: one.Value})
	}
	if len(records) > 0 {
		if err := p.note(ctx, records); err != nil {
			return err
		}
		if err := p.c.proofRecords(ctx, p.set, p.w.Name, records, true); err != nil {
			return err
		}
	}
	if len(answers) == 0 {
		return nil
	}
	turn := p.c.orders.answer(p.w.Name, answers)
	p.c.edges.mark()
	if err := p.c.orders.awaitShown(ctx, turn); err != nil {
		return err
	}
	p.c.awaitGateways(ctx)
	return nil
}

// asked reports whether a name was ordered, or lies above one that was, which an authority may ask for (RFC 8555 section 7.1.3).
// Nothing else is said for an authority, whatever it wants.
func (p *prover) asked(name string) bool {
	return slices.ContainsFunc(orderedNames(p.w), func(n string) bool { return n == name || strings.HasSuffix(n, "."+name) })
}

// note keeps which records there are.
func (p *prover) note(ctx context.Context, records []issue.Proof) error {
	return p.c.changeOrder(ctx, p.w.Name, nil, func(s *orderState, _ map[string]hidden.Text) bool {
		for _, r := range records {
			if !slices.Contains(s.Proofs, r) {
				s.Proofs = append(s.Proofs, r)
			}
		}
		return false
	})
}

// withdraw takes the proofs away, unless the process is about to end: then the order goes on after the next start, and ends with
// it.
func (p *prover) withdraw(try context.Context) {
	if errors.Is(context.Cause(try), context.Canceled) {
		return
	}
	if p.c.orders.answer(p.w.Name, nil) != 0 {
		p.c.edges.mark()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(try), withdrawWait)
	defer cancel()
	p.c.withdrawRecords(ctx, p.set, p.w.Name)
}

// withdrawRecords takes the records of a certificate away. What cannot be taken away now is tried again.
func (c *Control) withdrawRecords(ctx context.Context, set *spec.Set, name string) {
	x := c.orders.get(name)
	if x == nil || len(x.state.Proofs) == 0 {
		return
	}
	gone := x.state.Proofs
	err := c.proofRecords(ctx, set, name, gone, false)
	if err == nil {
		err = c.changeOrder(ctx, name, nil, func(s *orderState, _ map[string]hidden.Text) bool {
			s.Proofs = slices.DeleteFunc(s.Proofs, func(r issue.Proof) bool { return slices.Contains(gone, r) })
			return false
		})
	}
	if err == nil {
		return
	}
	c.log.WarnContext(ctx, "records that proved names are not taken away yet: it is tried again", "certificate", name, "error", err)
	c.orders.mu.Lock()
	c.orders.again[name] = c.wallNow().Add(withdrawAgain)
	c.orders.mu.Unlock()
}

// tidy takes away what a certificate that is not worked on left, and, with drop, all that is kept of it.
func (c *Control) tidy(ctx context.Context, set *spec.Set, x *order, drop bool) {
	name := x.record.Name
	ctx, cancel := context.WithTimeout(ctx, withdrawWait)
	defer cancel()
	c.withdrawRecords(ctx, set, name)
	if x = c.orders.get(name); !drop || x == nil || len(x.state.Proofs) > 0 || !x.forgotten(c.wallNow()) {
		return
	}
	o := &c.orders
	if o.gate.enter(ctx) != nil {
		return // tried again
	}
	defer o.gate.leave()
	if err := c.store.DropACME(ctx, false, &x.record); err != nil {
		c.log.WarnContext(ctx, "what is kept of a certificate cannot be forgotten yet", "certificate", name, "error", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.kept, name)
	delete(o.windows, name)
}

// proofRecords writes TXT records that prove names, or takes them away, and returns when the name servers that are connected
// answer by it.
func (c *Control) proofRecords(ctx context.Context, set *spec.Set, certificate string, list []issue.Proof, show bool) error {
	byZone := map[string][]issue.Proof{}
	for _, p := range list {
		z := set.HostingZone(p.Name)
		if z == nil && show {
			return &issue.Local{
				Err: fmt.Errorf("no Zone here holds %s, so that it cannot be proved by dns-01", p.Name),
				Do:  "write challenge: http-01, or a Zone that holds it",
			}
		}
		if z != nil {
			byZone[string(z.Zone)] = append(byZone[string(z.Zone)], p)
		}
	}
	var newest int64
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		revision, err := c.writeProofs(ctx, zone, certificate, byZone[zone], show)
		if fault, ok := errors.AsType[*dnsupdate.Fault](err); ok {
			return &issue.Local{Err: fmt.Errorf("zone %s: %s", zone, fault.Why), Do: "take away what stands at _acme-challenge, or write challenge: http-01"}
		}
		if err != nil {
			return err
		}
		newest = max(newest, revision)
	}
	if newest == 0 || !show {
		return nil
	}
	if err := c.awaitAnswers(ctx, newest); err != nil {
		return &issue.Local{Err: err, Do: "the authority is asked when all that are connected answer by it; see why that one does not"}
	}
	return nil
}

// writeProofs writes the records of one zone and gives the revision that has them.
func (c *Control) writeProofs(ctx context.Context, zone, certificate string, list []issue.Proof, show bool) (int64, error) {
	verb := "taken away"
	if show {
		verb = "written"
	}
	reason := fmt.Sprintf("proofs of the names of certificate %s %s", certificate, verb)
	return c.writeDynamic(ctx, func() (*change, error) {
		view, err := c.store.Resources(ctx)
		if err != nil {
			return nil, err
		}
		stored, set := c.index(view)
		z := openUpdateZone(set, zone)
		if z == nil {
			return nil, nil // and its records with it
		}
		changes, err := z.proofs(list, show)
		if err != nil || len(changes) == 0 {
			return nil, err
		}
		return z.change(stored, changes, "control", reason)
	})
}

// proofs are the changes of TXT records that proofs come to. Others at the same name stay: a name and its wildcard are proved at
// one.
func (z *updateZone) proofs(list []issue.Proof, show bool) ([]dnsupdate.Change, error) {
	texts := map[string][]string{}
	for _, p := range list {
		data, err := dnsupdate.Data(dnsupdate.TypeTXT, strconv.Quote(p.Value))
		if err != nil {
			return nil, fmt.Errorf("proof of %s: %w", p.Name, err)
		}
		owner := "_acme-challenge." + p.Name + "."
		texts[owner] = append(texts[owner], data)
	}
	var out []dnsupdate.Change
	for _, owner := range slices.Sorted(maps.Keys(texts)) {
		set := dnsupdate.Set{Type: dnsupdate.TypeTXT, TTL: proofTTL}
		sets := z.Sets(owner)
		if i := slices.IndexFunc(sets, func(s dnsupdate.Set) bool { return s.Type == dnsupdate.TypeTXT }); i >= 0 {
			set.Data, set.Fixed, set.Why = slices.Clone(sets[i].Data), sets[i].Fixed, sets[i].Why
		}
		if set.Fixed {
			if !show {
				continue
			}
			return nil, &dnsupdate.Fault{Rcode: dnsupdate.Refused, Why: "TXT records of " + owner + " are not changed: " + set.Why}
		}
		before := len(set.Data)
		for _, text := range texts[owner] {
			at := slices.Index(set.Data, text)
			switch {
			case show && at < 0:
				set.Data = append(set.Data, text)
			case !show && at >= 0:
				set.Data = slices.Delete(set.Data, at, at+1)
			}
		}
		if len(set.Data) != before {
			out = append(out, dnsupdate.Change{Name: owner, Set: set})
		}
	}
	return out, nil
}

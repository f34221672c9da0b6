package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/internal/dnsupdate"
	"steerpoint/report"
	"steerpoint/spec"
)

const (
	// updateWait bounds how long the sender of an update waits: for those before it, for the store, and for the name servers
	// that are to answer by it. Clients wait for 10 s and more, or send the same again, which is taken for the same.
	updateWait = 7 * time.Second
	// updateTries is how often an update is worked out anew when somebody else wrote the records meanwhile.
	updateTries = 4
	// rememberedUpdates is how many updates are remembered, so that one that comes again is answered as before.
	rememberedUpdates = 1024
	// maxUpdates is how many may be under way; those beyond it are to be sent again.
	maxUpdates = 64
	// maxDynamic is how many record sets updates may write into a zone, as the resource's own limit is.
	maxDynamic = 10_000
)

// updates are the DNS UPDATE messages of late.
type updates struct {
	one gate // one is worked out and written at a time

	mu    sync.Mutex
	calls map[string]*updateCall // by ID
	order []string               // of those that are done, the oldest first
}

// updateCall is one message, whoever waits for its result.
type updateCall struct {
	done   chan struct{}
	result report.UpdateResult // set before done is closed
}

func (u *updates) init() { u.one, u.calls = make(gate, 1), map[string]*updateCall{} }

// begin gives the call of a message, and whether it is new; nil: there are too many.
func (u *updates) begin(id string) (call *updateCall, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if call = u.calls[id]; call != nil {
		return call, false
	}
	if len(u.calls)-len(u.order) >= maxUpdates {
		return nil, false
	}
	call = &updateCall{done: make(chan struct{})}
	u.calls[id] = call
	return call, true
}

// end notes the result. What passes is not remembered: the same message may do better later.
func (u *updates) end(id string, call *updateCall, result report.UpdateResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	call.result = result
	close(call.done)
	if result.Rcode == dnsupdate.ServerFailure {
		delete(u.calls, id)
		return
	}
	if u.order = append(u.order, id); len(u.order) > rememberedUpdates {
		delete(u.calls, u.order[0])
		u.order = u.order[1:]
	}
}

// Update does what a DNS UPDATE says that a name server took, node or the one in this process, and returns when the name
// servers that are connected answer by it. What it writes are the DynamicRecords of the zone, beside its Zone.
func (c *Control) Update(ctx context.Context, node string, u report.Update) (report.UpdateResult, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.deps.updateWait, updateWait))
	defer cancel()
	call, first := c.updates.begin(u.ID)
	switch {
	case call == nil:
		return updateFailed("more than %d updates are under way", maxUpdates), nil
	case !first:
		select {
		case <-call.done:
			return call.result, nil
		case <-ctx.Done():
			return updateFailed("the same message is still being worked on"), nil
		}
	}
	result := updateFailed("control failed on it")
	defer func() { c.updates.end(u.ID, call, result) }()
	result = c.update(ctx, node, &u)
	c.metrics.updates.WithLabelValues(dnsupdate.RcodeText(result.Rcode)).Inc()
	c.log.Info("DNS UPDATE", "zone", u.Zone, "key", u.Key, "client", u.Client, "node", node,
		"rcode", dnsupdate.RcodeText(result.Rcode), "reason", result.Reason)
	return result, nil
}

func updateFailed(format string, args ...any) report.UpdateResult {
	return report.UpdateResult{Rcode: dnsupdate.ServerFailure, Reason: fmt.Sprintf(format, args...)}
}

// update works one message out, writes it and waits for name servers.
func (c *Control) update(ctx context.Context, node string, u *report.Update) report.UpdateResult {
	parsed, err := dnsupdate.Parse(u.Message)
	if err != nil {
		return updateRefused(err)
	}
	if parsed.Zone != u.Zone {
		return report.UpdateResult{Rcode: dnsupdate.FormatError, Reason: "the message is about another zone than it was signed for"}
	}
	revision, err := c.writeUpdate(ctx, node, u, parsed)
	if err != nil {
		return updateRefused(err)
	}
	if err := c.awaitAnswers(ctx, revision); err != nil {
		return updateFailed("%v", err)
	}
	return report.UpdateResult{Rcode: dnsupdate.Success}
}

// updateRefused is what the client is told of an error.
func updateRefused(err error) report.UpdateResult {
	if f, ok := errors.AsType[*dnsupdate.Fault](err); ok {
		return report.UpdateResult{Rcode: f.Rcode, Reason: f.Why}
	}
	p := asProblem(err)
	if p.Code == api.CodeInvalid {
		why := p.Detail
		if len(p.Errors) > 0 {
			why = p.Errors[0].Message
		}
		return report.UpdateResult{Rcode: dnsupdate.Refused, Reason: why}
	}
	return updateFailed("%s: %s", p.Title, p.Detail)
}

// writeUpdate writes what the message comes to and gives the revision that name servers are to answer by. What somebody else
// writes meanwhile is met by working it out anew.
func (c *Control) writeUpdate(ctx context.Context, node string, u *report.Update, parsed *dnsupdate.Update) (int64, error) {
	return c.writeDynamic(ctx, func() (*change, error) { return c.changeOf(ctx, node, u, parsed) })
}

// writeDynamic writes a change of dynamic records that is worked out by work, which gives nil when nothing changes.
func (c *Control) writeDynamic(ctx context.Context, work func() (*change, error)) (int64, error) {
	if err := c.updates.one.enter(ctx); err != nil {
		return 0, err
	}
	defer c.updates.one.leave()
	for try := 1; ; try++ {
		ch, err := work()
		if err != nil {
			return 0, err
		}
		if ch == nil {
			return c.applied.get(), nil
		}
		p, err := c.commit(ctx, ch)
		switch {
		case err == nil && p.plan.Revision == 0:
			return c.applied.get(), nil
		case err == nil:
			return p.plan.Revision, nil
		case asProblem(err).Status != http.StatusPreconditionFailed || try == updateTries:
			return 0, err
		}
	}
}

// changeOf is the change of resources that an update comes to now; nil: nothing changes.
func (c *Control) changeOf(ctx context.Context, node string, u *report.Update, parsed *dnsupdate.Update) (*change, error) {
	view, err := c.store.Resources(ctx)
	if err != nil {
		return nil, err
	}
	stored, set := c.index(view)
	z, err := newUpdateZone(set, u)
	if err != nil {
		return nil, err
	}
	changes, err := parsed.Apply(z)
	if err != nil || len(changes) == 0 {
		return nil, err
	}
	return z.change(stored, changes, "key "+strings.TrimSuffix(u.Key, "."),
		printable(fmt.Sprintf("DNS UPDATE from %s at name server %s: %s", u.Client, node, dnsupdate.Words(changes)), maxUpdateReason))
}

// change is the change of resources that changes of record sets come to.
func (z *updateZone) change(stored map[string]store.Resource, changes []dnsupdate.Change, actor, reason string) (*change, error) {
	doc := z.document(changes)
	ch := &change{actor: actor, reason: reason, expect: map[string]int64{doc.Key(): stored[doc.Key()].Revision}}
	if len(doc.DynamicRecords.Records) == 0 {
		ch.remove = []string{doc.Key()}
		return ch, nil
	}
	if n := len(doc.DynamicRecords.Records); n > maxDynamic {
		return nil, &dnsupdate.Fault{Rcode: dnsupdate.Refused, Why: fmt.Sprintf("updates would have written %d record sets into the zone: at most %d are kept", n, maxDynamic)}
	}
	b, err := doc.JSON(spec.Minimal)
	if err != nil {
		return nil, err
	}
	docs, errs := spec.Parse("", b) // the same door as a file
	if len(errs) > 0 {
		return nil, invalid(errs)
	}
	ch.docs = docs
	return ch, z.unserved(z.set.With(docs...), changes)
}

// maxUpdateReason bounds what the audit trail says of an update, in octets.
const maxUpdateReason = 500

// updateZone is a zone as an update meets it.
type updateZone struct {
	set     *spec.Set
	zone    *spec.Zone
	grant   *spec.UpdateGrant
	dynamic *spec.DynamicRecords // never nil
	static  map[string][]*spec.Record
}

// newUpdateZone finds the zone, and by what its holder may change it.
func newUpdateZone(set *spec.Set, u *report.Update) (*updateZone, error) {
	name := strings.TrimSuffix(u.Zone, ".")
	z := openUpdateZone(set, name)
	if z == nil {
		return nil, &dnsupdate.Fault{Rcode: dnsupdate.NotAuth, Why: "there is no zone " + name}
	}
	key := strings.TrimSuffix(u.Key, ".")
	client, _ := netip.ParseAddr(u.Client)
	for i := range z.zone.Update {
		g := &z.zone.Update[i]
		if string(g.TSIGKey) == key && (!g.Prefix.IsValid() || g.Prefix.Contains(client.Unmap())) {
			z.grant = g
		}
	}
	if z.grant == nil {
		return nil, &dnsupdate.Fault{Rcode: dnsupdate.Refused, Why: "the update section of Zone " + z.zone.Name + " does not let key " + key + " change anything from that address"}
	}
	return z, nil
}

// openUpdateZone finds the zone of a name, for who may change anything in it; nil: there is none.
func openUpdateZone(set *spec.Set, name string) *updateZone {
	i := slices.IndexFunc(set.Zones(), func(z *spec.Zone) bool { return string(z.Zone) == name })
	if i < 0 {
		return nil
	}
	z := &updateZone{set: set, zone: set.Zones()[i], static: map[string][]*spec.Record{}}
	if z.dynamic = set.Dynamic(z.zone); z.dynamic == nil {
		z.dynamic = &spec.DynamicRecords{Name: z.zone.Name}
	}
	for i := range z.zone.Records {
		if owner, err := z.zone.Owner(&z.zone.Records[i]); err == nil {
			z.static[owner] = append(z.static[owner], &z.zone.Records[i])
		}
	}
	return z
}

// May says why the key may not change records of a type at a name; nil: it may.
func (z *updateZone) May(name string, rrType uint16) error {
	relative, ok := z.zone.RelativeName(name)
	if !ok {
		return fmt.Errorf("%s is no name that records of this zone can have", name)
	}
	if rrType == dnsupdate.TypeANY {
		if !z.grant.CoversName(relative) {
			return fmt.Errorf("the key may not change the name %s", name)
		}
		return nil
	}
	t, ok := spec.TypeName(rrType)
	switch {
	case !ok:
		return fmt.Errorf("%s records are not changed by updates", dnsupdate.TypeText(rrType))
	case !z.grant.Covers(relative, t):
		return fmt.Errorf("the key may not change %s records of %s", t, name)
	}
	return nil
}

// Sets are the record sets at a name.
func (z *updateZone) Sets(name string) (sets []dnsupdate.Set) {
	owner := strings.TrimSuffix(name, ".")
	fixed := func(rrType uint16, why string, data ...string) {
		if !slices.ContainsFunc(sets, func(s dnsupdate.Set) bool { return s.Type == rrType }) {
			sets = append(sets, dnsupdate.Set{Type: rrType, Data: data, Fixed: true, Why: why})
		}
	}
	if owner == string(z.zone.Zone) {
		var servers []string
		for _, ns := range z.zone.NS {
			servers = append(servers, string(ns.Name)+".")
		}
		fixed(dnsupdate.TypeSOA, "they are the zone's own")
		fixed(dnsupdate.TypeNS, "they are the zone's own", servers...)
	}
	for _, r := range z.static[owner] {
		z.fixRecord(fixed, r)
	}
	for _, ns := range z.zone.NS {
		if string(ns.Name) == owner && len(ns.Addresses) > 0 {
			fixed(dnsupdate.TypeA, "the name is a name server")
			fixed(dnsupdate.TypeAAAA, "the name is a name server")
		}
	}
	if v, named := z.set.Answers(owner); v != nil {
		why := "Service " + v.Name + " answers there"
		if named {
			fixed(dnsupdate.TypeCNAME, why)
		} else {
			fixed(dnsupdate.TypeA, why)
			fixed(dnsupdate.TypeAAAA, why)
		}
	}
	for i := range z.dynamic.Records {
		r := &z.dynamic.Records[i]
		if at, err := z.zone.Owner(r); err != nil || at != owner {
			continue
		}
		if number, data := recordSet(r); !slices.ContainsFunc(sets, func(s dnsupdate.Set) bool { return s.Type == number }) {
			sets = append(sets, dnsupdate.Set{Type: number, TTL: uint32(time.Duration(r.TTL).Seconds()), Data: data})
		}
	}
	return sets
}

// fixRecord adds a record set of the Zone.
func (z *updateZone) fixRecord(fixed func(rrType uint16, why string, data ...string), r *spec.Record) {
	const why = "they stand in the Zone's own records"
	if r.Type == spec.Alias {
		fixed(dnsupdate.TypeA, why)
		fixed(dnsupdate.TypeAAAA, why)
		return
	}
	number, data := recordSet(r)
	fixed(number, why, data...)
}

// recordSet is the number of a record set's type, and its data in the form that updates compare.
func recordSet(r *spec.Record) (number uint16, data []string) {
	number = r.Type.Number()
	for _, v := range r.Values {
		if text, err := dnsupdate.Data(number, v); err == nil {
			data = append(data, text)
		}
	}
	return number, data
}

// document is the resource after the changes.
func (z *updateZone) document(changes []dnsupdate.Change) spec.Resource {
	records := slices.Clone(z.dynamic.Records)
	for i := range changes {
		name, _ := z.zone.RelativeName(changes[i].Name) // asked by May
		t, _ := spec.TypeName(changes[i].Type)
		at := slices.IndexFunc(records, func(r spec.Record) bool {
			owner, err := z.zone.Owner(&r)
			return err == nil && owner+"." == changes[i].Name && r.Type == t
		})
		made := spec.Record{Name: name, Type: t, TTL: spec.Duration(time.Duration(changes[i].TTL) * time.Second), Values: changes[i].Data}
		switch {
		case at < 0 && len(made.Values) > 0:
			records = append(records, made)
		case at >= 0 && len(made.Values) > 0:
			records[at] = made
		case at >= 0:
			records = slices.Delete(records, at, at+1)
		}
	}
	slices.SortFunc(records, func(a, b spec.Record) int { return strings.Compare(a.Key(), b.Key()) })
	doc := spec.Resource{Kind: spec.KindDynamicRecords, Name: z.zone.Name, DynamicRecords: &spec.DynamicRecords{Name: z.zone.Name, Records: records}}
	if now, ok := z.set.Get(doc.Kind, doc.Name); ok {
		doc.Labels = now.Labels
	}
	return doc
}

// unserved refuses an update that would write what cannot be served.
func (z *updateZone) unserved(next *spec.Set, changes []dnsupdate.Change) error {
	d := next.Dynamic(z.zone)
	_, left := next.Served(z.zone)
	for _, l := range left {
		r := &d.Records[l.Record]
		owner, _ := z.zone.Owner(r)
		for i := range changes {
			if changes[i].Name == owner+"." && changes[i].Type == r.Type.Number() {
				return &dnsupdate.Fault{Rcode: dnsupdate.Refused, Why: fmt.Sprintf("%s records of %s could not be served: %s", r.Type, owner, l.Why)}
			}
		}
	}
	return nil
}

// awaitAnswers returns when every name server that is connected answers by the resources of a revision.
func (c *Control) awaitAnswers(ctx context.Context, revision int64) error {
	version, err := c.shown.wait(ctx, revision)
	if err != nil {
		return errors.New("the change is written, and no map with it was handed out in time: see the alarms of control")
	}
	for {
		missing, news := c.rollout.Missing(version, c.roster.Audience().Names)
		if len(missing) == 0 {
			return nil
		}
		retry := time.NewTimer(100 * time.Millisecond) // who leaves is not told here
		select {
		case <-news:
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return fmt.Errorf("the change is written, and these name servers do not answer by it yet: %s", strings.Join(missing[:min(len(missing), maxNamed)], ", "))
		}
		retry.Stop()
	}
}

// shownRevision is by which map the resources up to a revision are answered.
type shownRevision struct {
	mu       sync.Mutex
	revision int64
	version  uint64
	news     chan struct{}
}

func (s *shownRevision) init() { s.news = make(chan struct{}) }

// set notes that a map was handed out that was made of the resources up to a revision.
func (s *shownRevision) set(revision int64, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.version = max(s.revision, revision), version
	close(s.news)
	s.news = make(chan struct{})
}

// wait gives the version of a map that has the resources up to a revision, as soon as there is one.
func (s *shownRevision) wait(ctx context.Context, revision int64) (uint64, error) {
	for {
		s.mu.Lock()
		have, version, news := s.revision, s.version, s.news
		s.mu.Unlock()
		if have >= revision {
			return version, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// servedZones keeps zones with their dynamic records from one configuration to the next, so that one that did not change is
// the same pointer. The loop owns it.
type servedZones struct {
	of   *spec.Set
	list []*spec.Zone
	by   map[string]servedZone // by name of the Zone
}

type servedZone struct {
	zone    *spec.Zone
	dynamic *spec.DynamicRecords
	left    []spec.Unserved
	out     *spec.Zone
}

// servedZones are the zones as they are served. It runs in the loop, or before it.
func (c *Control) servedZones(set *spec.Set) []*spec.Zone {
	if c.served.of == set {
		return c.served.list
	}
	next := servedZones{of: set, list: slices.Clone(set.Zones()), by: map[string]servedZone{}}
	for i, z := range next.list {
		d := set.Dynamic(z)
		if d == nil {
			continue
		}
		now := servedZone{zone: z, dynamic: d}
		now.out, now.left = set.Served(z)
		if was := c.served.by[z.Name]; was.zone == z && was.dynamic == d && slices.Equal(was.left, now.left) {
			now.out = was.out
		}
		next.by[z.Name], next.list[i] = now, now.out
		c.tellUnserved(z, d, now.left)
	}
	for name := range c.served.by {
		if _, ok := next.by[name]; !ok {
			c.alarms.set(api.AlarmResource, string(spec.KindDynamicRecords)+"/"+name, false, "")
		}
	}
	c.served = next
	return next.list
}

func (c *Control) tellUnserved(z *spec.Zone, d *spec.DynamicRecords, left []spec.Unserved) {
	var lines []string
	for _, u := range left[:min(len(left), maxNamed)] {
		lines = append(lines, fmt.Sprintf("%s %s (%s)", d.Records[u.Record].Name, d.Records[u.Record].Type, u.Why))
	}
	c.alarms.set(api.AlarmResource, string(spec.KindDynamicRecords)+"/"+z.Name, len(left) > 0,
		fmt.Sprintf("%d record sets that updates wrote into zone %s are not served: %s", len(left), z.Zone, strings.Join(lines, "; ")))
}

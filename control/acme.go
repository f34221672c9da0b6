package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/control/internal/issue"
	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

// ACMEConfig is how certificates are ordered for domains that say auto. The zero value of each field means the default.
type ACMEConfig struct {
	Directory string // URL of the authority's directory; "": Let's Encrypt
	Email     string // that the authority may write to; "": none
	Roots     string // certificates in PEM form that sign the authority's own; "": those of the system
}

const (
	// ordersEvery is how often it is looked at what is due.
	ordersEvery = time.Second
	// maxOrders is how many orders are under way at once: authorities count the orders of an account.
	maxOrders = 4
	// orderTimeout bounds one try of an order. It goes on where it was with the next one.
	orderTimeout = 10 * time.Minute
	// renewalFirst is how soon after a failure renewal information is asked for again.
	renewalFirst = time.Hour
	// leastUse is how long a certificate is used at least, or for a third of its life: an authority that always says "now", or whose
	// clock is months away from ours, must not be asked without end.
	leastUse = 12 * time.Hour
	// forgottenAfter is how long what is kept of a certificate outlives it in the configuration, beyond its end: a roll-back brings
	// it back as it was.
	forgottenAfter = 24 * time.Hour
)

// orders are the certificates that control orders, with what is kept of them. What is stored is what holds: memory follows a
// write.
type orders struct {
	gate     gate // one write at a time
	accounts gate // one registration at a time

	mu      sync.Mutex // guards what follows; records in the maps are not changed
	wanted  map[string]*spec.Certificate
	kept    map[string]*order
	account map[string]*account
	working map[string]bool
	windows map[string]issue.Window // as they were told last, of certificates by name
	trouble string                  // why nothing can be ordered now
	proofs
}

// order is what is kept of one certificate.
type order struct {
	record store.ACMERecord
	state  orderState
	sealed *seal.Sealed // orderKey and nextKey, as far as there are; nil: neither
}

// The values that are sealed of a certificate.
const (
	orderKey = "key"  // of the certificate in use
	nextKey  = "next" // of the order under way
)

// orderState may be shown.
type orderState struct {
	// Spec tells what was ordered from what is written now.
	Spec      string    `json:"spec,omitempty"`
	ChainOf   string    `json:"chainOf,omitempty"` // the same of the certificate that there is
	Chain     string    `json:"chain,omitempty"`   // PEM; "": there is none yet
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	Renew     time.Time `json:"renew,omitzero"`  // when it is due to be renewed
	Issued    time.Time `json:"issued,omitzero"` // by our clock

	Order   string        `json:"order,omitempty"`   // URL of the one under way
	Account string        `json:"account,omitempty"` // of that order
	Proofs  []issue.Proof `json:"proofs,omitempty"`  // that were shown, and are to be taken away

	Failures int       `json:"failures,omitempty"` // in a row
	Failed   time.Time `json:"failed,omitzero"`
	Next     time.Time `json:"next,omitzero"` // not before
	Reason   string    `json:"reason,omitempty"`
	Error    string    `json:"error,omitempty"`
	Do       string    `json:"do,omitempty"`
}

// account is an account with an authority.
type account struct {
	record store.ACMERecord
	state  accountState
	sealed *seal.Sealed
}

type accountState struct {
	Directory string `json:"directory"`
	Email     string `json:"email,omitempty"`
	EABKeyID  string `json:"eabKeyID,omitempty"`
	URL       string `json:"url,omitempty"` // "": not registered yet
}

func orderPlace(name string) seal.Place   { return seal.Place{Kind: "ACMEOrder", Name: name} }
func accountPlace(name string) seal.Place { return seal.Place{Kind: "ACMEAccount", Name: name} }

// openOrders loads what is kept.
func (c *Control) openOrders(ctx context.Context) error {
	o := &c.orders
	o.gate, o.accounts = make(gate, 1), make(gate, 1)
	o.working, o.windows = map[string]bool{}, map[string]issue.Window{}
	o.proofs.init()
	return c.loadOrders(ctx)
}

func (c *Control) loadOrders(ctx context.Context) error {
	kept, accounts := map[string]*order{}, map[string]*account{}
	records, err := c.store.ACMERecords(ctx, false)
	if err != nil {
		return err
	}
	for _, r := range records {
		x := &order{record: r}
		if x.sealed, err = readRecord(&r, &x.state); err != nil {
			return fmt.Errorf("certificate %s: %w", r.Name, err)
		}
		kept[r.Name] = x
	}
	if records, err = c.store.ACMERecords(ctx, true); err != nil {
		return err
	}
	for _, r := range records {
		x := &account{record: r}
		if x.sealed, err = readRecord(&r, &x.state); err != nil {
			return fmt.Errorf("ACME account %s: %w", r.Name, err)
		}
		accounts[r.Name] = x
	}
	if len(kept)+len(accounts) > 0 {
		c.secrets.needed.Store(true)
	}
	c.orders.mu.Lock()
	defer c.orders.mu.Unlock()
	c.orders.kept, c.orders.account = kept, accounts
	return nil
}

func readRecord(r *store.ACMERecord, state any) (*seal.Sealed, error) {
	if err := json.Unmarshal(r.State, state); err != nil {
		return nil, err
	}
	if len(r.Sealed) == 0 {
		return nil, nil
	}
	sealed := new(seal.Sealed)
	if err := json.Unmarshal(r.Sealed, sealed); err != nil {
		return nil, err
	}
	return sealed, nil
}

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
	case c.sealLost(x.sealed), x.state.Chain == "", x.state.ChainOf != specOf(w), x.state.Order != "", !now.Before(x.renewAt(window)):
		if x.state.Failures == 0 || !now.Before(x.state.Next) || x.state.Next.Sub(now) > longestTry { // the clock was set back
			return orderDue
		}
		return nothingDue
	case !asked || !now.Before(window.Again):
		return renewalDue
	}
	return nothingDue
}

// longestTry is longer than any wait for the next try.
const longestTry = 48 * time.Hour

// renewAt is when a certificate is renewed: when it is due by what is written, or before, when its authority wants it.
func (x *order) renewAt(w issue.Window) time.Time {
	at := x.state.Renew
	if !w.At.IsZero() && w.At.Before(at) {
		at = w.At
	}
	if least := x.state.Issued.Add(min(leastUse, x.state.NotAfter.Sub(x.state.NotBefore)/3)); at.Before(least) {
		return least
	}
	return at
}

// sealLost reports whether keys that are sealed cannot be opened any more, such as after a restore without the sealing key.
func (c *Control) sealLost(sealed *seal.Sealed) bool {
	if sealed == nil || len(sealed.Values) == 0 {
		return false
	}
	keys, err := c.secrets.usable()
	return err == nil && !keys.Has(sealed.Master)
}

// change writes one record anew: f changes its state and its values, and says whether values changed. Values that do not open any
// more are gone.
func (c *Control) changeOrder(ctx context.Context, name string, audit []store.Audit, f func(s *orderState, values map[string]hidden.Text) (sealed bool)) error {
	o := &c.orders
	if err := o.gate.enter(ctx); err != nil {
		return err
	}
	defer o.gate.leave()
	next := order{record: store.ACMERecord{Name: name}}
	if x := o.get(name); x != nil {
		next = *x
		next.state.Proofs = slices.Clone(x.state.Proofs)
	}
	values := map[string]hidden.Text{}
	if next.sealed != nil {
		keys, err := c.secrets.opening()
		if err != nil {
			return err
		}
		for v := range next.sealed.Values {
			text, err := keys.Open(orderPlace(name), next.sealed, v)
			switch {
			case errors.Is(err, seal.ErrNoKey) && c.sealLost(next.sealed):
			case err != nil:
				return fmt.Errorf("key of certificate %s: %w", name, err)
			default:
				values[v] = text
			}
		}
		if len(values) < len(next.sealed.Values) { // nothing of it is of use without its keys
			next.state.Chain, next.state.Order = "", ""
		}
	}
	if f(&next.state, values) {
		if err := c.sealInto(orderPlace(name), values, &next.sealed, &next.record); err != nil {
			return err
		}
	}
	if err := c.writeRecord(ctx, false, &next.record, &next.state, audit); err != nil {
		return err
	}
	o.mu.Lock()
	o.kept[name] = &next
	o.mu.Unlock()
	return nil
}

func (c *Control) sealInto(p seal.Place, values map[string]hidden.Text, sealed **seal.Sealed, r *store.ACMERecord) error {
	keys, err := c.secrets.usable()
	if err != nil {
		return err
	}
	if *sealed, err = keys.Seal(p, values); err != nil {
		return err
	}
	if r.Sealed, err = json.Marshal(*sealed); err != nil {
		return fmt.Errorf("sealed keys: %w", err)
	}
	return nil
}

func (c *Control) writeRecord(ctx context.Context, isAccount bool, r *store.ACMERecord, state any, audit []store.Audit) error {
	var err error
	if r.State, err = json.Marshal(state); err != nil {
		return fmt.Errorf("state of certificate: %w", err)
	}
	r.Written = c.wallNow()
	err = c.store.WriteACME(ctx, isAccount, r, audit...)
	if errors.Is(err, store.ErrConflict) { // such as after a write that timed out and was written all the same
		return errors.Join(err, c.loadOrders(ctx))
	}
	if err == nil {
		c.secrets.needed.Store(true)
	}
	return err
}

// pair is the chain of a certificate with its key, as gateways get it; why not, else.
func (c *Control) pair(name string) (snapshot.EdgeKeyPair, error) {
	x := c.orders.get(name)
	if x == nil || x.state.Chain == "" || x.sealed == nil {
		return snapshot.EdgeKeyPair{}, errNotOrdered
	}
	keys, err := c.secrets.opening()
	if err != nil {
		return snapshot.EdgeKeyPair{}, err
	}
	key, err := keys.Open(orderPlace(name), x.sealed, orderKey)
	if err != nil {
		return snapshot.EdgeKeyPair{}, err
	}
	return snapshot.EdgeKeyPair{Name: name, Chain: x.state.Chain, Key: snapshot.Carried{Text: key}}, nil
}

// errNotOrdered is a certificate that is still waited for, of which there is an alarm of its own.
var errNotOrdered = errors.New("it is not ordered yet")

// orderedPairs are the certificates of a snapshot that control orders, and which are missing for another reason than that they
// are still waited for.
func (c *Control) orderedPairs(e *snapshot.Edge, set *spec.Set) (pairs []snapshot.EdgeKeyPair, missing []string) {
	wanted := c.wantedOrders(set)
	for i := range e.Certificates {
		name := e.Certificates[i].Name
		if wanted[name] == nil {
			continue
		}
		p, err := c.pair(name)
		switch {
		case err == nil:
			pairs = append(pairs, p)
		case !errors.Is(err, errNotOrdered):
			missing = append(missing, fmt.Sprintf("Certificate %s: %v", name, err))
		}
	}
	return pairs, missing
}

// resealOrders seals anew what is kept of certificates and accounts.
func (s *reseal) orders(ctx context.Context) error {
	o := &s.c.orders
	o.mu.Lock()
	kept, accounts := maps.Clone(o.kept), maps.Clone(o.account)
	o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if !s.wants(orderPlace(name), kept[name].sealed) {
			continue
		}
		if err := s.c.sealStep("keys of certificates"); err != nil {
			return err
		}
		if err := s.c.changeOrder(ctx, name, nil, func(*orderState, map[string]hidden.Text) bool { return true }); err != nil {
			return s.broken(fmt.Errorf("certificate %s: %w", name, err))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(accounts)) {
		if !s.wants(accountPlace(id), accounts[id].sealed) {
			continue
		}
		if err := s.c.sealStep("keys of ACME accounts"); err != nil {
			return err
		}
		if err := s.c.changeAccount(ctx, id, true, func(*accountState) {}); err != nil {
			return s.broken(fmt.Errorf("ACME account %s: %w", id, err))
		}
	}
	return nil
}

// sealedOrders are all that is sealed of certificates and accounts.
func (o *orders) sealedOrders() (out []*seal.Sealed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.kept {
		out = append(out, x.sealed)
	}
	for _, x := range o.account {
		out = append(out, x.sealed)
	}
	return out
}

// changeAccount writes an account anew; again seals its key anew.
func (c *Control) changeAccount(ctx context.Context, id string, again bool, f func(*accountState)) error {
	o := &c.orders
	if err := o.gate.enter(ctx); err != nil {
		return err
	}
	defer o.gate.leave()
	o.mu.Lock()
	next := *o.account[id]
	o.mu.Unlock()
	f(&next.state)
	if again {
		keys, err := c.secrets.opening()
		if err != nil {
			return err
		}
		key, err := keys.Open(accountPlace(id), next.sealed, orderKey)
		if err != nil {
			return err
		}
		if err := c.sealInto(accountPlace(id), map[string]hidden.Text{orderKey: key}, &next.sealed, &next.record); err != nil {
			return err
		}
	}
	if err := c.writeRecord(ctx, true, &next.record, &next.state, nil); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.account[id] = &next
	return nil
}

// printableName is a certificate's name for people: of one that nobody wrote, its domain.
func printableName(name string) string {
	if domain, auto := strings.CutPrefix(name, "auto:"); auto {
		return domain + " (auto)"
	}
	return name
}

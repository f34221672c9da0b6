package control

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"steerpoint/control/internal/issue"
	"steerpoint/control/internal/store"
	"steerpoint/internal/seal"
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

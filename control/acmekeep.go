package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
)

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

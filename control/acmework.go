package control

import (
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/issue"
	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/spec"
)

// tryOrder goes a try further with a certificate, and notes what came of it.
func (c *Control) tryOrder(ctx context.Context, set *spec.Set, w *spec.Certificate) {
	try, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	err := c.orderOnce(try, set, w)
	if ctx.Err() != nil {
		return // it goes on after the next start
	}
	if err == nil {
		c.metrics.orders.WithLabelValues("issued").Inc()
		return
	}
	f := issue.Explain(err, c.wallNow())
	c.metrics.orders.WithLabelValues(f.Reason).Inc()
	c.orderFailed(ctx, w, &f)
}

// orderFailed notes a failure, and when it is tried again.
func (c *Control) orderFailed(ctx context.Context, w *spec.Certificate, f *issue.Failure) {
	now := c.wallNow()
	var s orderState
	err := c.changeOrder(ctx, w.Name, nil, func(state *orderState, values map[string]hidden.Text) (sealed bool) {
		if state.Spec != specOf(w) {
			state.Spec, state.Failures = specOf(w), 0
		}
		state.Failures++
		state.Failed, state.Reason, state.Error, state.Do = now, f.Reason, f.What, f.Do
		state.Next = now.Add(issue.Wait(state.Failures, f.After))
		if f.Dead || f.Unknown {
			_, sealed = values[nextKey]
			delete(values, nextKey)
			state.Order = ""
		}
		s = *state
		return sealed
	})
	if err != nil {
		// Without the note it would be tried again within a second.
		c.log.ErrorContext(ctx, "a failure to order a certificate cannot be noted", "certificate", w.Name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(issue.Wait(1, f.After)):
		}
		return
	}
	c.log.WarnContext(ctx, "a certificate could not be ordered", "code", api.AlarmOrder, "certificate", w.Name, "authority", authorityName(w), "reason", f.Reason,
		"error", f.What, "do", f.Do, "failures", s.Failures, "next", s.Next)
}

// authorityName is the host of an authority's directory, for people.
func authorityName(w *spec.Certificate) string {
	u, err := url.Parse(w.ACME.Directory)
	if err != nil || u.Host == "" {
		return w.ACME.Directory
	}
	return u.Host
}

// orderOnce takes an order from wherever it is to the certificate.
func (c *Control) orderOnce(ctx context.Context, set *spec.Set, w *spec.Certificate) error {
	a, id, err := c.authorityFor(ctx, w)
	if err != nil {
		return err
	}
	defer a.Close()
	key, order, err := c.placeOrder(ctx, w, a, id)
	if err != nil {
		return c.unknownAccount(ctx, id, err)
	}
	p := &prover{c: c, set: set, w: w}
	defer p.withdraw(ctx)
	if err := a.Prove(ctx, order, p); err != nil {
		return c.unknownAccount(ctx, id, err)
	}
	chain, err := a.Finish(ctx, order, key, orderedNames(w))
	if err != nil {
		return c.unknownAccount(ctx, id, err)
	}
	return c.takeCertificate(ctx, w, chain)
}

// unknownAccount forgets an account that the authority does not know, so that it is registered anew with the next try.
func (c *Control) unknownAccount(ctx context.Context, id string, err error) error {
	if !issue.Explain(err, c.wallNow()).Unknown {
		return err
	}
	return errors.Join(err, c.changeAccount(ctx, id, false, func(s *accountState) { s.URL = "" }))
}

// placeOrder gives the order under way with its key, or begins one. It is stored before anything is done about it.
func (c *Control) placeOrder(ctx context.Context, w *spec.Certificate, a *issue.Authority, id string) (crypto.Signer, string, error) {
	if x := c.orders.get(w.Name); x != nil && x.state.Order != "" && x.state.Spec == specOf(w) && x.state.Account == id && !c.sealLost(x.sealed) {
		keys, err := c.secrets.opening()
		if err != nil {
			return nil, "", err
		}
		text, err := keys.Open(orderPlace(w.Name), x.sealed, nextKey)
		if err != nil {
			return nil, "", fmt.Errorf("key of the order: %w", err)
		}
		key, err := issue.ParseKey([]byte(text.Reveal()))
		return key, x.state.Order, err
	}
	key, text, err := issue.NewKey(w.ACME.KeyType)
	if err != nil {
		return nil, "", err
	}
	defer clear(text)
	order, err := a.Begin(ctx, orderedNames(w))
	if err != nil {
		return nil, "", err
	}
	err = c.changeOrder(ctx, w.Name, nil, func(s *orderState, values map[string]hidden.Text) bool {
		if s.Spec != specOf(w) {
			s.Failures = 0
		}
		s.Spec, s.Order, s.Account = specOf(w), order, id
		values[nextKey] = hidden.New(string(text))
		return true
	})
	return key, order, err
}

// takeCertificate stores a certificate in the place of the one before, and hands it out.
func (c *Control) takeCertificate(ctx context.Context, w *spec.Certificate, chain [][]byte) error {
	text := issue.PEM(chain)
	leaf, err := issue.Leaf(text)
	if err != nil {
		return err
	}
	now := c.wallNow()
	why := fmt.Sprintf("ordered from %s, valid until %s", authorityName(w), leaf.NotAfter.UTC().Format(time.RFC3339))
	audit := []store.Audit{{Time: now, Actor: "control", Action: api.ActionUpdate, Kind: string(spec.KindCertificate), Name: w.Name, Reason: why}}
	err = c.changeOrder(ctx, w.Name, audit, func(s *orderState, values map[string]hidden.Text) bool {
		renew := issue.RenewAt(leaf.NotBefore, leaf.NotAfter, time.Duration(w.ACME.RenewBefore), w.Name)
		*s = orderState{Spec: specOf(w), ChainOf: specOf(w), Chain: text, NotBefore: leaf.NotBefore.UTC(), NotAfter: leaf.NotAfter.UTC(), Renew: renew.UTC(), Issued: now, Proofs: s.Proofs}
		values[orderKey] = values[nextKey]
		delete(values, nextKey)
		return true
	})
	if err != nil {
		return err
	}
	c.orders.mu.Lock()
	delete(c.orders.windows, w.Name)
	c.orders.mu.Unlock()
	c.edges.mark()
	c.log.InfoContext(ctx, "a certificate was ordered", "certificate", w.Name, "names", strings.Join(orderedNames(w), " "), "authority", authorityName(w), "ends", leaf.NotAfter)
	c.feed.Add(api.Event{Time: now, Kind: api.EventConfig, Actor: "control", Subject: "Certificate/" + w.Name, Message: "certificate " + printableName(w.Name) + ": " + why})
	return nil
}

// authorityFor is the authority that a certificate is ordered from, with an account there that is made if there is none.
func (c *Control) authorityFor(ctx context.Context, w *spec.Certificate) (a *issue.Authority, id string, err error) {
	o := &c.orders
	if err := o.accounts.enter(ctx); err != nil {
		return nil, "", err
	}
	defer o.accounts.leave()
	id, state := accountOf(w.ACME)
	key, err := c.accountKey(ctx, id, state)
	if err != nil {
		return nil, "", err
	}
	o.mu.Lock()
	have := o.account[id].state.URL
	o.mu.Unlock()
	a, err = issue.New(issue.Config{Directory: w.ACME.Directory, Roots: w.ACME.Roots, Key: key, Account: have, Agent: "steer/" + c.cfg.Version})
	if err != nil || have != "" {
		return a, id, err
	}
	if err := c.register(ctx, a, w, id); err != nil {
		a.Close()
		return nil, "", err
	}
	return a, id, nil
}

func (c *Control) register(ctx context.Context, a *issue.Authority, w *spec.Certificate, id string) error {
	binding, err := c.binding(w.ACME)
	if err != nil {
		return err
	}
	at, err := a.Register(ctx, w.ACME.Email, binding)
	if err != nil {
		return err
	}
	c.log.InfoContext(ctx, "an ACME account was registered", "authority", authorityName(w), "account", at)
	return c.changeAccount(ctx, id, false, func(s *accountState) { s.URL = at })
}

// binding is what ties the account to a customer; nil: nothing does.
func (c *Control) binding(a *spec.ACME) (*issue.Binding, error) {
	if a.EABKeyID == "" || a.EABKeyFrom == nil {
		return nil, nil
	}
	text, err := c.secrets.value(*a.EABKeyFrom)
	if err != nil {
		return nil, &issue.Local{Err: err, Do: "write the Secret that eabKeyFrom names"}
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text.Reveal()), "="))
	if err != nil || len(key) == 0 {
		return nil, &issue.Local{
			Err: fmt.Errorf("the key that binds the account (Secret %s, key %s) is not in base64url", a.EABKeyFrom.Secret, a.EABKeyFrom.Key),
			Do:  "write it as the authority shows it",
		}
	}
	return &issue.Binding{ID: a.EABKeyID, Key: key}, nil
}

// accountKey is the key of an account, made and stored before the authority hears of it.
func (c *Control) accountKey(ctx context.Context, id string, state accountState) (crypto.Signer, error) {
	o := &c.orders
	o.mu.Lock()
	have := o.account[id]
	o.mu.Unlock()
	if have != nil && !c.sealLost(have.sealed) {
		keys, err := c.secrets.opening()
		if err != nil {
			return nil, err
		}
		text, err := keys.Open(accountPlace(id), have.sealed, orderKey)
		if err != nil {
			return nil, fmt.Errorf("key of the ACME account: %w", err)
		}
		return issue.ParseKey([]byte(text.Reveal()))
	}
	key, text, err := issue.NewKey("ecdsa-p256")
	if err != nil {
		return nil, err
	}
	defer clear(text)
	next := &account{record: store.ACMERecord{Name: id}, state: state}
	if have != nil {
		next.record.Revision = have.record.Revision
	}
	if err := o.gate.enter(ctx); err != nil {
		return nil, err
	}
	defer o.gate.leave()
	if err := c.sealInto(accountPlace(id), map[string]hidden.Text{orderKey: hidden.New(string(text))}, &next.sealed, &next.record); err != nil {
		return nil, err
	}
	if err := c.writeRecord(ctx, true, &next.record, &next.state, nil); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.account[id] = next
	return key, nil
}

// askRenewal asks when a certificate should be renewed. What fails here holds up nothing: it is renewed by its end.
func (c *Control) askRenewal(ctx context.Context, w *spec.Certificate) {
	o := &c.orders
	now := c.wallNow()
	next := issue.Window{Again: now.Add(renewalFirst)}
	defer func() {
		o.mu.Lock()
		o.windows[w.Name] = next
		o.mu.Unlock()
	}()
	x := o.get(w.Name)
	if x == nil {
		return
	}
	leaf, err := issue.Leaf(x.state.Chain)
	if err != nil {
		return
	}
	o.mu.Lock()
	before, known := o.windows[w.Name]
	o.mu.Unlock()
	if known {
		next = before
		next.Again = now.Add(renewalFirst)
	}
	a, err := issue.New(issue.Config{Directory: w.ACME.Directory, Roots: w.ACME.Roots, Agent: "steer/" + c.cfg.Version})
	if err != nil {
		return
	}
	defer a.Close()
	got, err := a.Renewal(ctx, leaf, &before, now)
	switch {
	case errors.Is(err, issue.ErrNoRenewalInfo):
		next = issue.Window{Again: now.Add(24 * time.Hour)}
	case err != nil:
		c.log.DebugContext(ctx, "renewal information cannot be had", "certificate", w.Name, "error", err)
	default:
		if next = *got; got.At.Before(x.state.Renew) && !got.At.Equal(before.At) {
			c.log.InfoContext(ctx, "the authority wants a certificate to be renewed early", "certificate", w.Name, "renewal", got.At, "why", got.Why)
		}
	}
}

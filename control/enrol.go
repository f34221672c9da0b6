package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/roster"
	"steerpoint/control/internal/store"
	"steerpoint/internal/pki"
)

// Limits of what a node may say of itself when it joins.
const (
	maxLabels      = 32
	maxLabelKey    = 63
	maxLabelValue  = 128
	maxVersionText = 64
)

// knownRoles are the roles a token may give.
func knownRoles() []string { return []string{roster.RoleDNS, roster.RoleProbe, roster.RoleEdge} }

// Authority is the cluster's certificate authority.
func (c *Control) Authority() *pki.Authority { return c.authority }

// ServerCertificate is control's own certificate for the port nodes connect to; it can be asked for at every handshake.
func (c *Control) ServerCertificate() (*tls.Certificate, error) {
	return c.authority.ServerCertificate(c.wallNow())
}

// Wall is control's wall clock, by which certificates of nodes are judged: it does not follow a clock that is set while
// the process runs.
func (c *Control) Wall() time.Time { return c.wallNow() }

func (c *Control) wallNow() time.Time { return c.clock.Moment().Wall.UTC() }

// Join makes a machine a node: token and node are written in one transaction, so that whoever holds a certificate is
// known. The same key may join again by its token while the token lives, since the answer may have been lost on the
// way. Refusals are *pki.Refusal.
func (c *Control) Join(ctx context.Context, a pki.Application) (pki.Credential, error) {
	cred, err := retryEnrolment(ctx, c, func() (pki.Credential, error) { return c.join(ctx, &a) })
	if err != nil {
		c.refusedNode(a.Name, "join", a.Address, err)
	}
	return cred, err
}

// retryEnrolment is retryStored for what nodes ask: errors of the store become refusals that pass.
func retryEnrolment[T any](ctx context.Context, c *Control, f func() (T, error)) (T, error) {
	v, err := retryStored(ctx, c, f)
	return v, busy(err)
}

// gate is a lock that is waited for no longer than somebody waits for the answer: with a store that hangs, callers
// would queue up behind one another's time-outs.
type gate chan struct{}

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: others of the kind are under way: %w", store.ErrUnavailable, ctx.Err())
	}
}

func (g gate) leave() { <-g }

// retryStored runs f, which reads the roster and writes, alone. When the store turns out to hold something else, such as
// after a write that timed out and was written all the same, the roster is read anew and f run again.
func retryStored[T any](ctx context.Context, c *Control, f func() (T, error)) (T, error) {
	if err := c.enrolling.enter(ctx); err != nil {
		var none T
		return none, err
	}
	defer c.enrolling.leave()
	for try := 0; ; try++ {
		v, err := f()
		if err == nil || try == 2 || !errors.Is(err, store.ErrConflict) {
			return v, err
		}
		if err := c.loadEnrolled(ctx); err != nil {
			return v, err
		}
	}
}

// busy makes an error of the store a refusal that passes.
func busy(err error) error {
	if err == nil || pki.CodeOf(err) != "" {
		return err
	}
	return errors.Join(pki.Refuse(pki.Busy, "control cannot write this now", "it is tried again by itself; look at the alarms of control"), err)
}

// loadEnrolled reads tokens and nodes as they are stored.
func (c *Control) loadEnrolled(ctx context.Context) error {
	e, err := c.store.Enrolled(ctx)
	if err != nil {
		return err
	}
	c.roster.Load(e)
	return nil
}

func (c *Control) join(ctx context.Context, a *pki.Application) (pki.Credential, error) {
	now := c.clock.Moment()
	token, err := c.checkToken(a.Token)
	if err != nil {
		return pki.Credential{}, err
	}
	key, err := keyHash(a.Request)
	if err != nil {
		return pki.Credential{}, err
	}
	if !token.Used.IsZero() {
		return c.joinAgain(ctx, now, token, key, a)
	}
	if c.tokenOver(token) {
		return pki.Credential{}, tokenExpired(token)
	}
	n, err := c.newNode(now, token, a)
	if err != nil {
		return pki.Credential{}, err
	}
	life := c.cfg.CertLife
	if old, was := c.roster.Removed(n.Name); was { // a certificate of the node that had the name must not outlive the first of this one
		life = max(life, old.Latest.Sub(now.Wall)+2*time.Second)
	}
	cert, err := c.sign(now, &n, a.Request, life)
	if err != nil {
		return pki.Credential{}, err
	}
	n.Since = n.Expires
	token.Used, token.Node, token.Key = now.Wall.UTC(), n.Name, key
	change := &store.Enrolment{Token: &token, NewNode: &n, Audit: []store.Audit{{
		Time: now.Wall.UTC(), Actor: "node " + n.Name, Action: "join", Kind: "Node", Name: n.Name,
		Reason: "token " + token.ID + " made by " + token.Actor, After: auditOf(&n),
	}}}
	if _, was := c.roster.Removed(n.Name); was {
		change.DropRemoved = []string{n.Name}
	}
	if err := c.enrol(ctx, change); err != nil {
		return pki.Credential{}, err
	}
	c.nodeEvent(n.Name, true, fmt.Sprintf("node %s joined as %s from %s, by token %s", n.Name, strings.Join(n.Roles, ", "), from(n.Address), token.ID))
	c.roster.Speaks(n.Name, now, roster.Counts{})
	c.nudge()
	if slices.Contains(n.Roles, roster.RoleEdge) {
		c.edges.mark() // its secrets are not sealed to this one yet
	}
	return c.credential(cert, &n, now), nil
}

// enrol writes a change and takes it over.
func (c *Control) enrol(ctx context.Context, e *store.Enrolment) error {
	if err := c.store.WriteEnrolment(ctx, e); err != nil {
		return err
	}
	c.roster.Wrote(e)
	return nil
}

// checkToken finds the record of a token. Whether the ID or the secret is wrong is not said.
func (c *Control) checkToken(text string) (store.Token, error) {
	t, err := pki.ParseToken(text)
	if err != nil {
		return store.Token{}, err
	}
	unknown := pki.Refuse(pki.TokenUnknown, "control has no such token", "create one with `steer token create`, on this control")
	rec, ok := c.roster.Token(t.ID)
	if !ok || subtle.ConstantTimeCompare([]byte(rec.Hash), []byte(t.SecretHash())) != 1 || t.Authority != c.authority.Hash() {
		return store.Token{}, unknown
	}
	return rec, nil
}

// tokenOver reports whether the life of a token is over, whatever was done to the wall clock since it was made.
func (c *Control) tokenOver(t store.Token) bool {
	made := moment.Moment{Wall: t.Created, Boot: t.Boot, BootTime: t.BootTime}
	return c.clock.Until(made, t.Expires) <= c.clock.Now()
}

func tokenExpired(t store.Token) error {
	return pki.Refuse(pki.TokenExpired, fmt.Sprintf("token %s ended at %s", t.ID, t.Expires.Format(time.RFC3339)), "create a new one with `steer token create`")
}

func keyHash(request []byte) (string, error) {
	der, err := pki.RequestKey(request)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// joinAgain is the use of a token that was used. Only the key it was used with gets a certificate again.
func (c *Control) joinAgain(ctx context.Context, now moment.Moment, t store.Token, key string, a *pki.Application) (pki.Credential, error) {
	n, ok := c.roster.Node(t.Node)
	switch {
	case t.Key != key || !ok || n.Token != t.ID:
		return pki.Credential{}, pki.Refuse(pki.TokenUsed, fmt.Sprintf("token %s was used at %s by node %s", t.ID, t.Used.Format(time.RFC3339), t.Node),
			"a token is for one machine: create another; if that node is not yours, revoke it")
	case c.tokenOver(t):
		return pki.Credential{}, tokenExpired(t)
	case !n.Revoked.IsZero():
		return pki.Credential{}, revoked(&n)
	}
	return c.renew(ctx, now, n, a.Request)
}

// newNode makes the record of a node that joins, without its certificate.
func (c *Control) newNode(now moment.Moment, t store.Token, a *pki.Application) (store.Node, error) {
	n := store.Node{
		Name: a.Name, Roles: t.Roles, Labels: a.Labels, Token: t.ID, Joined: now.Wall.UTC(), Address: a.Address,
		Version: printable(a.Version, maxVersionText),
	}
	if n.Name == "" {
		n.Name = t.Name
	}
	if err := pki.ValidName(n.Name); err != nil {
		return n, pki.Refuse(pki.BadRequest, "node name: "+err.Error(), "give one with --name")
	}
	if t.Name != "" && n.Name != t.Name {
		return n, pki.Refuse(pki.BadRequest, fmt.Sprintf("token %s is for node %s, not for %s", t.ID, t.Name, n.Name), "leave --name out, or create a token for that name")
	}
	if len(a.Roles) > 0 {
		n.Roles = slices.Compact(slices.Sorted(slices.Values(a.Roles)))
		for _, r := range n.Roles {
			if !slices.Contains(t.Roles, r) {
				return n, pki.Refuse(pki.RoleRefused, fmt.Sprintf("token %s gives the roles %s, not %s", t.ID, strings.Join(t.Roles, ", "), r), "create a token with that role")
			}
		}
	}
	if problem := labelsProblem(n.Labels); problem != "" {
		return n, pki.Refuse(pki.BadRequest, problem, "change --label")
	}
	if _, exists := c.roster.Node(n.Name); exists || c.ownName(n.Name) {
		return n, pki.Refuse(pki.NodeExists, fmt.Sprintf("there is a node %s already", n.Name), "choose another --name, or remove the old one with `steer node remove "+n.Name+"`")
	}
	return n, nil
}

// ownName reports whether a name is taken by this process: its name server and its own probe points.
func (c *Control) ownName(name string) bool {
	return name == c.cfg.Node || c.ownPoint(name)
}

// labelsProblem says what is wrong with labels; "" if nothing is.
func labelsProblem(labels map[string]string) string {
	if len(labels) > maxLabels {
		return fmt.Sprintf("a node has at most %d labels, not %d", maxLabels, len(labels))
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		odd := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
		}
		if k == "" || len(k) > maxLabelKey || strings.ContainsFunc(k, odd) {
			return fmt.Sprintf("%q is no name of a label: 1 to %d letters, digits, - _ . /", k, maxLabelKey)
		}
		if v := labels[k]; v == "" || printable(v, maxLabelValue) != v {
			return fmt.Sprintf("label %s: its value has to be 1 to %d printable bytes", k, maxLabelValue)
		}
	}
	return ""
}

// printable is a text without control characters, cut to n bytes.
func printable(s string, n int) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") // an error of several parts has them a line each
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.ToValidUTF8(s[:min(len(s), n)], "")
}

// sign gives a node a certificate and notes it in its record.
func (c *Control) sign(now moment.Moment, n *store.Node, request []byte, life time.Duration) ([]byte, error) {
	cert, id, err := c.authority.Sign(request, n.Name, n.Roles, now.Wall, life)
	if err != nil {
		return nil, err
	}
	n.Serial, n.Issued, n.Expires, n.Authority = id.Serial, now.Wall.UTC(), id.NotAfter.UTC(), c.authority.Hash()
	if n.PublicKey, err = pki.RequestKey(request); err != nil {
		return nil, err
	}
	if n.Expires.After(n.Latest) {
		n.Latest = n.Expires
	}
	return cert, nil
}

func (c *Control) credential(cert []byte, n *store.Node, now moment.Moment) pki.Credential {
	return pki.Credential{
		Certificate: cert, Authority: c.authority.PEM(), Lifetime: n.Expires.Sub(now.Wall), Cluster: c.authority.Cluster(),
		Name: n.Name, Roles: n.Roles,
	}
}

// Renew gives a node that shows its certificate another one; the request may hold another key.
func (c *Control) Renew(ctx context.Context, id pki.Identity, request []byte) (pki.Credential, error) {
	cred, err := retryEnrolment(ctx, c, func() (pki.Credential, error) {
		n, err := c.admitted(id)
		if err != nil {
			return pki.Credential{}, err
		}
		return c.renew(ctx, c.clock.Moment(), n, request)
	})
	if err != nil {
		c.refusedNode(id.Name, "renewal", "", err)
	}
	return cred, err
}

func (c *Control) renew(ctx context.Context, now moment.Moment, n store.Node, request []byte) (pki.Credential, error) {
	cert, err := c.sign(now, &n, request, max(c.cfg.CertLife, n.Since.Sub(now.Wall)+time.Second))
	if err != nil {
		return pki.Credential{}, err
	}
	if err := c.enrol(ctx, &store.Enrolment{Node: &n}); err != nil {
		return pki.Credential{}, err
	}
	c.roster.Speaks(n.Name, now, roster.Counts{})
	return c.credential(cert, &n, now), nil
}

// Admit says whether the bearer of a certificate is a node of ours now; the caller has verified the certificate and
// judged its end. It is asked at every call of a node.
func (c *Control) Admit(id pki.Identity) error {
	_, err := c.admitted(id)
	return err
}

func (c *Control) admitted(id pki.Identity) (store.Node, error) {
	n, ok := c.roster.Node(id.Name)
	switch {
	case !ok:
		return n, pki.Refuse(pki.NodeUnknown, "control has no node "+id.Name, "it was removed: create a token and join again")
	case !n.Revoked.IsZero():
		return n, revoked(&n)
	case id.NotAfter.Before(n.Since):
		return n, pki.Refuse(pki.NodeUnknown, "the certificate is of another node "+id.Name+", which was removed", "create a token and join under another name")
	}
	for _, r := range id.Roles {
		if !slices.Contains(n.Roles, r) {
			return n, pki.Refuse(pki.RoleRefused, fmt.Sprintf("node %s has not the role %s", n.Name, r), "create a token with that role and join again")
		}
	}
	return n, nil
}

func revoked(n *store.Node) error {
	what := fmt.Sprintf("node %s was revoked at %s", n.Name, n.Revoked.Format(time.RFC3339))
	if n.RevokedWhy != "" {
		what += ": " + n.RevokedWhy
	}
	return pki.Refuse(pki.NodeRevoked, what, "if it is to come back: `steer node remove "+n.Name+"`, then join with a new token")
}

// refusedNode notes that a machine was not let in.
func (c *Control) refusedNode(name, what, address string, err error) {
	code := pki.CodeOf(err)
	c.metrics.nodeRefusals.WithLabelValues(code).Inc()
	c.log.Warn("node refused", "what", what, "node", printable(name, 63), "address", address, "code", code, "error", err)
}

func from(address string) string {
	if address == "" {
		return "an unknown address"
	}
	return address
}

// nodeEvent tells watchers of a node.
func (c *Control) nodeEvent(name string, on bool, message string) {
	c.feed.Add(api.Event{Time: c.wallNow(), Kind: api.EventNode, Node: name, On: on, Message: message})
	c.log.Info("node", "node", name, "message", message)
}

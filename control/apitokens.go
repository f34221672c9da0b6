package control

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/store"
	"steerpoint/internal/pki"
)

const (
	// apiTokenMark begins a token of the API, so that it is not taken for a join token, and is found where it leaked.
	apiTokenMark   = "api"
	apiIDBytes     = 5
	apiSecretBytes = 32
	minAPIToken    = time.Minute
	maxAPIToken    = 10 * 365 * 24 * time.Hour
	// usedEvery is how far the stored time of a token's last use may be behind.
	usedEvery = time.Hour
)

// apiTokens are the tokens of the API, as they are stored, and what is under way with each. Methods may run at the same
// time.
type apiTokens struct {
	gate gate // one change at a time

	mu   sync.Mutex
	byID map[string]*apiToken
}

type apiToken struct {
	store.APIToken
	used time.Time // newest use, maybe not stored yet
	open map[*opening]struct{}
}

// opening is one request that came in by a token; it ends with the token.
type opening struct{ cancel context.CancelCauseFunc }

// errTokenGone ends requests whose token was revoked or is over.
var errTokenGone = errors.New("the token was revoked, or its time is over")

func (a *apiTokens) init() { a.gate, a.byID = make(gate, 1), map[string]*apiToken{} }

// load takes tokens over as they are stored. Requests of a token that is gone end.
func (a *apiTokens) load(list []store.APIToken) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.byID
	a.byID = make(map[string]*apiToken, len(list))
	for _, t := range list {
		n := &apiToken{APIToken: t, used: t.Used, open: map[*opening]struct{}{}}
		if was := old[t.ID]; was != nil {
			n.used, n.open = later(was.used, t.Used), was.open
			delete(old, t.ID)
		}
		a.byID[t.ID] = n
	}
	for _, t := range old {
		t.end()
	}
}

// end cancels the requests under way; the caller holds the lock.
func (t *apiToken) end() {
	for o := range t.open {
		o.cancel(errTokenGone)
	}
}

// put takes over one token that was written.
func (a *apiTokens) put(t store.APIToken) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if have := a.byID[t.ID]; have != nil {
		have.APIToken = t
		return
	}
	a.byID[t.ID] = &apiToken{APIToken: t, used: t.Used, open: map[*opening]struct{}{}}
}

func (a *apiTokens) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.byID[id]; t != nil {
		t.end()
		delete(a.byID, id)
	}
}

// find gives the token of an ID or a name.
func (a *apiTokens) find(word string) (store.APIToken, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.byID[word]; t != nil {
		return t.APIToken, true
	}
	for _, t := range a.byID {
		if t.Name == word {
			return t.APIToken, true
		}
	}
	return store.APIToken{}, false
}

// all gives every token by name, with the time of its newest use.
func (a *apiTokens) all() []store.APIToken {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]store.APIToken, 0, len(a.byID))
	for _, t := range a.byID {
		r := t.APIToken
		r.Used = t.used
		out = append(out, r)
	}
	slices.SortFunc(out, func(x, y store.APIToken) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.ID, y.ID))
	})
	return out
}

// bearer finds whose a token is. Whether ID or secret is wrong takes the same time and is not said.
func (a *apiTokens) bearer(text string) (store.APIToken, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != apiTokenMark {
		return store.APIToken{}, false
	}
	a.mu.Lock()
	t := store.APIToken{Hash: strings.Repeat("0", 2*sha256.Size)}
	if have := a.byID[parts[1]]; have != nil {
		t = have.APIToken
	}
	a.mu.Unlock()
	same := subtle.ConstantTimeCompare([]byte(t.Hash), []byte(secretHash(parts[2]))) == 1
	return t, same && t.ID != ""
}

// enter notes a use. The request ends with the token.
func (a *apiTokens) enter(id string, now time.Time, o *opening) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.byID[id]
	if t == nil {
		return false
	}
	t.used = later(t.used, now)
	t.open[o] = struct{}{}
	return true
}

func (a *apiTokens) leave(id string, o *opening) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.byID[id]; t != nil {
		delete(t.open, o)
	}
}

// unwritten gives the tokens whose newest use is not stored.
func (a *apiTokens) unwritten(behind time.Duration) []store.APIToken {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []store.APIToken
	for _, t := range a.byID {
		if t.used.Sub(t.Used) >= behind && t.used.After(t.Used) {
			r := t.APIToken
			r.Used = t.used
			out = append(out, r)
		}
	}
	return out
}

func secretHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// newAPIToken makes the text of a token: mark, ID, secret, and the hash of the authority, by which a client knows this
// server over TLS at its first connection.
func newAPIToken(authority string) (id, secret, text string) {
	var random [apiIDBytes + apiSecretBytes]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	id, secret = hex.EncodeToString(random[:apiIDBytes]), base64.RawURLEncoding.EncodeToString(random[apiIDBytes:])
	return id, secret, strings.Join([]string{apiTokenMark, id, secret, authority}, ".")
}

// loadAPITokens reads the tokens as they are stored.
func (c *Control) loadAPITokens(ctx context.Context) error {
	list, err := c.store.APITokens(ctx)
	if err == nil {
		c.apiTokens.load(list)
	}
	return err
}

// changeAPITokens runs f alone. When the store turns out to hold something else than was read, such as after a write
// that timed out and was written all the same, it is read anew and f run again.
func (c *Control) changeAPITokens(ctx context.Context, f func() error) error {
	if err := c.apiTokens.gate.enter(ctx); err != nil {
		return err
	}
	defer c.apiTokens.gate.leave()
	for try := 0; ; try++ {
		err := f()
		if err == nil || try == 2 || !errors.Is(err, store.ErrConflict) {
			return err
		}
		if err := c.loadAPITokens(ctx); err != nil {
			return err
		}
	}
}

// APITokenInput names a token of the API. It is exported for the frame of the API.
type APITokenInput struct {
	Who
	ID string `path:"id" maxLength:"63" doc:"ID or name"`
}

func (c *Control) apiTokenRoutes(a huma.API) {
	register(a, operation(http.MethodGet, "/api-tokens", "apiTokens", "Tokens of the API, by name", 0),
		func(context.Context, *Who) (*body[api.APITokenList], error) {
			out := api.APITokenList{Tokens: []api.APITokenView{}}
			for _, t := range c.apiTokens.all() {
				out.Tokens = append(out.Tokens, c.apiTokenView(&t))
			}
			return &body[api.APITokenList]{out}, nil
		})
	register(a, operation(http.MethodPost, "/api-tokens", "createAPIToken", "Make a token of the API; its text is shown this once", 0),
		func(ctx context.Context, in *withBody[api.APITokenRequest]) (*body[api.APITokenCreated], error) {
			t, err := c.createAPIToken(ctx, in.actor(), &in.Body)
			return &body[api.APITokenCreated]{t}, err
		})
	register(a, operation(http.MethodDelete, "/api-tokens/{id}", "revokeAPIToken", "Delete a token of the API; what it is doing ends", 0),
		func(ctx context.Context, in *APITokenInput) (*struct{}, error) {
			return nil, c.revokeAPIToken(ctx, in.actor(), in.ID)
		})
}

func (c *Control) apiTokenView(t *store.APIToken) api.APITokenView {
	v := api.APITokenView{ID: t.ID, Name: t.Name, Role: t.Role, Services: t.Services, State: api.TokenOpen, Created: t.Created, Actor: t.Actor}
	if !t.Expires.IsZero() {
		v.Expires = &t.Expires
	}
	if c.apiTokenOver(t) {
		v.State = api.TokenExpired
	}
	if !t.Used.IsZero() {
		used := t.Used.UTC().Truncate(time.Minute)
		v.LastUsed = &used
	}
	return v
}

// apiTokenEnds is when the life of a token is over, whatever was done to the wall clock since it was made; ok is false if
// it does not end by itself.
func (c *Control) apiTokenEnds(t *store.APIToken) (left time.Duration, ok bool) {
	if t.Expires.IsZero() {
		return 0, false
	}
	made := moment.Moment{Wall: t.Created, Boot: t.Boot, BootTime: t.BootTime}
	return c.clock.Until(made, t.Expires) - c.clock.Now(), true
}

func (c *Control) apiTokenOver(t *store.APIToken) bool {
	left, ends := c.apiTokenEnds(t)
	return ends && left <= 0
}

// wantedAPIToken checks a request and makes the record of it, without its secret.
func (c *Control) wantedAPIToken(r *api.APITokenRequest) (store.APIToken, error) {
	now := c.clock.Moment()
	t := store.APIToken{
		Name: r.Name, Role: r.Role, Services: slices.Compact(slices.Sorted(slices.Values(r.Services))),
		Created: now.Wall.UTC(), Boot: now.Boot, BootTime: now.BootTime,
	}
	if err := pki.ValidName(r.Name); err != nil {
		return t, badRequest("body.name", "token name: %v", err)
	}
	if slices.Contains([]string{api.RoleAdmin, overrideEnds}, r.Name) {
		return t, badRequest("body.name", "%s is who the audit trail names without a token: choose another name", r.Name)
	}
	if r.For != "" {
		d, err := time.ParseDuration(r.For)
		if err != nil || d < minAPIToken || d > maxAPIToken {
			return t, badRequest("body.for", "for %q is not a duration from 1m to %v", r.For, maxAPIToken)
		}
		t.Expires = now.Wall.Add(d).UTC()
	}
	if roleOf(r.Role) == roleNone {
		return t, badRequest("body.role", "there is no role %q: %s, %s and %s are", r.Role, api.RoleViewer, api.RoleOperator, api.RoleAdmin)
	}
	if len(t.Services) > 0 && r.Role == api.RoleAdmin {
		return t, badRequest("body.services", "the role %s is for everything: leave the services out, or give the role %s", api.RoleAdmin, api.RoleOperator)
	}
	for _, s := range t.Services {
		if err := pki.ValidName(s); err != nil {
			return t, badRequest("body.services", "service: %v", err)
		}
	}
	return t, nil
}

func (c *Control) createAPIToken(ctx context.Context, actor string, r *api.APITokenRequest) (api.APITokenCreated, error) {
	rec, err := c.wantedAPIToken(r)
	if err != nil {
		return api.APITokenCreated{}, err
	}
	id, secret, text := newAPIToken(c.authority.Hash())
	rec.ID, rec.Hash, rec.Actor = id, secretHash(secret), actor
	err = c.changeAPITokens(ctx, func() error {
		if have, exists := c.apiTokens.find(rec.Name); exists && have.ID != rec.ID {
			return badRequest("body.name", "there is a token %s already (ID %s): revoke it first, or choose another name", rec.Name, have.ID)
		}
		line := c.nodeAudit(actor, api.ActionCreate, "APIToken", rec.Name, "", nil, auditOf(c.apiTokenView(&rec)))
		if err := c.store.WriteAPIToken(ctx, &rec, line...); err != nil {
			return err
		}
		c.apiTokens.put(rec)
		return nil
	})
	if err != nil {
		return api.APITokenCreated{}, err
	}
	return api.APITokenCreated{Token: text, View: c.apiTokenView(&rec)}, nil
}

func (c *Control) revokeAPIToken(ctx context.Context, actor, word string) error {
	return c.changeAPITokens(ctx, func() error {
		t, ok := c.apiTokens.find(word)
		if !ok {
			return notFound("no token of the API has the ID or the name %s; `steer token list --api` shows them", word)
		}
		line := c.nodeAudit(actor, api.ActionDelete, "APIToken", t.Name, "", auditOf(c.apiTokenView(&t)), nil)
		if err := c.store.DropAPIToken(ctx, &t, line...); err != nil {
			return err
		}
		c.apiTokens.drop(t.ID)
		return nil
	})
}

// keepAPITokens writes when tokens were used last, where what is stored is that much behind, and forgets those that have
// been over for a week.
func (c *Control) keepAPITokens(ctx context.Context, behind time.Duration) {
	err := c.changeAPITokens(ctx, func() error {
		for _, t := range c.apiTokens.unwritten(behind) {
			if err := c.store.WriteAPIToken(ctx, &t); err != nil {
				return err
			}
			c.apiTokens.put(t)
		}
		for _, t := range c.apiTokens.all() {
			if left, ends := c.apiTokenEnds(&t); !ends || left > -keepTokens {
				continue
			}
			if err := c.store.DropAPIToken(ctx, &t); err != nil {
				return err
			}
			c.apiTokens.drop(t.ID)
		}
		return nil
	})
	if err != nil {
		c.log.Warn("the last use of API tokens is not written", "error", err)
	}
}

// knows lets a request in that shows a token: the one of the folder, or one of the API. From then on its context says who
// sends it, and the header that names the actor says nobody else. known is false when the token is nobody's.
func (c *Control) knows(r *http.Request, token string, admin bool) (known bool, p *api.Problem) {
	if admin {
		*r = *r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{role: roleAdmin}))
		return true, nil
	}
	t, ok := c.apiTokens.bearer(token)
	if !ok {
		return false, nil
	}
	left, ends := c.apiTokenEnds(&t)
	if ends && left <= 0 {
		return true, problem(http.StatusUnauthorized, api.CodeTokenExpired, "Token is over",
			fmt.Sprintf("token %s ended at %s: an admin makes another with `steer token create --api`", t.Name, t.Expires.Format(time.RFC3339)))
	}
	who := &caller{name: t.Name, role: roleOf(t.Role), services: t.Services}
	if p := who.outside(r.URL.Path); p != nil {
		return true, p
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), callerKey{}, who))
	o := &opening{cancel}
	if !c.apiTokens.enter(t.ID, c.wallNow(), o) {
		cancel(errTokenGone)
		return false, nil // it was revoked just now
	}
	if ends { // a watch must not outlive the token
		over := time.AfterFunc(left, func() { cancel(errTokenGone) })
		context.AfterFunc(ctx, func() { over.Stop() })
	}
	context.AfterFunc(ctx, func() { c.apiTokens.leave(t.ID, o) }) // the server ends the context of a request with it
	*r = *r.WithContext(ctx)
	if who.role != roleAdmin || r.Header.Get(api.ActorHeader) == "" {
		r.Header.Set(api.ActorHeader, who.name)
	}
	return true, nil
}

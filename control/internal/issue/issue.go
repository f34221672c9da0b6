// Package issue orders certificates from a certificate authority by ACME (RFC 8555), and says when to ask again. It asks and
// waits; what is stored, who shows proofs and when it is called are its caller's.
//
// An order goes on from wherever the authority says it is: whoever has its URL and the key of the certificate can finish it,
// so a process may end at any moment in between.
package issue

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

// Config says which authority is asked, and for which account.
type Config struct {
	Directory string // URL
	// Roots are certificates in PEM form that sign the authority's own; "": those of the system.
	Roots string
	Key   crypto.Signer // of the account
	// Account is its URL; "": it is not registered yet.
	Account string
	Agent   string // User-Agent: product and version
}

// Authority is a certificate authority as one account sees it. Its methods may run at the same time.
type Authority struct {
	client *acme.Client
	http   *http.Client
	cfg    Config

	mu          sync.Mutex
	renewalInfo string // URL
	looked      bool   // for it
}

const (
	// requestTimeout bounds one request. Authorities answer within seconds, and say Retry-After for what takes longer.
	requestTimeout = 30 * time.Second
	// nonceTries is how often a request is repeated whose nonce was not taken: authorities of several machines forget them.
	nonceTries = 8
	// maxRedirects of a request; only GETs are redirected.
	maxRedirects = 5
)

// New makes one. Nothing is asked yet.
func New(cfg Config) (*Authority, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.Roots != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(cfg.Roots)) {
			return nil, errors.New("the roots of the authority hold no certificate")
		}
	}
	h := &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2,
			IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != "https" || len(via) > maxRedirects {
				return fmt.Errorf("redirected to %s", r.URL.Redacted())
			}
			return nil
		},
	}
	a := &Authority{http: h, cfg: cfg}
	a.client = &acme.Client{
		Key: cfg.Key, HTTPClient: h, DirectoryURL: cfg.Directory, UserAgent: cfg.Agent, KID: acme.KeyID(cfg.Account), RetryBackoff: pause,
	}
	return a, nil
}

// Close lets its connections go.
func (a *Authority) Close() { a.http.CloseIdleConnections() }

// pause is how long to wait before a request is repeated; 0: it is not. Of what may be repeated only a nonce that was not taken is
// so at once: the rest waits for the next try of the whole, which is minutes away and not lost at a restart.
func pause(n int, _ *http.Request, res *http.Response) time.Duration {
	if res.StatusCode != http.StatusBadRequest || n > nonceTries {
		return 0
	}
	return time.Duration(n) * 20 * time.Millisecond
}

// Binding ties an account to a customer of the authority (RFC 8555 section 7.3.4). Key is not encoded.
type Binding struct {
	ID  string
	Key []byte
}

// Register makes the account, or finds it by its key, and gives its URL. Email may be "". It agrees to the authority's terms:
// whoever wrote that a certificate is to be ordered there does.
func (a *Authority) Register(ctx context.Context, email string, binding *Binding) (string, error) {
	want := &acme.Account{}
	if email != "" {
		want.Contact = []string{"mailto:" + email}
	}
	if binding != nil {
		want.ExternalAccountBinding = &acme.ExternalAccountBinding{KID: binding.ID, Key: binding.Key}
	}
	_, err := a.client.Register(ctx, want, acme.AcceptTOS)
	if err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return "", fmt.Errorf("account: %w", err)
	}
	a.cfg.Account = string(a.client.KID)
	if a.cfg.Account == "" {
		return "", errors.New("account: the authority gave no URL for it")
	}
	return a.cfg.Account, nil
}

// Begin orders a certificate for names and gives the order's URL.
func (a *Authority) Begin(ctx context.Context, names []string) (string, error) {
	o, err := a.client.AuthorizeOrder(ctx, acme.DomainIDs(names...))
	if err != nil {
		return "", fmt.Errorf("order: %w", err)
	}
	if o.URI == "" {
		return "", errors.New("order: the authority gave no URL for it")
	}
	return o.URI, nil
}

// Proof is what shows an authority that a name is ours.
type Proof struct {
	Name string `json:"name"` // without *.
	Kind string `json:"kind"` // http-01 | dns-01
	// Token is the last part of the path, of http-01.
	Token string `json:"token,omitempty"`
	// Value is the body of http-01, or the text of a TXT record at _acme-challenge.Name.
	Value string `json:"value"`
}

// Prover shows proofs.
type Prover interface {
	// Kind is by what a name is proved; wildcard: everything directly below it.
	Kind(name string, wildcard bool) string
	// Show returns when whoever asks anywhere gets the proofs. The authority asks once, and counts what fails.
	Show(ctx context.Context, proofs []Proof) error
}

// Prove proves the names of an order, if that is still needed.
func (a *Authority) Prove(ctx context.Context, order string, p Prover) error {
	o, err := a.client.GetOrder(ctx, order)
	if err != nil {
		return orderGone(err)
	}
	if o.Status == acme.StatusInvalid {
		return &DeadOrder{a.why(ctx, o)}
	}
	if o.Status != acme.StatusPending {
		return nil
	}
	var proofs []Proof
	var waits []*acme.Authorization
	var challenges []*acme.Challenge
	for _, url := range o.AuthzURLs {
		z, err := a.client.GetAuthorization(ctx, url)
		if err != nil {
			return fmt.Errorf("authorization: %w", err)
		}
		switch z.Status {
		case acme.StatusValid:
			continue
		case acme.StatusPending:
		default:
			return &DeadOrder{authorizationError(z)}
		}
		proof, c, err := a.proofOf(z, p)
		if err != nil {
			return &DeadOrder{err}
		}
		proofs, waits, challenges = append(proofs, proof), append(waits, z), append(challenges, c)
	}
	if err := p.Show(ctx, proofs); err != nil {
		return fmt.Errorf("show proofs: %w", err)
	}
	for _, c := range challenges {
		if c.Status != acme.StatusPending {
			continue // it was asked for before a restart
		}
		if _, err := a.client.Accept(ctx, c); err != nil {
			return fmt.Errorf("challenge: %w", err)
		}
	}
	for _, z := range waits {
		if _, err := a.client.WaitAuthorization(ctx, z.URI); err != nil {
			if failed, ok := errors.AsType[*acme.AuthorizationError](err); ok {
				return &DeadOrder{failed}
			}
			return fmt.Errorf("authorization of %s: %w", z.Identifier.Value, err)
		}
	}
	return a.awaitReady(ctx, order)
}

func (a *Authority) awaitReady(ctx context.Context, order string) error {
	_, err := a.client.WaitOrder(ctx, order)
	if _, dead := errors.AsType[*acme.OrderError](err); dead {
		return &DeadOrder{err}
	}
	if err != nil {
		return orderGone(err)
	}
	return nil
}

// proofOf chooses the challenge of an authorization.
func (a *Authority) proofOf(z *acme.Authorization, p Prover) (Proof, *acme.Challenge, error) {
	kind := p.Kind(z.Identifier.Value, z.Wildcard)
	i := slices.IndexFunc(z.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
	if i < 0 {
		var offered []string
		for _, c := range z.Challenges {
			offered = append(offered, c.Type)
		}
		return Proof{}, nil, &NotOffered{z.Identifier.Value, kind, strings.Join(offered, ", ")}
	}
	c := z.Challenges[i]
	proof := Proof{Name: strings.ToLower(z.Identifier.Value), Kind: kind, Token: c.Token}
	var err error
	if kind == "dns-01" {
		proof.Token = ""
		proof.Value, err = a.client.DNS01ChallengeRecord(c.Token)
	} else {
		proof.Value, err = a.client.HTTP01ChallengeResponse(c.Token)
	}
	if err == nil && !plainToken(c.Token) {
		err = fmt.Errorf("the authority's token for %s is malformed", z.Identifier.Value)
	}
	return proof, c, err
}

// plainToken reports whether a token is of base64url (RFC 8555 section 8), and so no path of its own.
func plainToken(s string) bool {
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// Finish gets the certificate of an order that is proved: the chain as DER, its own first. The request (CSR) must be of key, and for
// names.
func (a *Authority) Finish(ctx context.Context, order string, key crypto.Signer, names []string) ([][]byte, error) {
	o, err := a.client.GetOrder(ctx, order)
	if err != nil {
		return nil, orderGone(err)
	}
	if o.Status == acme.StatusProcessing {
		if err := a.awaitReady(ctx, order); err != nil {
			return nil, err
		}
		if o, err = a.client.GetOrder(ctx, order); err != nil {
			return nil, orderGone(err)
		}
	}
	var chain [][]byte
	switch o.Status {
	case acme.StatusValid:
		chain, err = a.client.FetchCert(ctx, o.CertURL, true)
	case acme.StatusReady:
		var request []byte
		if request, err = csr(key, names); err != nil {
			return nil, err
		}
		chain, _, err = a.client.CreateCertFromOrder(ctx, o, request, true)
	case acme.StatusInvalid:
		return nil, &DeadOrder{a.why(ctx, o)}
	default:
		return nil, &DeadOrder{fmt.Errorf("the order is %s", o.Status)}
	}
	if _, dead := errors.AsType[*acme.OrderError](err); dead {
		return nil, &DeadOrder{err}
	}
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if err := fits(chain, key, names); err != nil {
		return nil, &DeadOrder{err}
	}
	return chain, nil
}

// fits refuses a certificate that cannot be served: an authority may be wrong too.
func fits(chain [][]byte, key crypto.Signer, names []string) error {
	var leaf *x509.Certificate
	for i, der := range chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("certificate %d of the chain: %w", i+1, err)
		}
		if i == 0 {
			leaf = c
		}
	}
	if leaf == nil {
		return errors.New("the chain is empty")
	}
	want, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if !bytes.Equal(leaf.RawSubjectPublicKeyInfo, want) {
		return errors.New("the certificate is of another key than was asked for")
	}
	for _, n := range names {
		if !slices.Contains(leaf.DNSNames, n) {
			return fmt.Errorf("the certificate is not for %s", n)
		}
	}
	return nil
}

// why is what made an order invalid: of its authorizations, if it does not say it itself.
func (a *Authority) why(ctx context.Context, o *acme.Order) error {
	if o.Error != nil {
		return o.Error
	}
	for _, url := range o.AuthzURLs {
		if z, err := a.client.GetAuthorization(ctx, url); err == nil && z.Status != acme.StatusValid && z.Status != acme.StatusPending {
			return authorizationError(z)
		}
	}
	return errors.New("the order is invalid, and the authority does not say why")
}

func authorizationError(z *acme.Authorization) error {
	out := &acme.AuthorizationError{URI: z.URI, Identifier: z.Identifier.Value}
	for _, c := range z.Challenges {
		if c.Error != nil {
			out.Errors = append(out.Errors, c.Error)
		}
	}
	if len(out.Errors) == 0 {
		out.Errors = append(out.Errors, fmt.Errorf("the authorization is %s", z.Status))
	}
	return out
}

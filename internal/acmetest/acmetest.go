// Package acmetest is a certificate authority for tests, hard to please: it holds a client to every "must" of RFC 8555 that
// a client can break, keeps nonces, checks signatures and who owns what, and misbehaves when it is told to. It is no
// authority for anything else: what it signs is worth nothing.
package acmetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Config says what the authority asks, and what it signs. All fields may be zero.
type Config struct {
	// Dial gives the address that leads to a host's port 80; nil: nobody is reached.
	Dial func(host string) string
	// TXT looks up the texts at a name; nil: there are none.
	TXT func(name string) ([]string, error)
	// Now is the clock of certificates; nil: that of the machine. Life is how long they live; 0: 90 days.
	Now  func() time.Time
	Life time.Duration
	// Bindings are the keys of customers by their ID. Not empty: only they get accounts.
	Bindings map[string][]byte
	Listener net.Listener // to serve on; nil: any port of 127.0.0.1
}

// CA is a running authority. Its methods may run at the same time.
type CA struct {
	cfg    Config
	server *httptest.Server
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate

	mu       sync.Mutex
	nonces   map[string]bool
	accounts map[string]*account // by URL
	orders   map[string]*order   // by path
	authz    map[string]*authz
	faults   []*fault
	slow     chan struct{} // not closed: certificates stay under way; nil: they are made at once
	window   *[2]time.Time
	said     map[string]int // what was asked for, and which problems were told, by kind
	serial   int64
}

type account struct {
	url     string
	key     *ecdsa.PublicKey
	contact []string
}

// fault is what goes wrong next.
type fault struct {
	on     string // part of the path; "": any
	left   int    // how often; below 0: until Mend
	status int
	kind   string // problem type
	after  string // Retry-After
	drop   bool   // the connection ends instead
}

// New starts an authority. Close it.
func New(cfg Config) (*CA, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Life == 0 {
		cfg.Life = 90 * 24 * time.Hour
	}
	ca := &CA{cfg: cfg, nonces: map[string]bool{}, said: map[string]int{}, serial: time.Now().UnixNano()}
	ca.forget()
	if err := ca.makeRoot(); err != nil {
		return nil, err
	}
	ca.server = httptest.NewUnstartedServer(http.HandlerFunc(ca.serve))
	if cfg.Listener != nil {
		_ = ca.server.Listener.Close() // it was not served on
		ca.server.Listener = cfg.Listener
	}
	ca.server.StartTLS()
	return ca, nil
}

func (ca *CA) forget() {
	ca.accounts, ca.orders, ca.authz = map[string]*account{}, map[string]*order{}, map[string]*authz{}
}

func (ca *CA) makeRoot() error {
	var err error
	if ca.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return fmt.Errorf("key of the authority: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "acmetest"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1, 2, 3, 4},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &ca.key.PublicKey, ca.key)
	if err != nil {
		return fmt.Errorf("certificate of the authority: %w", err)
	}
	ca.cert, err = x509.ParseCertificate(der)
	return err
}

// Close ends it.
func (ca *CA) Close() { ca.server.Close() }

// Directory is the URL of its directory.
func (ca *CA) Directory() string { return ca.server.URL + "/dir" }

// Roots sign its own certificate, in PEM form.
func (ca *CA) Roots() string { return pemOf(ca.server.Certificate().Raw) }

// Root signs the certificates that it gives out.
func (ca *CA) Root() *x509.Certificate { return ca.cert }

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Refuse answers the next n requests whose path has a part on (below 0: all, until Mend) with a problem of a kind, as the last
// part of its type; after is Retry-After.
func (ca *CA) Refuse(n int, on string, status int, kind, after string) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.faults = append(ca.faults, &fault{on: on, left: n, status: status, kind: kind, after: after})
}

// Drop ends the connection of the next n requests without an answer.
func (ca *CA) Drop(n int, on string) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.faults = append(ca.faults, &fault{on: on, left: n, drop: true})
}

// Mend ends all of that.
func (ca *CA) Mend() {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.faults = nil
}

// Hold keeps certificates under way until the function is called.
func (ca *CA) Hold() (goOn func()) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	hold := make(chan struct{})
	ca.slow = hold
	return sync.OnceFunc(func() {
		ca.mu.Lock()
		defer ca.mu.Unlock()
		close(hold)
	})
}

// Forget loses all accounts and orders, as an authority does that keeps them in memory.
func (ca *CA) Forget() {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.forget()
}

// RenewIn says when certificates should be renewed from now on (RFC 9773).
func (ca *CA) RenewIn(start, end time.Time) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.window = &[2]time.Time{start, end}
}

// Count is how often something was asked for: account, order, challenge, finalize, certificate, renewal; or a problem was told:
// badNonce, malformed, ...
func (ca *CA) Count(what string) int {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	return ca.said[what]
}

// serve answers one request.
func (ca *CA) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Link", "<"+ca.Directory()+`>;rel="index"`)
	if f := ca.goesWrong(r); f != nil {
		if f.drop {
			panic(http.ErrAbortHandler)
		}
		if f.after != "" {
			w.Header().Set("Retry-After", f.after)
		}
		w.Header().Set("Replay-Nonce", ca.nonce())
		ca.problem(w, &problem{f.status, f.kind, "as the test wants it"})
		return
	}
	switch {
	case r.URL.Path == "/dir" && r.Method == http.MethodGet:
		ca.directory(w)
	case r.URL.Path == "/nonce" && (r.Method == http.MethodHead || r.Method == http.MethodGet):
		w.Header().Set("Replay-Nonce", ca.nonce())
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNoContent)
		}
	case strings.HasPrefix(r.URL.Path, "/renewal/") && r.Method == http.MethodGet:
		ca.renewal(w, r)
	case r.Method == http.MethodPost:
		w.Header().Set("Replay-Nonce", ca.nonce())
		if err := ca.post(w, r); err != nil {
			ca.problem(w, err)
		}
	default:
		ca.problem(w, &problem{http.StatusMethodNotAllowed, "malformed", r.Method + " " + r.URL.Path + ": reads are POST-as-GET"})
	}
}

func (ca *CA) goesWrong(r *http.Request) *fault {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	for _, f := range ca.faults {
		if f.left != 0 && strings.Contains(r.URL.Path, f.on) && (f.kind != "badNonce" || r.Method == http.MethodPost) {
			if f.left > 0 {
				f.left--
			}
			return f
		}
	}
	return nil
}

func (ca *CA) directory(w http.ResponseWriter) {
	u := ca.server.URL
	d := map[string]any{
		"newNonce": u + "/nonce", "newAccount": u + "/account", "newOrder": u + "/order", "revokeCert": u + "/revoke", "keyChange": u + "/key",
		"meta": map[string]any{"termsOfService": u + "/terms", "externalAccountRequired": len(ca.cfg.Bindings) > 0},
	}
	ca.mu.Lock()
	if ca.window != nil {
		d["renewalInfo"] = u + "/renewal"
	}
	ca.mu.Unlock()
	answer(w, http.StatusOK, d)
}

// renewal answers when a certificate should be renewed. The name must be that of one with our key.
func (ca *CA) renewal(w http.ResponseWriter, r *http.Request) {
	key, serial, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/renewal/"), ".")
	id, err := base64.RawURLEncoding.Strict().DecodeString(key)
	if _, err2 := base64.RawURLEncoding.Strict().DecodeString(serial); !ok || err != nil || err2 != nil || string(id) != string(ca.cert.SubjectKeyId) {
		ca.problem(w, &problem{http.StatusNotFound, "malformed", "no such certificate"})
		return
	}
	ca.mu.Lock()
	ca.said["renewal"]++
	window := ca.window
	ca.mu.Unlock()
	w.Header().Set("Retry-After", "21600")
	answer(w, http.StatusOK, map[string]any{"suggestedWindow": map[string]any{"start": window[0], "end": window[1]}})
}

func (ca *CA) nonce() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	n := base64.RawURLEncoding.EncodeToString(b)
	ca.mu.Lock()
	defer ca.mu.Unlock()
	ca.nonces[n] = true
	return n
}

// problem is a refusal (RFC 8555 section 6.7).
type problem struct {
	Status int
	Kind   string
	Detail string
}

func (p *problem) Error() string { return p.Kind + ": " + p.Detail }

func (p *problem) body() map[string]any {
	return map[string]any{"type": "urn:ietf:params:acme:error:" + p.Kind, "detail": p.Detail, "status": p.Status}
}

func malformed(format string, args ...any) *problem {
	return &problem{http.StatusBadRequest, "malformed", fmt.Sprintf(format, args...)}
}

func (ca *CA) problem(w http.ResponseWriter, err error) {
	p, ok := err.(*problem)
	if !ok {
		p = &problem{http.StatusInternalServerError, "serverInternal", err.Error()}
	}
	ca.mu.Lock()
	ca.said[p.Kind]++
	ca.mu.Unlock()
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.body()) // who left reads nothing
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who left reads nothing
}

package acmetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// States of orders, authorizations and challenges.
const (
	pending    = "pending"
	ready      = "ready"
	processing = "processing"
	valid      = "valid"
	invalid    = "invalid"
)

type identifier struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type order struct {
	path    string
	owner   *account
	status  string
	names   []identifier
	authz   []*authz
	problem *problem
	chain   string
}

type authz struct {
	path     string
	order    *order
	name     string // without *.
	wildcard bool
	status   string
	kinds    []*challenge
}

type challenge struct {
	kind, token, status string
	problem             *problem
}

// post does what a signed request says.
func (ca *CA) post(w http.ResponseWriter, r *http.Request) error {
	s, err := ca.read(r)
	if err != nil {
		return err
	}
	if r.URL.Path == "/account" {
		return ca.newAccount(w, s)
	}
	if s.account == nil {
		return malformed("this is signed by the account: kid is needed")
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/order":
		return ca.newOrder(w, s)
	case parts[0] == "order" && len(parts) == 2:
		return ca.showOrder(w, s, r.URL.Path)
	case parts[0] == "finalize" && len(parts) == 2:
		return ca.finalize(w, s, "/order/"+parts[1])
	case parts[0] == "certificate" && len(parts) == 2:
		return ca.certificate(w, s, "/order/"+parts[1])
	case parts[0] == "authz" && len(parts) == 2:
		return ca.showAuthz(w, s, r.URL.Path)
	case parts[0] == "authz" && len(parts) == 3:
		return ca.accept(w, s, "/authz/"+parts[1], parts[2])
	}
	return &problem{http.StatusNotFound, "malformed", "no such resource"}
}

func (ca *CA) newAccount(w http.ResponseWriter, s *signed) error {
	if s.account != nil {
		return malformed("a new account is asked for by its key: jwk is needed")
	}
	var q struct {
		Agreed   bool            `json:"termsOfServiceAgreed"`
		Contact  []string        `json:"contact"`
		Existing bool            `json:"onlyReturnExisting"`
		Binding  json.RawMessage `json:"externalAccountBinding"`
	}
	if err := decode(s.payload, &q); err != nil {
		return malformed("account: %v", err)
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	status := http.StatusOK
	var a *account
	for _, x := range ca.accounts {
		if x.key.Equal(s.key) {
			a = x
		}
	}
	switch {
	case a != nil:
	case q.Existing:
		return &problem{http.StatusBadRequest, "accountDoesNotExist", "no account has this key"}
	case !q.Agreed:
		return &problem{http.StatusForbidden, "userActionRequired", "agree to the terms"}
	case slices.ContainsFunc(q.Contact, func(c string) bool { return !mailto(c) }):
		return &problem{http.StatusBadRequest, "unsupportedContact", strings.Join(q.Contact, " ")}
	case len(ca.cfg.Bindings) > 0 && q.Binding == nil:
		return &problem{http.StatusForbidden, "externalAccountRequired", "customers only"}
	case q.Binding != nil:
		if err := ca.bound(q.Binding, s); err != nil {
			return err
		}
	}
	if a == nil {
		status = http.StatusCreated
		a = &account{url: ca.server.URL + "/account/" + ca.id(), key: s.key, contact: q.Contact}
		ca.accounts[a.url] = a
		ca.said["account"]++
	}
	w.Header().Set("Location", a.url)
	answer(w, status, map[string]any{"status": valid, "contact": a.contact, "orders": a.url + "/orders"})
	return nil
}

// id is a fresh name. The lock is held.
func (ca *CA) id() string {
	ca.serial++
	return strconv.FormatInt(ca.serial, 36)
}

func token() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // it never fails
	return strict64().EncodeToString(b)
}

func (ca *CA) newOrder(w http.ResponseWriter, s *signed) error {
	var q struct {
		Identifiers []identifier `json:"identifiers"`
	}
	if err := decode(s.payload, &q); err != nil || len(q.Identifiers) == 0 {
		return malformed("order: %v", err)
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	id := ca.id()
	o := &order{path: "/order/" + id, owner: s.account, status: pending, names: q.Identifiers}
	for i, n := range q.Identifiers {
		name, wild := strings.CutPrefix(n.Value, "*.")
		if n.Type != "dns" || name != strings.ToLower(name) || !strings.Contains(name, ".") || slices.Contains(q.Identifiers[:i], n) {
			return &problem{http.StatusBadRequest, "rejectedIdentifier", n.Value}
		}
		z := &authz{path: "/authz/" + ca.id(), order: o, name: name, wildcard: wild, status: pending}
		kinds := []string{"http-01", "dns-01"}
		if wild {
			kinds = kinds[1:]
		}
		for _, k := range kinds {
			z.kinds = append(z.kinds, &challenge{kind: k, token: token(), status: pending})
		}
		o.authz = append(o.authz, z)
		ca.authz[z.path] = z
	}
	ca.orders[o.path] = o
	ca.said["order"]++
	w.Header().Set("Location", ca.server.URL+o.path)
	answer(w, http.StatusCreated, ca.orderBody(o))
	return nil
}

// orderBody is an order as it is shown. The lock is held.
func (ca *CA) orderBody(o *order) map[string]any {
	id := strings.TrimPrefix(o.path, "/order/")
	b := map[string]any{"status": o.status, "identifiers": o.names, "finalize": ca.server.URL + "/finalize/" + id, "expires": time.Now().Add(24 * time.Hour).UTC()}
	var zs []string
	for _, z := range o.authz {
		zs = append(zs, ca.server.URL+z.path)
	}
	b["authorizations"] = zs
	if o.problem != nil {
		b["error"] = o.problem.body()
	}
	if o.status == valid {
		b["certificate"] = ca.server.URL + "/certificate/" + id
	}
	return b
}

// own finds an order of the account that asks. The lock is held.
func (ca *CA) own(s *signed, path string) (*order, error) {
	o := ca.orders[path]
	switch {
	case o == nil:
		return nil, &problem{http.StatusNotFound, "malformed", "no such order"}
	case o.owner != s.account:
		return nil, &problem{http.StatusForbidden, "unauthorized", "the order of another account"}
	}
	return o, nil
}

func asGet(s *signed) error {
	if s.payload != nil {
		return malformed("reads have an empty payload")
	}
	return nil
}

func (ca *CA) showOrder(w http.ResponseWriter, s *signed, path string) error {
	if err := asGet(s); err != nil {
		return err
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	o, err := ca.own(s, path)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, ca.orderBody(o))
	return nil
}

func (ca *CA) authzBody(z *authz) map[string]any {
	b := map[string]any{"status": z.status, "identifier": identifier{"dns", z.name}, "expires": time.Now().Add(24 * time.Hour).UTC()}
	if z.wildcard {
		b["wildcard"] = true
	}
	var list []any
	for _, c := range z.kinds {
		list = append(list, ca.challengeBody(z, c))
	}
	b["challenges"] = list
	return b
}

func (ca *CA) challengeBody(z *authz, c *challenge) map[string]any {
	b := map[string]any{"type": c.kind, "url": ca.server.URL + z.path + "/" + c.kind, "status": c.status, "token": c.token}
	if c.problem != nil {
		b["error"] = c.problem.body()
	}
	return b
}

func (ca *CA) showAuthz(w http.ResponseWriter, s *signed, path string) error {
	if err := asGet(s); err != nil {
		return err
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	z := ca.authz[path]
	if z == nil || z.order.owner != s.account {
		return &problem{http.StatusNotFound, "malformed", "no such authorization"}
	}
	answer(w, http.StatusOK, ca.authzBody(z))
	return nil
}

// quick is how long the answer to a challenge waits for what comes of it, so that tests need not poll.
const quick = 5 * time.Second

// accept begins to look for a proof.
func (ca *CA) accept(w http.ResponseWriter, s *signed, path, kind string) error {
	if string(s.payload) != "{}" {
		return malformed("a challenge is answered by {}")
	}
	ca.mu.Lock()
	z := ca.authz[path]
	if z == nil || z.order.owner != s.account {
		ca.mu.Unlock()
		return &problem{http.StatusNotFound, "malformed", "no such authorization"}
	}
	i := slices.IndexFunc(z.kinds, func(c *challenge) bool { return c.kind == kind })
	if i < 0 || z.status != pending || z.kinds[i].status != pending {
		ca.mu.Unlock()
		return malformed("the challenge is not pending")
	}
	c := z.kinds[i]
	c.status = processing
	ca.said["challenge"]++
	ca.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); ca.decide(z, c, ca.look(z, c, s.account)) }()
	select {
	case <-done:
	case <-time.After(quick):
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	w.Header().Add("Link", "<"+ca.server.URL+z.path+`>;rel="up"`)
	answer(w, http.StatusOK, ca.challengeBody(z, c))
	return nil
}

// look looks for a proof, from two places as it were.
func (ca *CA) look(z *authz, c *challenge, a *account) *problem {
	proof := c.token + "." + thumbprint(a.key)
	for range 2 {
		var p *problem
		if c.kind == "dns-01" {
			p = ca.lookDNS(z.name, proof)
		} else {
			p = ca.lookHTTP(z.name, c.token, proof)
		}
		if p != nil {
			return p
		}
	}
	return nil
}

func (ca *CA) lookDNS(name, proof string) *problem {
	if ca.cfg.TXT == nil {
		return &problem{http.StatusBadRequest, "dns", "no name server is reached"}
	}
	texts, err := ca.cfg.TXT("_acme-challenge." + name)
	if err != nil {
		return &problem{http.StatusBadRequest, "dns", err.Error()}
	}
	sum := sha256.Sum256([]byte(proof))
	if want := strict64().EncodeToString(sum[:]); !slices.Contains(texts, want) {
		return &problem{http.StatusForbidden, "unauthorized", fmt.Sprintf("the TXT records at _acme-challenge.%s are %q", name, texts)}
	}
	return nil
}

func (ca *CA) lookHTTP(name, token, proof string) *problem {
	if ca.cfg.Dial == nil {
		return &problem{http.StatusBadRequest, "connection", "port 80 of " + name + " is not reached"}
	}
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || port != "80" {
			return nil, fmt.Errorf("led to %s", addr)
		}
		return new(net.Dialer).DialContext(ctx, network, ca.cfg.Dial(host))
	}}
	defer t.CloseIdleConnections()
	res, err := (&http.Client{Transport: t, Timeout: 20 * time.Second}).Get("http://" + name + "/.well-known/acme-challenge/" + token)
	if err != nil {
		return &problem{http.StatusBadRequest, "connection", err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return &problem{http.StatusBadRequest, "connection", err.Error()}
	}
	if got := strings.TrimRight(string(body), " \t\r\n"); res.StatusCode != http.StatusOK || got != proof {
		return &problem{http.StatusForbidden, "unauthorized", fmt.Sprintf("http://%s/.well-known/acme-challenge/ answers %d %.40q", name, res.StatusCode, got)}
	}
	return nil
}

// decide notes what came of a challenge.
func (ca *CA) decide(z *authz, c *challenge, p *problem) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	if p != nil {
		ca.said[p.Kind]++
		c.status, c.problem, z.status, z.order.status = invalid, p, invalid, invalid
		return
	}
	c.status, z.status = valid, valid
	if z.order.status == pending && !slices.ContainsFunc(z.order.authz, func(x *authz) bool { return x.status != valid }) {
		z.order.status = ready
	}
}

func (ca *CA) finalize(w http.ResponseWriter, s *signed, path string) error {
	var q struct {
		CSR string `json:"csr"`
	}
	if err := decode(s.payload, &q); err != nil {
		return malformed("finalize: %v", err)
	}
	der, err := strict64().DecodeString(q.CSR)
	if err != nil {
		return malformed("finalize: %v", err)
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	o, err := ca.own(s, path)
	if err != nil {
		return err
	}
	if o.status != ready {
		return &problem{http.StatusForbidden, "orderNotReady", "the order is " + o.status}
	}
	csr, err := ca.readCSR(der, o)
	if err != nil {
		return err
	}
	ca.said["finalize"]++
	o.status = processing
	hold := ca.slow
	if hold == nil {
		ca.sign(o, csr)
	} else {
		go func() {
			<-hold
			ca.mu.Lock()
			defer ca.mu.Unlock()
			ca.sign(o, csr)
		}()
	}
	w.Header().Set("Location", ca.server.URL+o.path)
	answer(w, http.StatusOK, ca.orderBody(o))
	return nil
}

// readCSR checks a request for a certificate against its order.
func (ca *CA) readCSR(der []byte, o *order) (*x509.CertificateRequest, error) {
	bad := func(format string, args ...any) error {
		return &problem{http.StatusBadRequest, "badCSR", fmt.Sprintf(format, args...)}
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, bad("%v", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, bad("%v", err)
	}
	var want []string
	for _, n := range o.names {
		want = append(want, n.Value)
	}
	got := slices.Clone(csr.DNSNames)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || csr.Subject.CommonName != "" && !slices.Contains(want, csr.Subject.CommonName) || len(csr.IPAddresses) > 0 {
		return nil, bad("it is for %v, and the order for %v", got, want)
	}
	if o.owner.key.Equal(csr.PublicKey) {
		return nil, bad("the key is that of the account")
	}
	return csr, nil
}

// sign makes the certificate of an order. The lock is held.
func (ca *CA) sign(o *order, csr *x509.CertificateRequest) {
	now := ca.cfg.Now()
	ca.serial++
	t := &x509.Certificate{
		SerialNumber: big.NewInt(ca.serial), DNSNames: csr.DNSNames, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(ca.cfg.Life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, csr.PublicKey, ca.key)
	if err != nil {
		o.status, o.problem = invalid, &problem{http.StatusInternalServerError, "serverInternal", err.Error()}
		return
	}
	o.status, o.chain = valid, pemOf(der)+pemOf(ca.cert.Raw)
}

func (ca *CA) certificate(w http.ResponseWriter, s *signed, path string) error {
	if err := asGet(s); err != nil {
		return err
	}
	ca.mu.Lock()
	defer ca.mu.Unlock()
	o, err := ca.own(s, path)
	if err != nil {
		return err
	}
	if o.status != valid {
		return &problem{http.StatusForbidden, "orderNotReady", "the order is " + o.status}
	}
	ca.said["certificate"]++
	w.Header().Set("Content-Type", "application/pem-certificate-chain")
	_, _ = io.WriteString(w, o.chain) // who left reads nothing
	return nil
}

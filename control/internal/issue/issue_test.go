package issue

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"steerpoint/internal/acmetest"
)

// shown proves by what the authority's test hook looks at.
type shown struct {
	kind string
	list []Proof
	err  error
}

func (s *shown) Kind(string, bool) string { return s.kind }
func (s *shown) Show(_ context.Context, list []Proof) error {
	s.list = append(s.list, list...)
	return s.err
}

// client is a registered account with an authority.
func client(t *testing.T, cfg acmetest.Config) (*Authority, *acmetest.CA, *shown) {
	t.Helper()
	p := &shown{kind: "dns-01"}
	cfg.TXT = func(name string) (out []string, err error) {
		for _, one := range p.list {
			if "_acme-challenge."+one.Name == name {
				out = append(out, one.Value)
			}
		}
		return out, nil
	}
	ca, err := acmetest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ca.Close)
	key, _, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Directory: ca.Directory(), Roots: ca.Roots(), Key: key, Agent: "steer/test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	if _, err := a.Register(t.Context(), "a@example.com", nil); err != nil {
		t.Fatal(err)
	}
	return a, ca, p
}

// TestOrder takes an order from its beginning to the certificate, with nonces that are not taken, and again from each point
// where a process may have ended.
//
// Covers: issue6 acme client
func TestOrder(t *testing.T) {
	a, ca, p := client(t, acmetest.Config{})
	ctx := t.Context()
	names := []string{"*.a.example", "a.example"}
	key, _, err := NewKey("ecdsa-p384")
	if err != nil {
		t.Fatal(err)
	}
	ca.Refuse(5, "", 400, "badNonce", "")
	order, err := a.Begin(ctx, names)
	if err != nil {
		t.Fatal(err)
	}
	p.err = errors.New("no room")
	if err := a.Prove(ctx, order, p); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a proof that cannot be shown: %v", err)
	}
	if ca.Count("challenge") != 0 {
		t.Error("the authority was told of it")
	}
	p.err = nil
	for range 2 { // the second finds that it is proved
		if err := a.Prove(ctx, order, p); err != nil {
			t.Fatal(err)
		}
	}
	if n := ca.Count("challenge"); n != 2 {
		t.Errorf("%d challenges for two names", n)
	}
	ca.Refuse(5, "/finalize/", 400, "badNonce", "")
	for range 2 { // the second finds that it is made
		chain, err := a.Finish(ctx, order, key, names)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := Leaf(PEM(chain))
		if err != nil || len(chain) != 2 || leaf.VerifyHostname("x.a.example") != nil {
			t.Errorf("%v, %d certificates", err, len(chain))
		}
	}
	if n := ca.Count("finalize"); n != 1 {
		t.Errorf("finalized %d times", n)
	}
	other, _, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Finish(ctx, order, other, names); !Explain(err, time.Now()).Dead {
		t.Errorf("a certificate of another key: %v", err)
	}
	if _, err := a.Finish(ctx, order, key, append(names, "b.example")); !Explain(err, time.Now()).Dead {
		t.Errorf("a certificate without a name: %v", err)
	}
	if err := a.Prove(ctx, ca.Directory()+"/../order/none", p); !Explain(err, time.Now()).Dead {
		t.Errorf("an order that is not there: %v", err)
	}
}

// TestFailedProof: what cannot be proved ends the order, with the authority's words, and says so again later.
//
// Covers: issue6 acme client
func TestFailedProof(t *testing.T) {
	a, _, p := client(t, acmetest.Config{})
	p.kind = "http-01" // nobody answers
	for range 2 {
		order, err := a.Begin(t.Context(), []string{"a.example"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			f := Explain(a.Prove(t.Context(), order, p), time.Now())
			if !f.Dead || f.Reason != Unproved || !strings.Contains(f.What, "port 80 of a.example is not reached") || f.Do == "" {
				t.Errorf("%+v", f)
			}
		}
	}
	order, err := a.Begin(t.Context(), []string{"*.a.example"})
	if err != nil {
		t.Fatal(err)
	}
	if f := Explain(a.Prove(t.Context(), order, p), time.Now()); f.Reason != Refused || !strings.Contains(f.What, "offers dns-01") || !f.Dead {
		t.Errorf("%+v", f)
	}
}

// TestWrongAuthorities: an authority that is none, answers nonsense, or leads elsewhere is an error and no panic.
//
// Covers: issue6 acme client
func TestWrongAuthorities(t *testing.T) {
	key, _, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for what, h := range map[string]http.HandlerFunc{
		"nothing":    func(http.ResponseWriter, *http.Request) {},
		"nonsense":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"no URLs":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"a page":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"plain HTTP": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) },
		"a circle":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
	} {
		s := httptest.NewTLSServer(h)
		a, err := New(Config{Directory: s.URL, Roots: roots(s), Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Register(t.Context(), "", nil); err == nil {
			t.Errorf("%s: it was registered", what)
		} else if f := Explain(err, time.Now()); f.What == "" || f.Do == "" || strings.Contains(f.What, "\n") {
			t.Errorf("%s: %+v", what, f)
		}
		a.Close()
		s.Close()
	}
	if _, err := New(Config{Roots: "nonsense"}); err == nil {
		t.Error("roots that are none were taken")
	}
}

func roots(s *httptest.Server) string { return PEM([][]byte{s.Certificate().Raw}) }

// TestExplain: what an authority says becomes a reason, a line, what to do and how long to wait.
//
// Covers: issue6 acme client
func TestExplain(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	said := func(status int, kind, after string) error {
		e := &acme.Error{StatusCode: status, ProblemType: "urn:ietf:params:acme:error:" + kind, Detail: "words\nof it\x1b[31m", Header: http.Header{}}
		if after != "" {
			e.Header.Set("Retry-After", after)
		}
		return fmt.Errorf("order: %w", e)
	}
	for _, c := range []struct {
		err    error
		reason string
		after  time.Duration
		dead   bool
	}{
		{said(429, "rateLimited", "3600"), RateLimited, time.Hour, false},
		{said(429, "rateLimited", now.Add(2*time.Hour).Format(http.TimeFormat)), RateLimited, 2 * time.Hour, false},
		{said(429, "rateLimited", now.Add(-time.Hour).Format(http.TimeFormat)), RateLimited, 0, false},
		{said(429, "rateLimited", "99999999999"), RateLimited, maxWait, false},
		{said(429, "unheardOf", "x"), RateLimited, 0, false},
		{said(503, "serverInternal", "60"), Busy, time.Minute, false},
		{said(502, "", ""), Busy, 0, false},
		{said(403, "caa", ""), Refused, 0, false},
		{said(400, "accountDoesNotExist", ""), NoAccount, 0, false},
		{&DeadOrder{&acme.AuthorizationError{Identifier: "a.example", Errors: []error{&acme.Error{ProblemType: "urn:ietf:params:acme:error:dns"}}}}, Unproved, 0, true},
		{&DeadOrder{&acme.OrderError{Status: "invalid", Problem: &acme.Error{ProblemType: "urn:ietf:params:acme:error:badCSR"}}}, Refused, 0, true},
		{&Local{errors.New("no zone"), "write one"}, Here, 0, false},
		{&NotOffered{"a", "http-01", "dns-01"}, Refused, 0, false},
		{fmt.Errorf("get: %w", context.Canceled), Stopped, 0, false},
		{fmt.Errorf("get: %w", context.DeadlineExceeded), Unreachable, 0, false},
		{errors.New("something"), Failed, 0, false},
	} {
		f := Explain(c.err, now)
		if f.Reason != c.reason || f.After != c.after || f.Dead != c.dead || f.What == "" || f.Do == "" || strings.ContainsAny(f.What, "\n\x1b") {
			t.Errorf("%v: %+v", c.err, f)
		}
	}
	if f := Explain(said(400, "accountDoesNotExist", ""), now); !f.Unknown {
		t.Error("an account that is not there is not known as such")
	}
	if s := line(strings.Repeat("é", 1000)); len(s) > maxText+3 {
		t.Errorf("a line of %d octets", len(s))
	}
}

// TestWhen: waits grow, fit into what Let's Encrypt allows, and keep to what the authority asks; renewal is due by life.
//
// Covers: issue6 acme client
func TestWhen(t *testing.T) {
	var hour time.Duration
	tries := 1
	for n := 1; hour < time.Hour; n++ {
		hour += Wait(n, 0)
		if hour < time.Hour {
			tries++
		}
	}
	if tries > 5 {
		t.Errorf("%d tries within an hour", tries)
	}
	for n, want := range map[int]time.Duration{0: time.Minute, 1: time.Minute, 7: 12 * time.Hour, 1000: 12 * time.Hour} {
		if d := Wait(n, 0); d < want || d > want*6/5 {
			t.Errorf("%d failures: %s", n, d)
		}
	}
	if d := Wait(1, 2*time.Hour); d < 2*time.Hour {
		t.Errorf("the authority asked for 2 h: %s", d)
	}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, c := range []struct{ life, before, least, most time.Duration }{
		{90 * day, 30 * day, 30 * day, 31*day + 12*time.Hour},
		{6 * day, 30 * day, 2 * day, 2*day + 3*time.Hour},
		{90 * day, 7 * day, 7 * day, 8 * day},
	} {
		for _, name := range []string{"a", "b", "www.example.com"} {
			left := start.Add(c.life).Sub(RenewAt(start, start.Add(c.life), c.before, name))
			if left < c.least || left > c.most {
				t.Errorf("life %s, before %s: renewed %s before its end", c.life, c.before, left)
			}
		}
	}
}

// TestRenewalInfo: the name of a certificate is that of RFC 9773 section 4.1, the time in a window is chosen once, and answers that
// make no sense are errors.
//
// Covers: issue6 acme client
func TestRenewalInfo(t *testing.T) {
	serial, _ := new(big.Int).SetString("8765432100", 16) // its first octet has the high bit set
	id, err := certID(&x509.Certificate{AuthorityKeyId: []byte{0x69, 0x88}, SerialNumber: serial})
	if err != nil || id != "aYg.AIdlQyEA" {
		t.Errorf("%s, %v", id, err)
	}
	if _, err := certID(&x509.Certificate{SerialNumber: serial}); err == nil {
		t.Error("a certificate that names no authority has a name")
	}
	now := time.Now()
	answer := `{"suggestedWindow": {"start": "2026-01-02T00:00:00Z", "end": "2026-01-03T00:00:00Z"}, "explanationURL": "https://why"}`
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			fmt.Fprintf(w, `{"renewalInfo": "https://%s/info/"}`, r.Host)
			return
		}
		w.Header().Set("Retry-After", "3")
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	a, err := New(Config{Directory: s.URL + "/", Roots: roots(s)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	leaf := &x509.Certificate{AuthorityKeyId: []byte{1}, SerialNumber: big.NewInt(5)}
	w, err := a.Renewal(t.Context(), leaf, nil, now)
	if err != nil || w.At.Before(w.Start) || w.At.After(w.End) || w.Again.Sub(now) != leastAgain || w.Why != "https://why" {
		t.Fatalf("%+v, %v", w, err)
	}
	for range 5 {
		again, err := a.Renewal(t.Context(), leaf, w, now)
		if err != nil || !again.At.Equal(w.At) {
			t.Errorf("another time was chosen in the same window: %+v, %v", again, err)
		}
	}
	for _, answer = range []string{"", "[]", "{}", `{"suggestedWindow": {"start": "2026-01-03T00:00:00Z", "end": "2026-01-02T00:00:00Z"}}`} {
		if _, err := a.Renewal(t.Context(), leaf, w, now); err == nil {
			t.Errorf("%q was taken", answer)
		}
	}
	silent := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	t.Cleanup(silent.Close)
	b, err := New(Config{Directory: silent.URL, Roots: roots(silent)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Renewal(t.Context(), leaf, nil, now); !errors.Is(err, ErrNoRenewalInfo) {
		t.Errorf("an authority that says nothing: %v", err)
	}
}

// TestKeys: each kind of key comes back from its text, and what is no key shows nothing of it.
//
// Covers: issue6 acme client
func TestKeys(t *testing.T) {
	for _, kind := range []string{"", "ecdsa-p256", "ecdsa-p384", "rsa-2048"} {
		_, text, err := NewKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseKey(text); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := ParseKey(text[:len(text)-40]); err == nil {
			t.Errorf("%s: half a key was taken", kind)
		}
	}
	if _, _, err := NewKey("dsa"); err == nil {
		t.Error("a kind that there is not")
	}
	for token, want := range map[string]bool{"abc-_09": true, "": false, "a/b": false, "..": false, "a b": false, strings.Repeat("a", 257): false} {
		if plainToken(token) != want {
			t.Errorf("token %q", token)
		}
	}
}

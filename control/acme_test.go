package control

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/issue"
	"steerpoint/internal/acmetest"
	"steerpoint/snapshot"
)

// serves fails unless a pair is one that an authority signed for names.
func (o *ordering) serves(p snapshot.EdgeKeyPair, names ...string) {
	o.t.Helper()
	pair, err := tls.X509KeyPair([]byte(p.Chain), []byte(p.Key.Reveal()))
	if err != nil {
		o.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(o.ca.Root())
	for _, n := range names {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: n, CurrentTime: o.clock.Moment().Wall}); err != nil {
			o.t.Error(err)
		}
	}
}

// TestOrderedByHTTP: a certificate is ordered, proved by what gateways answer, handed to them with its key, and kept over a
// restart without anything being asked again; the proofs are gone then, and the key is nowhere to be read.
//
// Covers: issue6 acme
func TestOrderedByHTTP(t *testing.T) {
	t.Parallel()
	o := startOrdering(t, nil)
	o.ca.Refuse(3, "", 400, "badNonce", "") // taken by the way
	o.apply(zoneYAML, o.orderedYAML("a.example.com, b.example.com", ""))
	p := o.issued(snapshot.EdgeKeyPair{})
	o.serves(p, "a.example.com", "b.example.com")
	o.await("the proofs are gone", func() bool { e, _, _ := o.g.now(); return len(e.Challenges) == 0 })
	v := o.certificate("web")
	if v.State != api.CertificateValid || v.NotAfter == nil || v.RenewAt == nil || v.Failures != 0 || !slices.Equal(v.Services, []string{"store"}) {
		t.Errorf("%+v", v)
	}
	if before := v.NotAfter.Sub(*v.RenewAt); before < 30*24*time.Hour || before > 32*24*time.Hour {
		t.Errorf("it is renewed %s before its end", before)
	}
	if o.alarmed(api.AlarmOrder) || o.alarmed(api.AlarmCertificate) {
		t.Error("an alarm")
	}
	status := o.textAt("/api/v1/status")
	key := strings.Split(p.Key.Reveal(), "\n")[1]
	if strings.Contains(status, key) {
		t.Error("status shows the key")
	}
	orders := o.ca.Count("order")
	o.again()
	o.await("what is kept", func() bool { return o.g.has(p) })
	if n := o.ca.Count("order"); n != orders || o.ca.Count("account") != 1 {
		t.Errorf("%d orders, %d before; %d accounts", n, orders, o.ca.Count("account"))
	}
}

// TestOrderedByDNS: names of our zones are proved by records there, a name and its wildcard at one; they are in the map that name
// servers have before the authority is told, and gone after.
//
// Covers: issue6 acme, issue6 acme dns
func TestOrderedByDNS(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	o := startOrdering(t, func(cfg *acmetest.Config) {
		look := cfg.TXT
		cfg.TXT = func(name string) ([]string, error) { asked.Add(1); return look(name) }
	})
	o.apply(zoneYAML, dynamicZone, secretYAML("updates", "k", tsigValue), o.orderedYAML("app.plain.example, *.app.plain.example", "  keyType: rsa-2048\n"))
	p := o.issued(snapshot.EdgeKeyPair{})
	o.serves(p, "app.plain.example", "x.app.plain.example")
	if asked.Load() == 0 {
		t.Error("no record was looked up")
	}
	o.await("the records are gone", func() bool { return o.published("_acme-challenge.app.plain.example.", "TXT") == nil })
	o.await("and nothing waits for it", func() bool { return len(o.orders.get("web").state.Proofs) == 0 })
	if _, err := o.client.Get(t.Context(), "dynamicrecords", "plain"); err == nil {
		t.Error("an empty resource stays")
	}
	// Records of others at the same name stay.
	const name = "_acme-challenge.app.plain.example."
	o.send("1", "all.example.", name+` 60 TXT "another's"`)
	o.apply(o.orderedYAML("app.plain.example, *.app.plain.example, more.plain.example", ""))
	p = o.issued(p)
	o.serves(p, "more.plain.example")
	o.await("only theirs stay", func() bool { return slices.Equal(o.published(name, "TXT"), []string{`"another's"`}) })
}

// TestWildcardsNeedAZone: what cannot be proved is said at apply.
//
// Covers: issue6 acme dns
func TestWildcardsNeedAZone(t *testing.T) {
	t.Parallel()
	o := startOrdering(t, nil)
	o.apply(zoneYAML)
	for _, text := range []string{
		o.orderedYAML("www.elsewhere.example, *.elsewhere.example", ""),
		o.orderedYAML("www.elsewhere.example", "  challenge: dns-01\n"),
		strings.Replace(autoYAML, "domains: [other.example.com]", `domains: [other.example.com, "*.example.com"]`, 1) + `  "*.example.com": auto`,
	} {
		text = strings.Replace(text, "certificates: {other.example.com: auto}", "certificates:\n  other.example.com: auto", 1)
		_, err := o.client.Apply(t.Context(), request(text))
		if p := asProblem(err); p.Code != api.CodeInvalid || len(p.Errors) == 0 || !strings.Contains(p.Errors[0].Message, "no Zone here holds it") {
			t.Errorf("%+v", p)
		}
	}
	if o.ca.Count("order") != 0 {
		t.Error("it was ordered")
	}
}

// TestOrdersAreRenewed: a certificate is renewed a month before its end, or when its authority wants it earlier; until the next one is
// there the one before is served, and what goes wrong meanwhile is told before it ends.
//
// Covers: issue6 acme renewal
func TestOrdersAreRenewed(t *testing.T) {
	t.Parallel()
	o := startOrdering(t, nil)
	o.apply(zoneYAML, o.orderedYAML("a.example.com", ""))
	first := o.issued(snapshot.EdgeKeyPair{})
	o.pass(57 * 24 * time.Hour) // of 90
	if v := o.certificate("web"); v.RenewAt.Before(o.clock.Moment().Wall) {
		t.Errorf("due at %s", v.RenewAt)
	}
	if o.ca.Count("order") != 1 || !o.g.has(first) {
		t.Error("it was renewed too early")
	}
	o.pass(4 * 24 * time.Hour)
	second := o.issued(first)
	if second.Key.Equal(first.Key.Text) {
		t.Error("the key is the one before")
	}
	// The authority is about to revoke it, and says so.
	now := o.clock.Moment().Wall
	o.ca.RenewIn(now.Add(-2*time.Hour), now.Add(-time.Hour))
	o.pass(25 * time.Hour) // when it is asked again
	third := o.issued(second)
	o.ca.RenewIn(now.Add(1000*24*time.Hour), now.Add(1001*24*time.Hour)) // what is written goes before that
	o.ca.Refuse(-1, "/order", 503, "serverInternal", "")
	o.pass(61 * 24 * time.Hour)
	v := o.fails(1, issue.Busy)
	if v.State != api.CertificateValid || v.NextTry == nil || !o.g.has(third) || o.alarmed(api.AlarmOrder) {
		t.Errorf("after one failure: %+v", v)
	}
	for n := 2; n <= failuresTold; n++ {
		o.pass(18 * time.Hour)
		o.fails(n, issue.Busy)
	}
	o.await("the alarm that it cannot be renewed", func() bool { return strings.Contains(o.alarmText(api.AlarmOrder), "certificate web cannot be ordered") })
	if o.alarmed(api.AlarmCertificate) {
		t.Error("it is told that it ends, four weeks before")
	}
	o.pass(14 * 24 * time.Hour)
	o.fails(failuresTold+1, issue.Busy) // or it would be under way yet when time passes
	o.await("the alarm that it ends", func() bool { return strings.Contains(o.alarmText(api.AlarmCertificate), "could not be renewed") })
	o.ca.Mend()
	o.pass(18 * time.Hour)
	o.issued(third)
	o.await("the end of the alarms", func() bool { return !o.alarmed(api.AlarmCertificate) && !o.alarmed(api.AlarmOrder) })
}

// TestOrderFailures: each failure is told with what to do, waits longer than the one before, holds up no other, and the next try
// goes on where it can. What the authority asks to wait is waited for.
//
// Covers: issue6 acme failures
func TestOrderFailures(t *testing.T) {
	t.Parallel()
	var lead atomic.Value // where port 80 of the domain leads
	o := startOrdering(t, func(cfg *acmetest.Config) {
		own := cfg.Dial
		cfg.Dial = func(host string) string {
			if to, ok := lead.Load().(string); ok && to != "" && host == "a.example.com" {
				return to
			}
			return own(host)
		}
	})
	lead.Store("127.0.0.1:1") // where nobody listens
	o.apply(zoneYAML, o.orderedYAML("a.example.com", ""), autoYAML)
	v := o.fails(1, issue.Unproved)
	if !strings.Contains(v.Error, "connection") || !strings.Contains(v.Do, "port 80") || v.State != api.CertificateMissing {
		t.Errorf("%+v", v)
	}
	if wait := v.NextTry.Sub(o.clock.Moment().Wall); wait < 30*time.Second || wait > 2*time.Minute {
		t.Errorf("the next try is in %s", wait)
	}
	o.await("the alarm", func() bool { return strings.Contains(o.alarmText(api.AlarmOrder), "port 80") })
	o.await("the other", func() bool { return o.g.pair("auto:other.example.com").Chain != "" })
	orders := o.ca.Count("order")

	o.ca.Refuse(1, "/order", 429, "rateLimited", "7200")
	o.pass(2 * time.Minute)
	v = o.fails(2, issue.RateLimited)
	if wait := v.NextTry.Sub(o.clock.Moment().Wall); wait < 7000*time.Second || wait > 9000*time.Second {
		t.Errorf("the next try is in %s, and the authority said 2 h", wait)
	}
	o.pass(time.Hour)
	if what := o.due(o.wantedOrders(o.edges.config())["web"], o.wallNow()); what != nothingDue || o.ca.Count("order") != orders {
		t.Errorf("it is asked again within the hour: %d", what)
	}
	o.ca.Drop(1, "/dir")
	o.pass(90 * time.Minute)
	o.fails(3, issue.Unreachable)

	lead.Store("")
	if _, err := o.client.OrderCertificate(t.Context(), api.OrderRequest{Name: "nobody"}); asProblem(err).Code != api.CodeNotFound {
		t.Errorf("one that there is not: %v", err)
	}
	goOn := o.ca.Hold()
	defer goOn()
	o.ca.Refuse(1, "/certificate/", 500, "serverInternal", "")
	o.pass(2 * time.Hour)
	o.await("it is at the authority", func() bool { return o.ca.Count("finalize") == 2 })
	goOn()
	o.fails(4, issue.Busy)
	orders = o.ca.Count("order")
	if _, err := o.client.OrderCertificate(t.Context(), api.OrderRequest{Name: "web", Reason: "mended"}); err != nil { // no need to wait
		t.Fatal(err)
	}
	o.serves(o.issued(snapshot.EdgeKeyPair{}), "a.example.com")
	if n := o.ca.Count("order"); n != orders || o.ca.Count("finalize") != 2 {
		t.Errorf("an order that was ready was not gone on with: %d more", n-orders)
	}
	o.await("the end of the alarm", func() bool { return !o.alarmed(api.AlarmOrder) })
	// One that is valid stays, unless it is to be renewed.
	before := o.g.pair("web")
	for _, renew := range []bool{false, true} {
		v, err := o.client.OrderCertificate(t.Context(), api.OrderRequest{Name: "web", Renew: renew})
		if err != nil || v.State != api.CertificateValid || !slices.Equal(v.Services, []string{"store"}) {
			t.Errorf("%+v, %v", v, err)
		}
		if due := o.due(o.wantedOrders(o.edges.config())["web"], o.wallNow()) == orderDue; due && !renew {
			t.Error("a valid one is ordered anew")
		}
	}
	o.issued(before)
}

// autoYAML is a service whose domain says auto.
const autoYAML = `apiVersion: steerpoint/v1
kind: Service
name: other
domains: [other.example.com]
edges: [{name: here, addresses: [192.0.2.1]}]
rules: [{name: default, scope: "*", mode: fixed, edges: [here]}]
originGroups: [{name: web, health: {enabled: false}, origins: [{name: a, address: "192.0.2.9:443"}]}]
routes: [{name: all, originGroup: web}]
certificates: {other.example.com: auto}
`

// TestAccountIsBound: an account is tied to a customer where the authority wants that; one that it has forgotten is registered
// anew, with the same key.
//
// Covers: issue6 acme account
func TestAccountIsBound(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef0123456789abcdef")
	o := startOrdering(t, func(cfg *acmetest.Config) { cfg.Bindings = map[string][]byte{"customer-1": key} })
	o.apply(zoneYAML, o.orderedYAML("a.example.com", ""))
	if v := o.fails(1, issue.NoAccount); !strings.Contains(v.Do, "eabKeyID") {
		t.Errorf("%+v", v)
	}
	o.apply(secretYAML("eab", "key", base64.RawURLEncoding.EncodeToString(key)),
		o.orderedYAML("a.example.com", "  eabKeyID: customer-1\n  eabKeyFrom: {secret: eab, key: key}\n"))
	first := o.issued(snapshot.EdgeKeyPair{})
	o.ca.Forget()
	o.pass(61 * 24 * time.Hour)
	o.fails(1, issue.NoAccount)
	o.pass(5 * time.Minute)
	o.issued(first)
	if n := o.ca.Count("account"); n != 2 {
		t.Errorf("%d accounts were made", n)
	}
}

// TestKilledInAnOrder kills control with SIGKILL while the authority makes a certificate. The next process goes on with the same
// order and the same key: nothing is ordered twice.
//
// Covers: issue6 acme kill
func TestKilledInAnOrder(t *testing.T) {
	t.Parallel()
	var at atomic.Value
	ca := authority(t, acmetest.Config{Dial: func(string) string { s, _ := at.Load().(string); return s }})
	goOn := ca.Hold()
	defer goOn()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childFolder+"="+dir, childOrder+"="+orderedYAML(ca, "a.example.com", ""))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	at.Store(firstWord(t, bufio.NewScanner(out), "gateway"))
	for end := time.Now().Add(2 * time.Minute); ca.Count("finalize") == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to the certificate")
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	goOn()
	g := newAnswering(t)
	ck := &clocks{}
	ck.m.Wall, ck.m.BootTime = time.Now().UTC(), time.Hour
	o := &ordering{rig: start(t, dir, ck, g.join), g: g, ca: ca}
	o.serves(o.issued(snapshot.EdgeKeyPair{}), "a.example.com")
	if ca.Count("order") != 1 || ca.Count("finalize") != 1 || ca.Count("account") != 1 {
		t.Errorf("%d orders, %d finalized, %d accounts", ca.Count("order"), ca.Count("finalize"), ca.Count("account"))
	}
}

// TestOrderedKeysAreSealed: keys of certificates follow a new sealing key, and what was sealed by a key that is lost is ordered
// anew.
//
// Covers: issue6 acme, issue4 secret rotation
func TestOrderedKeysAreSealed(t *testing.T) {
	t.Parallel()
	o := startOrdering(t, nil)
	o.apply(zoneYAML, o.orderedYAML("a.example.com", ""))
	first := o.issued(snapshot.EdgeKeyPair{})
	before := o.orders.get("web").sealed.Master
	if _, err := o.client.RotateSecrets(t.Context(), api.RotateRequest{NewKey: true, Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	now := o.orders.get("web").sealed.Master
	if now == before {
		t.Error("it is sealed by the key before")
	}
	for _, s := range o.orders.sealedOrders() {
		if s.Master != now {
			t.Error("an account is sealed by the key before")
		}
	}
	if !o.g.has(first) {
		t.Error("gateways have another one")
	}
	o.stop()
	// The file is lost: nothing else is sealed here, and nothing may be sealed by a fresh key unasked.
	if err := os.Remove(o.dir + "/seal.key"); err != nil {
		t.Fatal(err)
	}
	o.rig = start(t, o.dir, o.clocks, o.g.join, o.settings)
	o.await("the alarm", func() bool { return o.alarmed(api.AlarmSealKey) })
	o.await("why", func() bool { return strings.Contains(o.certificate("web").Error, "cannot be written") })
	if o.ca.Count("order") != 1 {
		t.Error("something was ordered whose key cannot be kept")
	}
	o.stop()
	other := fmt.Sprintf("%s/another.key", o.dir)
	start(t, t.TempDir(), nil, func(cfg *Config, _ *Deps) { cfg.SealKey = other }).stop()
	o.rig = start(t, o.dir, o.clocks, o.g.join, o.settings, func(cfg *Config, _ *Deps) { cfg.SealKey = other })
	o.serves(o.issued(first), "a.example.com")
}

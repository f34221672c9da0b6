package notify

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// secret values of the tests: none may show anywhere.
const (
	testSecret = "SECabc123"
	testToken  = "tok-0123456789"
	testHook   = "hook-abcdefghij"
)

// got is one request a site received.
type got struct {
	header http.Header
	path   string
	query  string
	body   []byte
}

// site is a server that answers as the test says.
type site struct {
	*httptest.Server
	mu     sync.Mutex
	got    []got
	answer func(n int, w http.ResponseWriter, r *http.Request)
}

// newSite runs a TLS server. answer is called with the number of the request, from 1; nil answers 200.
func newSite(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *site {
	s := &site{answer: answer}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.got = append(s.got, got{r.Header.Clone(), r.URL.Path, r.URL.RawQuery, body})
	n := len(s.got)
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(n, w, r)
	}
}

func (s *site) requests() []got {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *site) ids() []string {
	var out []string
	for _, g := range s.requests() {
		out = append(out, g.header.Get("Steer-Event-Id"))
	}
	return out
}

// rig is a hub on a folder of its own.
type rig struct {
	*Hub
	t      *testing.T
	folder string // of key files; outboxes are below it
	logs   *safeBuffer
	stop   func()

	mu      sync.Mutex
	failing map[string]string
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// quick are times in which a test does not wait.
var quick = Timing{
	Gather: time.Millisecond, Publication: 2 * time.Millisecond, Fold: 5 * time.Millisecond, Storm: 5 * time.Millisecond,
	FirstRetry: time.Millisecond, LastRetry: 4 * time.Millisecond,
}

func start(t *testing.T, folder string, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, folder: folder, logs: &safeBuffer{}, failing: map[string]string{}}
	cfg := Config{
		Folder: filepath.Join(folder, "notify"), From: From{"c1", "n1"}, Floor: func() string { return "" }, AllowLocal: true, Timing: quick,
		Log: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Failing: func(name string, on bool, message string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if delete(r.failing, name); on {
				r.failing[name] = message
			}
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Hub = h
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.Run(ctx) // it gives nil always
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(r.stop)
	return r
}

// trusts lets a hub trust a site's certificate.
func trusts(s *site) func(*Config) {
	return func(c *Config) {
		c.Roots = x509.NewCertPool()
		c.Roots.AddCert(s.Certificate())
	}
}

func (r *rig) alarm(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failing[name]
}

func (r *rig) status(name string) Status {
	for _, s := range r.Status() {
		if s.Name == name {
			return s
		}
	}
	return Status{}
}

// key writes a key file.
func (r *rig) key(name, text string) string {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.folder, name), []byte(text+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return name
}

// target is one of a type whose URL is in a file, as the key it is.
func (r *rig) target(name, typ string, s *site) Target {
	return Target{
		Name: name, Type: typ, URLFile: r.key(name+".url", s.URL+"/"+testHook+"?access_token="+testToken), Language: "en",
		On: []string{KindSwitch, KindVerdict, KindMass, KindExpiry, KindAlarm},
	}
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

// idle waits until nothing waits for a target.
func (r *rig) idle(name string) {
	r.t.Helper()
	await(r.t, name+" has delivered", func() bool { return r.status(name).Queue == 0 })
}

func switched(n int) Event {
	return Event{
		ID: fmt.Sprintf("switch-%016x", n), Time: time.Date(2026, 1, 2, 3, 4, n%60, 0, time.UTC), Kind: KindSwitch, Service: "shop", Rule: "default",
		Scope: "*", From: "east", To: "west", Cause: "down", Message: "edge east is down: 3 of 4 points say so", DetectionSeconds: 4.21,
		Publication: &Publication{Seconds: 0.012, MapVersion: 7, Acked: 2},
	}
}

func verdict(n int, rule, to string) Event {
	return Event{
		ID: fmt.Sprintf("verdict-%d", n), Time: time.Date(2026, 1, 2, 3, 4, n%60, 0, time.UTC), Kind: KindVerdict, Service: "shop", Rule: rule, Edge: "east",
		From: "up", To: to, Message: "edge east",
	}
}

func alarmed(n int, subject string, on bool) Event {
	return Event{ID: fmt.Sprintf("alarm-%d", n), Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kind: KindAlarm, Code: "ALARM_X", Subject: subject, On: on, Message: "text"}
}

// noSecrets fails when a text holds one of the keys of the tests.
func noSecrets(t *testing.T, what, s string) {
	t.Helper()
	for _, key := range []string{testSecret, testToken, testHook} {
		if strings.Contains(s, key) {
			t.Errorf("%s holds a key: %s", what, s)
		}
	}
}

package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/internal/hidden"
)

// TestWebhook: a program gets signed JSON that says what, why, how long and what to do, and nothing twice.
//
// Covers: issue4 notifications, B8
func TestWebhook(t *testing.T) {
	s := newSite(t, nil)
	r := start(t, t.TempDir(), trusts(s))
	to := r.target("pager", typeWebhook, s)
	to.SecretFile, to.AuthorizationFile = r.key("secret", testSecret), r.key("auth", "Bearer "+testToken)
	to.Headers = map[string]string{"X-Team": "edge"}
	r.Configure([]Target{to})
	r.Take([]Event{switched(1)})
	r.idle("pager")
	r.Take([]Event{switched(1)}) // again: no news
	r.Take([]Event{switched(2)})
	r.idle("pager")
	all := s.requests()
	if len(all) != 2 {
		t.Fatalf("%d requests", len(all))
	}
	g := all[0]
	// The signature, checked by what the page of the docs says and not by our own function.
	sig := strings.Split(strings.TrimPrefix(g.header.Get("Steer-Signature"), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(testSecret))
	fmt.Fprintf(mac, "%s.%s", sig[0], g.body)
	if len(sig) != 2 || sig[1] != hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signature %q", g.header.Get("Steer-Signature"))
	}
	var b webhookBody
	if err := json.Unmarshal(g.body, &b); err != nil {
		t.Fatal(err)
	}
	id := "switch-0000000000000001"
	if b.Format != 1 || b.ID != id || b.Kind != KindSwitch || b.Count != 1 || len(b.Events) != 1 || b.Events[0].To != "west" || b.From.Node != "n1" {
		t.Errorf("body %s", g.body)
	}
	for _, want := range []string{"east → west", "4.2 s", "12 ms", "2 name server(s)", "3 of 4 points", "steer status shop", "steer force shop/default east"} {
		if !strings.Contains(b.Title+"\n"+b.Text, want) {
			t.Errorf("text lacks %q:\n%s\n%s", want, b.Title, b.Text)
		}
	}
	h := g.header
	if h.Get("Steer-Event-Id") != id || h.Get("X-Team") != "edge" || h.Get("Authorization") != "Bearer "+testToken || h.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("headers %v", h)
	}
	if st := r.status("pager"); st.Sent != 2 || st.LastSuccess.IsZero() || st.LastError != "" {
		t.Errorf("status %+v", st)
	}
}

// TestRetries: whatever a server does wrong, the same message comes again under the same ID, and later ones after it.
//
// Covers: issue4 notifications
func TestRetries(t *testing.T) {
	const wrongs = 7
	s := newSite(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			w.Header().Set("Retry-After", "nonsense")
			w.WriteHeader(http.StatusTooManyRequests)
		case 3:
			panic(http.ErrAbortHandler) // no answer
		case 4:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case 5:
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprint(c, "garbage\r\n\r\n")
				c.Close()
			}
		case 6:
			w.Header().Set("X-Huge", strings.Repeat("x", 2*maxAnswer))
		case wrongs:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, strings.Repeat("no ", 1<<20))
		}
	})
	s.Server.EnableHTTP2 = false
	r := start(t, t.TempDir(), trusts(s))
	r.Configure([]Target{r.target("a", typeWebhook, s)})
	r.Take([]Event{switched(1), switched(2)})
	r.idle("a")
	ids := s.ids()
	want := slices.Repeat([]string{"switch-0000000000000001"}, wrongs+1)
	if want = append(want, "switch-0000000000000002"); !slices.Equal(ids, want) {
		t.Errorf("requests %v", ids)
	}
	for _, g := range s.requests() {
		if g.path == "/elsewhere" {
			t.Error("a redirect was followed")
		}
	}
	if st := r.status("a"); st.Failed != wrongs || st.Sent != 2 || st.Failures != 0 {
		t.Errorf("status %+v", st)
	}
}

// TestRetryAfter: what the server asks for is waited, within bounds; without it the time doubles up to five minutes.
//
// Covers: issue4 notifications
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for h, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "999999": maxRetryAfter, "-1": 0, "soon": 0, now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(h, now); got != want {
			t.Errorf("%q: %v, want %v", h, got, want)
		}
	}
	timing := Timing{}.withDefaults()
	for n, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := backoff(timing, n); got > most || got < most*8/10-1 {
			t.Errorf("try %d: %v, want up to %v", n, got, most)
		}
	}
	c := &courier{cfg: &Config{Now: func() time.Time { return now }, Failing: func(string, bool, string) {}}, former: newFormer(timing), box: &outbox{}}
	c.sent(&message{id: "a", at: now}, &reply{status: 429, retryAfter: 20 * time.Minute, err: errors.New("x")})
	if got := c.status.NextTry.Sub(now); got != 20*time.Minute {
		t.Errorf("next try after %v", got)
	}
}

// TestDeadHoldsNobodyUp: a server that never answers delays only its own messages, and closing does not wait for it.
//
// Covers: issue4 notifications
func TestDeadHoldsNobodyUp(t *testing.T) {
	release := make(chan struct{})
	dead := newSite(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	good := newSite(t, nil)
	r := start(t, t.TempDir(), trusts(good), func(c *Config) { c.Roots.AddCert(dead.Certificate()) })
	r.Configure([]Target{r.target("dead", typeWebhook, dead), r.target("good", typeWebhook, good)})
	for n := range 5 {
		r.Take([]Event{switched(n)})
		r.idle("good")
	}
	if n := len(good.requests()); n != 5 {
		t.Errorf("the good one got %d", n)
	}
	if st := r.status("dead"); st.Queue != 5 {
		t.Errorf("the dead one: %+v", st)
	}
	await(t, "the dead one is asked", func() bool { return len(dead.requests()) > 0 })
	r.stop() // an answer never comes: it ends by itself, or the test does not
}

// TestBounded: of 1,500 events for a dead target the newest 1,000 wait; the next message says what was lost.
//
// Covers: issue4 notifications
func TestBounded(t *testing.T) {
	up := make(chan struct{})
	s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		select {
		case <-up:
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	r := start(t, t.TempDir(), trusts(s))
	r.Configure([]Target{r.target("a", typeWebhook, s)})
	r.Take([]Event{switched(0)})
	await(t, "the first is under way", func() bool { return len(s.requests()) > 0 })
	for n := 0; n < 1500; n += 100 {
		var batch []Event
		for i := range 100 {
			batch = append(batch, switched(n+i+1))
		}
		r.Take(batch)
	}
	if st := r.status("a"); st.Queue != maxQueue+1 || st.Lost != 500 {
		t.Errorf("waiting: %+v", st)
	}
	await(t, "the alarm", func() bool { return strings.Contains(r.alarm("a"), "502") })
	close(up)
	r.idle("a")
	await(t, "no alarm", func() bool { return r.alarm("a") == "" })
	all := s.requests()
	var b webhookBody
	if err := json.Unmarshal(all[len(all)-1].body, &b); err != nil {
		t.Fatal(err)
	}
	if b.Kind != kindDigest || b.Count != maxQueue || b.Lost != 500 || len(b.Events) != maxEvents || len(all[len(all)-1].body) > maxWebhook ||
		b.Events[0].ID != "switch-00000000000001f5" || !strings.Contains(b.Text, "500 events were not delivered") {
		t.Errorf("digest: %s, kind %s, count %d, lost %d, %d events\n%s", b.ID, b.Kind, b.Count, b.Lost, len(b.Events), b.Text)
	}
	r.Take([]Event{switched(5000)})
	r.idle("a")
	all = s.requests()
	var after webhookBody
	if err := json.Unmarshal(all[len(all)-1].body, &after); err != nil || after.Lost != 0 {
		t.Errorf("the loss is told twice: %v, %d", err, after.Lost)
	}
}

// TestRefusedMessage: a message that is refused for itself is given up, and those behind it are told, with the loss.
//
// Covers: issue4 notifications
func TestRefusedMessage(t *testing.T) {
	s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Steer-Event-Id") == "switch-0000000000000001" {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	r := start(t, t.TempDir(), trusts(s))
	r.Configure([]Target{r.target("a", typeWebhook, s)})
	r.Take([]Event{switched(1), switched(2)})
	r.idle("a")
	all := s.requests()
	var b webhookBody
	if err := json.Unmarshal(all[len(all)-1].body, &b); err != nil {
		t.Fatal(err)
	}
	if len(all) != maxRefusals+1 || b.ID != "switch-0000000000000002" || b.Lost != 1 {
		t.Errorf("%v, lost %d", s.ids(), b.Lost)
	}
}

// TestGuard: no address of the machine itself is posted to, whatever name leads there; steer.yaml can allow it.
//
// Covers: issue4 notifications
func TestGuard(t *testing.T) {
	s := newSite(t, nil)
	r := start(t, t.TempDir(), trusts(s), func(c *Config) { c.AllowLocal = false })
	byName := r.target("name", typeWebhook, s)
	r.key("name.url", strings.Replace(s.URL, "127.0.0.1", "localhost", 1)+"/"+testHook)
	meta := Target{Name: "meta", Type: typeWebhook, URL: "http://169.254.169.254/latest", On: []string{KindSwitch}}
	r.Configure([]Target{r.target("address", typeWebhook, s), byName, meta})
	for name, want := range map[string]string{"address": "a loopback address", "name": "a loopback address", "meta": "a metadata address"} {
		res, err := r.Test(t.Context(), name)
		if err != nil || res.OK || !strings.Contains(res.Error, want) || !strings.Contains(res.Error, "notify.allowLoopback") {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		noSecrets(t, "error", res.Error)
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// TestTLS: a certificate nobody vouches for is refused.
//
// Covers: issue4 notifications
func TestTLS(t *testing.T) {
	s := newSite(t, nil)
	r := start(t, t.TempDir())
	r.Configure([]Target{r.target("a", typeWebhook, s)})
	res, err := r.Test(t.Context(), "a")
	if err != nil || res.OK || !strings.Contains(res.Error, "certificate") {
		t.Errorf("%+v, %v", res, err)
	}
	noSecrets(t, "error", res.Error)
	if _, err := r.Test(t.Context(), "b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
}

// TestSecretsStayIn: keys are in no log, status, error, answer shown, alarm or outbox, whatever the server echoes.
//
// Covers: issue4 secrets
func TestSecretsStayIn(t *testing.T) {
	s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "you sent %s %s %s, key %s", r.URL, r.URL.RawQuery, r.Header.Get("Authorization"), testSecret)
	})
	dir := t.TempDir()
	r := start(t, dir, trusts(s))
	to := r.target("a", typeWebhook, s)
	to.SecretFile, to.AuthorizationFile = r.key("secret", testSecret), r.key("auth", "Bearer "+testToken)
	gone := r.target("gone", typeFeishu, s)
	r.key("gone.url", "https://127.0.0.1:1/"+testHook) // nobody listens
	bad := r.target("bad", typeWeCom, s)
	r.key("bad.url", "http://user:"+testToken+"@127.0.0.1:1/"+testHook)
	r.Configure([]Target{to, gone, bad})
	r.Take([]Event{switched(1)})
	for _, name := range []string{"a", "gone", "bad"} {
		await(t, name+" fails", func() bool { return r.status(name).Failures >= failingAfter && r.alarm(name) != "" })
		noSecrets(t, "status", r.status(name).LastError)
		noSecrets(t, "alarm", r.alarm(name))
		res, err := r.Test(t.Context(), name)
		if err != nil || res.OK {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		noSecrets(t, "test", res.Error+res.Answer)
	}
	if e := r.status("a").LastError; !strings.Contains(e, "you sent") || !strings.Contains(e, "[key]") {
		t.Errorf("the answer is not shown: %s", e)
	}
	r.stop()
	noSecrets(t, "log", r.logs.String())
	err := filepath.WalkDir(filepath.Join(dir, "notify"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		noSecrets(t, path, string(b))
		if info, statErr := d.Info(); statErr != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), statErr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeyFiles: a key that others can read is none, a mistake is known before there is news, and mending it in place
// is enough.
//
// Covers: issue4 secrets
func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"open": 0o644, "group": 0o640, "good": 0o600, "strict": 0o400} {
		path := filepath.Join(dir, name)
		// The mode of a new file goes through the umask of whoever runs the test.
		if err := errors.Join(os.WriteFile(path, []byte(" "+testSecret+"\n"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		got, err := readKey(dir, name)
		if ok := name == "good" || name == "strict"; ok != (err == nil) || ok && got != testSecret {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{"empty": "\n", "two": "a\nb", "long": strings.Repeat("a", maxKey+1), "binary": "a\x00b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readKey(dir, name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	for _, name := range []string{".", "missing", filepath.Join(dir, "missing")} {
		if _, err := readKey(dir, name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	s := newSite(t, nil)
	r := start(t, dir, trusts(s))
	to := r.target("a", typeWebhook, s)
	to.SecretFile = "later"
	r.Configure([]Target{to})
	await(t, "the alarm", func() bool { return strings.Contains(r.alarm("a"), "later") })
	r.key("later", testSecret)
	r.Take([]Event{switched(1)})
	r.idle("a")
	await(t, "no alarm", func() bool { return r.alarm("a") == "" })
}

// TestFilter: a target hears what it asked for and nothing else.
//
// Covers: issue4 notifications
func TestFilter(t *testing.T) {
	s := newSite(t, nil)
	r := start(t, t.TempDir(), trusts(s))
	to := r.target("a", typeWebhook, s)
	to.On, to.Services = []string{KindSwitch}, []string{"shop"}
	r.Configure([]Target{to})
	other := switched(2)
	other.Service = "other"
	r.Take([]Event{alarmed(1, "", true), other, verdict(1, "default", "down"), switched(1)})
	r.idle("a")
	if ids := s.ids(); !slices.Equal(ids, []string{"switch-0000000000000001"}) {
		t.Errorf("got %v", ids)
	}
}

// TestAlarmsOnce: an alarm that is raised again after a restart is no news; one that ended meanwhile is told to be over.
//
// Covers: issue4 notifications
func TestAlarmsOnce(t *testing.T) {
	s := newSite(t, nil)
	dir := t.TempDir()
	r := start(t, dir, trusts(s))
	to := r.target("a", typeWebhook, s)
	r.Configure([]Target{to})
	r.Take([]Event{alarmed(1, "x", true), alarmed(2, "x", true), alarmed(3, "y", true), alarmed(4, "z", false)})
	r.idle("a")
	r.stop()
	r = start(t, dir, trusts(s))
	r.Configure([]Target{to})
	r.Take([]Event{alarmed(5, "x", true)})
	r.Settle(map[string]bool{"ALARM_X x": true})
	await(t, "y is over", func() bool { return slices.Contains(s.ids(), "alarm-3-over") })
	r.Take([]Event{alarmed(6, "x", false), alarmed(7, "y", false), alarmed(8, "x", true)})
	r.idle("a")
	if ids := s.ids(); !slices.Equal(ids, []string{"alarm-1", "alarm-3", "alarm-3-over", "alarm-6", "alarm-8"}) {
		t.Errorf("told %v", ids)
	}
}

// TestGone: what waits for a target that is deleted is deleted with it, and one of the same name begins anew.
//
// Covers: issue4 notifications
func TestGone(t *testing.T) {
	s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	dir := t.TempDir()
	r := start(t, dir, trusts(s))
	to := r.target("a", typeWebhook, s)
	r.Configure([]Target{to})
	r.Take([]Event{switched(1)})
	await(t, "the alarm", func() bool { return r.alarm("a") != "" })
	r.Configure(nil)
	if files, err := os.ReadDir(filepath.Join(dir, "notify")); err != nil || len(files) != 0 {
		t.Errorf("left: %v, %v", files, err)
	}
	if len(r.Status()) != 0 || r.alarm("a") != "" {
		t.Errorf("status %+v, alarm %q", r.Status(), r.alarm("a"))
	}
	r.Configure([]Target{to})
	if st := r.status("a"); st.Queue != 0 {
		t.Errorf("anew: %+v", st)
	}
}

// TestPublication: a switch waits for its publication a little, and is told without when that takes longer.
//
// Covers: issue4 notifications
func TestPublication(t *testing.T) {
	s := newSite(t, nil)
	r := start(t, t.TempDir(), trusts(s), func(c *Config) { c.Timing.Publication = time.Hour })
	r.Configure([]Target{r.target("a", typeWebhook, s)})
	early, late := switched(1), switched(2)
	early.Publication, late.Publication = nil, nil
	r.Published(early.ID, Publication{Seconds: 0.5, MapVersion: 3, Acked: 1})
	r.Take([]Event{early, late})
	await(t, "the first", func() bool { return len(s.requests()) == 1 })
	r.Published(late.ID, Publication{Seconds: 30, MapVersion: 3, Acked: 1, Missing: []string{"ns2"}, MissingCount: 1})
	r.Flush()
	r.idle("a")
	all := s.requests()
	if len(all) != 2 || !strings.Contains(string(all[0].body), "500 ms") || !strings.Contains(string(all[1].body), "1 of 2 name servers") {
		t.Errorf("%s\n%s", all[0].body, all[1].body)
	}
}

// TestKeysFromSecrets: URL, signing key and authorization come from Secrets as they do from files; they are opened for every
// message and show nowhere, and one that cannot be opened is an alarm that says why.
//
// Covers: issue4 secrets sealed, issue4 secrets
func TestKeysFromSecrets(t *testing.T) {
	var got atomic.Int32
	s := newSite(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		got.Add(1)
		fmt.Fprintf(w, "you sent %s with %s and %s", r.URL, r.Header.Get("Authorization"), testSecret)
	})
	values := map[string]string{"url": s.URL + "/" + testHook, "key": testSecret, "auth": "Bearer " + testToken}
	var shut atomic.Bool
	r := start(t, t.TempDir(), trusts(s), func(c *Config) {
		c.Secret = func(name, key string) (hidden.Text, error) {
			if shut.Load() || name != "hooks" {
				return hidden.Text{}, errors.New("Secret " + name + " cannot be opened: no key")
			}
			return hidden.New(values[key]), nil
		}
	})
	to := Target{
		Name: "a", Type: typeWebhook, On: []string{KindSwitch}, Language: "en",
		URLFrom: KeyRef{"hooks", "url"}, SecretFrom: KeyRef{"hooks", "key"}, AuthorizationFrom: KeyRef{"hooks", "auth"},
	}
	r.Configure([]Target{to})
	res, err := r.Test(t.Context(), "a")
	if err != nil || !res.OK || got.Load() != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	noSecrets(t, "answer", res.Answer)
	g := s.requests()[0]
	if g.path != "/"+testHook || g.header.Get("Authorization") != "Bearer "+testToken || !strings.HasPrefix(g.header.Get("Steer-Signature"), "t=") {
		t.Errorf("%+v", g)
	}
	shut.Store(true)
	to.Version++ // as when the key file is lost
	r.Configure([]Target{to})
	if m := r.alarm("a"); !strings.Contains(m, "Secret hooks cannot be opened") {
		t.Errorf("the alarm says %q", m)
	}
	shut.Store(false)
	to.Version++
	r.Configure([]Target{to})
	if m := r.alarm("a"); m != "" {
		t.Errorf("the alarm stays: %q", m)
	}
	to.SecretFrom = KeyRef{}
	to.URLFrom = KeyRef{"other", "url"}
	r.Configure([]Target{to})
	if res, err = r.Test(t.Context(), "a"); err != nil || res.OK || !strings.Contains(res.Error, "Secret other") {
		t.Errorf("%+v, %v", res, err)
	}
	noSecrets(t, "log", r.logs.String())
}

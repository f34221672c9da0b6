package notify

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestControlsOwnFiles: what control keeps for itself is no notifier's key, by whatever name it is asked for. The admin
// token is the one credential that cannot be revoked, and who writes resources says where a key file is sent.
//
// Covers: issue4 secrets
func TestControlsOwnFiles(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	put := func(path string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(testSecret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	linked := func(link func(string, string) error, to, at string) string {
		t.Helper()
		if err := link(to, at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	refused := []string{}
	for _, name := range []string{
		"admin.token", "admin.token.tmp", "ca/ca.key", "etcd/member/snap/db", "tape/shop.tape", "series/wal/0", "history.db", "history.db-wal", "history.db.backup",
		"core.state", "core.state.damaged-20260102T030405Z", "dns.map", "notify/a/1", "run.state", "lock", "format", "steer.yaml", "seal.key", "seal.key.tmp",
	} {
		put(filepath.Join(dir, name))
		refused = append(refused, name, filepath.Join(dir, name))
	}
	seal := put(filepath.Join(away, "kept", "apart.key"))
	good := []string{put(filepath.Join(away, "hook.key"))}
	for _, name := range []string{"hook.key", "notify.url", "ca.pem", "locked", "admin.tokens", "keys/admin.token"} {
		put(filepath.Join(dir, name))
		good = append(good, name)
	}
	refused = append(
		refused, "keys/../admin.token", "./admin.token", seal,
		linked(os.Symlink, "admin.token", filepath.Join(dir, "soft.key")),
		linked(os.Symlink, filepath.Join(dir, "soft.key"), filepath.Join(away, "soft.key")),
		linked(os.Symlink, dir, filepath.Join(away, "data"))+"/ca/ca.key",
		linked(os.Link, filepath.Join(dir, "admin.token"), filepath.Join(dir, "hard.key")),
		linked(os.Link, filepath.Join(dir, "ca", "ca.key"), filepath.Join(away, "hard.key")),
		linked(os.Symlink, seal, filepath.Join(dir, "seal.soft")),
		linked(os.Link, seal, filepath.Join(dir, "seal.hard")),
	)
	good = append(
		good,
		linked(os.Symlink, filepath.Join(away, "hook.key"), filepath.Join(dir, "good.soft")),
		linked(os.Link, filepath.Join(away, "hook.key"), filepath.Join(dir, "good.hard")),
	)
	never := []string{seal, filepath.Join(away, "missing"), filepath.Join(seal, "out of reach")}
	for _, name := range refused {
		if key, err := readKey(dir, name, never...); err == nil || !strings.Contains(err.Error(), "control's own") {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
	for _, name := range good {
		if key, err := readKey(dir, name, never...); err != nil || key != testSecret {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
}

// TestOwnFileIsNotSent: a target that names a file of control's is told why it gets nothing, by a test and by an alarm.
//
// Covers: issue4 secrets
func TestOwnFileIsNotSent(t *testing.T) {
	s := newSite(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	dir := t.TempDir()
	seal := filepath.Join(t.TempDir(), "apart.key")
	r := start(t, dir, trusts(s), func(c *Config) { c.Never = []string{seal} })
	if err := os.WriteFile(seal, []byte(testSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	r.key("admin.token", testSecret)
	for name, change := range map[string]func(*Target){
		"authorization": func(to *Target) { to.AuthorizationFile = "admin.token" },
		"signature":     func(to *Target) { to.SecretFile = filepath.Join(dir, "admin.token") },
		"url":           func(to *Target) { to.URLFile = "admin.token" },
		"seal":          func(to *Target) { to.AuthorizationFile = seal },
	} {
		to := r.target(name, typeWebhook, s)
		change(&to)
		r.Configure([]Target{to})
		got, err := r.Test(t.Context(), name)
		if err != nil || got.OK || !strings.Contains(got.Error, "control's own") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		await(t, "the alarm", func() bool { return strings.Contains(r.alarm(name), "control's own") })
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

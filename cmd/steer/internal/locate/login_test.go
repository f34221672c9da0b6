package locate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steerpoint/cmd/steer/internal/fault"
)

// TestLogin proves where a login stands in the order of places, that what is given on the command line or in the
// environment goes before it, and that its token goes to its own server only.
// Covers: issue4 login
func TestLogin(t *testing.T) {
	config, dir := t.TempDir(), running(t, "127.0.0.1:7070")
	in := func(pairs ...string) func(string) string { return env(append(pairs, "XDG_CONFIG_HOME", config)...) }
	if _, ok, err := (Options{Env: in()}).Login(); ok || err != nil {
		t.Errorf("before the first: %v, %v", ok, err)
	}
	path, err := Options{Env: in()}.SaveLogin(Login{Server: "https://a:7070", Token: "t", Authority: "pem"})
	if err != nil || path != filepath.Join(config, "steerpoint", "login.json") {
		t.Fatalf("%s, %v", path, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	login := Server{URL: "https://a:7070", Token: "t", Authority: "pem"}
	for _, tt := range []struct {
		name string
		o    Options
		want Server
	}{
		{"alone", Options{Env: in()}, login},
		{"before the usual folder", Options{Env: in("STEER_DATA", dir)}, login},
		{"after a folder that is named", Options{Data: dir, Env: in()}, Server{URL: "http://127.0.0.1:7070", Token: "secret"}},
		{"after another server", Options{Server: "https://b:1", Env: in()}, Server{URL: "https://b:1"}},
		{"after the environment", Options{Env: in("STEER_SERVER", "https://b:1", "STEER_TOKEN", "e")}, Server{URL: "https://b:1", Token: "e"}},
		{"its own server named", Options{Server: "https://a:7070/", Env: in()}, Server{URL: "https://a:7070/", Token: "t", Authority: "pem"}},
		{"with another token", Options{Token: "x", Env: in()}, Server{URL: "https://a:7070", Token: "x", Authority: "pem"}},
		{"with another authority", Options{CA: "f", Env: in()}, Server{URL: "https://a:7070", Token: "t", CA: "f"}},
	} {
		if got, err := tt.o.Find(); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
	if _, was, err := (Options{Env: in()}).Logout(); !was || err != nil {
		t.Errorf("logout: %v, %v", was, err)
	}
	if _, was, err := (Options{Env: in()}).Logout(); was || err != nil {
		t.Errorf("logout again: %v, %v", was, err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBadLogin proves that a login which cannot be used says so, instead of another server being taken in its place.
// Covers: issue4 login
func TestBadLogin(t *testing.T) {
	for what, text := range map[string]string{
		"torn": `{"version":1,`, "newer": `{"version":2,"server":"https://a:1","token":"t"}`, "without a token": `{"version":1,"server":"https://a:1"}`,
		"a token in the clear": `{"version":1,"server":"http://192.0.2.1:1","token":"t"}`, "empty": "",
	} {
		config := t.TempDir()
		path := filepath.Join(config, "steerpoint", "login.json")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Options{Env: env("XDG_CONFIG_HOME", config)}).Find(); fault.Exit(err) != fault.ExitBadInput {
			t.Errorf("%s: %v", what, err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := (Options{Env: env("XDG_CONFIG_HOME", config)}).Find(); err == nil || !strings.Contains(err.Error(), "others can read it") {
			t.Errorf("%s, for all to read: %v", what, err)
		}
	}
	if _, err := (Options{Env: env()}).LoginPath(); fault.Exit(err) != fault.ExitBadInput {
		t.Errorf("no home: %v", err)
	}
}

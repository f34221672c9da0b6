package locate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/internal/folder"
)

func env(pairs ...string) func(string) string {
	return func(k string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == k {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// running makes a data folder whose process listens on addr: this one, which has the folder's lock.
func running(t *testing.T, addr string) string {
	t.Helper()
	dir := t.TempDir()
	own(t, dir)
	if err := WriteRunning(dir, Running{PID: os.Getpid(), Started: time.Unix(1, 0), Listeners: map[string]string{"api": addr}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, tokenFile), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// own takes the lock of a folder until the test is over, or until it is closed.
func own(t *testing.T, dir string) *folder.Folder {
	t.Helper()
	d, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // the test may have done it
	return d
}

func TestDataDir(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"option", Options{Data: "d", Env: env("STEER_DATA", "/e")}, "d"},
		{"environment", Options{Env: env("STEER_DATA", "/e", "XDG_DATA_HOME", "/x")}, "/e"},
		{"xdg", Options{Env: env("XDG_DATA_HOME", "/x", "HOME", "/h")}, "/x/steerpoint"},
		{"relative xdg is ignored", Options{Env: env("XDG_DATA_HOME", "x", "HOME", "/h")}, "/h/.local/share/steerpoint"},
		{"home", Options{Env: env("HOME", "/h")}, "/h/.local/share/steerpoint"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.o.DataDir(); err != nil || got != tt.want {
				t.Errorf("DataDir() = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	if _, err := (Options{Env: env()}).DataDir(); fault.Exit(err) != fault.ExitBadInput {
		t.Errorf("nothing set: %v", err)
	}
}

// The server is the one named, or the one that runs on the data folder; its token goes to no other server.
func TestFind(t *testing.T) {
	dir := running(t, "127.0.0.1:7070")
	for _, tt := range []struct {
		name string
		o    Options
		want Server
	}{
		{"the folder's", Options{Data: dir, Env: env()}, Server{URL: "http://127.0.0.1:7070", Token: "secret"}},
		{"another token", Options{Data: dir, Token: "t", Env: env()}, Server{URL: "http://127.0.0.1:7070", Token: "t"}},
		{"named", Options{Server: "https://a:1", Token: "t", Env: env("STEER_SERVER", "https://b:1")}, Server{URL: "https://a:1", Token: "t"}},
		{"environment", Options{Env: env("STEER_SERVER", "https://b:1", "STEER_TOKEN", "e")}, Server{URL: "https://b:1", Token: "e"}},
		{"named, and it is the folder's", Options{Server: "http://127.0.0.1:7070", Data: dir, Env: env()}, Server{URL: "http://127.0.0.1:7070", Token: "secret"}},
		{"named, and it is not", Options{Server: "http://127.0.0.1:7071", Data: dir, Env: env()}, Server{URL: "http://127.0.0.1:7071", Token: ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.o.Find(); err != nil || got != tt.want {
				t.Errorf("Find() = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// The API of a listener that others reach is TLS, vouched for by the folder's own authority.
// Covers: issue3 api tls
func TestFindSecure(t *testing.T) {
	for listener, want := range map[string]string{
		"0.0.0.0:7070": "https://127.0.0.1:7070", "[::]:7070": "https://[::1]:7070", "192.0.2.1:7070": "https://192.0.2.1:7070",
	} {
		dir := running(t, listener)
		if err := WriteRunning(dir, Running{PID: os.Getpid(), Secure: true, Listeners: map[string]string{"api": listener}}); err != nil {
			t.Fatal(err)
		}
		got, err := Options{Data: dir, Env: env()}.Find()
		if err != nil || got != (Server{URL: want, Token: "secret", CA: filepath.Join(dir, "ca", "ca.crt")}) {
			t.Errorf("%s: %+v, %v", listener, got, err)
		}
		if got, err := (Options{Data: dir, CA: "f", Env: env("STEER_CA", "e")}).Find(); err != nil || got.CA != "f" {
			t.Errorf("%s: --ca gives %+v, %v", listener, got, err)
		}
		if got, err := (Options{Data: dir, Env: env("STEER_CA", "e")}).Find(); err != nil || got.CA != "e" {
			t.Errorf("%s: STEER_CA gives %+v, %v", listener, got, err)
		}
	}
}

// TestFindAfterAKill proves that the token of the folder goes only to the process that has the folder: where one listened
// that was killed, anybody of the machine may listen now.
// Covers: issue2 tokens
func TestFindAfterAKill(t *testing.T) {
	dir := t.TempDir()
	d := own(t, dir)
	if err := os.WriteFile(filepath.Join(dir, tokenFile), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listens := func(pid int) {
		t.Helper()
		if err := WriteRunning(dir, Running{PID: pid, Listeners: map[string]string{"api": "127.0.0.1:7070"}}); err != nil {
			t.Fatal(err)
		}
	}
	found := func(what, token, why string) {
		t.Helper()
		s, err := Options{Data: dir, Env: env()}.Find()
		if why == "" && (err != nil || s.Token != token) || why != "" && (fault.Exit(err) != fault.ExitNoServer || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
		if s, err := (Options{Data: dir, Server: "http://127.0.0.1:7070", Env: env()}).Find(); err != nil || s.Token != token {
			t.Errorf("%s, and it is named: %+v, %v", what, s, err)
		}
	}
	listens(os.Getpid())
	found("it runs", "secret", "")
	listens(os.Getpid() + 1)
	found("its successor starts", "", "has not said yet where it listens")
	listens(os.Getpid())
	if err := d.Close(); err != nil { // as the kernel does for a process that is killed: its files stay
		t.Fatal(err)
	}
	found("it was killed", "", "nothing runs on the data folder")
	if _, err := (Options{Data: dir, Token: "t", Env: env()}).Find(); !errors.Is(err, ErrGone) {
		t.Errorf("with a token of one's own: %v", err)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "127.9.9.9": true, "[::1]": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "192.0.2.1:1": false, "localhost.example.net:1": false, "": false,
	} {
		if Loopback(addr) != want {
			t.Errorf("Loopback(%q) = %v", addr, !want)
		}
	}
}

// What cannot be found ends in the exit code of its kind and says where it was looked for.
func TestFindErrors(t *testing.T) {
	damaged := running(t, "127.0.0.1:1")
	if err := os.WriteFile(filepath.Join(damaged, runFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokenless := running(t, "127.0.0.1:1")
	if err := os.Remove(filepath.Join(tokenless, tokenFile)); err != nil {
		t.Fatal(err)
	}
	noAPI := running(t, "")
	stopped := t.TempDir()
	if err := WriteRunning(stopped, Running{Listeners: map[string]string{"api": "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		o    Options
		exit int
		want string
	}{
		{"bad URL", Options{Server: "127.0.0.1:7070", Env: env()}, fault.ExitBadInput, `"127.0.0.1:7070" is not the URL of a server`},
		{"token in the clear", Options{Server: "http://192.0.2.1:7070", Env: env()}, fault.ExitBadInput, "unprotected"},
		{"nothing ran", Options{Data: t.TempDir(), Env: env()}, fault.ExitNoServer, "nothing has run on the data folder"},
		{"stopped", Options{Data: stopped, Env: env()}, fault.ExitNoServer, "nothing runs on the data folder"},
		{"damaged", Options{Data: damaged, Env: env()}, fault.ExitNoServer, "FILE_DAMAGED"},
		{"no token", Options{Data: tokenless, Env: env()}, fault.ExitNoServer, "nothing has run"},
		{"no API", Options{Data: noAPI, Env: env()}, fault.ExitNoServer, "has no API"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.o.Find()
			if err == nil || fault.Exit(err) != tt.exit || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Find() error %v, exit %d; want %q, exit %d", err, fault.Exit(err), tt.want, tt.exit)
			}
		})
	}
}

// The record of a process that is gone is told apart from one that runs.
func TestAlive(t *testing.T) {
	if !(Running{PID: os.Getpid()}).Alive() {
		t.Error("this process is said to be gone")
	}
	if (Running{}).Alive() || (Running{PID: 1 << 30}).Alive() { // no kernel counts so far
		t.Error("a process that is not is said to run")
	}
}

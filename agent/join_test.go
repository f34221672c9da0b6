package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/wire"
)

// A node that cannot reach control for its first join keeps trying and says so once; control there, it joins, and the
// token is never looked at again.
// Covers: A2, A8, issue3 join
func TestJoinWhenControlComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.control.set(func() { r.control.join = func(pki.Application) error { return errAway } })
		r.open()
		r.run()
		after(40 * time.Second)
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms}
		if got := r.control.times("join"); !slices.Equal(got[:7], want) || len(got) != 13 {
			t.Errorf("tried at %v", got)
		}
		if got := r.logged("this node keeps trying"); got != 1 {
			t.Errorf("said %d times:\n%s", got, r.log)
		}
		if r.agent.Joined() {
			t.Error("joined")
		}
		var asked pki.Application
		r.control.set(func() { r.control.join = func(a pki.Application) error { asked = a; return nil } })
		r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
		after(5 * time.Second)
		if !r.agent.Joined() || r.dns.Current() == nil {
			t.Fatal("not joined")
		}
		if asked.Name != "tokyo" || asked.Version != "test" || !slices.Equal(asked.Roles, []string{"dns"}) || asked.Token != r.control.token.String() {
			t.Errorf("application %+v", asked)
		}
		r.stop()

		r.cfg.Token = func() (string, error) { t.Error("the token was looked at"); return "", nil }
		r.cfg.Name, r.cfg.Roles, r.cfg.Servers = "kyoto", nil, nil
		joins := len(r.control.times("join"))
		r.open()
		r.run()
		after(time.Second)
		if r.agent.Name() != "tokyo" || !slices.Equal(r.agent.Roles(), []string{"dns"}) || len(r.control.times("join")) != joins {
			t.Errorf("started again as %s with %v", r.agent.Name(), r.agent.Roles())
		}
		if r.logged("no token is looked at") != 1 || r.logged("keeps the name it joined under") != 1 {
			t.Errorf("the log does not say that the identity wins:\n%s", r.log)
		}
		r.stop()
	})
}

// A refusal at the first join ends the node, with the reason: there is nothing it could do.
// Covers: A8, issue3 join refused
func TestJoinRefused(t *testing.T) {
	for _, code := range []string{pki.TokenUsed, pki.TokenExpired, pki.TokenUnknown, pki.NodeExists, pki.RoleRefused, pki.CertUntrusted} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, RoleProbe)
			r.control.set(func() { r.control.join = func(pki.Application) error { return pki.Refuse(code, "no", "") } })
			r.open()
			if err := r.agent.Run(t.Context(), r.planes()); pki.CodeOf(err) != code {
				t.Errorf("%s: Run: %v", code, err)
			}
			if got := r.control.times("join"); len(got) != 1 {
				t.Errorf("%s: asked %d times", code, len(got))
			}
		})
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleProbe)
		r.cfg.Token = nil
		r.open()
		if err := r.agent.Run(t.Context(), r.planes()); !errors.Is(err, ErrNoToken) {
			t.Errorf("without a token: %v", err)
		}
		r.cfg.Token = func() (string, error) { return "not a token", nil }
		r.open()
		if err := r.agent.Run(t.Context(), r.planes()); pki.CodeOf(err) != pki.TokenMalformed {
			t.Errorf("with a bad token: %v", err)
		}
	})
}

// A name server with a map on disk whose join is refused answers on, and says once a minute what is wrong.
// Covers: A2, issue3 identity lost
func TestJoinRefusedWithMap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.dns.current = dnsMap(3)
		r.control.set(func() {
			r.control.join = func(pki.Application) error { return pki.Refuse(pki.NodeExists, "tokyo joined before", "") }
		})
		r.open()
		r.run()
		after(10 * time.Minute)
		if got := r.logged("this node cannot join"); got < 9 || got > 11 {
			t.Errorf("said %d times in ten minutes", got)
		}
		r.control.set(func() { r.control.join = nil })
		r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(4)}) })
		after(time.Minute)
		if r.dns.Current().Version != 4 || len(r.agent.Trouble()) != 0 {
			t.Errorf("map %d, trouble %q", r.dns.Current().Version, r.agent.Trouble())
		}
		r.stop()
	})
}

// oneUse is control's rule for tokens: the key that used it may repeat the join, nobody else.
func oneUse() func(pki.Application) error {
	var user []byte
	return func(a pki.Application) error {
		key, err := pki.RequestKey(a.Request)
		if err != nil {
			return err
		}
		if user != nil && !slices.Equal(user, key) {
			return pki.Refuse(pki.TokenUsed, "it made a node already", "")
		}
		user = key
		return nil
	}
}

// A process killed at any step of a join leaves a folder on which the next one joins, or has joined. Each write is
// killed before it, in the middle of it, and right after it.
// Covers: A2, A8, issue3 kill9 join
func TestKilledWhileJoining(t *testing.T) {
	const steps = 4 // node.key, ca.crt, node.json, node.crt
	for step := range steps {
		for _, how := range []string{"before", "torn", "after"} {
			bubble(t, func(t *testing.T) {
				r := newRig(t, RoleDNS)
				r.control.set(func() { r.control.join = oneUse() })
				r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
				r.open()
				write, keep, n := r.agent.store.write, r.agent.store.keep, -1
				die := func(path string, do func() error) error {
					n++
					switch {
					case n < step:
						return do()
					case n > step:
						return errDisk // it is dead: nothing it does counts any more
					}
					switch how {
					case "torn":
						if err := os.WriteFile(path+".tmp", []byte("-----BEGIN"), 0o644); err != nil {
							t.Fatal(err)
						}
					case "after":
						if err := do(); err != nil {
							t.Fatal(err)
						}
					}
					return errDisk
				}
				r.agent.store.write = func(path string, text []byte) error {
					return die(path, func() error { return write(path, text) })
				}
				r.agent.store.keep = func(path, kind string, version int, payload []byte) error {
					return die(path, func() error { return keep(path, kind, version, payload) })
				}
				r.run()
				after(10 * ms)
				r.cancel()
				<-r.done // the error of a write it did not survive
				if n < step {
					t.Fatalf("there are only %d writes", n+1)
				}

				r.open()
				joined := r.agent.Joined()
				if want := step == steps-1 && how == "after"; joined != want {
					t.Errorf("killed %s step %d: joined %v", how, step, joined)
				}
				r.run()
				after(time.Second)
				if !r.agent.Joined() || r.dns.Current() == nil {
					t.Errorf("killed %s step %d: the next start does not join:\n%s", how, step, r.log)
				}
				r.stop()
			})
		}
	}
}

// While the identity cannot be kept on disk the node goes on trying, and is no member before it can.
// Covers: A2, issue3 disk
func TestJoinWithFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
		r.open()
		write := r.agent.store.write
		var full atomic.Bool
		full.Store(true)
		r.agent.store.write = func(path string, text []byte) error {
			if full.Load() && filepath.Base(path) == certFile {
				return errDisk
			}
			return write(path, text)
		}
		r.run()
		after(2 * time.Minute)
		if r.agent.Joined() || len(r.control.times("join")) != 1 {
			t.Errorf("joined %v, asked %d times", r.agent.Joined(), len(r.control.times("join")))
		}
		if got := r.logged("its identity cannot be kept on disk"); got < 2 || got > 3 {
			t.Errorf("said %d times in two minutes", got)
		}
		full.Store(false)
		after(5 * time.Second)
		if !r.agent.Joined() || r.dns.Current() == nil {
			t.Error("not joined when there was room again")
		}
		r.stop()
	})
}

// What is wrong with the identity on disk is named; a node whose certificate is damaged or has lost its key sets it
// aside and joins again; a record can be done without.
// Covers: A2, issue3 disk
func TestDamagedIdentity(t *testing.T) {
	garble := func(file string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, file), []byte("garbage\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(file string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		damage func(*testing.T, string)
		err    string // of New; "": it starts
		joined bool
	}{
		{"certificate", garble(certFile), "", false},
		{"authority", garble(authorityFile), "", false},
		{"no authority", remove(authorityFile), "", false},
		{"no key", remove(keyFile), "", false},
		{"record", garble(recordFile), "", true},
		{"no record", remove(recordFile), "", true},
		{"key", garble(keyFile), keyFile, false},
		{"key for everybody", func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, keyFile), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "chmod 600", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, RoleDNS)
				r.member(RoleDNS)
				tt.damage(t, r.dir)
				err := r.tryOpen()
				if tt.err != "" {
					if err == nil || !strings.Contains(err.Error(), tt.err) {
						t.Errorf("New: %v, want %q in it", err, tt.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if r.agent.Joined() != tt.joined {
					t.Errorf("joined %v, want %v", r.agent.Joined(), tt.joined)
				}
				r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
				r.run()
				after(time.Second)
				if r.dns.Current() == nil {
					t.Errorf("does not follow:\n%s", r.log)
				}
				r.stop()
			})
		})
	}
}

// A node does not start with roles its certificate has not.
// Covers: A8, issue3 roles
func TestOtherRoles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS, RoleProbe)
		r.member(RoleProbe)
		if err := r.tryOpen(); pki.CodeOf(err) != pki.RoleRefused {
			t.Errorf("New: %v", err)
		}
		r.cfg.Roles = []string{RoleProbe}
		r.open()
	})
}

// A configuration that cannot work is refused before anything is done.
func TestConfig(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, change := range map[string]func(*Config){
			"Dir is empty":      func(c *Config) { c.Dir = "" },
			"Roles is empty":    func(c *Config) { c.Roles = nil },
			"no role":           func(c *Config) { c.Roles = []string{"relay"} },
			"Servers is empty":  func(c *Config) { c.Servers = nil },
			"a name is missing": func(c *Config) { c.Name = "" },
			"negative":          func(c *Config) { c.Spool = -1 },
		} {
			r := newRig(t, RoleDNS)
			change(&r.cfg)
			if err := r.tryOpen(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("New: %v, want %q in it", err, name)
			}
		}
		r := newRig(t, RoleDNS)
		r.open()
		if err := r.agent.Run(t.Context(), Planes{Probe: r.probe}); err == nil {
			t.Error("Run takes planes of other roles")
		}
	})
}

// A name server whose certificate is damaged, and which is started by its folder alone as every node that has joined,
// answers on by the map on disk: node.json says who it was.
// Covers: A2, A8, issue3 state files
func TestDamagedIdentityByTheFolderAlone(t *testing.T) {
	for _, file := range []string{certFile, authorityFile} {
		t.Run(file, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, RoleDNS)
				r.member(RoleDNS)
				r.dns.current = dnsMap(7)
				r.cfg.Name, r.cfg.Roles, r.cfg.Servers, r.cfg.Token = "", nil, nil, nil
				if err := os.WriteFile(filepath.Join(r.dir, file), []byte("torn"), 0o600); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second start finds no certificate at all
					if !Joined(r.dir) {
						t.Error("the folder counts as that of a stranger")
					}
					r.open()
					if r.agent.Name() != "tokyo" || !slices.Equal(r.agent.Roles(), []string{RoleDNS}) {
						t.Fatalf("it is %q with the roles %v", r.agent.Name(), r.agent.Roles())
					}
					r.run()
					after(time.Minute)
					if got := r.agent.Trouble(); len(got) != 1 || !strings.HasPrefix(got[0], "NODE_NOT_JOINED: ") {
						t.Errorf("trouble %q", got)
					}
					r.stop()
				}
			})
		})
	}
}

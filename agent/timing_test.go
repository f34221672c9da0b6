package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/wire"
)

const ms = time.Millisecond

// since gives the times of calls less those of a start.
func since(list []time.Duration, start time.Duration) []time.Duration {
	var out []time.Duration
	for _, d := range list {
		if d >= start {
			out = append(out, d-start)
		}
	}
	return out
}

// Tries to reach control are 0.1 s apart, then twice as far each time, up to 5 s. A stream that stood for 5 s makes
// the next break the first again; one that did not, does not.
// Covers: A2, issue3 backoff
func TestBackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		r.open()
		r.run()
		after(30 * time.Second)
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms, 11300 * ms, 16300 * ms, 21300 * ms, 26300 * ms}
		if got := r.control.times("dns"); !slices.Equal(got, want) {
			t.Errorf("tries at %v, want %v", got, want)
		}
		stands := func(d time.Duration) {
			r.control.set(func() {
				r.control.dns = func(ctx context.Context, _ uint64, take func(wire.Update) error) error {
					if err := take(wire.Update{Full: dnsMap(1)}); err != nil {
						return err
					}
					wait(ctx, d, nil)
					return wire.ErrStreamEnded
				}
			})
		}
		stands(10 * time.Second)
		after(11300 * ms) // the next try is at 31.3 s
		stands(4 * time.Second)
		start := 31300*ms + 10*time.Second
		after(30 * time.Second)
		got := since(r.control.times("dns"), start)
		// 0.1 s after a stream that stood; then every stream of 4 s is a failure more.
		want = []time.Duration{100 * ms, 4300 * ms, 8700 * ms, 13500 * ms, 19100 * ms, 26300 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("after a stream that stood: tries at %v, want %v", got, want)
		}
		r.stop()
	})
}

// The waits are shortened by chance, by up to half, so that a thousand nodes do not come back as one.
// Covers: A2, issue3 backoff
func TestJitter(t *testing.T) {
	for jitter, want := range map[float64]time.Duration{0: time.Second, 0.5: 750 * ms, 1: 500 * ms} {
		b := backoff{min: time.Second, max: time.Minute, jitter: func() float64 { return jitter }}
		if got := b.delay(); got != want {
			t.Errorf("jitter %v: %v, want %v", jitter, got, want)
		}
	}
}

// A certificate is renewed at two thirds of its life by the monotonic clock, later by up to a twentieth; the streams
// come back at once under the new one.
// Covers: A8, issue3 renewal
func TestRenewalInTime(t *testing.T) {
	for jitter, want := range map[float64]time.Duration{0: 16 * time.Hour, 0.5: 16*time.Hour + 36*time.Minute} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, RoleDNS)
			r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
			r.open()
			r.agent.jitter = func() float64 { return jitter }
			r.run()
			after(0)
			before := r.agent.identity().expires
			after(17 * time.Hour)
			if got := r.control.times("renew"); !slices.Equal(got, []time.Duration{want}) {
				t.Errorf("jitter %v: renewed at %v, want %v", jitter, got, want)
			}
			if got := r.control.times("dns"); !slices.Equal(got, []time.Duration{0, want}) {
				t.Errorf("jitter %v: streams opened at %v, want one more at once after the renewal", jitter, got)
			}
			if got := r.agent.identity().expires.Sub(before).Round(time.Second); got != want {
				t.Errorf("jitter %v: the certificate ends %v later, want %v", jitter, got, want)
			}
			r.stop()
			if r.control.sessions != r.control.closed {
				t.Errorf("%d sessions, %d closed", r.control.sessions, r.control.closed)
			}
		})
	}
}

// A renewal that fails is tried again after 1 s, 2 s, 4 s and so on up to a minute, and at once when a stream says that
// the certificate ended.
// Covers: A8, issue3 renewal
func TestRenewalFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
		r.control.set(func() { r.control.renew = func() error { return errAway } })
		r.open()
		r.run()
		after(16*time.Hour + 3*time.Minute)
		want := []time.Duration{
			0, time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second, 63 * time.Second,
			123 * time.Second,
		}
		if got := since(r.control.times("renew"), 16*time.Hour); !slices.Equal(got, want) {
			t.Errorf("renewals tried at %v, want %v", got, want)
		}
		if n := r.logged("the certificate cannot be renewed yet"); n < 2 || n > 4 {
			t.Errorf("said %d times in three minutes", n)
		}
		// Control comes back after the certificate ended: it refuses the stream and takes the renewal.
		r.control.set(func() { r.control.renew = nil })
		var renewed atomic.Bool
		r.control.set(func() {
			r.control.dns = func(ctx context.Context, have uint64, take func(wire.Update) error) error {
				if !renewed.Load() {
					return pki.Refuse(pki.CertExpired, "it ended", "")
				}
				return standing(wire.Update{Full: dnsMap(2)})(ctx, have, take)
			}
		})
		count := len(r.control.times("renew"))
		s, _ := r.agent.link.get()
		s.close() // the stream breaks
		after(150 * ms)
		if got := len(r.control.times("renew")) - count; got == 0 {
			t.Error("a stream refused with CERT_EXPIRED renewed nothing")
		}
		renewed.Store(true)
		after(10 * time.Second)
		if !r.agent.stream("dns").up {
			t.Error("the stream does not stand again")
		}
		r.stop()
	})
}

// What an operator has to lift is asked for once a minute and told once a minute, and the node answers on.
// Covers: A2, A8, issue3 revocation
func TestLastingRefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		r.dns.current = dnsMap(7)
		r.control.dns = func(context.Context, uint64, func(wire.Update) error) error {
			return pki.Refuse(pki.NodeRevoked, "node tokyo is revoked", "stop it")
		}
		r.control.set(func() {
			r.control.up = func(string) error { return pki.Refuse(pki.NodeRevoked, "node tokyo is revoked", "stop it") }
		})
		r.open()
		r.run()
		after(time.Hour)
		if got := len(r.control.times("dns")); got != 61 {
			t.Errorf("asked %d times in an hour, want once a minute", got)
		}
		if got := r.logged("code=NODE_REVOKED"); got < 59 || got > 61 {
			t.Errorf("told %d times in an hour, want once a minute", got)
		}
		if got := r.agent.Trouble(); len(got) != 1 || got[0] != "NODE_REVOKED: node tokyo is revoked; stop it" {
			t.Errorf("trouble %q", got)
		}
		if r.dns.Current().Version != 7 {
			t.Error("the map is gone")
		}
		r.control.set(func() { r.control.dns, r.control.up = standing(wire.Update{Full: dnsMap(8)}), nil })
		after(time.Minute)
		if got := r.agent.Trouble(); len(got) != 0 || r.dns.Current().Version != 8 {
			t.Errorf("after it was lifted: trouble %q, map %d", got, r.dns.Current().Version)
		}
		r.stop()
	})
}

// A certificate read from disk is renewed at once when the wall clock says that half its life is over, or something
// that cannot be; otherwise when two thirds are over.
// Covers: A8, issue3 renewal, issue3 clock of a point
func TestRenewalAfterRestart(t *testing.T) {
	for _, tt := range []struct {
		name string
		past time.Duration // of the certificate's life, by the wall clock, at the restart
		want time.Duration // until the renewal
	}{
		{"fresh", 0, 16 * time.Hour},
		{"a third over", 8 * time.Hour, 8 * time.Hour},
		{"over half", 13 * time.Hour, 0},
		{"expired", 100 * time.Hour, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, RoleDNS)
				r.member(RoleDNS)
				time.Sleep(tt.past)
				r.cfg.Token = nil
				r.open()
				r.run()
				after(17 * time.Hour)
				got := since(r.control.times("renew"), tt.past)
				if len(got) == 0 || got[0].Round(time.Second) != tt.want {
					t.Errorf("renewed at %v after the restart, want %v", got, tt.want)
				}
				r.stop()
			})
		})
	}
	id := &identity{record: record{Lifetime: life}, expires: time.Now().Add(56 * 365 * life)}
	if got := id.due(); got != 0 {
		t.Errorf("with a clock of 1970: renewed in %v, want at once", got)
	}
}

// A renewed certificate that cannot be kept on disk works on in this process.
// Covers: A2, issue3 disk
func TestRenewalWithFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.control.set(func() { r.control.dns = standing(wire.Update{Full: dnsMap(1)}) })
		r.open()
		write := r.agent.store.write
		r.agent.store.write = func(path string, text []byte) error {
			if time.Since(r.control.start) > time.Minute {
				return errDisk
			}
			return write(path, text)
		}
		r.run()
		after(time.Hour)
		old := r.agent.identity()
		after(16 * time.Hour)
		if r.agent.identity() == old || !r.agent.stream("dns").up {
			t.Error("the renewed certificate is not used")
		}
		if got := r.agent.Trouble(); len(got) != 1 {
			t.Errorf("trouble %q", got)
		}
		r.stop()
		if _, err := os.Stat(filepath.Join(r.dir, certFile)); err != nil {
			t.Error(err)
		}
	})
}

// A refusal that an operator lifts is over for the streams as soon as a status report is taken, and not when their wait
// for something hopeless is over.
// Covers: A2, issue3 backoff
func TestRefusalLifted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleDNS)
		r.member(RoleDNS)
		untrusted := pki.Refuse(pki.CertUntrusted, "the server is not of this cluster", "")
		r.control.dns = func(context.Context, uint64, func(wire.Update) error) error { return untrusted }
		r.control.up = func(string) error { return untrusted }
		r.open()
		r.run()
		after(11 * time.Second)
		if got := len(r.control.times("dns")); got != 1 {
			t.Errorf("asked %d times for maps while it is hopeless", got)
		}
		r.control.set(func() { r.control.dns, r.control.up = standing(wire.Update{Full: dnsMap(4)}), nil })
		after(5 * time.Second)
		if d := r.dns.Current(); d == nil || d.Version != 4 {
			t.Error("control takes the reports of this node, and its maps are not followed")
		}
		r.stop()
	})
}

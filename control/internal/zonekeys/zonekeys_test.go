package zonekeys

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const (
	keyTTL    = time.Hour
	maxTTL    = 24 * time.Hour
	parentTTL = 48 * time.Hour
	margin    = time.Hour
)

func policy() *Policy {
	return &Policy{Enabled: true, KeyTTL: keyTTL, MaxTTL: maxTTL, ParentTTL: parentTTL, Margin: margin}
}

// world drives one zone: a wall clock that may be set, and time that counts.
type world struct {
	t    *testing.T
	s    State
	p    *Policy
	wall time.Time
	made uint16
	news []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, p: policy(), wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	w.step(0)
	return w
}

func (w *world) maker(ksk bool) (Key, error) {
	w.made++
	return Key{Tag: w.made, KSK: ksk, Public: []byte{byte(w.made)}, Made: w.wall}, nil
}

// step lets time pass, all of it counted.
func (w *world) step(d time.Duration) {
	w.t.Helper()
	w.wall = w.wall.Add(d)
	news, err := w.s.Step(w.wall, d, w.p, w.maker)
	if err != nil {
		w.t.Fatal(err)
	}
	w.news = append(w.news, news...)
	w.sound()
}

// sound checks what must always hold.
func (w *world) sound() {
	w.t.Helper()
	if !w.s.Signed() {
		return
	}
	zone := w.s.Zone("example.net.", time.Hour, time.Hour)
	var ksk, zsk, ds int
	for _, k := range zone.Keys {
		switch {
		case k.Flags == FlagsKSK && k.Signs:
			ksk++
		case k.Signs:
			zsk++
		}
		if k.DS {
			ds++
		}
	}
	if ksk == 0 || zsk != 1 || ds > 1 || ds == 0 && !w.s.Leaving {
		w.t.Fatalf("%d key-signing keys, %d zone-signing keys and %d DS: %s", ksk, zsk, ds, w)
	}
}

// String is the keys on one line.
func (w *world) String() string {
	var parts []string
	for _, k := range w.s.Keys {
		kind := "z"
		if k.KSK {
			kind = "k"
		}
		parts = append(parts, fmt.Sprintf("%s%d:%s", kind, k.Tag, k.Stage))
	}
	if w.s.Leaving {
		parts = append(parts, "leaving")
	}
	return strings.Join(parts, " ")
}

func (w *world) is(want string) {
	w.t.Helper()
	if got := w.String(); got != want {
		w.t.Fatalf("%s, want %s", got, want)
	}
}

func (w *world) ok(news []string, err error) {
	w.t.Helper()
	if err != nil || len(news) == 0 {
		w.t.Fatalf("%v, %v", news, err)
	}
	w.sound()
}

func (w *world) refused(news []string, err error) {
	w.t.Helper()
	if _, conflict := errors.AsType[*ConflictError](err); !conflict || len(news) > 0 {
		w.t.Fatalf("%v, %v", news, err)
	}
}

// TestZSKRoll: a new zone-signing key is published for the TTL of the keys before it signs, and the old one for the longest
// TTL of the zone after.
//
// Covers: issue5 dnssec rolls
func TestZSKRoll(t *testing.T) {
	w := newWorld(t)
	w.is("k1:ready z2:active")
	w.ok(w.s.Roll(w.wall, false, w.p, w.maker))
	w.is("k1:ready z2:active z3:published")
	w.refused(w.s.Roll(w.wall, false, w.p, w.maker))
	w.step(keyTTL + margin - time.Second)
	w.is("k1:ready z2:active z3:published")
	w.step(time.Second)
	w.is("k1:ready z2:retired z3:active")
	w.refused(w.s.Roll(w.wall, false, w.p, w.maker))
	w.step(maxTTL + margin - time.Second)
	w.is("k1:ready z2:retired z3:active")
	w.step(time.Second)
	w.is("k1:ready z3:active")
}

// TestKSKRoll: a new key-signing key signs beside the old one; its DS is wanted when it is in every cache, and the old one
// goes when its DS is replaced and forgotten. Without a word about the parent nothing goes on, however long it takes.
//
// Covers: issue5 dnssec rolls
func TestKSKRoll(t *testing.T) {
	w := newWorld(t)
	w.refused(w.s.Roll(w.wall, true, w.p, w.maker)) // the DS of the first was not seen yet
	w.ok(w.s.DSSeen(w.wall, w.p))
	w.refused(w.s.DSSeen(w.wall, w.p))
	w.is("k1:active z2:active")
	w.ok(w.s.Roll(w.wall, true, w.p, w.maker))
	w.is("k1:active z2:active k3:published")
	if want := w.s.WantsDS(); want.Tag != 1 {
		t.Errorf("the DS of %d is wanted before caches have that key", want.Tag)
	}
	w.refused(w.s.DSSeen(w.wall, w.p))
	w.step(keyTTL + margin)
	w.is("k1:active z2:active k3:ready")
	if want := w.s.WantsDS(); want.Tag != 3 {
		t.Errorf("the DS of %d is wanted", want.Tag)
	}
	w.step(365 * 24 * time.Hour)
	w.is("k1:active z2:active k3:ready")
	w.ok(w.s.DSSeen(w.wall, w.p))
	w.is("k1:retired z2:active k3:active")
	w.step(parentTTL + margin - time.Second)
	w.is("k1:retired z2:active k3:active")
	w.step(time.Second)
	w.is("z2:active k3:active")
}

// TestPeriods: keys that are old enough are rolled by themselves, one roll at a time.
//
// Covers: issue5 dnssec rolls
func TestPeriods(t *testing.T) {
	w := newWorld(t)
	w.p.ZSKPeriod, w.p.KSKPeriod = 90*24*time.Hour, 365*24*time.Hour
	w.step(90*24*time.Hour - time.Second)
	w.is("k1:ready z2:active")
	w.step(time.Second)
	w.is("k1:ready z2:active z3:published")
	w.step(time.Hour)
	w.is("k1:ready z2:active z3:published")
	w.step(time.Hour)
	w.step(48 * time.Hour)
	w.is("k1:ready z3:active")
	w.ok(w.s.DSSeen(w.wall, w.p))
	w.p.ZSKPeriod = 0
	w.step(365 * 24 * time.Hour)
	w.is("k1:active z3:active k4:published")
}

// TestLeaving: a zone that is to be signed no more stays signed until its DS is said to be gone and forgotten, and may change
// its mind until then.
//
// Covers: issue5 dnssec rolls
func TestLeaving(t *testing.T) {
	w := newWorld(t)
	w.ok(w.s.DSSeen(w.wall, w.p))
	w.refused(w.s.ForgetDS(w.p))
	w.p.Enabled = false
	w.step(time.Second)
	w.is("k1:active z2:active leaving")
	if z := w.s.Zone("example.net.", time.Hour, time.Hour); !z.Unsign {
		t.Error("CDS does not ask for the DS to be deleted")
	}
	w.refused(w.s.Roll(w.wall, false, w.p, w.maker))
	w.step(1000 * time.Hour)
	w.is("k1:active z2:active leaving")
	w.p.Enabled = true
	w.step(time.Second)
	w.is("k1:active z2:active")
	w.p.Enabled = false
	w.step(time.Second)
	w.ok(w.s.ForgetDS(w.p))
	w.refused(w.s.ForgetDS(w.p))
	w.step(parentTTL + margin - time.Second)
	w.is("k1:active z2:active leaving")
	w.step(time.Second)
	if w.s.Signed() || w.s.Leaving {
		t.Error(w)
	}
	w.step(time.Hour)
	if w.s.Signed() {
		t.Error("signed again by itself")
	}
}

// TestClocks: time that does not count shortens no wait: a clock that is set, years without control, a restart from the
// state as it was stored.
//
// Covers: issue5 dnssec rolls
func TestClocks(t *testing.T) {
	w := newWorld(t)
	w.ok(w.s.Roll(w.wall, false, w.p, w.maker))
	for _, jump := range []time.Duration{10 * 365 * 24 * time.Hour, -20 * 365 * 24 * time.Hour, time.Hour} {
		w.wall = w.wall.Add(jump)
		b, err := json.Marshal(&w.s)
		if err != nil {
			t.Fatal(err)
		}
		w.s = State{}
		if err := json.Unmarshal(b, &w.s); err != nil {
			t.Fatal(err)
		}
		if news, err := w.s.Step(w.wall, 0, w.p, w.maker); len(news) > 0 || err != nil {
			t.Errorf("after a jump of %s: %v, %v", jump, news, err)
		}
		if news, err := w.s.Step(w.wall, -time.Hour, w.p, w.maker); len(news) > 0 || err != nil {
			t.Errorf("after time that ran backwards: %v, %v", news, err)
		}
		w.is("k1:ready z2:active z3:published")
	}
	w.step(keyTTL + margin)
	w.is("k1:ready z2:retired z3:active")
}

// TestFailingMaker: when no key can be made, the state is as it was and the next try goes well.
//
// Covers: issue5 dnssec keys missing
func TestFailingMaker(t *testing.T) {
	fails := func(bool) (Key, error) { return Key{}, errors.New("no key today") }
	var s State
	if _, err := s.Step(time.Now(), 0, policy(), fails); err == nil || s.Signed() {
		t.Errorf("%v, %+v", err, s)
	}
	w := newWorld(t)
	before := w.String()
	if _, err := w.s.Roll(w.wall, false, w.p, fails); err == nil || w.String() != before {
		t.Errorf("%v, %s", err, w)
	}
	w.p.ZSKPeriod = time.Hour
	if _, err := w.s.Step(w.wall.Add(2*time.Hour), 0, w.p, fails); err == nil || w.String() != before {
		t.Errorf("%v, %s", err, w)
	}
}

// cache is a validator that keeps everything as long as it may, and asks as seldom.
type cache struct {
	keys   []uint16 // DNSKEY set
	keysAt time.Duration
	ds     uint16
	dsAt   time.Duration
	sigs   []sig
}

type sig struct {
	tag   uint16
	until time.Duration
}

// TestNoValidatorFails: whatever the operator does and whenever, a validator that keeps DNSKEY, DS and signatures for their
// whole TTL always finds a DS for a key of the set it has, and for each signature in its cache the key in its set or in the
// one it would get.
//
// Covers: issue5 dnssec rolls
func TestNoValidatorFails(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		w.p.ZSKPeriod = time.Duration(r.IntN(3)) * 20 * 24 * time.Hour
		var parent uint16 // the DS that the parent has
		c := cache{keysAt: -keyTTL, dsAt: -parentTTL}
		elapsed := time.Duration(0)
		for range 1500 {
			d := time.Duration(1+r.IntN(120)) * time.Minute
			elapsed += d
			w.step(d)
			switch r.IntN(40) {
			case 0:
				_, _ = w.s.Roll(w.wall, false, w.p, w.maker) // a refusal is an answer too
			case 1:
				_, _ = w.s.Roll(w.wall, true, w.p, w.maker)
			case 2, 3: // the parent follows CDS, and somebody says so
				if want := w.s.WantsDS(); want != nil && w.s.AwaitsParent() {
					parent = want.Tag
					w.ok(w.s.DSSeen(w.wall, w.p))
				}
			}
			c.look(t, seed, w, elapsed, parent)
		}
	}
}

// look is the validator at work: it refreshes what is over, then checks.
func (c *cache) look(t *testing.T, seed uint64, w *world, now time.Duration, parent uint16) {
	t.Helper()
	zone := w.s.Zone("example.net.", time.Hour, time.Hour)
	var all []uint16
	var signer uint16
	for _, k := range zone.Keys {
		all = append(all, k.Tag)
		if k.Signs && k.Flags == FlagsZSK {
			signer = k.Tag
		}
	}
	if now-c.keysAt >= keyTTL {
		c.keys, c.keysAt = all, now
	}
	if now-c.dsAt >= parentTTL {
		c.ds, c.dsAt = parent, now
	}
	if c.ds != 0 && !slices.Contains(c.keys, c.ds) {
		t.Fatalf("seed %d: the DS is of key %d, the keys in the cache are %v: %s", seed, c.ds, c.keys, w)
	}
	c.sigs = slices.DeleteFunc(c.sigs, func(s sig) bool { return s.until <= now })
	c.sigs = append(c.sigs, sig{signer, now + maxTTL})
	for _, s := range c.sigs {
		if !slices.Contains(c.keys, s.tag) {
			t.Fatalf("seed %d: a signature by key %d is in the cache, the keys there are %v: %s", seed, s.tag, c.keys, w)
		}
	}
}

// TestGeneratedKeys: a generated key has the tag and the DS that RFC 4034 says, after the example of RFC 6605 section 6.1,
// and a tag that is taken is not given again.
//
// Covers: issue5 dnssec keys
func TestGeneratedKeys(t *testing.T) {
	public, err := base64.StdEncoding.DecodeString("GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==")
	if err != nil {
		t.Fatal(err)
	}
	k := Key{KSK: true, Public: public}
	k.Tag = tagOf(k.data())
	if got, want := k.DS("example.net."), "55648 13 2 B4C8C1FE2E7477127B27115656AD6256F424625BF5C1E2770CE6D6E37DF61D17"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	record := &dns.DNSKEY{Hdr: dns.RR_Header{Name: "example.net.", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET}, Flags: 257, Protocol: 3, Algorithm: 13, PublicKey: base64.StdEncoding.EncodeToString(public)}
	for i, digest := range []uint8{dns.SHA256, dns.SHA384} {
		ds := record.ToDS(digest)
		want := fmt.Sprintf("%d %d %d %s", ds.KeyTag, ds.Algorithm, ds.DigestType, strings.ToUpper(ds.Digest))
		if got := k.DSForms("example.net.")[i]; got != want {
			t.Errorf("with digest %d: %s, want %s", digest, got, want)
		}
	}
	tries := 0
	made, secret, err := Generate(false, time.Unix(1e9, 0), func(uint16) bool { tries++; return tries < 3 })
	if err != nil || len(secret) != 32 || len(made.Public) != 64 || made.KSK || tries != 3 || made.Tag != tagOf(made.data()) {
		t.Errorf("%+v, %v", made, err)
	}
}

// TestNext: each state says what comes next, and who has to do it.
//
// Covers: issue5 dnssec rolls
func TestNext(t *testing.T) {
	w := newWorld(t)
	has := func(want string) {
		t.Helper()
		if got := w.s.Next(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	has("ds-seen")
	w.ok(w.s.DSSeen(w.wall, w.p))
	has("")
	w.ok(w.s.Roll(w.wall, false, w.p, w.maker))
	has("key 3 signs in 2h0m0s")
	w.ok(w.s.Roll(w.wall, true, w.p, w.maker))
	has("key 4 wants its DS at the parent in 2h0m0s")
	w.step(2 * time.Hour)
	has("key 2 goes in 25h0m0s")
	w.p.Enabled = false
	w.step(time.Second)
	has("ds-gone")
	w.ok(w.s.ForgetDS(w.p))
	has("signed no more in 49h0m0s")
}

// Package zonekeys is the life of the keys of a signed zone: which there are, which sign, which the parent should know, and
// when that changes. It is a pure machine: it reads no clock, makes no key and stores nothing.
//
// Zone-signing keys roll by pre-publication (RFC 6781 section 4.1.1.1): a new key is published, signs when every cache must
// have it, and the old one stays until every signature by it has left the caches. Key-signing keys roll by double signature
// (RFC 6781 section 4.1.2): a new key is published and signs the keys beside the old one; when every cache must have it, its
// DS is wanted at the parent, in CDS and CDNSKEY (RFC 7344); when the DS was seen there, and the old one has left the caches,
// the old key goes.
//
// Waits count only time in which every name server was known to have the keys as they are: neither a clock that is set, nor
// a restart, nor weeks without control can make one shorter. Nothing that the parent has to do is ever taken for done
// because time has passed.
package zonekeys

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"steerpoint/snapshot"
)

// Policy is what the operator wants of a zone's keys, and what the world around it needs.
type Policy struct {
	Enabled bool
	// ZSKPeriod and KSKPeriod are the ages at which keys are rolled by themselves; 0: never.
	ZSKPeriod, KSKPeriod time.Duration
	// KeyTTL is that of the DNSKEY records, MaxTTL the longest of all others of the zone, ParentTTL that of the DS at the
	// parent.
	KeyTTL, MaxTTL, ParentTTL time.Duration
	// Margin is added to every wait.
	Margin time.Duration
}

// Stage is where a key stands.
type Stage string

// The stages, in their order. A zone-signing key is never Ready, since no parent has to know it.
const (
	Published Stage = "published" // it is on its way into the caches, and nothing depends on it
	Ready     Stage = "ready"     // its DS is wanted at the parent
	Active    Stage = "active"
	Retired   Stage = "retired" // nothing new depends on it; it leaves when the caches have forgotten it
)

// Flags of DNSKEY records.
const (
	FlagsKSK = 257
	FlagsZSK = 256
)

// Key is one key, without its secret.
type Key struct {
	Tag    uint16    `json:"tag"`
	KSK    bool      `json:"ksk,omitempty"`
	Public []byte    `json:"public"` // x and y, 64 octets
	Made   time.Time `json:"made"`
	Stage  Stage     `json:"stage"`
	Since  time.Time `json:"since"` // it is at that stage, by the wall clock; for people
	// Wait is what is left until the next stage; 0: it waits for no time.
	Wait time.Duration `json:"wait,omitempty"`
}

// Flags are those of its DNSKEY record.
func (k *Key) Flags() uint16 {
	if k.KSK {
		return FlagsKSK
	}
	return FlagsZSK
}

// State is the keys of one zone. The zero value is a zone that is not signed.
type State struct {
	Keys []Key `json:"keys"` // in the order of their making
	// Leaving: the zone is not to be signed any more, and waits for its DS to go. DSGone: somebody saw that it went;
	// then Wait is left until the caches have forgotten it.
	Leaving bool          `json:"leaving,omitempty"`
	DSGone  bool          `json:"dsGone,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`
}

// Clone is a copy that shares nothing that changes.
func (s *State) Clone() State {
	out := *s
	out.Keys = slices.Clone(s.Keys)
	return out
}

// Signed reports whether the zone is signed.
func (s *State) Signed() bool { return len(s.Keys) > 0 }

// Maker makes a key: Tag, Public and Made are filled in.
type Maker func(ksk bool) (Key, error)

// Step brings the state to now. heard is how much time has passed since the last step in which every name server was known
// to have the keys as they are. It says what changed, in sentences for people; none: nothing that name servers or people see
// changed, but waits may have. On an error, which is of the maker, the state is as it was.
func (s *State) Step(now time.Time, heard time.Duration, p *Policy, newKey Maker) (news []string, err error) {
	m := machine{State: s.Clone(), now: now, p: p, newKey: newKey}
	m.count(max(0, heard))
	switch {
	case !p.Enabled:
		m.leave()
	case m.Leaving:
		m.say("the zone stays signed")
		m.Leaving, m.DSGone, m.Wait = false, false, 0
	case !m.Signed():
		err = m.begin()
	default:
		m.move()
		err = m.schedule()
	}
	if err != nil {
		return nil, err
	}
	*s = m.State
	return m.news, nil
}

// machine is one step under way.
type machine struct {
	State
	now    time.Time
	p      *Policy
	newKey Maker
	news   []string
}

func (m *machine) say(format string, args ...any) {
	m.news = append(m.news, fmt.Sprintf(format, args...))
}

// count takes time off every wait.
func (m *machine) count(heard time.Duration) {
	m.Wait = max(0, m.Wait-heard)
	for i := range m.Keys {
		m.Keys[i].Wait = max(0, m.Keys[i].Wait-heard)
	}
}

// leave ends signing, once the parent has no DS any more: a zone without signatures below a DS is a forgery to validators.
func (m *machine) leave() {
	switch {
	case !m.Signed():
	case !m.Leaving:
		m.Leaving = true
		m.say("the zone is to be signed no more: CDS and CDNSKEY ask the parent to delete its DS; it is signed until `steer dnssec ds-gone` says that the DS is gone")
	case m.DSGone && m.Wait == 0:
		m.State = State{}
		m.say("the zone is signed no more")
	}
}

// begin makes the first keys. Nobody has anything of the zone in a cache that they could contradict.
func (m *machine) begin() error {
	ksk, err := m.add(true, Ready, 0)
	if err != nil {
		return err
	}
	zsk, err := m.add(false, Active, 0)
	if err != nil {
		return err
	}
	m.say("the zone is signed: key-signing key %d, zone-signing key %d; give the DS to the parent (`steer dnssec ds`)", ksk.Tag, zsk.Tag)
	return nil
}

func (m *machine) add(ksk bool, stage Stage, wait time.Duration) (Key, error) {
	k, err := m.newKey(ksk)
	if err != nil {
		return k, err
	}
	k.KSK, k.Stage, k.Since, k.Wait = ksk, stage, m.now, wait
	m.Keys = append(m.Keys, k)
	return k, nil
}

// move takes every key to its next stage whose wait is over.
func (m *machine) move() {
	for i := range m.Keys {
		k := &m.Keys[i]
		if k.Wait > 0 {
			continue
		}
		switch {
		case k.Stage == Published && k.KSK:
			m.stage(k, Ready, 0)
			m.say("key-signing key %d is in every cache: give its DS to the parent (`steer dnssec ds`), and say so when it is there", k.Tag)
		case k.Stage == Published:
			m.retire(false, m.p.MaxTTL)
			m.stage(k, Active, 0)
			m.say("zone-signing key %d signs now", k.Tag)
		}
	}
	m.Keys = slices.DeleteFunc(m.Keys, func(k Key) bool {
		if k.Stage != Retired || k.Wait > 0 {
			return false
		}
		m.say("key %d is gone", k.Tag)
		return true
	})
}

func (m *machine) stage(k *Key, to Stage, wait time.Duration) {
	k.Stage, k.Since, k.Wait = to, m.now, wait
}

// retire retires the active keys of a kind; they stay for the TTL of what depends on them.
func (m *machine) retire(ksk bool, ttl time.Duration) {
	for i := range m.Keys {
		if k := &m.Keys[i]; k.KSK == ksk && k.Stage == Active {
			m.stage(k, Retired, ttl+m.p.Margin)
		}
	}
}

// schedule begins the rolls that are due. By a clock that was set forward one begins early, which does no harm: its waits
// are its own.
func (m *machine) schedule() error {
	for _, kind := range []struct {
		ksk    bool
		period time.Duration
	}{{false, m.p.ZSKPeriod}, {true, m.p.KSKPeriod}} {
		if kind.period == 0 || m.rolling(kind.ksk) != "" {
			continue
		}
		for i := range m.Keys {
			if k := &m.Keys[i]; k.KSK == kind.ksk && k.Stage == Active && m.now.Sub(k.Made) >= kind.period {
				if err := m.roll(kind.ksk, "it is due"); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// rolling says what is under way with the keys of a kind; "": nothing.
func (s *State) rolling(ksk bool) string {
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.KSK != ksk {
			continue
		}
		switch {
		case k.Stage == Ready:
			return fmt.Sprintf("the DS of key %d has not been seen at the parent yet: `steer dnssec ds-seen` says that it is there", k.Tag)
		case k.Stage == Published:
			return fmt.Sprintf("key %d is being rolled in", k.Tag)
		case k.Stage == Retired:
			return fmt.Sprintf("key %d is still in caches", k.Tag)
		}
	}
	return ""
}

func (m *machine) roll(ksk bool, why string) error {
	k, err := m.add(ksk, Published, m.p.KeyTTL+m.p.Margin)
	if err == nil {
		m.say("%s roll begins, since %s: key %d is published", kindName(ksk), why, k.Tag)
	}
	return err
}

func kindName(ksk bool) string {
	if ksk {
		return "KSK"
	}
	return "ZSK"
}

// ConflictError is a wish that does not fit the state; its text says why and what to do.
type ConflictError struct{ Why string }

func (e *ConflictError) Error() string { return e.Why }

// Roll begins a roll. An error that is no ConflictError is of the maker.
func (s *State) Roll(now time.Time, ksk bool, p *Policy, newKey Maker) (news []string, err error) {
	switch why := s.rolling(ksk); {
	case !s.Signed():
		return nil, &ConflictError{"the zone is not signed"}
	case s.Leaving:
		return nil, &ConflictError{"the zone is about to be signed no more"}
	case why != "":
		return nil, &ConflictError{why}
	}
	m := machine{State: s.Clone(), now: now, p: p, newKey: newKey}
	if err := m.roll(ksk, "somebody asked for it"); err != nil {
		return nil, err
	}
	*s = m.State
	return m.news, nil
}

// DSSeen notes that the parent has the DS of the key that waits for it: older key-signing keys retire.
func (s *State) DSSeen(now time.Time, p *Policy) (news []string, err error) {
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.KSK && k.Stage == Ready })
	if i < 0 {
		return nil, &ConflictError{"no key waits for its DS to be seen at the parent"}
	}
	m := machine{State: s.Clone(), now: now, p: p}
	m.retire(true, p.ParentTTL)
	k := &m.Keys[i]
	m.stage(k, Active, 0)
	m.say("the DS of key %d is at the parent", k.Tag)
	*s = m.State
	return m.news, nil
}

// ForgetDS notes that the parent has no DS any more: a zone that is to leave is signed until caches have forgotten it.
func (s *State) ForgetDS(p *Policy) (news []string, err error) {
	switch {
	case !s.Leaving:
		return nil, &ConflictError{"the zone is to be signed; set dnssec.enabled: false in its Zone first"}
	case s.DSGone:
		return nil, &ConflictError{"that was said already"}
	}
	s.DSGone, s.Wait = true, p.ParentTTL+p.Margin
	return []string{fmt.Sprintf("the DS is gone from the parent: the zone is signed for %s more, until caches have forgotten it", s.Wait)}, nil
}

// Waits reports whether something waits for time, which passes only while every name server has the keys.
func (s *State) Waits() bool {
	return s.Wait > 0 || slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Wait > 0 })
}

// WantsDS is the key whose DS the parent should have; nil: none.
func (s *State) WantsDS() *Key {
	var want *Key
	for i := range s.Keys {
		k := &s.Keys[i]
		if k.KSK && (k.Stage == Ready || k.Stage == Active && want == nil) {
			want = k
		}
	}
	return want
}

// AwaitsParent reports whether the parent has to do something.
func (s *State) AwaitsParent() bool {
	return s.Leaving && !s.DSGone || slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Stage == Ready })
}

// Zone is what name servers need of it. The secrets go by another way.
func (s *State) Zone(name string, life, keyTTL time.Duration) snapshot.SignedZone {
	out := snapshot.SignedZone{Zone: name, Life: life, KeyTTL: keyTTL, Unsign: s.Leaving}
	want := s.WantsDS()
	for i := range s.Keys {
		k := &s.Keys[i]
		out.Keys = append(out.Keys, snapshot.ZoneKey{
			Tag: k.Tag, Flags: k.Flags(), Public: k.Public, Signs: k.KSK || k.Stage == Active, DS: k == want && !s.Leaving,
		})
	}
	return out
}

// Next says in a sentence what comes next; "": nothing is under way.
func (s *State) Next() string {
	var parts []string
	switch {
	case s.Leaving && !s.DSGone:
		parts = append(parts, "waits for the DS to be deleted at the parent: then `steer dnssec ds-gone`")
	case s.Leaving:
		parts = append(parts, fmt.Sprintf("signed no more in %s", s.Wait.Round(time.Second)))
	}
	for i := range s.Keys {
		k := &s.Keys[i]
		left := k.Wait.Round(time.Second)
		switch {
		case k.Stage == Ready && !s.Leaving:
			parts = append(parts, fmt.Sprintf("key %d waits for its DS at the parent: then `steer dnssec ds-seen`", k.Tag))
		case k.Stage == Published && k.KSK:
			parts = append(parts, fmt.Sprintf("key %d wants its DS at the parent in %s", k.Tag, left))
		case k.Stage == Published:
			parts = append(parts, fmt.Sprintf("key %d signs in %s", k.Tag, left))
		case k.Stage == Retired:
			parts = append(parts, fmt.Sprintf("key %d goes in %s", k.Tag, left))
		}
	}
	return strings.Join(parts, "; ")
}

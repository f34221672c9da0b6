package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/store"
	"steerpoint/internal/hidden"
	"steerpoint/internal/seal"
	"steerpoint/spec"
)

// sealedField is the member of a stored Secret that holds its values; the rest of it may be shown.
const sealedField = "sealed"

// secrets opens values for those who use them, and seals those that are written. Values are opened when they are needed
// and kept nowhere. Methods may run at the same time.
type secrets struct {
	path string // of the sealing key
	log  *slog.Logger
	// needed: something else than Secrets is sealed, so that a key that is missing is not replaced by a fresh one.
	needed atomic.Bool

	mu     sync.Mutex // of what follows
	keys   *seal.Keys // nil: there are none
	err    error      // why the file is of no use now; with keys they are those of before
	file   fileState  // as it was read; zero: it was not
	stored map[string]*storedSecret
	// turn grows when a value may open that did not, so that who waits for one tries again; changes also when what is
	// stored may be another.
	turn, changes uint64
}

// storedSecret is a Secret as it is stored.
type storedSecret struct {
	revision int64
	sealed   *seal.Sealed // nil: it cannot be read
	err      error        // why it does not open
}

// fileState tells whether a file was changed or replaced.
type fileState struct {
	looked bool
	info   fs.FileInfo // nil: it was not there
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	return fileState{true, info}
}

func (f fileState) missing() bool { return f.looked && f.info == nil }

func (f fileState) same(o fileState) bool {
	if f.info == nil || o.info == nil {
		return f.looked == o.looked && f.info == nil && o.info == nil
	}
	return os.SameFile(f.info, o.info) && f.info.ModTime().Equal(o.info.ModTime()) && f.info.Size() == o.info.Size() && f.info.Mode() == o.info.Mode()
}

// take puts what is stored in the place of what was.
func (s *secrets) take(stored map[string]store.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	was := s.stored
	s.stored = map[string]*storedSecret{}
	for _, r := range stored {
		if r.Kind != string(spec.KindSecret) {
			continue
		}
		if old := was[r.Name]; old != nil && old.revision == r.Revision {
			s.stored[r.Name] = old
			continue
		}
		x := &storedSecret{revision: r.Revision}
		x.sealed, x.err = sealedOf(r.Document)
		s.check(r.Name, x)
		s.stored[r.Name] = x
	}
}

// check tries whether a Secret opens. The caller holds the lock.
func (s *secrets) check(name string, x *storedSecret) {
	switch {
	case x.sealed == nil:
	case s.keys == nil:
		x.err = seal.ErrNoKey
	default:
		x.err = s.keys.Check(placeOf(name), x.sealed)
	}
}

// look reads the sealing key if its file is not as it was. A first one is made: while nothing is sealed and none is there.
// The file may be on a slow disk, so it is read without the lock; there is one caller at a time.
func (s *secrets) look(now time.Time) (changed bool) {
	s.mu.Lock()
	was, first := s.file, s.keys == nil && len(s.stored) == 0 && !s.needed.Load()
	s.mu.Unlock()
	state := stateOf(s.path)
	if state.same(was) && !(state.missing() && first) {
		return false
	}
	keys, err := seal.Read(s.path)
	if errors.Is(err, fs.ErrNotExist) && first {
		if keys, err = seal.Create(s.path, now); err == nil {
			s.log.Info("a sealing key was made", "file", s.path, "key", keys.Current())
		}
		state = stateOf(s.path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopt(keys, err, state)
	return true
}

// adopt takes what was read. A key that opens what is stored is not given up for one that does not: it is lost with the
// process, and until then the alarm says so. The caller holds the lock.
func (s *secrets) adopt(keys *seal.Keys, err error, state fileState) {
	s.file = state
	if err == nil && s.keys != nil {
		for name, x := range s.stored {
			if x.sealed != nil && s.keys.Has(x.sealed.Master) && !keys.Has(x.sealed.Master) {
				err = fmt.Errorf("%s holds another key now, which does not open Secret %s", s.path, name)
			}
		}
	}
	if s.err = err; err == nil {
		s.use(keys)
	}
}

// use works with other keys from now on. The caller holds the lock.
func (s *secrets) use(keys *seal.Keys) {
	s.keys = keys
	s.turn++
	s.changes++
	for name, x := range s.stored {
		s.check(name, x)
	}
}

// open gives one value.
func (s *secrets) open(name, key string) (hidden.Text, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.stored[name]
	switch {
	case x == nil:
		return hidden.Text{}, fmt.Errorf("there is no Secret %s", name)
	case x.sealed == nil:
		return hidden.Text{}, fmt.Errorf("secret %s: %w", name, x.err)
	case s.keys == nil:
		return hidden.Text{}, fmt.Errorf("secret %s cannot be opened: %w", name, s.err)
	}
	v, err := s.keys.Open(placeOf(name), x.sealed, key)
	if err != nil {
		return hidden.Text{}, fmt.Errorf("secret %s, key %s, cannot be opened: %w", name, key, err)
	}
	return v, nil
}

// value is open for what names a value by a reference.
func (s *secrets) value(ref spec.SecretRef) (hidden.Text, error) { return s.open(ref.Secret, ref.Key) }

// changed is another number when some value may be another, or may open that did not.
func (s *secrets) changed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// usable gives the keys, or says why none seals now. It is refused also while the file is not the one that the keys are
// of: what is sealed then would be lost with the process.
func (s *secrets) usable() (*seal.Keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.keys == nil {
		return nil, fmt.Errorf("secrets cannot be written: %w", s.err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.stored)) {
		if err := s.stored[name].err; errors.Is(err, seal.ErrNoKey) {
			return nil, fmt.Errorf("secrets cannot be written: the key in %s is not the one of Secret %s: %w", s.path, name, err)
		}
	}
	return s.keys, nil
}

// opening gives the keys to open by, also while their file is not at hand.
func (s *secrets) opening() (*seal.Keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		return nil, fmt.Errorf("what is sealed cannot be opened: %w", s.err)
	}
	return s.keys, nil
}

// rotation gives the keys to seal everything anew by, after a new one was put before them if fresh. That also writes a file
// again that was lost while the process ran.
func (s *secrets) rotation(fresh bool, now time.Time) (*seal.Keys, error) {
	s.mu.Lock()
	keys, lost := s.keys, s.err != nil && s.file.missing()
	s.mu.Unlock()
	if !fresh || keys == nil || !lost {
		var err error
		if keys, err = s.usable(); err != nil || !fresh {
			return keys, err
		}
	}
	keys, err := keys.Renew(s.path, now)
	if err != nil {
		return nil, err
	}
	state := stateOf(s.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopt(keys, nil, state)
	return keys, s.err
}

// version is another number when the values a notifier takes may be others, or open now.
func (s *secrets) version(set *spec.Set, n *spec.Notifier) uint64 {
	uses := n.SecretUses()
	if len(uses) == 0 {
		return 0
	}
	s.mu.Lock()
	v := s.turn << 48
	s.mu.Unlock()
	for _, u := range uses {
		if doc, ok := set.Get(spec.KindSecret, u.Secret); ok {
			v += doc.Revision
		}
	}
	return v
}

// trouble says what cannot be opened, why, and who uses it; "" if all is well.
func (s *secrets) trouble(set *spec.Set) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var shut []string
	var why error
	for _, name := range slices.Sorted(maps.Keys(s.stored)) {
		if err := s.stored[name].err; err != nil {
			shut, why = append(shut, name+usersOf(set, name)), err
		}
	}
	switch {
	case s.err == nil && len(shut) == 0:
		return ""
	case s.err != nil && s.keys != nil:
		return fmt.Sprintf("the sealing key is only in memory and is lost when steer stops: %v. Put the file back, or write it again with `steer secret rotate --new-key`; until then Secrets cannot be written", s.err)
	case len(shut) == 0:
		return fmt.Sprintf("Secrets cannot be written: %v", s.err)
	}
	if s.err != nil {
		why = s.err
	}
	return fmt.Sprintf("what is sealed cannot be opened: %v. Secrets: %s. Everything else goes on; put the right key into %s, or delete these Secrets and write them anew", why, some(shut), s.path)
}

// maxNamed is how many Secrets an alarm names.
const maxNamed = 10

// some joins the first of a list and counts the rest.
func some(list []string) string {
	if len(list) > maxNamed {
		return strings.Join(list[:maxNamed], "; ") + fmt.Sprintf("; and %d more", len(list)-maxNamed)
	}
	return strings.Join(list, "; ")
}

func usersOf(set *spec.Set, secret string) string {
	uses := func(u spec.SecretUse) bool { return u.Secret == secret }
	var notifiers, users []string
	for _, n := range set.Notifiers() {
		if slices.ContainsFunc(n.SecretUses(), uses) {
			notifiers = append(notifiers, n.Name)
		}
	}
	if len(notifiers) > 0 {
		users = append(users, "notifier "+strings.Join(notifiers, ", "))
	}
	for _, z := range set.Zones() {
		if slices.ContainsFunc(z.SecretUses(), uses) {
			users = append(users, "zone "+z.Name)
		}
	}
	for _, v := range set.Certificates() {
		if slices.ContainsFunc(v.SecretUses(), uses) {
			users = append(users, "certificate "+v.Name)
		}
	}
	if len(users) == 0 {
		return " (used by nobody)"
	}
	return " (used by " + strings.Join(users, ", ") + ")"
}

// placeOf is what the values of a Secret are sealed for.
func placeOf(name string) seal.Place { return seal.Place{Kind: string(spec.KindSecret), Name: name} }

// openSecrets reads the sealing key and tries it on what is stored; before the loop begins.
func (c *Control) openSecrets() {
	c.secrets.take(c.resources.stored)
	c.secrets.look(c.wallNow())
	c.judgeSecrets()
}

// secretsChanged takes what is stored of Secrets, in the loop.
func (c *Control) secretsChanged() {
	c.secrets.take(c.resources.stored)
	c.judgeSecrets()
	c.answers.mark() // keys of transfers may be others
}

// judgeSecrets raises the alarm about the sealing key, or takes it away. It runs in the loop.
func (c *Control) judgeSecrets() {
	message := c.secrets.trouble(c.engine.Set())
	c.alarms.set(api.AlarmSealKey, "", message != "", message)
}

// watchSealKey notices a sealing key that was lost or put back, until ctx ends. Nothing else waits for the disk it is on.
func (c *Control) watchSealKey(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var resealed time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if time.Since(resealed) >= resealAgain && c.mayFinishRotation(ctx) {
			resealed = time.Now()
		}
		changed := c.secrets.look(c.wallNow())
		if changed {
			c.lookAtCookies(ctx)
		}
		err := c.do(ctx, func() {
			c.judgeSecrets()
			if changed { // who waits for a value tries again
				c.answers.mark()
				c.news.configure(c.engine.Set())
			}
		})
		if err != nil {
			return nil // control stops
		}
	}
}

// sealedOf reads the sealed values of a stored Secret.
func sealedOf(document json.RawMessage) (*seal.Sealed, error) {
	var d struct {
		Sealed *seal.Sealed `json:"sealed"`
	}
	if json.Unmarshal(document, &d) != nil || d.Sealed == nil {
		return nil, errors.New("it is stored without sealed values")
	}
	return d.Sealed, nil
}

// shown is a document as it may be shown: of a Secret without its sealed values. Every document that is stored goes through
// it before it is parsed or leaves control.
func shown(kind string, document json.RawMessage) json.RawMessage {
	if kind != string(spec.KindSecret) || document == nil {
		return document
	}
	return only(document, "apiVersion", "kind", "name", "labels", "keys")
}

// only gives a JSON object with these members of it and no others.
func only(document json.RawMessage, fields ...string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(document, &all) != nil {
		return json.RawMessage(`{}`)
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return !slices.Contains(fields, name) })
	b, err := json.Marshal(all)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return b
}

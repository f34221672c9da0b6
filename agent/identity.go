package agent

import (
	"cmp"
	"crypto"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/internal/pki"
)

// Files in Config.Dir.
const (
	keyFile       = "node.key"
	authorityFile = "ca.crt"
	recordFile    = "node.json"
	certFile      = "node.crt"
	stateFile     = "node.state"
	tasksFile     = "probe.tasks"
	edgeFile      = "edge.snapshot"
)

const (
	recordKind    = "node"
	recordVersion = 1
)

// identity is who the node is. It is never changed: a renewal makes another.
type identity struct {
	record
	roles     []string // of the certificate
	cert      *tls.Certificate
	authority []byte // PEM
	expires   time.Time
	// got is when the certificate came, by the monotonic clock; zero when it was read from disk.
	got time.Time
}

// record is the content of node.json: what the certificate does not say.
type record struct {
	Name     string        `json:"name"`
	Cluster  string        `json:"cluster"`
	Lifetime time.Duration `json:"lifetime"` // of the last certificate, when it came
	Servers  []string      `json:"servers"`
	Roles    []string      `json:"roles,omitempty"` // of the certificate, for a start without it
}

// left is the time until the certificate ends: by the monotonic clock if it came in this process, else by the wall
// clock, which may be wrong.
func (id *identity) left() time.Duration {
	if id.got.IsZero() {
		return time.Until(id.expires)
	}
	return id.Lifetime - time.Since(id.got)
}

// due is how long from now the certificate should be renewed, before jitter: when two thirds of its life are over. Of
// one read from disk only the wall clock knows how old it is: one that looks older than half its life, or younger than
// new, is renewed at once, since asking costs less than being wrong.
func (id *identity) due() time.Duration {
	left := id.left()
	if id.got.IsZero() && (left < id.Lifetime/2 || left > id.Lifetime) {
		return 0
	}
	return max(0, left-id.Lifetime/3)
}

func (id *identity) has(roles []string) (missing string, ok bool) {
	for _, r := range roles {
		if !slices.Contains(id.roles, r) {
			return r, false
		}
	}
	return "", true
}

// store keeps the identity on disk.
type store struct {
	dir string
	// write replaces a PEM file and keep one of ours; tests make them fail.
	write func(path string, text []byte) error
	keep  func(path, kind string, version int, payload []byte) error
}

func newStore(dir string) *store {
	return &store{dir: dir, write: pki.WriteFile, keep: atomicfile.Write}
}

func (s *store) path(file string) string { return filepath.Join(s.dir, file) }

// key reads the node's key, or makes and writes one: it is on disk before anybody hears of it.
func (s *store) key() (crypto.Signer, error) {
	key, err := pki.ReadKey(s.path(keyFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key, text, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	if err := s.write(s.path(keyFile), text); err != nil {
		return nil, err
	}
	return key, nil
}

// save writes what control gave. The certificate is last: with it the identity is whole. Until then the one before, or
// none, is what load finds.
func (s *store) save(id *identity, certificate []byte) error {
	if err := s.write(s.path(authorityFile), id.authority); err != nil {
		return err
	}
	if err := s.saveRecord(&id.record); err != nil {
		return err
	}
	return s.write(s.path(certFile), certificate)
}

func (s *store) saveRecord(r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("node record: %w", err)
	}
	return s.keep(s.path(recordFile), recordKind, recordVersion, b)
}

// errDamaged is matched by load's error when a file of the identity is there and cannot be used.
var errDamaged = errors.New("identity is damaged")

// load reads the identity; nil without an error: the node has not joined. A damaged file gives errDamaged with its name,
// and stays as it is.
func (s *store) load() (*identity, error) {
	certificate, err := os.ReadFile(s.path(certFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	key, err := pki.ReadKey(s.path(keyFile))
	if err != nil {
		return nil, identityFault(err)
	}
	authority, err := os.ReadFile(s.path(authorityFile))
	if err != nil {
		return nil, identityFault(err)
	}
	if _, err := pki.ParseAuthority(authority); err != nil {
		return nil, fmt.Errorf("FILE_DAMAGED: %s: %w: %w", s.path(authorityFile), err, errDamaged)
	}
	id, err := assemble(certificate, authority, key)
	if err != nil {
		return nil, fmt.Errorf("FILE_DAMAGED: %s: %w: %w", s.path(certFile), err, errDamaged)
	}
	return id, nil
}

// identityFault is the error of a part that cannot be read: one that is gone is damage.
func identityFault(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("identity: %w: %w", err, errDamaged)
	}
	return fmt.Errorf("identity: %w", err)
}

// loadRecord adds to id what node.json says.
func (s *store) loadRecord(id *identity) error {
	_, b, err := atomicfile.Read(s.path(recordFile), recordKind, recordVersion)
	if err != nil {
		return err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return &atomicfile.DamagedError{Path: s.path(recordFile), Why: "it is whole but not a node's record: " + err.Error()}
	}
	if r.Name == id.Name && r.Lifetime > 0 {
		id.record = r
	}
	return nil
}

// assemble makes an identity of its parts, and says when they are not one.
func assemble(certificate, authority []byte, key crypto.Signer) (*identity, error) {
	cert, err := pki.Pair(certificate, key)
	if err != nil {
		return nil, err
	}
	who, err := pki.Identify(cert.Leaf)
	if err != nil {
		return nil, err
	}
	return &identity{
		record: record{Name: who.Name, Lifetime: cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore)},
		roles:  who.Roles, cert: cert, authority: authority, expires: who.NotAfter,
	}, nil
}

// accept makes an identity of what control gave just now.
func accept(c *pki.Credential, key crypto.Signer, name string, servers []string) (*identity, error) {
	id, err := assemble(c.Certificate, c.Authority, key)
	if err != nil {
		return nil, fmt.Errorf("control gave a certificate that cannot be used: %w", err)
	}
	if _, err := pki.ParseAuthority(c.Authority); err != nil {
		return nil, fmt.Errorf("control gave an authority that cannot be used: %w", err)
	}
	if id.Name != name {
		return nil, fmt.Errorf("control gave a certificate for %q, and this node is %q", id.Name, name)
	}
	if c.Lifetime <= 0 {
		return nil, fmt.Errorf("control gave a certificate with a life of %v", c.Lifetime)
	}
	id.Cluster, id.Lifetime, id.Servers, id.got = c.Cluster, c.Lifetime, servers, time.Now()
	id.Roles = id.roles
	return id, nil
}

// open reads the identity and makes the configuration and it agree.
func (a *Agent) open() error {
	a.loadState()
	id, err := a.store.load()
	if errors.Is(err, errDamaged) {
		aside, asideErr := atomicfile.SetAside(a.store.path(certFile))
		a.log.Error("the node's identity is damaged: it is set aside, and the node has to join again",
			"error", err, "movedTo", aside, "setAside", asideErr)
		id, err = nil, asideErr
	}
	if err != nil {
		return err
	}
	a.id = id
	if id == nil {
		a.remember()
		return a.stranger()
	}
	if err := a.openRecord(id); err != nil {
		return err
	}
	return a.member(id)
}

// openRecord reads node.json. What it says can be done without: a damaged one is no reason to lose a node.
func (a *Agent) openRecord(id *identity) error {
	err := a.store.loadRecord(id)
	switch {
	case errors.Is(err, atomicfile.ErrDamaged):
		aside, asideErr := atomicfile.SetAside(a.store.path(recordFile))
		a.log.Warn("the node's record is damaged: it is set aside, and the certificate alone says who this is",
			"error", err, "movedTo", aside, "setAside", asideErr)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

// remember fills in what is not configured from node.json: a node whose certificate is damaged answers on by the map it
// has, and says who it was, also when it was started by its folder alone.
func (a *Agent) remember() {
	_, b, err := atomicfile.Read(a.store.path(recordFile), recordKind, recordVersion)
	var r record
	if err != nil || json.Unmarshal(b, &r) != nil {
		return // then the configuration has to say it
	}
	a.cfg.Name = cmp.Or(a.cfg.Name, r.Name)
	if len(a.cfg.Roles) == 0 {
		a.cfg.Roles = r.Roles
	}
	if len(a.cfg.Servers) == 0 {
		a.cfg.Servers = r.Servers
	}
}

// stranger checks the configuration of a node that has yet to join.
func (a *Agent) stranger() error {
	if err := pki.ValidName(a.cfg.Name); err != nil {
		return pki.Refuse(pki.BadRequest, "node name: "+err.Error(), "choose one with --name")
	}
	if len(a.cfg.Roles) == 0 {
		return errors.New("agent config: Roles is empty: a node joins for some role")
	}
	if len(a.cfg.Servers) == 0 {
		return errors.New("agent config: Servers is empty: a node joins somewhere")
	}
	return nil
}

// member makes the configuration and the identity agree: the identity wins.
func (a *Agent) member(id *identity) error {
	if a.cfg.Token != nil {
		a.log.Info("this node has joined before: its identity is used, and no token is looked at", "node", id.Name, "cluster", id.Cluster)
	}
	if a.cfg.Name != "" && a.cfg.Name != id.Name {
		a.log.Warn("this node joined under another name than it is given now: it keeps the name it joined under", "node", id.Name, "given", a.cfg.Name)
	}
	if len(a.cfg.Roles) == 0 {
		a.cfg.Roles = slices.Clone(id.roles)
	}
	if role, ok := id.has(a.cfg.Roles); !ok {
		return pki.Refuse(pki.RoleRefused,
			fmt.Sprintf("node %s joined with other roles, and %s is not among them", id.Name, role),
			"start it with the roles it has, or remove it (steer node remove), empty its data folder and join again with a token for this role")
	}
	if len(a.cfg.Servers) == 0 {
		a.cfg.Servers = id.Servers
	}
	if len(a.cfg.Servers) == 0 {
		return errors.New("agent config: Servers is empty, and the last start left none behind")
	}
	if !slices.Equal(a.cfg.Servers, id.Servers) {
		r := id.record
		r.Servers = a.cfg.Servers
		if err := a.store.saveRecord(&r); err != nil {
			a.log.Warn("the URLs of control cannot be kept; give them again at the next start", "error", err)
		}
	}
	return nil
}

// KeyFile is the file in a node's folder that holds its private key: what is sealed to the node opens by it.
func KeyFile(dir string) string { return filepath.Join(dir, keyFile) }

// Joined reports whether a folder holds an identity, whole or not.
func Joined(dir string) bool {
	for _, name := range []string{certFile, recordFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

package agent

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Member is what a folder says of the node it belongs to.
type Member struct {
	Name        string
	Cluster     string   // "" when node.json is gone
	Roles       []string // of the certificate
	Servers     []string // URLs of control
	Certificate *tls.Certificate
	Authority   []byte        // PEM
	Lifetime    time.Duration // of the certificate, when it came
	Expires     time.Time     // by control's clock
}

// Inspect reads the identity in a folder, and changes nothing: it is for looking at a node beside the running process.
// The error is fs.ErrNotExist's when the folder holds none.
func Inspect(dir string) (*Member, error) {
	s := newStore(dir)
	id, err := s.load()
	if err != nil {
		return nil, err
	}
	if id == nil {
		return nil, fs.ErrNotExist
	}
	if err := s.loadRecord(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &Member{
		Name: id.Name, Cluster: id.Cluster, Roles: slices.Clone(id.roles), Servers: slices.Clone(id.Servers),
		Certificate: id.cert, Authority: id.authority, Lifetime: id.Lifetime, Expires: id.expires,
	}, nil
}

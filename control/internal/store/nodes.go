package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	tokenPrefix   = Root + "tokens/"
	nodePrefix    = Root + "nodes/"
	removedPrefix = Root + "nodes-removed/"
)

// Token is the record of a join token.
type Token struct {
	ID    string   `json:"id"`
	Hash  string   `json:"hash"` // hex SHA-256 of the secret, which is not kept
	Roles []string `json:"roles"`
	Name  string   `json:"name,omitempty"` // the only name that may join by it; "": any
	// Created, Boot and BootTime are when it was made, so that its life does not depend on a wall clock set since.
	Created  time.Time     `json:"created"`
	Boot     string        `json:"boot,omitempty"`
	BootTime time.Duration `json:"bootTime,omitempty"`
	Expires  time.Time     `json:"expires"`
	Actor    string        `json:"actor,omitempty"`
	Used     time.Time     `json:"used,omitzero"`
	Node     string        `json:"node,omitempty"` // that joined by it
	Key      string        `json:"key,omitempty"`  // hex SHA-256 of the public key that joined by it

	Revision int64 `json:"-"` // of the store, when it was read or written
}

// Node is the record of a joined node.
type Node struct {
	Name    string            `json:"name"`
	Roles   []string          `json:"roles"`
	Labels  map[string]string `json:"labels,omitempty"`
	Token   string            `json:"token"` // ID of the one it joined by
	Joined  time.Time         `json:"joined"`
	Address string            `json:"address,omitempty"` // it joined from
	Version string            `json:"version,omitempty"` // of the program when it joined
	// Since is the end of the first certificate given under this record: one that ends earlier is of another node that
	// had the name before.
	Since time.Time `json:"since"`
	// Serial, Issued and Expires are of the certificate given last; Latest is the latest end of all of them.
	Serial  string    `json:"serial"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	Latest  time.Time `json:"latest"`
	// Authority is the hash of the authority that signed it.
	Authority string `json:"authority"`
	// PublicKey is that of the certificate, PKIX in DER; empty: it was given by a version that did not note it.
	PublicKey []byte `json:"publicKey,omitempty"`

	Revoked    time.Time `json:"revoked,omitzero"`
	RevokedBy  string    `json:"revokedBy,omitempty"`
	RevokedWhy string    `json:"revokedWhy,omitempty"`

	Revision int64 `json:"-"` // of the store, when it was read or written
}

// Removed is what stays of a node that was removed: until Latest is long over, certificates of its name exist.
type Removed struct {
	Name   string    `json:"name"`
	Latest time.Time `json:"latest"`
}

// Enrolled is every token, node and removed node.
type Enrolled struct {
	Tokens  []Token
	Nodes   []Node
	Removed []Removed
}

// Enrolled reads tokens and nodes, each by key.
func (s *Store) Enrolled(ctx context.Context) (Enrolled, error) {
	var e Enrolled
	var err error
	if e.Tokens, err = readAll(ctx, s, tokenPrefix, func(t *Token, rev int64) { t.Revision = rev }); err != nil {
		return e, err
	}
	if e.Nodes, err = readAll(ctx, s, nodePrefix, func(n *Node, rev int64) { n.Revision = rev }); err != nil {
		return e, err
	}
	e.Removed, err = readAll(ctx, s, removedPrefix, func(*Removed, int64) {})
	return e, err
}

// readAll reads every record below a prefix. One that is unreadable is an error: a node or a revocation overlooked
// would be worse than no start.
func readAll[T any](ctx context.Context, s *Store, prefix string, revision func(*T, int64)) ([]T, error) {
	res, err := run(ctx, s, "read "+strings.TrimPrefix(prefix, Root), func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, prefix, clientv3.WithPrefix())
	})
	if err != nil {
		return nil, err
	}
	out := make([]T, len(res.Kvs))
	for i, kv := range res.Kvs {
		if err := json.Unmarshal(kv.Value, &out[i]); err != nil {
			return nil, fmt.Errorf("record %s: %w", kv.Key, err)
		}
		revision(&out[i], kv.ModRevision)
	}
	return out, nil
}

// Enrolment is one change of tokens and nodes. All of it is written, or nothing.
type Enrolment struct {
	// NewToken and NewNode must not exist yet; Token, Node and DropNode must be stored with their revision.
	NewToken, Token *Token
	NewNode, Node   *Node
	DropNode        *Node
	DropTokens      []string // IDs
	Removed         *Removed
	DropRemoved     []string // names
	Audit           []Audit
}

// WriteEnrolment writes a change in one transaction and sets the revisions of what it wrote. ErrConflict: something
// else is stored than the change rests on.
func (s *Store) WriteEnrolment(ctx context.Context, e *Enrolment) error {
	w := enrolmentWrite{}
	if e.NewToken != nil {
		w.put(tokenPrefix+e.NewToken.ID, e.NewToken, 0)
	}
	if e.Token != nil {
		w.put(tokenPrefix+e.Token.ID, e.Token, e.Token.Revision)
	}
	if e.NewNode != nil {
		w.put(nodePrefix+e.NewNode.Name, e.NewNode, 0)
	}
	if e.Node != nil {
		w.put(nodePrefix+e.Node.Name, e.Node, e.Node.Revision)
	}
	if e.Removed != nil {
		w.put(removedPrefix+e.Removed.Name, e.Removed, 0)
	}
	if e.DropNode != nil {
		w.compare(nodePrefix+e.DropNode.Name, e.DropNode.Revision)
		w.ops = append(w.ops, clientv3.OpDelete(nodePrefix+e.DropNode.Name))
	}
	for _, id := range e.DropTokens {
		w.drop(tokenPrefix + id)
	}
	for _, name := range e.DropRemoved {
		w.drop(removedPrefix + name)
	}
	for i := range e.Audit {
		w.set(auditPrefix+s.NextID(e.Audit[i].Time), &e.Audit[i])
	}
	if w.err != nil {
		return fmt.Errorf("write tokens and nodes: %w", w.err)
	}
	rev, err := s.commit(ctx, "write tokens and nodes", w.cmps, w.ops)
	if err != nil {
		return err
	}
	for _, t := range []*Token{e.NewToken, e.Token} {
		if t != nil {
			t.Revision = rev
		}
	}
	for _, n := range []*Node{e.NewNode, e.Node} {
		if n != nil {
			n.Revision = rev
		}
	}
	return nil
}

// enrolmentWrite gathers a transaction.
type enrolmentWrite struct {
	cmps []clientv3.Cmp
	ops  []clientv3.Op
	err  error
}

// put writes a record in the place of one of a revision; 0: of none.
func (w *enrolmentWrite) put(key string, v any, revision int64) {
	w.compare(key, revision)
	w.set(key, v)
}

func (w *enrolmentWrite) compare(key string, revision int64) {
	w.cmps = append(w.cmps, clientv3.Compare(clientv3.ModRevision(key), "=", revision))
}

func (w *enrolmentWrite) set(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		w.err = fmt.Errorf("record %s: %w", key, err)
		return
	}
	w.ops = append(w.ops, clientv3.OpPut(key, string(b)))
}

func (w *enrolmentWrite) drop(key string) {
	w.cmps = append(w.cmps, clientv3.Compare(clientv3.ModRevision(key), ">", 0))
	w.ops = append(w.ops, clientv3.OpDelete(key))
}

package store

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestEnrolmentIsAllOrNothing proves that token, node and audit line are one transaction, that a change which rests on
// something else than what is stored writes nothing, and that all of it is read back with its revisions.
// Covers: issue3 kill
func TestEnrolmentIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := t.Context()
	write := func(e *Enrolment) error { return s.WriteEnrolment(ctx, e) }
	token := Token{ID: "t1", Hash: "h", Roles: []string{"dns"}}
	must(t, write(&Enrolment{NewToken: &token}))
	if token.Revision == 0 {
		t.Error("a written token has no revision")
	}
	old := token
	token.Node = "n1"
	node := Node{Name: "n1", Token: "t1", Roles: []string{"dns"}}
	must(t, write(&Enrolment{Token: &token, NewNode: &node, Audit: []Audit{{Time: time.Unix(1000, 0), Action: "join", Kind: "Node", Name: "n1"}}}))
	old.Node = "n2"
	second := Node{Name: "n2", Token: "t1"}
	for name, e := range map[string]*Enrolment{
		"a token that was used since":    {Token: &old, NewNode: &second},
		"a node that exists":             {NewNode: &Node{Name: "n1"}},
		"a node that is not there":       {Node: &Node{Name: "n9", Revision: 5}},
		"a node that was changed since":  {Node: &Node{Name: "n1", Revision: node.Revision - 1}},
		"a token that exists":            {NewToken: &Token{ID: "t1"}},
		"removal of what was changed":    {DropNode: &Node{Name: "n1", Revision: node.Revision - 1}, Removed: &Removed{Name: "n1"}},
		"a token to drop that is absent": {DropTokens: []string{"t1", "t9"}},
	} {
		if err := write(e); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	must(t, s.Close())
	s = open(t, dir)
	e, err := s.Enrolled(ctx)
	if err != nil || len(e.Tokens) != 1 || len(e.Nodes) != 1 || len(e.Removed) != 0 {
		t.Fatalf("read back: %+v, %v", e, err)
	}
	if e.Tokens[0].Node != "n1" || e.Tokens[0].Revision != token.Revision || e.Nodes[0].Revision != node.Revision {
		t.Errorf("read back: %+v", e)
	}
	if trail, err := s.AuditTrail(ctx, 10); err != nil || len(trail) != 1 || trail[0].Action != "join" {
		t.Errorf("audit %+v, %v", trail, err)
	}
	must(t, write(&Enrolment{DropNode: &e.Nodes[0], Removed: &Removed{Name: "n1"}, DropTokens: []string{"t1"}}))
	must(t, write(&Enrolment{NewNode: &Node{Name: "n1"}, DropRemoved: []string{"n1"}}))
	if e, err = s.Enrolled(ctx); err != nil || len(e.Tokens)+len(e.Removed) != 0 || len(e.Nodes) != 1 {
		t.Errorf("after removal and another join: %+v, %v", e, err)
	}
}

// TestUnreadableNodeIsNoStart proves that a record of a node that cannot be read is an error that names it: overlooked,
// a revoked node would be let in.
// Covers: issue3 state files
func TestUnreadableNodeIsNoStart(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir(), Timeout: 30 * time.Second}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.client.Put(t.Context(), nodePrefix+"n1", "torn"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enrolled(t.Context()); err == nil || !strings.Contains(err.Error(), "nodes/n1") {
		t.Errorf("%v", err)
	}
}

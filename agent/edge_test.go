package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/wire"
)

// fakeEdge is a gateway that serves by a pack unless its envelope says otherwise.
type fakeEdge struct {
	mu      sync.Mutex
	version uint64
}

func (f *fakeEdge) Swap(p *snapshot.EdgePack) error {
	switch string(p.Sealed.Envelope) {
	case "for others":
		return fmt.Errorf("%w: it is not addressed", ErrNotYet)
	case "poison":
		panic("a snapshot nobody can bear")
	case "bad":
		return errors.New("there is no origin group x")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version = p.Version()
	return nil
}

func (f *fakeEdge) Explain(q *report.EdgeQuestion) (*report.EdgeAnswer, error) {
	switch q.URL {
	case "poison":
		panic("a question nobody can bear")
	case "":
		return nil, errors.New("no URL")
	}
	return &report.EdgeAnswer{Origin: q.URL}, nil
}

func (f *fakeEdge) State() report.NodeEdge {
	f.mu.Lock()
	defer f.mu.Unlock()
	return report.NodeEdge{Version: f.version}
}

func pack(version uint64, envelope string) wire.EdgeUpdate {
	return wire.EdgeUpdate{Full: &snapshot.EdgePack{Edge: &snapshot.Edge{Version: version}, Sealed: &snapshot.Sealed{Envelope: []byte(envelope)}}}
}

// A gateway takes what it can use and says so, refuses what it cannot and goes on by what it had, and waits for secrets that are
// not its own yet without a refusal. What it took last is on disk, and it serves by that at its next start, with nobody there.
//
// Covers: A2, A7, issue6 node
func TestFollowEdge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleEdge)
		r.member(RoleEdge)
		r.control.edge = standingEdge(pack(1, "for others"), pack(2, "mine"), pack(3, "bad"), pack(4, "poison"), wire.EdgeUpdate{Full: &snapshot.EdgePack{}})
		r.open()
		r.run()
		after(time.Millisecond)
		if trouble := strings.Join(r.agent.Trouble(), "; "); !strings.HasPrefix(trouble, "EDGE_SECRETS_MISSING: ") || len(r.control.heard().acks) != 0 {
			t.Errorf("while its secrets are missing: %q, acks %+v", trouble, r.control.heard().acks)
		}
		after(time.Minute)
		var got []string
		for _, a := range r.control.heard().acks {
			code, _, _ := strings.Cut(a.Reason, ":")
			got = append(got, fmt.Sprintf("%s %d %t %d %s", a.Snapshot, a.Version, a.OK, a.Using, code))
		}
		if want := []string{"edge 2 true 2 ", "edge 3 false 2 SNAPSHOT_REFUSED", "edge 4 false 2 NODE_FAULT", "edge 0 false 2 SNAPSHOT_REFUSED"}; !slices.Equal(got, want) {
			t.Errorf("acks %q, want %q", got, want)
		}
		if s := r.control.heard().statuses; len(s) == 0 || s[len(s)-1].Edge.Version != 2 {
			t.Errorf("statuses %+v", s)
		}
		r.stop()

		r.edge = &fakeEdge{}
		r.control.set(func() { r.control.edge = nil })
		r.open()
		r.agent.LoadEdge(r.edge)
		if v := r.edge.State().Version; v != 2 {
			t.Errorf("after a restart: snapshot %d", v)
		}
		r.run()
		after(time.Minute)
		if haves := r.control.heard().haves; haves[len(haves)-1] != 2 {
			t.Errorf("control is told of %d", haves)
		}
		r.stop()

		file := filepath.Join(r.dir, edgeFile)
		if err := os.Truncate(file, 30); err != nil {
			t.Fatal(err)
		}
		r.edge = &fakeEdge{}
		r.open()
		r.agent.LoadEdge(r.edge)
		if _, err := os.Stat(file); err == nil || r.edge.State().Version != 0 || r.logged("is damaged: it is set aside") != 1 {
			t.Errorf("a damaged file: snapshot %d, %v", r.edge.State().Version, err)
		}
	})
}

// A gateway whose join is refused serves on by what is on disk.
//
// Covers: A2, issue6 node, issue3 identity lost
func TestEdgeServesWithoutIdentity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleEdge)
		r.edge.version = 3
		r.control.set(func() {
			r.control.join = func(pki.Application) error { return pki.Refuse(pki.NodeExists, "tokyo joined before", "") }
		})
		r.open()
		r.run()
		after(time.Minute)
		if r.logged("this node cannot join, and goes on by what is on disk") == 0 {
			t.Error("it does not say so")
		}
		r.stop()
		r.edge.version = 0
		r.open()
		if err := r.agent.Run(t.Context(), r.planes()); pki.CodeOf(err) != pki.NodeExists {
			t.Errorf("with nothing to go on by: %v", err)
		}
	})
}

// Questions are answered beside the stream, each with what came of it; a fault in one is one answer's.
//
// Covers: issue6 explain live
func TestExplainAtTheNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleEdge)
		r.member(RoleEdge)
		ask := func(id, url string) wire.EdgeUpdate {
			return wire.EdgeUpdate{Ask: &wire.EdgeAsk{ID: id, Question: report.EdgeQuestion{URL: url}, Timeout: time.Second}}
		}
		r.control.edge = standingEdge(ask("1", "a"), ask("2", ""), ask("3", "poison"), ask("4", "b"))
		r.open()
		r.run()
		after(time.Minute)
		want := []string{"1 a ", "2  no URL", "3  the question failed inside of gateway tokyo; its log says more", "4 b "}
		if got := r.control.heard().results; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		r.stop()
	})
}

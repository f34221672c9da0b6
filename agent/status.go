package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/wire"
)

const (
	stateKind    = "node-state"
	stateVersion = 1
)

// complain keeps a sentence on what is wrong for the node's status, and logs it once and then once a minute. A refusal
// speaks for itself; anything else is told as code and what.
func (a *Agent) complain(about, code, what string, err error) {
	text := code + ": " + what + ": " + err.Error()
	if r, ok := errors.AsType[*pki.Refusal](err); ok {
		text, code = r.Error(), r.Code
	}
	a.mu.Lock()
	a.trouble[about] = text
	a.mu.Unlock()
	if a.quiet.may(about + " " + code) {
		a.log.Warn(cmp.Or(what, "control refuses this node"), "code", code, "error", err)
	}
}

// settle takes back what was said about something: it is well again, and a new complaint is news.
func (a *Agent) settle(about string) {
	a.mu.Lock()
	_, was := a.trouble[about]
	delete(a.trouble, about)
	a.mu.Unlock()
	if was {
		a.quiet.forget(about + " ")
	}
}

// Trouble is what is wrong with the node now: sentences for people, each beginning with a code.
func (a *Agent) Trouble() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []string
	for _, about := range slices.Sorted(maps.Keys(a.trouble)) {
		list = append(list, a.trouble[about])
	}
	return list
}

// coded is the text of an error, with a code at its start.
func coded(code string, err error) string {
	text := err.Error()
	for i, c := range text {
		if c == ':' && i > 0 {
			return text
		}
		if (c < 'A' || c > 'Z') && c != '_' {
			break
		}
	}
	return code + ": " + text
}

// hearState takes what came first on a stream. Control says the state of a node before any snapshot when there is
// something to say: a snapshot before it means that the node is in ordinary work, whatever it was when it was last told.
func (a *Agent) hearState(s *wire.NodeState, told bool) bool {
	switch {
	case s != nil:
		a.setState(*s)
	case !told:
		a.setState(wire.NodeState{})
	}
	return true
}

// setState takes what control says of this node.
func (a *Agent) setState(s wire.NodeState) {
	if a.drained.Swap(s.Drained) == s.Drained {
		return
	}
	if s.Drained {
		a.log.Info("control drains this node: it is not ready for new work, and goes on with what it gets")
	} else {
		a.log.Info("control drains this node no more")
	}
	b, err := json.Marshal(s)
	if err == nil {
		err = a.store.keep(a.store.path(stateFile), stateKind, stateVersion, b)
	}
	if err != nil {
		a.complain("state", "NODE_DISK", "whether this node is drained cannot be kept on disk", err)
		return
	}
	a.settle("state")
}

// loadState makes a node that was drained start so: it may have been stopped for the work it was drained for.
func (a *Agent) loadState() {
	_, b, err := atomicfile.Read(a.store.path(stateFile), stateKind, stateVersion)
	var s wire.NodeState
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("whether this node is drained cannot be read from disk; control will say it", "error", err)
	}
	a.drained.Store(s.Drained)
}

// reportStatus tells control how the node does, every Config.StatusEvery, and when a stream stands again.
// The first report that is taken after one that was not wakes streams that wait out a refusal: it is over.
func (a *Agent) reportStatus(ctx context.Context, p Planes) error {
	for failing := false; ; {
		again := a.again.heard()
		err := a.reportOnce(ctx, p)
		if err == nil && failing {
			a.again.ring()
		}
		failing = err != nil
		if !wait(ctx, a.cfg.StatusEvery, again) {
			return nil
		}
	}
}

func (a *Agent) reportOnce(ctx context.Context, p Planes) error {
	s, _ := a.link.get()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := s.up.Report(ctx, a.status(p))
	if err != nil {
		a.heard(err)
	}
	return err
}

func (a *Agent) status(p Planes) report.NodeStatus {
	s := report.NodeStatus{
		Version: a.cfg.Program, Roles: a.cfg.Roles, Labels: a.cfg.Labels,
		Wall: time.Now(), Uptime: time.Since(a.start), Trouble: a.Trouble(),
	}
	if a.cfg.Listeners != nil {
		s.Listeners = a.cfg.Listeners()
	}
	if id := a.identity(); id != nil {
		s.Expires = id.expires
	}
	if p.DNS != nil {
		m := p.DNS.State()
		s.Map = &m
	}
	if p.Probe != nil {
		version, tasks := p.Probe.Tasks()
		waiting, _, dropped := a.spool.counts()
		s.Tasks = &report.NodeTasks{Version: version, Tasks: len(tasks), Spooled: waiting, Dropped: dropped}
	}
	if p.Edge != nil {
		e := p.Edge.State()
		s.Edge = &e
	}
	return s
}

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
	"steerpoint/wire"
)

// enroller gives certificates.
type enroller interface {
	Join(ctx context.Context, a pki.Application) (pki.Credential, error)
	Renew(ctx context.Context, request []byte) (pki.Credential, error)
}

// follower brings snapshots. Both return when the stream ends, and hand everything that comes down it to take.
type follower interface {
	FollowDNS(ctx context.Context, have uint64, take func(wire.Update) error) error
	FollowProbe(ctx context.Context, have uint64, take func(wire.ProbeUpdate) error) error
}

// shipper takes what the node says by itself.
type shipper interface {
	Ack(ctx context.Context, a report.Ack) error
	ObserveBatch(ctx context.Context, id string, list []report.Observation) error
	Report(ctx context.Context, s report.NodeStatus) error
}

// answerer takes what the node was asked for. A failure says why there is no observation.
type answerer interface {
	Result(ctx context.Context, askID string, o report.Observation, failure string) error
}

// updater takes DNS updates.
type updater interface {
	Update(ctx context.Context, u report.Update) (report.UpdateResult, error)
}

// gatewayLink brings snapshots and questions to a gateway, and takes its answers.
type gatewayLink interface {
	FollowEdge(ctx context.Context, have uint64, take func(wire.EdgeUpdate) error) error
	Explained(ctx context.Context, askID string, a report.EdgeAnswer, failure string) error
}

// session is one client of control: connections under one certificate. A *wire.Client is all of it.
type session struct {
	enroll enroller
	down   follower
	up     shipper
	result answerer
	update updater
	edge   gatewayLink
	close  func()
}

// dial makes a session. It connects when something is called.
func (a *Agent) dial(c wire.ClientConfig) session {
	client := wire.NewClient(c)
	return session{enroll: client, down: client, up: client, result: client, update: client, edge: client, close: client.Close}
}

func (a *Agent) clientConfig() wire.ClientConfig {
	return wire.ClientConfig{Servers: a.cfg.Servers, Program: a.cfg.Program, Dial: a.cfg.Dial}
}

// memberSession speaks as id.
func (a *Agent) memberSession(id *identity) session {
	c := a.clientConfig()
	c.Authority = id.authority
	c.Certificate = func() *tls.Certificate { return id.cert }
	return a.connect(c)
}

// link holds the session in use. A renewal replaces it: a connection is of the certificate it was opened with.
type link struct {
	mu  sync.Mutex
	cur session
	gen int
}

// set puts a session in use and closes the one before: its streams end, and their followers come back by the new one.
func (l *link) set(s session) {
	l.mu.Lock()
	old := l.cur
	l.cur, l.gen = s, l.gen+1
	l.mu.Unlock()
	if old.close != nil {
		old.close()
	}
}

// get is the session in use, and a number that says which one it is.
func (l *link) get() (session, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cur, l.gen
}

func (l *link) close() { l.set(session{}) }

// justRenewed reports whether what is said of the certificate may be said of the one before.
func (a *Agent) justRenewed() bool {
	id := a.identity()
	return id != nil && !id.got.IsZero() && time.Since(id.got) < time.Second
}

// guarded turns a panic of do into an error. One snapshot that this program cannot bear would else end every node that
// gets it, at once and again after each restart.
func (a *Agent) guarded(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			a.log.Error("a snapshot made this node fail", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("NODE_FAULT: this node failed on it: %v", v)
		}
	}()
	return do()
}

// heard looks at what a call to control came to. It counts refusals, lets a certificate that ended be renewed, and
// reports whether an operator has to do something before it is of use to ask again.
func (a *Agent) heard(err error) (hopeless bool) {
	r, ok := errors.AsType[*pki.Refusal](err)
	if !ok {
		return false
	}
	a.metrics.refusals.WithLabelValues(r.Code).Inc()
	if r.Code == pki.CertExpired && !a.justRenewed() {
		select {
		case a.renewNow <- struct{}{}:
		default:
		}
	}
	// Of several servers one may refuse by mistake while the right ones are away.
	return r.Lasting() && (len(a.cfg.Servers) < 2 || !errors.Is(err, wire.ErrUnreached))
}

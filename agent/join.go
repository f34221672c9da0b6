package agent

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"strings"
	"time"

	"steerpoint/internal/pki"
)

// ErrNoToken is matched by Run's error when the node has not joined and has no token to join with.
var ErrNoToken = errors.New("NODE_NOT_JOINED: this node has not joined, and no join token was given")

// callTime bounds one short call: several round trips around the world on a line that loses every tenth packet.
const callTime = 15 * time.Second

// enter makes sure of an identity and puts a session in use. It returns when the node is a member, when ctx ends, or
// with what keeps the node from ever joining.
func (a *Agent) enter(ctx context.Context, p Planes) error {
	for a.identity() == nil && ctx.Err() == nil {
		err := a.join(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !p.serve() {
			return err
		}
		// An operator has to help, and clients need answers until then.
		a.complain("identity", "NODE_NOT_JOINED", "this node cannot join, and goes on by what is on disk", err)
		wait(ctx, shortened(hopeless, a.jitter), nil)
	}
	if ctx.Err() == nil {
		a.link.set(a.memberSession(a.identity()))
	}
	return nil
}

// serve reports whether somebody is served by what was on disk.
func (p *Planes) serve() bool {
	return p.DNS != nil && p.DNS.Current() != nil || p.Edge != nil && p.Edge.State().Version > 0
}

// join asks until control gives an identity or refuses for good.
func (a *Agent) join(ctx context.Context) error {
	token, err := a.token()
	if err != nil {
		return err
	}
	key, err := a.store.key()
	if err != nil {
		return err
	}
	request, err := pki.Request(key, a.cfg.Name)
	if err != nil {
		return err
	}
	c := a.clientConfig()
	c.AuthorityHash = token.Authority
	s := a.connect(c)
	defer s.close()
	apply := pki.Application{
		Token: token.String(), Name: a.cfg.Name, Roles: a.cfg.Roles, Labels: a.cfg.Labels,
		Request: request, Version: a.cfg.Program,
	}
	b := a.newBackoff()
	for {
		credential, err := a.askJoin(ctx, s, apply)
		if err == nil {
			return a.become(ctx, &credential, key)
		}
		if ctx.Err() != nil {
			return nil
		}
		if a.heard(err) {
			return err
		}
		if a.quiet.may("join") {
			a.log.Warn("control cannot be reached to join; this node keeps trying", "servers", strings.Join(a.cfg.Servers, " "), "error", err)
		}
		if !wait(ctx, b.delay(), nil) {
			return nil
		}
	}
}

func (a *Agent) askJoin(ctx context.Context, s session, apply pki.Application) (pki.Credential, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return s.enroll.Join(ctx, apply)
}

func (a *Agent) token() (pki.Token, error) {
	if a.cfg.Token == nil {
		return pki.Token{}, ErrNoToken
	}
	text, err := a.cfg.Token()
	if err != nil {
		return pki.Token{}, fmt.Errorf("join token: %w", err)
	}
	return pki.ParseToken(text)
}

// become takes a first credential. It is of no use before it is on disk: a node that forgets who it is at its next
// start would be refused then, far from the cause.
func (a *Agent) become(ctx context.Context, c *pki.Credential, key crypto.Signer) error {
	id, err := accept(c, key, a.cfg.Name, a.cfg.Servers)
	if err != nil {
		return err
	}
	if role, ok := id.has(a.cfg.Roles); !ok {
		return pki.Refuse(pki.RoleRefused, "control gave a certificate without the role "+role, "create a token with --role "+role)
	}
	b := a.newBackoff()
	for {
		err := a.store.save(id, c.Certificate)
		if err == nil {
			break
		}
		a.complain("disk", "NODE_DISK", "control let this node in, but its identity cannot be kept on disk, so it goes on trying", err)
		if !wait(ctx, b.delay(), nil) {
			return nil
		}
	}
	a.settle("disk")
	a.settle("identity")
	a.replace(id)
	a.log.Info("this node has joined; the token is not needed any more", "node", id.Name, "cluster", id.Cluster,
		"roles", strings.Join(id.roles, ","), "expires", id.expires)
	return nil
}

func (a *Agent) replace(id *identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id = id
}

// Between tries to renew: a certificate is renewed long before its end, so a thousand nodes need not hurry.
const (
	renewMin = time.Second
	renewMax = time.Minute
)

// keepCertificate renews the certificate in time, and whenever control says that it ended.
func (a *Agent) keepCertificate(ctx context.Context) error {
	b := &backoff{min: renewMin, max: renewMax, jitter: a.jitter}
	id := a.identity()
	pause, asked := id.due()+a.renewJitter(id), (<-chan struct{})(a.renewNow)
	for wait(ctx, pause, asked) {
		asked = a.renewNow
		id, err := a.renewOnce(ctx)
		a.metrics.renewed(err)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			pause = b.delay()
			if a.heard(err) { // then the streams that say that the certificate ended know nothing new
				pause, asked = shortened(hopeless, a.jitter), nil
			}
			drain(a.renewNow) // it is what this was for
			a.complain("certificate", "CERT_NOT_RENEWED", "the certificate cannot be renewed yet", err)
			continue
		}
		b.reset()
		drain(a.renewNow)
		a.settle("certificate")
		a.log.Info("certificate renewed", "node", id.Name, "expires", id.expires)
		pause = id.due() + a.renewJitter(id)
	}
	return nil
}

// renewJitter spreads the renewals of nodes that joined together over a twentieth of the certificate's life.
func (a *Agent) renewJitter(id *identity) time.Duration {
	return time.Duration(a.jitter() * float64(id.Lifetime/20))
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// renewOnce gets a new certificate for the key the node has, keeps it and goes on by it.
func (a *Agent) renewOnce(ctx context.Context) (*identity, error) {
	old := a.identity()
	key, ok := old.cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the node's key cannot sign")
	}
	request, err := pki.Request(key, old.Name)
	if err != nil {
		return nil, err
	}
	s, _ := a.link.get()
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	c, err := s.enroll.Renew(call, request)
	if err != nil {
		return nil, err
	}
	id, err := accept(&c, key, old.Name, a.cfg.Servers)
	if err != nil {
		return nil, err
	}
	if err := a.store.save(id, c.Certificate); err != nil {
		// It works for this process all the same; the next start has the one before, and renews it.
		a.complain("disk", "NODE_DISK", "the renewed certificate cannot be kept on disk", err)
	} else {
		a.settle("disk")
	}
	a.replace(id)
	a.link.set(a.memberSession(id))
	a.again.ring()
	return id, nil
}

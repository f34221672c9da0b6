package control

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/internal/hidden"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

// Gateways takes snapshots to gateways. On an error those that work by the one before go on by it.
type Gateways interface {
	PublishEdge(*snapshot.Edge, *snapshot.EdgeSecrets) error
}

// edges is what gateways are published from.
type edges struct {
	mu      sync.Mutex
	set     *spec.Set // nil: there is none yet
	version uint64    // of what was published last
	news    chan struct{}
}

// edgeRetry is the time to the next try after a publication that failed, and how often Secrets are looked at for what
// changed.
const edgeRetry = time.Second

func (e *edges) init() { e.news = make(chan struct{}, 1) }

// setConfig gives the configuration to publish.
func (e *edges) setConfig(set *spec.Set) {
	e.mu.Lock()
	e.set = set
	e.mu.Unlock()
	select {
	case e.news <- struct{}{}:
	default: // it is to look already
	}
}

func (e *edges) config() *spec.Set {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.set
}

// next is a version above all before it, and not below a revision, so that it grows over restarts too.
func (e *edges) next(revision int64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.version = max(e.version+1, uint64(max(revision, 0)))
	return e.version
}

// publishEdges publishes to gateways whenever what they work by has changed: the configuration, or a value of a Secret.
func (c *Control) publishEdges(ctx context.Context) error {
	if c.deps.Gateways == nil {
		return nil
	}
	tick := time.NewTicker(edgeRetry)
	defer tick.Stop()
	turn, failed := uint64(0), false
	for {
		fresh := false
		select {
		case <-ctx.Done():
			return nil
		case <-c.edges.news:
			fresh = true
		case <-tick.C:
		}
		now := c.secrets.changed()
		set := c.edges.config()
		if set == nil || !fresh && !failed && now == turn {
			continue
		}
		turn, failed = now, !c.publishEdge(set)
	}
}

func (c *Control) publishEdge(set *spec.Set) bool {
	e := snapshot.CompileEdge(c.edges.next(c.applied.get()), c.wallNow(), set)
	secrets, missing := c.edgeSecrets(set, e)
	c.alarms.set(api.AlarmResource, "certificates", len(missing) > 0, strings.Join(missing, "; "))
	if err := c.deps.Gateways.PublishEdge(e, secrets); err != nil {
		c.alarms.set(api.AlarmPublish, "gateways", true, fmt.Sprintf("snapshot %d was not taken: %v; gateways go on by the one before", e.Version, err))
		return false
	}
	c.alarms.set(api.AlarmPublish, "gateways", false, "")
	return true
}

// edgeSecrets opens what gateways need of Secrets. What cannot be opened is missing, and said.
func (c *Control) edgeSecrets(set *spec.Set, e *snapshot.Edge) (s *snapshot.EdgeSecrets, missing []string) {
	s = &snapshot.EdgeSecrets{Affinity: c.cookies.affinityKeys()}
	used := map[string]bool{}
	for _, w := range e.Certificates {
		used[w.Name] = true
	}
	for _, w := range set.Certificates() {
		switch {
		case !used[w.Name] || w.Files != nil:
		case w.ACME != nil:
			missing = append(missing, "Certificate "+w.Name+": ordering by ACME is not built yet; give chainFrom and keyFrom, or files")
		case w.ChainFrom != nil && w.KeyFrom != nil:
			chain, err := c.secrets.value(*w.ChainFrom)
			key := hidden.Text{}
			if err == nil {
				key, err = c.secrets.value(*w.KeyFrom)
			}
			if err != nil {
				missing = append(missing, fmt.Sprintf("Certificate %s: %v", w.Name, err))
				continue
			}
			s.Certificates = append(s.Certificates, snapshot.EdgeKeyPair{Name: w.Name, Chain: chain.Reveal(), Key: snapshot.Carried{Text: key}})
		}
	}
	return s, missing
}

// affinityKeys are the keys of session cookies, made from what DNS cookies are made of, so that all gateways have the same
// ones after a restart too; none while it cannot be had.
func (k *cookies) affinityKeys() []snapshot.EdgeAffinityKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.master == nil {
		return nil
	}
	secret, err := hkdf.Key(sha256.New, k.master, nil, "steerpoint session cookie v1", 32+1)
	if err != nil {
		return nil // the master is too short to be one of ours
	}
	text := hidden.New(base64.StdEncoding.EncodeToString(secret[1:]))
	return []snapshot.EdgeAffinityKey{{ID: secret[0], Secret: snapshot.Carried{Text: text}}}
}

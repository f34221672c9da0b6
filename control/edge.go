package control

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
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
	mu   sync.Mutex
	set  *spec.Set // nil: there is none yet
	news chan struct{}
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
	e.mark()
}

func (e *edges) config() *spec.Set {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.set
}

// publishEdges publishes to gateways whenever what they work by has changed: the configuration, or a value of a Secret.
func (c *Control) publishEdges(ctx context.Context) error {
	if c.deps.Gateways == nil && c.deps.EdgeNodes == nil {
		return nil
	}
	tick := time.NewTicker(edgeRetry)
	defer tick.Stop()
	turn, failed, key, tickets := uint64(0), false, hidden.Text{}, hidden.Text{}
	for {
		fresh := false
		select {
		case <-ctx.Done():
			return nil
		case <-c.edges.news:
			fresh = true
		case <-tick.C:
			fresh = c.otherGateways()
		}
		now, sessions, day := c.secrets.changed(), c.cookies.affinityKeys(), c.cookies.ticketKeys(c.wallNow())
		set := c.edges.config()
		if set == nil || !fresh && !failed && now == turn && (len(sessions) == 0 || sessions[0].Secret.Reveal() == key.Reveal()) && (len(day) == 0 || day[0].Secret.Equal(tickets)) {
			continue
		}
		if len(day) > 0 {
			tickets = day[0].Secret.Text
		}
		if len(sessions) > 0 {
			key = sessions[0].Secret.Text
		}
		turn, failed = now, !c.publishEdge(ctx, set, sessions, day)
	}
}

// publishEdge publishes once. Its version is taken from those of maps, so that none comes twice and they grow over restarts.
func (c *Control) publishEdge(ctx context.Context, set *spec.Set, sessions []snapshot.EdgeAffinityKey, tickets []snapshot.EdgeTicketKey) bool {
	version, err := c.store.ReserveVersions(ctx, 1)
	if err != nil {
		c.log.WarnContext(ctx, "no version for a snapshot for gateways yet", "error", err)
		return false
	}
	e := snapshot.CompileEdge(version, c.wallNow(), set)
	secrets, missing := c.edgeSecrets(set, e)
	secrets.Affinity, secrets.Tickets = sessions, tickets
	proofs, shown := c.orders.challenges()
	e.Challenges = proofs
	c.alarms.set(api.AlarmResource, "certificates", len(missing) > 0, strings.Join(missing, "; "))
	if c.deps.Gateways != nil {
		if err := c.deps.Gateways.PublishEdge(e, secrets); err != nil {
			c.alarms.set(api.AlarmPublish, "gateways", true, fmt.Sprintf("snapshot %d was not taken: %v; gateways go on by the one before", e.Version, err))
			return false
		}
	}
	if err := c.publishEdgeNodes(e, secrets); err != nil {
		c.alarms.set(api.AlarmPublish, "gateways", true, fmt.Sprintf("snapshot %d cannot be sealed to gateways: %v; they go on by the one before", e.Version, err))
		return false
	}
	c.orders.published(shown)
	c.alarms.set(api.AlarmPublish, "gateways", false, "")
	return true
}

// edgeSecrets opens what gateways need of Secrets. What cannot be opened is missing, and said; so is what gateways cannot use, and
// keep the one before for.
func (c *Control) edgeSecrets(set *spec.Set, e *snapshot.Edge) (s *snapshot.EdgeSecrets, missing []string) {
	s = &snapshot.EdgeSecrets{}
	s.Certificates, missing = c.orderedPairs(e, set)
	used := map[string]bool{}
	for _, w := range e.Certificates {
		used[w.Name] = true
	}
	for _, w := range set.Certificates() {
		switch {
		case !used[w.Name] || w.Files != nil || w.ACME != nil:
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
			if problem := pairProblem(w, chain.Reveal(), key); problem != "" {
				missing = append(missing, fmt.Sprintf("Certificate %s: %s", w.Name, problem))
			}
		}
	}
	return s, missing
}

// affinityKeys are the keys of session cookies, made from what DNS cookies are made of, so that all gateways have the same
// ones after a restart too. While that cannot be had, such as without the sealing key, sessions hold until the next restart:
// that is no reason not to serve.
func (k *cookies) affinityKeys() []snapshot.EdgeAffinityKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	master := k.master
	if master == nil {
		if k.passing == nil {
			k.passing = make([]byte, cookieBytes)
			_, _ = rand.Read(k.passing) // it never fails
		}
		master = k.passing
	}
	secret, err := hkdf.Key(sha256.New, master, nil, "steerpoint session cookie v1", 32+1)
	if err != nil {
		return nil // the master is too short to be one of ours
	}
	text := hidden.New(base64.StdEncoding.EncodeToString(secret[1:]))
	return []snapshot.EdgeAffinityKey{{ID: secret[0], Secret: snapshot.Carried{Text: text}}}
}

package control

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/roster"
	"steerpoint/internal/envelope"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

// behindAfter is how long a gateway may serve by another snapshot than the newest before it is told of: an order of magnitude
// more than the slowest link takes.
const behindAfter = 30 * time.Second

// gatewayNodes is what is known of gateways together.
type gatewayNodes struct {
	mu        sync.Mutex
	newest    uint64 // version published last; 0: none
	published time.Time
	readers   string // whom the newest was sealed to

	// Owned by the loop:
	behind map[string]steering.Instant // gateways that serve by another snapshot than the newest, and since when
	down   map[string]bool             // service/group: alarms that are on
}

// latest is the version published last and when that was.
func (g *gatewayNodes) latest() (version uint64, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newest, g.published
}

// nodeReaders are the joined nodes of a role, as readers of envelopes.
func (c *Control) nodeReaders(role string) (readers []envelope.Reader) {
	for _, v := range c.roster.Views(c.clock.Moment()) {
		if !v.Has(role) || !v.Record.Revoked.IsZero() || len(v.Record.PublicKey) == 0 {
			continue
		}
		pub, err := x509.ParsePKIXPublicKey(v.Record.PublicKey)
		if err != nil {
			continue
		}
		if r, err := envelope.ReaderOf(pub); err == nil {
			readers = append(readers, r)
		}
	}
	return readers
}

// readerNames are the names of readers as one text.
func readerNames(readers []envelope.Reader) string {
	list := make([]string, len(readers))
	for i, r := range readers {
		list[i] = r.Name()
	}
	return namesOf(list)
}

// otherGateways reports whether the newest snapshot is sealed to others than the gateways there are.
func (c *Control) otherGateways() bool {
	if c.deps.EdgeNodes == nil {
		return false
	}
	names := readerNames(c.nodeReaders(roster.RoleEdge))
	c.gateways.mu.Lock()
	defer c.gateways.mu.Unlock()
	return c.gateways.newest > 0 && names != c.gateways.readers
}

// publishEdgeNodes hands a snapshot to gateways elsewhere, its secrets sealed to each of them. Without a gateway it is sealed to
// nobody: one that joins gets the next.
func (c *Control) publishEdgeNodes(e *snapshot.Edge, secrets *snapshot.EdgeSecrets) error {
	readers := ""
	if c.deps.EdgeNodes != nil {
		list := c.nodeReaders(roster.RoleEdge)
		text, err := secrets.Marshal()
		if err != nil {
			return err
		}
		defer clear(text)
		p := &snapshot.EdgePack{Edge: e, Sealed: new(snapshot.Sealed)}
		if p.Sealed.Envelope, err = envelope.Seal(snapshot.EdgeSecretsUse, text, list); err != nil {
			return err
		}
		c.deps.EdgeNodes(p)
		readers = readerNames(list)
	}
	g := &c.gateways
	g.mu.Lock()
	defer g.mu.Unlock()
	g.newest, g.published, g.readers = e.Version, e.Created, readers
	return nil
}

// mark asks for a publication.
func (e *edges) mark() {
	select {
	case e.news <- struct{}{}:
	default: // it is to look already
	}
}

// judgeGateway brings the alarm of a gateway that lags up to date. here: it is expected and heard. It runs in the loop.
func (c *Control) judgeGateway(now steering.Instant, v *roster.View, here bool) {
	name, g := v.Record.Name, &c.gateways
	newest, _ := g.latest()
	if !here || !v.Has(roster.RoleEdge) || newest == 0 || v.Edge.Using == newest {
		delete(g.behind, name)
		c.alarms.set(api.AlarmGatewayBehind, name, false, "")
		return
	}
	since, known := g.behind[name]
	if !known {
		if g.behind == nil {
			g.behind = map[string]steering.Instant{}
		}
		since = now
		g.behind[name] = now
	}
	c.alarms.set(api.AlarmGatewayBehind, name, now-since >= behindAfter, fmt.Sprintf(
		"gateway %s serves by snapshot %d, and the newest is %d, for %v: it goes on by the older one", name, v.Edge.Using, newest, (now-since).Truncate(time.Second)))
}

// heardGateways gives what each gateway said last of itself, by name: the one of this process and those that are heard. It
// runs in the loop.
func (c *Control) heardGateways(now moment.Moment) map[string]*report.NodeEdge {
	out := map[string]*report.NodeEdge{}
	if c.deps.GatewayState != nil {
		e := c.deps.GatewayState()
		out[c.cfg.Node] = &e
	}
	for _, v := range c.roster.Views(now) {
		if v.Has(roster.RoleEdge) && v.Record.Revoked.IsZero() && !v.Away && v.Status != nil && v.Status.Edge != nil {
			out[v.Record.Name] = v.Status.Edge
		}
	}
	return out
}

// judgeOrigins raises an alarm for each origin group of which a gateway finds no origin healthy, and takes away those that are
// over. It runs in the loop.
func (c *Control) judgeOrigins(now moment.Moment) {
	heard := c.heardGateways(now)
	down := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(heard)) {
		for i := range heard[node].Groups {
			g := &heard[node].Groups[i]
			if healthy, enabled := g.Healthy(); enabled > 0 && healthy == 0 && g.Settled() {
				down[g.Service+"/"+g.Group] = append(down[g.Service+"/"+g.Group], node)
			}
		}
	}
	k := &c.gateways
	for subject := range k.down {
		if len(down[subject]) == 0 {
			delete(k.down, subject)
			c.alarms.set(api.AlarmOriginsDown, subject, false, "")
		}
	}
	for subject, by := range down {
		if k.down == nil {
			k.down = map[string]bool{}
		}
		k.down[subject] = true
		c.alarms.set(api.AlarmOriginsDown, subject, true, fmt.Sprintf(
			"origin group %s: no origin is healthy for gateway %s (%d of %d); requests go to any of them", subject, strings.Join(few(by), ", "), len(by), len(heard)))
	}
}

// fewNames is how many names a sentence bears.
const fewNames = 5

func few(names []string) []string {
	if len(names) <= fewNames {
		return names
	}
	return append(slices.Clone(names[:fewNames]), fmt.Sprintf("%d more", len(names)-fewNames))
}

package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// fleet is one node of every kind that a person may have to look at.
func fleet(now time.Time) []api.NodeView {
	ends := now.Add(16 * time.Hour)
	node := func(name, state string, roles ...string) api.NodeView {
		return api.NodeView{
			Name: name, Roles: roles, State: state, Connected: state == api.NodeConnected, Joined: now.Add(-72 * time.Hour),
			LastSeen: at(now, 2*time.Second), CertificateExpires: ends, Address: "192.0.2.1", Version: "0.2.0",
		}
	}
	good := node("ns1", api.NodeConnected, "dns", "probe")
	good.Labels = map[string]string{"country": "JP", "city": "Tokyo"}
	good.Map, good.Tasks = &api.NodeMap{Version: 14, AgeSeconds: 12}, &api.NodeTasks{Tasks: 40}
	behind := node("ns2", api.NodeConnected, "dns")
	behind.Map = &api.NodeMap{Version: 13, AgeSeconds: 90}
	nack := node("ns3", api.NodeConnected, "dns")
	nack.Map = &api.NodeMap{Version: 13, AgeSeconds: 90, Refused: 14, Error: "MAP_INVALID: no zone"}
	nack.ClockOffsetSeconds = -3600
	away := node("p1", api.NodeAway, "probe")
	away.Tasks, away.LastSeen = &api.NodeTasks{Tasks: 3, Spooled: 7, Dropped: 2, Silent: true}, at(now, 11*time.Minute)
	drained := node("p2", api.NodeDrained, "probe")
	drained.Drained, drained.Tasks = true, &api.NodeTasks{Error: "TASKS_REFUSED: loopback"}
	revoked := node("old", api.NodeRevoked, "dns")
	revoked.Map, revoked.Revoked, revoked.RevokedBy, revoked.RevokedWhy = &api.NodeMap{}, at(now, time.Hour), "ann", "stolen"
	revoked.LastSeen, revoked.CertificateExpires = nil, now.Add(-time.Hour)
	return []api.NodeView{revoked, good, behind, nack, away, drained}
}

// The nodes of a status: how many, what needs a person first, and the reasons below.
// Covers: issue3 status
func TestNodesOfStatus(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := api.Status{Now: now, Map: api.MapStatus{Version: 14, Nodes: 3, Current: 1}, Nodes: fleet(now), Points: []api.PointStatus{
		{Name: "ns1", State: api.PointConnected, Labels: map[string]string{"country": "JP"}, Tasks: 40, LastSeen: at(now, time.Second)},
		{Name: "p1", State: api.PointSilent, Tasks: 3},
		{Name: "p2", State: api.PointConnected, Drained: true, LastSeen: at(now, 0)},
	}}
	var b strings.Builder
	nodesSection(&b, text.Painter{}, s)
	pointsSection(&b, text.Painter{}, s)
	compare(t, b.String(), `

nodes: 3 of 6 connected; 1 of 3 name servers answer by map 14
  NODE  ROLES      STATE          MAP                        TASKS                            SEEN       CERTIFICATE ENDS
  p1    probe      away           -                          3, 7 spooled, 2 dropped, silent  11m0s ago  in 16h0m
  ns3   dns        connected      13, 1m30s old, refused 14  -                                2s ago     in 16h0m
  p2    probe      drained, away  -                          0, refused                       2s ago     in 16h0m
  ns2   dns        connected      13, 1m30s old, behind      -                                2s ago     in 16h0m
  ns1   dns,probe  connected      14, 12s old                40                               2s ago     in 16h0m
  old   dns        revoked        none                       -                                not yet    1h0m ago
  ns3: map 14 was refused: MAP_INVALID: no zone
  p2: tasks were refused: TASKS_REFUSED: loopback
  old: revoked by ann: stolen

  POINT  STATE               LABELS      TASKS  NEWEST RESULT
  ns1    connected           country=JP  40     1s ago
  p1     silent              -           3      never
  p2     connected, drained  -           0      now
`)
	b.Reset()
	Nodes(&b, text.Painter{}, now, 14, s.Nodes[:4])
	compare(t, b.String(), `
NODE  ROLES      STATE      LABELS                 MAP                        TASKS  SEEN     CERTIFICATE ENDS  CLOCK  ADDRESS    VERSION  JOINED
old   dns        revoked    -                      none                       -      not yet  1h0m ago          -      192.0.2.1  0.2.0    3d0h ago
ns1   dns,probe  connected  city=Tokyo country=JP  14, 12s old                40     2s ago   in 16h0m          right  192.0.2.1  0.2.0    3d0h ago
ns2   dns        connected  -                      13, 1m30s old, behind      -      2s ago   in 16h0m          right  192.0.2.1  0.2.0    3d0h ago
ns3   dns        connected  -                      13, 1m30s old, refused 14  -      2s ago   in 16h0m          -1h0m  192.0.2.1  0.2.0    3d0h ago
old: revoked by ann: stolen
ns3: map 14 was refused: MAP_INVALID: no zone
`)
}

// The publication of a switch names the last name server, and those that are missing.
// Covers: issue3 publication
func TestPublished(t *testing.T) {
	nodes := []api.NodeAck{{Node: "ns2", Seconds: 0.212}, {Node: "ns1", Seconds: 0.1}}
	for want, p := range map[string]*api.Publication{
		"not yet":              nil,
		"3ms":                  {Seconds: 0.003, Acked: 1, Nodes: nodes[:1]},
		"212ms on 2, last ns2": {Seconds: 0.212, Acked: 2, Nodes: nodes},
		"212ms on 2, last ns2, not by ns3 ns4 and 5 more": {Seconds: 0.212, Acked: 2, Nodes: nodes, Missing: []string{"ns3", "ns4"}, MissingCount: 7},
		"not by ns3": {Missing: []string{"ns3"}, MissingCount: 1},
	} {
		if got := published(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	Tokens(&b, text.Painter{}, now, []api.TokenView{
		{ID: "0123456789", Roles: []string{"dns", "probe"}, State: api.TokenOpen, Created: now.Add(-time.Minute), Expires: now.Add(59 * time.Minute), Actor: "ann"},
		{ID: "abcdef0123", Roles: []string{"probe"}, Name: "p1", State: api.TokenUsed, Created: now.Add(-time.Hour), Expires: now, Node: "p1"},
	})
	compare(t, b.String(), `
ID          ROLES      NAME  STATE  ENDS      MADE      BY   NODE
0123456789  dns,probe  -     open   in 59m0s  1m0s ago  ann  -
abcdef0123  probe      p1    used   now       1h0m ago  -    p1
`)
}

// A fleet of any size takes no more than a screen in the status of everything.
func TestManyNodes(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := api.Status{Now: now}
	for i := range 100 {
		s.Nodes = append(s.Nodes, api.NodeView{Name: fmt.Sprint("n", i), State: api.NodeConnected, Connected: true})
		s.Points = append(s.Points, api.PointStatus{Name: fmt.Sprint("n", i), State: api.PointConnected})
	}
	s.Nodes[99].State, s.Nodes[99].Connected = api.NodeAway, false
	var b strings.Builder
	Status(&b, text.Painter{}, s)
	if out := b.String(); strings.Count(out, "\n") > 2*(nodesAtAGlance+4)+4 || !strings.Contains(out, "and 80 more: `steer node list`") || !strings.Contains(out, "n99") {
		t.Errorf("got\n%s", out)
	}
}

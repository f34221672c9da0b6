package edge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"steerpoint/edge/explain"
	"steerpoint/edge/internal/direct"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// inForce is a snapshot and what was compiled from it.
type inForce struct {
	snapshot *snapshot.Edge
	site     *direct.Site
}

// maxReported is how many origins are told of in a State; of more, those that a person should look at come first.
const maxReported = 200

// State says what the gateway serves by, and what it knows of the origins.
func (s *Snapshots) State() report.NodeEdge {
	out := report.NodeEdge{Connections: s.g.clients.count()}
	v := s.serving.Load()
	if v == nil {
		return out
	}
	out.Version, out.Created = v.snapshot.Version, v.snapshot.Created
	now := time.Duration(s.g.clock.Now())
	for _, g := range v.site.Groups() {
		r := g.Report(now)
		healthy, enabled := r.Healthy()
		out.Origins, out.Healthy = out.Origins+enabled, out.Healthy+healthy
		out.Groups = append(out.Groups, r)
	}
	slices.SortFunc(out.Groups, compareGroups)
	out.Groups, out.Left = worth(out.Groups)
	return out
}

func compareGroups(a, b report.EdgeGroup) int {
	return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Group, b.Group))
}

// worth leaves out groups that are as they should be, until there are not too many origins. It keeps the order.
func worth(groups []report.EdgeGroup) (kept []report.EdgeGroup, left int) {
	n := 0
	for i := range groups {
		n += len(groups[i].Origins)
	}
	if n <= maxReported {
		return groups, 0
	}
	ranked := slices.Clone(groups)
	slices.SortStableFunc(ranked, func(a, b report.EdgeGroup) int { return cmp.Compare(trouble(&b), trouble(&a)) })
	n = 0
	for i := range ranked {
		if n += len(ranked[i].Origins); n > maxReported && i > 0 {
			ranked, left = ranked[:i], len(ranked)-i
			break
		}
	}
	slices.SortFunc(ranked, compareGroups)
	return ranked, left
}

// trouble ranks groups: the higher, the sooner a person should look.
func trouble(g *report.EdgeGroup) int {
	healthy, enabled := g.Healthy()
	switch {
	case enabled > 0 && healthy == 0:
		return 2
	case healthy < enabled || slices.ContainsFunc(g.Origins, func(o report.EdgeOrigin) bool { return o.OutFor > 0 || o.Draining }):
		return 1
	}
	return 0
}

// Explain says what the gateway would do with a request now, by what it measured. Its error matches explain.ErrQuestion when
// the question cannot be asked.
func (s *Snapshots) Explain(q *report.EdgeQuestion) (*report.EdgeAnswer, error) {
	v := s.serving.Load()
	if v == nil {
		return nil, errors.New("this gateway has no snapshot yet")
	}
	asked := *q
	if asked.Country == "" && asked.Client.IsValid() {
		asked.Country = s.country(asked.Client)
	}
	return explain.Live(v.snapshot, v.site, &asked, time.Duration(s.g.clock.Now()), time.Now())
}

// probeFailure says what is wrong with a probe; "": nothing.
func probeFailure(status int, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case status != 200:
		return fmt.Sprintf("status %d", status)
	}
	return ""
}

package edge

import (
	"context"

	"steerpoint/edge/internal/direct"
)

// sayFailOpen tells of the groups of an endpoint that have no healthy origin any more, or have one again: the first means
// that probes do not tell what requests meet, or that the service is down, and somebody should look.
func (s *Snapshots) sayFailOpen(ctx context.Context, e *direct.Endpoint) {
	for _, c := range e.FailOpenChanges() {
		said := []any{"service", c.Group.Service, "group", c.Group.Spec.Name, "fail_open", c.Open}
		if c.Open {
			s.g.log.WarnContext(ctx, "no origin of the group is healthy: requests go to all of them", said...)
			continue
		}
		s.g.log.InfoContext(ctx, "an origin of the group is healthy again", said...)
	}
}

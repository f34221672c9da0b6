package render

import (
	"strings"
	"testing"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control/api"
)

// The history of a resource: a row for each thing that changed, the reason first, a star at what is stored now.
// Covers: issue4 history
func TestHistory(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	var b strings.Builder
	History(&b, text.Painter{}, now, []api.Revision{
		{Revision: 57, Time: now.Add(-time.Minute), Actor: "anna", Reason: "too\nslow", Current: true, Lines: []string{"ttl 30s -> 60s", "edge b: added"}},
		{Revision: 9, Time: now.Add(-time.Hour), Lines: []string{"created"}},
	})
	compare(t, b.String(), `
REVISION  TIME            AGO       BY    WHAT
57 *      05-01 11:59:00  1m0s ago  anna  (too slow)
                                          ttl 30s -> 60s
                                          edge b: added
9         05-01 11:00:00  1h0m ago  -     created
`)
}

// The audit trail: who did what to what, and why.
// Covers: issue4 audit
func TestAudit(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)
	var b strings.Builder
	Audit(&b, text.Painter{}, now, []api.AuditLine{
		{Time: now.Add(-time.Minute), Actor: "anna", Action: "update", Kind: "Service", Name: "shop", Revision: 57, Reason: "slow"},
		{Time: now.Add(-time.Minute), Actor: "node n1", Action: "join", Kind: "Node", Name: "n1", Revision: 9},
	})
	compare(t, b.String(), `
TIME            AGO       BY       DID     KIND     NAME  REVISION  WHY
05-01 11:59:00  1m0s ago  anna     update  service  shop  57        slow
05-01 11:59:00  1m0s ago  node n1  join    node     n1    9
`)
	b.Reset()
	Audit(&b, text.Painter{}, now, nil)
	compare(t, b.String(), "nothing was written in that time\n")
}

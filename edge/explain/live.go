package explain

import (
	"fmt"
	"time"

	"steerpoint/edge/internal/affinity"
	"steerpoint/edge/internal/direct"
	"steerpoint/report"
	"steerpoint/snapshot"
)

// Live answers a question by a site that serves, with what its gateway measured. now is on the gateway's clock, wall on the
// wall. It takes no turn and counts nothing.
func Live(e *snapshot.Edge, s *direct.Site, q *report.EdgeQuestion, now time.Duration, wall time.Time) (*report.EdgeAnswer, error) {
	asked := Question{URL: q.URL, Method: q.Method, Headers: q.Headers, Client: q.Client, Country: q.Country, Session: q.Session, Now: wall}
	r, err := asked.request()
	if err != nil {
		return nil, err
	}
	x := s.Explain(r, now)
	if g := x.Decision.Group; g != nil && x.Decision.Status == 0 {
		if err := asked.session(x, r); err != nil {
			return nil, err
		}
		x = s.Explain(r, now)
	}
	a := &answer{report.EdgeAnswer{URL: q.URL, Version: s.Version}}
	a.fill(e, x, r)
	if a.Group != "" {
		a.Origins = x.Decision.Group.Report(now).Origins
		a.Assumed = append(a.Assumed, "rate limits are not reached")
	}
	return &a.EdgeAnswer, nil
}

// session says what a visitor's cookie means; "" where the group keeps no sessions.
func session(g *direct.Group, x *direct.Explanation) string {
	const anew = "a new session begins, where the response may set a cookie"
	switch {
	case !g.Spec.Affinity:
		return ""
	case x.Cookie == affinity.Found && x.Choice.Pick.Session:
		return "the cookie names " + g.Spec.Origins[x.Named].Name + ", which keeps it"
	case x.Cookie == affinity.Found:
		return fmt.Sprintf("the cookie names %s, which may not be asked now; %s", g.Spec.Origins[x.Named].Name, anew)
	case x.Cookie == affinity.Unknown:
		return "the cookie names an origin that is gone; " + anew
	case x.Cookie == affinity.Broken:
		return "the cookie is none of ours; " + anew
	}
	return "there is no cookie; " + anew
}

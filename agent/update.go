package agent

import (
	"context"
	"errors"

	"steerpoint/report"
)

// Update hands a DNS UPDATE to control and waits for what becomes of it, from any goroutine. The error is that of the call:
// control cannot be reached, or refuses this node.
func (a *Agent) Update(ctx context.Context, u report.Update) (report.UpdateResult, error) {
	s, _ := a.link.get()
	if s.update == nil {
		return report.UpdateResult{}, errors.New("this node has not joined, or is stopping")
	}
	r, err := s.update.Update(ctx, u)
	if err != nil {
		a.heard(err)
	}
	return r, err
}

package main

import (
	"context"
	"errors"

	"steerpoint/report"
)

// update hands a DNS UPDATE that the name server in this process took to control.
func (c *center) update(ctx context.Context, u report.Update) (report.UpdateResult, error) {
	to := c.updater.Load()
	if to == nil {
		return report.UpdateResult{}, errors.New("control is not ready yet")
	}
	return to.Update(ctx, localPoint, u)
}

package main

import (
	"path/filepath"
	"time"

	"steerpoint/analytics"
	"steerpoint/control"
)

// openSeries makes the series that control records to and reads from. Nothing is read or written before they run.
func (c *center) openSeries(deps *control.Deps) error {
	var err error
	c.series, err = analytics.New(analytics.Config{
		Dir: filepath.Join(c.dir, "series"), Now: func() time.Time { return c.control.Wall() },
	}, c, c.reg, c.log.With("plane", "analytics"))
	if err != nil {
		return startFault("series", "", err)
	}
	deps.Record, deps.Series = c.series, c.series
	return nil
}

// SeriesTrouble passes on why series are not written; nil: they are.
func (c *center) SeriesTrouble(err error) { c.control.SeriesTrouble(err) }

// SeriesLost passes on what of the series is gone, and where its files are.
func (c *center) SeriesLost(path, message string) { c.control.SeriesLost(path, message) }

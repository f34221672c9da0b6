package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"steerpoint/geo"
)

// How often the geo data files are looked at, and how soon again while one of them is being written.
const (
	geoCheck  = time.Minute
	geoSettle = time.Second
)

// openGeo loads the geo data. Of files that cannot be read the built-in table takes the place: visitors are answered
// less exactly, and not at all is worse.
func (c *center) openGeo() error {
	var err error
	c.geo, err = geo.NewStore(geo.Config{Lists: c.settings.Geo.Lists, Databases: c.settings.Geo.Databases})
	if err != nil {
		return startFault("geo", "", err)
	}
	c.reloadGeo()
	return nil
}

// reloadGeo looks at the files and reports whether anything changed.
func (c *center) reloadGeo() bool {
	changed, err := c.geo.Reload()
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != c.geoSaid && said != "" {
		c.log.Error("geo data cannot be read; what was there before stays in use", "error", err)
	}
	c.geoSaid = said
	return changed
}

// geoAlarms tells control of every file how it stands.
func (c *center) geoAlarms() {
	for _, f := range c.geo.Files() {
		message := ""
		switch {
		case f.Kept:
			message = f.Err.Error() + "; what was loaded of it before stays in use"
		case f.Err != nil:
			message = f.Err.Error() + "; nothing of it is in use"
		}
		c.control.GeoFile(f.Path, message)
	}
}

// watchGeo looks at the geo data files on SIGHUP and every minute, and more often while one is being written.
func (c *center) watchGeo(ctx context.Context) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	c.geoAlarms()
	for {
		wait := geoCheck
		if c.geo.Unsettled() {
			wait = geoSettle
		}
		look := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			look.Stop()
			return nil
		case <-hup:
			look.Stop()
		case <-look.C:
		}
		changed := c.reloadGeo()
		c.geoAlarms()
		if changed {
			c.control.GeoChanged()
			c.log.Info("geo data read again", "sources", names(c.geo.DB()))
		}
	}
}

func names(db *geo.DB) string {
	var s []string
	for _, src := range db.Sources() {
		s = append(s, src.Name)
	}
	return strings.Join(s, ", ")
}

// geoFiles names the geo data files that are set, for backups.
func (c *center) geoFiles() []string {
	return slices.Concat(c.settings.Geo.Lists, c.settings.Geo.Databases)
}

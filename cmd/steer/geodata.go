package main

import (
	"context"
	"log/slog"
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
func (c *center) reloadGeo() bool { return reloadGeo(c.geo, &c.geoSaid, c.log) }

// reloadGeo looks at the files of a store and reports whether anything changed. Of those that cannot be read what was there before
// stays in use, which is logged when it begins; said is what was last logged of them.
func reloadGeo(store *geo.Store, said *string, log *slog.Logger) bool {
	changed, err := store.Reload()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != *said && text != "" {
		log.Error("geo data cannot be read; what was there before stays in use", "error", err)
	}
	*said = text
	return changed
}

// lookAtGeo calls look on SIGHUP and every minute, and more often while a file of the store is being written, until ctx ends.
func lookAtGeo(ctx context.Context, store *geo.Store, look func()) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		wait := geoCheck
		if store.Unsettled() {
			wait = geoSettle
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-hup:
			timer.Stop()
		case <-timer.C:
		}
		look()
	}
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

// watchGeo follows the geo data files, and tells control of them.
func (c *center) watchGeo(ctx context.Context) error {
	c.geoAlarms()
	return lookAtGeo(ctx, c.geo, func() {
		changed := c.reloadGeo()
		c.geoAlarms()
		if changed {
			c.control.GeoChanged()
			c.log.Info("geo data read again", "sources", names(c.geo.DB()))
		}
	})
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

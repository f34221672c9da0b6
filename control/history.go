package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/control/internal/archive"
	"steerpoint/control/internal/store"
	"steerpoint/spec"
)

const (
	// storeKeeps is how long the store keeps log entries that the archive has too: long enough that a damaged archive
	// costs nothing of what an operator looks at right after an incident, and little beside the store's quota.
	storeKeeps = time.Hour
	// historyPrune is the time between two prunings, so the store holds at most 70 minutes of its logs.
	historyPrune = 10 * time.Minute
	// historyLook is how often the archive's file is looked at: whether it is there, and how large it is.
	historyLook = 10 * time.Second
	// historyRetry bounds the wait before another try at an archive that cannot be written.
	historyRetry = 30 * time.Second
	// historyLag is the longest a reader waits for the archive to take what was written right before.
	historyLag = 5 * time.Second
)

// logNames are the archive's names of the store's logs.
var logNames = [...]string{store.SwitchLog: archive.SwitchLog, store.AuditLog: archive.AuditLog}

// history is the archive and how far it has come. One goroutine writes it (keepHistory); readers only read.
type history struct {
	file    *archive.Archive
	copied  [len(logNames)]appliedRevision // by log: the revision up to which the archive has it
	anew    [len(logNames)]bool            // by log: its cursor leads nowhere; of the goroutine
	suspect chan struct{}                  // a reader met damage
	failing atomic.Bool
	rows    atomic.Uint64
}

func (h *history) init(file *archive.Archive) {
	h.file, h.suspect = file, make(chan struct{}, 1)
	for i := range h.copied {
		h.copied[i].init()
	}
}

// openHistory opens the archive. That it cannot be opened stops nothing: it is an alarm, and tried again.
func (c *Control) openHistory(ctx context.Context) {
	c.history.init(archive.New(filepath.Join(c.cfg.Data, "history.db"), c.cfg.HistoryBytes))
	err := c.openArchive(ctx)
	if errors.Is(err, archive.ErrDamaged) {
		err = c.renewArchive(ctx, err)
	}
	if err != nil {
		c.historyTrouble(err)
	}
}

// openArchive opens the file if it is not open. A new file is told of when something older was in one before.
func (c *Control) openArchive(ctx context.Context) error {
	if err := c.history.file.Open(ctx); err != nil || !c.history.file.Made() {
		return err
	}
	pruned, err := c.store.Pruned(ctx)
	if err != nil || pruned.IsZero() {
		return err
	}
	c.historyLost(fmt.Sprintf("%s was missing: what was older than %s is gone; a new one is begun with what the store still holds",
		c.history.file.Path(), pruned.Format(time.RFC3339)), nil)
	return nil
}

// renewArchive sets a damaged file aside and begins a new one.
func (c *Control) renewArchive(ctx context.Context, cause error) error {
	aside, err := c.history.file.SetAside()
	if err != nil {
		return errors.Join(cause, err)
	}
	if err := c.history.file.Open(ctx); err != nil {
		return err
	}
	c.historyLost(fmt.Sprintf("%s was damaged and is set aside as %s; a new one is begun with what the store still holds: the last hour, and every resource as it is",
		c.history.file.Path(), aside), cause)
	return nil
}

func (c *Control) historyLost(message string, cause error) {
	c.log.Error("history is lost", "message", message, "error", cause)
	c.alarms.set(api.AlarmHistoryLost, "", true, message)
}

func (c *Control) historyTrouble(err error) {
	c.history.failing.Store(true)
	do := "check disk space and permissions of the data folder"
	if errors.Is(err, archive.ErrNewer) {
		do = "run the newer program, or move the file away"
	}
	c.alarms.set(api.AlarmHistory, "", true, fmt.Sprintf("history is not kept: %v. Switching and answers go on, and the store keeps what is missing until it can be written; %s", err, do))
}

// keepHistory copies the store's logs to the archive as they are written, until ctx ends. Whatever fails is tried again,
// and holds nothing up but itself: the store keeps what is not copied.
func (c *Control) keepHistory(ctx context.Context) error {
	wait := time.Duration(0)
	for {
		began := time.Now()
		err := c.copyLogs(ctx)
		if errors.Is(err, archive.ErrDamaged) {
			err = c.renewArchive(ctx, err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, store.ErrCompacted) && c.store.Err() == nil {
			c.historyTrouble(err)
		}
		if wait = min(2*wait+100*time.Millisecond, historyRetry); time.Since(began) > historyRetry {
			wait = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.store.Failed():
			<-ctx.Done() // nothing can be written any more
			return nil
		case <-time.After(wait):
		}
	}
}

// copyLogs brings the archive up to date and then follows the logs. It returns with the error that ended it.
func (c *Control) copyLogs(ctx context.Context) error {
	if err := c.openArchive(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var news [len(logNames)]<-chan store.LogNews
	for l := range news {
		after, err := c.catchUp(ctx, store.Log(l))
		if err != nil {
			return err
		}
		news[l] = c.store.WatchLog(ctx, store.Log(l), after)
	}
	if err := c.historyKept(ctx); err != nil {
		return err
	}
	look, prune := time.NewTicker(historyLook), time.NewTicker(historyPrune)
	defer look.Stop()
	defer prune.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n, open := <-news[store.SwitchLog]:
			err = c.archiveNews(ctx, store.SwitchLog, n, open)
		case n, open := <-news[store.AuditLog]:
			err = c.archiveNews(ctx, store.AuditLog, n, open)
		case <-c.history.suspect:
			err = c.history.file.Check(ctx)
		case <-look.C:
			err = c.lookAtHistory(ctx)
		case <-prune.C:
			c.pruneHistory(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// catchUp gives the revision from which on a log is to be followed. Without a cursor, and with one of another store (put
// back from a backup, say), it copies the whole log first.
func (c *Control) catchUp(ctx context.Context, l store.Log) (int64, error) {
	after, err := c.history.file.Cursor(ctx, logNames[l])
	if err != nil {
		return 0, err
	}
	_, now, _, err := c.store.LogPage(ctx, l, store.PartEntry, "", 1)
	if err != nil {
		return 0, err
	}
	if after == 0 || after > now || c.history.anew[l] {
		if after, err = c.copyWhole(ctx, l); err != nil {
			return 0, err
		}
		c.history.anew[l] = false
	}
	c.history.copied[l].set(after)
	return after, nil
}

// copyWhole copies everything the store has of a log. What is written meanwhile comes after the revision it returns.
func (c *Control) copyWhole(ctx context.Context, l store.Log) (int64, error) {
	parts := []store.Part{store.PartEntry, store.PartPublication, store.PartUndone}
	if l == store.AuditLog {
		parts = parts[:1]
	}
	var first int64
	for _, part := range parts {
		for after, more := "", true; more; {
			page, rev, m, err := c.store.LogPage(ctx, l, part, after, 500)
			if err != nil {
				return 0, err
			}
			if first == 0 {
				first = rev
			}
			if err := c.archiveEntries(ctx, l, page, 0); err != nil {
				return 0, err
			}
			if more = m && len(page) > 0; more {
				after = page[len(page)-1].ID
			}
		}
	}
	if l == store.AuditLog {
		if err := c.seedHistory(ctx, first); err != nil {
			return 0, err
		}
	}
	return first, c.archiveEntries(ctx, l, nil, first)
}

// seedHistory gives the archive every resource as it is stored, where no audit line told of it.
func (c *Control) seedHistory(ctx context.Context, upTo int64) error {
	view, err := c.store.Resources(ctx)
	if err != nil {
		return err
	}
	var lines []archive.Line
	for _, r := range view.Resources {
		if r.Revision <= upTo && r.Document != nil {
			lines = append(lines, archive.Line{
				Revision: r.Revision, Time: r.Meta.Modified, Actor: r.Meta.Actor, Kind: r.Kind, Name: r.Name, Document: redact(r.Kind, r.Document),
			})
		}
	}
	return c.history.file.Seed(ctx, lines)
}

func (c *Control) archiveNews(ctx context.Context, l store.Log, n store.LogNews, open bool) error {
	switch {
	case !open:
		return errStopping
	case n.Err != nil:
		c.history.anew[l] = errors.Is(n.Err, store.ErrCompacted)
		return n.Err
	}
	if err := c.archiveEntries(ctx, l, n.Entries, n.Revision); err != nil {
		return err
	}
	c.history.copied[l].set(n.Revision)
	return c.historyKept(ctx)
}

// historyBehind reports whether something that could not be written is still to be, of either log: then a later write tells
// whether that is over. A full disk takes everything else, and a small line where a larger one did not fit: without all of it
// the alarm would go and come with every try.
func (c *Control) historyBehind(ctx context.Context) (bool, error) {
	if !c.history.failing.Load() {
		return false, nil
	}
	for l := range c.history.copied {
		newest, err := c.store.Newest(ctx, store.Log(l))
		if err != nil || newest > c.history.copied[l].get() {
			return true, err
		}
	}
	return false, nil
}

// historyKept ends the trouble that there was, once nothing is behind.
func (c *Control) historyKept(ctx context.Context) error {
	behind, err := c.historyBehind(ctx)
	if err == nil && !behind && c.history.failing.Swap(false) {
		c.alarms.set(api.AlarmHistory, "", false, "")
	}
	return err
}

// archiveEntries writes entries; cursor is the revision up to which the log is copied with them, 0 if that is not known.
func (c *Control) archiveEntries(ctx context.Context, l store.Log, entries []store.LogEntry, cursor int64) error {
	var err error
	if l == store.AuditLog {
		err = c.history.file.WriteAudit(ctx, c.auditLines(entries), cursor)
	} else {
		err = c.history.file.WriteSwitches(ctx, c.switchParts(entries), cursor)
	}
	if err == nil {
		c.history.rows.Add(uint64(len(entries)))
	}
	return err
}

func (c *Control) switchParts(entries []store.LogEntry) []archive.SwitchPart {
	parts := make([]archive.SwitchPart, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		p := archive.SwitchPart{ID: e.ID, Part: archive.Entry, Value: e.Value}
		switch e.Part {
		case store.PartPublication:
			p.Part = archive.Publication
		case store.PartUndone:
			p.Part = archive.Undone
		case store.PartEntry:
			var s struct{ Service string }
			if err := json.Unmarshal(e.Value, &s); err != nil {
				c.log.Error("switch-log entry is unreadable and not archived", "id", e.ID, "error", err)
				continue
			}
			p.Service = s.Service
		}
		parts = append(parts, p)
	}
	return parts
}

func (c *Control) auditLines(entries []store.LogEntry) []archive.Line {
	lines := make([]archive.Line, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		var a store.Audit
		if err := json.Unmarshal(e.Value, &a); err != nil {
			c.log.Error("audit line is unreadable and not archived", "id", e.ID, "error", err)
			continue
		}
		l := archive.Line{ID: e.ID, Revision: e.Revision, Time: a.Time, Actor: a.Actor, Action: a.Action, Kind: a.Kind, Name: a.Name, Reason: a.Reason}
		if _, resource := spec.ParseKind(a.Kind); resource { // nodes and tokens have lines and no revisions
			l.Document, l.Gone = redact(a.Kind, a.After), a.After == nil
		}
		lines = append(lines, l)
	}
	return lines
}

// openKinds are the kinds whose documents hold nothing secret: the keys of a Notifier are in Secrets or files, never in it.
var openKinds = []string{string(spec.KindService), string(spec.KindZone), string(spec.KindOverride), string(spec.KindNotifier), string(spec.KindRuleSet), string(spec.KindCertificate), string(spec.KindDynamicRecords)}

// redact is what history keeps of a document; every document goes through it. Of a kind not known to be open only the
// envelope is kept: that it was written, and by what name and labels.
func redact(kind string, document json.RawMessage) json.RawMessage {
	if document == nil || slices.Contains(openKinds, kind) {
		return document
	}
	fields := []string{"apiVersion", "kind", "name", "labels"}
	if kind == string(spec.KindSecret) { // sealed, so that it can be rolled back
		fields = append(fields, "keys", sealedField)
	}
	return only(document, fields...)
}

// errHistoryMoved: the file was taken away under the running process.
var errHistoryMoved = errors.New("the history file was removed or replaced while it was open")

// lookAtHistory begins a new file when somebody took this one away, and keeps it within its bound.
func (c *Control) lookAtHistory(ctx context.Context) error {
	if !c.history.file.Present() {
		return errors.Join(errHistoryMoved, c.history.file.Close())
	}
	dropped, err := c.history.file.Shrink(ctx)
	if dropped {
		c.log.Warn("history reached its bound: the oldest entries are dropped before their time", "file", c.history.file.Path())
	}
	return err
}

// pruneHistory makes what was copied last, lets the store forget it, and drops from the archive what is too old.
func (c *Control) pruneHistory(ctx context.Context) {
	if err := c.forgetCopied(ctx); err != nil {
		c.log.Warn("logs in the store not pruned", "error", err)
	}
	if err := c.history.file.Prune(ctx, c.wallNow().Add(-c.cfg.Retention)); err != nil {
		c.log.Warn("history not pruned", "error", err)
	}
}

func (c *Control) forgetCopied(ctx context.Context) error {
	var cursors [len(logNames)]int64
	for l, name := range logNames {
		var err error
		if cursors[l], err = c.history.file.Cursor(ctx, name); err != nil {
			return err
		}
	}
	if err := c.history.file.Sync(ctx); err != nil {
		return err
	}
	for l, cursor := range cursors {
		if err := c.store.PruneLog(ctx, store.Log(l), c.wallNow().Add(-storeKeeps), cursor); err != nil {
			return err
		}
	}
	return nil
}

// awaitHistory lets the archive take what was written before now, so that who writes and then reads sees it.
func (c *Control) awaitHistory(ctx context.Context) {
	if c.history.failing.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, historyLag)
	defer cancel()
	if newest, err := c.store.Newest(ctx, store.AuditLog); err == nil {
		c.history.copied[store.AuditLog].wait(ctx, newest)
	}
}

// historyError notes what a reader met: damage is for keepHistory to mend.
func (c *Control) historyError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, archive.ErrDamaged) {
		select {
		case c.history.suspect <- struct{}{}:
		default:
		}
	}
	return fmt.Errorf("%w: %w", errHistory, err)
}

// historyCollector gives the state of the archive at the time it is asked.
type historyCollector struct {
	c          *Control
	size, rows *prometheus.Desc
}

func newHistoryCollector(c *Control) *historyCollector {
	return &historyCollector{
		c:    c,
		size: prometheus.NewDesc("steer_control_history_size_bytes", "Size of the history file, without what is free in it.", nil, nil),
		rows: prometheus.NewDesc("steer_control_history_records_total", "Records copied to the history file since the start.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (h *historyCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- h.size
	ch <- h.rows
}

// Collect implements prometheus.Collector.
func (h *historyCollector) Collect(ch chan<- prometheus.Metric) {
	if h.c.history.file == nil { // asked before everything is open
		return
	}
	ch <- prometheus.MustNewConstMetric(h.rows, prometheus.CounterValue, float64(h.c.history.rows.Load()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if size, err := h.c.history.file.Size(ctx); err == nil {
		ch <- prometheus.MustNewConstMetric(h.size, prometheus.GaugeValue, float64(size))
	}
}

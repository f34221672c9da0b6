package control

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/tape"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// present is what status and explanations are made of: an engine, and the clock its instants are of. Of Control it is the
// engine that decides; of a moment in the past a replica of it.
type present struct {
	engine *engine.Engine
	clock  *moment.Clock
	waits  func(rule string) bool // the rule's newest decision is not published yet
	// certificate is when the certificate that an address shows ends; nil: not known, as of the past.
	certificate func(service, edge, address string) *time.Time
}

// Checkpoints let a reader begin near any time. One that is large and by far most of the tape may be an hour old.
const (
	checkpointEvery = 10 * time.Minute
	checkpointRare  = time.Hour
)

// recorder puts what the engine is told on the tape, in the loop. A nil recorder, of a tape that cannot be kept, does
// nothing: no decision depends on the tape.
type recorder struct {
	*tape.Writer
	newest  steering.Instant // checkpoint
	written map[string]int64 // revisions of the documents on the tape, by key
}

func (c *Control) tapeDir() string { return filepath.Join(c.cfg.Data, "tape") }

// openTape begins the tape of this process, on the first call of keepTape.
func (c *Control) openTape() {
	w, err := tape.NewWriter(tape.Config{
		Dir: c.tapeDir(), MaxBytes: c.cfg.TapeBytes, MaxAge: c.cfg.TapeAge, Log: c.log,
		Trouble: func(err error) { c.tapeTrouble(err) },
	})
	if err != nil {
		c.alarms.set(api.AlarmTape, "", true, fmt.Sprintf("nothing is recorded: %v. Decisions do not depend on it; what happens now cannot be exported or explained later. Put %s right and start control again: this is not tried again before",
			err, c.tapeDir()))
		return
	}
	c.tape = &recorder{Writer: w, written: map[string]int64{}}
}

func (c *Control) tapeTrouble(err error) {
	message := ""
	if err != nil {
		message = fmt.Sprintf("nothing is recorded: %v. Decisions do not depend on it; what happens now cannot be exported or explained later. Make room, or put %s right: it goes on by itself",
			err, c.tapeDir())
	}
	c.alarms.set(api.AlarmTape, "", err != nil, message)
}

// runTape writes the tape until the loop has put its last record.
func (c *Control) runTape(ctx context.Context) error {
	if c.tape == nil {
		<-ctx.Done()
		return nil
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		<-c.done
		stop()
	}()
	return c.tape.Run(run)
}

// keepTape puts a checkpoint on the tape when one is due. start: the process begins.
func (c *Control) keepTape(now moment.Moment, start bool) {
	if start {
		c.openTape()
	}
	if c.tape == nil {
		return
	}
	every := checkpointEvery
	if c.tape.Rare() {
		every = checkpointRare
	}
	if start || c.tape.Wants() || now.At-c.tape.newest >= every {
		c.checkpoint(now, start)
	}
}

// checkpoint puts on the tape what all rules know. Start: the records before do not lead here.
func (c *Control) checkpoint(now moment.Moment, start bool) {
	s := &tape.State{
		Start: start, Version: c.cfg.Version, Wall: now.Wall.UTC(), Overrides: append([]engine.Override(nil), c.engine.Overrides()...),
		Points: c.engine.Points(), Rules: c.engine.Checkpoint(),
	}
	c.tape.written = map[string]int64{}
	for key, doc := range c.resources.docs {
		if d, ok := c.tape.document(key, &doc); ok {
			s.Documents = append(s.Documents, d)
		}
	}
	if c.tape.Put(tape.Record{Kind: tape.Checkpoint, Now: now.At, Checkpoint: s}) {
		c.tape.newest = now.At
	}
}

// document gives a resource as the tape keeps it, unless the tape has it; Overrides are kept resolved.
func (r *recorder) document(key string, doc *spec.Resource) (tape.Document, bool) {
	rev := int64(doc.Revision)
	if had, ok := r.written[key]; ok && had == rev {
		return tape.Document{}, false
	}
	plain := *doc
	plain.Revision = 0 // it is beside the document
	b, err := plain.JSON(spec.Minimal)
	if err != nil {
		return tape.Document{}, false // what was read can be written
	}
	r.written[key] = rev
	return tape.Document{Kind: string(doc.Kind), Name: doc.Name, Revision: rev, Document: json.RawMessage(b)}, true
}

// observation records one that is about to be evaluated.
func (r *recorder) observation(e *engine.Engine, now, at steering.Instant, o *report.Observation) {
	if r == nil || !o.Counts() {
		return
	}
	source, _ := e.Key(o.Point, o.Task, func(uses []snapshot.TaskUse) any {
		return &tape.Source{Point: o.Point, Task: o.Task, Uses: uses}
	}).(*tape.Source)
	if source == nil {
		return
	}
	rec := tape.Record{Kind: tape.Observation, Now: now, Source: source, At: at, OK: o.OK, Latency: o.Latency}
	if !o.OK {
		rec.Cause = string(o.Cause)
	}
	r.Put(rec)
}

// advance lets time come to now.
func (c *Control) advance(now moment.Moment) {
	if c.tape != nil && c.engine.Due(now.At) {
		c.tape.Put(tape.Record{Kind: tape.Advance, Now: now.At})
	}
	c.take(now, c.engine.Advance(now.At))
}

func (r *recorder) points(now steering.Instant, points []steering.Point) {
	if r != nil {
		r.Put(tape.Record{Kind: tape.Points, Now: now, Points: points})
	}
}

func (r *recorder) configuration(now steering.Instant, docs map[string]spec.Resource, overrides []engine.Override) {
	if r == nil {
		return
	}
	ch := &tape.Change{Overrides: append([]engine.Override(nil), overrides...)} // the engine marks those that end
	for key, doc := range docs {
		if d, ok := r.document(key, &doc); ok {
			ch.Put = append(ch.Put, d)
		}
	}
	for key := range r.written {
		if _, there := docs[key]; !there {
			ch.Deleted = append(ch.Deleted, key)
			delete(r.written, key)
		}
	}
	r.Put(tape.Record{Kind: tape.Configured, Now: now, Change: ch})
}

func (r *recorder) decision(now steering.Instant, rule string, ev *steering.Event) {
	if r != nil {
		r.Put(tape.Record{Kind: tape.Decided, Now: now, Decision: &tape.Decision{
			Rule: rule, At: ev.At, From: ev.From, To: ev.To, Cause: string(ev.Cause),
		}})
	}
}

// tapeStatus is the tape as status shows it.
func (c *Control) tapeStatus() *api.TapeStatus {
	if c.tape == nil {
		return nil
	}
	s, err := c.tape.Stats()
	if err != nil {
		c.log.Warn("the size of the tape is not known", "error", err)
	}
	out := &api.TapeStatus{SizeBytes: s.Bytes, Records: s.Records, Missing: s.Missing}
	if !s.Oldest.IsZero() {
		oldest := s.Oldest.UTC()
		out.Oldest = &oldest
	}
	return out
}

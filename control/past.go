package control

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/tape"
	"steerpoint/spec"
)

// past is the engine as it was, brought back from the tape: a checkpoint, and the records after it.
type past struct {
	engine  *engine.Engine
	docs    map[string]spec.Resource // in use, by key
	last    *tape.Record             // newest that was played
	begun   *tape.Record             // the checkpoint
	trouble []string                 // what could not be brought back, for people
	started time.Time                // of the process that came after the newest record that was played; zero: the same one
	trace   func(*engine.Call)
	only    string // service; "": all. Rules are independent, so one service can be played alone
}

// restore begins anew from a checkpoint.
func (p *past) restore(r *tape.Record) {
	s := r.Checkpoint
	p.begun, p.last, p.docs = r, r, map[string]spec.Resource{}
	for i := range s.Documents {
		p.put(&s.Documents[i])
	}
	var errs []error
	p.engine, errs = engine.Replica(r.Now, s.Wall, p.set(), slices.Clone(s.Overrides), s.Points, s.Rules, p.trace)
	for _, err := range errs {
		p.trouble = append(p.trouble, err.Error())
	}
}

// put takes a document of the tape.
func (p *past) put(d *tape.Document) {
	if p.only != "" && d.Kind == string(spec.KindService) && d.Name != p.only {
		return
	}
	docs, errs := spec.Parse("", d.Document)
	if err := errs.Err(); err != nil || len(docs) != 1 {
		p.trouble = append(p.trouble, fmt.Sprintf("%s revision %d cannot be read by this version: %v", d.Key(), d.Revision, err))
		return
	}
	docs[0].Revision = uint64(d.Revision)
	p.docs[d.Key()] = docs[0]
}

func (p *past) set() *spec.Set { return spec.NewSet(slices.Collect(maps.Values(p.docs))) }

// play lets the engine live through one record.
func (p *past) play(r *tape.Record) {
	p.last = r
	switch r.Kind {
	case tape.Observation:
		p.engine.Replay(r.At, r.Source.Point, r.Source.Uses, r.OK, r.Latency, r.Cause)
	case tape.Advance:
		p.engine.Advance(r.Now)
	case tape.Points:
		p.engine.SetPoints(r.Now, r.Points)
	case tape.Configured:
		for i := range r.Change.Put {
			p.put(&r.Change.Put[i])
		}
		for _, key := range r.Change.Deleted {
			delete(p.docs, key)
		}
		p.engine.Configure(r.Now, r.Wall, p.set(), slices.Clone(r.Change.Overrides))
	}
}

// tapeProblem makes an error of the tape one of the API.
func tapeProblem(err error) error {
	var before *tape.BeforeError
	if errors.As(err, &before) {
		return problem(http.StatusNotFound, api.CodeBeforeTape, "Nothing was recorded", before.Error())
	}
	return err
}

// parsePast reads a time of the past; fallback is for "".
func (c *Control) parsePast(where, text string, fallback time.Time) (time.Time, error) {
	if text == "" {
		return fallback, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, badRequest(where, "%q is no time (RFC 3339), such as 2026-01-02T15:04:05Z", text)
	}
	if now := c.clock.Moment().Wall; t.After(now) {
		return t, badRequest(where, "%s is in the future: it is %s here", text, now.UTC().Format(time.RFC3339))
	}
	return t, nil
}

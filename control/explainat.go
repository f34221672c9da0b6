package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steerpoint/control/api"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/tape"
)

// explainWhen explains now, or a time in the past.
func (c *Control) explainWhen(ctx context.Context, q explainQuery, at string) (*api.Explanation, error) {
	if at == "" {
		return c.explain(ctx, q)
	}
	when, err := c.parsePast("query.at", at, time.Time{})
	if err != nil {
		return nil, err
	}
	return c.explainAt(ctx, q, when)
}

// explainAt says why a client got what it got: the rules as the tape has them, and the resources in use then. Geo data are
// those of today, and what name servers answered is not on the tape: the rule's decision is.
func (c *Control) explainAt(ctx context.Context, q explainQuery, when time.Time) (*api.Explanation, error) {
	p, gap, err := c.pastAt(ctx, when)
	if err != nil {
		return nil, err
	}
	x, place, decider := c.question(q)
	at := p.last.Now + when.Sub(p.last.Wall)
	if p.started.IsZero() { // else nothing was evaluated since
		p.engine.Advance(at)
	}
	then := &present{engine: p.engine, clock: standing(at, when), waits: func(string) bool { return false }, certificate: unknownEnd}
	if !then.explainRules(at, x, place, decider) {
		return nil, notFound("at %s no service had the name %s", when.UTC().Format(time.RFC3339), q.host)
	}
	asked, from := when.UTC(), p.begun.Wall
	x.At, x.Checkpoint = &asked, &from
	first := fmt.Sprintf("at %s, from the tape: the checkpoint of %s and what followed; geo data are those of today",
		asked.Format(time.RFC3339), from.Format(time.RFC3339))
	x.Text = append([]string{first}, explainText(x)...)
	if gap {
		x.Text = append(x.Text, "records are missing between that checkpoint and the time asked for: the state may have been another")
	}
	if !p.started.IsZero() {
		x.Text = append(x.Text, fmt.Sprintf("control was started at %s, and the record before that is of %s: nothing was evaluated between the two, it may not have run, and name servers answered by what they had",
			p.started.Format(time.RFC3339), p.last.Wall.Format(time.RFC3339)))
	}
	x.Text = append(x.Text, p.trouble...)
	return x, nil
}

// errReached ends the reading of a tape at the time asked for.
var errReached = errors.New("reached")

// pastAt brings the engine back as it was. gap: records are missing on the way.
func (c *Control) pastAt(ctx context.Context, when time.Time) (p *past, gap bool, err error) {
	if c.tape != nil {
		if err := c.tape.Flush(ctx); err != nil {
			return nil, false, err
		}
	}
	p = &past{}
	// The first record after the time tells whether a process was there at that time.
	err = tape.Open(c.tapeDir()).Range(when, when.AddDate(100, 0, 0), func(r *tape.Record) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.Wall.After(when):
			if r.Kind == tape.Checkpoint && r.Checkpoint.Start {
				p.started = r.Wall
			}
			return errReached
		case r.Kind == tape.Gap:
			gap = true
		case r.Kind == tape.Checkpoint:
			p.restore(r)
			gap = false
		default:
			p.play(r)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errReached) {
		return nil, false, tapeProblem(err)
	}
	return p, gap, nil
}

// standing is a clock that shows one moment of the past for ever.
func standing(at time.Duration, wall time.Time) *moment.Clock {
	m := moment.Moment{Wall: wall, Boot: "tape"}
	past := m
	past.At = at
	return moment.NewClock(m.Boot, func() moment.Moment { return m }, []moment.Moment{past})
}

// unknownEnd: certificates are not on the tape.
func unknownEnd(_, _, _ string) *time.Time { return nil }

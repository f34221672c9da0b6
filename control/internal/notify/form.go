package notify

import (
	"fmt"
	"time"
)

// Timing says when messages are made. The zero value of a field is its default.
type Timing struct {
	// Gather is how long an event waits for others of the same moment; 0: 1 s.
	Gather time.Duration
	// Publication is how long a switch waits to be published, so that the message can say how long that took; 0: 5 s.
	Publication time.Duration
	// Fold is the shortest time between two messages about verdicts of one rule; 0: 10 s.
	Fold time.Duration
	// Storm is the time in which more than maxSingle events become one message; 0: 10 s.
	Storm time.Duration
	// FirstRetry and LastRetry bound the time between tries; 0: 1 s and 5 min.
	FirstRetry, LastRetry time.Duration
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&t.Gather, time.Second)
	set(&t.Publication, 5*time.Second)
	set(&t.Fold, 10*time.Second)
	set(&t.Storm, 10*time.Second)
	set(&t.FirstRetry, time.Second)
	set(&t.LastRetry, 5*time.Minute)
	return t
}

const (
	// maxSingle events are told one by one; more of them within Timing.Storm, or waiting at once, are one digest.
	maxSingle = 20
	// maxQueue bounds what waits for one target; the oldest go.
	maxQueue = 1000
	// maxAge is how long delivery is tried: news of yesterday wakes nobody usefully.
	maxAge = 24 * time.Hour
)

// former decides what is told next. It remembers what the outbox need not: a restart tells a little sooner.
type former struct {
	timing   Timing
	arrivals []time.Time          // of the newest events, at most maxSingle+1, oldest first
	storming bool                 // a storm was seen, and what waits since is not told yet
	verdicts map[string]time.Time // when the verdicts of a rule were told last
}

func newFormer(t Timing) *former {
	return &former{timing: t.withDefaults(), verdicts: map[string]time.Time{}}
}

func (f *former) arrived(at time.Time) {
	f.arrivals = append(f.arrivals, at)
	if n := len(f.arrivals) - maxSingle - 1; n > 0 {
		f.arrivals = f.arrivals[n:]
	}
}

// storm reports whether more than maxSingle events came within the last Timing.Storm.
func (f *former) storm(now time.Time) bool {
	return len(f.arrivals) > maxSingle && now.Sub(f.arrivals[0]) <= f.timing.Storm
}

// never is how long nothing is to be done when only a new event can change that.
const never = time.Hour

// next is the message to be told now, or how long there is none.
func (f *former) next(s *state, now time.Time) (*formed, time.Duration) {
	if len(s.Queue) == 0 {
		return nil, never
	}
	f.storming = f.storming || f.storm(now)
	if f.storming || len(s.Queue) > maxSingle {
		// All that waits becomes one message, once the storm has lasted its time.
		if end := s.Queue[0].At.Add(f.timing.Storm); f.storming && now.Before(end) {
			return nil, end.Sub(now)
		}
		f.storming = false
		return f.form(s, now, s.Queue), 0
	}
	wait := never
	for i := range s.Queue {
		it := &s.Queue[i]
		at := f.readyAt(it)
		if !at.After(now) {
			return f.form(s, now, f.withFolded(s, it)), 0
		}
		wait = min(wait, at.Sub(now))
		if it.Event.Kind != KindVerdict || f.held(it, now) == 0 {
			break // only verdicts that are held let others pass
		}
	}
	return nil, wait
}

// readyAt is when an event may be told.
func (f *former) readyAt(it *item) time.Time {
	at := it.At.Add(f.timing.Gather)
	switch e := &it.Event; {
	case e.Kind == KindSwitch && e.Publication == nil:
		at = it.At.Add(max(f.timing.Gather, f.timing.Publication))
	case e.Kind == KindVerdict:
		if last, ok := f.verdicts[ruleOf(e)]; ok {
			if folded := last.Add(f.timing.Fold); folded.After(at) {
				at = folded
			}
		}
	}
	return at
}

// held is how long the verdicts of an event's rule are not told yet because others of it just were.
func (f *former) held(it *item, now time.Time) time.Duration {
	last, ok := f.verdicts[ruleOf(&it.Event)]
	if !ok {
		return 0
	}
	return max(last.Add(f.timing.Fold).Sub(now), 0)
}

func ruleOf(e *Event) string { return e.Service + "/" + e.Rule }

// withFolded is an event with those that are told in the same message: of a verdict, the others of its rule.
func (f *former) withFolded(s *state, it *item) []item {
	if it.Event.Kind != KindVerdict {
		return []item{*it}
	}
	var all []item
	for i := range s.Queue {
		if e := &s.Queue[i].Event; e.Kind == KindVerdict && ruleOf(e) == ruleOf(&it.Event) {
			all = append(all, s.Queue[i])
		}
	}
	return all
}

// form makes a message of events. Its ID is that of its first event, and says how many follow: an event is in one
// message only.
func (f *former) form(s *state, now time.Time, list []item) *formed {
	m := &formed{ID: list[0].Event.ID, Kind: list[0].Event.Kind, Lost: s.Lost, At: now}
	for i := range list {
		e := &list[i].Event
		m.Seqs = append(m.Seqs, list[i].Seq)
		if e.Kind != m.Kind || ruleOf(e) != ruleOf(&list[0].Event) {
			m.Kind = kindDigest
		}
		if e.Kind == KindVerdict {
			f.verdicts[ruleOf(e)] = now
		}
	}
	if n := len(list); n > 1 {
		m.ID = fmt.Sprintf("%s~%d", m.ID, n)
		if m.Kind != KindVerdict {
			m.Kind = kindDigest
		}
	}
	for rule, at := range f.verdicts {
		if now.Sub(at) > f.timing.Fold {
			delete(f.verdicts, rule)
		}
	}
	return m
}

// tooMany are the events that must go before n more come: the oldest, but none of the message under way.
func tooMany(s *state, n int) []uint64 {
	over := len(s.Queue) + n - maxQueue
	if s.Form != nil {
		over -= len(s.Form.Seqs)
	}
	var seqs []uint64
	for i := 0; i < len(s.Queue) && len(seqs) < over; i++ {
		if !s.underWay(s.Queue[i].Seq) {
			seqs = append(seqs, s.Queue[i].Seq)
		}
	}
	return seqs
}

// tooOld are the events nobody needs any more.
func tooOld(s *state, now time.Time) []uint64 {
	var seqs []uint64
	for i := range s.Queue {
		if it := &s.Queue[i]; now.Sub(it.At) > maxAge && !s.underWay(it.Seq) {
			seqs = append(seqs, it.Seq)
		}
	}
	return seqs
}

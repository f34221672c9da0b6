package notify

import (
	"slices"
	"time"
)

// item is an event that waits.
type item struct {
	Seq   uint64    `json:"seq"`
	At    time.Time `json:"at"` // when it was taken
	Event Event     `json:"event"`
}

// formed is a message under way: which events it tells. It stays the same until it is delivered or given up.
type formed struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind"`
	Seqs []uint64  `json:"seqs"`
	Lost uint64    `json:"lost,omitempty"` // events that were never delivered, told with it
	At   time.Time `json:"at"`
}

// record is one step of a queue. The outbox keeps them, and a restart does them again.
type record struct {
	N    uint64      `json:"n"` // grows by one
	Take *item       `json:"take,omitempty"`
	Pub  *pubRecord  `json:"pub,omitempty"`
	Form *formed     `json:"form,omitempty"`
	Done string      `json:"done,omitempty"`   // ID of the message that was delivered
	Gone string      `json:"gone,omitempty"`   // ID of the message that was given up
	Drop []uint64    `json:"drop,omitempty"`   // events that had to make room, or grew too old
	Lost uint64      `json:"lost,omitempty"`   // events that never came here
	Over *overRecord `json:"settle,omitempty"` // an alarm of which nothing is to be told any more
}

type pubRecord struct {
	Seq         uint64      `json:"seq"`
	Publication Publication `json:"publication"`
}

type overRecord struct {
	Alarm string `json:"alarm"`
}

// maxKnown is how many IDs of switches are kept to tell what was taken already: more than the queue holds.
const maxKnown = 2000

// state is everything a queue knows.
type state struct {
	N     uint64  `json:"n"`
	Seq   uint64  `json:"seq"`
	Queue []item  `json:"queue"` // by Seq
	Form  *formed `json:"form,omitempty"`
	Lost  uint64  `json:"lost"` // and not told yet
	// Known are IDs of the newest switches taken, by ID; switches up to Floor count as taken too.
	Known []string `json:"known"`
	Floor string   `json:"floor"`
	// Alarms are those told, or about to be, and not over.
	Alarms map[string]Event `json:"alarms"`
}

// do does one step.
func (s *state) do(r *record) {
	s.N = r.N
	switch {
	case r.Take != nil:
		s.take(r.Take)
	case r.Pub != nil:
		for i := range s.Queue {
			if s.Queue[i].Seq == r.Pub.Seq {
				s.Queue[i].Event.Publication = &r.Pub.Publication
			}
		}
	case r.Form != nil:
		s.Form = r.Form
	case r.Done != "" || r.Gone != "":
		s.finish(r.Done != "")
	case r.Drop != nil:
		s.remove(r.Drop)
		s.Lost += uint64(len(r.Drop))
	case r.Lost != 0:
		s.Lost += r.Lost
	case r.Over != nil:
		delete(s.Alarms, r.Over.Alarm)
	}
}

func (s *state) take(it *item) {
	s.Seq = it.Seq
	s.Queue = append(s.Queue, *it)
	if e := &it.Event; e.Kind == KindSwitch {
		if i, found := slices.BinarySearch(s.Known, e.ID); !found {
			s.Known = slices.Insert(s.Known, i, e.ID)
		}
		if n := len(s.Known) - maxKnown; n > 0 {
			s.Floor = max(s.Floor, s.Known[n-1])
			s.Known = slices.Delete(s.Known, 0, n)
		}
	} else if key := e.alarm(); key != "" {
		if e.On {
			s.Alarms[key] = *e
		} else {
			delete(s.Alarms, key)
		}
	}
}

// finish ends the message under way.
func (s *state) finish(delivered bool) {
	if s.Form == nil {
		return
	}
	s.remove(s.Form.Seqs)
	if delivered {
		s.Lost -= min(s.Form.Lost, s.Lost)
	} else {
		s.Lost += uint64(len(s.Form.Seqs))
	}
	s.Form = nil
}

// remove takes events out of the queue; seqs are in order.
func (s *state) remove(seqs []uint64) {
	s.Queue = slices.DeleteFunc(s.Queue, func(it item) bool { return holds(seqs, it.Seq) })
}

// underWay reports whether an event is in the message under way.
func (s *state) underWay(seq uint64) bool { return s.Form != nil && holds(s.Form.Seqs, seq) }

func holds(seqs []uint64, seq uint64) bool {
	_, found := slices.BinarySearch(seqs, seq)
	return found
}

// wants reports whether an event is news: not one taken already, nor the end of an alarm that was never told.
func (s *state) wants(e *Event) bool {
	if key := e.alarm(); key != "" {
		_, told := s.Alarms[key]
		return told != e.On
	}
	if e.Kind == KindSwitch {
		_, known := slices.BinarySearch(s.Known, e.ID)
		return !known
	}
	return true
}

// events gives those of the message under way, oldest first.
func (s *state) events() []Event {
	var out []Event
	for i := range s.Queue {
		if s.underWay(s.Queue[i].Seq) {
			out = append(out, s.Queue[i].Event)
		}
	}
	return out
}

package snapshot

import (
	"cmp"
	"fmt"
	"slices"
)

// ProbeDelta leads from one probe snapshot of a point to a later one, like DNSDelta.
type ProbeDelta struct {
	From  uint64 `json:"from"` // version of the snapshot it is applied to; 0: none
	To    uint64 `json:"to"`
	Point string `json:"point"`
	// Digest is Probe.Digest of the result.
	Digest string `json:"digest"`
	// Whole is the result itself, where a delta cannot lead to it. Tasks and Gone are empty then.
	Whole *Probe `json:"whole,omitempty"`
	// Tasks are those that changed or are new, Gone the IDs of those that are no more; both by ID.
	Tasks []ProbeTask `json:"tasks,omitempty"`
	Gone  []string    `json:"gone,omitempty"`
}

// DiffProbe makes the delta from old to next. old may be nil. The delta shares its parts with next.
func DiffProbe(old, next *Probe) *ProbeDelta {
	d := &ProbeDelta{To: next.Version, Point: next.Point, Digest: next.Digest()}
	if old != nil {
		d.From = old.Version
	}
	if old == nil || !ordered(old.Tasks, taskID) || !ordered(next.Tasks, taskID) {
		d.Whole = next
		return d
	}
	d.Tasks, d.Gone = diffLists(old.Tasks, next.Tasks, taskID, (*ProbeTask).equal)
	return d
}

func taskID(t *ProbeTask) string { return t.ID }

// Apply makes the later snapshot of old, which is left alone. An error matches ErrGap when the delta does not continue
// old, and ErrDigest when the result is not the one meant.
func (d *ProbeDelta) Apply(old *Probe) (*Probe, error) {
	base := cmp.Or(old, &Probe{})
	if base.Version != d.From && d.Whole == nil {
		return nil, fmt.Errorf("MAP_GAP: the delta leads from task list version %d to %d, and version %d is at hand: fetch the whole list: %w", d.From, d.To, base.Version, ErrGap)
	}
	out := d.Whole
	if out == nil {
		tasks, err := patchLists(base.Tasks, slices.Clone(d.Tasks), d.Gone, taskID)
		if err != nil {
			return nil, fmt.Errorf("MAP_DIGEST: the delta from task list version %d to %d does not fit the list at hand: %w: fetch the whole list: %w", d.From, d.To, err, ErrDigest)
		}
		out = &Probe{Version: d.To, Point: d.Point, Tasks: tasks}
	}
	if got := out.Digest(); got != d.Digest {
		return nil, fmt.Errorf("MAP_DIGEST: the delta from task list version %d to %d makes a list with digest %.12s, not %.12s: fetch the whole list: %w",
			d.From, d.To, got, d.Digest, ErrDigest)
	}
	return out, nil
}

package engine

import (
	"iter"

	"steerpoint/snapshot"
)

// Uses gives what a point's task is for, one after the other; nothing if the point has no such task.
func (e *Engine) Uses(point, task string) iter.Seq[snapshot.TaskUse] {
	return func(yield func(snapshot.TaskUse) bool) {
		in := e.targets[point][task]
		if in == nil {
			return
		}
		for _, t := range in.uses {
			if !yield(snapshot.TaskUse{Service: t.rule.base.Service, Rule: t.rule.base.Name, Edge: t.edge, Address: t.address}) {
				return
			}
		}
	}
}

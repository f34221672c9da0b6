// Package supervise runs the parts of a program together: all of them run, or none.
//
// The first part that fails ends the others, and Wait returns only when every one has returned. Nothing is restarted:
// a part that can mend itself does so inside, and what it cannot mend is for the process manager to see.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// ErrExited is the failure of a part that ended its goroutine without returning (runtime.Goexit).
var ErrExited = errors.New("ended without returning")

// PanicError is a panic in a part, turned into that part's failure.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked, as text
}

// Error gives the panic's value and the stack below it: whoever sees it at all needs both.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value when it is an error itself.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Group is a set of named parts that live and end together. Make one with New.
type Group struct {
	// ctx is the group's own life, not a caller's: it is handed to every part, so that a plane's Run fits as it is.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	first error // of the first part that failed
}

// New makes a group that ends when ctx does or when one of its parts fails.
func New(ctx context.Context) *Group {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{ctx: ctx, cancel: cancel}
}

// Go starts a part. Its context ends with the group; it must then return soon. Returning nil ends that part alone.
// Go may be called before Wait, and from a part that is still running.
func (g *Group) Go(name string, part func(ctx context.Context) error) {
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		err := ErrExited // stands when part neither returns nor panics
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			g.ended(name, err)
		}()
		err = part(g.ctx)
	}()
}

// Stop ends the group without a failure. It does not wait.
func (g *Group) Stop() { g.cancel() }

// Wait returns when every part has returned: with the first failure, named after its part, or nil. The end of the
// context given to New is not a failure.
func (g *Group) Wait() error {
	g.wg.Wait()
	g.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.first
}

// ended keeps the first failure and ends the others. A part that hands back its context's error because the group is
// ending has not failed.
func (g *Group) ended(name string, err error) {
	if err == nil {
		return
	}
	if over := g.ctx.Err(); over != nil && errors.Is(err, over) {
		return
	}
	g.mu.Lock()
	if g.first == nil {
		g.first = fmt.Errorf("%s: %w", name, err)
	}
	g.mu.Unlock()
	g.cancel()
}

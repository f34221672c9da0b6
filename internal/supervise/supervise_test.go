package supervise_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"steerpoint/internal/supervise"
)

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestFirstFailureEndsAll: the first failure is what Wait says, with the part's name; the others end.
func TestFirstFailureEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(t.Context())
		var ended atomic.Int32
		for range 3 {
			g.Go("waiter", func(ctx context.Context) error {
				<-ctx.Done()
				ended.Add(1)
				return errors.New("a later failure")
			})
		}
		synctest.Wait()
		g.Go("reader", func(context.Context) error { return io.ErrUnexpectedEOF })
		err := g.Wait()
		if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "reader: unexpected EOF" {
			t.Fatalf("got %v", err)
		}
		if ended.Load() != 3 {
			t.Fatalf("%d of 3 others ended before Wait returned", ended.Load())
		}
	})
}

// TestEndOfContextIsNoFailure: a stop from outside, or by Stop, is a clean end.
func TestEndOfContextIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := supervise.New(ctx)
	g.Go("a", wait)
	cancel()
	if err := g.Wait(); err != nil {
		t.Fatalf("after cancel: %v", err)
	}
	g = supervise.New(t.Context())
	g.Go("a", wait)
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatalf("after Stop: %v", err)
	}
}

// TestNilEndsOnePart: a part may finish; the group goes on, and a part may start another.
func TestNilEndsOnePart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(t.Context())
		running := true
		g.Go("long", func(ctx context.Context) error {
			<-ctx.Done()
			running = false
			return nil
		})
		g.Go("short", func(context.Context) error {
			g.Go("child", func(context.Context) error { return nil })
			return nil
		})
		synctest.Wait()
		if !running {
			t.Fatal("the end of one part ended another")
		}
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPanicIsAFailure: a panic names its part and shows the stack, and does not end the process.
func TestPanicIsAFailure(t *testing.T) {
	g := supervise.New(t.Context())
	g.Go("other", wait)
	g.Go("scheduler", func(context.Context) error { panicHere(); return nil })
	err := g.Wait()
	var p *supervise.PanicError
	if !errors.As(err, &p) || !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"scheduler: panic: io: read/write on closed pipe", "panicHere"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func panicHere() { panic(io.ErrClosedPipe) }

// TestExitIsAFailure: a part that ends its goroutine is not taken for one that returned nil.
func TestExitIsAFailure(t *testing.T) {
	g := supervise.New(t.Context())
	g.Go("other", wait)
	g.Go("gone", func(context.Context) error { runtime.Goexit(); return nil })
	if err := g.Wait(); !errors.Is(err, supervise.ErrExited) {
		t.Fatalf("got %v", err)
	}
}

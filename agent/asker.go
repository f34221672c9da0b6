package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// maxAsks bounds the questions of one kind that are answered at once: people ask them, not programs.
const maxAsks = 16

// asker answers questions of people beside the stream that they come down, which does not wait for them.
type asker[A any] struct {
	a      *Agent
	places chan struct{} // one for each answer that is worked on
	wg     sync.WaitGroup

	// How it is told of: what the node is, such as point, what it does when all places are taken, and what one question is.
	node, busy, one string
	// send is what brings answers to control by a session.
	send func(s session) sendAnswer[A]
}

// sendAnswer brings the answer of a question to control, or why there is none.
type sendAnswer[A any] func(ctx context.Context, id string, answer A, failure string) error

// question is one of them.
type question[A any] struct {
	id     string
	about  slog.Attr     // what it is about, for the log
	sendIn time.Duration // how long the answer may take to reach control
	answer func(ctx context.Context) (A, error)
}

// ask answers a question, and sends up what came of it: one that finds no place is answered with that.
func (k *asker[A]) ask(ctx context.Context, q question[A]) {
	k.a.metrics.asks.Inc()
	free := true
	select {
	case k.places <- struct{}{}:
	default:
		free = false
	}
	k.wg.Go(func() {
		var answer A
		err := fmt.Errorf("%s %s %s already; ask again in a moment", k.node, k.a.Name(), k.busy)
		if free {
			answer, err = k.once(ctx, q)
			<-k.places
		}
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		s, _ := k.a.link.get()
		ctx, cancel := context.WithTimeout(ctx, q.sendIn)
		defer cancel()
		if err := k.send(s)(ctx, q.id, answer, failure); err != nil && ctx.Err() == nil {
			k.a.heard(err)
			k.a.log.Warn("the answer to a question of people did not reach control", "ask", q.id, q.about, "error", err)
		}
	})
}

// once answers. A fault in it is one answer's, and not the process's.
func (k *asker[A]) once(ctx context.Context, q question[A]) (answer A, err error) {
	defer func() {
		if v := recover(); v != nil {
			k.a.log.Error("a question of people failed inside of this node", "ask", q.id, q.about, "panic", v, "stack", string(debug.Stack()))
			var none A
			answer, err = none, errors.New("the "+k.one+" failed inside of "+k.node+" "+k.a.Name()+"; its log says more")
		}
	}()
	return q.answer(ctx)
}

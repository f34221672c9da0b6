package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steerpoint/control/api"
)

const (
	// watchWrite is how long a watcher may take to read what is sent: one that is slower is dropped, and comes back
	// with Last-Event-ID.
	watchWrite = 10 * time.Second
	// watchIdle is the time between two comments on a quiet stream, so that both ends notice a dead one.
	watchIdle   = 15 * time.Second
	watchBatch  = 256
	maxWatchers = 1000
	// watchesPerToken is for one token of the API: a screen has one, a team's some dozens, and no token shuts out others.
	watchesPerToken = 50
	// watchesForAdmins are the last of maxWatchers, which many tokens together cannot take either.
	watchesForAdmins = 100
)

var typeOfProblem = reflect.TypeFor[api.Problem]()

type watchInput struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"20" doc:"go on after this event"`
	Last        string `query:"last" maxLength:"20" doc:"the same, for clients that cannot set headers"`
	Service     string `query:"service" maxLength:"63" doc:"only of this service" example:"shop"`
}

// watchRoute serves the event stream (server-sent events, https://html.spec.whatwg.org/multipage/server-sent-events.html).
func (c *Control) watchRoute(stop context.Context, a huma.API) {
	op := operation(http.MethodGet, "/watch", "watch", "Events as they happen: switches, verdicts, acks, configuration, overrides, alarms", 0)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Server-sent events; the data of each is an Event",
		Content: map[string]*huma.MediaType{
			"text/event-stream": {Schema: a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Event](), true, "Event")},
		},
	}}
	open := watchers{byToken: map[string]int{}}
	huma.Register(a, op, func(ctx context.Context, in *watchInput) (*huma.StreamResponse, error) {
		last, err := in.from(c.feed.Last())
		if err != nil {
			return nil, asProblem(err)
		}
		who := callerOf(ctx)
		if p := open.enter(who); p != nil {
			return nil, p
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			defer open.leave(who)
			r, w := humago.Unwrap(hc)
			s := &stream{w: w, rc: http.NewResponseController(w), service: in.Service, last: last, patience: c.deps.watchWrite, who: who}
			c.metrics.watchers.Inc()
			defer c.metrics.watchers.Dec()
			// The error is the client's going: nobody to tell.
			_ = c.stream(stop, r.Context(), s)
		}}, nil
	})
}

// watchers counts the streams that are open.
type watchers struct {
	mu      sync.Mutex
	all     int
	byToken map[string]int // of the API, by name
}

// enter takes a place for a stream, or says why the caller gets none.
func (w *watchers) enter(who *caller) *api.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	places := maxWatchers
	if who != nil && who.role < roleAdmin {
		places -= watchesForAdmins
	}
	switch token := who.tokenName(); {
	case token != "" && w.byToken[token] >= watchesPerToken:
		return problem(http.StatusTooManyRequests, api.CodeTooMany, "Too many watches of one token",
			fmt.Sprintf("token %s has %d watches open, which is as many as one may: close some, or have an admin make another token", token, watchesPerToken))
	case w.all >= places:
		return problem(http.StatusServiceUnavailable, api.CodeTooMany, "Too many watchers", fmt.Sprintf("%d watch already: close some", w.all))
	case token != "":
		w.byToken[token]++
	}
	w.all++
	return nil
}

// leave gives the place back.
func (w *watchers) leave(who *caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if token := who.tokenName(); token != "" {
		if w.byToken[token]--; w.byToken[token] == 0 {
			delete(w.byToken, token)
		}
	}
}

func (in *watchInput) from(newest uint64) (uint64, error) {
	text := in.LastEventID
	if text == "" {
		text = in.Last
	}
	if text == "" {
		return newest, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, badRequest("header.Last-Event-ID", "%q is not the ID of an event", text)
	}
	return n, nil
}

// stream is one watcher.
type stream struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	service  string
	last     uint64
	patience time.Duration
	who      *caller
}

// stream sends events until the client or the server goes.
func (c *Control) stream(stop, client context.Context, s *stream) error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that know it do not hold events back
	// The read deadline of a request would end the stream: from here on the client's silence is normal.
	if err := s.rc.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := s.send(func() error { _, err := io.WriteString(s.w, "retry: 1000\n: steer\n\n"); return err }); err != nil {
		return err
	}
	idle := time.NewTimer(watchIdle)
	defer idle.Stop()
	for {
		events, lost, news := c.feed.After(s.last, watchBatch)
		if lost > 0 {
			id := c.feed.Last()
			if len(events) > 0 {
				id = events[0].ID - 1
			}
			events = append([]api.Event{{
				ID: id, Time: c.clock.Moment().Wall.UTC(), Kind: api.EventGap, Code: api.CodeWatchGap,
				Message: "events are lost: read status and switches for what is so now",
			}}, events...)
		}
		if len(events) > 0 {
			if err := s.send(func() error { return s.write(events) }); err != nil {
				return err
			}
			s.last = events[len(events)-1].ID
			continue
		}
		idle.Reset(watchIdle)
		select {
		case <-news:
		case <-idle.C:
			if err := s.send(func() error { _, err := io.WriteString(s.w, ":\n\n"); return err }); err != nil {
				return err
			}
		case <-client.Done():
			return client.Err()
		case <-stop.Done():
			return nil
		}
	}
}

// send does one write under its deadline and flushes it.
func (s *stream) send(write func() error) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := write(); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := s.rc.Flush(); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

func (s *stream) write(events []api.Event) error {
	for i := range events {
		e := &events[i]
		if s.service != "" && e.Service != "" && e.Service != s.service {
			continue
		}
		if !s.who.hears(e) {
			continue
		}
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Kind, b); err != nil {
			return err
		}
	}
	return nil
}

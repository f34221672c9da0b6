package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steerpoint/cmd/steer/internal/render"
	"steerpoint/control/api"
)

// topEvery is the time between two frames; an event makes the next one come at once, topRest after the last at the soonest.
const (
	topEvery = time.Second
	topRest  = 200 * time.Millisecond
)

const (
	// topPatience is how long an answer may take: a server that hangs is asked again, and goes on when it does.
	topPatience = 5 * time.Second
	// topStale is the age from which a frame says how old it is: above a turn of topEvery on a slow line.
	topStale = 3 * time.Second
)

// topLimit is how many switches are asked for.
const topLimit = 50

func (a *app) topCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Watch rules, edges, latency, availability and the last switches, redrawn every second",
		Long: `Watch rules, edges, latency, availability and the last switches, and gateways with their origins where there are any,
redrawn every second and at every event. Keys: q quits, s sorts by name, availability, latency or last switch, arrows and page keys scroll. Where the output is not a terminal, one
frame is printed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			first, err := topAsk(cmd.Context(), c)
			if err != nil {
				return err
			}
			in, inOK := a.in.(*os.File)
			out, outOK := a.out.(*os.File)
			if a.output != "" {
				return a.encode(struct {
					Status   api.Status   `json:"status"`
					Switches []api.Switch `json:"switches"`
				}{first.Status, first.Switches})
			}
			if !inOK || !outOK || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
				lines, _ := render.Top(a.painter(), first)
				_, err := fmt.Fprintln(a.out, strings.Join(lines, "\n"))
				return err
			}
			return a.top(cmd.Context(), c, first, in, out)
		},
	}
}

// topAsk gets what a frame is made of.
func topAsk(ctx context.Context, c *api.Client) (*render.TopView, error) {
	s, err := c.Status(ctx, api.StatusParams{})
	if err != nil {
		return nil, err
	}
	sw, err := c.Switches(ctx, api.SwitchesParams{Since: api.TimeParam(s.Now.Add(-24 * time.Hour)), Limit: topLimit})
	if err != nil {
		return nil, err
	}
	return &render.TopView{Status: s, Switches: sw.Switches}, nil
}

// top draws until q, the end of ctx, or a failure of the terminal. The terminal is as before when it returns, or panics.
func (a *app) top(ctx context.Context, c *api.Client, view *render.TopView, in, out *os.File) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal went away: no reason to leave it as it is
	t := &topScreen{in: in, out: out}
	if err := t.enter(); err != nil {
		cancel()
		return err
	}
	var parts sync.WaitGroup
	defer func() {
		cancel()
		t.leave()
		parts.Wait()
	}()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)

	keys, events, frames, failed := make(chan topKey, 16), make(chan struct{}, 1), make(chan topFrame, 1), make(chan error, 3)
	t.start(&parts, failed, func() error { return t.keys(ctx, keys) })
	t.start(&parts, failed, func() error { return topEvents(ctx, c, events) })
	t.start(&parts, failed, func() error { return topFrames(ctx, c, events, frames) })

	view.Keys = true
	fresh := time.Now()
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		if view.Stale = time.Since(fresh); view.Stale < topStale {
			view.Stale = 0
		}
		if err := t.draw(a, view); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case f := <-frames:
			view.Trouble = f.trouble
			if f.view != nil {
				view.Status, view.Switches, fresh = f.view.Status, f.view.Switches, time.Now()
			}
		case k := <-keys:
			if k == keyQuit {
				return nil
			}
			t.press(view, k)
		case <-resized: // the next frame has the new size
		case <-tick.C: // a server that hangs sends no frames, which has to be seen
		}
	}
}

// topFrame is news for the view, or why there is none.
type topFrame struct {
	view    *render.TopView
	trouble string
}

// topFrames asks for news every second, and at once when something happens.
func topFrames(ctx context.Context, c *api.Client, events <-chan struct{}, frames chan<- topFrame) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(topEvery):
		case <-events:
		}
		var f topFrame
		var err error
		ask, cancel := context.WithTimeout(ctx, topPatience)
		if f.view, err = topAsk(ask, c); err != nil {
			f.trouble = err.Error()
		}
		cancel()
		select {
		case frames <- f:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(topRest):
		case <-ctx.Done():
			return nil
		}
	}
}

// topEvents says when something happens. Without a stream there are still the frames of every second.
func topEvents(ctx context.Context, c *api.Client, events chan<- struct{}) error {
	var last uint64
	for ctx.Err() == nil {
		next, err := c.Watch(ctx, "", last, func(api.Event) error {
			select {
			case events <- struct{}{}:
			default:
			}
			return nil
		})
		if last = next; err != nil && !errors.Is(err, api.ErrUnreachable) {
			last = 0
		}
		select {
		case <-time.After(rewatch):
		case <-ctx.Done():
		}
	}
	return nil
}

// topKey is what a key asks for.
type topKey uint8

const (
	keyQuit topKey = iota + 1
	keySort
	keyUp
	keyDown
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
)

// topKeys are the bytes that terminals send.
var topKeys = map[string]topKey{
	"q": keyQuit, "Q": keyQuit, "\x03": keyQuit, "\x04": keyQuit, // Ctrl-C and Ctrl-D are bytes in raw mode
	"s": keySort, "S": keySort,
	"\x1b[A": keyUp, "\x1bOA": keyUp, "k": keyUp, "\x1b[B": keyDown, "\x1bOB": keyDown, "j": keyDown,
	"\x1b[5~": keyPageUp, "\x1b[6~": keyPageDown, " ": keyPageDown,
	"\x1b[H": keyHome, "\x1b[1~": keyHome, "\x1bOH": keyHome, "\x1b[F": keyEnd, "\x1b[4~": keyEnd, "\x1bOF": keyEnd,
}

// parseKeys splits what was read into keys; what is none is left out, a whole sequence at once: F2 ends in a Q.
func parseKeys(s string) (keys []topKey) {
	for s != "" {
		n := sequence(s)
		for seq, k := range topKeys {
			if strings.HasPrefix(s, seq) {
				n = len(seq)
				keys = append(keys, k)
				break
			}
		}
		s = s[n:]
	}
	return keys
}

// sequence is how many bytes of s one press of a key sent (ECMA-48, section 5.4, and xterm's ESC O x).
func sequence(s string) int {
	if len(s) < 2 || s[0] != 0x1b || s[1] < ' ' { // another begins with ESC, and Ctrl-C stays what it is
		return 1
	}
	from := 2
	switch {
	case s[1] == 'O':
		return min(3, len(s))
	case s[1] != '[':
		return 2 // a key with Alt
	case len(s) > 2 && s[2] == '[':
		from = 3 // F1 to F5 of the Linux console are ESC [ [ x
	}
	for i := from; i < len(s); i++ {
		switch {
		case s[i] >= 0x40 && s[i] <= 0x7e:
			return i + 1
		case s[i] < ' ': // it was cut off
			return i
		}
	}
	return len(s)
}

// topScreen is the terminal.
type topScreen struct {
	in, out *os.File
	before  *term.State
	once    sync.Once
	most    int // how far the last frame could be scrolled
	page    int
}

// enter takes the terminal: raw, alternate screen, no cursor.
func (t *topScreen) enter() error {
	var err error
	if t.before, err = term.MakeRaw(int(t.in.Fd())); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	if _, err := t.out.WriteString("\x1b[?1049h\x1b[?25l"); err != nil {
		t.leave()
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// leave gives the terminal back as it was. A terminal that takes nothing any more needs nothing any more.
func (t *topScreen) leave() {
	t.once.Do(func() {
		_, _ = t.out.WriteString("\x1b[0m\x1b[?25h\x1b[?1049l")
		_ = term.Restore(int(t.in.Fd()), t.before)
	})
}

// start runs a part. When it panics the terminal is given back first: the stack would be lost on the other screen.
func (t *topScreen) start(parts *sync.WaitGroup, failed chan<- error, part func() error) {
	parts.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				t.leave()
				failed <- fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		if err := part(); err != nil {
			failed <- err
		}
	})
}

// keyWait is how long a read of a key waits before it is looked whether the command has ended.
const keyWait = 100 * time.Millisecond

// keys reads keys until ctx ends.
func (t *topScreen) keys(ctx context.Context, keys chan<- topKey) error {
	buf := make([]byte, 64)
	for ctx.Err() == nil {
		ready, err := readable(t.in, keyWait)
		if err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		if !ready {
			continue
		}
		n, err := t.in.Read(buf)
		if err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		for _, k := range parseKeys(string(buf[:n])) {
			select {
			case keys <- k:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// draw writes one frame over the one before.
func (t *topScreen) draw(a *app, v *render.TopView) error {
	w, h, err := term.GetSize(int(t.out.Fd()))
	if err != nil || w < 1 || h < 1 {
		w, h = 80, 24
	}
	v.Width, v.Height = w, h
	lines, most := render.Top(a.painter(), v)
	t.most, t.page = most, max(h/2, 1)
	v.Scroll = min(v.Scroll, most)
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(l + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	if _, err := t.out.WriteString(b.String()); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

func (t *topScreen) press(v *render.TopView, k topKey) {
	switch k {
	case keySort:
		v.Sort, v.Scroll = v.Sort.Next(), 0
	case keyUp:
		v.Scroll--
	case keyDown:
		v.Scroll++
	case keyPageUp:
		v.Scroll -= t.page
	case keyPageDown:
		v.Scroll += t.page
	case keyHome:
		v.Scroll = 0
	case keyEnd:
		v.Scroll = t.most
	}
	v.Scroll = min(max(v.Scroll, 0), t.most)
}

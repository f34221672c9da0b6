package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"steerpoint/internal/atomicfile"
	"steerpoint/wire"
)

// Questions beyond the places are answered at once with that; a place is free again when its answer is there, also after a
// panic, and an answer that cannot be sent in its time is given up.
// Covers: A7, issue6 explain live, issue3 probe now
func TestAsker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, RoleEdge)
		r.member(RoleEdge)
		r.open()
		r.agent.link.set(r.control.connect(wire.ClientConfig{}))
		sent := make(chan string, 8)
		k := &asker[int]{
			a: r.agent, places: make(chan struct{}, 1), node: "gateway", busy: "does 1 thing", one: "thing",
			send: func(session) sendAnswer[int] {
				return func(ctx context.Context, id string, answer int, failure string) error {
					if id == "stuck" {
						<-ctx.Done()
						return ctx.Err()
					}
					sent <- fmt.Sprint(id, " ", answer, " ", failure)
					if id == "lost" {
						return errAway
					}
					return nil
				}
			},
		}
		ask := func(id string, answer func(context.Context) (int, error)) {
			k.ask(t.Context(), question[int]{id: id, about: slog.String("url", "u"), sendIn: time.Second, answer: answer})
			after(0)
		}
		release := make(chan struct{})
		ask("slow", func(context.Context) (int, error) { <-release; return 1, nil })
		ask("second", func(context.Context) (int, error) { return 2, nil })
		close(release)
		after(0)
		ask("panic", func(context.Context) (int, error) { panic("oh") })
		ask("error", func(context.Context) (int, error) { return 0, errors.New("no") })
		ask("lost", func(context.Context) (int, error) { return 3, nil })
		start := time.Now()
		ask("stuck", func(context.Context) (int, error) { return 4, nil })
		ask("last", func(context.Context) (int, error) { return 5, nil }) // it has the place while the other is still sent
		k.wg.Wait()
		if d := time.Since(start); d != time.Second {
			t.Errorf("an answer that cannot be sent was given up after %v", d)
		}
		close(sent)
		var got []string
		for s := range sent {
			got = append(got, s)
		}
		want := []string{
			"second 0 gateway tokyo does 1 thing already; ask again in a moment", "slow 1 ",
			"panic 0 the thing failed inside of gateway tokyo; its log says more", "error 0 no", "lost 3 ", "last 5 ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
		if n := r.logged("did not reach control"); n != 1 { // of the one that is stuck nobody waits for the answer
			t.Errorf("told %d times of one that did not reach control:\n%s", n, r.log)
		}
		r.agent.link.close()
	})
}

// What is on disk is used when it is whole, of this kind and version, and what it should be; what is damaged is set aside, what
// is of a newer program is left, and either is told of with its file.
// Covers: A2, issue3 disk
func TestDiskFile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := diskFile{file: "x.list", kind: "list", version: 1, holds: "list", damaged: "the list is bad", unusable: "the list is of no use"}
		for _, tt := range []struct {
			name, kind, text string
			version          int
			whole            error
			ok               bool
			told             string // "": nothing
		}{
			{"whole", "list", "[1,2]", 1, nil, true, ""},
			{"none", "", "", 0, nil, false, ""},
			{"of another kind", "other", "[1,2]", 1, nil, false, "the list is bad"},
			{"no JSON", "list", "[1,", 1, nil, false, "it is whole but holds no list"},
			{"not what it should be", "list", "[1]", 1, errors.New("one is missing"), false, "one is missing"},
			{"of a newer program", "list", "[1,2]", 2, nil, false, "the list is of no use"},
		} {
			r := newRig(t, RoleEdge)
			r.open()
			path := r.agent.store.path(d.file)
			if tt.kind != "" {
				if err := atomicfile.Write(path, tt.kind, tt.version, []byte(tt.text)); err != nil {
					t.Fatal(err)
				}
			}
			var list []int
			ok := d.load(r.agent, &list, func() error { return tt.whole })
			if ok != tt.ok || ok && !slices.Equal(list, []int{1, 2}) {
				t.Errorf("%s: %v, %v", tt.name, ok, list)
			}
			lines := r.logged("level=ERROR")
			if tt.told == "" && lines != 0 || tt.told != "" && (lines != 1 || r.logged(tt.told) != 1 || r.logged(d.file) == 0) {
				t.Errorf("%s: the log says\n%s", tt.name, r.log)
			}
			if aside := r.logged("movedTo=" + path); (aside == 1) != (tt.told != "" && tt.version <= d.version) {
				t.Errorf("%s: set aside %d times:\n%s", tt.name, aside, r.log)
			}
		}
	})
}

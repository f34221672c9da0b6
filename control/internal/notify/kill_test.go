package notify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// childFolder names the folder to a copy of this test binary that plays the process to be killed; childURL where it posts.
const (
	childFolder = "STEER_NOTIFY_CHILD"
	childURL    = "STEER_NOTIFY_URL"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		if err := child(dir, os.Getenv(childURL)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func childHub(dir, url string) (*Hub, error) {
	h, err := New(Config{
		Folder: filepath.Join(dir, "notify"), Floor: func() string { return "" }, Failing: func(string, bool, string) {}, AllowLocal: true,
		Timing: quick, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		h.Configure([]Target{{Name: "a", Type: typeWebhook, URL: url, On: []string{KindSwitch, KindVerdict}, Language: "en"}})
	}
	return h, err
}

// child takes switches and verdicts as fast as it can, and says which ones it took.
func child(dir, url string) error {
	h, err := childHub(dir, url)
	if err != nil {
		return err
	}
	go h.Run(context.Background())
	round := time.Now().UnixNano()
	for n := 0; ; n++ {
		s, v := switched(n), verdict(n, fmt.Sprint("r", n%3), "down")
		s.ID, v.ID = fmt.Sprintf("switch-%016x-%d", round, n), fmt.Sprintf("verdict-%d-%d", round, n)
		h.Take([]Event{s, v})
		fmt.Printf("%s\n%s\n", s.ID, v.ID)
		time.Sleep(rand.N(3 * time.Millisecond)) // a life of single messages and of digests
	}
}

// ledger is a receiver that fails now and then, and notes what it said yes to.
type ledger struct {
	mu   sync.Mutex
	seen map[string]map[string]int // message IDs that told an event, with how often
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var b struct {
		ID     string
		Count  int
		Events []Event
	}
	if err != nil || json.Unmarshal(body, &b) != nil || rand.N(10) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := []string{fmt.Sprintf("%s counts %d", b.ID, b.Count)}
	for i := range b.Events {
		ids = append(ids, b.Events[i].ID)
	}
	for _, id := range ids {
		if l.seen[id] == nil {
			l.seen[id] = map[string]int{}
		}
		l.seen[id][b.ID]++
	}
}

// TestKill kills a process while it takes and delivers, again and again: what it said it took is told at least once, and
// what is told twice is the same message under the same ID. STEER_LONG=1 makes it 30 times.
//
// Covers: issue4 notifications, issue4 kill9
func TestKill(t *testing.T) {
	rounds := 4
	if os.Getenv("STEER_LONG") != "" {
		rounds = 30
	}
	l := &ledger{seen: map[string]map[string]int{}}
	srv := httptest.NewServer(l)
	defer srv.Close()
	dir := t.TempDir()
	var took []string
	for range rounds {
		took = append(took, killed(t, dir, srv.URL)...)
	}
	h, err := childHub(dir, srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.Run(ctx) }()
	await(t, "everything is told", func() bool { return h.Status()[0].Queue == 0 })
	cancel()
	<-ended
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, twice, digests := 0, 0, 0
	for _, id := range took {
		switch told := l.seen[id]; {
		case len(told) > 1:
			t.Errorf("event %s is in several messages: %v", id, told)
		case len(told) == 0:
			lost++ // not listed: in a digest of more than are listed
		}
	}
	for id, told := range l.seen {
		for message, n := range told {
			if id == message && n > 1 {
				twice++
			}
		}
		var of string
		var count int
		if n, err := fmt.Sscanf(id, "%s counts %d", &of, &count); err == nil && n == 2 && count > maxEvents {
			digests += count - maxEvents
		}
	}
	if h.Status()[0].Lost != 0 || lost > digests {
		t.Errorf("%d of %d events were told nobody; digests tell %d that they do not list", lost, len(took), digests)
	}
	t.Logf("%d rounds: %d events, %d only counted in digests, %d told twice", rounds, len(took), lost, twice)
}

// killed runs a child for a moment, kills it, and gives what it said it took.
func killed(t *testing.T, dir, url string) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFolder+"="+dir, childURL+"="+url)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var took []string
	sc := bufio.NewScanner(out)
	end := 40 + rand.N(80)
	for sc.Scan() {
		took = append(took, sc.Text())
		if len(took) == end { // it goes on writing while it is killed
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the child ended by itself: %v %v", err, took)
	}
	return took
}

package control

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/api"
	"steerpoint/control/internal/roster"
	"steerpoint/internal/pki"
	"steerpoint/snapshot"
)

// childFolder names the data folder to a copy of this test binary that plays the process to be killed.
const childFolder = "STEER_CONTROL_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// says prints what was acknowledged and published, one line each, unbuffered: after a kill the last whole line counts.
type says struct{}

func (says) PublishDNS(d *snapshot.DNS) error {
	for _, s := range d.Services {
		for _, r := range s.Rules {
			if r.Rule == "default" {
				fmt.Printf("published %d\n", r.Decision)
			}
		}
	}
	return nil
}

func (says) PublishProbe(*snapshot.Probe) error { return nil }

// child runs control and writes as fast as it can: resources, and forces that switch.
func child(dir string) error {
	ctx := context.Background()
	if n := os.Getenv(childRotation); n != "" {
		return childRotates(ctx, dir, n)
	}
	if text := os.Getenv(childOrder); text != "" {
		return childOrders(ctx, dir, text)
	}
	if file := os.Getenv(childBackup); file != "" {
		return childRestores(ctx, file, dir)
	}
	c, err := New(ctx, Config{Data: dir, Listen: "127.0.0.1:0", SaveEvery: 20 * time.Millisecond}, Deps{
		Publisher: says{}, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	edges := []string{"east", "west", "south"}
	for n := 1; ; n++ {
		text := strings.Replace(shopYAML, "name: shop\n", fmt.Sprintf("name: shop\nlabels: {n: %q}\n", fmt.Sprint(n)), 1)
		p, err := c.Apply(ctx, "child", request(zoneYAML, text))
		if err != nil {
			return err
		}
		fmt.Printf("applied %d %d\n", n, p.Revision)
		f, err := c.force(ctx, "child", &api.ForceRequest{Rule: "shop/default", Edge: edges[n%3], Reason: "crash test"})
		if err != nil {
			return err
		}
		fmt.Printf("forced %s %d\n", edges[n%3], f.Revision)
		name, err := childJoins(ctx, c)
		if err != nil {
			return err
		}
		fmt.Printf("joined %s\n", name)
		select {
		case err := <-ended:
			return err
		default:
		}
	}
}

// childJoins makes a node of a name that was never there.
func childJoins(ctx context.Context, c *Control) (string, error) {
	t, err := c.createToken(ctx, "child", &api.TokenRequest{Roles: []string{roster.RoleDNS}})
	if err != nil {
		return "", err
	}
	key, _, err := pki.NewKey()
	if err != nil {
		return "", err
	}
	request, err := pki.Request(key, "x")
	if err != nil {
		return "", err
	}
	cred, err := c.Join(ctx, pki.Application{Token: t.Token, Name: "n-" + t.View.ID, Request: request})
	return cred.Name, err
}

// acked is what a child said before it was killed.
type acked struct {
	revision  int64
	published uint64
	joined    []string
}

// TestKill kills a process while it writes, again and again: the next one finds everything that was acknowledged and
// decides on from the last published decision. STEER_LONG=1 makes it 100 times, or 10 under the race detector: what is
// asked of them is what the disk holds.
// Covers: issue2 kill9, issue3 kill
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 5
	switch {
	case os.Getenv("STEER_LONG") == "":
	case underRace:
		rounds = 10
	default:
		rounds = 100
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		a := killOne(t, self, dir, time.Duration(rnd.IntN(300))*time.Millisecond)
		c, err := New(t.Context(), Config{Data: dir, Listen: "127.0.0.1:0"}, Deps{
			Publisher: &takes{}, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatalf("round %d: start after a kill: %v", round, err)
		}
		if got := c.applied.get(); got < a.revision {
			t.Errorf("round %d: revision %d was acknowledged, the store has %d", round, a.revision, got)
		}
		raw, err := c.store.Decisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seq := c.readRecords(raw)["shop/default"].State.Seq
		v, ok := c.engine.View(c.clock.Now(), "shop/default")
		if seq < a.published || (a.published > 0 && (!ok || v.Decision.Seq < seq)) {
			t.Errorf("round %d: decision %d was published, recorded is %d, restored is %+v", round, a.published, seq, v.Decision)
		}
		checkLog(t, c, seq)
		checkNodes(t, c, a.joined)
		if err := c.Close(); err != nil {
			t.Errorf("round %d: close: %v", round, err)
		}
	}
}

// checkLog proves that the switch log tells of the newest recorded decision.
func checkLog(t *testing.T, c *Control, seq uint64) {
	t.Helper()
	page, err := c.switchLog(t.Context(), &switchesInput{PageInput: PageInput{Limit: 10}})
	if err != nil {
		t.Fatal(err)
	}
	if seq > 1 && (len(page.Body.Switches) == 0 || page.Body.Switches[0].Sequence != seq) {
		t.Errorf("decision %d is in force, the newest log entry is %+v", seq, page.Body.Switches)
	}
}

// checkNodes proves that every acknowledged join is known, and that a token is used exactly when its node is.
func checkNodes(t *testing.T, c *Control, joined []string) {
	t.Helper()
	for _, name := range joined {
		if _, ok := c.roster.Node(name); !ok {
			t.Errorf("node %s got its certificate and is not known", name)
		}
	}
	for _, token := range c.roster.Tokens() {
		n, known := c.roster.Node("n-" + token.ID)
		if known != !token.Used.IsZero() || known && (token.Node != n.Name || n.Token != token.ID) {
			t.Errorf("token %+v, node known: %v %+v", token, known, n)
		}
	}
}

// killOne runs a child until it has written something and a random time has passed, then kills it.
func killOne(t *testing.T, self, dir string, after time.Duration) acked {
	t.Helper()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childFolder+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var a acked
	armed := false
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		var rev int64
		var seq uint64
		var word, name string
		switch line := sc.Text(); {
		case strings.HasPrefix(line, "error"):
			t.Errorf("child: %s", line)
		case scan(line, "joined %s", &name):
			a.joined = append(a.joined, name)
		case scan(line, "published %d", &seq):
			a.published = max(a.published, seq)
		case scan(line, "applied %s %d", &word, &rev), scan(line, "forced %s %d", &word, &rev):
			a.revision = max(a.revision, rev)
			if !armed {
				armed = true
				time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			}
		}
	}
	_ = cmd.Wait() // it was killed: the error says so
	if !armed {
		t.Fatal("the child wrote nothing")
	}
	return a
}

func scan(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

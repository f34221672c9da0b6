package control

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/roster"
	"steerpoint/control/internal/store"
	"steerpoint/internal/atomicfile"
	"steerpoint/snapshot"
	"steerpoint/spec"
	"steerpoint/steering"
)

// recordFormat is the version of a decision record's layout.
const recordFormat = 1

// record is a rule's decision record in the store: everything the rule knows at the time of its newest verdict or
// decision, so that a process killed right after loses nothing.
type record struct {
	Format int            `json:"format"`
	Moment moment.Moment  `json:"moment"`
	State  steering.State `json:"state"`
	Switch string         `json:"switch,omitempty"` // the switch-log entry the rule stands on
}

// The snapshot on disk of what all rules know. It is newer than the records in what was learnt since, but the records
// say what was decided.
const (
	stateKind   = "core-state"
	stateFormat = 1
)

type diskState struct {
	Moment moment.Moment
	States []steering.State
	Map    uint64 // version of the newest map; 0: an older program wrote this
}

// saver writes the snapshot on disk.
type saver struct {
	path string
	mu   sync.Mutex // one write at a time
}

func (s *saver) save(d diskState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(d); err != nil {
		return fmt.Errorf("core state: %w", err)
	}
	return atomicfile.Write(s.path, stateKind, stateFormat, b.Bytes())
}

// load reads the snapshot. A damaged one is set aside and named; the records in the store go on without it.
func (s *saver) load() (d diskState, setAside string, err error) {
	_, payload, err := atomicfile.Read(s.path, stateKind, stateFormat)
	if errors.Is(err, fs.ErrNotExist) {
		return d, "", nil
	}
	if err == nil {
		if err = gob.NewDecoder(bytes.NewReader(payload)).Decode(&d); err == nil {
			return d, "", nil
		}
		err = fmt.Errorf("%s: %w", s.path, err)
	}
	if errors.Is(err, atomicfile.ErrNewer) {
		return diskState{}, "", err
	}
	aside, moveErr := atomicfile.SetAside(s.path)
	if moveErr != nil {
		return diskState{}, "", errors.Join(err, moveErr)
	}
	return diskState{}, aside, err
}

// restore reads everything stored and makes the rules go on from there.
func (c *Control) restore(ctx context.Context) error {
	view, err := c.store.Resources(ctx)
	if err != nil {
		return err
	}
	raw, err := c.store.Decisions(ctx)
	if err != nil {
		return err
	}
	disk, aside, err := c.saver.load()
	if errors.Is(err, atomicfile.ErrNewer) {
		return err
	}
	if err != nil {
		c.log.Error("what the core had learnt since the last decisions is lost: its file is damaged", "file", c.saver.path, "setAside", aside, "error", err)
	}
	records := c.readRecords(raw)
	past := []moment.Moment{disk.Moment}
	for _, r := range records {
		past = append(past, r.Moment)
	}
	c.clock = moment.NewClock(moment.BootID(), c.deps.machine, past)
	now := c.clock.Moment()
	c.started = now.Wall.UTC()
	saved := merge(records, disk)
	if err := c.restoreNodes(ctx, now.At); err != nil {
		return err
	}
	first, err := c.startVersions(ctx, disk.Map)
	if err != nil {
		return err
	}
	c.engine.StartVersions(first << probeVersionBits)
	c.resources.replace(view, c.unreadable)
	outcomes, errs := c.engine.Restore(now.At, now.Wall, c.resources.set(), c.resources.overrides(c.clock), saved)
	for _, err := range errs {
		c.log.Error("saved state refused", "error", err)
	}
	for rule, r := range records {
		if r.Switch != "" {
			c.current[rule] = r.Switch
		}
	}
	c.applied.set(view.Revision)
	c.firstViews(now, saved, outcomes)
	c.keepUnread(saved)
	c.dropRecords(raw)
	c.take(now, outcomes)
	c.queue.config(c.published())
	c.keepTape(c.clock.Moment(), true)
	c.openSecrets()
	c.openCookies(ctx)
	c.openShared(ctx)
	c.news.configure(c.engine.Set())
	return nil
}

// startVersions begins with map versions that were never given out. newest is the newest one known from elsewhere.
func (c *Control) startVersions(ctx context.Context, newest uint64) (uint64, error) {
	first, err := c.store.ReserveVersions(ctx, versionBlock)
	reserved := uint64(versionBlock)
	if errors.Is(err, store.ErrFull) {
		// It reads, decides and answers; the publisher reserves as soon as there is room. Maps since the last save of
		// what the core knows may have had versions above the newest one known.
		first, err = c.store.NextVersion(ctx)
		first, reserved = max(first, newest+versionBlock), 0
	}
	if err != nil {
		return 0, err
	}
	c.answers.start(first, reserved, c.deps.Previous)
	c.deps.Previous = nil // not to be kept beside the maps that follow it
	return first, nil
}

// probeVersionBits is how many versions of probe snapshots there are to a map version: a process takes a block of map
// versions when it starts, and counts probe snapshots from there.
const probeVersionBits = 20

// restoreNodes reads tokens and nodes, and makes nodes the points they are.
func (c *Control) restoreNodes(ctx context.Context, now steering.Instant) error {
	local := c.cfg.Node
	if c.deps.NoNameServer {
		local = ""
	}
	c.roster = roster.New(now, local)
	if err := c.loadEnrolled(ctx); err != nil {
		return err
	}
	c.engine.SetPoints(now, c.points(now))
	return nil
}

// firstViews gives the publisher what was decided before the restart. A rule whose decision changes with the restart
// follows when that is committed.
func (c *Control) firstViews(now moment.Moment, saved map[string]steering.State, outcomes []engineOutcome) {
	changing := map[string]bool{}
	for i := range outcomes {
		changing[outcomes[i].Rule] = outcomes[i].State != nil
	}
	views := map[string]snapshot.DNSRuleInput{}
	for _, v := range c.engine.Views(now.At, "") {
		if _, known := saved[v.Key]; known && !changing[v.Key] {
			views[v.Key] = snapshot.DNSRuleInput{Decision: v.Decision, Edges: v.Edges}
		}
	}
	c.answers.setViews(views)
}

// keepUnread keeps what is known of rules whose services cannot be read, for the moment at which they can.
func (c *Control) keepUnread(saved map[string]steering.State) {
	kept := map[string]steering.State{}
	for rule, s := range saved {
		if service, _, _ := strings.Cut(rule, "/"); c.resources.unread(service) {
			kept[rule] = s
		}
	}
	c.engine.Keep(kept)
}

// dropKept drops what was kept of services that are gone: one that comes under the same name is another.
func (c *Control) dropKept() {
	for rule := range c.engine.Kept() {
		service, _, _ := strings.Cut(rule, "/")
		if _, stored := c.resources.stored[string(spec.KindService)+"/"+service]; !stored {
			delete(c.engine.Kept(), rule)
			c.queue.add(&work{rule: rule, ended: true})
		}
	}
}

// dropRecords deletes the records of rules that are gone, and gives the rest to nobody: what is stored is in use. A
// service that cannot be read is not gone: the version that can read it goes on from its records.
func (c *Control) dropRecords(raw map[string][]byte) {
	for rule := range raw {
		service, _, _ := strings.Cut(rule, "/")
		if _, ok := c.engine.View(0, rule); !ok && !c.resources.unread(service) {
			c.queue.add(&work{rule: rule, ended: true})
		}
	}
}

func (c *Control) readRecords(raw map[string][]byte) map[string]record {
	records := make(map[string]record, len(raw))
	for rule, b := range raw {
		var r record
		err := json.Unmarshal(b, &r)
		if err == nil && r.Format != recordFormat {
			err = fmt.Errorf("it has format %d: this version reads format %d", r.Format, recordFormat)
		}
		if err != nil {
			c.log.Error("decision record is unreadable: the rule starts anew", "rule", rule, "error", err)
			continue
		}
		records[rule] = r
	}
	return records
}

// merge gives the state of each rule that has a record: the one on disk if it is newer and stands on the same decision.
func merge(records map[string]record, disk diskState) map[string]steering.State {
	out := make(map[string]steering.State, len(records))
	for rule, r := range records {
		out[rule] = r.State
	}
	for _, s := range disk.States {
		if r, ok := out[s.Rule]; ok && s.At >= r.At && s.Seq == r.Seq && s.Current == r.Current && s.Format == r.Format {
			out[s.Rule] = s
		}
	}
	return out
}

// saveState writes what every rule knows now.
func (c *Control) saveState(ctx context.Context) error {
	var d diskState
	if err := c.do(ctx, func() { d = c.coreState() }); err != nil {
		return err
	}
	return c.saver.save(d)
}

func (c *Control) coreState() diskState {
	m := c.clock.Moment()
	return diskState{m, c.engine.States(m.At), c.answers.newest()}
}

// stopped saves once more after the loop has ended; then the engine is nobody's.
func (c *Control) stopped() {
	if err := c.saver.save(c.coreState()); err != nil {
		c.log.Error("what the core has learnt since the last save is lost", "error", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c.commitOnce(ctx)
	c.keepAPITokens(ctx, 0)
}

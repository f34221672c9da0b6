package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func openBox(t *testing.T, path string) (*outbox, error) {
	t.Helper()
	o, problem, err := openOutbox(path, "floor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	return o, problem
}

func taken(n uint64) record {
	return record{Take: &item{Seq: n, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Event: switched(int(n))}}
}

// steps are one of each, as a life writes them.
func steps() []record {
	return []record{
		taken(1), taken(2), taken(3),
		{Pub: &pubRecord{2, Publication{Seconds: 1}}},
		{Form: &formed{ID: "m1", Kind: KindSwitch, Seqs: []uint64{1}}},
		{Done: "m1"},
		{Drop: []uint64{2}},
		{Form: &formed{ID: "m2", Kind: KindSwitch, Seqs: []uint64{3}, Lost: 1}},
		{Lost: 4},
		{Take: &item{Seq: 4, Event: alarmed(1, "x", true)}},
		{Gone: "m2"},
		{Form: &formed{ID: "m3", Kind: KindAlarm, Seqs: []uint64{4}, Lost: 5}},
	}
}

// TestOutboxReopened: after every step a reopened outbox knows what the one before knew, from its journal and from a
// snapshot alike.
//
// Covers: issue4 notifications
func TestOutboxReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.outbox")
	o, problem := openBox(t, path)
	for i, r := range steps() {
		if err := o.step(r); err != nil || problem != nil {
			t.Fatal(err, problem)
		}
		again, problem := openBox(t, path)
		if problem != nil || !reflect.DeepEqual(normal(t, again.state), normal(t, o.state)) {
			t.Errorf("step %d: %v\n%+v\n%+v", i, problem, again.state, o.state)
		}
		o = again // which has compacted it
	}
	if o.state.Lost != 6 || o.state.Form.ID != "m3" || len(o.state.Queue) != 1 {
		t.Errorf("%+v", o.state)
	}
	o.state.do(&record{N: o.state.N + 1, Done: "m3"})
	if o.state.Lost != 1 || len(o.state.Queue) != 0 {
		t.Errorf("told what was lost, and it is still to be told: %+v", o.state)
	}
}

func normal(t *testing.T, s state) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// journal writes steps and gives the journal's path and text.
func journal(t *testing.T, dir string) (*outbox, string, []byte) {
	t.Helper()
	o, _ := openBox(t, filepath.Join(dir, "a.outbox"))
	if err := o.step(steps()...); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(o.journalPath())
	if err != nil {
		t.Fatal(err)
	}
	return o, o.journalPath(), b
}

// TestOutboxTorn: wherever a kill cuts the journal, the whole lines before count and nothing is called damaged.
//
// Covers: issue4 notifications, issue4 kill9
func TestOutboxTorn(t *testing.T) {
	dir := t.TempDir()
	o, path, whole := journal(t, dir)
	snapshot, err := os.ReadFile(o.path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(whole); cut += 41 {
		for file, b := range map[string][]byte{path: whole[:cut], o.path: snapshot} {
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again, problem := openBox(t, o.path)
		if want := uint64(bytes.Count(whole[:cut], []byte{'\n'})); problem != nil || again.state.N != want {
			t.Fatalf("cut at %d: %v, %d steps of %d", cut, problem, again.state.N, want)
		}
		again.close()
	}
}

// TestOutboxDamaged: damage in the middle is named, the file kept, and what came before it goes on.
//
// Covers: issue4 notifications, issue2 state files
func TestOutboxDamaged(t *testing.T) {
	dir := t.TempDir()
	o, path, whole := journal(t, dir)
	lines := bytes.SplitAfter(whole, []byte{'\n'})
	at := len(lines[0]) + len(lines[1]) + 20
	whole[at] ^= 1
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	again, problem := openBox(t, o.path)
	if problem == nil || !strings.Contains(problem.Error(), "line 3") || again.state.N != 2 || again.state.Lost != 1 {
		t.Errorf("%v: %+v", problem, again.state)
	}
	again.close()
	if err := os.WriteFile(o.path, []byte("this is no snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, problem = openBox(t, o.path)
	if problem == nil || !strings.Contains(problem.Error(), ".damaged-") || len(again.state.Queue) != 0 || again.state.Lost != 1 {
		t.Errorf("%v: %+v", problem, again.state)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, "*.damaged-*")); err != nil || len(aside) != 2 {
		t.Errorf("kept: %v, %v", aside, err)
	}
}

// TestOutboxFullDisk: what cannot be written counts in memory, and is on disk as soon as that goes again.
//
// Covers: issue4 notifications, issue2 disk full
func TestOutboxFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.outbox")
	o, _ := openBox(t, path)
	o.close()
	ro, err := os.Open(os.DevNull) // for reading: writes to it fail as on a full disk
	if err != nil {
		t.Fatal(err)
	}
	o.journal = ro
	if err := o.step(taken(1)); err == nil {
		t.Error("the failed write is not told")
	}
	if err := o.step(taken(2)); err != nil {
		t.Error(err)
	}
	if again, problem := openBox(t, path); problem != nil || len(again.state.Queue) != 2 {
		t.Errorf("%v: %+v", problem, again.state)
	}
}

// TestOutboxBounded: a life of many messages keeps files small, and remembers which switches it took.
//
// Covers: issue4 notifications
func TestOutboxBounded(t *testing.T) {
	dir := t.TempDir()
	o, _ := openBox(t, filepath.Join(dir, "a.outbox"))
	for n := uint64(1); n <= 3*maxKnown; n += 100 {
		var batch []record
		for i := range uint64(100) {
			batch = append(batch, taken(n+i))
		}
		seqs := make([]uint64, 100)
		for i := range seqs {
			seqs[i] = n + uint64(i)
		}
		if err := o.step(append(batch, record{Form: &formed{ID: "m", Seqs: seqs}}, record{Done: "m"})...); err != nil {
			t.Fatal(err)
		}
	}
	var size int64
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > compactAt+(256<<10) || len(o.state.Known) != maxKnown {
		t.Errorf("%d bytes, %d known", size, len(o.state.Known))
	}
	old, last := switched(2*maxKnown+1), switched(3*maxKnown)
	if o.state.wants(&old) || o.state.wants(&last) || o.state.Floor < switched(2*maxKnown).ID {
		t.Errorf("floor %s", o.state.Floor)
	}
}

// FuzzJournal: no journal makes it panic, what was read once reads the same again, and from whatever state comes of it
// messages are made until nothing waits. Input is the JSON of steps, one a line: their sums are added here, so that what
// a sum would stop is tried too.
//
// Covers: issue4 notifications
func FuzzJournal(f *testing.F) {
	var seed []byte
	for i, r := range steps() {
		r.N = uint64(i + 1)
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		seed = append(append(seed, b...), '\n')
	}
	f.Add(seed)
	f.Add(seed[:len(seed)/2])
	f.Add([]byte("{}\nnonsense\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var journal bytes.Buffer
		for line := range bytes.Lines(data) {
			line = bytes.TrimSuffix(line, []byte{'\n'})
			fmt.Fprintf(&journal, "%08x %s\n", crc32.ChecksumIEEE(line), line)
		}
		first, again := state{Alarms: map[string]Event{}}, state{Alarms: map[string]Event{}}
		if a, b := first.replay(bytes.NewReader(journal.Bytes())), again.replay(bytes.NewReader(journal.Bytes())); a != b || normal(t, first) != normal(t, again) {
			t.Errorf("%d %+v\n%d %+v", a, first, b, again)
		}
		now := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
		former := newFormer(Timing{})
		first.finish(false)
		for n := len(first.Queue); n >= 0 && len(first.Queue) > 0; n-- {
			m, _ := former.next(&first, now)
			if m == nil {
				now = now.Add(time.Hour)
				continue
			}
			first.Form = m
			x := (&message{id: m.ID, kind: m.Kind, events: first.events()}).compose()
			if x.title == "" {
				t.Errorf("no text for %+v", m)
			}
			first.finish(true)
		}
	})
}

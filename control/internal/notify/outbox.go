package notify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"steerpoint/internal/atomicfile"
)

// The outbox of a target is two files: a snapshot of its state, and a journal of the steps since. A step is one line,
// its CRC-32 in hex and its JSON. Steps have numbers, so those that a snapshot holds already are passed over: the two
// files need not change at once.
const (
	outboxKind   = "notify-outbox"
	outboxFormat = 1
	// compactAt is the size of a journal, in bytes, at which it becomes a snapshot: reading it takes milliseconds.
	compactAt = 512 << 10
	maxLine   = 64 << 10
)

// outbox keeps a state on disk. One goroutine at a time uses it.
type outbox struct {
	path    string // of the snapshot; the journal is beside it
	journal *os.File
	size    int64
	state   state
}

func (o *outbox) journalPath() string { return o.path + ".log" }

// openOutbox reads an outbox, or begins one for which switches up to the one with ID floor are no news. problem says
// what was damaged; the queue goes on with what could be read.
func openOutbox(path, floor string) (o *outbox, problem, err error) {
	o = &outbox{path: path, state: state{Floor: floor}}
	_, payload, err := atomicfile.Read(path, outboxKind, outboxFormat)
	switch {
	case err == nil:
		if err = json.Unmarshal(payload, &o.state); err != nil {
			return nil, nil, fmt.Errorf("outbox %s: %w", path, err)
		}
	case errors.Is(err, atomicfile.ErrDamaged):
		aside, asideErr := atomicfile.SetAside(path)
		if asideErr != nil {
			return nil, nil, errors.Join(err, asideErr)
		}
		problem = fmt.Errorf("%w; it was set aside as %s", err, aside)
		o.state.Lost++ // how many it held is not known
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	}
	if o.state.Alarms == nil {
		o.state.Alarms = map[string]Event{}
	}
	if err := o.replay(); err != nil {
		problem = errors.Join(problem, err)
	}
	return o, problem, o.compact()
}

// replay does the steps of the journal. A last line that is torn is what a kill leaves; damage before it is an error.
func (o *outbox) replay() error {
	f, err := os.Open(o.journalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("outbox journal: %w", err)
	}
	defer f.Close()
	if line := o.state.replay(f); line > 0 {
		return o.damaged(f, line)
	}
	return nil
}

// replay does the steps of a journal that are newer than the state, up to its end or to a line that is damaged: its
// number, or 0.
func (s *state) replay(from io.Reader) (damaged int) {
	r := bufio.NewReaderSize(from, maxLine)
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return 0 // nothing, or a torn line
		}
		if err != nil {
			return n
		}
		step, ok := parseStep(line[:len(line)-1])
		if !ok {
			return n
		}
		if step.N > s.N {
			s.do(step)
		}
	}
}

// damaged keeps a journal that cannot be read to its end beside the new one.
func (o *outbox) damaged(f *os.File, line int) error {
	o.state.Lost++ // how many follow is not known
	aside, err := atomicfile.SetAside(f.Name())
	if err != nil {
		return fmt.Errorf("outbox journal %s is damaged at line %d: %w", f.Name(), line, err)
	}
	return fmt.Errorf("outbox journal is damaged at line %d: it was set aside as %s, and what follows that line is not delivered", line, aside)
}

func parseStep(line []byte) (*record, bool) {
	sum, text, ok := bytes.Cut(line, []byte{' '})
	want, err := strconv.ParseUint(string(sum), 16, 32)
	var r record
	if !ok || err != nil || uint32(want) != crc32.ChecksumIEEE(text) || json.Unmarshal(text, &r) != nil {
		return nil, false
	}
	return &r, true
}

// compact writes the state as a snapshot and begins an empty journal.
func (o *outbox) compact() error {
	payload, err := json.Marshal(&o.state)
	if err != nil {
		return fmt.Errorf("outbox %s: %w", o.path, err)
	}
	if err := atomicfile.Write(o.path, outboxKind, outboxFormat, payload); err != nil {
		return err
	}
	o.close()
	if o.journal, err = os.OpenFile(o.journalPath(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return fmt.Errorf("outbox journal: %w", err)
	}
	o.size = 0
	return nil
}

// step does steps, in memory and on disk; they are on the disk when it returns nil. On an error they count for this
// process only, and the next snapshot has them.
func (o *outbox) step(steps ...record) error {
	var b bytes.Buffer
	for i := range steps {
		steps[i].N = o.state.N + 1
		text, err := json.Marshal(&steps[i])
		if err != nil {
			return fmt.Errorf("outbox step: %w", err)
		}
		fmt.Fprintf(&b, "%08x %s\n", crc32.ChecksumIEEE(text), text)
		o.state.do(&steps[i])
	}
	if len(steps) == 0 {
		return nil
	}
	var err error
	if o.journal == nil || o.size > compactAt {
		err = o.compact()
	} else {
		err = o.append(b.Bytes())
	}
	if err != nil {
		// A torn or missing line would spoil all that follow it: the next step begins anew with a snapshot.
		o.close()
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

func (o *outbox) append(b []byte) error {
	if _, err := o.journal.Write(b); err != nil {
		return err
	}
	o.size += int64(len(b))
	return o.journal.Sync()
}

// close gives up the journal's file. Closing after a failed write may fail again, which tells nothing new.
func (o *outbox) close() {
	if o.journal != nil {
		_ = o.journal.Close()
		o.journal = nil
	}
}

// remove deletes the outbox of a target that is gone.
func (o *outbox) remove() error {
	o.close()
	var errs []error
	for _, path := range []string{o.path, o.journalPath()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("outbox: %w", err))
		}
	}
	return errors.Join(errs...)
}

// outboxPath is where the outbox of a target lies; names of targets are DNS labels.
func outboxPath(dir, name string) string { return filepath.Join(dir, name+".outbox") }

package shelf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"steerpoint/internal/atomicfile"
)

// future is how far after now samples may lie. Were there any later, what is measured now would be refused as too old
// until the clock gets there.
const future = time.Hour

// blockName is the name of a block's folder: a ULID.
var blockName = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)

// repair opens a shelf and sets aside what is damaged.
type repair struct {
	cfg  Config
	now  time.Time
	deep bool // read every chunk of every block
	lost []Lost
}

// Check closes the shelf, reads all of it, and opens it again without what is damaged.
func (s *Shelf) Check(ctx context.Context, now time.Time) (*Shelf, []Lost, error) {
	if err := s.Close(); err != nil {
		s.cfg.Log.Warn("series not closed", "error", err)
	}
	r := &repair{cfg: s.cfg, now: now, deep: true}
	return r.open(ctx)
}

func (r *repair) open(ctx context.Context) (*Shelf, []Lost, error) {
	if err := r.room(); err != nil {
		return nil, nil, err
	}
	if err := r.blocks(ctx); err != nil {
		return nil, r.lost, err
	}
	s, err := r.openLogged()
	if err != nil && !external(err) {
		// The blocks are well, so it is the log or the head's chunks: a few hours.
		if asideErr := r.head("what was measured since the newest block, up to three hours", err); asideErr != nil {
			return nil, r.lost, errors.Join(err, asideErr)
		}
		s, err = r.openLogged()
	}
	if err != nil {
		return nil, r.lost, err
	}
	if late := time.UnixMilli(s.db.Head().MaxTime()); s.db.Head().NumSeries() > 0 && late.After(r.now.Add(future)) {
		err := errors.Join(s.Close(), r.head("what was measured while the clock was wrong", fmt.Errorf("it has a sample of %s, which is still to come", late.UTC().Format(time.RFC3339))))
		if err != nil {
			return nil, r.lost, err
		}
		if s, err = r.openLogged(); err != nil {
			return nil, r.lost, err
		}
	}
	return s, r.lost, nil
}

// room makes sure that a torn log can be mended: the TSDB rewrites the segment that is torn, and what does not fit is lost.
// A full disk is what tears logs.
func (r *repair) room() error {
	need := int64(1 << 20)
	segments, err := filepath.Glob(filepath.Join(r.cfg.Dir, "w[ab]l", "*"))
	if err != nil {
		return fmt.Errorf("series: %w", err)
	}
	for _, s := range segments {
		if info, err := os.Stat(s); err == nil && info.Mode().IsRegular() {
			need = max(need, info.Size()+1<<20)
		}
	}
	path := filepath.Join(r.cfg.Dir, "room.tmp")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("series: %w", err)
	}
	block := make([]byte, 1<<16)
	for n := int64(0); n < need && err == nil; n += int64(len(block)) {
		_, err = f.Write(block)
	}
	if err = errors.Join(err, f.Close(), os.Remove(path)); err != nil {
		return fmt.Errorf("series: there is no room to open them: %w", err)
	}
	return nil
}

// head sets aside what is in no block.
func (r *repair) head(what string, why error) error {
	for _, path := range headParts(r.cfg.Dir) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := r.setAside(path, what, why); err != nil {
			return err
		}
	}
	return nil
}

func (r *repair) setAside(path, what string, why error) error {
	aside, err := atomicfile.SetAside(path)
	if err != nil {
		return fmt.Errorf("series: %w", err)
	}
	r.lost = append(r.lost, Lost{What: what, Path: aside, Err: why})
	return nil
}

// blocks looks at every block, and sets aside those that cannot be read.
func (r *repair) blocks(ctx context.Context) error {
	entries, err := os.ReadDir(r.cfg.Dir)
	if err != nil {
		return fmt.Errorf("series: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !blockName.MatchString(e.Name()) {
			continue
		}
		path := filepath.Join(r.cfg.Dir, e.Name())
		from, to, err := r.look(ctx, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && to.After(r.now.Add(future)):
			err = fmt.Errorf("it reaches to %s, which is still to come", to.UTC().Format(time.RFC3339))
		case err == nil:
			continue
		case external(err):
			return fmt.Errorf("series: block %s: %w", e.Name(), err)
		}
		what := "a block of unknown time"
		if !from.IsZero() {
			what = fmt.Sprintf("what was measured from %s to %s", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
		}
		if err := r.setAside(path, what, err); err != nil {
			return err
		}
	}
	return nil
}

// look opens a block and, in a deep repair, reads all of it.
func (r *repair) look(ctx context.Context, path string) (from, to time.Time, err error) {
	b, err := tsdb.OpenBlock(r.cfg.Log, path, nil, nil)
	if err != nil {
		return from, to, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	from, to = time.UnixMilli(b.MinTime()), time.UnixMilli(b.MaxTime())
	if r.deep {
		err = readAll(ctx, b)
	}
	return from, to, err
}

// readAll reads every series and every chunk; both have checksums.
func readAll(ctx context.Context, b *tsdb.Block) (err error) {
	ir, err := b.Index()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ir.Close()) }()
	cr, err := b.Chunks()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cr.Close()) }()
	all := tsdb.AllSortedPostings(ctx, ir)
	var l labels.ScratchBuilder
	var metas []chunks.Meta
	for all.Next() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := ir.Series(all.At(), &l, &metas); err != nil {
			return err
		}
		for _, m := range metas {
			if _, _, err := cr.ChunkOrIterable(m); err != nil {
				return err
			}
		}
	}
	return all.Err()
}

// openLogged opens the TSDB and notes what it mends by itself.
func (r *repair) openLogged() (*Shelf, error) {
	cfg := r.cfg
	heard := &listener{Handler: cfg.Log.Handler()}
	cfg.Log = slog.New(heard)
	s, err := open(cfg)
	if err != nil {
		return nil, err
	}
	if heard.repaired != "" {
		r.lost = append(r.lost, Lost{
			What: "what the log of the newest samples held after its damage", Path: filepath.Join(cfg.Dir, "wal"), Err: errors.New(heard.repaired), Mended: true,
		})
	}
	return s, nil
}

// listener passes the log of the TSDB on and hears when it mends its log: it says so nowhere else.
type listener struct {
	slog.Handler
	repaired string
}

// Enabled implements slog.Handler. What the TSDB says of its daily work is no news for an operator.
func (l *listener) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler. It is called by the goroutine that opens while repaired is read.
func (l *listener) Handle(ctx context.Context, rec slog.Record) error {
	if strings.Contains(rec.Message, "attempting repair") {
		l.repaired = rec.Message
		rec.Attrs(func(a slog.Attr) bool {
			l.repaired += ": " + a.Value.String()
			return true
		})
	}
	if !l.Handler.Enabled(ctx, rec.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, rec)
}

// external reports whether an error is of the machine and not of what is in the files: setting files aside does not help.
func external(err error) bool {
	for _, e := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, fs.ErrPermission,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

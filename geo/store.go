package geo

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// Config says which sources a Store loads.
type Config struct {
	// Lists are prefix list files of the operator, the most preferred first. They beat every database. Empty: none.
	Lists []string
	// Databases are files of any other format (see ReadFile), the most preferred first. Empty: none.
	Databases []string
	// NoBuiltin leaves the built-in country table out. Default false: it is the last source, for addresses of which no
	// other one knows the country.
	NoBuiltin bool
}

// Open loads all sources of a configuration. The error joins what is wrong with each file; then there is no DB.
func Open(cfg Config) (*DB, error) {
	var sources []*Source
	var errs []error
	for _, path := range slices.Concat(cfg.Lists, cfg.Databases) {
		s, err := ReadFile(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sources = append(sources, s)
	}
	if !cfg.NoBuiltin {
		s, err := Builtin()
		if err != nil {
			errs = append(errs, err)
		}
		sources = append(sources, s)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return New(sources...), nil
}

// Store holds the current DB and replaces it whole: a reader sees the old one or the new one. Each file is followed by
// itself: one that turns out bad keeps what was loaded of it before, and the others are taken. A file is read again
// only when it was replaced: another inode, time of change or size.
type Store struct {
	cfg    Config
	reload sync.Mutex // one Reload at a time; guards files
	files  []*followed
	db     atomic.Pointer[DB]
}

// followed is one file of the configuration.
type followed struct {
	path   string
	source *Source     // what is in use, nil before a first good load
	seen   os.FileInfo // of the file that source or err is from; nil: never read
	// writing is how the file looked when it was found changed in place. Its writer may not be done: it is taken when it
	// looks the same at the next look.
	writing os.FileInfo
	err     error // why the newest file is not in use, or nil
}

// NewStore returns a store that holds the built-in table only (or nothing, with NoBuiltin) until the first Reload. The
// error is that of a damaged build.
func NewStore(cfg Config) (*Store, error) {
	db, err := Open(Config{NoBuiltin: cfg.NoBuiltin})
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	for _, path := range slices.Concat(cfg.Lists, cfg.Databases) {
		s.files = append(s.files, &followed{path: path})
	}
	s.db.Store(db)
	return s, nil
}

// DB returns the current database, never nil. A caller uses one DB for one piece of work.
func (s *Store) DB() *DB { return s.db.Load() }

// Reload is a look at every file: those that were replaced are loaded, and what is good becomes current. changed is
// false when nothing differs from the current DB. The error joins why files are not in use; of those what was loaded
// before stays, and the others are in use: raise an alarm and go on. A file of which nothing was ever loaded is left out.
func (s *Store) Reload() (changed bool, err error) {
	s.reload.Lock()
	defer s.reload.Unlock()
	var sources []*Source
	var errs []error
	for _, f := range s.files {
		f.look()
		if f.source != nil {
			sources = append(sources, f.source)
		}
		errs = append(errs, f.err)
	}
	if !s.cfg.NoBuiltin {
		b, err := Builtin()
		if err != nil {
			return false, err
		}
		sources = append(sources, b)
	}
	if now := s.DB().sources; !slices.EqualFunc(sources, now, func(a, b *Source) bool { return a.info == b.info }) {
		s.db.Store(New(sources...))
		changed = true
	}
	return changed, errors.Join(errs...)
}

// look loads the file if it is another one than before. One that is the same file, changed in place, is left for the
// next look: half a file may pass its checks. A rename is taken at once.
func (f *followed) look() {
	now, err := os.Stat(f.path)
	if err != nil {
		f.fail(nil, &Error{Code: CodeRead, File: f.path, Msg: "cannot read the file", Err: errors.Unwrap(err)})
		return
	}
	if f.seen != nil && unchanged(f.seen, now) {
		f.writing = nil
		return
	}
	if f.seen != nil && os.SameFile(f.seen, now) && (f.writing == nil || !unchanged(f.writing, now)) {
		f.writing = now
		return
	}
	source, err := ReadFile(f.path)
	if after, statErr := os.Stat(f.path); statErr != nil || !unchanged(now, after) {
		f.writing = after // it moved while it was read; nil when it is gone
		return
	}
	f.writing = nil
	if err != nil {
		f.fail(now, err)
		return
	}
	f.source, f.seen, f.err = source, now, nil
}

func (f *followed) fail(seen os.FileInfo, err error) { f.seen, f.err = seen, err }

// unchanged says that two looks at a path saw the same file with the same content, as far as can be seen.
func unchanged(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Unsettled says that a file is being written: look again soon.
func (s *Store) Unsettled() bool {
	s.reload.Lock()
	defer s.reload.Unlock()
	return slices.ContainsFunc(s.files, func(f *followed) bool { return f.writing != nil })
}

// FileState is how it stands with one file of the configuration.
type FileState struct {
	Path string
	Err  error // why the newest file is not in use; nil: it is
	// Kept says that what was loaded before of this file is in use in its place.
	Kept bool
}

// Files says how it stands with each file, in the order of the configuration.
func (s *Store) Files() []FileState {
	s.reload.Lock()
	defer s.reload.Unlock()
	all := make([]FileState, len(s.files))
	for i, f := range s.files {
		all[i] = FileState{Path: f.path, Err: f.err, Kept: f.err != nil && f.source != nil}
	}
	return all
}
